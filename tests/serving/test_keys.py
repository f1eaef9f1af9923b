"""Who is let in: with which key, to what; and nothing says a key."""

from __future__ import annotations

import pytest

from appl.parts.web import Keys
from appl.testing import Served, serving

from .conftest import Client, connect

ROUTES = [
    ("POST", "/generate"), ("POST", "/v1/chat/completions"), ("POST", "/v1/completions"),
    ("GET", "/v1/models"), ("GET", "/server_info"), ("GET", "/health_generate"), ("GET", "/get_server_info"),
    ("GET", "/model_info"), ("GET", "/v1/loads"), ("POST", "/tokenize"), ("POST", "/abort_request"),
    ("POST", "/flush_cache"), ("GET", "/flush_cache"), ("POST", "/shutdown"), ("GET", "/nothing"),
]  # fmt: skip
WRONG = [None, "", "Bearer", "Bearer wrong", "Basic {key}", "{key}", "Bearer {key}x"]


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_no_route_opens_without_its_key(client: Client, method: str, path: str) -> None:
    for wrong in WRONG:
        value = (wrong or "").replace("{key}", client.server.api_key or "")
        headers = {} if wrong is None else {"Authorization": value}
        found = client.http.request(method, path, json={}, headers=headers)
        assert (found.status_code, found.json()) == (401, {"error": "Unauthorized"}), wrong


@pytest.mark.parametrize("path", ["/flush_cache", "/shutdown"])
def test_the_ordinary_key_does_not_administrate(client: Client, path: str) -> None:
    assert client.post(path).status_code == 401


def test_the_key_of_administration_opens_the_rest_as_well(client: Client) -> None:
    assert client.post("/tokenize", {"prompt": "x"}, admin=True).status_code == 200


@pytest.mark.parametrize("path", ["/health", "/metrics"])
def test_probes_need_no_key(client: Client, path: str) -> None:
    assert client.http.get(path).status_code == 200


def test_keys_are_random_and_long(client: Client) -> None:
    one, two = Keys.of(None), Keys.of(None)
    assert len({one.api, one.admin, two.api, two.admin}) == 4
    assert all(len(key or "") >= 32 for key in (one.api, one.admin))


def test_a_given_key_is_used_and_none_is_needed_with_none(keyless: Served) -> None:
    with serving("--api-key", "kéy") as server:
        assert server.api_key == "kéy" and server.admin_key
    client = connect(keyless)
    assert keyless.headers == keyless.admin_headers == {}
    assert client.get("/v1/models")["data"][0]["id"] == "embedded"
    assert client.post("/flush_cache").status_code == 200


def test_a_key_that_is_no_text_of_a_header_is_compared_all_the_same() -> None:
    keys = Keys("kéy", "admin")
    assert keys.allow("/generate", "Bearer kéy", admin=False)
    assert not keys.allow("/generate", "Bearer \udce9", admin=False)
    assert Keys(None, "admin").allow("/generate", None, admin=False)
    assert not Keys(None, "admin").allow("/shutdown", "Bearer x", admin=True)


def test_pages_of_other_sites_are_kept_out_where_no_key_does(keyless: Served) -> None:
    with connect(keyless).http as http:
        for site, status in (
            ("cross-site", 403),
            ("same-site", 403),
            ("same-origin", 200),
            ("none", 200),
        ):
            found = http.get("/flush_cache", headers={"Sec-Fetch-Site": site})
            assert found.status_code == status

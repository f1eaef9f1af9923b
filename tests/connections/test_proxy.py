from __future__ import annotations

import pytest

from appl.errors import ConfigError
from appl_backends.http.proxy import Proxy, proxy_of

ALL = {"ALL_PROXY": "http://all:1", "HTTPS_PROXY": "http://safe:2", "http_proxy": "plain:3"}


@pytest.mark.parametrize(
    ("scheme", "environment", "host"),
    [
        ("https", {}, None),
        ("https", ALL, "safe"),
        ("http", ALL, "plain"),
        ("http", {"ALL_PROXY": "http://all:1"}, "all"),
        ("https", {**ALL, "https_proxy": "http://lower:2"}, "lower"),
        ("https", {"HTTP_PROXY": "http://plain:3"}, None),
        ("http", {"HTTP_PROXY": "http://plain:3"}, "plain"),
        ("http", {"HTTP_PROXY": "http://plain:3", "REQUEST_METHOD": "GET"}, None),
        ("https", {"HTTPS_PROXY": "  "}, None),
    ],
)
def test_the_proxy_is_that_of_the_scheme(
    scheme: str, environment: dict[str, str], host: str | None
) -> None:
    proxy = proxy_of(scheme, "api.example.com", 443, environment)
    assert (proxy and proxy.host) == host


@pytest.mark.parametrize(
    ("host", "exceptions", "direct"),
    [
        ("api.example.com", "example.com", True),
        ("api.example.com", ".example.com", True),
        ("api.example.com", "*.example.com", True),
        ("example.com", ".example.com", True),
        ("badexample.com", "example.com", False),
        ("api.example.com", "a, API.example.com ,b", True),
        ("api.example.com", "*", True),
        ("api.example.com", "example.com:443", True),
        ("api.example.com", "example.com:80", False),
        ("10.1.2.3", "10.0.0.0/8", True),
        ("11.1.2.3", "10.0.0.0/8", False),
        ("fd00::1", "fd00::/8", True),
        ("fd00::1", "[fd00::1]", True),
        ("api.example.com", "", False),
        ("localhost", "", True),
        ("model.localhost", "", True),
        ("127.0.0.5", "", True),
        ("::1", "", True),
    ],
)
def test_some_servers_are_asked_without_the_proxy(host: str, exceptions: str, direct: bool) -> None:
    found = proxy_of("https", host, 443, {**ALL, "NO_PROXY": exceptions})
    assert (found is None) == direct


def test_user_and_password_of_a_proxy_are_sent_and_not_shown() -> None:
    proxy = proxy_of("https", "a.b", 443, {"HTTPS_PROXY": "http://me:pa%20ss@safe:2"})
    assert proxy == Proxy("safe", 2, "Basic bWU6cGEgc3M=") and "Basic" not in repr(proxy)


@pytest.mark.parametrize("url", ["socks5://me:secret@x:1", "https://x", "http://", "http://x:y"])
def test_a_proxy_of_another_kind_is_refused_by_the_name_of_its_variable(url: str) -> None:
    with pytest.raises(ConfigError, match=r"ALL_PROXY.*NO_PROXY") as caught:
        proxy_of("https", "a.b", 443, {"ALL_PROXY": url})
    assert "secret" not in str(caught.value)

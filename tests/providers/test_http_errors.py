"""What HTTP says becomes one error, with the time to wait and without a key."""

from __future__ import annotations

import json
from collections.abc import Callable
from email.utils import formatdate

import pytest
from hypothesis import given, strategies as st

from appl.backend.http import (
    EXCERPT,
    describe_server,
    error_of_payload,
    errors_of_http,
    host_of,
    masked,
    not_json,
    retry_after,
    unreachable,
)
from appl.errors import (
    AuthenticationFailed,
    BackendBusy,
    BackendError,
    BackendRefused,
    BackendUnavailable,
    ConfigError,
    MalformedResponse,
    ModelNotFound,
    PromptTooLong,
)
from appl_backends.litellm import LiteLLM
from appl_backends.openai import OpenAI
from appl_backends.sglang import SGLang

NOW = 1_795_000_000.0
WHO = "openai (model gpt-5 at api.openai.com)"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": "0"}, 0.0),
        ({"RETRY-AFTER": "1.5"}, 1.5),
        ({"Retry-After": formatdate(NOW + 30, usegmt=True)}, 30.0),
        ({"Retry-After": formatdate(NOW - 30, usegmt=True)}, 0.0),
        ({"Retry-After": str(int(NOW + 12))}, 12.0),
        ({"retry-after-ms": "250", "Retry-After": "9"}, 0.25),
        ({"retry-after-ms": "250.5"}, 0.2505),
        ({"x-ratelimit-reset-requests": "1s"}, 1.0),
        ({"x-ratelimit-reset-requests": "6m0s"}, 360.0),
        ({"x-ratelimit-reset-tokens": "500ms"}, 0.5),
        ({"x-ratelimit-reset-tokens": "1h2m3.5s"}, 3723.5),
        ({"x-ratelimit-reset": str(int(NOW * 1000) + 2500)}, 2.5),
        ({"x-ratelimit-reset": str(int(NOW) + 40)}, 40.0),
        ({"anthropic-ratelimit-requests-reset": "2026-11-18T11:07:10Z"}, None),
        ({"ratelimit-reset": "3"}, 3.0),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": ""}, None),
        ({}, None),
    ],
)  # fmt: skip
def test_every_form_of_retry_after_is_read(headers: dict[str, str], seconds: float | None) -> None:
    found = retry_after(headers, now=NOW)
    if "anthropic-ratelimit-requests-reset" in headers:
        assert found == 1_795_000_030.0 - NOW
    else:
        assert found == (None if seconds is None else pytest.approx(seconds))


def test_of_several_limits_the_one_that_is_used_up_counts() -> None:
    headers = {
        "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "2s",
        "x-ratelimit-remaining-tokens": "9000", "x-ratelimit-reset-tokens": "50s",
    }  # fmt: skip
    assert retry_after(headers, now=NOW) == 2.0
    del headers["x-ratelimit-remaining-requests"]
    assert retry_after(headers, now=NOW) == 50.0


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        ('{"error": {"details": [{"retryDelay": "17s"}]}}', 17.0),
        ("Rate limit reached. Please try again in 1.2s. Visit", 1.2),
        ("Please try again in 6m30s.", 390.0),
        ("please retry after 20 seconds", 20.0),
        ("try again in 90ms", 0.09),
        ("try again in a while", None),
    ],
)
def test_a_time_to_wait_in_the_body_is_read(body: str, seconds: float | None) -> None:
    assert retry_after({}, body, NOW) == (None if seconds is None else pytest.approx(seconds))


@given(st.text(max_size=40))
def test_no_header_breaks_the_reading(value: str) -> None:
    found = retry_after({"Retry-After": value, "x-ratelimit-reset": value}, value, NOW)
    assert found is None or found >= 0.0


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, "bad parameter", BackendRefused),
        (400, '{"error": {"code": "context_length_exceeded", "message": "x"}}', PromptTooLong),
        (400, "This model's maximum context length is 8192 tokens", PromptTooLong),
        (400, "the request exceeds the available context size", PromptTooLong),
        (400, "The input (90 tokens) is longer than the model's context length", PromptTooLong),
        (400, '{"error": {"code": "content_filter"}}', BackendRefused),
        (400, "API key not valid. Please pass a valid API key.", AuthenticationFailed),
        (401, "", AuthenticationFailed),
        (402, "", BackendRefused),
        (403, "", AuthenticationFailed),
        (404, '{"error": {"message": "model \'x\' not found, try pulling it first"}}', ModelNotFound),
        (404, '{"error": {"code": "model_not_found"}}', ModelNotFound),
        (404, "404 page not found", BackendRefused),
        (405, "", BackendRefused),
        (408, "", BackendUnavailable),
        (409, "", BackendUnavailable),
        (413, "", BackendRefused),
        (422, "", BackendRefused),
        (429, "", BackendBusy),
        (429, '{"error": {"code": "insufficient_quota"}}', BackendRefused),
        (500, "", BackendUnavailable),
        (501, "", BackendRefused),
        (502, "<html>Bad gateway</html>", BackendUnavailable),
        (503, "", BackendUnavailable),
        (503, "The request queue is full.", BackendBusy),
        (504, "", BackendUnavailable),
        (529, "overloaded", BackendBusy),
        (302, "", BackendRefused),
        (200, '{"error": "no"}', MalformedResponse),
    ],
)  # fmt: skip
def test_a_status_is_one_error(status: int, body: str, kind: type[BackendError]) -> None:
    error = errors_of_http(status, {}, body, WHO)
    assert type(error) is kind
    assert error.status == status and f"{WHO} answered {status}" in str(error)


def test_a_503_that_says_when_is_busy() -> None:
    error = errors_of_http(503, {"Retry-After": "3"}, "", WHO)
    assert isinstance(error, BackendBusy) and error.retry_after == 3.0 and error.retriable


def test_what_is_not_asked_again_has_no_time_to_wait() -> None:
    error = errors_of_http(429, {"Retry-After": "3"}, "insufficient_quota", WHO)
    assert error.retry_after is None and not error.retriable


@given(st.integers(100, 599), st.text(max_size=30))
def test_every_status_is_typed_and_every_text_is_short(status: int, body: str) -> None:
    error = errors_of_http(status, {}, body, "b")
    assert isinstance(error, BackendError) and len(str(error)) < EXCERPT + 120


@pytest.mark.parametrize(
    ("payload", "kind"),
    [
        ({"error": {"message": "slow down", "code": 429}}, BackendBusy),
        ({"message": "slow down", "type": "rate_limit_error"}, BackendBusy),
        ({"error": {"message": "boom"}}, BackendUnavailable),
        ({"error": "boom"}, BackendUnavailable),
        ({"error": {"message": "no", "code": "400"}}, BackendRefused),
        ("boom", BackendUnavailable),
        (None, BackendUnavailable),
    ],
)
def test_an_error_inside_a_stream_is_typed(payload: object, kind: type[BackendError]) -> None:
    assert type(error_of_payload(payload, WHO)) is kind


def test_the_message_of_the_server_is_shown_and_not_its_wrapping() -> None:
    bodies = [
        '{"error": {"message": "no such thing"}}', '[{"error": {"message": "no such thing"}}]',
        '{"detail": "no such thing"}', '{"message": "no such thing"}', "no such thing",
        '{"detail": [{"msg": "no such thing"}]}',
    ]  # fmt: skip
    for body in bodies:
        assert str(errors_of_http(400, {}, body, WHO)) == f"{WHO} answered 400: no such thing"


def test_no_error_shows_a_key() -> None:
    key = "q8Zk-not-of-any-known-form-2b"
    shapes = [
        f"Incorrect API key provided: {key}", json.dumps({"error": {"message": f"got {key}"}}),
        "Authorization: Bearer abcdef123456", '{"api_key": "zzzzzzzzzz"}', "sk-proj-1234567890abc",
        "https://user:pass1234@host/path?api_key=abcdefgh", "x-api-key=0123456789",
        "AIzaSyA1234567890abcdef",
    ]  # fmt: skip
    secrets = ["abcdef123456", "zzzzzzzzzz", "1234567890abc", "pass1234", "abcdefgh", key]
    for body in shapes:
        for error in (
            errors_of_http(401, {}, body, WHO, secrets=[key]),
            not_json(body, WHO, secrets=[key]),
            unreachable(OSError(body), WHO, secrets=[key]),
        ):
            assert not any(secret in str(error) for secret in (*secrets, "0123456789"))


def test_ordinary_words_are_not_masked() -> None:
    for text in (
        "max_tokens must be positive", "the token count is 512", "a key idea; tokens: 17",
        "desk-based work", "key: value", "secret santa",
    ):  # fmt: skip
        assert masked(text) == text


def test_a_page_with_status_200_says_so() -> None:
    error = not_json("<!DOCTYPE html><title>Login</title>", WHO, content_type="text/html")
    assert isinstance(error, MalformedResponse) and error.retriable
    assert "an HTML page" in str(error) and "base_url" in str(error)
    assert "with nothing" in str(not_json("", WHO))


def test_who_was_asked_is_said_without_credentials() -> None:
    url = "https://me:secret1@gateway.example:8443/v1?key=abc"
    assert describe_server("openai", "m", url) == "openai (model m, at gateway.example:8443)"
    assert describe_server("openai") == "openai"
    assert host_of("http://[bad") == ""


def test_a_connection_says_whether_it_had_begun() -> None:
    before, during = OSError("refused"), ConnectionResetError()
    assert "cannot be reached (refused)" in str(unreachable(before, WHO))
    shown = str(unreachable(during, WHO, begun=True))
    assert "broke the connection off (ConnectionResetError)" in shown


SECRET = "hunter2-secret"
MAKERS = (
    lambda url: OpenAI(base_url=url),
    lambda url: OpenAI(azure_endpoint=url, api_version="1"),
    lambda url: LiteLLM(base_url=url),
    lambda url: LiteLLM(parameters={"api_base": url}),
    lambda url: SGLang(url=url),
)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    ("url", "problem"),
    [
        (f"https://user:{SECRET}@host/v1", "must not hold a user or password, got 'https://\\*"),
        (f"https://{SECRET}@host:80/v1?key=1", "must not hold"),
        (f"http://user:a@{SECRET}@host", "must not hold"),
        (f"http://user:a/{SECRET}@host", "must be http://host:port"),
        (f"ftp://user:{SECRET}@host", "must begin with http"),
        ("http:///v1", "must be http://host:port"),
        ("http://host:8o/v1", "must be http://host:port"),
    ],
)
def test_a_url_that_nobody_could_use_is_refused_at_once_and_its_password_not_told(
    make: Callable[[str], object], url: str, problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem) as refused:
        make(url)
    assert SECRET not in str(refused.value)


def test_urls_of_the_environment_are_no_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"http://user:{SECRET}@host"
    for name, make in (("OPENAI_BASE_URL", OpenAI), ("SGLANG_URL", SGLang)):
        monkeypatch.setenv(name, url)
        with pytest.raises(ConfigError, match="must not hold"):
            make()

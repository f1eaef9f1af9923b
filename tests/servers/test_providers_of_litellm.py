"""Each provider that litellm knows keeps the one rule: no redirect is followed, nothing is tried twice.

The list is litellm's own, so that a provider that a new version asks in another way fails here.
"""

from __future__ import annotations

import importlib
import json
from typing import Any

import httpx
import pytest

from appl.errors import BackendError, BackendRefused, MalformedResponse, Unsupported
from appl.testing import Fault, FaultServer
from appl_backends.guard import guard_clients, question
from appl_backends.litellm import BLOCKING, LiteLLM
from tests.drawn import counts
from tests.providers.asking import JSON, KEY, closing, request

ELSEWHERE = frozenset(
    {"bytez", "chatgpt", "gdc", "gigachat", "github_copilot", "oci", "replicate", "sap"}
)
"""Providers that litellm asks, or logs into, at their own addresses whatever the base_url is."""

MODELS = {
    "azure": "x", "bedrock": "anthropic.claude-3-sonnet-20240229-v1:0", "huggingface": "x/y",
    "clarifai": "a.b.c", "gemini": "gemini-2.0-flash",
}  # fmt: skip
PARAMETERS = {
    "api_version": "2024-02-01", "project_id": "p", "tenant_id": "t", "token": "t",
    "aws_access_key_id": "AKIA0123456789", "aws_secret_access_key": "s" * 20,
    "aws_region_name": "us-east-1",
}  # fmt: skip
OWN = {
    "azure": ("api_version",), "azure_text": ("api_version",), "predibase": ("tenant_id",),
    "watsonx": ("project_id", "token"), "watsonx_text": ("project_id", "token"),
    "bedrock": ("aws_access_key_id", "aws_secret_access_key", "aws_region_name"),
    "sagemaker": ("aws_access_key_id", "aws_secret_access_key", "aws_region_name"),
    "sagemaker_chat": ("aws_access_key_id", "aws_secret_access_key", "aws_region_name"),
}  # fmt: skip


class AnyServer(FaultServer):
    """Takes a request of any form as a question."""

    def _asked(self, link: Any, method: str, path: str, headers: Any, body: bytes) -> None:
        try:
            json.loads(body)
        except ValueError:
            body = b"{}"
        super()._asked(link, "POST", path, headers, body)


async def providers() -> list[str]:
    await LiteLLM().connect()  # its import asks nobody
    litellm = importlib.import_module("litellm")
    known = {str(getattr(each, "value", each)) for each in litellm.provider_list}
    return sorted(known - ELSEWHERE)


async def outcome(server: FaultServer, provider: str, stream: bool) -> BackendError | None:
    """The error that comes of a question to *provider* at *server*."""
    parameters = {name: PARAMETERS[name] for name in OWN.get(provider, ())}
    if provider.startswith("sagemaker"):
        parameters["sagemaker_base_url"] = server.url
    asked = request("q", model=f"{provider}/{MODELS.get(provider, 'x')}")
    backend = LiteLLM(base_url=server.openai_url, api_key=KEY, parameters=parameters)
    try:
        async with closing(backend):
            await backend.complete(asked, (lambda chunk: None) if stream else None)
    except BackendError as error:
        return error
    return None


@counts(2, 1, "step")
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_no_provider_of_litellm_is_followed_elsewhere_or_asked_twice(
    stream: bool, step: int
) -> None:
    """Each provider is asked in one of the two ways, and in both in the long tests."""
    refused: list[str] = []
    with FaultServer() as other:
        moved = Fault("moved", 307, {"Location": f"{other.openai_url}/chat/completions"}, b"")
        with AnyServer(lambda ask: moved) as server:
            for provider in (await providers())[int(stream) % step :: step]:
                before = len(server.asks)
                error = await outcome(server, provider, stream)
                assert error is not None and not other.connections, provider
                assert len(server.asks) - before <= 1, provider
                if len(server.asks) > before:
                    assert isinstance(error, BackendRefused), (provider, error)
                    assert "not followed" in str(error) and KEY not in str(error)
                    refused.append(provider)
                if provider in BLOCKING:
                    assert isinstance(error, Unsupported), provider
    assert len(refused) >= 80 / step and not {*refused} & BLOCKING, len(refused)


@counts(2, 1, "step")
async def test_what_any_provider_of_litellm_echoes_is_masked_and_asked_once(step: int) -> None:
    said = json.dumps({"error": {"message": f"wrong key {KEY} {KEY[3:]}", "code": 500}}).encode()
    with AnyServer(lambda ask: Fault("echo", 500, {}, said)) as server:
        for provider in (await providers())[1 % step :: step]:
            before = len(server.asks)
            error = await outcome(server, provider, False)
            assert error is not None and KEY not in str(error), (provider, error)
            assert KEY not in repr(error.__cause__) and len(server.asks) - before <= 1, provider


@pytest.mark.parametrize(
    "provider", ["anthropic", "cohere", "gemini", "mistral", "ollama", "watsonx"]
)
async def test_a_long_answer_in_a_providers_own_interface_is_refused(provider: str) -> None:
    long = b'{"text": "' + b"x" * (20 << 20)
    for status, kind in ((200, MalformedResponse), (400, BackendRefused)):
        with AnyServer(lambda ask, status=status: Fault("long", status, JSON, long)) as server:
            error = await outcome(server, provider, False)
        assert type(error) is kind and len(str(error)) < 1000, error


def test_a_blocking_client_follows_no_redirect_and_reads_no_more_than_it_may() -> None:
    guard_clients(httpx)
    long, failed = b"x" * (20 << 20), b"no" * (1 << 20)
    with FaultServer() as other:
        faults = [Fault("moved", 307, {"Location": other.url}, b""), Fault("long", 200, {}, long),
                  Fault("failed", 400, {}, failed), Fault("right", 200, {}, b"fine")]  # fmt: skip
        with FaultServer(faults) as server, httpx.Client(follow_redirects=True) as client:
            with pytest.raises(BackendRefused, match="not followed"), question("who"):
                client.post(server.url, json={})
            with pytest.raises(MalformedResponse, match="more than 16 MiB"), question("who"):
                client.post(server.url, json={})
            with question("who"):
                assert len(client.post(server.url, json={}).content) == 1 << 14
                assert client.post(server.url, json={}).content == b"fine"
        assert not other.connections

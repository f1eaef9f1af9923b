"""The account at OpenAI or Azure, as the openai SDK finds it in settings and environment.

The SDK says where a question goes and with which headers: it knows the paths, versions and tokens
of Azure, and the variables that name a key, an organization, a project or further headers. Its
connections, retries and answers are not used.

Invariant: nothing is sent; the SDK is imported off the I/O loop, at the first question.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Mapping
from typing import Any

from appl.base.extras import needed_by_backend
from appl.errors import AuthenticationFailed
from appl_backends.openai.settings import ServerSettings

_OF_CONNECTION = frozenset({"accept-encoding", "connection", "content-length", "host"})


async def question_of_account(
    settings: ServerSettings, method: str, path: str, who: str
) -> tuple[str, dict[str, str]]:
    """The URL of a question, and its headers. Raises ``BackendError`` without the SDK or a key."""
    with needed_by_backend("openai"):
        openai = await asyncio.to_thread(importlib.import_module, "openai")
    http = importlib.import_module("httpx" if openai.__version__[:2] == "2." else "httpx2")
    seen: list[Any] = []

    def note(request: Any) -> Any:
        seen.append(request)
        return http.Response(200, json={})

    async with http.AsyncClient(transport=http.MockTransport(note), trust_env=False) as client:
        sdk, headers = _sdk(openai, settings, client, who)
        ask = sdk.post if method == "POST" else sdk.get
        await ask(path, cast_to=http.Response, options={"headers": headers})
    request = seen[0]
    items: Mapping[str, str] = request.headers
    return str(request.url), {
        name: value for name, value in items.items() if name.lower() not in _OF_CONNECTION
    }


def _sdk(
    openai: Any, settings: ServerSettings, client: Any, who: str
) -> tuple[Any, dict[str, Any]]:
    """The SDK's client, and the headers of every question."""
    try:
        return _made(openai, settings, client)
    except openai.OpenAIError as error:
        failure = str(error).split("\n")[0]
    why = "" if failure.startswith("Missing credentials") else f" ({failure})"
    raise AuthenticationFailed(
        f"{who}: no key{why}; type export OPENAI_API_KEY=YOUR_KEY, or write "
        'api_key = {env = "NAME_OF_A_VARIABLE"} into its settings'
    )


def _made(openai: Any, settings: ServerSettings, client: Any) -> tuple[Any, dict[str, Any]]:
    headers: dict[str, Any] = {"Content-Type": "application/json"}
    common = {
        "api_key": settings.api_key,
        "organization": settings.organization,
        "project": settings.project,
        "default_headers": dict(settings.headers),
        "max_retries": 0,
        "http_client": client,
    }
    if settings.is_azure:
        where = {"azure_endpoint": settings.azure_endpoint} if settings.azure_endpoint else {}
        token, version = settings.azure_ad_token, settings.api_version
        sdk = openai.AsyncAzureOpenAI(**where, azure_ad_token=token, api_version=version, **common)
        return sdk, headers
    if settings.base_url is not None and settings.api_key is None:
        headers["Authorization"] = openai.Omit()  # a server that needs no key
        common["api_key"] = "none"
    return openai.AsyncOpenAI(base_url=settings.base_url, **common), headers

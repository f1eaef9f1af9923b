"""The openai SDK as a way to send bytes: addresses, keys and connections, and nothing else of it.

Invariant: the SDK is imported off the I/O loop at the first call, its client made on the loop; it
neither retries nor reads answers. Whatever it raises becomes a ``BackendError`` without the
request, whose headers hold the key.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from appl.backend_check import text_in
from appl.backend_http import errors_of_http, excerpt, read_json, unreachable
from appl.errors import (
    AuthenticationFailed,
    BackendError,
    BackendTimeout,
    BackendUnavailable,
    MalformedResponse,
    MissingBackendExtra,
)
from appl.extras import absent, advice, needed_by_backend
from appl.price_table import seller_at
from appl_backends.guard import alone, guarded_send, question

IDLE_S = 4.0
"""How long a connection is kept: less than the 5 s after which most servers close it."""

_LIBRARIES = frozenset({"openai", "httpx", "httpx2", "httpcore", "httpcore2", "aiohttp", "anyio"})


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """The server and the account: the arguments of the SDK's client. ``repr`` shows no key."""

    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    organization: str | None = None
    project: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    azure_endpoint: str | None = None
    azure_ad_token: str | None = field(default=None, repr=False)
    api_version: str | None = None
    connect_s: float = 10.0

    @property
    def is_azure(self) -> bool:
        """True if it is reached as Azure is: by deployments and versions of the interface."""
        return bool(self.azure_endpoint or self.api_version)

    @property
    def seller(self) -> str | None:
        """The provider that is paid, if the address belongs to one whose prices are known."""
        if self.is_azure:
            endpoint = self.azure_endpoint or self.base_url
            return seller_at(endpoint or os.environ.get("AZURE_OPENAI_ENDPOINT"))
        return "openai" if self.base_url is None else seller_at(self.base_url)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that must not be shown."""
        parts = urlsplit(self.base_url or "")
        asked = (value for _, value in parse_qsl(parts.query))
        found = (
            self.api_key,
            self.azure_ad_token,
            *self.headers.values(),
            *asked,
        )
        return tuple(secret for secret in found if secret and len(secret) > 3)


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A whole answer with status 200."""

    body: bytes
    content_type: str


class SdkConnection:
    """The connections to one server. All methods run on one loop."""

    def __init__(self, address: ClientSettings) -> None:
        self._address = address
        self._client: asyncio.Task[_Client] | None = None
        self._closed = False

    async def ready(self, who: str) -> None:
        """Have the SDK and its client. Raises ``BackendError``."""
        await self._ready(who)

    async def post(self, body: bytes, model: str, who: str) -> HttpAnswer:
        """Send *body* for *model*, and read the whole answer. Raises ``BackendError``."""
        client = await self._ready(who)
        path = _path(self._address, "chat/completions", model)
        try:
            with question(who):
                response = await client.sdk.post(
                    path, cast_to=client.response, content=body, options=client.options
                )
            return HttpAnswer(response.content, response.headers.get("content-type", ""))
        except Exception as error:
            failed = self._typed(error, who, begun=False)
        raise alone(failed) from None

    @contextlib.asynccontextmanager
    async def stream(
        self, body: bytes, model: str, who: str
    ) -> AsyncIterator[tuple[str, AsyncIterator[bytes]]]:
        """Send *body*; the content type of the answer, and its bytes as they come."""
        client = await self._ready(who)
        path = _path(self._address, "chat/completions", model)
        failed: BackendError | None = None
        response: Any = None
        try:
            with question(who):
                response = await client.sdk.post(
                    path,
                    cast_to=client.response,
                    content=body,
                    options=client.options,
                    stream=True,
                    stream_cls=client.stream,
                )
            yield response.headers.get("content-type", ""), response.aiter_bytes()
        except Exception as error:
            failed = self._typed(error, who, begun=response is not None)
        finally:
            if response is not None:
                await response.aclose()
        if failed is not None:
            raise alone(failed) from None

    async def models(self, who: str) -> list[str]:
        """The models that the server lists. Raises ``BackendError``."""
        client = await self._ready(who)
        try:
            with question(who):
                page = await client.sdk.get(
                    "/models", cast_to=client.response, options=client.options
                )
            listed = read_json(page.content)["data"]
            return [text_in(each["id"], "id") for each in listed]
        except (KeyError, TypeError, ValueError):
            return []
        except Exception as error:
            failed = self._typed(error, who, begun=False)
        raise alone(failed) from None

    async def aclose(self) -> None:
        """Close all connections; what is asked later is refused."""
        self._closed = True
        task, self._client = self._client, None
        if task is not None and not task.cancelled():
            with contextlib.suppress(BackendError):  # it was never made
                await (await task).sdk.close()

    async def _ready(self, who: str) -> _Client:
        if self._closed:
            raise BackendUnavailable(f"{who}: the backend is closed", worked=False)
        # All requests wait for one client. The shield keeps a request that is cancelled from
        # cancelling it for the others.
        task = self._client
        if task is None:
            task = self._client = asyncio.ensure_future(_made(self._address, who))
        try:
            return await asyncio.shield(task)
        except BackendError:
            # The next request tries again, as the environment may have a key by then; but only the
            # first of those that waited drops the failed client, or it would drop a newer one.
            if self._client is task:
                self._client = None
            raise

    def _typed(self, error: Exception, who: str, *, begun: bool) -> BackendError:
        """*error* as one of ours; one that neither SDK nor network raised is raised again."""
        if isinstance(error, BackendError):
            return error
        secrets = self._address.secrets
        status = getattr(error, "status_code", None)
        response = getattr(error, "response", None)
        if status is not None and response is not None:
            return errors_of_http(status, response.headers, response.text, who, secrets=secrets)
        network = _network(error, who, begun, secrets)
        if network is None:
            raise error
        return network


_LATE = frozenset({"APITimeoutError", "TimeoutException", "TimeoutError"})
_UNMADE = frozenset({"ClientConnectorError", "ConnectError", "ConnectionRefusedError", "gaierror"})
_UNMADE_IN_TIME = frozenset({"ConnectTimeout", "ConnectionTimeoutError"})
_BROKEN = frozenset({"ClientPayloadError", "ServerDisconnectedError"})
_GARBLED = frozenset({"BadHttpMessage", "BadStatusLine", "HttpProcessingError", "DecodingError"})


def _network(
    error: BaseException, who: str, begun: bool, secrets: tuple[str, ...]
) -> BackendError | None:
    """The error of ours for a library's network error; ``None`` for a bug.

    The libraries wrap each other's exceptions, now and then as another kind: the first one, which
    aiohttp or the system raised, decides.
    """
    chain = [error]
    while (before := chain[-1].__cause__ or chain[-1].__context__) is not None:
        chain.append(before)
    if not any(_is_foreign(each) for each in chain):
        return None
    near = [each for each in chain if _is_near(each)] or chain
    names = {kind.__name__ for each in near for kind in type(each).__mro__}
    if names & _GARBLED and not names & _BROKEN:
        return MalformedResponse(f"{who} sent what is no HTTP ({excerpt(str(near[-1]), secrets)})")
    if names & _LATE:
        deadline = "connect" if names & _UNMADE_IN_TIME else "first token"
        return BackendTimeout(f"{who} took too long ({deadline})", deadline=deadline)
    return unreachable(near[0], who, begun=begun or not names & _UNMADE, secrets=secrets)


def _is_near(error: BaseException) -> bool:
    return type(error).__module__.startswith("aiohttp") or isinstance(error, OSError | EOFError)


def _is_foreign(error: BaseException) -> bool:
    library = type(error).__module__.partition(".")[0]
    return library in _LIBRARIES or isinstance(error, OSError | EOFError)


@dataclass(frozen=True, slots=True)
class _Client:
    """The SDK's client, how each request is sent, and the classes that ask for bytes."""

    sdk: Any
    options: Mapping[str, Any]
    response: type[Any]
    stream: type[Any]


def _path(address: ClientSettings, name: str, model: str) -> str:
    return f"/deployments/{quote(model, safe='')}/{name}" if address.is_azure else f"/{name}"


async def _made(address: ClientSettings, who: str) -> _Client:
    """The client for *address*; the import takes up to a second, so it is done off the loop."""
    with needed_by_backend("openai"):
        openai = await asyncio.to_thread(importlib.import_module, "openai")
    failure = ""
    try:
        return _client(openai, address)
    except RuntimeError as error:  # the SDK says that its extra aiohttp is missing
        cause = None if absent("openai") else ImportError(error)
        text = advice("openai", "the backend 'openai'", cause)
        raise MissingBackendExtra(text, extra="openai") from None
    except openai.OpenAIError as error:
        failure = str(error).split("\n")[0]
    why = "" if failure.startswith("Missing credentials") else f" ({failure})"
    raise AuthenticationFailed(
        f"{who}: no key{why}; type export OPENAI_API_KEY=YOUR_KEY, or write "
        'api_key = {env = "NAME_OF_A_VARIABLE"} into its settings'
    )


def _client(openai: Any, address: ClientSettings) -> _Client:
    http = importlib.import_module("httpx" if openai.__version__[:2] == "2." else "httpx2")
    connections = openai.DefaultAioHttpClient(
        limits=http.Limits(max_connections=0, keepalive_expiry=IDLE_S),
        timeout=openai.Timeout(None, connect=address.connect_s),
    )
    connections.send = guarded_send(connections.send)
    common: dict[str, Any] = {
        "organization": address.organization,
        "project": address.project,
        "default_headers": dict(address.headers),
        "max_retries": 0,
        "timeout": openai.Timeout(None, connect=address.connect_s),
        "http_client": connections,
    }
    headers = {"Content-Type": "application/json"}
    if address.is_azure:
        where = {"azure_endpoint": address.azure_endpoint} if address.azure_endpoint else {}
        sdk = openai.AsyncAzureOpenAI(
            **where,
            api_version=address.api_version,
            api_key=address.api_key,
            azure_ad_token=address.azure_ad_token,
            **common,
        )
    elif address.base_url is not None and address.api_key is None:
        # The key in the environment is for api.openai.com, and goes to no other server.
        headers["Authorization"] = openai.Omit()
        sdk = openai.AsyncOpenAI(base_url=address.base_url, api_key="none", **common)
    else:
        sdk = openai.AsyncOpenAI(base_url=address.base_url, api_key=address.api_key, **common)
    return _Client(sdk, {"headers": headers}, http.Response, openai.AsyncStream)

"""Any server that speaks OpenAI's chat interface.

OpenAI, Azure, vLLM, SGLang, llama.cpp, Ollama, and gateways. Invariant: an answer is complete, or a
``BackendError`` says what is wrong with it.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import os
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from appl.backend import Chunk, Emit, Profile, Request, Response, check_media
from appl.backend_check import read_json
from appl.backend_http import STREAM_BYTES, asked_of, check_url, host_of
from appl.errors import AuthenticationFailed, ModelNotFound
from appl.prompt.secret import conceal
from appl_backends.http.events import EventParser, begins_events, opened, whole
from appl_backends.openai.answer import ChatReader, json_in
from appl_backends.openai.body import OPTIONS, body_of, cache_rule, is_begun
from appl_backends.openai.connection import Endpoint, ServerConnection
from appl_backends.openai.prices import Prices
from appl_backends.openai.servers import LOCAL_OPTIONS, Kind, server_for, tell_of_seed
from appl_backends.openai.settings import ServerSettings
from appl_backends.openai.streamed import Assembly, beginning
from appl_backends.prompt_cache import CacheRule


class OpenAI:
    """A :class:`~appl.backend.Backend` that asks one server with OpenAI's chat interface.

    Without ``base_url`` the server is OpenAI's, or the one that ``OPENAI_BASE_URL`` names, and the
    key is that of ``OPENAI_API_KEY``; with it, a key is sent only if ``api_key`` gives one. Azure:
    ``azure_endpoint`` and ``api_version``, the model is the name of the deployment. ``server`` says
    what is at the other end, so that it is asked only for what it can do; ``features`` and
    ``without`` correct that. ``model`` is the default, ``models`` the only ones that may be asked.
    ``prices`` gives for a model ``prompt``, ``cached`` and ``answer`` in units of currency for a
    million tokens; at a provider's own address the package knows the prices of other models.
    ``connect`` is in seconds, ``concurrency`` the most calls at once. ``name`` is what the backend
    is called in traces and errors.
    """

    def __init__(
        self,
        *,
        model: str | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        organization: str | None = None,
        project: str | None = None,
        headers: Mapping[str, str] | None = None,
        azure_endpoint: str | None = None,
        azure_ad_token: str | None = None,
        api_version: str | None = None,
        server: Kind | None = None,
        features: Sequence[str] = (),
        without: Sequence[str] = (),
        models: Sequence[str] = (),
        prices: Mapping[str, Mapping[str, float]] | None = None,
        connect: float = 10.0,
        concurrency: int | None = None,
        name: str = "openai",
    ) -> None:
        base_url = base_url or os.environ.get("OPENAI_BASE_URL") or None
        if api_key is None and _is_known(base_url):
            api_key = os.environ.get("OPENAI_API_KEY") or None
        conceal(f"api_key of {name}", api_key)
        conceal(f"azure_ad_token of {name}", azure_ad_token)
        check_url(base_url, "base_url")
        check_url(azure_endpoint, "azure_endpoint")
        is_known, base_url = _is_known(base_url), _base_of(base_url)
        self._settings = ServerSettings(
            base_url,
            api_key,
            organization,
            project,
            dict(headers or {}),
            azure_endpoint,
            azure_ad_token,
            api_version,
            connect,
            is_known,
        )
        kind = server or ("azure" if self._settings.is_azure else None)
        self._server = server_for(kind, base_url or azure_endpoint, features, without)
        self._secrets = self._settings.secrets
        self.prices = Prices(prices or {}, self._settings.seller)
        self._has_prices = bool(prices or self._settings.seller)
        self._connection = ServerConnection(self._settings)
        self._only: str | None = None
        self._memory: object = None
        self._keyed: dict[str, OpenAI] = {}
        options = OPTIONS - (LOCAL_OPTIONS - self._server.fields)
        self._profile = Profile(
            name, self._server.features | {"api_key"}, options, tuple(models), model, concurrency
        )

    @property
    def profile(self) -> Profile:
        """The name, features and limits of this backend."""
        return self._profile

    async def connect(self) -> None:
        """Find the account, for which the SDK may be loaded, which takes up to a second.

        Raises ``BackendError`` without the SDK. A missing key is found by the first call that has
        none of its own.
        """
        with contextlib.suppress(AuthenticationFailed):
            await self._chat(self._profile.default_model or "")

    def order(self, queue: Any) -> Any:
        """The order of a run's calls, where the server charges for what its cache keeps."""
        if cache_rule(self._server, "") is None:
            return None
        # Imported here: a replay sends no calls.
        from appl.runtime.scheduling.prompt_reuse import CacheMemory, ReuseOrder

        if self._memory is None:
            self._memory = CacheMemory()
        assert isinstance(self._memory, CacheMemory)
        return ReuseOrder(queue, self._memory, self._rule_of)

    def _rule_of(self, request: Request) -> CacheRule | None:
        return cache_rule(self._server, request.model or self._profile.default_model or "")

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        """Answer *request*; with *emit*, also pass on text as it comes."""
        if request.key is not None and request.key != self._settings.api_key:
            return await self._with_key(request.key).complete(request, emit)
        if request.messages is not None and request.messages.needs:
            check_media(self._profile, request.messages)
            self._server.check_media(request.messages)
        model = request.model or await self._default_model()
        if request.reuse is not None and request.reuse.begins is not None:
            emit = beginning(request.reuse.begins, emit)
        streamed = emit is not None and "stream" in self._server.features
        streamed = streamed and request.sampling.prompt_logprobs is None  # these come with a whole
        known = self._connection.chats.get(model)
        who = self._who(model) if known is None else known.who
        body = body_of(request, model, self._server, who, stream=streamed)
        prompt = request.messages
        begun = prompt is not None and prompt.outline.role == "assistant"
        reader = ChatReader(request, who, self._secrets, self._begun(request) if begun else None)
        http, head, _ = known or await self._chat(model)
        if emit is not None and streamed:
            async with http.stream(head, body, who, STREAM_BYTES) as (kind, pieces):
                response = await self._streamed(reader, kind, pieces, emit)
        else:
            data = await http.exchange(head, body, who, _json_or_events)
            if type(data) is _Events:  # it streams, whatever it is asked for
                response = await self._streamed(reader, _Events.kind, _one(data), _nowhere)
            else:
                response = reader.response(data)
        if request.sampling.seed is not None and not self._server.heeds_seed:
            tell_of_seed(who)
        if request.messages is not None and request.messages.provided:
            response = dataclasses.replace(response, shed=request.messages.shed_for(who))
        return self._priced(response, model) if self._has_prices else response

    def _begun(self, request: Request) -> str | None:
        """The text that the server goes on from, if it may repeat it."""
        prompt = request.messages
        if prompt is None or prompt.outline.role != "assistant" or not is_begun(prompt):
            return None
        return prompt.message.content if self._server.may_repeat else None

    async def _streamed(
        self, reader: ChatReader, kind: str, pieces: AsyncIterator[bytes], emit: Emit
    ) -> Response:
        """The answer in a body of this *kind* that may be a stream."""
        is_stream, first = await opened(kind, pieces)
        if not is_stream:
            body = await whole(first, pieces, reader.who)
            return reader.response(json_in(body, reader.who, self._secrets, kind))
        events, assembly = EventParser(reader.who), Assembly(reader, emit)
        piece: bytes | None = first
        while piece is not None:
            if any([assembly.take(event) for event in events.feed(piece)]):
                break
            piece = await anext(pieces, None)
        else:
            if not assembly.complete:
                assembly.take_rest(events.rest())
        return assembly.response()

    async def list_models(self) -> list[str]:
        """The models that the server lists. Raises ``BackendError``."""
        return await self._connection.models(self._who(""))

    async def aclose(self) -> None:
        """Close the connections."""
        keyed, self._keyed = self._keyed, {}
        for each in keyed.values():
            await each.aclose()
        await self._connection.aclose()

    def _with_key(self, key: str) -> OpenAI:
        """This backend with another *key*, and connections of its own."""
        found = self._keyed.get(key)
        if found is None:
            found = self._keyed[key] = copy.copy(self)
            found._settings = dataclasses.replace(self._settings, api_key=key)
            found._secrets = found._settings.secrets
            found._connection, found._keyed = ServerConnection(found._settings), {}
        return found

    def _chat(self, model: str) -> Coroutine[object, object, Endpoint]:
        return self._connection.chat(model, self._who(model))

    def _who(self, model: str) -> str:
        settings = self._settings
        url = settings.azure_endpoint or settings.base_url or "https://api.openai.com"
        return asked_of(self._profile.name, model, url)

    async def _default_model(self) -> str:
        """The only model that the server has. Raises ``ModelNotFound`` when there are several."""
        if self._only is None:
            found = await self.list_models()
            if len(found) != 1:
                has = f"it has: {', '.join(found[:20])}" if found else "it lists none"
                raise ModelNotFound(
                    f"{self._who('')}: which model? ({has}); write model = "
                    f'"{self._profile.name}/NAME" into appl.toml'
                )
            self._only = found[0]
        return self._only

    def _priced(self, response: Response, model: str) -> Response:
        cost = self.prices.cost(model, response)
        return response if cost == response.cost else dataclasses.replace(response, cost=cost)

    def __repr__(self) -> str:
        return f"<OpenAI {self._who(self._profile.default_model or '')}>"


class _Events(bytes):
    """A body that is a stream of events."""

    kind = "text/event-stream"


def _json_or_events(body: bytes) -> Any:
    """The JSON in *body*, or the body itself as ``_Events``. Raises ``ValueError``."""
    try:
        return read_json(body)
    except ValueError:
        if begins_events(body):
            return _Events(body)
        raise


def _nowhere(chunk: Chunk) -> None:
    """Drop *chunk*: nobody reads along."""


async def _one(piece: bytes) -> AsyncIterator[bytes]:
    yield piece


def _base_of(url: str | None) -> str | None:
    """*url* without the name of the question, which is put behind it."""
    if url is None:
        return None
    parts = urlsplit(url)
    path = parts.path.rstrip("/").removesuffix("/chat/completions")
    return url if path == parts.path.rstrip("/") else parts._replace(path=path).geturl()


def _is_known(url: str | None) -> bool:
    """True if the key in the environment is meant for *url*."""
    known = (None, os.environ.get("OPENAI_BASE_URL"))
    return url in known or host_of(url or "") == "api.openai.com"

"""Any server that speaks an interface of OpenAI.

OpenAI, Azure, vLLM, SGLang, llama.cpp, Ollama, and gateways. OpenAI itself is asked through its
Responses interface, the others through that of chat completions. Invariant: an answer is complete,
or a ``BackendError`` says what is wrong with it.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from appl.backend import Emit, Profile, Request, Response, check_media
from appl.backend.http import check_url, describe_server, host_of
from appl.errors import (
    AuthenticationFailed,
    BackendRefused,
    ConfigError,
    ModelNotFound,
    Unsupported,
)
from appl.prompt.secret import conceal
from appl_backends.openai.answer import ChatReader
from appl_backends.openai.body import OPTIONS, cache_rule, is_begun
from appl_backends.openai.connection import Endpoint, ServerConnection
from appl_backends.openai.exchange import exchange
from appl_backends.openai.interface import CHAT, Interface, InterfaceName
from appl_backends.openai.prices import Prices
from appl_backends.openai.servers import LOCAL_OPTIONS, Kind, server_for, tell_of_seed
from appl_backends.openai.settings import ServerSettings
from appl_backends.openai.streamed import beginning
from appl_backends.prompt_cache import CacheRule
from appl_backends.prompt_cache.order import CacheOrders

if TYPE_CHECKING:
    from appl.parts.batching.provider import BatchProvider


class OpenAI:
    """A :class:`~appl.backend.Backend` that asks one server with an interface of OpenAI.

    Without ``base_url`` the server is OpenAI's, or the one that ``OPENAI_BASE_URL`` names, and the
    key is that of ``OPENAI_API_KEY``; with it, a key is sent only if ``api_key`` gives one. Azure:
    ``azure_endpoint`` and ``api_version``, the model is the name of the deployment. ``server`` says
    what is at the other end, so that it is asked only for what it can do; ``features`` and
    ``without`` correct that. ``interface`` is ``responses`` or ``chat``; by default OpenAI is asked
    for responses, and for a chat completion where only that has what a call needs, and all others
    are asked for chat completions. ``model`` is the default, ``models`` the only ones that may be
    asked.
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
        interface: InterfaceName | None = None,
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
        self._orders = CacheOrders()
        self._keyed: dict[str, OpenAI] = {}
        self._interface, self._may_chat = CHAT, True
        self._why_chat: Callable[[Request, str], str | None] | None = None
        features_of_all = self._server.features | {"api_key"}
        options = OPTIONS - (LOCAL_OPTIONS - self._server.fields)
        if _speaks_responses(interface, base_url, self._settings.is_azure):
            found = importlib.import_module("appl_backends.openai.responses")
            self._interface, self._why_chat = found.RESPONSES, found.why_chat
            self._may_chat = interface is None
            options = options | found.OPTIONS if self._may_chat else found.OPTIONS
            features_of_all -= frozenset() if self._may_chat else found.LACKS
        self._profile = Profile(name, features_of_all, options, tuple(models), model, concurrency)

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
            model = self._profile.default_model or ""
            await self._connection.endpoint(self._interface, model, self._who(model))

    def order(self, queue: Any) -> Any:
        """The order of a run's calls, where the server charges for what its cache keeps."""
        if cache_rule(self._server, "") is None:
            return None
        return self._orders.order(queue, self._rule_of)

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
        if request.sampling.dimensions is not None:
            return await self._embedded(request, model)
        interface = self._interface if self._why_chat is None else self._chosen(request, model)
        if request.reuse is not None and request.reuse.begins is not None:
            emit = beginning(request.reuse.begins, emit)
        streamed = emit is not None and "stream" in self._server.features
        streamed = streamed and request.sampling.prompt_logprobs is None  # these come with a whole
        in_background = _is_in_background(request)
        streamed = streamed and not in_background  # a lost connection loses no answer
        at = self._connection.known.get((interface.path, model))
        if at is None:
            at = await self._connection.endpoint(interface, model, self._who(model))
        body = interface.body(request, model, self._server, at.source, stream=streamed)
        prompt = request.messages
        begun = prompt is not None and prompt.outline.role == "assistant"
        begun_text = self._begun(request) if begun else None
        reader = interface.reader(request, at.who, self._secrets, begun_text, at.source)
        try:
            if in_background:
                response = await self._in_background(interface, at, body, reader)
            else:
                emit = emit if streamed else None
                response = await exchange(at.http, at.head, body, reader, interface.assembly, emit)
        except BackendRefused as error:
            raise self._other_interface(error, interface) from None
        if request.sampling.seed is not None and not self._server.heeds_seed:
            tell_of_seed(at.who)
        if request.messages is not None and request.messages.provided:
            response = dataclasses.replace(response, shed=request.messages.shed_for(at.source))
        return self._priced(response, model) if self._has_prices else response

    async def _embedded(self, request: Request, model: str) -> Response:
        """The vectors of the messages of *request*."""
        found = importlib.import_module("appl_backends.openai.embeddings")  # few runs embed
        at = await self._connection.endpoint(found.EMBEDDINGS, model, self._who(model))
        body = found.body_of(request, model, self._server.kind)
        data = await at.http.exchange(at.head, body, at.who)
        response: Response = found.response_of(data, request, at.who, self._secrets)
        return self._priced(response, model) if self._has_prices else response

    def batches(self) -> BatchProvider:
        """The batches of OpenAI, or of a server with its interface for them."""
        from appl_backends.openai.batches import OpenAIBatches  # few runs have batches

        if self._server.kind not in ("openai", "other"):
            raise Unsupported(
                f"{self._who('')} has no batches that appl knows ({self._server.kind})"
            )
        who, secrets = self._who(""), self._secrets
        return OpenAIBatches(self._connection, who, secrets, self._batched, self._priced)

    async def _batched(self, request: Request) -> tuple[str, str, list[bytes], ChatReader] | None:
        """The path and model of *request*, its body, and the reader of the answer."""
        own_key = request.key in (None, self._settings.api_key)
        if not own_key or _is_in_background(request):
            return None
        if request.messages is not None and request.messages.needs:
            check_media(self._profile, request.messages)
            self._server.check_media(request.messages)
        model = request.model or await self._default_model()
        interface = self._interface if self._why_chat is None else self._chosen(request, model)
        at = await self._connection.endpoint(interface, model, self._who(model))
        body = interface.body(request, model, self._server, at.source)
        prompt = request.messages
        begun = prompt is not None and prompt.outline.role == "assistant"
        begun_text = self._begun(request) if begun else None
        reader = interface.reader(request, at.who, self._secrets, begun_text, at.source)
        return interface.path, model, body, reader

    async def _in_background(
        self, interface: Interface, at: Endpoint, body: list[bytes], reader: ChatReader
    ) -> Response:
        background = importlib.import_module("appl_backends.openai.responses.background")
        begun = await at.http.exchange(at.head, body, at.who)
        connection, path = self._connection, interface.path
        return reader.response(
            await background.finished(
                begun, lambda method, more: connection.ask(method, path + more, at.who)
            )
        )

    def _chosen(self, request: Request, model: str) -> Interface:
        """The interface for *request*: the other one only for what this one cannot express.

        Raises ``Unsupported`` where the settings allow one interface alone.
        """
        assert self._why_chat is not None
        why = self._why_chat(request, model)
        if why is None or (why == "stop" and not self._may_chat):  # texts are cut off here
            return self._interface
        if self._may_chat and not _is_in_background(request):
            return CHAT
        least = " of less than 16" if why == "max_tokens" else ""
        raise Unsupported(
            f"{self._who(model)}: OpenAI's Responses interface takes no {why}{least}; leave it "
            'out, or write interface = "chat" into the settings of its backend'
        )

    def _other_interface(self, error: BackendRefused, interface: Interface) -> BackendRefused:
        """*error*, with the setting to write where the server may have another interface only."""
        if error.status not in (404, 405) or type(error) is not BackendRefused:
            return error
        other = "responses" if interface is CHAT else "chat"
        found = BackendRefused(
            f'{error}; if it has no {interface.path}, write interface = "{other}" into the '
            "settings of its backend",
            status=error.status,
        )
        return found

    def _begun(self, request: Request) -> str | None:
        """The text that the server goes on from, if it may repeat it."""
        prompt = request.messages
        if prompt is None or prompt.outline.role != "assistant" or not is_begun(prompt):
            return None
        return prompt.message.content if self._server.may_repeat else None

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

    def _who(self, model: str) -> str:
        settings = self._settings
        url = settings.azure_endpoint or settings.base_url or "https://api.openai.com"
        return describe_server(self._profile.name, model, url)

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


def _base_of(url: str | None) -> str | None:
    """*url* without the name of the question, which is put behind it."""
    if url is None:
        return None
    parts = urlsplit(url)
    path = parts.path.rstrip("/").removesuffix("/chat/completions")
    path = path.removesuffix("/responses")
    return url if path == parts.path.rstrip("/") else parts._replace(path=path).geturl()


def _is_in_background(request: Request) -> bool:
    return ("background", True) in request.sampling.extra


def _speaks_responses(interface: str | None, base_url: str | None, is_azure: bool) -> bool:
    """True if questions go to the Responses interface. Raises ``ConfigError`` for another name.

    OpenAI itself has it; what other servers have by this name is asked for by the settings alone.
    """
    if interface not in (None, "chat", "responses"):
        raise ConfigError(f'interface must be "responses" or "chat", got {interface!r:.40}')
    if interface is not None:
        return interface == "responses"
    host = host_of(base_url or "") or "api.openai.com"
    return not is_azure and (host == "api.openai.com" or host.endswith(".api.openai.com"))


def _is_known(url: str | None) -> bool:
    """True if the key in the environment is meant for *url*."""
    known = (None, os.environ.get("OPENAI_BASE_URL"))
    return url in known or host_of(url or "") == "api.openai.com"

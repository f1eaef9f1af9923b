"""Anthropic's models through their own interface, that of messages.

Invariant: a model gets back what it thought, with its signature, unchanged and in its place, and
nobody else does; an answer is complete, or a ``BackendError`` says what is wrong with it.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from appl.backend import Emit, Profile, Request, Response, check_media
from appl.backend.http import check_url, describe_server
from appl.base.extras import needed_by_backend
from appl.errors import AuthenticationFailed, BackendUnavailable, ModelNotFound
from appl.prompt.secret import conceal

with needed_by_backend("anthropic"):
    from appl_backends.http.client import HttpClient
with needed_by_backend("anthropic"):  # what these import names another extra where that is missing
    from appl_backends.anthropic.answer import BlocksAssembly, BlocksReader
    from appl_backends.anthropic.body import OPTIONS, Body, body_of
    from appl_backends.anthropic.messages import BLOCKS
    from appl_backends.anthropic.settings import ServerSettings, base_of, is_known
    from appl_backends.openai.exchange import exchange
    from appl_backends.openai.prices import Prices
    from appl_backends.openai.streamed import beginning
    from appl_backends.prompt_cache import plan_for
    from appl_backends.prompt_cache.anthropic import RULE
    from appl_backends.prompt_cache.order import CacheOrders

if TYPE_CHECKING:
    from appl.parts.batching.provider import BatchProvider

FEATURES = frozenset(
    {
        "api_key",
        "images",
        "prefix_cache",
        "reasoning",
        "schema",
        "schema_object",
        "stream",
        "tools",
    }
)


_COUNTED = frozenset(
    {"cache_control", "messages", "model", "output_config", "system", "thinking", "tools"}
    | {"tool_choice"}
)
"""The fields of a request whose tokens are counted."""


class Anthropic:
    """A :class:`~appl.backend.Backend` that asks Anthropic, or a server with its interface.

    The key is that of ``ANTHROPIC_API_KEY``, or the token of ``ANTHROPIC_AUTH_TOKEN``; with a
    ``base_url`` of another server, a key is sent only if ``api_key`` or ``auth_token`` gives one.
    ``max_tokens`` is the limit of an answer for calls that name none, which the interface wants to
    have. ``cache_marks`` says whether the ends of what other prompts share are marked, so that the
    provider keeps it.
    ``model`` is the default, ``models`` the only ones that may be asked, ``without`` names features
    that they do not have. ``prices`` gives for a model ``prompt``, ``cached`` and ``answer`` in
    units of currency for a million tokens. ``connect`` is in seconds, ``concurrency`` the most
    calls at once. ``name`` is what the backend is called in traces and errors.
    """

    def __init__(
        self,
        *,
        model: str | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        auth_token: str | None = None,
        headers: Mapping[str, str] | None = None,
        max_tokens: int | None = None,
        cache_marks: bool = True,
        without: Sequence[str] = (),
        models: Sequence[str] = (),
        prices: Mapping[str, Mapping[str, float]] | None = None,
        connect: float = 10.0,
        concurrency: int | None = None,
        name: str = "anthropic",
    ) -> None:
        check_url(base_url, "base_url")
        if api_key is None and auth_token is None and is_known(base_url):
            api_key = os.environ.get("ANTHROPIC_API_KEY") or None
            auth_token = (os.environ.get("ANTHROPIC_AUTH_TOKEN") or None) if not api_key else None
        conceal(f"api_key of {name}", api_key)
        conceal(f"auth_token of {name}", auth_token)
        self._settings = ServerSettings(
            base_of(base_url), api_key, auth_token, dict(headers or {}), connect
        )
        self._max_tokens, self._cache_marks = max_tokens, cache_marks
        self._secrets = self._settings.secrets
        self.prices = Prices(prices or {}, self._settings.seller)
        self._has_prices = bool(prices or self._settings.seller)
        self._http: HttpClient | None = None
        self._heads: dict[tuple[str, str], bytes] = {}
        self._names: dict[str, str] = {}
        self._closed = False
        self._orders = CacheOrders()
        self._keyed: dict[str, Anthropic] = {}
        self._profile = Profile(
            name, FEATURES - frozenset(without), OPTIONS, tuple(models), model, concurrency
        )

    @property
    def profile(self) -> Profile:
        """The name, features and limits of this backend."""
        return self._profile

    def order(self, queue: Any) -> Any:
        """The order of a run's calls: the provider charges for what its cache keeps."""
        if not self._cache_marks:
            return None
        return self._orders.order(queue, lambda request: RULE)

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        """Answer *request*; with *emit*, also pass on text as it comes."""
        if request.key is not None and request.key != self._settings.api_key:
            return await self._with_key(request.key).complete(request, emit)
        if request.messages is not None and request.messages.needs:
            check_media(self._profile, request.messages)
        model = request.model
        if not model:
            raise ModelNotFound(
                f"{self._who('')}: which model? write model = "
                f'"{self._profile.name}/NAME" into appl.toml'
            )
        who = self._names.get(model) or self._name_of(model)
        if request.reuse is not None and request.reuse.begins is not None:
            emit = beginning(request.reuse.begins, emit)
        streams = emit is not None and "stream" in self._profile.features
        rule = RULE if self._cache_marks and request.reuse is not None else None
        plan = None if rule is None else plan_for(request, rule)
        body = body_of(request, model, who, max_tokens=self._max_tokens, plan=plan, stream=streams)
        http, head = self._question("POST", "/v1/messages", who)
        reader = BlocksReader(request, who, self._secrets, body.begun)
        reader.body, reader.model = body, model
        sent = emit if streams else None
        response = await exchange(http, head, body.pieces, reader, BlocksAssembly, sent)
        if request.messages is not None and request.messages.provided:
            shed = request.messages.shed_for(who)
            if body.sheds and BLOCKS not in shed:
                shed = (*shed, BLOCKS)
            response = dataclasses.replace(response, shed=shed)
        return self._priced(response, model) if self._has_prices else response

    def batches(self) -> BatchProvider:
        """Anthropic's batches of messages."""
        from appl_backends.anthropic.batches import AnthropicBatches  # few runs have batches

        who, secrets = self._who(""), self._secrets
        return AnthropicBatches(self._question, who, secrets, self._batched, self._priced)

    def _batched(self, request: Request) -> tuple[Body, BlocksReader] | None:
        """The body of *request*, and the reader of the answer."""
        if request.key is not None and request.key != self._settings.api_key:
            return None
        if request.messages is not None and request.messages.needs:
            check_media(self._profile, request.messages)
        model, who = request.model, self._who(request.model)
        if not model:
            return None
        body = body_of(request, model, who, max_tokens=self._max_tokens)
        reader = BlocksReader(request, who, self._secrets, body.begun)
        reader.body, reader.model = body, model
        return body, reader

    async def prompt_tokens(self, request: Request) -> int:
        """The number of tokens of the prompt of *request*, as the server counts them.

        Nothing is generated, and nothing is billed. Raises ``BackendError``.
        """
        model = request.model or self._profile.default_model or ""
        who = self._names.get(model) or self._name_of(model)
        body = body_of(request, model, who, max_tokens=self._max_tokens)
        data = json.loads(b"".join(body.pieces))
        counted = {name: value for name, value in data.items() if name in _COUNTED}
        http, head = self._question("POST", "/v1/messages/count_tokens", who)
        found = await http.exchange(head, json.dumps(counted).encode(), who)
        count = found.get("input_tokens") if isinstance(found, dict) else None
        if type(count) is not int:
            raise BackendUnavailable(f"{who} did not count the tokens of the prompt", status=200)
        return count

    async def list_models(self) -> list[str]:
        """The models that the server lists. Raises ``BackendError``."""
        who, found, after = self._who(""), list[str](), ""
        while True:
            target = f"/v1/models?limit=1000{after}"
            http, head = self._question("GET", target, who)
            data = await http.exchange(head, b"", who)
            listed = data.get("data") if isinstance(data, dict) else None
            names = [each.get("id") for each in listed or () if isinstance(each, dict)]
            found += [name for name in names if isinstance(name, str)]
            if not names or not data.get("has_more"):
                return found
            after = f"&after_id={quote(str(names[-1]), safe='')}"

    async def aclose(self) -> None:
        """Close the connections."""
        keyed, self._keyed, self._closed = self._keyed, {}, True
        for each in keyed.values():
            await each.aclose()
        if self._http is not None:
            await self._http.aclose()

    def _question(self, method: str, path: str, who: str) -> tuple[HttpClient, bytes]:
        """The client of the server, and the beginning of a question, which is kept."""
        settings = self._settings
        if self._closed:
            raise BackendUnavailable(f"{who}: the backend is closed", worked=False)
        if self._http is None:
            headers = {name.lower() for name in settings.all_headers()}
            if settings.is_own and not headers & {"x-api-key", "authorization"}:
                raise AuthenticationFailed(
                    f"{who}: no key; type export ANTHROPIC_API_KEY=YOUR_KEY, or write "
                    'api_key = {env = "NAME_OF_A_VARIABLE"} into its settings'
                )
            self._http = HttpClient(
                settings.base_url, connect=settings.connect_s, secrets=self._secrets
            )
        head = self._heads.get((method, path))
        if head is None:
            target = self._http.path.rstrip("/") + path
            head = self._http.head(method, target, settings.all_headers())
            self._heads[method, path] = head
        return self._http, head

    def _with_key(self, key: str) -> Anthropic:
        """This backend with another *key*, and connections of its own."""
        found = self._keyed.get(key)
        if found is None:
            found = self._keyed[key] = copy.copy(self)
            found._settings = dataclasses.replace(self._settings, api_key=key, auth_token=None)
            found._secrets = found._settings.secrets
            found._http, found._heads, found._keyed = None, {}, {}
        return found

    def _name_of(self, model: str) -> str:
        found = self._names[model] = self._who(model)
        return found

    def _who(self, model: str) -> str:
        return describe_server(self._profile.name, model, self._settings.base_url)

    def _priced(self, response: Response, model: str) -> Response:
        cost = self.prices.cost(model, response)
        return response if cost == response.cost else dataclasses.replace(response, cost=cost)

    def __repr__(self) -> str:
        return f"<Anthropic {self._who(self._profile.default_model or '')}>"

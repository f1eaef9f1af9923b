"""A hundred providers, through litellm: Anthropic, Google, Bedrock, Mistral and the rest.

Invariant: litellm is imported at the first call, off the I/O loop, without a network; it neither
retries, nor drops what a provider does not take, nor keeps or reports anything.
"""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import json
import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from appl.backend import Emit, Profile, Request, Response, Sampling, check_media
from appl.backend.check import read_json
from appl.backend.http import (
    ERROR_BYTES,
    check_url,
    describe_server,
    errors_of_http,
    excerpt,
    unreachable,
)
from appl.backend.price import Price, millionths
from appl.backend.price_table import row_of, seller_at
from appl.base.extras import needed_by_backend
from appl.errors import (
    BackendError,
    BackendRefused,
    BackendTimeout,
    MalformedResponse,
    ModelNotFound,
    PromptTooLong,
    Unsupported,
)
from appl.prompt import Messages
from appl.prompt.secret import conceal, is_likely
from appl_backends.guard import Question, alone, guard_clients, question
from appl_backends.openai.answer import ChatReader
from appl_backends.openai.body import (
    GO_ON,
    OPTIONS,
    asks_for_any_object,
    check_begun,
    is_begun,
    utf8,
)
from appl_backends.openai.dialects import Dialect, dialect_of
from appl_backends.openai.servers import PREFIXED, tell_of_seed
from appl_backends.openai.streamed import Assembly, beginning
from appl_backends.openai.strict_schema import AZURE, CLAUDE, OPENAI, strict_schema
from appl_backends.prompt_cache import CachePlan, CacheRule, Mark, parts_of, plan_for
from appl_backends.prompt_cache.anthropic import RULE
from appl_backends.prompt_cache.order import CacheOrders

FEATURES = frozenset(
    {
        "api_key",
        "audio",
        "embeddings",
        "images",
        "logprobs",
        "prefix_cache",
        "reasoning",
        "schema",
        "schema_object",
        "seed",
        "stream",
        "tools",
    }
)
_MILLION = 1_000_000
MARKS = 4
"""The most places at which Anthropic's interface lets a cached prefix end."""

_MARK = {"type": "ephemeral"}
_OPTIONS = (OPTIONS - {"extra_body", "chat_template_kwargs"}) | {"thinking"}


class LiteLLM:
    """A :class:`~appl.backend.Backend` that asks the provider that a model's name begins with.

    ``model`` is the default, as in ``anthropic/claude-sonnet-4-5``; ``models`` are the only ones
    that may be asked. Keys are read by litellm from the providers' own variables
    (``ANTHROPIC_API_KEY``, …), unless ``api_key`` gives one. ``parameters`` go with every call as
    they are (``vertex_project``, ``aws_region_name``, …). ``cache_marks`` says whether the ends of
    prompt prefixes are marked for providers that cache only what is marked. ``without`` names
    features that the models do not have. ``name`` is what the backend is called in traces.
    """

    def __init__(
        self,
        *,
        model: str | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        api_version: str | None = None,
        headers: Mapping[str, str] | None = None,
        parameters: Mapping[str, Any] | None = None,
        cache_marks: bool = True,
        without: Sequence[str] = (),
        models: Sequence[str] = (),
        concurrency: int | None = None,
        name: str = "litellm",
    ) -> None:
        for setting in ("base_url", "api_base"):
            check_url((parameters or {}).get(setting), f"parameters.{setting}")
        conceal(f"api_key of {name}", api_key)
        check_url(base_url, "base_url")
        common = {
            "api_key": api_key,
            "base_url": base_url,
            "api_version": api_version,
            "extra_headers": dict(headers) if headers else None,
            **(parameters or {}),
        }
        self._common = {key: value for key, value in common.items() if value is not None}
        self._url, self._cache_marks = base_url or "", cache_marks
        self._paid = _Payees({**(parameters or {}), **({"base_url": base_url} if base_url else {})})
        given = (value for key, value in (parameters or {}).items() if is_likely(key))
        secrets = (api_key, *(headers or {}).values(), *map(str, given))
        self._secrets = tuple(secret for secret in secrets if secret and len(secret) > 3)
        self._library: asyncio.Task[Any] | None = None
        self._orders = CacheOrders()
        self.prices = _Prices(self._paid)
        self._profile = Profile(
            name, FEATURES - frozenset(without), _OPTIONS, tuple(models), model, concurrency
        )

    @property
    def profile(self) -> Profile:
        """The name, features and limits of this backend."""
        return self._profile

    async def connect(self) -> None:
        """Import litellm, which takes some seconds. Raises ``BackendNotFound`` without it."""
        await self._ready()

    def order(self, queue: Any) -> Any:
        """The order of a run's calls, where their provider charges for what its cache keeps."""
        if not self._cache_marks:
            return None
        return self._orders.order(queue, self._rule_of)

    def _rule_of(self, request: Request) -> CacheRule | None:
        model = request.model or self._profile.default_model or ""
        return RULE if _is_claude(model) else None

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        """Answer *request*; with *emit*, also pass on text as it comes."""
        check_media(self._profile, request.messages)
        if not request.model:
            raise ModelNotFound(
                f'{self._profile.name}: which model? write model = "{self._profile.name}/'
                'PROVIDER/MODEL" into appl.toml'
            )
        who = describe_server(self._profile.name, request.model, self._url)
        self._check_provider(request, who)
        if request.sampling.seed is not None and self._provider(request.model) != "hosted_vllm":
            tell_of_seed(who)
        litellm = await self._ready()
        if request.reuse is not None and request.reuse.begins is not None:
            emit = beginning(request.reuse.begins, emit)
        try:
            with question(who, self._secrets_of(request), reads=True) as asked:
                if request.sampling.dimensions is not None:
                    response = await self._embedded(litellm, request, who)
                elif emit is None or request.model.startswith(_WHOLE):
                    response = await self._whole(litellm, request, who)
                else:
                    response = await self._streamed(litellm, request, emit, asked)
            shed = request.messages.shed_for(who) if request.messages is not None else ()
            return dataclasses.replace(response, shed=shed) if shed else response
        except BackendError as error:
            failed = error
        except Exception as error:
            failed = _typed(error, who, self._secrets_of(request), asked.status)
        raise alone(failed) from None

    def _check_provider(self, request: Request, who: str) -> None:
        provider, prompt = self._provider(request.model), request.messages
        if provider in BLOCKING:
            raise Unsupported(
                f"{who}: litellm asks {provider} so that no deadline can end it; use the backend "
                "openai with its base_url if it speaks OpenAI's interface"
            )
        if provider == "deepseek" and prompt is not None and prompt.needs:
            raise Unsupported(
                f"{who}: deepseek takes text only, and litellm would leave out the image or sound "
                "in the prompt; say what is in it"
            )

    async def aclose(self) -> None:
        """Nothing: litellm's connections are the process's, and it closes them at its end."""

    async def _ready(self) -> Any:
        # The import takes seconds: it runs on a thread, once, and a request that is cancelled
        # meanwhile does not cancel it for the others.
        if self._library is None:
            self._library = asyncio.ensure_future(asyncio.to_thread(_imported))
        return await asyncio.shield(self._library)

    async def _whole(self, litellm: Any, request: Request, who: str) -> Response:
        raw: list[Any] = []
        begun = _told_to_go_on(litellm, request, who)
        reader = ChatReader(request, who, self._secrets_of(request), begun or _repeated(request))
        answer = await litellm.acompletion(
            **self._arguments(request, who, begun),
            logger_fn=lambda details: raw.append(details.get("original_response")),
        )
        data = _with_own_fields(answer.model_dump(), "message", request.model)
        if raw and _is_without_end(raw[-1]):  # litellm would say "stop"
            data = _without_end(data)
        response = reader.response(data)
        return self._priced(response, request.model, partial(_cost, litellm, answer))

    async def _embedded(self, litellm: Any, request: Request, who: str) -> Response:
        """The vectors of the messages of *request*."""
        from appl_backends.openai import embeddings  # few runs ask for vectors

        found = {"num_retries": 0, "max_retries": 0, "drop_params": False, **self._common}
        if "base_url" in found:  # it would go unheard here, and the texts to somebody else
            found["api_base"] = found.pop("base_url")
        if request.sampling.dimensions:
            found["dimensions"] = request.sampling.dimensions
        if request.key is not None:
            found["api_key"] = request.key
        texts = embeddings.texts_of(request)
        answer = await litellm.aembedding(model=request.model, input=texts, **found)
        data, secrets = answer.model_dump(), self._secrets_of(request)
        response = embeddings.response_of(data, request, who, secrets)
        return self._priced(response, request.model, partial(_cost, litellm, answer))

    async def _streamed(
        self, litellm: Any, request: Request, emit: Emit, asked: Question
    ) -> Response:
        begun = _told_to_go_on(litellm, request, asked.who)
        stream = await litellm.acompletion(
            **self._arguments(request, asked.who, begun),
            stream=True,
            stream_options={"include_usage": True},
        )
        reader = ChatReader(
            request, asked.who, self._secrets_of(request), begun or _repeated(request)
        )
        assembly = Assembly(reader, emit)
        async for chunk in stream:
            data = _with_own_fields(chunk.model_dump(), "delta", request.model)
            assembly.take_data(data)
        if getattr(stream, "received_finish_reason", "") is None:  # litellm would say "stop"
            if not asked.ended:
                raise MalformedResponse(
                    f"{asked.who} ended its stream without a finish reason: the answer was cut off",
                    status=200,
                )
            if not getattr(stream, "intermittent_finish_reason", None):  # where Google's is kept
                assembly.forget_ends()
        response = assembly.response()
        return self._priced(response, request.model, partial(_stream_cost, litellm, response))

    def _priced(
        self, response: Response, model: str, computed: Callable[[str], float | None]
    ) -> Response:
        """*response* with what the provider says that it cost, or else what litellm computes.

        litellm computes by names alone, so what it says of another server than the provider's is
        not used; nor is its 0, by which it means that it has no price.
        """
        if response.cost is not None or not self._paid.is_provider(model):
            return response
        cost = computed(model)
        return dataclasses.replace(response, cost=millionths(cost)) if cost else response

    def _secrets_of(self, request: Request) -> tuple[str, ...]:
        """The secrets that no error may hold: those of this backend, and the key of *request*."""
        return self._secrets if request.key is None else (*self._secrets, request.key)

    def _arguments(self, request: Request, who: str, begun: str | None) -> dict[str, Any]:
        sampling = request.sampling
        marked = self._cache_marks and _is_claude(request.model)
        plan = plan_for(request, RULE) if marked and request.reuse is not None else None
        kind = "claude" if _is_claude(request.model) else self._provider(request.model)
        if kind in ("openai", "azure") and not self._paid.is_provider(request.model):
            kind = "other"  # a server of somebody else with OpenAI's interface
        dialect = dialect_of(kind)
        messages = messages_of(request.messages, who, dialect, marks=marked, plan=plan)
        if is_begun(request.messages):
            messages[-1:] = _going_on(messages[-1], request.model, begun)
        found: dict[str, Any] = {
            "model": request.model,
            "messages": messages,
            "num_retries": 0,
            "max_retries": 0,
            "drop_params": False,
            **self._common,
            **dict(_given(sampling)),
            **dict(sampling.extra),
        }
        if asks_for_any_object(sampling, str(found["messages"])):
            found["response_format"] = {"type": "json_object"}
        elif sampling.schema is not None:
            found |= self._constrained(sampling.schema, request, found["messages"])
        if request.key is not None:
            found["api_key"] = request.key
        if request.n > 1:
            found["n"] = request.n
        if _is_claude(request.model) and not sampling.tools and _has_calls(request.messages):
            found["tool_choice"] = "none"  # litellm adds a tool, as Anthropic once required one
        if _is_claude(request.model) and _is_in_turn_without_thoughts(found["messages"]):
            _switch_thinking_off(found)
        return found

    def _provider(self, model: str) -> str:
        return str(self._common.get("custom_llm_provider") or model.partition("/")[0])

    def _constrained(
        self, wanted: str, request: Request, messages: list[dict[str, Any]]
    ) -> dict[str, Any]:
        """The fields that make the answer one of the schema *wanted*.

        litellm forwards every schema to Anthropic as a strict one, after it has closed its objects
        and taken away its definitions: one that Anthropic does not take is asked for in words.
        """
        provider = self._provider(request.model)
        subset = CLAUDE if _is_claude(request.model) else AZURE if provider == "azure" else OPENAI
        schema, strict = strict_schema(wanted, subset)
        at = len(messages) - is_begun(request.messages)  # what is begun stays the last one
        words = {"role": "user", "content": _IN_WORDS + schema}
        in_words = [*messages[:at], words, *messages[at:]]
        if provider == "deepseek":  # it takes no schema: any JSON object is as near as it comes
            return {"messages": in_words, "response_format": {"type": "json_object"}}
        if subset is CLAUDE and not strict:
            return {"messages": in_words}
        named = {"name": "answer", "schema": json.loads(schema), "strict": strict}
        return {"response_format": {"type": "json_schema", "json_schema": named}}


_IN_WORDS = "Answer with JSON that fits this JSON schema, and with nothing else:\n"


def _is_claude(model: str) -> bool:
    return "claude" in model.lower()


_APART = "provider_specific_fields"


def _with_own_fields(data: dict[str, Any], name: str, model: str) -> dict[str, Any]:
    """*data* with the provider's own fields in their place in each message, or delta, *name*.

    litellm sets them apart, and sends them so; only the interfaces that it translates read them
    there.
    """
    if model.partition("/")[0] in _OWN_INTERFACE:
        return data
    for choice in data.get("choices") or ():
        message = choice.get(name)
        apart = message.pop(_APART, None) if isinstance(message, dict) else None
        for key, value in (apart or {}).items():
            message.setdefault(key, value)
    return data


def _told_to_go_on(litellm: Any, request: Request, who: str) -> str | None:
    """The text of the assistant that the model is told to go on from, as it cannot by itself.

    ``None`` where there is none. Raises ``Unsupported`` for an answer in a form.
    """
    prompt = request.messages
    if prompt is None or not is_begun(prompt):
        return None
    try:
        info = litellm.get_model_info(request.model)
    except Exception:  # a model that its table does not have
        info = {}
    if info.get("supports_assistant_prefill"):
        return None
    check_begun(request.sampling, who)
    return prompt.message.content


def _going_on(last: dict[str, Any], model: str, begun: str | None) -> list[dict[str, Any]]:
    """The *last* message, of the assistant, as one from which *model* goes on.

    It is told to go on from *begun*, if that is given.
    """
    if begun is not None:
        return [last, {"role": "user", "content": GO_ON}]
    if model.startswith(PREFIXED):
        return [{**last, "prefix": True}]
    if _is_claude(model):
        return [_without_space(last)]
    return [last]


def _without_space(message: dict[str, Any]) -> dict[str, Any]:
    """*message* without white space at its end, which Anthropic refuses there."""
    content = message["content"]
    if isinstance(content, str):
        return {**message, "content": content.rstrip()}
    return {
        **message,
        "content": [*content[:-1], {**content[-1], "text": content[-1]["text"].rstrip()}],
    }


def _is_in_turn_without_thoughts(messages: list[dict[str, Any]]) -> bool:
    """True if a call of the current turn has no thought before it: another model has made it.

    What the user says behind results of tools becomes one message with them, so no turn begins
    there.
    """
    is_after_user = False
    for message in reversed(messages):
        role = message["role"]
        if is_after_user and role == "assistant":
            return False
        if message.get("tool_calls") and not message.get("thinking_blocks"):
            return True
        is_after_user = role == "user" or (is_after_user and role == "system")
    return False


def _switch_thinking_off(arguments: dict[str, Any]) -> None:
    """Have Claude not think: it refuses to, where it has not thought before a call of the turn.

    https://docs.anthropic.com/en/docs/build-with-claude/extended-thinking, "Toggling thinking modes
    in conversations"
    """
    arguments.pop("thinking", None)
    arguments.pop("reasoning_effort", None)
    for message in arguments["messages"]:
        message.pop("thinking_blocks", None)


def _repeated(request: Request) -> str | None:
    """The text from which the answer goes on, where the provider begins the answer with it."""
    prompt = request.messages
    if prompt is None or not request.model.startswith("mistral/") or not is_begun(prompt):
        return None
    return prompt.message.content


def messages_of(
    messages: Messages | None,
    who: str = "",
    dialect: Dialect | None = None,
    *,
    marks: bool,
    plan: CachePlan | None = None,
) -> list[dict[str, Any]]:
    """The messages as litellm takes them; with *marks*, the ends of shared prefixes are marked.

    They are in the form of *dialect*, and have the fields that *who*, the provider and model that
    are asked, gave them. They are cut and marked by *plan*. Where nobody has made one, marked are
    the last of the system's messages at the front, and the last message before the new one: what is
    new is said by the calls that share the rest. Raises ``Unsupported``.
    """
    if messages is None:
        raise Unsupported("a chat needs a message: the prompt is empty")
    dialect = dialect or dialect_of("")
    found = list[dict[str, Any]]()
    last = messages.length - 1
    for number, link in enumerate(messages.links()):
        written = dialect.written(link.message.as_dict(who), link)
        if plan is not None:
            ends = plan.marks_of(number)
            if plan.automatic and number == last:
                ends.setdefault(None, Mark(number, None, plan.ttl))
            written[-1] = _planned(written[-1], plan.cuts.get(number, ()), ends)
        found += written
    found = _without_halves(found)
    if marks and plan is None:
        roles = [message["role"] for message in found]
        front = next((at for at, role in enumerate(roles) if role != "system"), len(roles))
        for at in sorted({front - 1, len(found) - 2} - {-1})[-MARKS:]:
            found[at] = _marked(found[at])
    return found


def _without_halves(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """*messages* with the replacement character for surrogates without their other half.

    No text in UTF-8 can hold one, and JSON that names one is refused.
    """
    text = json.dumps(messages, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        found: list[dict[str, Any]] = json.loads(utf8(text))
        return found
    return messages


def _has_calls(messages: Messages | None) -> bool:
    return messages is not None and any(link.outline.tool_calls for link in messages.links())


def _marked(message: dict[str, Any], control: dict[str, str] = _MARK) -> dict[str, Any]:
    content = message.get("content")
    if message["role"] == "tool" or not content:  # these are marked as a whole
        return {**message, "cache_control": control}
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    parts[-1] = {**parts[-1], "cache_control": control}
    return {**message, "content": parts}


def _planned(
    message: dict[str, Any], cuts: Sequence[int], ends: Mapping[int | None, Mark]
) -> dict[str, Any]:
    """*message* with its text cut into parts, and marked where *ends* says so."""
    content = message.get("content")
    if cuts and isinstance(content, str):
        places: list[int | None] = [*cuts, None]
        parts = [
            {"type": "text", "text": part, **_control(ends.get(end))}
            for part, end in zip(parts_of(content, cuts), places, strict=True)
        ]
        return {**message, "content": parts}
    mark = ends.get(None)
    return message if mark is None else _marked(message, _control(mark)["cache_control"])


def _control(mark: Mark | None) -> dict[str, dict[str, str]]:
    if mark is None:
        return {}
    return {"cache_control": {**_MARK, "ttl": mark.ttl} if mark.ttl else _MARK}


def _given(sampling: Sampling) -> Iterator[tuple[str, Any]]:
    for name in ("max_tokens", "temperature", "top_p", "seed"):
        if getattr(sampling, name) is not None:
            yield name, getattr(sampling, name)
    if sampling.stop:
        yield "stop", list(sampling.stop)
    if sampling.logprobs is not None:
        yield "logprobs", True
        if sampling.logprobs:
            yield "top_logprobs", sampling.logprobs
    if sampling.tools:
        yield "tools", [{"type": "function", "function": json.loads(t)} for t in sampling.tools]
    choice = sampling.tool_choice
    if choice in ("auto", "none", "required"):
        yield "tool_choice", choice
    elif choice is not None:
        yield "tool_choice", {"type": "function", "function": {"name": choice}}


# -- the library

_WHOLE = ("cohere/", "cohere_chat/")
"""Providers whose streams litellm cannot read: their answers come in one piece."""

_IMPORT = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MODE": "PRODUCTION"}
"""Variables that keep its import from fetching prices, and from reading a file ``.env``."""

_importing = threading.Lock()


def _imported() -> Any:
    # The environment belongs to the process: a second import on another thread would restore it
    # while the first still reads it.
    with _importing, _environment(_IMPORT), needed_by_backend("litellm"):
        litellm: Any = importlib.import_module("litellm")
    _guard(litellm)
    litellm.telemetry = False
    litellm.suppress_debug_info = True
    if "LITELLM_LOG" not in os.environ:  # its log shows prompts, and failures that are raised too
        logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)
    return litellm


def _guard(litellm: Any) -> None:
    """Have all clients that litellm uses keep the rule, and its redaction be quick."""
    guard_clients(importlib.import_module("httpx"))
    if hasattr(litellm, "_appl_guarded"):
        return
    litellm._appl_guarded = True
    for name in ("_logging", "litellm_core_utils.exception_mapping_utils"):
        module = importlib.import_module(f"litellm.{name}")
        if hasattr(module, "redact_string"):
            module.redact_string = _quick(module.redact_string)  # type: ignore[attr-defined]


def _quick(redact: Callable[[str], str]) -> Callable[[str], str]:
    """*redact* for the beginning of a text: a megabyte would take it half a minute."""

    def redacted(text: str) -> str:
        return redact(text[:_REDACTED] if isinstance(text, str) else text)

    return redacted


_REDACTED = 4096


@contextmanager
def _environment(wanted: Mapping[str, str]) -> Iterator[None]:
    """The variables *wanted* for the time of the block, where nobody set them otherwise."""
    absent = [name for name in wanted if name not in os.environ]
    os.environ.update({name: wanted[name] for name in absent})
    try:
        yield
    finally:
        for name in absent:
            os.environ.pop(name, None)


BLOCKING = frozenset(
    {"aiohttp_openai", "amazon_nova", "custom", "maritalk", "nlp_cloud", "oobabooga", "petals"}
)
"""Providers that litellm asks by a blocking client, or by one that keeps no rule of ours."""

_ENDS = (("choices", "finish_reason"), ("candidates", "finishReason"))
"""Where providers say how each answer ended: OpenAI's and those like it, and Google."""


def _is_without_end(raw: object) -> bool:
    """True if a provider's answer, as text, lacks the reason why it ended."""
    try:
        data = read_json(raw) if isinstance(raw, str) else None
    except ValueError:
        return False
    if not isinstance(data, dict):
        return False
    if data.get("type") == "message":  # Anthropic
        return not data.get("stop_reason")
    found = [(data.get(answers), reason) for answers, reason in _ENDS]
    return any(
        isinstance(answer, dict) and not answer.get(reason)
        for answers, reason in found
        if isinstance(answers, list)
        for answer in answers
    )


def _without_end(data: dict[str, Any]) -> dict[str, Any]:
    """*data* as an answer that does not say why it ended."""
    return {**data, "choices": [{**each, "finish_reason": None} for each in data["choices"]]}


_OWN_INTERFACE = frozenset(
    {
        "anthropic",
        "anthropic_text",
        "bedrock",
        "bedrock_converse",
        "cohere",
        "cohere_chat",
        "databricks",
        "gemini",
        "sagemaker",
        "vertex_ai",
        "vertex_ai_beta",
        "watsonx",
    }
)
"""Providers that do not speak OpenAI's interface: what answers as they do is a way to them."""


class _Payees:
    """Tells which questions reach the provider that their model's name begins with.

    With another address, a server that speaks OpenAI's interface may be anybody's.
    """

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        given = (parameters.get(name) for name in ("base_url", "api_base"))
        self._url = next((str(url) for url in given if url), None)

    def is_provider(self, model: str) -> bool:
        """True if the provider itself answers for *model*, and takes its prices."""
        row = row_of(model)
        provider = model.partition("/")[0] if row is None else row.name.partition("/")[0]
        url = self._url or _url_of(provider)
        return not url or provider in _OWN_INTERFACE or seller_at(url) == provider


def _url_of(provider: str) -> str | None:
    """The address that litellm reads from the environment for *provider*."""
    names = (f"{provider.upper()}_{name}" for name in ("API_BASE", "BASE_URL"))
    return next((url for name in names if (url := os.environ.get(name))), None)


@dataclasses.dataclass(frozen=True, slots=True)
class _Prices:
    """Prices of a million tokens: from litellm's table once it is imported, else the package's."""

    paid: _Payees

    def get(self, model: str, /) -> Price | None:
        """The price of *model* at its dearest: of long prompts that are written to a cache.

        ``None`` when it is unknown.
        """
        if not model or not self.paid.is_provider(model):
            return None
        price = _dearest(model)
        if price is not None:
            return price
        row = row_of(model)
        return None if row is None else row.price


def _dearest(model: str) -> Price | None:
    """The price of *model* by litellm's table, ``None`` where that has none, or says 0."""
    litellm = sys.modules.get("litellm")
    try:
        prompt, answer = _per_million(litellm, model)
        written, _ = _per_million(litellm, model, cache_creation_input_tokens=_MILLION)
    except Exception:  # a model that the table does not have
        return None
    return Price(max(prompt, written), answer) if prompt or answer else None


def _per_million(litellm: Any, model: str, **more: int) -> tuple[float, float]:
    prompt, answer = litellm.cost_per_token(
        model=model, prompt_tokens=_MILLION, completion_tokens=_MILLION, **more
    )
    return prompt, answer


def _cost(litellm: Any, answer: Any, model: str) -> float | None:
    """The cost of *answer* that litellm computed, in units of currency."""
    hidden = getattr(answer, "_hidden_params", None) or {}
    cost = hidden.get("response_cost")
    try:
        return float(
            litellm.completion_cost(completion_response=answer, model=model)
            if cost is None
            else cost
        )
    except Exception:  # a model that its table does not have
        return None


def _stream_cost(litellm: Any, response: Response, model: str) -> float | None:
    """The cost of the tokens of *response* by litellm's table, in units of currency."""
    usage = response.usage
    if usage.prompt_tokens is None or usage.completion_tokens is None:
        return None
    try:
        prompt, answer = litellm.cost_per_token(
            model=model,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            cache_read_input_tokens=usage.cached_tokens or 0,
            cache_creation_input_tokens=usage.written_tokens or 0,
        )
    except Exception:  # a model that its table does not have
        return None
    return float(prompt + answer)


_KINDS: tuple[tuple[str, type[BackendError]], ...] = (
    ("ContextWindowExceededError", PromptTooLong),
    ("ContentPolicyViolationError", BackendRefused),
    ("UnsupportedParamsError", Unsupported),
    ("JSONSchemaValidationError", MalformedResponse),
    ("APIResponseValidationError", MalformedResponse),
)


def _typed(
    error: Exception, who: str, secrets: tuple[str, ...], answered: int | None
) -> BackendError:
    """The error of ours for one that litellm raised.

    *answered* is the status of an error, if one came. A text that litellm cannot read is no answer.
    """
    names = [kind.__name__ for kind in type(error).__mro__]
    said = excerpt(_said(error), secrets)
    for name, kind in _KINDS:
        if name in names:
            return kind(f"{who}: {said}")
    if "Timeout" in names or isinstance(error, TimeoutError):
        return BackendTimeout(f"{who} took too long", deadline="first token")
    if answered is None and (found := _connection_failure(error)) is not None:
        begun = type(found).__name__ not in _UNSENT
        return unreachable(ConnectionError(said), who, begun=begun, secrets=secrets)
    if "LLM Provider NOT provided" in _said(error):
        return ModelNotFound(f"{who}: begin the model's name with its provider: PROVIDER/MODEL")
    status = getattr(error, "status_code", None)
    if "APIConnectionError" in names or "Error parsing chunk" in said:  # any failure of its own
        status = answered
    if not isinstance(status, int):
        kind_of = type(error).__name__
        return MalformedResponse(f"{who}: litellm cannot read the answer ({kind_of}: {said})")
    return errors_of_http(status, _headers(error), _said(error), who, secrets=secrets)


_UNSENT = frozenset({"ConnectError", "ConnectTimeout", "PoolTimeout"})
_DEEPEST = 20


def _connection_failure(error: BaseException | None) -> BaseException | None:
    """The failure of the connection, of httpx or of the system, that *error* comes from, if any."""
    for _ in range(_DEEPEST):
        names = [kind.__name__ for kind in type(error).__mro__]
        if error is None or "OSError" in names or "TransportError" in names:
            return error
        error = error.__cause__ or error.__context__
    return None


_TRACEBACK = "Traceback (most recent call last)"
_WRAPPING = re.compile(r"(?:litellm\.)?\w+(?:Error|Exception)(?::| -) ")


def _said(error: Exception) -> str:
    """The provider's message, without litellm's names for its exceptions before it."""
    text = str(getattr(error, "message", "") or error)[:ERROR_BYTES].partition(_TRACEBACK)[0]
    while (wrapping := _WRAPPING.match(text)) is not None:
        text = text[wrapping.end() :]
    return text


def _headers(error: Exception) -> Mapping[str, str]:
    for held in (
        getattr(error, "litellm_response_headers", None),
        getattr(getattr(error, "response", None), "headers", None),
    ):
        if held:
            return dict(held)
    return {}

"""A request as the JSON body of a chat completion.

Invariant: a message is encoded once and kept with its link of the conversation, so that a growing
chat costs little more than what was added to it; schemas and tools, which are JSON text already,
are put in as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from json.encoder import encode_basestring
from typing import Any

from appl.backend import Draft, Request, Sampling
from appl.errors import Unsupported
from appl.prompt import Messages
from appl_backends.openai.dialects import Dialect, dialect_of
from appl_backends.openai.servers import PREFIXED, ServerKind
from appl_backends.openai.strict_schema import strict_schema
from appl_backends.prompt_cache import CachePlan, CacheRule, Mark, key_of, parts_of, plan_for
from appl_backends.prompt_cache.openai import rule_of

OPTIONS = frozenset(
    {
        "chat_template_kwargs",
        "extra_body",
        "frequency_penalty",
        "logit_bias",
        "metadata",
        "min_p",
        "modalities",
        "parallel_tool_calls",
        "prediction",
        "presence_penalty",
        "prompt_cache_key",
        "reasoning_effort",
        "repetition_penalty",
        "safety_identifier",
        "service_tier",
        "store",
        "top_k",
        "user",
        "verbosity",
    }
)
"""The further options of ``gen``; ``extra_body`` is a table of fields that are sent as they are."""

_UNPREDICTED = frozenset(
    "n logprobs top_logprobs presence_penalty frequency_penalty audio modalities max_tokens "
    "max_completion_tokens tools functions prediction".split()
)
"""The fields that no prediction goes with, and the user's own prediction."""

_known: dict[tuple[object, ...], tuple[dict[str, str], bytes, bytes]] = {}
_MOST = 1024
_HERE = "\0"
"""The messages stand here: no JSON text has this character."""

_KEY = "openai.message"
_BLOCK = 16
"""So many messages are kept as one piece: a long chat is put together from few of them."""


def body_of(
    request: Request, model: str, server: ServerKind, who: str = "", *, stream: bool = False
) -> list[bytes]:
    """The pieces of the body that asks *server* for *request*. Raises ``Unsupported``.

    Messages have the fields that *who*, the server and model that are asked, gave them before.
    """
    sampling, prompt = request.sampling, request.messages
    dialect = dialect_of(server.kind, model)
    fields, before, after = _fields(sampling, model, server)
    more = dict[str, str]()
    plan = None
    if request.reuse is not None and server.takes_cache_key:
        plan = plan_for(request, cache_rule(server, model))
    if plan is None:
        messages = encoded_messages(prompt, who, dialect)
    else:
        messages = planned_messages(prompt, who, dialect, plan)
    if prompt is not None and prompt.outline.role == "assistant" and is_begun(prompt):
        messages, more = going_on(messages, prompt, sampling, server, who, dialect)
    if sampling.schema is not None and asks_for_any_object(sampling, b"".join(messages).decode()):
        more["response_format"] = '{"type":"json_object"}'
    if request.n > 1:
        more["n"] = str(request.n)
    if sampling.seed is not None:
        shift = request.sample if "n" in server.features else 0
        more[server.seed] = str(sampling.seed + shift)
    if stream:
        more["stream"] = "true"
        if server.tells_usage_when_asked:
            more["stream_options"] = '{"include_usage":true}'
    if server.takes_cache_key:
        more["prompt_cache_key"] = f'"{key_of(prompt)}"'
        if plan is not None and plan.mode is not None:
            more["prompt_cache_options"] = f'{{"mode":"{plan.mode}"}}'
    for name, value in sampling.extra:
        more |= extra_fields(value) if name == "extra_body" else {name: _json(value)}
    if request.draft is not None and "drafts" in server.features:
        more |= prediction(request.draft, fields | more)
    if more:
        before, after = _written(fields | more)
    return [before, *messages, after] if after else [before]


def prediction(draft: Draft, fields: Mapping[str, str]) -> dict[str, str]:
    """The field for a *draft*; none beside *fields* that OpenAI refuses with it, or without text.

    Source: OpenAI's "Predicted Outputs", limitations.
    """
    text = draft.samples[0].text if draft.samples else ""
    if not text or not _UNPREDICTED.isdisjoint(fields):
        return {}
    return {"prediction": _json({"type": "content", "content": text})}


def _written(fields: dict[str, str]) -> tuple[bytes, bytes]:
    """The body before the messages and after them; nothing after, where other ones are given."""
    text = ",".join([f'"{name}":{text}' for name, text in fields.items()])
    before, _, after = f"{{{text}}}".partition(_HERE)
    return utf8(before), utf8(after)


def asks_for_any_object(sampling: Sampling, prompt: str) -> bool:
    """True if any JSON object will do, and the *prompt* says so, as servers require."""
    return sampling.schema == '{"type":"object"}' and "json" in prompt.lower()


def cache_rule(server: ServerKind, model: str) -> CacheRule | None:
    """The rule of the cache that *server* has for *model*; ``None`` where none is known."""
    return rule_of(model) if server.kind == "openai" else None


def planned_messages(
    messages: Messages | None, who: str, dialect: Dialect, plan: CachePlan | None
) -> list[bytes]:
    """The JSON list of *messages* in pieces, cut and marked as *plan* says."""
    if messages is None or plan is None or not (plan.cuts or plan.marks):
        return encoded_messages(messages, who, dialect)
    found = list[bytes]()
    for number, link in enumerate(messages.links()):
        cuts, marks = plan.cuts.get(number, ()), plan.marks_of(number)
        if cuts or marks:
            found.append(_marked(link, who, dialect, cuts, marks))
            continue
        key: object = (_KEY, dialect.name, who if link.provided else "", "alone")
        piece = link.cache.get(key)
        if not isinstance(piece, bytes):
            piece = link.cache[key] = _message(link, who, dialect)
        found.append(piece)
    return [*found, b"]"]


def _marked(
    link: Messages,
    who: str,
    dialect: Dialect,
    cuts: Sequence[int],
    marks: Mapping[int | None, Mark],
) -> bytes:
    """The JSON of a message, as of ``_message``, with its text in parts."""
    written = dialect.written(link.message.as_dict(who), link)
    last = written[-1]
    field = dialect.text_field(last)
    content = last.get(field) if field is not None else None
    if field is not None and isinstance(content, str) and content:
        parts = parts_of(content, cuts)
        ends: list[int | None] = [*cuts, None]
        last[field] = [
            {"type": dialect.text_part, "text": part, **(_BREAKPOINT if end in marks else {})}
            for part, end in zip(parts, ends, strict=True)
        ]
    elif field is not None and isinstance(content, list) and content and None in marks:
        last[field] = [*content[:-1], {**content[-1], **_BREAKPOINT}]
    before = "[" if link.parent is None else ","
    return utf8(before + ",".join(map(_json, written)))


_BREAKPOINT = {"prompt_cache_breakpoint": {"mode": "explicit"}}


def encoded_messages(messages: Messages | None, who: str, dialect: Dialect) -> list[bytes]:
    """The JSON list of *messages* in pieces, which are kept: the next request begins with them."""
    if messages is None:
        raise Unsupported("a chat needs a message: the prompt is empty")
    same = _KEY, dialect.name
    key: object = (same, who) if messages.provided else same
    pieces = [b"]"]
    link: Messages | None = messages
    if messages.kept is None:  # it grows, and each version would be kept whole
        pieces.append(_message(messages, who, dialect))
        link = messages.parent
    while link is not None:
        found: Any = link.cache.get(key if link.provided else same) or _kept(link, who, dialect)
        pieces.append(found[0])
        link = found[1]
    pieces.reverse()
    return pieces


def _kept(link: Messages, who: str, dialect: Dialect) -> tuple[bytes, Messages | None]:
    """The JSON of the message of *link*, or of the block that it ends, and the link before."""
    same = _KEY, dialect.name
    key: object = (same, who) if link.provided else same
    pieces, at = [_message(link, who, dialect)], link.parent
    if link.length % _BLOCK == 0:
        while at is not None and at.length % _BLOCK:
            known: Any = at.cache.get(key if at.provided else same)
            pieces.append(known[0] if known else _message(at, who, dialect))
            at = at.parent
    pieces.reverse()
    kept = link.cache[key] = b"".join(pieces), at
    return kept


def _message(link: Messages, who: str, dialect: Dialect) -> bytes:
    """The JSON of a message, after the bracket or comma that stands before it."""
    message, before = link.kept or link.message, "[" if link.parent is None else ","
    if not message.bare or dialect.watches_texts:
        found = dialect.written(message.as_dict(who), link)
        return utf8(before + ",".join(map(_json, found))) if found else b""
    # Most messages are no more than a role and a text, and there may be thousands of them.
    content = encode_basestring(message.content)
    return utf8(f'{before}{{"role":"{message.role}","content":{content}}}')


def _fields(
    sampling: Sampling, model: str, server: ServerKind
) -> tuple[dict[str, str], bytes, bytes]:
    """The fields that *sampling* alone determines, as JSON, and a body that has no others.

    They are kept: most calls of a program share them.
    """
    key = sampling.canonical(), model, server.kind, server.features
    found = _known.get(key)
    if found is None:
        if len(_known) >= _MOST:
            _known.clear()
        fields = {"model": _json(model), "messages": _HERE} | dict(_given(sampling, server))
        found = _known[key] = fields, *_written(fields)
    return found


def _given(sampling: Sampling, server: ServerKind) -> Iterator[tuple[str, str]]:
    if sampling.max_tokens is not None:
        yield server.max_tokens, str(sampling.max_tokens)
    for name in ("temperature", "top_p"):
        if getattr(sampling, name) is not None:
            yield name, _json(getattr(sampling, name))
    if sampling.stop:
        yield "stop", _json(list(sampling.stop))
    if sampling.logprobs is not None:
        yield "logprobs", "true"
        if sampling.logprobs:
            yield "top_logprobs", str(sampling.logprobs)
    if sampling.prompt_logprobs is not None:
        yield "prompt_logprobs", str(sampling.prompt_logprobs)
    if sampling.stop_tokens:
        yield "stop_token_ids", _json(list(sampling.stop_tokens))
    tools, choice = sampling.tools, sampling.tool_choice
    if not server.heeds_tool_choice and choice == "none":
        tools, choice = (), None
    if not server.takes_tool_names and choice not in (None, *CHOICES):
        tools = tuple(each for each in tools if json.loads(each)["name"] == choice)
        choice = "required"
    if tools:
        yield "tools", "[" + ",".join(map(_tool, tools)) + "]"
        if choice is not None:
            yield "tool_choice", _tool_choice(choice)
    yield from _constraint(sampling, server)


def _constraint(sampling: Sampling, server: ServerKind) -> Iterator[tuple[str, str]]:
    """The constraint on the answer, as *server* names it."""
    if sampling.schema is not None:
        schema, strict = strict_schema(sampling.schema, server.strict_subset)
        named = f'{{"name":"answer","schema":{schema},"strict":{_json(strict)}}}'
        yield "response_format", f'{{"type":"json_schema","json_schema":{named}}}'
    for name in ("regex", "grammar"):
        text = getattr(sampling, name)
        if text is not None:
            field = server.constraint_field(name)
            yield field, _json({name: text} if field == "structured_outputs" else text)


def _tool(text: str) -> str:
    return f'{{"type":"function","function":{text}}}'


CHOICES = ("auto", "none", "required")


def _tool_choice(choice: str) -> str:
    if choice in CHOICES:
        return _json(choice)
    return _json({"type": "function", "function": {"name": choice}})


def is_begun(prompt: Messages | None) -> bool:
    """True if *prompt* ends with text of the assistant, from which the answer is to go on."""
    if prompt is None or prompt.outline.role != "assistant" or prompt.outline.tool_calls:
        return False
    return prompt.size > 0


GO_ON = (
    "Continue your last message exactly where it ends. Write only what comes next, and repeat "
    "nothing of it."
)
"""The instruction in place of a continuation, for servers that begin a new message."""
_GO_ON = f',{{"role":"user","content":{json.dumps(GO_ON)}}}]'.encode()


def going_on(
    messages: list[bytes],
    prompt: Messages,
    sampling: Sampling,
    server: ServerKind,
    who: str,
    dialect: Dialect,
) -> tuple[list[bytes], dict[str, str]]:
    """*messages* and further fields for an answer that goes on from text of the assistant."""
    if "prefill" not in server.features:
        check_begun(sampling, who)
        return [*messages[:-1], _GO_ON], {}
    if server.kind in PREFIXED:
        before = (
            encoded_messages(prompt.parent, who, dialect)[:-1] if prompt.parent is not None else []
        )
        (last,) = dialect.written(prompt.message.as_dict(who), prompt)
        text = _json({**last, "prefix": True})
        messages = [*before, utf8(f"{',' if before else '['}{text}]")]
    return messages, {name: _json(value) for name, value in server.continuing.items()}


def check_begun(sampling: Sampling, who: str) -> None:
    """Refuse a form for an answer that goes on from begun text: it would be that of the rest."""
    for name, option in (("schema", "response_format"), ("regex",) * 2, ("grammar",) * 2):
        if getattr(sampling, name) is not None:
            raise Unsupported(
                f"{who} begins a new message where the prompt ends with text of the assistant, so "
                f"gen({option}=...) cannot apply to both: say that text as the user, or choose a "
                "server that continues it (features = ['prefill'])"
            )


def extra_fields(value: object) -> dict[str, str]:
    """The fields of the option ``extra_body``, as JSON."""
    if not isinstance(value, dict):
        raise Unsupported(f"extra_body takes a table of fields, got {value!r:.80}")
    return {str(name): _json(given) for name, given in value.items()}


_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def utf8(text: str) -> bytes:
    """*text* in UTF-8. A surrogate without its other half, which servers refuse, is replaced."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()

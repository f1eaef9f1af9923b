"""A request as the JSON body of a message.

Invariant: what is the same for many requests is encoded once: messages with their links of the
conversation, and what the sampling determines with the sampling.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from appl.backend import Request, Sampling
from appl.backend.price_table import row_of
from appl.errors import Unsupported
from appl.prompt import Messages
from appl_backends.anthropic.messages import (
    HELLO,
    Place,
    control,
    full_place,
    is_in_turn_without_thoughts,
    joined,
    pieces_of,
    place_of,
    planned,
    prefix_at,
    state_at,
)
from appl_backends.anthropic.schemas import structured
from appl_backends.openai.body import GO_ON, check_begun, is_begun, utf8
from appl_backends.prompt_cache import CachePlan

OPTIONS = frozenset(
    {
        "extra_body",
        "metadata",
        "parallel_tool_calls",
        "reasoning_effort",
        "service_tier",
        "thinking",
        "top_k",
        "user",
    }
)
"""The further options of ``gen``; ``extra_body`` is a table of fields that are sent as they are."""

MOST_TOKENS, UNKNOWN_TOKENS = 32_000, 8_192
"""The limit of an answer that names none: at most this, and this for a model nobody knows."""

_PREFILLED = re.compile(
    r"claude-(?:2|3|instant)|claude-(?:opus|sonnet|haiku)-4(?:-[015])?(?:[-@]\d{8}|-latest)?$"
)
"""Models that go on with a message of the assistant.

https://platform.claude.com/docs/en/api/errors#prefill-not-supported
"""

IN_WORDS = "Answer with JSON that fits this JSON schema, and with nothing else:\n"
_known: dict[tuple[object, ...], dict[str, str]] = {}
_MOST = 1024
_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class Body(NamedTuple):
    """The pieces of a body, and what stands before the answer to it.

    *begun* is text that the model was told to go on from. *is_whole* is false where more was said
    than the prompt holds, *sheds* true where a thought of the model was left out.
    """

    pieces: list[bytes]
    place: Place
    begun: str | None = None
    is_whole: bool = True
    sheds: bool = False


def prefix_of(request: Request, model: str, body: Body) -> str:
    """The state before the answer to *body*, which asks *model* for *request*.

    It is empty where the next prompt does not hold all of it.
    """
    prompt, (source, *_) = request.messages, body.place
    if not body.is_whole:
        return ""
    place = full_place(prompt, source, model, request.sampling.tools)
    place = place._replace(thinks=body.place.thinks)
    return prefix_at(prompt, place, state_at(prompt, place).thoughts)


def body_of(
    request: Request,
    model: str,
    source: str = "",
    *,
    max_tokens: int | None = None,
    plan: CachePlan | None = None,
    stream: bool = False,
) -> Body:
    """The body that asks *source*, a server and model, for *request*. Raises ``Unsupported``.

    What is cut and marked for the provider's cache is told by *plan*.
    """
    sampling, prompt = request.sampling, request.messages
    if prompt is None:
        raise Unsupported("a chat needs a message: the prompt is empty")
    fields = _fields(sampling, model, max_tokens)
    place = place_of(prompt, source, model, sampling.tools)
    if '"type":"enabled"' in fields.get("thinking", "") and is_in_turn_without_thoughts(
        prompt, place
    ):
        # It refuses to think where it has not thought before a call of the turn.
        # https://docs.anthropic.com/en/docs/build-with-claude/extended-thinking, "Toggling thinking
        # modes in conversations"
        fields = {name: text for name, text in fields.items() if name != "thinking"}
        place = place._replace(thinks=False)
    if plan is not None and (plan.cuts or plan.marks):
        found = planned(prompt, place, plan)
        system = [each.piece for each in found if each.system and each.piece]
        messages = [each.piece for each in found if not each.system]
    else:
        system, messages = pieces_of(prompt, place)
    begun, more, is_whole = None, list[str](), True
    if is_begun(prompt):
        check_begun(sampling, source)
        if _PREFILLED.match(model) and "thinking" not in fields:
            if plan is None or not (plan.cuts or plan.marks):  # it may be a piece with others
                messages = pieces_of(prompt.parent, place)[1] if prompt.parent is not None else []
                messages.append(b"")
            messages[-1] = _without_space(prompt, place)
        else:
            begun = prompt.message.content
            more.append(GO_ON)
    if sampling.schema is not None and not _is_form(sampling.schema):
        more.append(IN_WORDS + structured(sampling.schema)[0])
    if more:
        is_whole = False
        messages.append(_said(more, state_at(prompt, place).role))
    if not any(messages):
        messages = [_said([HELLO], "")]
    head = ",".join([f'"{name}":{text}' for name, text in fields.items()])
    pieces = [utf8(f"{{{head}")]
    if plan is not None and plan.automatic and "cache_control" not in fields:
        pieces.append(utf8(f',"cache_control":{control(plan.ttl)}'))
    if system:
        pieces += [b',"system":[', b",".join(system), b"]"]
    tail = ']}],"stream":true}' if stream else "]}]}"
    sheds = prompt.provided and state_at(prompt, place).sheds
    pieces += [b',"messages":[', *messages, tail.encode()]
    return Body(pieces, place, begun, is_whole, sheds)


def _said(texts: list[str], role: str) -> bytes:
    """The bytes by which the user says *texts* behind a message of *role*."""
    blocks = ",".join([_json({"type": "text", "text": text}) for text in texts])
    if role == "user":
        return utf8(f",{blocks}")
    return utf8(f'{"]}," if role else ""}{{"role":"user","content":[{blocks}')


def _without_space(prompt: Messages, place: Place) -> bytes:
    """The last text of *prompt* without white space at its end, which is refused there."""
    text = prompt.message.content.rstrip()
    blocks = [_json({"type": "text", "text": text})] if text else []
    return joined(prompt, blocks, state_at(prompt.parent, place)).piece


def _fields(sampling: Sampling, model: str, max_tokens: int | None) -> dict[str, str]:
    """The fields that *sampling* alone determines, as JSON. They are kept."""
    key = sampling.canonical(), model, max_tokens
    found = _known.get(key)
    if found is None:
        if len(_known) >= _MOST:
            _known.clear()
        found = _known[key] = dict(_given(sampling, model, max_tokens))
    return found


def _given(sampling: Sampling, model: str, max_tokens: int | None) -> Iterator[tuple[str, str]]:
    extra = dict(sampling.extra)
    own = extra.pop("extra_body", {})
    if not isinstance(own, dict):
        raise Unsupported(f"extra_body takes a table of fields, got {own!r:.80}")
    yield "model", _json(model)
    if "max_tokens" not in own:
        most = sampling.max_tokens or _most_tokens(model, max_tokens, extra.get("thinking"))
        yield "max_tokens", str(most)
    for name in ("temperature", "top_p"):
        if getattr(sampling, name) is not None:
            yield name, _json(getattr(sampling, name))
    # Texts of white space are refused, and so they are looked for here.
    if stop := [text for text in sampling.stop if text.strip()]:
        yield "stop_sequences", _json(stop)
    yield from _tools(sampling, extra.pop("parallel_tool_calls", None))
    yield from _output(sampling, extra.pop("reasoning_effort", None), own.get("output_config"))
    user = {"user_id": extra.pop("user")} if "user" in extra else {}
    if user or "metadata" in extra:
        yield "metadata", _json({**extra.pop("metadata", {}), **user})
    for name, value in {**extra, **own}.items():
        if name != "output_config":
            yield str(name), _json(value)


def _most_tokens(model: str, most: int | None, thinking: Any) -> int:
    """The limit of an answer, which the interface wants to have; thoughts count, too."""
    row = row_of(f"anthropic/{model}")
    known = row.max_output if row is not None else None
    found = most or min(known or UNKNOWN_TOKENS, MOST_TOKENS)
    budget = thinking.get("budget_tokens") if isinstance(thinking, Mapping) else None
    if isinstance(budget, int) and budget >= found:
        return budget + (most or UNKNOWN_TOKENS)
    return found


def _output(sampling: Sampling, effort: object, own: object) -> Iterator[tuple[str, str]]:
    """The effort of the model, and the form of its answer."""
    found = [f"{_json(k)}:{_json(v)}" for k, v in own.items()] if isinstance(own, dict) else []
    if effort is not None:
        found.append(f'"effort":{_json(effort)}')
    if sampling.schema is not None and _is_form(sampling.schema):
        schema, _ = structured(sampling.schema)
        found.append(f'"format":{{"type":"json_schema","schema":{schema}}}')
    if found:
        yield "output_config", f"{{{','.join(found)}}}"


def _is_form(schema: str) -> bool:
    """True if an answer can be held to *schema*; else it is told in words."""
    return structured(schema)[1]


_CHOICES = {"auto": "auto", "none": "none", "required": "any"}


def _tools(sampling: Sampling, parallel: object) -> Iterator[tuple[str, str]]:
    if not sampling.tools:
        return
    yield "tools", "[" + ",".join(map(_tool, sampling.tools)) + "]"
    choice = sampling.tool_choice
    found: dict[str, object] = {"type": _CHOICES.get(choice or "auto", "tool")}
    if found["type"] == "tool":
        found["name"] = choice
    if parallel is not None and found["type"] != "none":
        found["disable_parallel_tool_use"] = not parallel
    if choice is not None or len(found) > 1:
        yield "tool_choice", _json(found)


def _tool(text: str) -> str:
    tool = json.loads(text)
    tool["input_schema"] = {"type": "object", **tool.pop("parameters", {})}
    return _json(tool)

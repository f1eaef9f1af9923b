"""Older spellings of requests and answers: options of ``gen``, attributes of answers.

Invariant: an older spelling does the same as the newer one, or raises an error that says what to
write.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from appl.compat.older import told_once
from appl.errors import InvalidOption, UnknownOption, nearest
from appl.fallback import MISSING
from appl.runtime.frame import PromptWriter

WORDS = {
    "server": "model",
    "_ctx": "messages",
    "response_model": "response_format",
    "max_retries": "max_asks",
}
_REPLACED = {
    "mock_response": "script the answers of a test with appl.testing.Scripted",
    "messages_process_func": "give the messages that are meant as messages=",
    "postprocess_args": "give the messages and options that are meant to gen() itself",
    "tool_format": "tools are always given to the backend with their schema",
    "instructor_patch_mode": "response_format= needs no patch",
    "max_retries": "with response_format= write max_asks=, which counts the first try too",
    "validation_context": "validate in the type given as response_format=",
    "lazy_eval": "every call starts at once",
    "llm_executor_type": "calls need no executor",
    "api_key": 'write [backends.NAME] api_key = {env = "VARIABLE"} into appl.toml',
    "base_url": "write [backends.NAME] base_url into appl.toml",
    "extra_headers": "write [backends.NAME] headers into appl.toml: options of a call are recorded",
}


def of_gen(extra: dict[str, object], known: Container[str], typed: bool) -> dict[str, object]:
    """The options that *extra* gives in older words; they are removed from it.

    Words in *known* belong to the backend and stay. ``max_retries`` is translated only for a
    *typed* answer.
    """
    _check(extra, typed)
    found: dict[str, Any] = {}
    typed = typed or extra.get("response_model") is not None
    for old, new in WORDS.items():
        if old in extra and old not in known and (typed or old != "max_retries"):
            value = extra.pop(old)
            if value is not None:
                found[new] = _asks(value) if old == "max_retries" else value
            if old != "_ctx":
                told_once(f"gen({old}=…)", f"gen({new}=…)")
    return found


def _check(extra: dict[str, object], typed: bool) -> None:
    given = extra.get("_ctx")
    if given is not None and not isinstance(given, PromptWriter):
        raise InvalidOption(
            f"gen(_ctx=...) takes a PromptContext, got {given!r:.80}; for messages write "
            "gen(messages=...)"
        )
    if typed and extra.get("response_model") is not None:
        raise InvalidOption(
            "gen(response_format=..., response_model=...): they are the same; leave out "
            "response_model"
        )


def of_sampling(fields: dict[str, object], extra: dict[str, object], known: Container[str]) -> None:
    """Translate OpenAI's words in *fields* and *extra* to those of today, in *fields*.

    ``logprobs=True, top_logprobs=k`` is ``logprobs=k``, ``max_completion_tokens`` ``max_tokens``.
    """
    if isinstance(fields["logprobs"], bool):
        fields["logprobs"] = 0 if fields["logprobs"] else None
    for old, new in (("top_logprobs", "logprobs"), ("max_completion_tokens", "max_tokens")):
        if old not in extra or old in known:
            continue
        value = extra.pop(old)
        if value is not None and fields[new] not in (None, 0, value):
            raise InvalidOption(
                f"gen({new}={fields[new]!r}, {old}={value!r}): they mean the same; leave one out"
            )
        fields[new] = fields[new] if value is None else value
        told_once(f"gen({old}=…)", f"gen({new}=…)")


def _asks(retries: object) -> int:
    if type(retries) is not int or retries < 0:
        raise InvalidOption(f"gen(max_retries=...) takes a whole number, got {retries!r:.80}")
    return retries + 1


def instead(option: str) -> str:
    """A hint in place of the *option* of ``gen`` that has gone; an empty string for others."""
    found = _REPLACED.get(option)
    return f"; {found}" if found else ""


# -- the calls of tools


def filter_of(answer: Any, filter: object, options: dict[str, object]) -> object:
    """The filter of the tool calls of *answer* that *options* mean.

    ``filter_fn`` is a function of the list of calls, which returns those to run.
    """
    for name in options:
        if name not in _TOOL_WORDS:
            known = ("filter", "parallel", "timeout")
            raise UnknownOption(f"run_tool_calls has no option {name!r}{nearest(name, known)}")
        told_once(f"run_tool_calls({name}=…)", _TOOL_WORDS[name])
    function = options.get("filter_fn")
    if function is None:
        return filter
    if filter is not None or not callable(function):
        raise InvalidOption("run_tool_calls(filter_fn=...) takes a function of the list of calls")
    return list(function(list(answer.tool_calls))).__contains__


_TOOL_WORDS = {
    "filter_fn": "run_tool_calls(filter=…), a function of one call",
    "executor_type": "run_tool_calls()",
    "log_results": "run_tool_calls(); the results are in the trace",
}

# -- attributes of answers

ATTRIBUTES = {
    "as_prompt": "g itself",
    "id": "g.call_id",
    "is_message": "not g.tool_calls",
    "is_obj": "isinstance(g.result(), …)",
    "is_tool_call": "bool(g.tool_calls)",
    "reasoning_content": "g.reasoning",
    "response": "g.result()",
    "response_type": "g.tool_calls, g.response_obj",
    "finished_response": "g.result()",
    "results": "g.result(), g.tool_calls or g.response_obj",
    "str_future": "g itself",
    "val": "g.result()",
}
"""The attributes of APPL's answers, each with the expression that replaces it."""


def of_answer(answer: object, value: object, name: str) -> object:
    """The value of APPL's attribute *name* of *answer*, or ``MISSING``.

    *value* is the answer's value.
    """
    if name not in ATTRIBUTES:
        return MISSING
    told_once(f"g.{name}", ATTRIBUTES[name])
    calls = getattr(value, "tool_calls", ())
    plain = isinstance(value, str)
    match name:
        case "id":
            return getattr(answer, "call_id", MISSING)
        case "as_prompt":
            return lambda: answer
        case "is_tool_call":
            return bool(calls)
        case "is_obj":
            return not plain
        case "is_message":
            return plain and not calls
        case "reasoning_content":
            return getattr(value, "reasoning", None)
        case "response_type":
            return "tool_calls" if calls else "text" if plain else "obj"
        case "results":
            return list(calls) if calls else value
        case "str_future":
            return answer
    return value

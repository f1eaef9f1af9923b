"""Older spellings of requests and answers: options of ``gen``, attributes of answers.

Invariant: an older spelling does the same as the newer one, or raises an error that says what to
write.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from appl.backend import Response, Sample
from appl.base.fallback import MISSING
from appl.errors import InvalidOption, UnknownOption, nearest
from appl.parts.compat.older import told_once
from appl.prompt import UserMessage, digest_of
from appl.runtime.answers.samples import NamedStore
from appl.runtime.answers.text import Text
from appl.runtime.frame import PromptWriter
from appl.runtime.prompts.conversation import Conversation
from appl.runtime.prompts.prompt_context import PromptContext, context_here

WORDS = {
    "server": "model",
    "_ctx": "messages",
    "response_model": "response_format",
    "max_retries": "max_asks",
}
_REPLACED = {
    "logprob_start_len": "write gen(prompt_logprobs=0) for those of all tokens of the prompt",
    "tool_format": "tools are always given to the backend with their schema",
    "instructor_patch_mode": "response_format= needs no patch",
    "max_retries": "with response_format= write max_asks=, which counts the first try too",
    "validation_context": "validate in the type given as response_format=",
    "lazy_eval": "every call starts at once",
    "llm_executor_type": "calls need no executor",
    "base_url": "write [backends.NAME] base_url into appl.toml",
    "extra_headers": "write [backends.NAME] headers into appl.toml: options of a call are recorded",
}


def of_gen(extra: dict[str, object], parameters: Container[str], typed: bool) -> dict[str, object]:
    """The options that *extra* gives in older words; they are removed from it.

    Words in *parameters* belong to the backend and stay. ``max_retries`` is translated only for a
    *typed* answer.
    """
    _check(extra, typed)
    fields: dict[str, Any] = {}
    if "mock_response" in extra and "mock_response" not in parameters:
        fields["cache"] = mocked(extra.pop("mock_response"))
        told_once("gen(mock_response=…)", "a test with appl.testing.Scripted")
    if "num_retries" in extra and "num_retries" not in parameters:
        del extra["num_retries"]
        told_once("gen(num_retries=…)", "[retries] attempts into appl.toml")
    typed = typed or extra.get("response_model") is not None
    for old, new in WORDS.items():
        if old in extra and old not in parameters and (typed or old != "max_retries"):
            value = extra.pop(old)
            if value is not None:
                fields[new] = _asks(value) if old == "max_retries" else value
            if old != "_ctx":
                told_once(f"gen({old}=…)", f"gen({new}=…)")
    return fields


def processed(
    fields: dict[str, Any], extra: dict[str, Any], words: dict[str, Any], messages_option: object
) -> None:
    """Let ``messages_process_func`` and ``postprocess_args`` change a question.

    The first gets the conversation and returns another, the second gets and returns the arguments
    in OpenAI's words. Both see *messages_option* or the prompt, with finished answers.
    """
    of_messages, of_all = (
        extra.pop("messages_process_func", None),
        extra.pop("postprocess_args", None),
    )
    if of_messages is not None:
        told_once("gen(messages_process_func=…)", "gen(messages=…)")
        words["messages"] = messages_option = of_messages(_conversation(messages_option))
    if of_all is None:
        return
    told_once("gen(postprocess_args=…)", "gen(messages=…) and the options that are meant")
    before = {name: value for name, value in fields.items() if value not in (None, ())}
    messages = _conversation(messages_option).as_list()
    after = of_all({**before, **extra, "messages": messages})
    if not isinstance(after, Mapping) or "messages" not in after:
        raise InvalidOption(
            "gen(postprocess_args=...) is a function that returns the arguments, "
            f"messages among them; it returned {after!r:.80}"
        )
    extra.clear()
    for name, value in after.items():
        if name in ("messages", "model"):
            words[name] = value
        elif name in fields:
            fields[name] = value
        else:
            extra[name] = value


def _conversation(messages: Any) -> Conversation:
    """The conversation of *messages*, or the prompt of the running function."""
    if messages is None:
        return (context_here() or PromptContext()).messages
    if isinstance(messages, str):
        return Conversation([UserMessage(messages)])
    return messages.messages if isinstance(messages, PromptContext) else Conversation(messages)


class _Mock:
    """A store that has one answer to everything, as often as it is wanted."""

    blocking = False

    def __init__(self, answer: Response) -> None:
        self.name = f"mock_response {digest_of(repr(answer)).hex()}"
        self._answer = answer

    def load(self, content: bytes, count: int) -> list[Response]:
        return [self._answer] * count

    def save(self, content: bytes, first: int, answers: list[Response]) -> list[Response]:
        return answers

    def close(self) -> None: ...


def mocked(answer: object) -> NamedStore:
    """The store that answers for ``mock_response=`` *answer*; ``None`` is the dummy's answer."""
    if answer is None:
        answer = "This is a dummy response"
    if isinstance(answer, Text):
        return _Mock(answer._response)
    if not isinstance(answer, str):
        raise InvalidOption(
            "gen(mock_response=...) takes a text or a CompletionResponse, got "
            f"{type(answer).__name__}"
        )
    return _Mock(Response((Sample(str.__str__(answer), "stop"),)))


def _check(extra: dict[str, object], typed: bool) -> None:
    context = extra.get("_ctx")
    if context is not None and not isinstance(context, PromptWriter):
        raise InvalidOption(
            f"gen(_ctx=...) takes a PromptContext, got {context!r:.80}; for messages write "
            "gen(messages=...)"
        )
    if typed and extra.get("response_model") is not None:
        raise InvalidOption(
            "gen(response_format=..., response_model=...): they are the same; leave out "
            "response_model"
        )


def of_sampling(
    fields: dict[str, object], extra: dict[str, object], parameters: Container[str]
) -> None:
    """Translate OpenAI's words in *fields* and *extra* to those of today, in *fields*.

    ``logprobs=True, top_logprobs=k`` is ``logprobs=k``, ``max_completion_tokens`` ``max_tokens``.
    """
    if isinstance(fields["logprobs"], bool):
        fields["logprobs"] = 0 if fields["logprobs"] else None
    for old, new in (("top_logprobs", "logprobs"), ("max_completion_tokens", "max_tokens")):
        if old not in extra or old in parameters:
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
    replacement = _REPLACED.get(option)
    return f"; {replacement}" if replacement else ""


# -- the calls of tools


def filter_of(answer: Any, filter: object, options: dict[str, object]) -> object:
    """The filter of the tool calls of *answer* that *options* mean.

    ``filter_fn`` is a function of the list of calls, which returns those to run.
    """
    for name in options:
        if name not in _TOOL_WORDS:
            options_of_filter = ("filter", "parallel", "timeout")
            raise UnknownOption(
                f"run_tool_calls has no option {name!r}{nearest(name, options_of_filter)}"
            )
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
    "streaming": "gen(stream=True) and print(g), or g.text_stream",
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
        case "streaming":  # it showed the answer; `appl run --stream` does
            return lambda *_, **__: answer
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

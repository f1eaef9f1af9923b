"""The answers of this room to whoever meets a name or an option that today's programs do not have.

Invariant: it fulfils ``appl.base.fallback.AlternativeNames``.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Set
from typing import TYPE_CHECKING, Any

from appl.parts.compat import answers, messages, tools
from appl.parts.compat.answers import filter_of as filter_of, instead as instead
from appl.parts.compat.older import renamed, told_once
from appl.prompt import Message, ToolCall
from appl.runtime.tools.tool import Tool

if TYPE_CHECKING:
    from appl.base.fallback import AlternativeNames

_DECORATOR = {"comp": "compositor", "include_docstring": "docstring_as"}
"""Options of ``ppl``, and their names today."""

_IDLE = "num_extra_wrappers"
"""An option of ``ppl`` that has no meaning any more, and needs none."""


def attribute(owner: object, value: object, name: str) -> object:
    """The attribute *name* of *owner*, whose value is *value*; or ``MISSING``."""
    if isinstance(owner, Message):
        return messages.of_message(owner, name)
    if isinstance(owner, ToolCall):
        return messages.of_call(owner, name)
    if isinstance(owner, Tool):
        return tools.of_tool(owner, name)
    return answers.of_answer(owner, value, name)


def options(
    fields: dict[str, object],
    extra: dict[str, object],
    parameters: Set[str],
    typed: bool,
    messages: object = None,
) -> dict[str, object]:
    """Put what *extra* says of the sampling into *fields*; return the other options."""
    answers.of_sampling(fields, extra, parameters)
    words = answers.of_gen(extra, parameters, typed)
    if {"postprocess_args", "messages_process_func"} & extra.keys():
        answers.processed(fields, extra, words, words.get("messages", messages))
    return words


def arguments(f: Any, arguments: dict[str, object]) -> dict[str, object]:
    """The *arguments* of ``call`` that are meant for *f*: where it runs is no longer chosen."""
    try:
        own = "executor_type" in inspect.signature(f).parameters
    except (TypeError, ValueError):
        own = False
    if own:
        return arguments
    told_once("call(executor_type=…)", "call(f, …)")
    return {name: value for name, value in arguments.items() if name != "executor_type"}


def decorator(options: dict[str, object], parameters: Collection[str]) -> dict[str, object]:
    """The *options* of ``ppl`` under the names in *parameters*. Raises ``UnknownOption``."""
    meant = {name: value for name, value in options.items() if name != _IDLE}
    options_renamed = renamed("@ppl", meant, _DECORATOR, parameters)
    if "docstring_as" in options_renamed:
        options_renamed["docstring_as"] = "user" if options_renamed["docstring_as"] else None
    return options_renamed


def context(ctx: str, contexts: Collection[str]) -> str:
    """The context in *contexts* that ``ppl(ctx=…)`` means: ``copy`` was written ``copy_ctx``."""
    name = ctx.removesuffix("_ctx")
    if name == ctx or name not in contexts:
        return ctx
    told_once(f"ctx={ctx!r}", f"ctx={name!r}")
    return name


if TYPE_CHECKING:
    from appl.parts.compat import names

    _checked: AlternativeNames = names

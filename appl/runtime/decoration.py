"""The options of ``@ppl``, and of a call about itself, checked.

Invariant: an option that means nothing is refused at the line where it is written.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from appl.base import fallback
from appl.errors import InvalidOption
from appl.prompt import RoleName
from appl.runtime.activation import CONTEXTS, CallMode, Decoration

if TYPE_CHECKING:
    from appl.runtime.prompts.compositor import Compositor
    from appl.runtime.prompts.prompt_context import PromptContext

_OPTIONS = tuple(option.name for option in dataclasses.fields(Decoration))
_ROLES: dict[str, RoleName] = {"user": "user", "system": "system"}


def decoration_of(
    ctx: str,
    compositor: object,
    model: object,
    default_return: str | None,
    docstring_as: str | None,
    parallel: bool,
    auto_prime: bool,
    new_ctx_func: Any,
    older: dict[str, object],
) -> Decoration:
    """The options as they were written in ``@ppl(…)``, with *older* names for them."""
    if older:
        meant = fallback.names().decorator(older, _OPTIONS)
        compositor = meant.get("compositor", compositor)
        docstring_as = docstring_as or meant.get("docstring_as")
    if docstring_as not in (None, *_ROLES):
        raise ValueError(f"@ppl(docstring_as={docstring_as!r}): it is 'user' or 'system'")
    if default_return not in (None, "prompt"):
        raise ValueError(f"@ppl(default_return={default_return!r}): only 'prompt' is known")
    if model is not None and not (isinstance(model, str) and model):
        raise InvalidOption(f"@ppl(model=...) takes the name of a model, got {model!r:.80}")
    for name, value in (("parallel", parallel), ("auto_prime", auto_prime)):
        if not isinstance(value, bool):
            raise InvalidOption(f"@ppl({name}=...) is True or False, got {value!r:.80}")
    if new_ctx_func is not None:
        from appl.runtime.prompts.prompt_context import PromptContext  # few functions give one

        if not callable(new_ctx_func):
            raise InvalidOption(
                "@ppl(new_ctx_func=...) takes a function that makes a PromptContext, got "
                f"{new_ctx_func!r:.80}"
            )
        if new_ctx_func is PromptContext:  # which makes the usual ones
            new_ctx_func = None
    return Decoration(
        _context("@ppl(ctx=", ctx),
        _compositor(compositor, "@ppl(compositor=...)"),
        model,
        default_return,
        _ROLES.get(docstring_as or ""),
        parallel,
        auto_prime,
        new_ctx_func,
    )


def mode_of(
    name: str, mode: CallMode, about: dict[str, object], new: Callable[[], object] | None
) -> CallMode:
    """The *mode* of the function *name* with what a call says *about* itself.

    *new* makes the prompt of a call that begins a new one.
    """
    if (ctx := about.get("ctx_method")) is not None:
        mode = dataclasses.replace(mode, ctx=_context(f"{name}(ctx_method=", ctx))
    if "compositor" in about:
        block = _compositor(about["compositor"], f"{name}(compositor=...)")
        mode = dataclasses.replace(mode, block=block)
    if (context := about.get("_ctx")) is not None:
        context = _checked_context(name, "_ctx= takes", context)
        mode = dataclasses.replace(mode, context=context)
    if new is not None and mode.ctx == "new":
        context = _checked_context(name, "new_ctx_func() must return", new())
        mode = dataclasses.replace(mode, ctx="same", context=context)
    return mode


def _checked_context(name: str, what: str, value: object) -> PromptContext:
    from appl.runtime.prompts.prompt_context import PromptContext  # few programs hold prompts

    if not isinstance(value, PromptContext):
        raise InvalidOption(f"{name}: {what} a PromptContext, got {value!r:.80}")
    return value


def _context(where: str, ctx: object) -> str:
    """*ctx* as one of the contexts."""
    if ctx not in CONTEXTS and isinstance(ctx, str):
        ctx = fallback.names().context(ctx, CONTEXTS)
    if ctx not in CONTEXTS:
        raise ValueError(f"{where}{ctx!r}): ctx is one of {', '.join(CONTEXTS)}")
    return cast(str, ctx)


def _compositor(value: object, where: str) -> Compositor | None:
    """*value* as the compositor of an option."""
    if value is None:
        return None
    from appl.runtime.prompts.compositor import compositor_of

    return compositor_of(value, where)

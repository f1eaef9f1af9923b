"""The options of ``gen``, ``select`` and ``gen_with_tools``, each written once.

Invariant: type checkers, ``help`` and the checks at run time read the names from here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

if TYPE_CHECKING:
    from appl.runtime.prompts.explicit import Said
    from appl.runtime.tools.toolbox import Tools

F = TypeVar("F", bound=Callable[..., Any])


class CallOptions(TypedDict, total=False):
    """Options of every call of a model; ``help(gen)`` describes them."""

    messages: Said | None
    temperature: float | None
    seed: int | None
    timeout: float | None
    priority: int
    cache: str | PathLike[str] | None
    backend_options: Mapping[str, Any] | None


class SelectOptions(CallOptions, total=False):
    """Options of ``select``."""

    method: str | None
    normalize: str | None


if TYPE_CHECKING:

    class OpenAIOptions(TypedDict, total=False):
        """Options in OpenAI's words, which ``gen`` takes too: see ``appl.compat.answers``."""

        top_logprobs: int | None
        max_completion_tokens: int | None
else:
    OpenAIOptions = CallOptions


class StepOptions(CallOptions, OpenAIOptions, total=False):
    """Options of each step of ``gen_with_tools``."""

    max_tokens: int | None
    stop: str | Sequence[str] | None
    stop_tokens: Sequence[int]
    top_p: float | None
    logprobs: int | None
    regex: str | None
    grammar: str | None
    max_relay_rounds: int
    max_asks: int | None


class GenOptions(StepOptions, SelectOptions, total=False):
    """Options of ``gen``: annotate ``**options: Unpack[GenOptions]`` in functions of your own."""

    n: int
    stream: bool
    choices: Sequence[str] | None
    tools: Tools | None
    tool_choice: Any


KNOWN = frozenset({"model", "response_format", *GenOptions.__annotations__})
"""The names of all options of ``gen``."""


class _Written(str):
    """An annotation as it is written; signatures show it without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


def with_signature(options: type, defaults: Mapping[str, Any]) -> Callable[[F], F]:
    """Show the keys of *options* as parameters of a function that takes ``**options``."""

    def decorate(f: F) -> F:
        own = inspect.signature(f)
        *named, rest = map(_plainly, own.parameters.values())
        extra = [
            inspect.Parameter(
                name, rest.KEYWORD_ONLY, default=defaults.get(name), annotation=_written(hint)
            )
            for name, hint in options.__annotations__.items()
            if name not in own.parameters
        ]
        last = rest.replace(annotation=_Written("Any"))
        f.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [*named, *extra, last], return_annotation=_written(own.return_annotation)
        )
        return f

    return decorate


def _plainly(parameter: inspect.Parameter) -> inspect.Parameter:
    return parameter.replace(annotation=_written(parameter.annotation))


def _written(hint: Any) -> _Written:
    return _Written(getattr(hint, "__forward_arg__", hint))

"""The options of ``gen``, ``select`` and ``gen_with_tools``, each written once.

Invariant: type checkers, editors, ``help`` and the checks at run time read the names and the
sentences about them from here, and the limits of numbers.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import pairwise
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, TypeVar

from appl.backend import Sampling
from appl.errors import InvalidOption

if TYPE_CHECKING:
    from appl.runtime.prompts.explicit import PromptSource
    from appl.runtime.tools.toolbox import Tools

F = TypeVar("F", bound=Callable[..., object])


class CallOptions(TypedDict, total=False):
    """Options of every call of a model."""

    messages: PromptSource | None
    """Messages, a text, or a ``Conversation`` to ask in place of the prompt."""
    temperature: float | None
    """0 (the most likely token) and up."""
    seed: int | None
    """Whole number; with the same one, backends that have seeds sample the same."""
    timeout: float | None
    """Seconds until the call fails with ``BackendTimeout``; by default no limit."""
    priority: int
    """Calls with a higher number are sent first; default 0."""
    cache: str | PathLike[str] | None
    """``"run"``, or the path of a file that processes may share: answers of the same call are
    taken from there, and kept there. By default nothing is cached."""
    backend_options: Mapping[str, object] | None
    """Options that only the backend knows, as a dict. They may also stand among the others
    (``gen(top_k=40)``), where type checkers do not know them. A name that the backend does not
    know raises ``UnknownOption``, which says the nearest one."""


class SelectOptions(CallOptions, total=False):
    """Options of ``select``."""

    method: str | None
    """``"logprob"`` picks by log-probability only, and fails where that is impossible;
    ``"greedy_token_selection"`` picks token by token, ``"unconditional_likelihood_normalized"``
    by how much the prompt makes each likelier."""
    normalize: str | None
    """``"token"`` divides log-probabilities by the number of tokens."""
    end: bool | None
    """Whether the end of the turn is scored behind each choice. By default it is where the choice
    is a turn of its own, and not where it continues a text."""


if TYPE_CHECKING:

    class OpenAIOptions(TypedDict, total=False):
        """Options in OpenAI's words, which ``gen`` takes too: ``appl.parts.compat`` reads them."""

        top_logprobs: int | None
        max_completion_tokens: int | None
else:
    OpenAIOptions = CallOptions


class StepOptions(CallOptions, OpenAIOptions, total=False):
    """Options of each step of ``gen_with_tools``."""

    max_tokens: int | None
    """Most tokens of the answer."""
    stop: str | Sequence[str] | None
    """Text, or texts, before which the answer ends."""
    stop_tokens: Sequence[int]
    """Token ids at which the answer ends; default none."""
    top_p: float | None
    """Sample from the most likely tokens that together have this probability, 0 to 1."""
    logprobs: int | None
    """Number of alternatives to report for each token, with log-probabilities."""
    prompt_logprobs: int | None
    """Number of alternatives to report for each token of the prompt, with log-probabilities."""
    regex: str | None
    """Regular expression that the answer matches."""
    grammar: str | None
    """Grammar (EBNF) that the answer follows."""
    max_relay_rounds: int
    """The most continuations of an answer that ``max_tokens`` cuts; default 0."""
    max_asks: int | None
    """The most attempts at a typed answer, each told what was wrong before; default 3.
    Then ``OutputError`` is raised."""
    check: Callable[[Any], object] | None
    """Function of a typed answer's object. If it raises ``ValueError``, the model is asked again
    with the words of the error, as it is for a wrong type; what it returns does not count."""


class GenOptions(StepOptions, SelectOptions, total=False):
    """Options of ``gen``: annotate ``**options: Unpack[GenOptions]`` in functions of your own."""

    n: int
    """Number of answers, as ``samples``; default 1."""
    stream: bool
    """Whether the answer can be read as ``text_stream`` while it is made; default False."""
    choices: Sequence[str] | None
    """Texts of which the model picks one; see ``select``."""
    tools: Tools | None
    """Functions, ``Tool`` objects or MCP servers that the model may call; its calls are
    ``tool_calls``, and ``run_tool_calls()`` runs them."""
    tool_choice: object
    """``"auto"``, ``"none"``, ``"required"``, or the one tool that has to be called."""


OPTION_NAMES = frozenset({"model", "response_format", *GenOptions.__annotations__})
"""The names of all options of ``gen``."""


class OptionLimits(NamedTuple):
    """The numbers that an option takes."""

    low: float | None = None
    high: float | None = None
    whole: bool = False


LIMITS = {
    "max_tokens": OptionLimits(1, whole=True),
    "temperature": OptionLimits(0),
    "top_p": OptionLimits(0, 1),
    "seed": OptionLimits(whole=True),
    "logprobs": OptionLimits(0, whole=True),
    "prompt_logprobs": OptionLimits(0, whole=True),
    "n": OptionLimits(1, whole=True),
    "timeout": OptionLimits(0),
    "priority": OptionLimits(),
    "max_relay_rounds": OptionLimits(0, whole=True),
    "max_asks": OptionLimits(1, whole=True),
}
"""The limits of each option that is a number."""


def check_number(
    name: str, value: object, low: float | None, high: float | None = None, whole: bool = False
) -> None:
    """Refuse a *value* that is neither ``None`` nor a number within the limits."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        kind = "a whole number" if whole else "a number"
        raise InvalidOption(f"gen({name}=...) takes {kind}, got {value!r:.80}")
    if value != value or (low is not None and value < low) or (high is not None and value > high):
        limits = f"at least {low}" + (f" and at most {high}" if high is not None else "")
        raise InvalidOption(f"gen({name}=...) must be {limits}, got {value!r}")


_EVERYWHERE = frozenset(
    """
    max_tokens stop temperature top_p seed salt extra begun choices normalize choice_end schema
    tool_choice
""".split()
)
"""The fields of a ``Sampling`` that every backend takes, or that are heeded without its help."""

FEATURES = tuple(
    field.name for field in fields(Sampling) if field.init and field.name not in _EVERYWHERE
)
"""The options that only a backend with the feature of the same name can answer: a new field of
``Sampling`` is one of them, until every backend takes it."""


class _Written(str):
    """An annotation as it is written; signatures show it without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


def with_options(options: type, defaults: Mapping[str, object]) -> Callable[[F], F]:
    """Show the keys of *options* in signature and docstring of a function with ``**options``."""

    def decorate(f: F) -> F:
        own = inspect.signature(f)
        names = [name for name in options.__annotations__ if name not in own.parameters]
        f.__signature__ = _with(own, names, options, defaults)  # type: ignore[attr-defined]
        f.__doc__ = "\n".join([inspect.cleandoc(f.__doc__ or ""), *_described(names)])
        return f

    return decorate


def _with(
    own: inspect.Signature, names: list[str], options: type, defaults: Mapping[str, object]
) -> inspect.Signature:
    *named, rest = (p.replace(annotation=_written(p.annotation)) for p in own.parameters.values())
    hints = options.__annotations__
    extra = [
        inspect.Parameter(
            name, rest.KEYWORD_ONLY, default=defaults.get(name), annotation=_written(hints[name])
        )
        for name in names
    ]
    last = rest.replace(annotation=_Written("Any"))
    return inspect.Signature(
        [*named, *extra, last], return_annotation=_written(own.return_annotation)
    )


def _written(hint: object) -> _Written:
    return _Written(getattr(hint, "__forward_arg__", hint))


def _described(names: list[str]) -> Iterator[str]:
    """The options *names* as they stand in a docstring."""
    for name in names:
        lines = inspect.cleandoc(_SENTENCES.get(name, "")).splitlines()
        yield f"    {name}: " + f"\n{' ' * 8}".join(lines)


def _sentences() -> Iterator[tuple[str, str]]:
    """Each option with the sentence below it in this file; none where that is not installed."""
    try:
        source = inspect.getsource(sys.modules[__name__])
    except OSError:
        return
    for node in ast.parse(source).body:
        body = node.body if isinstance(node, ast.ClassDef) else []
        for field, below in pairwise(body):
            match field, below:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    yield name, text


_SENTENCES = dict(_sentences())
"""The sentence about each option."""

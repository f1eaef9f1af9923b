"""``--name value`` for the parameters of a function: its signature is its command line.

Invariant: a value is converted by its parameter's annotation, or refused with a sentence. A
parameter that is not given keeps the function's own default.
"""

from __future__ import annotations

import inspect
import json
import shlex
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin

import click
from click.shell_completion import CompletionItem

from appl.cli.commands import Command, Option, Options, options_of
from appl.cli.target import UsageError
from appl.config import switch
from appl.errors import nearest

_MANY = (list, tuple, set, frozenset, Sequence, Iterable)
_SIMPLE: dict[object, Callable[[str], object]] = {str: str, int: int, float: float, bool: switch}
_UNKNOWN = inspect.Parameter.empty
_SECTION = "Parameters of the function"
Parameters = Mapping[str, tuple[object, object]]
"""Annotation and default of each parameter, by name."""


def bind(
    function: Callable[..., object],
    words: Sequence[str],
    common: Sequence[click.Option],
    prog: str,
    *,
    partly: bool = False,
) -> tuple[dict[str, object], Options]:
    """The keyword arguments for *function* in *words*, and the options of *common* among them.

    A parameter wins over a common option of the same name. With *partly*, required parameters may
    be missing. Raises ``UsageError``.
    """
    parameters = _parameters(function)
    if words and words[0] == "--":
        words = words[1:]
    if words and not words[0].startswith("-"):
        flag = next((_flag(name) for name in parameters), "")
        example = f"; write {flag} {shlex.quote(words[0])}" if flag else ""
        raise UsageError(f"give arguments by name, as --name value; got {words[0]!r}{example}")
    values_given = _parsed(_command(function, parameters, common, prog), words)
    written = {
        name: "off" if values_given.get(_off(name)) else values_given.pop(_dest(name))
        for name in parameters
    }
    absent = [
        _flag(name)
        for name, (_, default) in parameters.items()
        if default is _UNKNOWN and not _is_written(written[name])
    ]
    if absent and not partly:
        raise UsageError(f"{function.__name__} needs {', '.join(absent)}; --help shows them all")
    values = {
        name: _convert(name, parameters[name][0], raw)
        for name, raw in written.items()
        if _is_written(raw)
    }
    return values, Options(**values_given)


def help_text(function: Callable[..., object], common: Sequence[click.Option], prog: str) -> str:
    """The help of *function* as a command: its parameters, then the options of *common*."""
    command = _command(function, _parameters(function), common, prog)
    return click.Context(command, info_name=prog, **command.context_settings).get_help()


def wants_help(words: Sequence[str]) -> bool:
    """True if *words* ask for the program's help."""
    return not {"--help", "-h"}.isdisjoint(words)


def merged(early: Options, late: Options) -> Options:
    """The options before the target, overridden by those after it."""
    later = {key: value for key, value in vars(late).items() if value not in (None, False, ())}
    return Options(**{**vars(early), **later})


class ProgramCommand(Command):
    """A command that takes a program and, after it, the program's parameters as options.

    Its own options among them are ``late``, as long as the parameters are not known.
    """

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, context_settings={"allow_interspersed_args": False}, **more)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse *args*, and its own options after the program."""
        rest = super().parse_args(ctx, args)
        if not ctx.resilient_parsing:
            prog = f"{ctx.command_path} {ctx.params['target']}"
            ctx.params["late"] = _peek(ctx.params["arguments"], options_of(self), prog)
        return rest

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Completions for options, the program's first."""
        from appl.cli import words  # only completion and a slip in a command need all words

        own: list[CompletionItem] = words.parameters(ctx.params.get("target"), incomplete)
        return own + super().shell_complete(ctx, incomplete)


def _peek(words: Sequence[str], common: Sequence[click.Option], prog: str) -> Options:
    """The options of *common* among *words*, ignoring options that are not known yet."""
    lenient = {"ignore_unknown_options": True, "allow_extra_args": True}
    command = click.Command(
        prog, params=list(common), context_settings=lenient, add_help_option=False
    )
    return Options(**command.make_context(prog, list(words)).params)


def _parsed(command: FunctionCommand, words: Sequence[str]) -> dict[str, Any]:
    """The values of all parameters of *command*. Raises ``UsageError``."""
    try:
        context = command.make_context(command.name, list(words))
    except click.NoSuchOption as error:
        raise UsageError(_unknown(command, error.option_name)) from None
    except click.BadOptionUsage as error:
        raise UsageError(f"{error.option_name} needs a value") from None
    except click.UsageError as error:
        raise UsageError(error.format_message()) from None
    return context.params


def _unknown(command: FunctionCommand, word: str) -> str:
    flags = [_flag(name) for name in command.parameters]
    every = [*flags, *(name for param in command.params for name in param.opts)]
    takes = f"it takes {', '.join(flags)}" if flags else "it takes none"
    return f"{command.function} has no parameter {word}{nearest(word, every)} ({takes})"


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _dest(name: str) -> str:
    return f"param_{name}"


def _off(name: str) -> str:
    return f"no_param_{name}"


def _is_written(raw: str | tuple[str, ...] | None) -> bool:
    return raw is not None and raw != ()


def _parameters(function: Callable[..., object]) -> dict[str, tuple[object, object]]:
    """Annotation and default of each parameter that can be given by name."""
    target = inspect.unwrap(function)
    try:
        hints = typing.get_type_hints(target, include_extras=True)
    except Exception:  # an annotation that names what is not there is no reason to refuse
        hints = {}
    parameters: dict[str, tuple[object, object]] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.POSITIONAL_ONLY and parameter.default is _UNKNOWN:
            raise UsageError(f"parameter {name!r} cannot be given by name; remove the '/' after it")
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            parameters[name] = (hints.get(name, _guess(parameter)), parameter.default)
    return parameters


def _guess(parameter: inspect.Parameter) -> object:
    """The type of a parameter without annotation: that of its default, or text."""
    kind = type(parameter.default)
    return kind if kind in (*_SIMPLE, list, dict) else str


class FunctionCommand(Command):
    """A function as a command whose options are the function's parameters."""

    def __init__(self, function: Callable[..., Any], parameters: Parameters, **more: Any) -> None:
        text = inspect.getdoc(function) or f"Run {function.__name__}."
        blocks = "\n\n".join(f"\b\n{block}" for block in text.split("\n\n"))  # lines as they are
        super().__init__(help=blocks, **more)
        self.function, self.parameters = function.__name__, parameters


def _command(
    function: Callable[..., object],
    parameters: Parameters,
    common: Sequence[click.Option],
    prog: str,
) -> FunctionCommand:
    own = [
        option
        for name, (annotation, default) in parameters.items()
        for option in _options(name, annotation, default)
    ]
    own_flags = {flag for own_option in own for flag in own_option.opts}
    others = [common_option for common_option in common if own_flags.isdisjoint(common_option.opts)]
    return FunctionCommand(function, parameters, name=prog, params=[*own, *others])


def _options(name: str, annotation: object, default: object) -> Iterator[Option]:
    shown = "required" if default is _UNKNOWN else f"default: {default!r}"
    dashed = _flag(name)
    flags = [*dict.fromkeys((dashed, f"--{name}")), _dest(name)]
    if annotation is bool:
        no = f"--no-{dashed[2:]}"
        shown = f"{shown}; or {no}"
        yield Option(
            flags, is_flag=False, flag_value="on", metavar="on|off", help=shown, section=_SECTION
        )
        yield Option([no, _off(name)], is_flag=True, hidden=True)
        return
    many = _is_many(annotation)
    metavar = _type_name(_element(annotation) if many else annotation)
    shown = f"may be repeated; {shown}" if many else shown
    yield Option(flags, multiple=many, metavar=metavar, help=shown, section=_SECTION)


def _type_name(annotation: object) -> str:
    if _is_many(annotation):
        return f"{_type_name(_element(annotation))} (may be repeated)"
    if get_origin(annotation) is Literal:
        return "|".join(map(str, get_args(annotation)))
    return getattr(annotation, "__name__", None) or str(annotation).replace("typing.", "")


def _is_many(annotation: object) -> bool:
    return annotation in _MANY or get_origin(annotation) in _MANY


def _element(annotation: object) -> object:
    inner = [arg for arg in get_args(annotation) if arg is not Ellipsis]
    return inner[0] if len(inner) == 1 else str


def _convert(name: str, annotation: object, raw: str | tuple[str, ...]) -> object:
    try:
        if not isinstance(raw, tuple):
            return _one(annotation, raw)
        if len(raw) == 1 and raw[0].lstrip().startswith("["):
            return _checked(annotation, raw[0])
        items = [_one(_element(annotation), item) for item in raw]
        make = get_origin(annotation) or annotation
        return make(items) if make in (tuple, set, frozenset) else items
    except ValueError as error:
        shown = raw if isinstance(raw, str) else " ".join(raw)
        raise UsageError(
            f"--{name} needs {_type_name(annotation)}, got {shown!r}{_reason(error)}"
        ) from None


def _reason(error: ValueError) -> str:
    """The reason that pydantic gives for refusing a value; other messages only repeat the value."""
    errors = getattr(error, "errors", None)
    return f" ({errors()[0]['msg']})" if callable(errors) else ""


def _one(annotation: object, raw: str) -> object:
    simple = _SIMPLE.get(annotation)
    if simple is not None:
        return simple(raw)
    is_union = get_origin(annotation) in (Union, types.UnionType)
    if annotation is Any or (is_union and str in get_args(annotation)):
        return raw
    return _checked(annotation, raw)


def _checked(annotation: Any, raw: str) -> object:
    """Read *raw* as JSON if it looks like JSON, and convert it to *annotation* by pydantic."""
    from pydantic import TypeAdapter

    adapter: Any = TypeAdapter(annotation)
    if raw.lstrip()[:1] in ("{", "["):
        return adapter.validate_json(raw)
    try:
        return adapter.validate_strings(raw)
    except ValueError:
        return adapter.validate_python(json_or_text(raw))


def json_or_text(raw: str) -> object:
    """*raw* as JSON, or as text if it is no JSON."""
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return raw

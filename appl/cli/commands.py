"""The declaration of ``appl``'s commands: options, arguments, groups, help and wrong usage.

Invariant: a group imports a command's module only when that command is invoked, never to list it. A
command is a function of its parsed options that returns an exit code, or nothing if all went well.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from appl.cli import exits
from appl.cli.terminal import say
from appl.errors import nearest

if TYPE_CHECKING:
    from appl.cli.display import Counts
    from appl.session.session import Session

    _Choice = click.Choice[str]
else:
    _Choice = click.Choice  # which is generic since click 8.2

F = TypeVar("F", bound=Callable[..., Any])
SCRIPT_ARGUMENTS = "script_arguments"
"""The name of the argument that takes the words after ``--``."""
CONTEXT = {"help_option_names": ["-h", "--help"], "show_default": True, "max_content_width": 100}


class Options(SimpleNamespace):
    """The parsed options and arguments of a command, by name.

    ``session`` and ``counts`` are those of the run that the command has opened, ``recorded`` is the
    name of one that it only reads.
    """

    json: bool = False
    session: Session | None = None
    counts: Counts | None = None
    recorded: str | None = None


Action = Callable[[Any], int | None]


class Option(click.Option):
    """An option, with the *section* of the help text that lists it."""

    def __init__(self, *args: Any, section: str = "Options", **more: Any) -> None:
        super().__init__(*args, **more)
        self.section = section


class Argument(click.Argument):
    """A positional argument with a *help* text."""

    section = "Arguments"

    def __init__(self, *args: Any, help: str = "", **more: Any) -> None:
        super().__init__(*args, **more)
        self.meaning = help

    @property
    def word(self) -> str:
        """The word for the argument in help texts."""
        return self.metavar or str(self.name).upper()

    def make_metavar(self, ctx: click.Context | None = None) -> str:
        """The argument in the usage line; brackets mark an optional one."""
        word = self.word + ("…" if self.nargs != 1 else "")
        return word if self.required else f"[{word}]"

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:  # type: ignore[override]
        """The argument's row in the help text."""
        return (self.word, self.meaning) if self.meaning else None


class WordChoice(_Choice):
    """One of a few words; the message about a wrong one suggests the nearest."""

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """*value*, if it is one of the words."""
        if isinstance(value, str) and value in self.choices:
            return value
        hint = nearest(str(value), self.choices)
        self.fail(f"got {value!r}{hint}; write one of {', '.join(self.choices)}", param, ctx)


class Command(click.Command):
    """A command whose help ends with an *example* and the command's exit *codes*."""

    def __init__(self, *args: Any, example: str = "", codes: str = "", **more: Any) -> None:
        more["context_settings"] = {**CONTEXT, **more.get("context_settings", {})}
        super().__init__(*args, **more)
        self.options_metavar = "[options]"
        self.examples, self.codes = example.splitlines(), codes

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse *args*; words after ``--`` go to a recorded script if the command takes them."""
        if "--" not in args or all(param.name != SCRIPT_ARGUMENTS for param in self.params):
            return super().parse_args(ctx, args)
        at = args.index("--")
        rest = super().parse_args(ctx, args[:at])
        ctx.params[SCRIPT_ARGUMENTS] = (*ctx.params[SCRIPT_ARGUMENTS], *args[at + 1 :])
        return rest

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """The option ``--help``, described in the style of the others."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.help = "show this help and exit"
        return option

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the arguments and options, section by section."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for param in self.get_params(ctx):
            row = param.get_help_record(ctx)
            if row is not None:
                sections.setdefault(getattr(param, "section", "Options"), []).append(row)
        for title, rows in sections.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples and the exit codes."""
        super().format_epilog(ctx, formatter)
        if self.examples:
            with formatter.section("Examples" if len(self.examples) > 1 else "Example"):
                for line in self.examples:
                    formatter.write(f"{'':{formatter.current_indent}}{line}\n")
        if self.codes:
            formatter.write_paragraph()
            formatter.write_text(f"Exit codes: {self.codes}")


class Group(Command, click.Group):
    """A command with subcommands; the message about an unknown name suggests the nearest.

    *removed* are commands of earlier versions, with what to do instead.
    """

    def __init__(
        self,
        *args: object,
        aliases: Mapping[str, str] | None = None,
        removed: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        more = {"subcommand_metavar": "COMMAND …", **more}
        super().__init__(*args, invoke_without_command=True, **more)
        self.no_args_is_help = False
        self.aliases, self.removed = aliases or {}, removed or {}

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """The command *name*, or the one for which it is an alias."""
        return super().get_command(ctx, self.aliases.get(name, name))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command at the beginning of *args*, and the words after it."""
        name, *rest = args
        command = self.get_command(ctx, name)
        if name in self.removed and not ctx.resilient_parsing:
            ctx.fail(f"the command {name!r} was removed; {self.removed[name]}")
        if command is None and not ctx.resilient_parsing:
            ctx.fail(f"there is no command {name!r}{self._hint(ctx, name)}")
        return name, command, rest

    def _hint(self, ctx: click.Context, name: str) -> str:
        """The suggestion for *name*, which is no command."""
        options = [word for param in self.get_params(ctx) for word in param.opts]
        if f"--{name}" in options:
            return f"; write `{ctx.command_path} --{name}`"
        if ".py" in name and "run" in self.list_commands(ctx):
            return f"; write `{ctx.command_path} run {name}`"
        return nearest(name, self.list_commands(ctx))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, then the options."""
        self.format_commands(ctx, formatter)
        super().format_options(ctx, formatter)


Section = Mapping[str, tuple[str, str]]


class LazyGroup(Group):
    """A group of commands in *sections*: each name has a place (``module:name``) and a summary."""

    def __init__(self, *args: object, sections: Mapping[str, Section], **more: Any) -> None:
        super().__init__(*args, **more)
        self.sections = sections
        self._table = {name: entry for rows in sections.values() for name, entry in rows.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands, in the order of the help text."""
        return list(self._table)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """The command *name*; imports its module."""
        if name not in self._table:
            return None
        module, _, member = self._table[name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), member or "command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections."""
        for title, rows in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name, text) for name, (_, text) in rows.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Completions for a command's name, without importing any command."""
        names = [
            CompletionItem(name, help=text)
            for name, (_, text) in self._table.items()
            if name.startswith(incomplete)
        ]
        return names + click.Command.shell_complete(self, ctx, incomplete)


def appl_command(
    name: str, *, cls: type[Command] = Command, under: click.Command | None = None, **more: object
) -> Callable[[Action], click.Command]:
    """Make a function of ``Options`` the command *name*, below the group *under* if there is one.

    The function's docstring is the help of the command. An exception that it raises is explained to
    the user, as JSON if the option ``json`` is on by then, and becomes the exit code.
    """

    def decorate(action: Action) -> click.Command:
        @functools.wraps(action)
        def invoked(**values: object) -> int:
            options = Options(**values)
            try:
                return action(options) or exits.OK
            except (SystemExit, BrokenPipeError):
                raise
            except BaseException as error:
                from appl.cli.failure import explain  # only a command that fails needs it

                return int(explain(error, options))

        new_command: click.Command = click.command(name, cls=cls, **more)(invoked)
        if isinstance(under, click.Group):
            under.add_command(new_command)
        return new_command

    return decorate


def option(*words: str, **more: object) -> Callable[[F], F]:
    """Add an option to the command below."""
    return lambda function: click.option(*words, cls=Option, **more)(function)


def switch(*words: str, **more: object) -> Callable[[F], F]:
    """Add an option without a value to the command below."""
    return option(*words, is_flag=True, **more)


def argument(name: str, **more: object) -> Callable[[F], F]:
    """Add a positional argument to the command below."""
    return lambda function: click.argument(name, cls=Argument, **more)(function)


def combined(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    """Combine decorators into one, which applies them as if they stood one above the other."""

    def decorate(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return decorate


def need_command() -> int | None:
    """Show the help of a group that was called without a command, as wrong usage."""
    context = click.get_current_context()
    if context.invoked_subcommand is not None:
        return None
    say(context.get_help().rstrip())
    return exits.USAGE


def options_of(command: click.Command) -> list[click.Option]:
    """The options of *command*."""
    return [param for param in command.params if isinstance(param, click.Option)]


# -- wrong usage


def usage_lines(error: click.UsageError) -> list[str]:
    """The lines that explain what is wrong with a command line, and what to write."""
    lines = [f"appl: {_problem(error)}"]
    context = error.ctx
    if context is not None:
        usage = " ".join([context.command_path, *context.command.collect_usage_pieces(context)])
        lines.append(f"usage: {usage}")
        lines.append(f"`{context.command_path} --help` explains the options")
    return lines


def _problem(error: click.UsageError) -> str:
    if isinstance(error, click.NoSuchOption):
        hint, option = "", error.option_name
        if error.ctx is not None:
            params = error.ctx.command.get_params(error.ctx)
            names = [name for param in params for name in param.opts]
            letter = f"--{option[1:2].lower()}"
            if option.startswith("--"):
                hint = nearest(option, names)
            else:
                hint = nearest(letter, [name for name in names if name.startswith(letter)], 0.0)
        return f"there is no option {option}{hint}"
    if isinstance(error, click.MissingParameter):
        path = error.ctx.command_path if error.ctx is not None else "appl"
        return f"{path} needs {_names(error.param)}"
    if isinstance(error, click.BadParameter):
        return f"{_names(error.param)}: {error.message}"
    if isinstance(error, click.BadOptionUsage):
        return f"{error.option_name} needs a value"
    return error.message


def _names(param: click.Parameter | None) -> str:
    if isinstance(param, Argument):
        return param.word
    return "/".join(param.opts) if param is not None else "an argument"

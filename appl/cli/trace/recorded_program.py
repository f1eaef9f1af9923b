"""The program of a recorded run, which can be started again inside another session.

Invariant: the program of a run that is not one's own is started only with ``--trust``, and only if
it lies below this folder or was named.
"""

from __future__ import annotations

import runpy
import shlex
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from appl.cli.arguments import bind
from appl.cli.commands import Options
from appl.cli.program_call import ProgramEnd, call
from appl.cli.run_options import options
from appl.cli.target import Target, UsageError, load, parse
from appl.cli.terminal import counted, say
from appl.cli.trace.run_names import run_path
from appl.config import load as load_config
from appl.errors import UntrustedTrace
from appl.runtime import isolated
from appl.session.entry import Entry, changed_files
from appl.session.ownership import is_own, require_own
from appl.session.process import hosted, hosted_run, join_threads, process_session
from appl.session.session import Session, shown
from appl.tracing import Trace


@dataclass(frozen=True, slots=True)
class RecordedProgram:
    """The program that a trace records: a function with its command line, or a script.

    ``words`` are the arguments of a script, which are not recorded. ``ending`` says whether its
    last run ended by ``sys.exit``.
    """

    kind: str
    file: str
    function: str
    argv: tuple[str, ...]
    argc: int
    name: str
    words: tuple[str, ...] = ()
    ending: ProgramEnd = field(default_factory=ProgramEnd, compare=False)

    @property
    def target(self) -> Target:
        """The function as it is written on a command line."""
        return Target(self.file, self.function)

    @property
    def entry(self) -> Entry:
        """The entry of the program, for the record of a new run."""
        kind: Any = self.kind
        function = self.function if self.kind == "cli" else None
        return Entry(kind, self.file, function, self.argv, self.argc)

    def run(self, opener: Callable[[], Session], answered_by: str = isolated.RECORD) -> object:
        """Run the program in the session that *opener* makes, and return its value.

        The value is ``None`` if it ends by ``sys.exit``, which is kept in ``ending``.

        Processes that it starts may ask nobody, as only *answered_by* answers, if that is given.
        """
        with isolated.program(answered_by), hosted(opener):
            if self.kind == "cli":
                function, values = self.bound()
                return call(process_session().run, function, values, ending=self.ending)
            self._script()
            hosted_run()  # also if it has asked nothing
            return None

    def bound(self) -> tuple[Callable[..., Any], dict[str, object]]:
        """The function and its arguments by name. Imports the program."""
        function = load(self.target)
        prog = f"appl run {self.target.written}"
        values, _ = bind(function, list(self.argv), options(), prog)
        return function, values

    def _script(self) -> None:
        """Run the file as ``python file.py`` does; its output is what it prints."""
        before = sys.argv
        sys.argv = [self.file, *self.words]
        sys.path.insert(0, str(Path(self.file).parent))
        try:
            with self.ending.awaited():
                runpy.run_path(self.file, run_name="__main__")
            join_threads()
        finally:
            sys.argv = before


def opened(options: Options) -> tuple[Trace, RecordedProgram]:
    """The run that the command names, and its program. Raises ``UsageError``.

    Every command that starts a recorded program, or uses recorded answers, opens the run here.
    """
    path = run_path(options.run)
    line = f"{click.get_current_context().command_path} {shlex.quote(options.run)} --trust"
    try:
        require_own(path, options.trust, f"write `{line}`")
    except UntrustedTrace as error:
        raise UsageError(str(error)) from None
    trace = Trace.open(path, home=load_config().home)
    options.recorded = path.stem
    program: str | None = getattr(options, "program", None)
    return trace, recorded(trace, _entry(trace, program, options.trust), options.script_arguments)


def note_changes(trace: Trace, since: str) -> None:
    """Name the files of the program that changed or are gone, which is no error by itself."""
    changed = changed_files(trace.header)
    if changed:
        say(f"appl: changed since {since}: {', '.join(shown(Path(name)) for name in changed)}")


def recorded(trace: Trace, entry: dict[str, Any], words: Iterable[str]) -> RecordedProgram:
    """The program of *trace*, which *entry* names."""
    kind, file = entry.get("kind"), entry.get("file")
    kind = "cli" if kind == "served" else kind  # which `appl run` starts as well
    if kind not in ("cli", "script") or not isinstance(file, str):
        what = "a `with appl.record():` block" if kind == "api" else "code without a file"
        raise UsageError(
            f"{trace.path.name} records {what}, which cannot be started from here; "
            f"run its program inside `with appl.session.replayed({str(trace.path)!r}):`"
        )
    argv = tuple(str(word) for word in entry.get("argv") or ())
    argc = entry.get("argc") or 0
    program = RecordedProgram(
        kind, file, str(entry.get("function")), argv, argc, trace.path.name, tuple(words)
    )
    if kind == "script":
        if program.argc and not program.words:
            raise UsageError(
                f"{program.file} was started with {counted(program.argc, 'argument')}; arguments "
                "of a script are not recorded, so give them after --"
            )
        if not Path(program.file).is_file():
            raise UsageError(f"the recorded program {program.file} is not there any more")
    return program


def _entry(trace: Trace, program: str | None, trusted: bool) -> dict[str, object]:
    """The entry to start: *program* with the recorded arguments, or the recorded entry."""
    recorded = trace.header.get("entry")
    entry = recorded if isinstance(recorded, dict) else {}
    if program is not None:
        target = parse(program)
        return {**entry, "kind": "cli", "file": target.place, "function": target.function}
    file = entry.get("file")
    if not isinstance(file, str):
        raise UsageError(f"{trace.path.name} does not say which file it is of; give --program")
    if not trusted or is_own(trace.path):
        folder = entry.get("directory")
        if not Path(file).is_absolute() and folder != str(Path.cwd()):
            # The module was found from another folder: here it may be another program.
            raise UsageError(
                f"{trace.path.name} was recorded in {folder}, and its program is the module "
                f"{file}, which may be another one here; go there, or give --program "
                "file.py:function"
            )
        return entry
    if Path(file).resolve().is_relative_to(Path.cwd()):
        return entry
    raise UsageError(
        f"{trace.path.name} is not one of your own runs, and names the program {file}; "
        "if that is to be run, give it as --program file.py:function"
    )

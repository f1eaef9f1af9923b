"""``appl trace gc`` and ``appl trace keep``: limits on recorded runs, and exceptions to them.

Invariant: nothing is removed without a limit that the user gave. Runs that are running, marked or
imported stay.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

from appl.cli import parameters
from appl.cli.commands import Options, appl_command, option, switch
from appl.cli.target import UsageError
from appl.cli.terminal import bytes_shown, columns, counted, out, report_done, say
from appl.cli.trace.run_names import run_paths
from appl.config import load
from appl.errors import TraceError
from appl.tracing.keeping import automatic_removal, index, keep_marks, run_filter
from appl.tracing.keeping.retention import Removal, Retention, removals

T = TypeVar("T")


@appl_command("gc", example="appl trace gc --age 30d --size 2GB --dry-run")
@option("--age", metavar="TIME", help="keep none that is older, as 30d or 12h")
@option("--runs", type=int, metavar="N", help="keep no more than the newest N")
@option("--size", metavar="BYTES", help="keep no more than this, as 2GB")
@switch("--keep-failed", help="keep those that failed or crashed besides")
@switch("--dry-run", help="only say what would be removed")
@parameters.as_json
def gc(options: Options) -> None:
    """Remove the oldest runs beyond an age, a number or a size.

    The limits default to the settings keep_age, keep_runs, keep_size and keep_failed. Runs that are
    running, imported, or marked by `appl trace keep` stay.
    """
    config = load()
    if options.runs is not None and options.runs < 0:
        raise UsageError(f"--runs must be a number of at least 0, got {options.runs}")
    usual = automatic_removal.retention_of(config)
    retention = Retention(
        usual.age if options.age is None else _read("--age", run_filter.length, options.age),
        usual.runs if options.runs is None else options.runs,
        usual.size if options.size is None else _read("--size", run_filter.size, options.size),
        usual.failed or options.keep_failed,
    )
    if not retention.limits:
        raise UsageError(
            "there is no limit on the runs to keep; give --age, --runs or --size, or set "
            "keep_age, keep_runs or keep_size"
        )
    going = removals(index.rows(config.home), retention, datetime.now(UTC))
    if not options.dry_run:
        going = [candidate for candidate in going if _gone(candidate)]
        index.rows(config.home)
    _report(going, options)


def _read(option: str, reader: Callable[[str], T], text: str) -> T:
    try:
        return reader(text)
    except ValueError as error:
        raise UsageError(f"{option} must be {error}, got {text!r}") from None


def _gone(removal: Removal) -> bool:
    try:
        return automatic_removal.take_away(removal)
    except TraceError as error:
        say(f"appl: {error}")
        return False


def _report(going: list[Removal], options: Options) -> None:
    size = sum(candidate.row.size for candidate in going)
    if going and not options.json:
        rows = [(old.row.name, bytes_shown(old.row.size), old.reason) for old in going]
        out("\n".join(columns(rows)))
    runs = [{"name": old.row.name, "size": old.row.size, "reason": old.reason} for old in going]
    data = {"removed": runs, "size": size, "dry_run": options.dry_run}
    verb = "would remove" if options.dry_run else "removed"
    done = f"{verb} {counted(len(going), 'run')}, {bytes_shown(size)}"
    report_done(options.json, data, done)


@appl_command("keep", example="appl trace keep last")
@parameters.runs
@switch("--off", help="take the mark away")
@parameters.as_json
def keep(options: Options) -> None:
    """Mark runs so that `appl trace gc` leaves them."""
    paths = run_paths(options.runs)
    for path in paths:
        keep_marks.keep(path, not options.off)
    verb, names = "no longer kept" if options.off else "kept", ", ".join(p.stem for p in paths)
    data = {"runs": [str(path) for path in paths], "kept": not options.off}
    report_done(options.json, data, f"{verb}: {names}")

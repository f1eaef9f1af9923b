"""The command-line settings of a run that continues or repeats a recorded one.

Invariant: only written settings are set; the others stay as recorded or as configured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from appl.cli.commands import F, Options, combined, option
from appl.cli.target import UsageError, unused_path
from appl.config import KEYS
from appl.config.schedule import TABLES
from appl.errors import nearest

SAMPLING = ("temperature", "max_tokens", "top_p", "stop", "seed")
SETTINGS = ("model", "backend", *SAMPLING, "concurrency")
BUDGET_HELP = "most that the whole run may take: cost, tokens or calls, as in tokens=20000"


budget = option("--budget", multiple=True, metavar="LIMIT=AMOUNT", help=BUDGET_HELP)


def settings(names: Iterable[str], section: str = "Options") -> Callable[[F], F]:
    """Add an option for each of the settings *names*."""
    return combined(
        *(
            option(
                "--" + name.replace("_", "-"), metavar="X", help=KEYS[name].help, section=section
            )
            for name in names
        )
    )


with_settings = combined(settings(SETTINGS, "Settings in place of the recorded ones"), budget)


def settings_of(options: Options) -> dict[str, object]:
    """The settings given on the command line."""
    written = {name: getattr(options, name) for name in SETTINGS}
    return {name: value for name, value in written.items() if value is not None} | budget_of(
        options
    )


def budget_of(options: Options) -> dict[str, object]:
    """The budget given on the command line, in the form of the settings."""
    limits = pairs(options.budget or (), "--budget", "LIMIT=AMOUNT")
    keys = TABLES["budget"]
    for name, amount in limits.items():
        if name not in keys:
            kinds = ", ".join(keys)
            raise UsageError(
                f"--budget has no limit {name!r}{nearest(name, keys)} (known: {kinds})"
            )
        try:
            keys[name].read(amount)
        except ValueError as error:
            raise UsageError(f"--budget {name} must be {error}, got {amount!r}") from None
    return {"budget": limits} if limits else {}


def new_trace(options: Options) -> Path | None:
    """The file of ``--trace``, for a new run. Raises ``UsageError`` if it exists."""
    if not options.trace_file:
        return None
    return unused_path(Path(options.trace_file), "a run is recorded into a new file")


def pairs(words: Iterable[str], option: str, form: str) -> dict[str, str]:
    """The names and values of ``NAME=VALUE`` words."""
    values: dict[str, str] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or not name:
            raise UsageError(f"{option} takes {form}; got {word!r}")
        values[name] = value
    return values

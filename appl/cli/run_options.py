"""The options of ``appl run``, which recorded command lines may also hold.

Invariant: they are the same before the program and among its arguments.
"""

from __future__ import annotations

import click

from appl.cli import overrides, parameters
from appl.cli.commands import combined, option, options_of, switch
from appl.cli.overrides import budget, settings

SETTINGS = (*overrides.SETTINGS, "home", "privacy")

trace_file = option("--trace", "trace_file", metavar="FILE", help="record into this file")

wait = switch(
    "--wait", help="stay until batches are answered; otherwise, after 10 minutes, end with code 75"
)

run_options = combined(
    parameters.target_with_arguments,
    settings(SETTINGS),
    trace_file,
    switch("--no-trace", help="do not record the run"),
    switch("--fresh", help="do not go on with an earlier run that was broken off"),
    budget,
    switch("--batch", help="have calls that can wait answered in batches, for half the price"),
    option(
        "--batch-within",
        metavar="TIME",
        help="the same, and what is not answered within TIME, as 6h, is asked at once",
    ),
    wait,
    parameters.as_json,
    switch("--stream", help="show on stderr what the models say, as they say it"),
    parameters.quiet,
)
"""Adds the options to a command."""


def options() -> list[click.Option]:
    """The options of ``appl run``, which may stand before or after the program."""
    return options_of(click.command()(run_options(lambda: None)))

"""``appl ask`` and ``appl chat``: a first contact with a model, recorded like every run.

Invariant: stdout holds the answer alone; cost, tokens and the name of the run go to stderr.
"""

from __future__ import annotations

import contextlib
import sys

from appl.cli import parameters
from appl.cli.commands import Options, appl_command, argument, combined, option, switch
from appl.cli.display import Display, PlainDisplay
from appl.cli.overrides import SAMPLING, budget, settings
from appl.cli.run import Invocation, perform
from appl.cli.run_options import options
from appl.cli.target import Target, UsageError
from appl.cli.terminal import say

_PROGRAMS = "appl.cli.questions"
_SETTINGS = ("model", "backend", *SAMPLING)

_model_options = combined(
    settings(_SETTINGS),
    option("--system", metavar="TEXT", help="the system message: who answers, and how"),
    budget,
    switch("--no-trace", help="do not record the run"),
    parameters.quiet,
)


@appl_command(
    "ask",
    example="appl ask 'Why is the sky blue?'\n"
    "appl ask 'Why is the sky blue?' --model openai/gpt-5-mini\n"
    "appl ask 'Summarise this:' - < report.txt",
)
@argument(
    "question",
    nargs=-1,
    metavar="QUESTION",
    help="what to ask; - is what comes on standard input, as it is when nothing is written",
)
@_model_options
@parameters.as_json
def ask(options: Options) -> None:
    """Ask a model one question and print the answer as it is generated.

    The run is recorded: `appl trace show` shows it. If an answer was broken off, asking the same
    question again continues it.
    """
    _perform("ask", [f"--question={_question(options.question)}"], options)


@appl_command("chat", example="appl chat --model openai/gpt-5-mini\nappl trace resume last")
@_model_options
def chat(options: Options) -> None:
    """Talk with a model: each line that you type gets an answer.

    /quit or Ctrl-D ends the chat. Ctrl-C ends it too, even during an answer; `appl trace resume`
    continues it. The whole chat is one recorded run.
    """
    with contextlib.suppress(ImportError):
        import readline  # which lets input() edit lines  # noqa: F401
    options.fresh = True
    if sys.stdin.isatty() and not options.quiet:
        say("appl: type /quit or Ctrl-D to end the chat")
    _perform("chat", [], options, PlainDisplay(quiet=True))


def _perform(
    function: str, words: list[str], command_options: Options, shower: Display | None = None
) -> None:
    """Run *function*; *command_options* get the remaining options of ``appl run``."""
    missing = {str(parameter.name): () if parameter.multiple else None for parameter in options()}
    vars(command_options).update({**missing, **vars(command_options)})
    words += [f"--system={command_options.system}"] if command_options.system else []
    perform(
        Invocation(Target(_PROGRAMS, function), words, command_options), command_options, shower
    )


def _question(words: tuple[str, ...]) -> str:
    """The question, with standard input in the place of ``-``. Raises ``UsageError``."""
    if not words and sys.stdin.isatty():
        raise UsageError("write the question: appl ask 'Why is the sky blue?'")
    parts = [sys.stdin.read() if word == "-" else word for word in words or ("-",)]
    question = "\n\n".join(filter(None, (part.strip() for part in parts)))
    if not question:
        raise UsageError("the question is empty: standard input held no text")
    return question

"""``appl render``: the prompts of a program before any call is made.

Invariant: no model is asked and nothing is recorded. The program's own output goes to stderr.
"""

from __future__ import annotations

from appl.cli import parameters
from appl.cli.arguments import ProgramCommand, bind, help_text, merged, wants_help
from appl.cli.commands import Options, appl_command, options_of
from appl.cli.overrides import SAMPLING, settings
from appl.cli.target import Target, load, parse
from appl.cli.terminal import out, print_found, say, to_stderr
from appl.config import load as load_config
from appl.runtime import isolated
from appl.runtime.preview import Preview
from appl.runtime.prompts.rendering import Rendering
from appl.session.process import abandon_threads, hosted
from appl.session.session import make_session

_SETTINGS = ("model", "backend", *SAMPLING)


@appl_command(
    "render",
    cls=ProgramCommand,
    example="appl render program.py:ask --topic rain",
)
@parameters.target_with_arguments
@settings(_SETTINGS)
@parameters.as_json
def command(options: Options) -> None:
    """Print the prompts of a function before any call.

    Runs the function until it needs an answer, then prints the exact prompt of every call that it
    has reached. ‹/f.0/gen.0› marks the place of an answer's text. No model is asked and nothing is
    recorded. Parameters are given as for appl run.
    """
    common, prog = options_of(command), f"appl render {options.target}"
    words = list(options.arguments)
    options.json = options.json or options.late.json
    target = parse(options.target)
    if wants_help(words):
        out(help_text(load(target, to_call=True), common, prog))
        return
    with to_stderr(True):
        rendering = rendered(target, words, merged(options, options.late), prog)
    print_found(options.json, rendering.as_data(), [str(rendering)])
    abandon_threads()


def rendered(target: Target, words: list[str], options: Options, prog: str) -> Rendering:
    """The rendering of the function that *target* names, with its parameters from *words*."""
    settings = {name: getattr(options, name) for name in _SETTINGS}
    config = load_config({**settings, "trace": False})
    session = make_session(config, entry=target.entry(words), say=say)
    preview = session.run = Preview(session.run)
    preview.answered_by = "a preview"
    with (
        preview.as_far_as_it_goes(),
        isolated.program(preview.answered_by),
        hosted(lambda: session),
    ):
        function = load(target, to_call=True)
        values, _ = bind(function, words, options_of(command), prog)
        preview.perform(function, (), values)
    return preview.rendering()

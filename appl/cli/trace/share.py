"""``appl trace share``: one redacted file of a run, for a stranger.

Invariant: it holds texts only on request.
"""

from __future__ import annotations

from pathlib import Path

from appl.cli import parameters
from appl.cli.commands import Options, appl_command, option, switch
from appl.cli.target import unused_path
from appl.cli.terminal import bytes_shown, counted, report_done
from appl.cli.trace.run_names import run_path
from appl.config import load
from appl.session.redacting import function_named
from appl.tracing.keeping.shared_copy import share


@appl_command("share", example="appl trace share last -o for-you.trace")
@parameters.run
@option("-o", "--out", metavar="FILE", help="default: RUN.shared.trace, here")
@switch("--content", help="leave prompts and answers in")
@option("--redact", metavar="module:function", help="what each text passes; default: the setting")
@parameters.as_json
def command(options: Options) -> None:
    """Write one redacted file of a run, to be given away.

    It holds calls, times, tokens, costs, models and names of functions, without any text, path,
    host or argument. With --content, it also holds prompts and answers, without known secrets and
    without texts that look like a key.
    """
    source = run_path(options.run)
    target = Path(options.out) if options.out else Path(f"{source.stem}.shared.trace")
    unused_path(target, "give another name as --out FILE")
    named = options.redact or load().redact
    hook = function_named(named) if named and options.content else None
    calls = share(source, target, content=options.content, redact=hook)
    size = target.stat().st_size
    data = {"file": str(target), "calls": calls, "size": size, "content": options.content}
    texts = "with prompts and answers" if options.content else "without any text"
    done = f"{target}: {counted(calls, 'call')}, {bytes_shown(size)}, {texts}"
    report_done(options.json, data, done)

"""``appl trace view``: recorded runs in the browser, or one of them as one HTML file.

Invariant: traces are only read, but for answers that the user gives to a run's questions in the
page. The address with its token goes to stdout and to the browser. The
browser gets it from a file that nobody else can read, as everybody can read command lines.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import tempfile
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path

from appl.cli import parameters
from appl.cli.commands import Options, appl_command, argument, option, switch
from appl.cli.target import UsageError, unused_path
from appl.cli.terminal import out, report_done, say
from appl.cli.trace.run_names import run_path
from appl.config import load
from appl.errors import ApplError
from appl.tracing import viewer

_EPILOG = """\
Keys in the viewer: 1 to 9 choose a view, / searches, j and k go from call to call, ? lists all.
The page shows a run that goes on as it grows. It asks nobody but this command.
"""


@appl_command(
    "view",
    epilog=_EPILOG,
    example="appl trace view\nappl trace view last\nappl trace view last --html run.html",
)
@argument(
    "run",
    required=False,
    metavar="RUN",
    help=f"{parameters.RUN}; or a folder. Without it, a list of all runs",
    shell_complete=parameters.RUNS,
)
@option(
    "--diff",
    metavar="RUN",
    shell_complete=parameters.RUNS,
    help="another run to compare it with",
)
@option("--html", metavar="FILE", help="write one HTML file with all data in it")
@switch("--no-open", help="only print the address")
@option("--port", type=int, default=0, metavar="N", help="port; 0: one that is free")
@parameters.salvage
@switch("--json", help="print the line as JSON")
def command(options: Options) -> None:
    """Show recorded runs in the browser, or write one as one HTML file.

    Without RUN it lists all runs: search, filters, cost by day, scores of evaluations. Of a run it
    shows calls, timeline, graph, prompts, shared prefixes, critical path, cost, search, and the
    differences from another run.
    """
    if not 0 <= options.port < 1 << 16:
        raise UsageError(f"--port is a number from 0 to 65535, got {options.port}")
    if options.html:
        unused_path(Path(options.html))
    home = _folder(options)
    if home is not None:
        with contextlib.closing(viewer.RunList(home, answers=_answer)) as listed:
            _serve(listed, None, options)
        return
    with contextlib.ExitStack() as held:
        runs = [options.run or "last", *([options.diff] if options.diff else [])]
        views = viewer.Views(
            *(
                held.enter_context(
                    contextlib.closing(viewer.View(run_path(run), salvage=options.salvage))
                )
                for run in runs
            )
        )
        if options.html:
            size = viewer.export(views, options.html)
            done = f"wrote {options.html} ({size / 1e6:.1f} MB)"
            report_done(options.json, {"html": options.html, "bytes": size}, done)
        else:
            _serve(views, _answer(run_path(runs[0])), options)


def _folder(given: Options) -> Path | None:
    """The folder whose runs are listed; ``None`` where a run is shown or written."""
    if given.run is not None and Path(given.run).is_dir():
        if given.html or given.diff:
            raise UsageError("--html and --diff are for a run, not for a folder of runs")
        folder = Path(given.run)  # of traces, or of a project, its ``.appl``, or the runs in it
        if (folder / "runs").is_dir():
            return folder
        if folder.name == "runs":
            return folder.parent
        return folder / ".appl" if (folder / ".appl").is_dir() else folder
    return None if given.run or given.html or given.diff else load().home


def _serve(
    shown: viewer.Views | viewer.RunList,
    answer: Callable[[str, str], str] | None,
    options: Options,
) -> None:
    with _server(shown, options.port, answer) as server:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        line = {"ready": True, "url": server.url, "pid": os.getpid()}
        out(json.dumps(line) if options.json else server.url)
        if not options.json:
            what = "the runs" if isinstance(shown, viewer.RunList) else "the run"
            say(f"appl: showing {what} at this address until Ctrl-C")
        with (
            contextlib.suppress(KeyboardInterrupt),
            tempfile.TemporaryDirectory(prefix="appl-view-") as folder,
        ):
            if not options.no_open:  # a browser in the terminal keeps the thread that opens it
                # A file leads the browser there, so that no list of processes shows the address.
                door = Path(folder) / "view.html"
                door.write_text(
                    '<!doctype html><meta charset="utf-8">'
                    '<meta name="referrer" content="no-referrer">'
                    f'<meta http-equiv="refresh" content="0;url={server.url}"><title>appl</title>'
                )
                threading.Thread(target=_open, args=(door.as_uri(),), daemon=True).start()
            server.wait()


def _answer(path: Path) -> Callable[[str, str], str]:
    """The function that adds an answer from the page to the run at *path*."""

    def add(address: str, text: str) -> str:
        from appl.session.answers import add_answers  # few runs ask people

        try:
            add_answers(path, {address: text}, via="viewer")
        except ApplError as error:
            raise ValueError(str(error)) from None
        return f"answered; `appl trace resume {path.stem}` goes on"

    return add


def _server(
    shown: viewer.Views | viewer.RunList, port: int, answer: Callable[[str, str], str] | None
) -> viewer.ViewerServer:
    try:
        return viewer.ViewerServer(shown, port=port, answer=answer)
    except (OSError, OverflowError) as error:
        raise UsageError(
            f"port {port} cannot be used: {error}; leave out --port, and a free one is taken"
        ) from None


def _open(url: str) -> None:
    if not webbrowser.open(url):
        say("appl: no browser could be opened; open the address by hand")

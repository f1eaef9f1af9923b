"""A run with batches that is killed and gone on with: a server forks one child for each order.

The child runs the program of a seed, or goes on with it where its trace exists. It tells its
process first and the program's values at its end; it may be killed at one of its own events.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from appl import config
from appl.errors import InDoubtBatch, RunWaiting, TraceError
from appl.session import Session, make_session, resumed
from appl.session.session import block
from appl.testing import Event, Run
from appl.tracing import Trace
from tests.batches.programs import Kind, Shape

MODELS: dict[Kind, str] = {
    "chat": "twin/gpt-5-mini",
    "responses": "twin/gpt-5-mini",
    "messages": "twin/claude-haiku-4-5",
}


class Fate:
    """Kills the process at its *count*-th event."""

    def __init__(self, count: int) -> None:
        self._left = count

    def on_event(self, event: Event) -> None:
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def quiet(line: str) -> None:
    """Tell nobody."""


@block
def begun(settings: dict[str, Any], path: Path, fate: Fate) -> Iterator[tuple[Run, Session]]:
    session = make_session(config.load(settings), instruments=[fate], path=path, say=quiet)
    try:
        yield session.run, session
    finally:
        session.close()


def settings_of(twin: dict[str, Any], kind: Kind, home: Path) -> dict[str, Any]:
    """The settings of a run that asks the twin with these settings in batches."""
    return {
        "home": str(home), "backends": {"twin": twin}, "model": MODELS[kind], "batch": True,
        "retries": {"attempts": 4}, "ctl": False, "durability": "process",
    }  # fmt: skip


def hurried(session: Session, **plan: float) -> None:
    """Have *session* look at its batches often."""
    assert session.gathering is not None
    times = {"first_s": 0.003, "longest_s": 0.01, "doubt_s": 0.02, **plan}
    session.gathering.plan = replace(session.gathering.plan, **times)  # type: ignore[arg-type]


def alive(order: dict[str, Any]) -> dict[str, Any]:
    """What a child does until it is killed."""
    path, fate = Path(order["path"]), Fate(order["events"])
    settings = settings_of(order["twin"], order["kind"], path.parent)
    shape = Shape.drawn(order["seed"])
    trace = _trace(path)
    try:
        if trace is None:
            path.unlink(missing_ok=True)
            opened = begun(settings, path, fate)
        else:
            settings = {name: settings[name] for name in ("home", "backends", "ctl")}
            opened = resumed(trace, instruments=[fate], say=quiet, rerun=order["rerun"], **settings)
        with opened as session:
            hurried(session, **order["plan"])
            return {"values": shape.run()}
    except InDoubtBatch as error:
        return {"doubt": error.key}
    except RunWaiting as waiting:
        return {"waiting": [*waiting.waits]}


def _trace(path: Path) -> Trace | None:
    try:
        trace = Trace.open(path)
    except (TraceError, OSError):
        return None
    return trace if trace.header else None


def main() -> None:
    for line in sys.stdin:
        order = json.loads(line)
        end, begin = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(end)
            try:
                said = alive(order)
            except BaseException as error:
                said = {"error": repr(error)}
            said["modules"] = [*sys.modules]
            os.write(begin, json.dumps(said).encode())
            os._exit(0)
        os.close(begin)
        print(child, flush=True)
        said = b""
        while piece := os.read(end, 1 << 16):
            said += piece
        os.close(end)
        os.waitpid(child, 0)
        told = json.loads(said or b"{}")
        for name in told.pop("modules", ()):  # so that the next child need not load them
            if name.startswith("appl"):
                importlib.import_module(name)
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()

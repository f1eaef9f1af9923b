"""A recorded program that is killed and gone on with: a server forks one child for each order.

The child runs a random program, or goes on with it where its trace exists, and is killed at a point
of the writer or after some microseconds; one that comes to its end tells the program's values.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

from appl.backend import Emit, Request, Response
from appl.errors import DivergenceError
from appl.runtime.run import Run
from appl.runtime.scheduling import Policy
from appl.runtime.scheduling.policy import Retries
from appl.tracing import Recorder, Trace, profile_data
from appl.tracing.recording.appender import Appender
from appl.tracing.replaying.resumer import Resumer, in_doubt

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "tracing")]

rehearsal = importlib.import_module("rehearsal")
Fate = importlib.import_module("victim").Fate


PART = 3
"""The exit code of a life that cannot go on, as half an answer that it acted on is not recorded."""


class Billed:
    """A backend of the rehearsal that writes down what is asked and what it answered, and when."""

    def __init__(self, seed: int, life: int, bill: Path) -> None:
        self._backend = rehearsal.backend(seed if not life else seed + 1000 * life)
        self.profile = self._backend.profile
        self._fd = os.open(bill, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def _write(self, what: str, address: str) -> None:
        os.write(self._fd, f"{what} {time.monotonic_ns()} {address}\n".encode())

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        self._write("asked", request.address)
        response: Response = await self._backend.complete(request, emit)
        self._write("answered", request.address)
        return response

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


def alive(order: dict[str, Any]) -> Any:
    """What a child does until it is killed: the program's values."""
    seed, path = order["seed"], Path(order["path"])
    live = Billed(seed, order["life"], Path(order["bill"]))
    options: dict[str, Any] = {"durability": "process", "fault": _fate(order)}
    retries = Retries(attempts=1 + seed % 2, base_s=0, spare=1000)
    policy = Policy(retries=retries, circuit=None)
    recorder: Recorder
    trace = Trace.open(path) if path.exists() else None
    if trace is None or not trace.header:  # it was killed before anything was written
        path.unlink(missing_ok=True)
        head = {"program": "random", "profile": profile_data(live.profile)}
        recorder = Recorder(path, head, **options)
        run = Run(live, instruments=[recorder], gate=recorder.gate, barrier=recorder.barrier,
                  policy=policy)  # fmt: skip
    else:
        doubtful = [at for at, used in trace.tools.items() if in_doubt(used, trace.reason)]
        resumer = RESUMERS[order["resumer"]](trace, rerun=doubtful)
        recorder = Appender(resumer, **options)
        run = Run(live, instruments=[resumer, recorder], gate=recorder.gate, policy=policy,
                  barrier=recorder.barrier, recorded=resumer)  # fmt: skip
    try:
        with run:
            return rehearsal.program(seed)
    finally:
        recorder.close()


def _fate(order: dict[str, Any]) -> Any:
    if order["point"] != "time":
        return Fate(order["point"], order["count"])
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, order["count"] / 1e6)
    return None


class Eager(Resumer):
    """Taken out: the order of the record. What is recorded is given at once."""

    def park(self, turn: Any, go: Any) -> None:
        self.moves()
        self.run.quiet.soon() if self.run.quiet else None
        go()


RESUMERS: dict[str, type[Resumer]] = {"whole": Resumer, "eager": Eager}


def forked(order: dict[str, Any]) -> dict[str, Any]:
    """One life; how it ended, and the values if it came to its end."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        code = 1
        try:
            random.seed(order["life"])
            told = json.dumps(alive(order)).encode()
            signal.setitimer(signal.ITIMER_REAL, 0)
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(told)
            code = 0
        except DivergenceError as error:  # a program that acted on a part of a streamed answer
            code = PART if "being streamed" in str(error) else 1
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as values:
        told = values.read()
    _, status = os.waitpid(child, 0)
    return {
        "killed": os.WIFSIGNALED(status),
        "code": os.waitstatus_to_exitcode(status),
        "values": told,
    }


if __name__ == "__main__":
    for each in ("docstring_parser", "jsonschema", "pydantic"):  # or each life imports them anew
        importlib.import_module(each)
    sys.modules["pydantic"].create_model("Loaded", x=(int, 0)).model_json_schema()  # its parts too
    for line in sys.stdin:
        print(json.dumps(forked(json.loads(line))), flush=True)

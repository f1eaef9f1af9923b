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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from appl.backend import Emit, Request, Response
from appl.errors import CallCancelled, DivergenceError
from appl.testing import CallEnded, Event, Policy, Retries, Run
from appl.tracing import Appender, Owner, Recorder, Resumer, Trace, profile_data

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "tracing")]

rehearsal = importlib.import_module("rehearsal")
Fate = importlib.import_module("victim").Fate


PART = 3
"""The exit code of a life that cannot go on, as half an answer that it acted on is not recorded."""


class Bill:
    """What happened when, in a file that outlives the process: each line is in it at once."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, what: str, address: str = "", later: int = 0) -> None:
        """*what* happens now, or *later* nanoseconds from now."""
        os.write(self._fd, f"{what} {time.monotonic_ns() + later} {address}\n".encode())


class Billed:
    """A backend of the rehearsal that writes down what is asked and what it answered, and when."""

    def __init__(self, seed: int, life: int, bill: Bill) -> None:
        self._backend = rehearsal.backend(seed if not life else seed + 1000 * life)
        self.profile = self._backend.profile
        self._bill = bill

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        self._bill.write("asked", request.address)
        response: Response = await self._backend.complete(request, emit)
        self._bill.write("answered", request.address)
        return response

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


class Ends:
    """Writes down when the run has what a backend said to a call; told before the recorder is."""

    def __init__(self, bill: Bill) -> None:
        self._bill = bill

    def on_event(self, event: Event) -> None:
        ends = isinstance(event, CallEnded)
        if ends and not isinstance(event.error, CallCancelled | DivergenceError):
            self._bill.write("finished", event.address)


def alive(order: dict[str, Any]) -> Any:
    """What a child does until it is killed: the program's values."""
    seed, path = order["seed"], Path(order["path"])
    bill = Bill(Path(order["bill"]))
    live, ends = Billed(seed, order["life"], bill), Ends(bill)
    options: dict[str, Any] = {
        "durability": "process", "fault": _fate(order, bill), "owner": owner_of(path),
    }  # fmt: skip
    retries = Retries(attempts=1 + seed % 2, base_s=0, spare=1000)
    policy = Policy(retries=retries, circuit=None)
    recorder: Recorder
    trace = Trace.open(path) if path.exists() else None
    if trace is None or not trace.header:  # it was killed before anything was written
        path.unlink(missing_ok=True)
        head = {"program": "random", "profile": profile_data(live.profile)}
        recorder = Recorder(path, head, **options)
        run = Run(live, instruments=[ends, recorder], gate=recorder.gate, barrier=recorder.barrier,
                  policy=policy)  # fmt: skip
    else:
        doubtful = rehearsal.in_doubt(trace)
        resumer = RESUMERS[order["resumer"]](trace, rerun=doubtful)
        recorder = Appender(resumer, **options)
        run = Run(live, instruments=[ends, resumer, recorder], gate=recorder.gate, policy=policy,
                  barrier=recorder.barrier, world=resumer)  # fmt: skip
    try:
        with run:
            return rehearsal.program(seed)
    except BaseException as error:
        if any(map(acted_on_a_part, reasons(error))):
            bill.write("parted")
        raise
    finally:
        recorder.close()


def owner_of(path: Path) -> Owner:
    """The user who signs the run at *path*."""
    return Owner(bytes(32), path.with_suffix(".ends"))


def _fate(order: dict[str, Any], bill: Bill) -> Any:
    if order["point"] != "time":
        return Fate(order["point"], order["count"], lambda: bill.write("died"))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, order["count"] / 1e6)
    bill.write("died", later=order["count"] * 1000)
    return None


class Eager(Resumer):
    """Taken out: the order of the record. What is recorded is given at once."""

    def park(self, turn: Any, go: Any) -> None:
        self.programs.moved()
        self.programs.look_soon()
        go()


RESUMERS: dict[str, type[Resumer]] = {"whole": Resumer, "eager": Eager}


def reasons(error: BaseException) -> Iterator[BaseException]:
    """*error*, or those that a group of asyncio put together."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from reasons(each)
    else:
        yield error


def acted_on_a_part(error: BaseException) -> bool:
    """Whether a program cannot go on as it acted on a part of a streamed answer."""
    return isinstance(error, DivergenceError) and "being streamed" in str(error)


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
        except BaseException as error:
            why = list(reasons(error))
            code = PART if any(map(acted_on_a_part, why)) else 1
            if code == 1:
                os.write(2, "".join(f"{type(e).__name__}: {e}\n" for e in why).encode())
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

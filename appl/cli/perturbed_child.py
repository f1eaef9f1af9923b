"""The process in which a program runs with chosen clock, random numbers and hashes.

Invariant: it reads one order, runs the program once, and writes one outcome as JSON.

It is started by ``appl.cli.perturbed_process``, as ``python -m appl.cli.perturbed_child``.
"""

from __future__ import annotations

import datetime
import importlib.util
import json
import os
import random
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from appl.cli.display import PlainDisplay
from appl.cli.failure import describe
from appl.cli.perturbed_process import Environment
from appl.cli.terminal import as_json, to_stderr
from appl.cli.trace.recorded_program import RecordedProgram
from appl.config import Alias, load as load_config
from appl.errors import TraceError
from appl.runtime.scheduling.policy import Limits, Policy
from appl.session.replaying import checked, replay_session
from appl.session.session import Session, make_session
from appl.tracing import Replayer, Trace

_EPOCH = 1_700_000_000.0  # a day in 2023 on which every recording takes place
_LONGEST_LAG_S = 0.01


_BETWEEN = frozenset(["random", "secrets", "uuid", "tempfile"])


def _urandom(seed: int) -> Callable[[int], bytes]:
    """A source of bytes for each module, so that appl's own draws change nobody else's."""
    streams: dict[str, random.Random] = {}

    def drawn(size: int) -> bytes:
        frame = sys._getframe(1)
        while frame.f_back is not None and frame.f_globals.get("__name__") in _BETWEEN:
            frame = frame.f_back
        name = str(frame.f_globals.get("__name__"))
        return streams.setdefault(name, random.Random(f"{seed} {name}")).randbytes(size)

    return drawn


def _set_clock(world: Environment) -> None:
    began, start = time.monotonic(), _EPOCH + world.shift

    def now() -> float:
        return start + (0.0 if world.frozen else time.monotonic() - began)

    real = datetime.datetime

    class ShiftedDatetime(real):  # type: ignore[misc, valid-type]
        @classmethod
        def now(cls, tz: object = None) -> Any:
            return cls.fromtimestamp(now(), tz)

        @classmethod
        def utcnow(cls) -> object:
            return cls.fromtimestamp(now(), datetime.UTC).replace(tzinfo=None)

        @classmethod
        def today(cls) -> object:
            return cls.now()

    class Today(datetime.date):
        @classmethod
        def today(cls) -> Any:
            return cls.fromtimestamp(now())

    ShiftedDatetime.__name__, Today.__name__ = "datetime", "date"
    time.time, time.time_ns = now, lambda: int(now() * 1e9)
    vars(datetime).update(datetime=ShiftedDatetime, date=Today)


class Lagging(Replayer):
    """A replayer that delays each answer a little, each by a different time."""

    def __init__(self, trace: Trace, seed: int) -> None:
        super().__init__(trace)
        self._dice = random.Random(seed) if seed else None

    def idle(self, final: bool = True) -> bool:
        """Release the next answer after a delay, during which undeclared timers go on."""
        if self._dice is not None:
            time.sleep(self._dice.random() * _LONGEST_LAG_S)
        return super().idle(final)


def _done(order: dict[str, Any]) -> dict[str, object]:
    fields = order["program"]
    fields |= {"argv": tuple(fields["argv"]), "words": tuple(fields["words"])}
    program = RecordedProgram(**fields)
    counted, path = PlainDisplay(quiet=True), Path(order["trace"])
    if order["moved"]:
        # Modules below the first folder are imported from below the second, except appl itself.
        old, new = map(Path, order["moved"])
        own = {str(Path(__file__).parents[2]), *_backends()}
        for number, entry in enumerate(sys.path):
            if entry not in own and Path(entry).is_relative_to(old):
                sys.path[number] = str(new / Path(entry).relative_to(old))
    value: object = None
    error: BaseException | None = None
    try:
        with to_stderr(True):
            world = Environment(**order["world"])
            sys.setswitchinterval(world.switch)
            if not world.real:
                random.seed(world.dice)
                os.urandom = vars(random)["_urandom"] = _urandom(world.dice)
                _set_clock(world)
            if order["record"] is not None:
                backend = order["record"]
                value = program.run(
                    lambda: _recording(program, backend, path, counted), f"the backend {backend}"
                )
            else:
                value = _replayed(program, path, world, counted)
    except BaseException as caught:
        error = caught
    return {
        "value": None if error is not None else as_json(value),
        "error": None if error is None else describe(error),
        "calls": counted.counts.started,
        "diverged": isinstance(error, TraceError),
    }


def _backends() -> list[str]:
    spec = importlib.util.find_spec("appl_backends")
    return [
        str(Path(location).parent) for location in (spec and spec.submodule_search_locations) or ()
    ]


def _recording(
    program: RecordedProgram, backend: str, path: Path, counted: PlainDisplay
) -> Session:
    """A session in which only *backend* answers, whatever models the settings name."""
    config = load_config()
    config = replace(
        config,
        backend=backend,
        model=None,
        models=dict.fromkeys(config.models, Alias()),
        trace=True,
        privacy="full",
        redact=None,
        otel=None,
        gc=False,
        ctl=False,
        stream=False,
    )
    session = make_session(
        config, entry=program.entry, instruments=[counted], path=path, say=lambda line: None
    )
    session.run.tool_memory = None  # nobody is shown the tools
    session.run.answered_by = f"the backend {backend}"
    return session


def _replayed(
    program: RecordedProgram, path: Path, world: Environment, counted: PlainDisplay
) -> object:
    replayer = Lagging(Trace.open(path, home=load_config().home), world.lag)
    policy = Policy(limits=Limits(concurrency=world.slots))
    with checked(replayer):
        return program.run(lambda: replay_session(replayer, instruments=[counted], policy=policy))


def main() -> None:
    """Run the order in the process's argument."""
    order = json.loads(sys.argv[1])
    result = Path(order["result"])
    result.write_text(json.dumps(_done(order)), "utf-8")


if __name__ == "__main__":
    main()

"""Record a random program, replay it elsewhere, compare: shared by the tests and their subprocess."""

from __future__ import annotations

import asyncio
import functools
import json
import random
import sys
from pathlib import Path
from typing import Any

from programs import run_async, run_sync, tree

from appl.backend import Emit, Request, Response
from appl.errors import BackendUnavailable
from appl.runtime.scheduling.order import FairOrder, Fifo
from appl.testing import Fake, Log, Policy, Retries, Run, Seeded, calling, response
from appl.tracing import Recorder, Replayer, Trace, profile_data


class Jitter(Fake):
    """Answers at random, after a random while: no two recordings are alike."""

    def __init__(self, seed: int, **profile: Any) -> None:
        self._dice = random.Random(seed)
        super().__init__(lambda request: _sampled(request, self._dice), **profile)

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        self.requests.append(request)
        await self._pause()
        answer = self._answer(request)
        for chunk in self.chunks(request, answer) if emit is not None else ():
            assert emit is not None
            emit(chunk)
            await self._pause()
        return self.end(request, answer)

    async def _pause(self) -> None:
        for _ in range(self._dice.randrange(4)):
            await asyncio.sleep(self._dice.choice([0, 0, 0.0003, 0.002]))


def _sampled(request: Request, dice: random.Random) -> Any:
    text = request.messages.message.content if request.messages else ""
    if "FAIL" in text:
        return BackendUnavailable(f"gone {dice.randrange(1000)}")
    if request.sampling.choices:
        return dice.choice(request.sampling.choices)
    if request.sampling.tools and request.sampling.tool_choice != "none" and dice.random() < 0.7:
        names = [dice.choice(["_look", "_think"]) for _ in range(dice.randint(1, 3))]
        return calling(*((name, {"q": f"{dice.randrange(100)}"}) for name in names))
    if request.sampling.max_tokens and dice.random() < 0.6:
        return response(f"{dice.randrange(10**6)}", "length")
    if "whole number" in text or "cannot be used" in text:
        return dice.choice(["a few", f"{dice.randrange(100)}"])
    return f"{dice.randrange(10**6)}"


def _pieces(text: str) -> list[str]:
    return [text[at : at + 2] for at in range(0, len(text), 2)]


def backend(seed: int) -> Fake:
    """One that answers at random: at its own pace, or one by one in a drawn order."""
    dice = random.Random(seed)
    limit = dice.choice([None, None, 1, 2, 5])
    if seed % 3:
        return Jitter(seed, concurrency=limit, features=FEATURES, pieces=_pieces)
    sampled = functools.partial(_sampled, dice=dice)
    return Seeded(seed, sampled, features=FEATURES, pieces=_pieces)


FEATURES = frozenset({"n", "prefill", "seed", "choices", "stream", "tools"})


def program(seed: int) -> Any:
    """The values of program number *seed*, in the run that is open."""
    asynchronous = seed % 2 == 1
    values = (run_async if asynchronous else run_sync)(tree(seed, asynchronous))
    return json.loads(json.dumps(values))


def record(seed: int, path: Path, **options: Any) -> tuple[Any, Fake]:
    """Run program *seed* and record it; its values, and the backend that answered.

    *options* are those of the recorder.
    """
    live = backend(seed)
    head = {"program": "random", "profile": profile_data(live.profile)}
    recorder = Recorder(path, head, durability="process", **options)
    order = Fifo() if seed % 5 == 0 else FairOrder(lambda: 0.0)
    retries = Retries(attempts=1 + seed % 2, base_s=0, spare=1000)
    with Run(
        live, instruments=[recorder], gate=recorder.gate, barrier=recorder.barrier, order=order,
        policy=Policy(retries=retries, circuit=None),
    ):  # fmt: skip
        values = program(seed)
    recorder.close()
    return values, live


def replay(seed: int, path: Path, schedule: int = 0) -> tuple[Any, dict[str, str]]:
    """Replay program *seed* from its trace; its values, and what was asked, by address."""
    dice = random.Random(schedule)
    replayer, log = Replayer(path), Log()
    order = dice.choice([Fifo(), FairOrder(lambda: 0.0)])
    before = sys.getswitchinterval()
    sys.setswitchinterval(dice.choice([1e-6, 1e-4, 0.005]))
    try:
        with Run(replayer.backend, instruments=[replayer, log], world=replayer, order=order,
                 concurrency=dice.choice([None, 1, 3])):  # fmt: skip
            values = program(seed)
    finally:
        sys.setswitchinterval(before)
    replayer.finish()
    return values, {
        e.request.address: e.request.digest.hex() for e in log.events if hasattr(e, "request")
    }


def in_doubt(trace: Trace) -> list[str]:
    """The tool calls whose end nobody knows, or that what broke the run off may have ended."""
    known = {"answered"} if trace.reason not in ("", "finished") else {"answered", "failed"}
    return [address for address, used in trace.tools.items() if used.outcome not in known]


def seen_in_part(trace: Trace) -> bool:
    """True if the program had seen a part of an answer whose end was not recorded."""
    return any(call.outcome is None and call.shown for call in trace.every_call())


if __name__ == "__main__":  # replay each trace of a folder in this process, under its hash seed
    for found in sorted(Path(sys.argv[1]).glob("*.trace")):
        print(json.dumps(replay(int(found.stem), found, schedule=int(sys.argv[2]))[0]))

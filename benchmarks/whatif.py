"""What ``appl trace what-if`` predicts from one recorded run, and what the other runs then took.

Run: python benchmarks/whatif.py
Programs on a backend that takes a known time, recorded once with 4 slots and 60 ms; each change is
predicted from that trace, then made.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from appl import gen, ppl
from appl.backend import Emit, Request, Response
from appl.runtime.run import Run
from appl.testing import Instant, response
from appl.tracing import Recorder, Trace
from appl.tracing.explaining.moment_graph import MomentGraph
from appl.tracing.explaining.whatif import Changes, RunModel

SLOTS, SECONDS = 4, 0.06
CHANGES: dict[str, tuple[Changes, int, float]] = {
    "as it was": (Changes(), SLOTS, 1.0),
    "8 slots": (Changes(concurrency=8), 8, 1.0),
    "2 slots": (Changes(concurrency=2), 2, 1.0),
    "half the latency": (Changes(latency=0.5, concurrency=SLOTS), SLOTS, 0.5),
    "twice the latency, 16 slots": (Changes(latency=2.0, concurrency=16), 16, 2.0),
}


class Sleepy(Instant):
    """Answers after *seconds*, longer for longer questions."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        """The one response, later."""
        said = request.messages.message.content if request.messages else ""
        await asyncio.sleep(self._seconds * (1 + len(said) % 5 / 4))
        return response("ok")


@ppl
def ask(text: str) -> object:
    f"{text}"
    return gen()


@ppl
def joined(texts: list[str]) -> object:
    for text in texts:
        f"{ask(text)}"
    "Join these."
    return gen()


def fan_out() -> None:
    """Many questions at once, and one that holds all answers."""
    str(joined(["x" * i for i in range(40)]))


@ppl(parallel=True)
def chat(number: int) -> str:
    answer = ""
    for turn in range(5):
        f"{'y' * (number + turn)}{answer}"
        answer = str(gen())
    return answer


@ppl
def chats() -> None:
    """Conversations side by side, of five turns each."""
    each = [chat(i) for i in range(8)]
    _ = [str(one) for one in each]


def rounds() -> None:
    """Rounds of questions, each after the answers of the one before."""
    for i in range(5):
        answers = [ask("z" * (i + j)) for j in range(6)]
        _ = [str(each) for each in answers]


PROGRAMS: dict[str, Callable[[], None]] = {"fan-out": fan_out, "chats": chats, "rounds": rounds}


def record(program: Callable[[], None], path: Path, slots: int, seconds: float) -> Trace:
    """The trace of *program*, run for real."""
    path.unlink(missing_ok=True)
    recorder = Recorder(path)
    with Run(Sleepy(seconds), instruments=[recorder], gate=recorder.gate, concurrency=slots):
        program()
    recorder.close()
    return Trace.open(path)


def rows(folder: Path) -> Iterator[str]:
    """The lines of the table."""
    yield f"{'program':10}{'change':30}{'predicted':>10}{'taken':>10}{'off by':>8}"
    for name, program in PROGRAMS.items():
        record(program, folder / "warm.trace", SLOTS, 0.001)
        model = RunModel(MomentGraph(record(program, folder / "a.trace", SLOTS, SECONDS)))
        for change, (changes, slots, factor) in CHANGES.items():
            predicted = model.run(changes).duration / 1e6
            flow = MomentGraph(record(program, folder / "b.trace", slots, SECONDS * factor))
            taken = (flow.end - flow.begin) / 1e6
            off = f"{100 * (predicted / taken - 1):+.1f}%"
            yield f"{name:10}{change:30}{predicted:8.2f} s{taken:8.2f} s{off:>8}"


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        before = time.perf_counter()
        for row in rows(Path(folder)):
            print(row, flush=True)
        print(f"in {time.perf_counter() - before:.0f} s")


if __name__ == "__main__":
    main()

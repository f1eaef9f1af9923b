"""The embedded model with what an earlier run or a constraint tells, against one token a pass.

    python benchmarks/drafts.py [--pairs 5] [--questions 32] [--rows WORD]

Both backends answer the same runs, in turn, and must give the same answers. A rerun asks all its
calls anew, with the record at hand; of JSON, the schemas with long keys and those without forced
tokens are asked one at a time and eight at a time. A figure is the median over the pairs of how
many times faster the first of both is, by the CPU time of the process; by the clock in brackets.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from appl import Generation, SystemMessage, gen, ppl
from appl.backend import Request, Sampling
from appl.prompt import Messages, UserMessage
from appl.runtime.run import Run
from appl.tracing import Recorder, Rerunner, Trace, profile_data
from appl.tracing.replaying.recorded_drafts import RecordedDrafts
from appl_backends.embedded import Embedded
from appl_backends.embedded.engine import Counters

STEPS = "Think step by step."
PEOPLE, THINGS = ["Mia", "Tom", "Ana", "Leo", "Zoe"], ["apples", "coins", "books", "cards"]


def problems(seed: int, count: int) -> list[str]:
    rng = random.Random(seed)

    def one() -> str:
        what, n = rng.choice(THINGS), [rng.randint(2, 9) for _ in range(8)]
        return (
            f"{rng.choice(PEOPLE)} has {rng.randint(20, 60)} {what} and buys {n[0]} bags with "
            f"{n[1]} {what} each. Then {n[2]} are given away, {n[3]} boxes of {n[4]} {what} come, "
            f"and {n[5]} are lost. How many {what} are there now?"
        )

    return [one() for _ in range(count)]


@ppl
def solve(question: str, wanted: str, system: str) -> Generation:
    if system:
        SystemMessage(system)
    f"{question} {wanted}"
    return gen(temperature=0.0, max_tokens=160)


def solving(seed: int, count: int, wanted: str = STEPS, system: str = "") -> Callable[[], Any]:
    questions = problems(seed, count)
    return lambda: [str(solve(question, wanted, system)) for question in questions]


def one_more(seed: int, count: int) -> Callable[[], Any]:
    questions = [
        each.replace("has 2", "has 3").replace("has 4", "has 5") for each in problems(seed, count)
    ]
    return lambda: [str(solve(question, STEPS, "")) for question in questions]


def outlines(count: int) -> Callable[[], Any]:
    topics = [f"Write an outline about {what}." for what in THINGS * count][:count]
    return lambda: [str(solve(topic, "", "")) for topic in topics]


def run(path: Path, program: Callable[[], Any], backend: Embedded, world: Any = None) -> Any:
    recorder = Recorder(path, {"profile": profile_data(backend.profile)})
    more = {} if world is None else {"world": world}
    watching = [recorder] if world is None else [world, recorder]
    try:
        with Run(
            backend, instruments=watching, gate=recorder.gate, barrier=recorder.barrier, **more
        ):
            return program()
    finally:
        recorder.close()


def new_backend(ahead: bool) -> Embedded:
    """A backend that has learnt nothing, and whose memory was touched before the clock starts."""
    backend = Embedded(seed=1, ahead=ahead)
    hello = Messages.of([UserMessage("hello " * 120)])
    request = Request("/first/gen.0", 0, "", hello, Sampling(temperature=0.0, max_tokens=4))
    asyncio.run(backend.complete(request))
    backend.engine.cache.clear()
    backend.engine.counters = Counters()
    return backend


class Pair:
    """Both backends, new ones for each run, which have learnt nothing yet."""

    def __init__(self, rows: str = "") -> None:
        self.answers = self.different = 0
        self.rows = rows

    def measured(
        self, ask: Callable[[Embedded], Any], turn: int
    ) -> tuple[float, float, dict[str, int]]:
        """How many times faster the first is, by CPU time and clock, and what it counted."""
        took: dict[bool, tuple[float, float]] = {}
        found, counted = {}, {}
        for ahead in (True, False) if turn % 2 else (False, True):
            backend = new_backend(ahead)
            began = time.process_time(), time.perf_counter()
            found[ahead] = ask(backend)
            took[ahead] = time.process_time() - began[0], time.perf_counter() - began[1]
            counted[ahead] = backend.cache_report()
            asyncio.run(backend.aclose())
        pairs = list(zip(found[True], found[False], strict=True))
        self.answers += len(pairs)
        self.different += sum(one != other for one, other in pairs)
        by = [took[False][at] / took[True][at] for at in (0, 1)]
        return by[0], by[1], {**counted[True], "plain_steps": counted[False]["steps"]}

    def fine_row(self, name: str, groups: Sequence[Sequence[Request]], pairs: int) -> None:
        """A row for what is about as fast: both backends answer each group in turn.

        The figure is the sum of the times, which a busy machine moves less than single ones.
        """
        if self.rows not in name:
            return
        took: dict[bool, list[float]] = {True: [], False: []}
        for turn in range(pairs):
            backends = {ahead: new_backend(ahead) for ahead in (True, False)}
            # Where weights lie in memory moves times by up to 10%: both use the same.
            backends[True].engine.model = backends[False].engine.model
            for at, group in enumerate(groups):
                found = {}
                for ahead in (True, False) if (turn + at) % 2 else (False, True):
                    backends[ahead].engine.cache.clear()
                    began = time.process_time()
                    found[ahead] = asyncio.run(texts(backends[ahead], group))
                    took[ahead].append(time.process_time() - began)
                self.answers += len(group)
                self.different += sum(map(str.__ne__, found[True], found[False]))
            counted = {ahead: each.cache_report() for ahead, each in backends.items()}
            for each in backends.values():
                asyncio.run(each.aclose())
        each_pair = sorted(
            plain / fast for plain, fast in zip(took[False], took[True], strict=True)
        )
        middle = statistics.median(each_pair)
        whole = sum(took[False]) / sum(took[True])
        speed = f"{whole:5.2f} x (median of {len(each_pair)}: {middle:.2f})"
        fast = counted[True]
        made = fast["decoded_tokens"] + fast["forced_tokens"]
        steps = f"steps {counted[False]['steps']} -> {fast['steps']}"
        drafts = f"{fast['accepted_tokens']} of {fast['drafted_tokens']} drafted accepted"
        forced = f"{fast['forced_tokens']} forced"
        print(f"{name:36} {speed}, {made} tokens, {steps}, {drafts}, {forced}", flush=True)

    def row(self, name: str, ask: Callable[[Embedded], Any], pairs: int) -> None:
        if self.rows not in name:
            return
        found = [self.measured(ask, turn) for turn in range(pairs)]
        cpu, clock = (statistics.median(each[at] for each in found) for at in (0, 1))
        least, most = min(each[0] for each in found), max(each[0] for each in found)
        counted = found[-1][2]
        made = counted["decoded_tokens"] + counted["forced_tokens"]
        steps = f"steps {counted['plain_steps']} -> {counted['steps']}"
        drafts = f"{counted['accepted_tokens']} of {counted['drafted_tokens']} drafted accepted"
        speed = f"{cpu:5.2f} x ({least:.2f} to {most:.2f}; clock {clock:.2f})"
        forced = f"{counted['forced_tokens']} forced"
        print(f"{name:36} {speed}, {made} tokens, {steps}, {drafts}, {forced}", flush=True)


def reruns(pair: Pair, folder: Path, count: int, pairs: int) -> None:
    tape, other, numbers = folder / "tape.trace", folder / "other.trace", iter(range(10**6))
    run(tape, solving(1, count), Embedded(seed=1))
    run(other, outlines(count), Embedded(seed=1))
    rows: list[tuple[str, Path, Callable[[], Any]]] = [
        ("same prompt (--anew)", tape, solving(1, count)),
        (
            "edited: another instruction",
            tape,
            solving(1, count, "Show your steps, then the answer."),
        ),
        ("edited: no instruction", tape, solving(1, count, "")),
        ("edited: a system message", tape, solving(1, count, system="You are a patient teacher.")),
        ("edited: a number of each question", tape, one_more(1, count)),
    ]
    for name, path, program in rows:

        def ask(backend: Embedded, path: Path = path, program: Callable[[], Any] = program) -> Any:
            world = Rerunner(path, anew=["**"])
            return run(folder / f"{next(numbers)}.trace", program, backend, world)

        pair.row(name, ask, pairs)
    asked = [[each] for each in asking(2, count)]
    for name, path in (("other questions", tape), ("another program", other)):
        record = RecordedDrafts(Trace.open(path))
        for (each,) in asked:
            each.draft = record.of(each.address)
        pair.fine_row(f"foreign tape: {name}", asked, pairs)


def asking(seed: int, count: int) -> list[Request]:
    """The requests that ``solving`` makes."""
    sampling = Sampling(temperature=0.0, max_tokens=160)
    said = [Messages.of([UserMessage(f"{each} {STEPS}")]) for each in problems(seed, count)]
    return [Request(f"/solve.{at}/gen.0", 0, "", each, sampling) for at, each in enumerate(said)]


def whole(properties: dict[str, Any]) -> str:
    made = {"type": "object", "properties": properties, "required": [*properties]}
    return json.dumps({**made, "additionalProperties": False})


LONG = whole(
    {
        "full_name_of_the_customer": {"type": "string", "maxLength": 24},
        "age_of_the_customer_in_years": {"type": "integer", "minimum": 0, "maximum": 120},
        "city_where_the_customer_lives": {"type": "string", "maxLength": 24},
        "preferred_way_of_being_contacted": {"enum": ["email", "telephone"]},
    }
)
TEXT = {"type": "string", "maxLength": 24}
SHORT = whole({"name": TEXT, "age": {"type": "integer", "maximum": 120}, "city": TEXT})
FREE = json.dumps({"type": "string", "minLength": 60, "maxLength": 80})
NUMBERS = json.dumps(
    {
        "type": "array",
        "items": {"type": "integer", "maximum": 999},
        "minItems": 12,
        "maxItems": 12,
    }
)


def questions(schema: str, count: int) -> list[Request]:
    rng = random.Random(count)
    cities = ["Lund", "Cologne", "Porto", "Bergen"]

    def one(at: int) -> Request:
        text = (
            f"{rng.choice(PEOPLE)} Brand is {rng.randint(18, 90)} years old, lives in "
            f"{rng.choice(cities)} and likes email. Extract the data as JSON."
        )
        sampling = Sampling(temperature=0.0, max_tokens=200, schema=schema)
        return Request(f"/a.{at}", 0, "", Messages.of([UserMessage(text)]), sampling)

    return [one(at) for at in range(count)]


async def texts(backend: Embedded, requests: Sequence[Request]) -> list[str]:
    """The answers to *requests*, which come at once."""
    return [each.text for each in await asyncio.gather(*map(backend.complete, requests))]


def extraction(pair: Pair, count: int, pairs: int) -> None:
    schemas = [
        ("long keys", LONG),
        ("short keys", SHORT),
        ("free text", FREE),
        ("numbers", NUMBERS),
    ]
    for name, schema in schemas:
        asked = questions(schema, count)
        for batch in (1, 8):
            groups = [asked[at : at + batch] for at in range(0, count, batch)]
            pair.fine_row(f"JSON, {name}, batch {batch}", groups, pairs)
        if pair.rows in name:
            forced = asyncio.run(forced_in(asked))
            print(f"{'':36} {forced} tokens of these answers had no alternative", flush=True)


async def forced_in(requests: list[Request]) -> int:
    """The tokens of the answers to *requests* that the constraint leaves no choice about."""
    backend, total = Embedded(seed=1, ahead=False), 0
    for request in requests:
        task = await backend.task(request)
        assert task.constraint is not None
        await backend.worker.run(task)
        state = task.constraint.fork()
        for token in task.live[0].ids[len(task.prompt) :]:
            total += state.forced() is not None
            state.accept(token)
    await backend.aclose()
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--questions", type=int, default=32)
    parser.add_argument("--rows", default="", help="only rows with this in their name")
    given = parser.parse_args()
    print(f"{platform.machine()}, Python {platform.python_version()}, {given.pairs} pairs")
    pair = Pair(given.rows)
    with tempfile.TemporaryDirectory() as folder:
        reruns(pair, Path(folder), given.questions, given.pairs)
    extraction(pair, given.questions // 8 * 8, given.pairs)
    print(f"{pair.different} of {pair.answers} answers different")


if __name__ == "__main__":
    main()

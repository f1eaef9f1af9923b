"""``appl.observe``: a function of the user's on a worker thread; what it returns is recorded."""

from __future__ import annotations

import asyncio
import json
import random
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import appl
from appl.errors import DivergenceError, InvalidOption, SecretInRecord, TraceCorrupt
from appl.runtime.concurrency.task import MAX_WORKERS
from appl.session import replayed, rerun, resumed
from appl.tracing import Trace, records
from appl.tracing.format import block, block_file, codec
from appl.tracing.tape import writing

ECHO = "appl.testing:Echo"
MANY = 100


class Odd(ValueError):
    """An error of the program's own."""


def recorded(path: Path, program: Callable[[], Any], **options: Any) -> Any:
    with appl.record(path, backend=ECHO, **options):
        return program()


def again(path: Path, program: Callable[[], Any]) -> Any:
    with replayed(path):
        return program()


def test_the_value_is_recorded_and_the_function_not_called_again(tmp_path: Path) -> None:
    calls: list[int] = []

    def measure(factor: int, *, plus: int) -> list[int]:
        calls.append(factor)
        return [factor * len(calls) + plus]

    @appl.ppl
    def program() -> list[int]:
        return appl.observe(measure, 10, plus=1) + appl.observe(measure, 20, plus=2)

    with appl.record(tmp_path / "one.trace", backend=ECHO):
        first = program()
        _ = str(appl.gen(messages="x"))
    assert first == [11, 42] and calls == [10, 20]
    with replayed(tmp_path / "one.trace"):
        assert program() == first
        _ = str(appl.gen(messages="x"))
    assert calls == [10, 20]


def agents(runs: Counter[tuple[int, int]], together: Callable[[], object]) -> list[str]:
    """So many agents that call three blocking functions each, one after the other, then a model."""

    def fetch(agent: int, page: int) -> str:
        runs[agent, page] += 1
        together()
        return f"page {page} of {agent}"

    @appl.ppl
    def agent(number: int) -> appl.Generation:
        for page in range(3):
            f"{appl.observe(fetch, number, page)}"
        return appl.gen()

    return [str(answer) for answer in appl.map(agent, range(MANY))]


def test_a_hundred_blocking_functions_run_at_once_and_none_again_in_a_replay(
    tmp_path: Path,
) -> None:
    runs: Counter[tuple[int, int]] = Counter()
    barrier = threading.Barrier(MANY)  # whose wait ends when all are in it at the same time
    first = recorded(tmp_path / "one.trace", lambda: agents(runs, lambda: barrier.wait(60)))
    assert len(runs) == 3 * MANY and set(runs.values()) == {1}
    assert again(tmp_path / "one.trace", lambda: agents(runs, barrier.wait)) == first
    assert sum(runs.values()) == 3 * MANY


def cut(path: Path, to: Path, dice: random.Random) -> Path:
    """A copy of the trace *path* that ends after one of its records: what a crash leaves."""
    every = [codec.pack(record) for record in records(path)]
    count = dice.randint(len(every) // 10, len(every) - 2)
    to.write_bytes(block.MAGIC + block_file.Encoder().block(b"".join(every[:count])))
    return to


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3, 4))]
)
def test_a_resumed_run_runs_what_had_not_ended_and_nothing_else(seed: int, tmp_path: Path) -> None:
    first = recorded(tmp_path / "one.trace", lambda: agents(Counter(), int))
    path = cut(tmp_path / "one.trace", tmp_path / "cut.trace", random.Random(seed))
    had_ended = {use.arguments for use in Trace.open(path).tools.values() if use.message}
    runs: Counter[tuple[int, int]] = Counter()
    with resumed(path, trust=True, backend=ECHO):
        assert agents(runs, int) == first
    ran = {f'{{"agent": {agent}, "page": {page}}}' for agent, page in runs}
    assert not ran & had_ended and len(ran | had_ended) == 3 * MANY
    assert set(runs.values()) <= {1}
    assert again(path, lambda: agents(runs, int)) == first


def test_a_rerun_runs_only_what_is_called_otherwise(tmp_path: Path) -> None:
    runs: list[str] = []

    def fetch(name: str) -> str:
        runs.append(name)
        return name.upper()

    @appl.ppl
    def program(*names: str) -> str:
        f"{[appl.observe(fetch, name) for name in names]}"
        return str(appl.gen())

    recorded(tmp_path / "one.trace", lambda: program("a", "b"))
    with rerun(tmp_path / "one.trace", backend=ECHO):
        program("a", "c")
    assert runs == ["a", "b", "c"]


VALUES = [
    None, True, -3, 1 << 80, 0.5, float("inf"), "text", "\ud800", b"\x00\xff", [], (1, (2,)),
    {"a": [1]}, {1: "x", (2, 3): b"y"}, {"$tuple": [1]}, {"": None},
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_plain_data_comes_back_as_it_was(value: Any, tmp_path: Path) -> None:
    @appl.ppl
    def program() -> Any:
        return appl.observe(iter([value]).__next__)

    for look in (recorded, again):
        seen = look(tmp_path / "one.trace", program)
        assert seen == value and type(seen) is type(value)


class Page:
    status_code, text = 200, "hello"


UNRECORDABLE = [
    (Page(), r"returned a .*Page; return x.text or x.json\(\) in place of that x"),
    ({"at": [datetime.now(UTC)]}, r"datetime at value\['at'\]\[0\]; return x.isoformat\(\)"),
    ({1, 2}, r"returned a set; return sorted\(x\)"),
    (Path("x"), r"Path; return str\(x\)"),
]


@pytest.mark.parametrize(("value", "problem"), UNRECORDABLE, ids=lambda each: type(each).__name__)
def test_what_cannot_be_recorded_is_said_with_what_to_return(value: Any, problem: str) -> None:
    def fetch() -> Any:
        return value

    @appl.ppl
    def program() -> Any:
        return appl.observe(fetch)

    with pytest.raises(InvalidOption, match=problem) as raised:
        program()
    assert "call(fetch, ...), which records nothing" in str(raised.value)


def test_an_exception_is_recorded_and_raised_again_as_its_own_type(tmp_path: Path) -> None:
    runs = []

    def fail(number: int) -> None:
        runs.append(number)
        raise Odd("no", number)

    @appl.ppl
    def program() -> Any:
        try:
            appl.observe(fail, 7)
        except Odd as error:
            return str(error), error.args

    first = recorded(tmp_path / "one.trace", program)
    assert first == ("('no', 7)", ("no", 7))
    assert again(tmp_path / "one.trace", program) == first and runs == [7]


def test_an_exception_of_a_type_that_is_gone_comes_back_as_the_nearest_known(
    tmp_path: Path,
) -> None:
    @appl.ppl
    def program() -> Any:
        appl.observe(int, "no number")

    def local() -> None:
        class Local(KeyError): ...

        raise Local("gone")

    @appl.ppl
    def missing() -> Any:
        appl.observe(local)

    for look, at in ((recorded, "a"), (again, "a")):
        with pytest.raises(ValueError, match="invalid literal"):
            look(tmp_path / f"{at}.trace", program)
    for look in (recorded, again):
        with pytest.raises(KeyError, match="gone"):
            look(tmp_path / "b.trace", missing)


def test_a_program_that_asks_otherwise_diverges(tmp_path: Path) -> None:
    names = iter(["a", "b"])

    @appl.ppl
    def program() -> Any:
        return appl.observe(str.upper, next(names))

    recorded(tmp_path / "one.trace", program)
    with pytest.raises(DivergenceError, match="upper is called with"):
        again(tmp_path / "one.trace", program)


def test_others_go_on_while_one_observes_and_answers_keep_their_order(tmp_path: Path) -> None:
    @appl.ppl
    def waits(free: threading.Event, log: list[str]) -> None:
        appl.observe(lambda: free.wait(60))
        log.append("observed")

    @appl.ppl
    def asks(free: threading.Event, log: list[str]) -> None:
        "question"
        _ = str(appl.gen())
        log.append("answered")
        free.set()

    @appl.ppl
    def program() -> list[str]:
        free, log = threading.Event(), list[str]()
        both = [appl.call(waits, free, log), appl.call(asks, free, log)]
        for each in both:
            each.result()
        return log

    for look in (recorded, again):
        assert look(tmp_path / "one.trace", program) == ["answered", "observed"]


def test_call_starts_it_and_returns_a_future(tmp_path: Path) -> None:
    barrier = threading.Barrier(3)

    def fetch(number: int) -> int:
        barrier.wait(60)
        return number

    @appl.ppl
    def program() -> list[int]:
        started = [appl.call(appl.observe, fetch, number) for number in range(3)]
        return [future.result() for future in started]

    for look in (recorded, again):
        assert look(tmp_path / "one.trace", program) == [0, 1, 2]


def test_a_coroutine_waits_with_call(tmp_path: Path) -> None:
    @appl.ppl
    async def program() -> int:
        return await appl.call(appl.observe, len, "four")

    async def main() -> int:
        return await program()

    for look in (recorded, again):
        assert look(tmp_path / "one.trace", lambda: asyncio.run(main())) == 4


def test_a_function_that_exits_ends_the_program_as_python_would() -> None:
    @appl.ppl
    def program() -> None:
        appl.observe(sys.exit, 3)

    with pytest.raises(SystemExit, match="3"):
        program()


class Shop:
    """An object of the user's, whose text is its address in the memory."""


def test_a_thread_that_observes_an_object_is_known_in_a_replay(tmp_path: Path) -> None:
    shops: list[Shop] = []

    def look(shop: Shop, word: str) -> str:
        return word

    def one(word: str, said: list[str]) -> None:
        shops.append(Shop())
        said.append(appl.observe(look, shops[-1], word))

    def program() -> list[str]:
        said = list[str]()
        for word in ("a", "b", "c"):
            thread = threading.Thread(target=one, args=(word, said))
            thread.start()
            thread.join()
        return said

    first = recorded(tmp_path / "one.trace", program)
    assert again(tmp_path / "one.trace", program) == first == ["a", "b", "c"]


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("SHOP_API_KEY", "sk-5f2c81d09a7e44")
    yield "sk-5f2c81d09a7e44"


def test_an_argument_that_was_masked_is_the_same_in_a_replay(tmp_path: Path, secret: str) -> None:
    @appl.ppl
    def program(word: str = "open") -> int:
        return appl.observe(lambda key, what: len(key + what), secret, word)

    assert recorded(tmp_path / "one.trace", program) == 21
    (use,) = Trace.open(tmp_path / "one.trace").tools.values()
    assert "[secret SHOP_API_KEY]" in use.arguments and secret not in use.arguments
    assert again(tmp_path / "one.trace", program) == 21
    with pytest.raises(DivergenceError, match="SHOP_API_KEY") as caught:
        again(tmp_path / "one.trace", lambda: program("shut"))
    assert secret not in str(caught.value)


def test_a_secret_in_a_result_is_masked(tmp_path: Path, secret: str) -> None:
    @appl.ppl
    def program() -> str:
        return appl.observe(lambda: f"key={secret}")

    assert secret in recorded(tmp_path / "one.trace", program)
    trace = Trace.open(tmp_path / "one.trace")
    (use,) = trace.tools.values()
    assert use.message is not None and secret not in use.message.content
    with pytest.raises(SecretInRecord, match="SHOP_API_KEY"):
        again(tmp_path / "one.trace", program)


def test_an_argument_that_is_an_object_is_recorded_by_its_type(tmp_path: Path) -> None:
    @appl.ppl
    def program() -> int:
        return appl.observe(lambda page, times: times, Page(), times=2)

    for look in (recorded, again):
        assert look(tmp_path / "one.trace", program) == 2
    (use,) = Trace.open(tmp_path / "one.trace").tools.values()
    assert use.arguments == '{"page": {"$type": "Page"}, "times": 2}' and use.effect == "observed"


def test_functions_beyond_the_workers_wait_for_their_turn() -> None:
    barrier, done = threading.Barrier(MAX_WORKERS), threading.Semaphore(0)

    def work() -> None:
        barrier.wait(60)
        done.release()

    futures = [appl.call(work) for _ in range(2 * MAX_WORKERS)]
    for future in futures:
        future.result()
    assert MAX_WORKERS >= MANY and all(done.acquire(blocking=False) for _ in futures)


@pytest.mark.parametrize("privacy", ["redacted", "digests"])
def test_private_traces_do_not_show_what_was_observed(
    privacy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    word = "quintessence"

    @appl.ppl
    def program() -> str:
        return appl.observe(str.upper, word)

    recorded(tmp_path / "one.trace", program, privacy=privacy)
    with (tmp_path / "one.trace").open("rb") as file:
        shown = b"".join(block.scan(file, block.Scan()))
    assert word.upper().encode() not in shown and word.encode() not in shown
    if privacy == "redacted":
        assert again(tmp_path / "one.trace", program) == word.upper()
    else:
        with pytest.raises(SecretInRecord):
            again(tmp_path / "one.trace", program)


NONSENSE = [
    ("now", "noon"), ("now", 10**30), ("now", None), ("random", "x"), ("uuid", "x"), ("uuid", 5),
    ("observe", '{"$int": "x"}'), ("observe", '{"$bytes": 5}'), ("observe", "[" * 2000), ("observe", "9" * 5000),
]  # fmt: skip


@pytest.mark.parametrize(("look", "wrong"), NONSENSE)
def test_a_record_that_was_edited_into_nonsense_is_a_named_error(
    tmp_path: Path, look: str, wrong: object
) -> None:
    looks: dict[str, Callable[[], object]] = {
        "now": appl.now, "random": appl.random, "uuid": appl.uuid,
        "observe": lambda: appl.observe(lambda: "seen"),
    }  # fmt: skip

    @appl.ppl
    def program() -> str:
        return f"{looks[look]()} {appl.gen(messages='x')}"

    recorded(tmp_path / "t.trace", program)
    lines = [json.loads(line) for line in writing.write(Trace.open(tmp_path / "t.trace"))]
    field = "content" if look == "observe" else "value"
    for line in lines:
        if line.get("kind") == look or (look == "observe" and line.get("role") == "tool"):
            line[field] = wrong
    tape = tmp_path / "t.jsonl"
    tape.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(TraceCorrupt):
        again(tape, program)

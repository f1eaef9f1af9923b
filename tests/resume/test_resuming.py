"""What becomes of the calls of a run that goes on: by how they ended, and why the run was over."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from continuing import Counting

import appl
from appl import as_tool, call, gen, ppl
from appl.backend import Request
from appl.errors import (
    AuthenticationFailed,
    BackendBusy,
    BackendError,
    BackendUnavailable,
    BudgetExceeded,
    CallCancelled,
    DivergenceError,
    InDoubtEffect,
    SecretInRecord,
    TraceLocked,
)
from appl.testing import Allowance, Fake, Held, Log, Policy, Retries, Run, calling
from appl.tracing import Appender, Recorder, Replayer, Resumer, Trace, profile_data
from appl.tracing.keeping import row_of
from appl.tracing.replaying import Tally
from appl.tracing.replaying.sequencer import AtEnd, Expectation, Now, Recorded, Verdict

ONCE = Policy(retries=Retries(attempts=1), circuit=None)


def numbered() -> Fake:
    """Answers 1, 2, 3 …, so that no two answers are alike."""
    count = 0

    def next_number(request: Request) -> str:
        nonlocal count
        count += 1
        return f"answer {count}"

    return Fake(next_number)


def record(path: Path, program: Callable[[], Any], backend: Any, policy: Policy = ONCE) -> Any:
    """What *program* gives, or the error that ends it; recorded at *path*."""
    head = {"program": "p", "profile": profile_data(backend.profile)}
    recorder = Recorder(path, head, durability="process")
    try:
        with Run(
            backend, instruments=[recorder], gate=recorder.gate, barrier=recorder.barrier,
            policy=policy,
        ):  # fmt: skip
            return program()
    except BaseException as error:
        return error
    finally:
        recorder.close()


def go_on(
    path: Path,
    program: Callable[[], Any],
    backend: Any,
    policy: Policy = ONCE,
    kind: type[Resumer] = Resumer,
    tally: Tally | None = None,
    **choices: Any,
) -> tuple[Any, Counting, Resumer]:
    """What *program* gives when the run at *path* goes on; what was asked; who answered."""
    live, resumer = Counting(backend), kind(path, **choices)
    appender = Appender(resumer, durability="process")
    try:
        with Run(
            live, instruments=[resumer, appender, tally or Tally()], gate=appender.gate,
            barrier=appender.barrier, world=resumer, policy=policy,
        ):  # fmt: skip
            return program(), live, resumer
    finally:
        appender.close()


def replay(path: Path, program: Callable[[], Any]) -> Any:
    replayer = Replayer(path)
    with Run(replayer.backend, instruments=[replayer], world=replayer):
        value = program()
    replayer.finish()
    return value


def fails_after(count: int, error: BaseException) -> Fake:
    asked = 0

    def answer(request: Request) -> Any:
        nonlocal asked
        asked += 1
        return f"answer {asked}" if asked <= count else error

    return Fake(answer)


@ppl
def ask(question: str) -> str:
    f"{question}"
    return str(gen())


@ppl(parallel=True)
def branch(number: int) -> str:
    f"Question {number}"
    return str(gen())


def five() -> list[str]:
    return [ask(f"question {i}") for i in range(5)]


@ppl
def parallel() -> list[str]:
    return [str(each) for each in [branch(i) for i in range(5)]]


# -- why the run was over


@pytest.mark.parametrize("program", [five, parallel])
@pytest.mark.parametrize(
    "error", [BackendUnavailable("an outage"), AuthenticationFailed("a wrong key")]
)
def test_after_an_outage_only_what_failed_is_asked(
    tmp_path: Path, program: Any, error: Exception
) -> None:
    path = tmp_path / "t.trace"
    assert isinstance(record(path, program, fails_after(3, error)), BackendError)
    assert Trace.open(path).reason == "failed"
    tally = Tally()
    values, live, _ = go_on(path, program, numbered(), tally=tally)
    assert sorted(values[:3]) == ["answer 1", "answer 2", "answer 3"] and len(values) == 5
    assert sum(live.asked.values()) == 2
    assert tally.live.calls == 2 and tally.reused.calls == 3
    assert replay(path, program) == values
    assert Trace.open(path).reason == "finished"


@pytest.mark.parametrize("program", [five, parallel])
def test_a_run_that_goes_on_at_a_server_that_is_busy_until_tomorrow_ends_at_once_again(
    tmp_path: Path, program: Any
) -> None:
    path, busy = tmp_path / "t.trace", BackendBusy("429", retry_after=80_000.0)
    assert isinstance(record(path, program, fails_after(3, busy), Policy()), BackendBusy)
    with pytest.raises(BackendBusy, match=r"429; .* retries.patience"):
        go_on(path, program, fails_after(0, busy), Policy())
    values, live, _ = go_on(path, program, numbered(), Policy())
    assert sorted(values[:3]) == ["answer 1", "answer 2", "answer 3"] and len(values) == 5
    assert sum(live.asked.values()) == 2 and replay(path, program) == values


@pytest.mark.parametrize("program", [five, parallel])
def test_a_run_that_stopped_at_a_budget_goes_on_with_a_larger_one(
    tmp_path: Path, program: Any
) -> None:
    path = tmp_path / "t.trace"
    small, large = Policy(budget=Allowance(calls=3)), Policy(budget=Allowance(calls=5))
    assert isinstance(record(path, program, numbered(), small), BudgetExceeded)
    values, live, _ = go_on(path, program, numbered(), large)
    assert len(values) == 5 and sum(live.asked.values()) == 2
    assert replay(path, program) == values


def test_what_the_first_run_took_counts_for_the_budget_of_the_second(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    small, more = Policy(budget=Allowance(calls=3)), Policy(budget=Allowance(calls=4))
    record(path, five, numbered(), small)
    with pytest.raises(BudgetExceeded):
        go_on(path, five, numbered(), more)
    assert len([c for c in Trace.open(path).calls if c.outcome == "answered"]) == 4
    values, live, _ = go_on(path, five, numbered(), Policy(budget=Allowance(calls=5)))
    assert len(values) == 5 and sum(live.asked.values()) == 1


def test_a_failure_that_the_program_handled_is_not_asked_again(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"

    def program() -> list[str]:
        try:
            first = ask("FAIL")
        except BackendError:
            first = ask("instead")
        return [first, ask("then"), 1 / 0]  # type: ignore[list-item]

    backend = Fake(lambda request: BackendUnavailable("gone") if "FAIL" in str(request.messages.message) else "fine")  # type: ignore[union-attr]  # fmt: skip
    assert isinstance(record(path, program, backend), ZeroDivisionError)
    live = Counting(backend)
    with pytest.raises(ZeroDivisionError):
        go_on(path, program, live)
    assert not live.asked


def interrupted_after(count: int) -> tuple[Callable[[], Any], list[str]]:
    """A program of five branches that a Ctrl-C ends after so many answers, the first time."""
    times: list[str] = []

    @ppl
    def program() -> list[str]:
        started = [branch(i) for i in range(5)]
        got = [str(each) for each in started[:count]]
        if not times:
            times.append("interrupted")
            raise KeyboardInterrupt
        return got + [str(each) for each in started[count:]]

    return program, times


class Slow(Fake):
    """Answers the first *quick* branches; the others never, until they are cancelled."""

    def __init__(self, quick: int) -> None:
        super().__init__(lambda request: f"answer {len(self.requests)}")
        self._quick = [f"branch.{number}" for number in range(quick)]

    async def complete(self, request: Request, emit: Any = None) -> Any:
        if request.address.split("/")[-2] not in self._quick:
            await asyncio.Event().wait()
        return await super().complete(request, emit)


def test_after_a_ctrl_c_the_calls_that_it_cancelled_are_asked(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    program, _ = interrupted_after(2)
    assert isinstance(record(path, program, Slow(2)), KeyboardInterrupt)
    trace = Trace.open(path)
    assert trace.reason == "interrupted"
    assert [c.outcome for c in trace.calls].count("cancelled") == 3
    values, live, _ = go_on(path, program, numbered())
    assert len(values) == 5 and sum(live.asked.values()) == 3
    assert replay(path, program) == values


def test_after_a_ctrl_c_a_call_that_had_not_all_of_its_prompt_is_asked(tmp_path: Path) -> None:
    path, times = tmp_path / "t.trace", list[str]()

    @ppl
    def program() -> list[str]:
        first = branch(1)
        f"It said: {first}"
        second = gen()  # waits for the first one, and was never begun
        if not times:
            times.append("interrupted")
            raise KeyboardInterrupt
        return [str(first), str(second)]

    assert isinstance(record(path, program, Slow(0)), KeyboardInterrupt)
    call = Trace.open(path).by_address["/program.0/gen.0"]
    assert (call.started, call.ended_as) == (None, "cancelled")
    values, _, _ = go_on(path, program, numbered())
    assert values == ["answer 1", "answer 2"]
    assert Trace.open(path).totals().answered == 2


def test_a_call_that_the_program_cancels_itself_is_not_asked(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"

    @ppl
    def program() -> list[Any]:
        first, second = branch(0), branch(1)
        said = str(first)
        second.cancel()
        with contextlib.suppress(appl.ApplError):
            str(second)
        return [said, ask("then"), ask("and then")]

    assert isinstance(record(path, program, fails_after(1, BackendUnavailable("x"))), Exception)
    values, live, _ = go_on(path, program, numbered())
    assert "/program.0/branch.1/gen.0" not in live.asked and len(values) == 3
    assert replay(path, program) == values


# -- what differs


def test_a_program_that_asks_otherwise_is_refused_before_anything_is_paid(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    edited = False

    @ppl
    def program() -> list[str]:
        new = [branch(7)] if edited else []  # not in the record: it has to wait
        said = [ask("another" if edited and i == 1 else f"question {i}") for i in range(3)]
        return [*said, *map(str, new)]

    record(path, program, fails_after(2, BackendUnavailable("x")))
    before, live, edited = path.read_bytes(), Counting(numbered()), True
    with pytest.raises(DivergenceError, match="recorded with another content"):
        go_on(path, program, live)
    assert not live.asked and path.read_bytes() == before


def test_an_edited_program_is_asked_what_it_asks_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    record(path, five, numbered())

    def edited() -> list[str]:
        return [ask(f"question {i}" if i != 1 else "something else") for i in range(5)]

    tally = Tally()
    values, live, _ = go_on(path, edited, Fake(lambda _: "new"), edited=True, tally=tally)
    assert values[1] == "new" and list(live.asked) == ["/ask.1/gen.0"]
    assert tally.reused.calls == 4
    assert replay(path, edited) == values
    trace = Trace.open(path)
    assert [c.address for c in trace.earlier] == ["/ask.1/gen.0"]
    assert trace.totals().answered == 5


def test_twenty_samples_that_are_alike_keep_their_places(tmp_path: Path) -> None:
    """One of three like calls was in flight: what it gets is not what another one got."""
    path = tmp_path / "t.trace"

    @ppl
    def alike() -> list[str]:
        return [str(each) for each in [branch(0), branch(0), branch(0)]]

    recorder = Recorder(path, {"program": "p"}, durability="process")
    log = Log()
    with Run(numbered(), instruments=[recorder, log], gate=recorder.gate):
        alike()
    recorder.close()
    values, live, _ = go_on(
        without_end(path, "/alike.0/branch.0/gen.0"), alike, Fake(lambda _: "live")
    )
    assert values == ["live", "answer 2", "answer 3"]
    assert list(live.asked) == ["/alike.0/branch.0/gen.0"]


def test_by_content_alone_they_would_not(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"

    @ppl
    def alike() -> list[str]:
        return [str(each) for each in [branch(0), branch(0), branch(0)]]

    record(path, alike, numbered())
    values, _, _ = go_on(
        without_end(path, "/alike.0/branch.0/gen.0"), alike, numbered(), kind=ByContent
    )
    assert values[0] == "answer 2"


class ByContent(Resumer):
    """Taken out: the place. What was recorded first with the same content is the answer."""

    def verdict(self, expected: Expectation) -> Verdict:
        call: Any = expected.call
        for found in self.trace.calls if call is not None else ():
            same = found.content == call.request.digest and found.outcome == "answered"
            if same and found.address not in self.claimed:
                return Recorded(found)
        return super().verdict(expected)


@ppl
async def asks(question: str) -> str:
    f"{question}"
    return str(await gen())


def first_come() -> list[str]:
    """What is asked next depends on who has answered first."""

    async def main() -> list[str]:
        tasks = [asyncio.ensure_future(asks("slow")), asyncio.ensure_future(asks("quick"))]
        return [await asks(f"after {await each}") for each in asyncio.as_completed(tasks)]

    return asyncio.run(main())


class SlowFirst(Fake):
    """The slow question is answered only when another one was asked after the quick one."""

    def __init__(self) -> None:
        super().__init__(lambda request: f"{request.messages.message.content}!")  # type: ignore[union-attr]
        self._after = asyncio.Event()

    async def complete(self, request: Request, emit: Any = None) -> Any:
        said = request.messages.message.content if request.messages else ""
        if said == "slow":
            await self._after.wait()
        if said.startswith("after"):
            self._after.set()
        return await super().complete(request, emit)


def broken_off_before_the_slow_one(path: Path) -> Path:
    values = record(path, first_come, SlowFirst())
    assert values == ["after quick!!", "after slow!!"]
    (slow,) = [c.address for c in Trace.open(path).calls if c.messages.message.content == "slow"]  # type: ignore[union-attr]
    (last,) = [c.address for c in Trace.open(path).calls if "after slow" in c.messages.message.content]  # type: ignore[union-attr]  # fmt: skip
    return without_end(without_end(path, last), slow)


def quick_echo() -> Fake:
    return Fake(lambda request: f"{request.messages.message.content}!")  # type: ignore[union-attr]


def test_a_live_answer_waits_until_what_is_recorded_was_told(tmp_path: Path) -> None:
    path = broken_off_before_the_slow_one(tmp_path / "t.trace")
    values, live, _ = go_on(path, first_come, quick_echo())
    assert values == ["after quick!!", "after slow!!"]
    assert sum(live.asked.values()) == 2
    assert replay(path, first_come) == values


class Hasty(Resumer):
    """Taken out: the waiting of live calls until the record is used up."""

    def verdict(self, expected: Expectation) -> Verdict:
        verdict = super().verdict(expected)
        return Now() if isinstance(verdict, AtEnd) else verdict


def test_if_it_did_not_the_program_would_ask_something_else(tmp_path: Path) -> None:
    path = broken_off_before_the_slow_one(tmp_path / "t.trace")
    with pytest.raises(DivergenceError):
        go_on(path, first_come, quick_echo(), kind=Hasty)


def without_end(path: Path, address: str) -> Path:
    """The trace *path* as if the process had died before the call at *address* ended."""
    from appl.tracing import records as every
    from appl.tracing.format import block, block_file, codec

    scopes: dict[int, str] = {}
    mine, kept = None, []
    for fields in every(path):
        if fields[0] == "X":
            scopes[fields[1]] = f"{scopes.get(fields[2], fields[2])}/{fields[3]}".replace("//", "/")
        if fields[0] == "S" and f"{scopes.get(fields[2], fields[2])}/{fields[3]}" == address:
            mine = fields[1]
        gone = fields[0] in "EV" and fields[1] == mine
        if not gone and fields[0] != "Z":
            kept.append(codec.pack(fields))
    path.write_bytes(block.MAGIC + block_file.Encoder().block(b"".join(kept)))
    return path


def test_a_record_that_was_masked_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    secret = "sk-0123456789abcdef"
    recorder = Recorder(path, {"program": "p"}, secrets={"THE_KEY": secret}, durability="process")
    with Run(Fake(lambda _: f"it is {secret}"), instruments=[recorder], gate=recorder.gate):
        ask("the key?")
    recorder.close()
    with pytest.raises(SecretInRecord, match="THE_KEY"):
        go_on(path, lambda: ask("the key?"), numbered())


def test_a_run_that_still_goes_on_is_not_written_by_a_second_one(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    recorder = Recorder(path, {"program": "p"}, durability="process")
    with pytest.raises(TraceLocked):
        Appender(Resumer(path))
    recorder.close()


# -- tools


ran: list[str] = []


def pay(amount: int) -> str:
    """Pay an amount."""
    ran.append(f"paid {amount}")
    if len(ran) == 1:
        raise KeyboardInterrupt
    return f"paid {amount}"


def put(amount: int) -> str:
    """Put an amount."""
    ran.append(f"put {amount}")
    if len(ran) == 1:
        raise KeyboardInterrupt
    return f"put {amount}"


def shop(name: str) -> Callable[[], str]:
    tools = {"pay": as_tool(pay), "put": as_tool(put, idempotent=True)}

    @ppl
    def buying() -> str:
        "Buy."
        answer = gen(tools=[tools[name]])
        answer
        results = answer.run_tool_calls(parallel=False)
        results
        return f"{results[0].content}, {gen()}"

    return buying


def shopping(request: Request) -> Any:
    if request.messages is not None and len(list(request.messages)) == 1:
        return calling(("pay" if "pay" in request.sampling.tools[0] else "put", {"amount": 5}))
    return "thanks"


def broken_off_in(tmp_path: Path, name: str) -> tuple[Path, Callable[[], str]]:
    ran.clear()
    path, program = tmp_path / "t.trace", shop(name)
    assert isinstance(record(path, program, Fake(shopping)), KeyboardInterrupt)
    return path, program


def test_a_tool_whose_effect_is_in_doubt_does_not_run_again_unasked(tmp_path: Path) -> None:
    path, program = broken_off_in(tmp_path, "pay")
    before, live = path.read_bytes(), Counting(Fake(shopping))
    with pytest.raises(InDoubtEffect) as caught:
        go_on(path, program, live)
    error = caught.value
    assert (error.tool, error.arguments) == ("pay", '{"amount": 5}')
    for word in (error.address, "--rerun", "--assume", "idempotent"):
        assert word in str(error)
    assert ran == ["paid 5"] and not live.asked and path.read_bytes() == before


def test_a_tool_in_doubt_runs_again_when_it_may(tmp_path: Path) -> None:
    path, program = broken_off_in(tmp_path, "pay")
    (address,) = Trace.open(path).tools
    values, live, _ = go_on(path, program, Fake(shopping), rerun=[address])
    assert values == "paid 5, thanks" and ran == ["paid 5", "paid 5"]
    assert sum(live.asked.values()) == 1
    assert replay(path, program) == values and len(ran) == 2


def test_the_result_of_a_tool_in_doubt_can_be_given(tmp_path: Path) -> None:
    path, program = broken_off_in(tmp_path, "pay")
    (address,) = Trace.open(path).tools
    values, _, _ = go_on(path, program, Fake(shopping), assume={address: "paid indeed"})
    assert values == "paid indeed, thanks" and ran == ["paid 5"]
    assert replay(path, program) == values


def test_a_tool_that_may_run_twice_just_does(tmp_path: Path) -> None:
    path, program = broken_off_in(tmp_path, "put")
    values, _, _ = go_on(path, program, Fake(shopping))
    assert values == "put 5, thanks" and ran == ["put 5", "put 5"]


# -- kinds of calls and programs


def test_samples_typed_answers_choices_and_streams_come_back(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"

    @ppl
    def mixed() -> list[Any]:
        "Say a number."
        several = [str(each) for each in gen(n=3).samples]
        number = gen(response_format=int) + 1
        chosen = str(appl.select(["yes", "no"]))
        pieces = list(gen(stream=True).text_stream)
        return [several, number, chosen, pieces, ask("the last")]

    def backend(last: Any) -> Fake:
        def answer(request: Request) -> Any:
            said = request.messages.message.content if request.messages else ""
            if said == "the last":
                return last
            return request.sampling.choices[1] if request.sampling.choices else "41"

        return Fake(answer, pieces=list, features={"n", "stream", "choices"})

    assert isinstance(record(path, mixed, backend(BackendUnavailable("x"))), Exception)
    values, live, _ = go_on(path, mixed, backend("done"))
    assert values == [["41"] * 3, 42, "no", ["4", "1"], "done"]
    assert sum(live.asked.values()) == 1
    assert replay(path, mixed) == values


def test_threads_and_tasks_go_on(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"

    def threads() -> list[str]:
        return [str(each.result()) for each in [call(ask, f"q{i}") for i in range(4)]]

    async def one(number: int) -> str:
        return await asyncio.to_thread(ask, f"task {number}")

    def tasks() -> list[str]:
        async def main() -> list[str]:
            return list(await asyncio.gather(*(one(i) for i in range(4))))

        return asyncio.run(main())

    for number, program in enumerate((threads, tasks)):
        path = tmp_path / f"{number}.trace"
        record(path, program, fails_after(2, BackendUnavailable("x")))
        over = [c for c in Trace.open(path).calls if c.outcome == "answered"]
        values, live, _ = go_on(path, program, numbered())
        assert len(values) == 4 and sum(live.asked.values()) == 4 - len(over)
        assert replay(path, program) == values


def test_the_cache_of_the_run_has_what_was_recorded(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"

    @ppl
    def cached(count: int) -> list[str]:
        "The same."
        return [str(gen(cache="run")) for _ in range(count)]

    def program() -> list[str]:
        return [*cached(1), ask("fails"), *cached(1)]

    assert isinstance(record(path, program, fails_after(1, BackendUnavailable("x"))), Exception)
    values, live, _ = go_on(path, program, Fake(lambda _: "new"))
    assert values == ["answer 1", "new", "answer 1"] and sum(live.asked.values()) == 1


class Together(Held):
    """Answers the questions *texts* together, when all programs wait; then those that are left."""

    def __init__(self, *texts: str) -> None:
        super().__init__(_question)
        self._texts = texts

    def on_idle(self, final: bool = True) -> bool:
        places = {_question(each): each.address for each in self.requests}
        if not places.keys() >= set(self._texts):
            return False
        first = [places[text] for text in self._texts if places[text] in self.waiting]
        self.release(*(first or self.waiting))
        return bool(self.waiting)


def _question(request: Request) -> str:
    assert request.messages is not None
    return request.messages.message.content


@ppl
def asked(question: str) -> appl.Generation:
    f"{question}"
    return gen()


@ppl(parallel=True)
def gives_up(log: list[str]) -> None:
    first, second = [asked(text) for text in ("a", "b")]
    str(first)
    second.cancel()
    with contextlib.suppress(CallCancelled):
        str(second)
    log.append("given up")


@ppl(parallel=True)
def reads_on(log: list[str]) -> None:
    log.append(ask("c"))


@ppl
def side_by_side() -> list[str]:
    log: list[str] = []
    beside = [gives_up(log), reads_on(log)]
    for each in beside:
        each.result()
    return log


def test_a_call_that_is_cancelled_anew_ends_after_all_that_is_recorded(tmp_path: Path) -> None:
    """Its end is not recorded, and so comes later than the answer that others had then."""
    path = tmp_path / "t.trace"
    log = list(record(path, side_by_side, Together("a", "c")))
    assert log == ["c", "given up"]
    without_end(path, "/side_by_side.0/gives_up.0/asked.1/gen.0")
    values, _, _ = go_on(path, side_by_side, Together())
    assert list(values) == log and list(replay(path, side_by_side)) == log


# -- the file


def test_the_last_record_has_the_sums_of_all_processes(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    record(path, five, fails_after(3, BackendUnavailable("x")))
    go_on(path, five, numbered())
    trace, listed = Trace.open(path), row_of(path)
    assert [each.reason for each in trace.incarnations] == ["run", "resume"]
    assert [call.incarnation for call in trace.calls] == [0, 0, 0, 1, 1]
    totals = {k: v for k, v in trace.totals().as_data().items() if k != "in_flight"}
    assert {name: listed.totals[name] for name in totals} == totals
    assert (totals["calls"], totals["answered"], totals["failed"]) == (5, 5, 0)
    assert trace.wall(0, 1) > trace.wall(0, 0) and listed.seconds >= 0


def test_calls_on_their_way_when_the_process_died_are_in_doubt(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    record(path, five, numbered())
    without_end(path, "/ask.4/gen.0")
    go_on(path, five, numbered())
    assert Trace.open(path).totals().in_doubt == 1


def test_a_declared_observation_is_the_recorded_one(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"

    def program() -> list[Any]:
        first = [appl.random(), str(appl.uuid()), appl.now()]
        return [first, ask("a"), ask("b"), appl.random()]

    record(path, program, fails_after(1, BackendUnavailable("x")))
    values, _, _ = go_on(path, program, numbered())
    assert replay(path, program) == values

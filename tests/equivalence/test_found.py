"""What random programs found: each is a program on which scheduled and naive runs once differed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appl import (
    NumberedList,
    SystemRole,
    call,
    convo,
    gen,
    gen_with_tools,
    map,
    ppl,
    records,
    select,
    str_future,
)
from appl.errors import BackendError
from appl.testing import (
    CallEnded,
    CallStarted,
    Echo,
    Log,
    Run,
    Scripted,
    Seeded,
    calling,
    running,
    said,
)
from appl.tracing import Recorder, Replayer

BOTH = pytest.mark.parametrize("sequential", [True, False], ids=["naive", "scheduled"])


def answer(request: Any) -> str | BackendError:
    text = said(request)
    return BackendError("refused") if text.endswith("bad") else "ok"


def addresses(log: Log) -> list[str]:
    return sorted(event.request.address for event in log.of(CallStarted))


@ppl
def ask(question: str) -> Any:
    f"{question}"
    return gen()


@ppl(parallel=True)
def leaves_a_failure_behind(question: str) -> Any:
    f"{question}"
    _unread = gen()
    "more"
    y = gen()
    if y:
        raise ValueError("own failure")


@ppl
def again(n: int) -> Any:
    f"{n}"
    return gen() if n == 0 else again(n - 1)


def test_a_function_of_a_module_may_call_itself() -> None:
    log = Log()
    with running(Echo(), instruments=[log]):
        assert again(2)
    assert addresses(log) == ["/again.0/again.0/again.0/gen.0"]


@ppl
def choosing() -> Any:
    "Choose."
    return [select(["left", "right"]), gen(), select(["left", "right"])]


def test_select_and_gen_are_counted_apart() -> None:
    log = Log()
    with running(Scripted(lambda _: "left"), instruments=[log]):
        choosing()
    found = addresses(log)
    assert found == ["/choosing.0/gen.0", "/choosing.0/select.0", "/choosing.0/select.1"]


@ppl
def recovering() -> Any:
    "before"
    try:
        f"very {gen()} bad"
        f"{gen()}"
        gen()
    except BackendError:
        "sorry"
    return gen(), convo()


@BOTH
def test_a_failed_answer_is_not_left_in_the_prompt(sequential: bool) -> None:
    refuse_first = Scripted(lambda r: BackendError("no") if said(r).endswith("very ") else "ok")
    with running(refuse_first, sequential=sequential):
        final, prompt = recovering()
        assert final == "ok"
    assert [m.content for m in prompt] == ["before\nvery \nsorry"]


@ppl
def first_failure() -> Any:
    try:
        leaves_a_failure_behind("bad")
    except (BackendError, ValueError) as error:
        return str(error)


@BOTH
def test_a_task_that_fails_drops_what_it_left_behind_also_in_a_try(sequential: bool) -> None:
    with running(Scripted(answer), sequential=sequential):
        assert first_failure() == "own failure"


@ppl
def looks_later() -> Any:
    task = leaves_a_failure_behind("bad")
    try:
        return str(task)
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("seed", range(4))
def test_what_a_task_left_to_nobody_is_dropped_under_every_schedule(seed: int) -> None:
    with running(Seeded(seed, answer)):
        assert looks_later() == "own failure"


@ppl
def maps() -> Any:
    try:
        map(ask, ["good", "bad", "good", "good"], concurrency=1)
    except BackendError:
        "sorry"
    return ask("after")


@BOTH
def test_items_that_map_did_not_start_keep_their_addresses(sequential: bool) -> None:
    log = Log()
    with running(Scripted(answer), sequential=sequential, instruments=[log]):
        maps()
    assert addresses(log)[-1] == "/maps.0/ask.4/gen.0"


@ppl
def series(question: str) -> Any:
    f"{question}"
    while True:
        yield gen()


@ppl
def resumes_in_a_region() -> Any:
    answers = series("bad")
    try:
        next(answers)
    except BackendError as error:
        return f"caught {error}"


@BOTH
def test_a_region_waits_for_the_calls_of_a_generator_resumed_in_it(sequential: bool) -> None:
    with running(Scripted(answer), sequential=sequential):
        assert resumes_in_a_region() == "caught refused"


@ppl
def said_and_left() -> Any:
    for answer in series("fine"):
        f"{answer}"
        last = gen()
        break
    return last


@BOTH
def test_leaving_a_generator_keeps_an_answer_that_the_prompt_holds(sequential: bool) -> None:
    with running(Scripted(answer), sequential=sequential):
        assert said_and_left() == "ok"


KEPT: list[Any] = []


@ppl
def leaves_open() -> None:
    KEPT.append(series("fine"))
    next(KEPT[-1])


def test_a_run_waits_for_the_calls_of_a_generator_that_stays_open() -> None:
    log = Log()
    with running(Seeded(1), instruments=[log]):
        leaves_open()
    assert [event.address for event in log.of(CallEnded)] == ["/leaves_open.0/series.0/gen.0"]
    KEPT.clear()


@ppl
def nested_regions() -> Any:
    try:
        x = ask("bad")
        try:
            f"{x}"
            gen()
        except ValueError:
            "never"
    except BackendError:
        "outer"
    return convo()


@BOTH
def test_an_outer_region_goes_back_to_where_its_own_call_failed(sequential: bool) -> None:
    with running(Scripted(answer), sequential=sequential):
        assert [m.content for m in nested_regions()] == ["outer"]


@ppl
def started_and_asked() -> Any:
    one = call(ask, "good")
    return [ask(one), one]  # type: ignore[arg-type]


@BOTH
def test_a_call_goes_out_with_the_answer_of_a_task(sequential: bool) -> None:
    with running(Echo(), sequential=sequential) as backend:
        started_and_asked()
    assert backend.prompts["/started_and_asked.0/ask.1/gen.0"].startswith("user: ")


@ppl(ctx="copy")
def goes_on() -> Any:
    return str(gen())


@ppl
def a_task_fails_of_the_prompt() -> Any:
    try:
        f"very {gen()} bad"
        call(goes_on)
        "never"
    except BackendError:
        "sorry"
    return convo()


@BOTH
def test_a_region_goes_back_to_the_call_for_which_others_failed(sequential: bool) -> None:
    with running(Scripted(lambda _: BackendError("refused")), sequential=sequential):
        assert [m.content for m in a_task_fails_of_the_prompt()] == ["very \nsorry"]


def look(q: str) -> str:
    return q.upper()


@ppl
def looks_up(question: str) -> Any:
    f"{question}"
    (_ := gen_with_tools(tools=[look]))
    return records()


@ppl
def a_list_of_what_was_looked_up() -> Any:
    with NumberedList():
        "first"
        looks_up("second")
        "third"
    return convo()


@BOTH
def test_the_answer_of_a_loop_stays_the_models_in_a_list_of_the_users(sequential: bool) -> None:
    script = [calling(("look", {"q": "x"})), "found"]
    with running(Scripted(script), sequential=sequential):
        shown = [str(m) for m in a_list_of_what_was_looked_up()]
    assert shown[0] == "user: 1. first\n2. second"
    assert shown[2:] == ["tool: X", "assistant: found", "user: 3. third"]


@ppl
def a_system_that_looks_up() -> Any:
    with SystemRole():
        "rules"
        (_ := gen(tools=[look]))
        "more"
    "question"
    return convo()


@BOTH
def test_an_answer_that_calls_tools_is_not_the_systems(sequential: bool) -> None:
    with running(Scripted([calling(("look", {"q": "x"}))]), sequential=sequential):
        found = list(a_system_that_looks_up().all())
    assert [m.role for m in found] == ["system", "assistant", "user"]
    assert found[0].content == "rules\nmore"


@ppl
def prepared(question: str) -> Any:
    f"{question}"
    answer = gen()
    while True:
        yield question
        f"{answer}"


@ppl
def leaves_to_the_collector(kept: list[Any]) -> None:
    answers = prepared("fine")
    next(answers)
    kept.append(answers)


def test_a_generator_that_was_collected_then_may_be_there_still_in_a_replay(tmp_path: Path) -> None:
    recorder, log = Recorder(tmp_path / "t.trace", durability="process"), Log()
    with Run(Seeded(1), instruments=[recorder, log], gate=recorder.gate):
        kept: list[Any] = []
        leaves_to_the_collector(kept)
        kept.clear()
    recorder.close()
    assert [type(event.error).__name__ for event in log.of(CallEnded)] == ["CallCancelled"]
    replayer = Replayer(recorder.path)
    with Run(replayer.backend, instruments=[replayer], world=replayer):
        leaves_to_the_collector(kept)
    replayer.finish()


@ppl
def joins() -> Any:
    "question"
    one, two = gen(), gen(temperature=0.5)
    f"both: {str_future(', ').join([one, two])}"
    return gen()


@BOTH
def test_a_lazy_string_in_a_prompt_is_an_edge_to_each_of_its_answers(sequential: bool) -> None:
    log = Log()
    with running(Echo(), sequential=sequential, instruments=[log]):
        joins()
    edges = {event.request.address: event.edges for event in log.of(CallStarted)}
    assert edges["/joins.0/gen.2"] == ("/joins.0/gen.1", "/joins.0/gen.0")


class Asks:
    @ppl
    def __call__(self, question: str) -> Any:
        f"{question}"
        return gen()


@ppl
def asks_in_a_row() -> Any:
    "question"
    ask = Asks()
    return ask(ask(gen()))


@BOTH
def test_an_object_that_is_called_as_a_prompt_function_takes_futures(sequential: bool) -> None:
    log = Log()
    with running(Echo(), sequential=sequential, instruments=[log]):
        assert asks_in_a_row()
    edges = {event.request.address: event.edges for event in log.of(CallStarted)}
    assert edges["/asks_in_a_row.0/__call__.0/gen.0"] == ("/asks_in_a_row.0/gen.0",)


@ppl(parallel=True)
def fails_with_an_answer() -> Any:
    "question"
    first = gen()
    "bad"
    f"{gen()}"
    return gen() if first else None


@ppl(parallel=True)
def notes(log: list[str]) -> Any:
    "another"
    if gen():
        log.append("noted")
    return gen()


@ppl
def side_by_side(ready: Callable[[], object]) -> list[str]:
    log: list[str] = []
    one, two = fails_with_an_answer(), notes(log)
    ready()
    try:
        str(one)
    except BackendError:
        log.append("failed")
    str(two)
    return log


class Answered:
    """Tells when so many calls have ended."""

    def __init__(self, count: int) -> None:
        self.left, self.all = count, threading.Event()

    def on_event(self, event: object) -> None:
        self.left -= isinstance(event, CallEnded)
        if not self.left:
            self.all.set()


def test_a_call_fails_with_its_prompt_where_it_did_in_a_replay(tmp_path: Path) -> None:
    recorder, answered = Recorder(tmp_path / "t.trace", durability="process"), Answered(3)
    with Run(Scripted(answer), instruments=[recorder, answered], gate=recorder.gate):
        log = side_by_side(lambda: answered.all.wait(60))
    recorder.close()
    assert log == ["noted", "failed"]
    replayer = Replayer(recorder.path)
    with Run(replayer.backend, instruments=[replayer], world=replayer):
        assert side_by_side(lambda: None) == log
    replayer.finish()

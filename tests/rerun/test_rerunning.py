"""Which recorded answer an edited program gets, what it is asked instead, and what is said of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import appl
from appl import Generation, as_tool, gen, ppl
from appl.backend import Request, Response
from appl.errors import ApplError, BackendUnavailable, InvalidOption
from appl.session.rerunning import foreseen
from appl.testing import Fake, Policy, Retries, Run, calling
from appl.tracing import Predictor, Recorder, Replayer, Rerunner, Trace, profile_data
from appl.tracing.explaining import Prediction, RerunReport
from appl.tracing.replaying.amending import matches
from appl.tracing.replaying.recall import natural

ONCE = Policy(retries=Retries(attempts=1), circuit=None)


def echo(mark: str = "!") -> Fake:
    """Answers with the last line of the question, and a mark; the same to the same question."""
    return Fake(lambda request: f"{str(request.messages.message.content).splitlines()[-1]}{mark}")  # type: ignore[union-attr]  # fmt: skip


def recorded_in(path: Path, program: Callable[[], Any], backend: Any, **more: Any) -> Any:
    head = {"program": "p", "profile": profile_data(backend.profile)}
    recorder = Recorder(path, head | more.pop("head", {}), durability="process")
    try:
        with Run(
            backend, instruments=[*more.pop("watching", ()), recorder], gate=recorder.gate,
            barrier=recorder.barrier, policy=ONCE, **more,
        ):  # fmt: skip
            return program()
    finally:
        recorder.close()


def again(
    path: Path, program: Callable[[], Any], backend: Any, **options: Any
) -> tuple[Any, RerunReport]:
    """What *program* gives now, and the report; the new trace must replay it without the old."""
    rerunner = Rerunner(path, **options)
    report = RerunReport(rerunner)
    into = path.with_name(f"{path.stem}.again.trace")
    into.unlink(missing_ok=True)
    head = {"sets": rerunner.amendments.sets}
    watching = [rerunner, report.tally]
    values = recorded_in(into, program, backend, watching=watching, world=rerunner, head=head)
    replayer = Replayer(into)
    with Run(replayer.backend, instruments=[replayer], world=replayer):
        assert program() == values
    replayer.finish()
    return values, report


def predicted(path: Path, program: Callable[[], Any], **options: Any) -> Prediction:
    def performed(number: int) -> tuple[Predictor, BaseException | None]:
        predictor, error = Predictor(path, rehearsal=number, **options), None
        live = Fake(lambda _: AssertionError("asked"))
        try:
            with Run(live, instruments=[predictor], world=predictor):
                program()
        except ApplError as stopped:
            error = stopped
        return predictor, error

    return foreseen(performed)


def causes(report: RerunReport) -> dict[str, str]:
    return {each.address: each.cause for each in report.live}


@ppl
def ask(question: str, **options: Any) -> Generation:
    f"{question}"
    return gen(**options)


@ppl
def sum_up(parts: list[Any]) -> Generation:
    "Sum up:"
    for part in parts:
        f"- {part}"
    return gen()


class Silent(Fake):
    """Answers any question but one that says *silent*."""

    def __init__(self, silent: str) -> None:
        super().__init__(lambda _: "an answer")
        self._silent = silent

    async def complete(self, request: Request, emit: Any = None) -> Response:
        if request.messages and request.messages.message.content == self._silent:
            await asyncio.Event().wait()
        return await super().complete(request, emit)


def survey(topics: list[str]) -> Callable[[], str]:
    def program() -> str:
        return str(sum_up([ask(topic) for topic in topics]))

    return program


# -- by place


def test_an_edited_question_is_asked_and_what_holds_its_answer(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    recorded_in(path, survey(["a", "b", "c"]), echo())
    _, report = again(path, survey(["a", "x", "c"]), echo())
    assert causes(report).keys() == {"/ask.1/gen.0", "/sum_up.0/gen.0"}
    assert causes(report)["/ask.1/gen.0"].startswith("prompt changed at part 1")
    assert causes(report)["/sum_up.0/gen.0"].endswith("text from ask.1/gen.0")
    assert report.reused == 2 and not report.removed
    assert report.tally.line().startswith("2 of 4 calls live")


def test_where_the_answer_is_the_same_nothing_after_it_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    always = Fake(lambda request: "the same")
    recorded_in(path, survey(["a", "b", "c"]), always)
    _, report = again(path, survey(["a", "x", "c"]), always)
    assert list(causes(report)) == ["/ask.1/gen.0"]


def test_a_changed_option_and_a_changed_model_are_named(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    recorded_in(path, lambda: str(ask("a", temperature=0.7)), echo())
    _, report = again(path, lambda: str(ask("a", temperature=0.2)), echo())
    assert causes(report) == {"/ask.0/gen.0": "temperature 0.7 -> 0.2"}


def test_calls_that_are_new_and_calls_that_are_gone_are_told(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    recorded_in(path, lambda: [str(ask("a")), str(ask("b"))], echo())

    @ppl
    def other() -> str:
        "something new"
        return str(gen())

    _, report = again(path, lambda: [str(ask("a")), other()], echo())
    assert causes(report) == {"/other.0/gen.0": "new"}
    assert report.removed == ["/ask.1/gen.0"]


# -- in the same frame, and anywhere


def test_a_step_that_is_put_first_shifts_the_others(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"

    def program(first: bool) -> Callable[[], list[str]]:
        @ppl
        def steps() -> list[str]:
            said = [gen(messages="new")] if first else []
            said += [gen(messages=f"step {i}") for i in range(3)]
            return [str(each) for each in said]

        return steps

    recorded_in(path, program(False), echo())
    values, report = again(path, program(True), echo())
    assert values == ["new!", "step 0!", "step 1!", "step 2!"]
    assert causes(report).keys() == {"/steps.0/gen.0"} and report.shifted == 3


def test_a_call_in_another_function_is_moved_unless_its_owner_comes(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"

    @ppl
    def elsewhere(question: str) -> str:
        f"{question}"
        return gen()

    recorded_in(path, lambda: [str(ask("a")), str(ask("b"))], echo())
    trace = Trace.open(path)
    _, report = again(path, lambda: [str(elsewhere("b")), str(ask("a"))], echo("?"))
    assert report.moved == 1 and report.reused == 1 and not report.live
    new = Trace.open(path.with_name("t.again.trace"))
    assert [(c.source, c.of) for c in new.calls] == [
        ("moved", "/ask.1/gen.0"), ("reused", "/ask.0/gen.0"),
    ]  # fmt: skip
    assert new.totals().recalled == 2 and new.totals().cost == 0
    assert [c.response for c in new.calls] == [c.response for c in reversed(trace.calls)]


@ppl(parallel=True)
def sample(number: int) -> str:
    "The same question."
    return str(gen())


def samples(count: int) -> Callable[[], list[str]]:
    @ppl
    def program() -> list[str]:
        return [str(each) for each in [sample(i) for i in range(count)]]

    return program


def numbered() -> Fake:
    count = 0

    def answer(request: Request) -> str:
        nonlocal count
        count += 1
        return f"answer {count}"

    return Fake(answer)


def test_of_more_samples_only_the_missing_are_asked_and_each_keeps_its_own(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    before = recorded_in(path, samples(20), numbered())
    values, report = again(path, samples(25), Fake(lambda _: "new"))
    assert values == [*before, *["new"] * 5] and len(report.live) == 5
    fewer, report = again(path, samples(15), Fake(lambda _: "new"))
    assert fewer == before[:15] and not report.live and len(report.removed) == 5


def test_of_more_samples_of_one_call_only_the_missing_are_asked(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"

    def several(count: int) -> Callable[[], list[str]]:
        @ppl
        def program() -> list[str]:
            "Say."
            return [str(each) for each in gen(n=count).samples]

        return program

    recorded_in(path, several(20), Fake(lambda _: "then", features={"n"}))
    live = Fake(lambda _: "now", features={"n"})
    values, report = again(path, several(25), live)
    assert values == ["then"] * 20 + ["now"] * 5
    assert [(request.n, request.sample) for request in live.requests] == [(5, 20)]
    assert causes(report) == {"/program.0/gen.0": "5 of 25 samples are new"}


# -- failures


def test_a_failure_is_no_answer_worth_keeping(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"

    def program() -> str:
        try:
            return str(ask("a"))
        except ApplError as error:
            return type(error).__name__

    recorded_in(path, program, Fake(lambda _: BackendUnavailable("gone")))
    values, report = again(path, program, echo())
    assert values == "a!" and causes(report) == {"/ask.0/gen.0": "failed then (BackendUnavailable)"}
    kept, report = again(path, program, echo(), keep_failures=True)
    assert kept == "BackendUnavailable" and not report.live


# -- pins and settings


def test_a_pinned_call_is_answered_by_the_user(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    recorded_in(path, survey(["a", "b"]), echo())
    values, report = again(path, survey(["a", "b"]), echo(), pins={"ask.1/*": "pinned"})
    assert report.pinned == 1 and list(causes(report)) == ["/sum_up.0/gen.0"]
    assert values == "- pinned!"


def test_an_option_is_set_where_the_pattern_says(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    recorded_in(path, survey(["a", "b"]), echo())
    live = echo()
    _, report = again(path, survey(["a", "b"]), live, sets={"/ask.0/gen.0.temperature": 0.5})
    assert causes(report) == {"/ask.0/gen.0": "set temperature null -> 0.5"}
    assert [request.sampling.temperature for request in live.requests] == [0.5]


def test_an_option_that_is_not_there_is_refused_with_the_nearest(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    recorded_in(path, survey(["a"]), echo())
    with pytest.raises(InvalidOption, match="did you mean 'temperature'"):
        again(path, survey(["a"]), echo(), sets={"*.temprature": 1})
    with pytest.raises(InvalidOption, match="write CALL"):
        Rerunner(path, sets={"temperature": 1})


def test_pins_that_no_call_matched_are_known(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    recorded_in(path, survey(["a"]), echo())
    rerunner = Rerunner(path, pins={"nobody": "x", "*/gen.0": "y"})
    with Run(echo(), instruments=[rerunner], world=rerunner):
        survey(["a"])()
    assert rerunner.unused() == ["nobody"]


def test_patterns_and_the_order_of_addresses() -> None:
    assert matches("ask.1/gen.0", "/ask.1/gen.0") and matches("*/gen.0", "/ask.1/gen.0")
    assert not matches("ask.1", "/ask.1/gen.0")
    assert sorted(["/f.10", "/f.9", "/f.9/gen.0"], key=natural) == ["/f.9", "/f.9/gen.0", "/f.10"]


# -- tools and the world


def test_a_tool_is_answered_where_it_is_called_alike_and_runs_where_not(tmp_path: Path) -> None:
    path, ran = tmp_path / "t.trace", list[str]()

    def look(what: str) -> str:
        """Look."""
        ran.append(what)
        return f"saw {what}"

    def program(what: str) -> Callable[[], str]:
        @ppl
        def looking() -> str:
            f"Look at {what}."
            answer = gen(tools=[as_tool(look)])
            answer
            answer.run_tool_calls()
            return str(gen()) + answer.run_tool_calls()[0].content

        return looking

    def backend(request: Request) -> Any:
        said = request.messages.message.content if request.messages else ""
        return calling(("look", {"what": said[8:-1]})) if said.startswith("Look") else "done"

    recorded_in(path, program("it"), Fake(backend))
    assert ran == ["it", "it"]
    _, report = again(path, program("it"), Fake(backend))
    assert ran == ["it", "it"] and not report.live and not report.tools
    _, report = again(path, program("that"), Fake(backend))
    assert ran[2:] == ["that", "that"] and len(report.tools) == 2


def test_what_was_observed_is_not_observed_again(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"

    def program() -> list[Any]:
        return [appl.now(), appl.random(), str(ask("a"))]

    values = recorded_in(path, program, echo())
    assert again(path, program, echo("?"))[0] == values


# -- predictions


def big(changed: int | None = None) -> Callable[[], str]:
    """400 calls: 360 leaves, 36 chapters, 3 parts, one book."""
    topics = [f"topic {i}" if i != changed else "another" for i in range(360)]

    def program() -> str:
        chapters = [sum_up([ask(topic) for topic in topics[i : i + 10]]) for i in range(0, 360, 10)]
        parts = [sum_up(chapters[i : i + 12]) for i in range(0, 36, 12)]
        return str(sum_up(parts))

    return program


def whole() -> Fake:
    """An answer that changes with any part of the question."""
    return Fake(lambda request: str(hash_of(request)))


def hash_of(request: Request) -> int:
    return int.from_bytes(request.digest[:6], "big")


def test_of_400_calls_the_live_ones_after_an_edit_are_predicted(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    recorded_in(path, big(), whole())
    assert len(Trace.open(path).calls) == 400
    found = predicted(path, big(123))
    assert found.live == (4, 4) and found.same_way == (1, 4) and found.every == 400
    _, report = again(path, big(123), whole())
    live = {each.address for each in report.live}
    assert live == {each.address for each in (*found.fewest, *found.further)} and len(live) == 4
    assert found.lines()[-1].startswith("4 of 400 calls would be live")
    assert found.as_data()["live"] == {"fewest": 4, "most": 4}


def test_when_the_answer_stays_as_many_are_live_as_the_fewest(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    always = Fake(lambda _: "the same")
    recorded_in(path, survey(["a", "b"]), always)
    found = predicted(path, survey(["a", "x"]))
    _, report = again(path, survey(["a", "x"]), always)
    assert len(report.live) == found.same_way[0] == 1 and found.live == (2, 2)


def test_a_call_that_was_cancelled_then_is_not_in_the_one_number_of_a_prediction(
    tmp_path: Path,
) -> None:
    def program(question: str, leaves: bool) -> Callable[[], str]:
        def run() -> str:
            slow = ask("slow")
            first = str(ask(question))
            if leaves:
                slow.cancel()
            return first if leaves else first + str(slow)

        return run

    path = tmp_path / "t.trace"
    recorded_in(path, program("a", True), Silent("slow"))
    assert [call.outcome for call in Trace.open(path).calls] == ["cancelled", "answered"]
    found = predicted(path, program("b", False))
    assert {len(rehearsal.asked) for rehearsal in found.rehearsed} == {2}, "they agree"
    assert found.agreed is None and found.live == (1, None)
    assert "/ask.0/gen.0 was cancelled then, and may be cancelled again" in "\n".join(found.lines())


def test_a_prediction_asks_nobody_and_runs_no_tool(tmp_path: Path) -> None:
    path = tmp_path / "t.trace"
    recorded_in(path, survey(["a"]), echo())
    found = predicted(path, lambda: [survey(["a"])(), str(ask("never asked"))])
    assert found.live == (1, 1) and found.guessed == ["/ask.1/gen.0"]
    assert "a guess" in "\n".join(found.lines())

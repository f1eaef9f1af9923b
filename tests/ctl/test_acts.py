"""What somebody outside does to a run takes effect, is recorded, and replays without a live call."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appl.cli import main
from appl.errors import ControlError
from appl.parts.control import words
from appl.session import replayed
from appl.tracing import Trace
from appl.tracing.explaining import RunOverview
from appl.tracing.exporting import lines
from appl.tracing.keeping import row_of
from appl.tracing.viewer import View

from . import programs
from .live import Recorded, eventually, recorded


def stages(made: Recorded) -> dict[str, str]:
    return {each["call"]: each["why"] for each in made.ask("show")["calls"]}


def replay(path: Path, program: Callable[[], Any]) -> Any:
    """The value of *program* answered from *path*; what differs is raised."""
    with replayed(path):
        return program()


def warnings(path: Path) -> list[str]:
    return [message for _, message in Trace.open(path).warnings]


# -- pause and resume


def test_a_paused_run_sends_nothing_and_what_runs_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "run.trace"
    with recorded(programs.three, path, concurrency=1) as made:
        first, second, third = (f"/answer.{i}/gen.0" for i in range(3))
        made.backend.has(first)
        eventually(lambda: len(stages(made)) == 3)
        assert made.ask("pause")["state"] == "paused"
        assert stages(made) == {first: "asked", second: "paused", third: "paused"}
        made.backend.release(first)
        eventually(lambda: first not in stages(made))
        assert made.backend.came == [first]
        assert made.ask("show")["counts"] == {"worker": 0, "queue": 2, "prompt": 0, "record": 0}
        assert made.ask("resume")["state"] == "running"
        made.backend.has(second)
        made.backend.release(second, third)
        assert len(made.over()) == 3
    assert warnings(path) == [
        "appl ctl: paused: no call is sent until `appl ctl resume`",
        "appl ctl: goes on",
    ]
    assert replay(path, programs.three) == made.value


def test_a_run_that_fails_ends_while_it_is_paused(tmp_path: Path) -> None:
    paused = threading.Event()

    def program() -> None:
        programs.answer("a"), programs.answer("b")
        assert paused.wait(60)
        raise KeyError("mine")

    with recorded(program, tmp_path / "run.trace", concurrency=1) as made:
        made.backend.has("/answer.0/gen.0")
        made.ask("pause")
        paused.set()
        with pytest.raises(KeyError):
            made.over()
        assert made.run.over


def test_pausing_twice_is_pausing_once(tmp_path: Path) -> None:
    path = tmp_path / "run.trace"
    with recorded(lambda: str(programs.answer("a")), path) as made:
        made.backend.has("/answer.0/gen.0")
        made.ask("pause"), made.ask("pause"), made.ask("resume"), made.ask("resume")
        made.backend.release()
        made.over()
    assert len(warnings(path)) == 2


# -- cancel


def test_a_call_with_the_backend_is_ended_and_aborted_there(tmp_path: Path) -> None:
    path = tmp_path / "run.trace"
    with recorded(programs.tolerant, path) as made:
        calls = [f"/answer.{i}/gen.0" for i in range(3)]
        made.backend.has(*calls)
        assert made.ask("cancel", at=calls[1]) == {
            "cancelled": "call", "at": calls[1], "calls": [calls[1]], "when": "now",
        }  # fmt: skip
        eventually(lambda: made.backend.aborted == [calls[1]])
        made.backend.release()
        assert [each == "cancelled" for each in made.over()] == [False, True, False]
    assert replay(path, programs.tolerant) == made.value
    assert warnings(path) == [f"appl ctl: {calls[1]} was cancelled"]


def test_whoever_looks_at_the_run_is_told_that_the_call_was_cancelled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A replay goes by another outcome: its program, which did not cancel it, is told again."""
    path, at = tmp_path / "run.trace", "/answer.1/gen.0"
    with recorded(programs.tolerant, path) as made:
        made.backend.has(at)
        made.ask("cancel", at=at)
        made.backend.release()
        assert made.over()[1] == "cancelled"
    trace = Trace.open(path)
    assert trace.by_address[at].outcome == "failed"
    for totals in (trace.totals().as_data(), row_of(path).totals, RunOverview.of(trace, 9).totals):
        told = totals if isinstance(totals, dict) else totals.as_data()
        assert (told["answered"], told["failed"], told["cancelled"]) == (2, 0, 1)
    assert row_of(path).failed == 0
    printed = "\n".join(shown(capsys, path))
    assert "2 answered, 1 cancelled;" in printed and "failed" not in printed
    assert "cancelled: CallCancelled" in printed
    assert f"{at}  cancelled" in shown(capsys, path, at)[0]
    assert '"outcome": "cancelled"' in "\n".join(shown(capsys, path, "--json"))
    assert "failed" not in "".join(lines(trace)) and "**cancelled**" in "\n".join(lines(trace))
    with contextlib.closing(View(path)) as view:
        view.read()
        rows, names = view.document("rows", {}), view.document("run", {})["outcomes"]
    outcomes = dict(zip(rows["address"], [names[each] for each in rows["outcome"]], strict=True))
    assert outcomes[at] == "cancelled"


def shown(capsys: pytest.CaptureFixture[str], path: Path, *words: str) -> list[str]:
    """What ``appl trace show`` prints of *path*."""
    assert main(["trace", "show", str(path), *words]) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("number", [1, 2])
def test_a_call_in_the_queue_is_never_sent(tmp_path: Path, number: int) -> None:
    path = tmp_path / "run.trace"
    with recorded(programs.tolerant, path, concurrency=1) as made:
        calls = [f"/answer.{i}/gen.0" for i in range(3)]
        made.backend.has(calls[0])
        eventually(lambda: len(stages(made)) == 3)
        made.ask("cancel", at=calls[number])
        made.backend.release(*calls)
        assert [each == "cancelled" for each in made.over()].index(True) == number
        assert calls[number] not in made.backend.came
    assert replay(path, programs.tolerant) == made.value


def test_a_call_that_waits_for_a_part_of_its_prompt(tmp_path: Path) -> None:
    path = tmp_path / "run.trace"
    with recorded(programs.chained, path) as made:
        made.backend.has("/twice.0/answer.0/gen.0", "/answer.0/gen.0")
        eventually(lambda: stages(made).get("/twice.0/gen.0") == "part")
        made.ask("cancel", at="/twice.0/gen.0")
        made.backend.release()
        assert made.over()[1] == "cancelled"
    assert replay(path, programs.chained) == made.value


def test_what_waits_for_a_cancelled_part_fails_with_it(tmp_path: Path) -> None:
    path = tmp_path / "run.trace"
    with recorded(programs.chained, path) as made:
        part = "/twice.0/answer.0/gen.0"
        made.backend.has(part, "/answer.0/gen.0")
        eventually(lambda: stages(made).get("/twice.0/gen.0") == "part")
        made.ask("cancel", at=part)
        made.backend.release()
        assert made.over()[1] == "cancelled"
    assert replay(path, programs.chained) == made.value


def test_a_paused_call_can_be_cancelled(tmp_path: Path) -> None:
    path = tmp_path / "run.trace"
    with recorded(programs.tolerant, path, concurrency=1) as made:
        made.backend.has("/answer.0/gen.0")
        eventually(lambda: len(stages(made)) == 3)
        made.ask("pause")
        made.ask("cancel", at="/answer.1/gen.0")
        made.ask("resume")
        made.backend.release(*(f"/answer.{i}/gen.0" for i in range(3)))
        assert made.over()[1] == "cancelled"
    assert replay(path, programs.tolerant) == made.value


def test_nobody_has_to_look_at_what_somebody_else_has_cancelled(tmp_path: Path) -> None:
    path = tmp_path / "run.trace"
    with recorded(programs.forgotten, path) as made:
        made.backend.has("/answer.0/gen.0", "/answer.1/gen.0")
        made.ask("cancel", at="/answer.0/gen.0")
        made.backend.release()
        assert made.over()
    assert replay(path, programs.forgotten) == made.value


def typed() -> str:
    from appl import gen

    return programs.said(gen(messages=[{"role": "user", "content": "5?"}], response_format=int))


def test_a_typed_answer_is_cancelled_with_its_call(tmp_path: Path) -> None:
    path = tmp_path / "run.trace"
    with recorded(typed, path) as made:
        made.backend.has("/gen.0")
        made.ask("cancel", at="/gen.0")
        assert made.over() == "cancelled"
    assert replay(path, typed) == "cancelled"


def test_a_function_in_a_thread_ends_where_it_waits(tmp_path: Path) -> None:
    path = tmp_path / "run.trace"
    with recorded(programs.beside, path) as made:
        left, right = "/asking.0/answer.0/gen.0", "/asking.1/answer.0/gen.0"
        made.backend.has(left, right)
        waits = [left, right]
        eventually(lambda: {left, right} <= {each["for"] for each in made.ask("show")["programs"]})
        assert made.ask("cancel", at="/asking.0")["cancelled"] == "function"
        eventually(
            lambda: not any(p["program"] == "/asking.0" for p in made.ask("show")["programs"])
        )
        made.backend.release(*waits, "/asking.1/answer.1/gen.0")
        found = made.over()
        assert found[0] == "cancelled" and found[1] != "cancelled"
    for _ in range(5):
        assert replay(path, programs.beside) == found


def test_a_fiber_ends_where_it_waits_and_the_others_go_on(tmp_path: Path) -> None:
    path = tmp_path / "run.trace"
    with recorded(programs.fibers, path) as made:
        first = [f"/told.{i}/answer.0/gen.0" for i in range(2)]
        made.backend.has(*first)
        shown = eventually(
            lambda: (
                len(p := [p for p in made.ask("show")["programs"] if p["kind"] == "fiber"]) == 2
                and p
            )
        )
        assert {each["for"] for each in shown} == set(first)
        assert {each["function"] for each in shown} == {"told"}
        assert made.ask("cancel", at="/told.1")["cancelled"] == "function"
        made.backend.release(*first)
        made.backend.has("/told.0/answer.1/gen.0")
        made.backend.release("/told.0/answer.1/gen.0")
        found = made.over()
        assert found[1] == "cancelled" and found[0] != "cancelled"
    for _ in range(3):
        assert replay(path, programs.fibers) == found


def test_who_looks_on_all_the_time_changes_nothing(tmp_path: Path) -> None:
    path, looks = tmp_path / "run.trace", 0
    with recorded(programs.busy, path, backend="appl.testing:Echo") as made:
        while made._thread.is_alive():
            with contextlib.suppress(AttributeError, AssertionError, ControlError):  # not yet, over
                assert made.ask("show", content=True)["content"] == "shown"
                looks += 1
        found = made.over()
    assert looks
    assert replay(path, programs.busy) == found
    with recorded(programs.busy, tmp_path / "alone.trace", backend="appl.testing:Echo") as alone:
        assert alone.over() == found


def tasks() -> Any:
    return asyncio.run(programs.in_tasks())


def test_an_asyncio_task_ends_where_it_waits(tmp_path: Path) -> None:
    path = tmp_path / "run.trace"
    with recorded(tasks, path) as made:
        eventually(lambda: len(made.backend.waiting) == 2)
        names = {each["program"] for each in made.ask("show")["programs"]}
        ended = next(each for each in sorted(names) if each.endswith("one.0"))
        assert made.ask("cancel", at=ended)["cancelled"] == "function"
        eventually(lambda: ended not in {p["program"] for p in made.ask("show")["programs"]})
        eventually(lambda: made.backend.release() or made.run.over)
        found = made.over()
        assert found[0] == "cancelled" and found[1] != "cancelled"
    assert replay(path, tasks) == found


def test_all_calls_below_an_address(tmp_path: Path) -> None:
    def program() -> str:
        return programs.said(programs.twice("x"))

    path = tmp_path / "run.trace"
    with recorded(program, path) as made:
        made.backend.has("/twice.0/answer.0/gen.0")
        eventually(lambda: len(stages(made)) == 2)
        found = made.ask("cancel", at="twice.0")
        assert found["cancelled"] == "calls"
        assert found["calls"] == ["/twice.0/answer.0/gen.0", "/twice.0/gen.0"]
        assert made.over() == "cancelled"
    assert replay(path, program) == "cancelled"


def test_an_unknown_address_is_told_with_the_nearest(tmp_path: Path) -> None:
    with recorded(programs.three, tmp_path / "run.trace") as made:
        made.backend.has("/answer.0/gen.0")
        with pytest.raises(ControlError, match=r"did you mean '/answer\.0/gen\.0'") as raised:
            made.ask("cancel", at="/answr.0/gen.0")
        assert raised.value.kind == "unknown-call"
        made.backend.release(*(f"/answer.{i}/gen.0" for i in range(3)))
        made.over()


# -- limits

OWN = {"retries": {"patience": 61.0}}  # what was set holds for all runs with the same settings


def test_more_at_once_lets_the_queue_go_on(tmp_path: Path) -> None:
    with recorded(programs.three, tmp_path / "run.trace", concurrency=1, **OWN) as made:
        made.backend.has("/answer.0/gen.0")
        eventually(lambda: len(stages(made)) == 3)
        assert made.ask("concurrency", most=3) == {"concurrency": {"watched": 3}}
        made.backend.has("/answer.1/gen.0", "/answer.2/gen.0")
        assert made.ask("show")["backends"][0]["most"] == 3
        made.ask("concurrency", most=1)
        made.backend.release()
        made.over()


def test_fewer_at_once_holds_for_what_comes(tmp_path: Path) -> None:
    with recorded(programs.three, tmp_path / "run.trace", concurrency=2, **OWN) as made:
        first, second, third = (f"/answer.{i}/gen.0" for i in range(3))
        made.backend.has(first, second)
        made.ask("concurrency", most=1)
        made.backend.release(first)
        eventually(lambda: stages(made).get(third) == "slot")
        made.backend.release(second, third)
        made.over()


@pytest.mark.parametrize("most", [0, -1, 1.5, True, "4", None, 10**9])
def test_a_concurrency_that_makes_no_sense(tmp_path: Path, most: Any) -> None:
    with recorded(lambda: str(programs.answer("a")), tmp_path / "run.trace") as made:
        made.backend.has("/answer.0/gen.0")
        with pytest.raises(ControlError, match="whole number"):
            made.ask("concurrency", most=most)
        made.backend.release()


def test_a_raised_budget_lets_waiting_calls_go_on(tmp_path: Path) -> None:
    path = tmp_path / "run.trace"
    with recorded(programs.budgeted, path, budget={"calls": 2}) as made:
        first, second, third = (f"/answer.{i}/gen.0" for i in range(3))
        made.backend.has(first, second)
        eventually(lambda: stages(made).get(third) == "budget")
        shown = made.ask("show")
        budget = shown["budget"]
        running = shown["counts"]["worker"] - 1  # one has left the queue, and is not sent
        assert shown["sent"] == made.ask("run")["sent"] == running
        assert words.counts(shown).startswith(f"{running} running, 1 out of the queue but not sent")
        assert (budget["limits"]["calls"], budget["reserved"]["calls"]) == (2, 2)
        assert made.ask("budget", calls=3)["counts_from_now"] is False
        made.backend.has(third)
        made.backend.release()
        assert "BudgetExceeded" not in made.over()
    assert replay(path, programs.budgeted) == made.value


def test_a_lowered_budget_ends_what_does_not_fit_any_more(tmp_path: Path) -> None:
    path = tmp_path / "run.trace"
    with recorded(programs.budgeted, path, budget={"calls": 2}) as made:
        first, second, third = (f"/answer.{i}/gen.0" for i in range(3))
        made.backend.has(first, second)
        eventually(lambda: stages(made).get(third) == "budget")
        made.ask("budget", calls=0)
        made.backend.release()
        assert made.over()[2] == "BudgetExceeded"
    assert replay(path, programs.budgeted) == made.value


def test_a_run_without_a_budget_gets_one_that_counts_from_now(tmp_path: Path) -> None:
    path = tmp_path / "run.trace"
    with recorded(programs.budgeted, path, concurrency=1) as made:
        first, second, third = (f"/answer.{i}/gen.0" for i in range(3))
        made.backend.has(first)
        eventually(lambda: len(stages(made)) == 3)
        assert made.ask("budget", calls=1)["counts_from_now"] is True
        made.backend.release(first)
        made.backend.has(second)
        assert made.ask("show")["budget"]["reserved"]["calls"] == 1
        made.backend.release(second)
        assert made.over()[2] == "BudgetExceeded"
        assert third not in made.backend.came
    assert replay(path, programs.budgeted) == made.value


def test_a_budget_can_be_lifted(tmp_path: Path) -> None:
    with recorded(programs.budgeted, tmp_path / "run.trace", budget={"calls": 1}) as made:
        made.backend.has("/answer.0/gen.0")
        found = made.ask("budget", calls=None)
        assert found["budget"]["limits"] == {"cost": None, "tokens": None, "calls": None}
        made.backend.has("/answer.1/gen.0", "/answer.2/gen.0")
        made.backend.release()
        assert "BudgetExceeded" not in made.over()


@pytest.mark.parametrize(
    "given",
    [{}, {"calls": -1}, {"calls": 1.5}, {"tokens": "many"}, {"cost": True}, {"cost": 1e300}],
)
def test_a_budget_that_makes_no_sense(tmp_path: Path, given: dict[str, Any]) -> None:
    with recorded(lambda: str(programs.answer("a")), tmp_path / "run.trace") as made:
        made.backend.has("/answer.0/gen.0")
        with pytest.raises(ControlError):
            made.ask("budget", **given)
        made.backend.release()

"""What failed in a run, as every command says it, and what ``--anew failed`` asks again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import appl
from appl import Generation, as_tool, gen, gen_with_tools, ppl
from appl.backend import Request
from appl.errors import BackendUnavailable
from appl.testing import Fake, Policy, Retries, Run, calling
from appl.tracing import Recorder, Rerunner, Trace, profile_data
from appl.tracing.explaining import RunOverview
from appl.tracing.keeping import row_of
from appl.tracing.viewer import View

ROOT = Path(__file__).parents[2]
PROGRAM = '''
import os, re, signal
from appl import gen, map, ppl
from appl.backend import Profile, Response, Sample

class Paid:
    """Writes each answer that is paid into a file; kills its process at the KILL-th."""
    profile = Profile("paid")
    async def complete(self, request, emit=None):
        with open("paid", "a") as file:
            file.write(request.address + "\\n")
            said = file.tell()
        if len(open("paid").readlines()) == int(os.environ.get("KILL", 0)):
            os.kill(os.getpid(), signal.SIGKILL)
        number = int(re.search("RECORD ([0-9]+)", request.messages.links()[0].message.content)[1])
        bad = number % 50 == 7 and "MENDED" not in os.environ
        return Response((Sample("old" if bad else str(number), "stop"),))
    async def aclose(self):
        pass

@ppl
def age(number):
    f"RECORD {number}"
    return gen(response_format=int)

def main():
    found = map(age, range(COUNT), on_error="collect", concurrency=16)
    return sum(isinstance(each, Exception) for each in found)
'''


def command(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """``appl`` with *words* in *folder*, as a user types it."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "backends")])
    found = {**os.environ, "PYTHONPATH": paths, "APPL_BACKEND": "prog:Paid", **environment}
    return subprocess.run(
        [sys.executable, "-m", "appl", *words],
        cwd=folder, env=found, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def told(folder: Path, *words: str, **environment: str) -> str:
    done = command(folder, *words, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def failing_run(folder: Path, count: int, kills: tuple[int, ...]) -> str:
    """Run the program on *count* records, killed at these answers; what the last process says."""
    (folder / "prog.py").write_text(PROGRAM.replace("COUNT", str(count)), "utf-8")
    for kill in kills:
        done = command(folder, "run", "prog.py", KILL=str(kill))
        assert done.returncode == -signal.SIGKILL, done.stderr
    return told(folder, "run", "prog.py")


@pytest.fixture(
    scope="module",
    params=[(100, (40, 90)), pytest.param((1000, (300, 800)), marks=pytest.mark.long)],
)
def killed_twice(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, int, str]:
    """A folder with a run that was killed twice, the number of its records, and its last words."""
    count, kills = request.param
    folder = tmp_path_factory.mktemp("killed")
    return folder, count, failing_run(folder, count, kills)


def test_a_run_with_failures_says_how_many_and_how_to_ask_them_again(
    killed_twice: tuple[Path, int, str],
) -> None:
    _, count, last = killed_twice
    bad = count // 50
    assert f"{count} items: {count - bad} good, {bad} failed" in last
    assert "--anew failed` asks only those again" in last


@pytest.mark.parametrize("words", [("show",), ("cost",)])
def test_every_command_says_how_many_failed(
    killed_twice: tuple[Path, int, str], words: tuple[str, ...]
) -> None:
    folder, count, _ = killed_twice
    bad = count // 50
    assert f"{count - bad} good, {bad} failed" in told(folder, "trace", *words)


def test_the_list_of_runs_shows_failures_and_finds_them(
    killed_twice: tuple[Path, int, str],
) -> None:
    folder, count, _ = killed_twice
    assert f"{count // 50} of {count} items" in told(folder, "trace", "ls", "--failed")


@pytest.mark.parametrize(
    ("words", "place"),
    [(("show",), "totals"), (("cost",), "total"), (("ls",), "totals")],
)
def test_json_says_how_many_failed(
    killed_twice: tuple[Path, int, str], words: tuple[str, ...], place: str
) -> None:
    folder, count, _ = killed_twice
    data = json.loads(told(folder, "trace", *words, "--json"))
    sums = (data[0] if isinstance(data, list) else data)[place]
    assert sums["items_failed"] == sums["rejected"] == count // 50
    assert sums["items"] == count and sums["tools_failed"] == 0


def test_only_what_failed_is_asked_again(killed_twice: tuple[Path, int, str]) -> None:
    folder, count, _ = killed_twice
    before = len((folder / "paid").read_text().splitlines())
    said = told(folder, "trace", "rerun", "--anew", "failed", MENDED="1")
    asked = (folder / "paid").read_text().splitlines()[before:]
    assert sorted(asked) == sorted(f"/age.{n}/gen.0" for n in range(7, count, 50))
    assert f"{count // 50} of {count} calls live" in said and "asks only those" not in said


def test_an_exported_test_passes_and_says_what_failed(
    killed_twice: tuple[Path, int, str],
) -> None:
    folder, count, _ = killed_twice
    run = next(path for path in sorted((folder / ".appl" / "runs").glob("*.trace")))
    words = f"{count} items: {count - count // 50} good, {count // 50} failed"
    done = told(folder, "trace", "export-test", run.stem, "-o", "test_prog.py")
    assert f"it passes as long as the same fail: {words}" in done
    assert words in (folder / "test_prog.py").read_text("utf-8").splitlines()[0]
    tape = Trace.open(folder / "tapes" / "test_prog" / "test_prog.jsonl")
    assert tape.failure_counts().items_failed == count // 50
    tested = pytest_in(folder)
    assert f"test_prog, as on its tape: {words}" in tested and "1 passed" in tested


def pytest_in(folder: Path) -> str:
    """pytest on the exported test; the backend that would be paid is gone."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "backends")])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_prog.py"],
        cwd=folder, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


# -- what counts as a failure


def recorded(path: Path, program: Any, backend: Any, **more: Any) -> Any:
    head = {"program": "p", "profile": profile_data(backend.profile)}
    recorder = Recorder(path, head, durability="process")
    once = Policy(retries=Retries(attempts=1), circuit=None)
    try:
        with Run(backend, instruments=[recorder], gate=recorder.gate, policy=once, **more):
            return program()
    finally:
        recorder.close()


@ppl
def number(word: str) -> Generation:
    f"{word}"
    return gen(response_format=int)


def words_as_answers(request: Request) -> str:
    return str(request.messages.links()[0].message.content)  # type: ignore[union-attr]


def test_an_answer_that_is_good_when_asked_again_has_not_failed(tmp_path: Path) -> None:
    backend = Fake(lambda request: "7" if "ask.1" in request.address else "seven")
    assert recorded(tmp_path / "a.trace", lambda: int(number("x").result()), backend) == 7
    assert not Trace.open(tmp_path / "a.trace").failure_counts()


def test_a_refused_answer_is_the_last_that_was_asked(tmp_path: Path) -> None:
    appl_error = recorded(
        tmp_path / "a.trace",
        lambda: appl.map(number, ["x"], on_error="collect"),
        Fake(words_as_answers),
    )[0]
    trace = Trace.open(tmp_path / "a.trace")
    refused = [call.address for call in trace.calls if trace.outcome_of(call) == "rejected"]
    assert refused == ["/number.0/gen.0/ask.2"]
    assert str(trace.failures[refused[0]].error) == str(appl_error)


def test_all_readers_find_the_same_failures(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    recorded(path, lambda: appl.map(number, ["x", "1"], on_error="collect"), Fake(words_as_answers))
    whole = Trace.open(path)
    assert [*whole.failures] == [*RunOverview.of(whole, 5).trace.failures]
    assert row_of(path).failures == whole.failure_counts()


def half(word: str) -> int:
    text = str(number("4").result() if word == "4" else ask(word))
    return int(text) // 2


@ppl
def ask(word: str) -> Generation:
    f"{word}"
    return gen()


def test_an_item_that_raised_by_itself_is_asked_again_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    run = lambda: appl.map(half, ["4", "six"], on_error="collect")  # noqa: E731
    recorded(path, run, Fake(words_as_answers))
    assert [*Trace.open(path).failures] == ["/half.1"]
    rerunner = Rerunner(path, anew=["failed"])
    again = recorded(tmp_path / "b.trace", run, Fake(lambda _: "8"), world=rerunner)
    assert (again, [*rerunner.asked]) == ([2, 4], ["/half.1/ask.0/gen.0"])


def test_of_an_item_that_failed_with_a_call_only_that_is_asked_again(tmp_path: Path) -> None:
    def both(word: str) -> str:
        return f"{ask(word)} {ask('later')}"

    def answer(request: Request) -> str:
        if words_as_answers(request) == "later":
            raise BackendUnavailable("down")
        return "fine"

    path = tmp_path / "a.trace"
    run = lambda: appl.map(both, ["x"], on_error="collect")  # noqa: E731
    recorded(path, run, Fake(answer))
    rerunner = Rerunner(path, anew=["failed"])
    again = recorded(tmp_path / "b.trace", run, Fake(lambda _: "fine"), world=rerunner)
    assert (again, [*rerunner.asked]) == (["fine fine"], ["/both.0/ask.1/gen.0"])


def test_an_error_in_a_map_that_raises_is_a_failed_item_without_a_number_of_good_ones(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.trace"
    with pytest.raises(ValueError):
        recorded(path, lambda: appl.map(half, ["six"]), Fake(words_as_answers))
    counts = Trace.open(path).failure_counts()
    assert (counts.items_failed, counts.items) == (1, 0)


def test_a_failed_tool_that_the_model_heard_of_is_no_failed_run(tmp_path: Path) -> None:
    def search(word: str) -> str:
        """Search for a word."""
        raise RuntimeError("no network")

    @ppl
    def agent() -> Generation:
        "Find it."
        return gen_with_tools(tools=[as_tool(search)])

    def answer(request: Request) -> Any:
        heard = any(message.role == "tool" for message in request.messages or ())
        return "not found" if heard else calling(("search", {"word": "x"}))

    path = tmp_path / "a.trace"
    assert recorded(path, lambda: str(agent()), Fake(answer)) == "not found"
    trace = Trace.open(path)
    assert trace.reason == "finished" and trace.failure_counts().tools_failed == 1
    assert not trace.failure_counts().has_retriable and row_of(path).failures.tools_failed == 1
    rerunner = Rerunner(path, anew=["failed"])
    assert recorded(tmp_path / "b.trace", lambda: str(agent()), Fake(lambda _: "x"), world=rerunner)
    assert not rerunner.asked and not rerunner.ran


def test_the_viewer_shows_refused_answers_and_calls_of_failed_items_as_such(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.trace"
    recorded(path, lambda: appl.map(half, ["4", "six"], on_error="collect"), Fake(words_as_answers))
    view = View(path)
    rows = view.document("rows", {"since": "0"})
    names = view.document("run", {})["outcomes"]
    outcomes = dict(zip(rows["address"], [names[each] for each in rows["outcome"]], strict=True))
    assert outcomes == {
        "/half.0/number.0/gen.0": "answered",
        "/half.1/ask.0/gen.0": "in a failed item",
    }
    assert view.document("run", {})["failures"] == ["2 items: 1 good, 1 failed"]
    view.close()

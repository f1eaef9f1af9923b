"""``gen(check=f)``: a function of the program's that refuses an answer, with words for the model."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import appl
from appl import gen, gen_with_tools, ppl
from appl.backend import Response, Sample
from appl.errors import BudgetExceeded, InvalidOption, OutputError
from appl.session import replayed
from appl.testing import Run, Scripted, running
from appl.tracing import Recorder, Trace, profile_data


def at_most_six(number: int) -> None:
    if number > 6:
        raise ValueError(f"{number} is more than 6")


def three(*texts: str) -> Response:
    return Response(tuple(Sample(text, "stop") for text in texts))


def asked(**options: Any) -> Any:
    return gen(messages="?", response_format=int, check=at_most_six, **options)


def test_the_model_is_asked_again_with_the_words_of_the_check():
    with running(Scripted(["9", "4"])) as seen:
        assert asked().result() == 4
    assert "9 is more than 6" in seen.prompts["/gen.0/ask.1"]


def test_it_is_not_called_with_an_answer_of_another_type():
    with running(Scripted(["none", "4"])):
        assert asked().result() == 4


def test_an_answer_that_it_refuses_to_the_end_is_an_output_error_with_its_words():
    with (
        running(Scripted(["9", "8"])),
        pytest.raises(OutputError, match="was refused: 8") as caught,
    ):
        asked(max_asks=2).result()
    assert caught.value.problem == "8 is more than 6"


def test_what_it_returns_does_not_count():
    with running(Scripted(["4"])):
        answer = gen(messages="?", response_format=int, check=lambda number: False)
        assert answer.result() == 4


def test_another_error_of_it_fails_the_call():
    with running(Scripted(["4"])) as seen, pytest.raises(KeyError):
        gen(messages="?", response_format=int, check=lambda number: {}[number]).result()
    assert len(seen.requests) == 1


def test_an_error_without_words_names_the_check():
    def never(number: int) -> None:
        raise ValueError

    with running(Scripted(["4"])), pytest.raises(OutputError, match="never refused it"):
        gen(messages="?", response_format=int, check=never, max_asks=1).result()


def test_each_sample_is_checked_by_itself():
    with running(Scripted([three("1", "9", "3"), "2"])) as seen:
        assert [each.response_obj for each in asked(n=3).samples] == [1, 2, 3]
    assert len(seen.requests) == 2


def test_a_text_is_checked_too():
    def cites(text: str) -> None:
        if "[1]" not in text:
            raise ValueError("cite [1]")

    with running(Scripted(["It rains.", "It rains [1]."])):
        assert gen(messages="?", response_format=str, check=cites).result() == "It rains [1]."


def test_it_runs_beside_the_loop_that_sends_calls():
    threads: list[str] = []
    with running(Scripted(["4"])):
        gen(
            messages="?",
            response_format=int,
            check=lambda number: threads.append(threading.current_thread().name),
        ).result()
    assert threads and not any("appl-io" in name for name in threads)


def test_the_last_answer_of_a_tool_loop_is_checked():
    def roll() -> int:
        """Roll a die."""
        return 3

    with running(Scripted(["9", "4"])):
        answer = gen_with_tools(tools=[roll], messages="?", response_format=int, check=at_most_six)
        assert answer.response_obj == 4


def test_attempts_count_in_budgets():
    with (
        running(Scripted(lambda request: "9")),
        appl.budget(calls=2),
        pytest.raises(BudgetExceeded),
    ):
        asked(max_asks=5).result()


def asks_for_sources(text: str) -> None:
    if "source" not in text:
        raise ValueError("name a source")


@ppl
def program() -> str:
    "How many?"
    return gen(response_format=str, check=asks_for_sources)


def test_the_attempts_are_recorded_and_a_replay_asks_nobody(tmp_path: Path):
    path, backend = tmp_path / "a.trace", Scripted(["Two.", "Two, says the source."])
    recorder = Recorder(path, {"profile": profile_data(backend.profile)})
    with Run(backend, instruments=[recorder], gate=recorder.gate):
        said = str(program())
    recorder.close()
    assert [call.address for call in Trace.open(path).calls] == [
        "/program.0/gen.0",
        "/program.0/gen.0/ask.1",
    ]
    with replayed(path):
        assert str(program()) == said == "Two, says the source."


@pytest.mark.parametrize(
    ("check", "words"),
    [("yes", "takes a function of the answer"), (program, "asks no model")],
)
def test_what_cannot_check_is_refused_before_any_call(check: Any, words: str):
    with running(Scripted(["4"])) as seen, pytest.raises(InvalidOption, match=words):
        gen(messages="?", response_format=int, check=check)
    assert not seen.requests


def test_without_a_type_it_is_refused():
    with running(Scripted(["4"])), pytest.raises(InvalidOption, match="response_format=str"):
        gen(messages="?", check=at_most_six)

"""A program as one stream: what it says at once, and answers as they come, in its prompt's order."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import appl
from appl import AIRole, NumberedList, gen, ppl, records, stream
from appl.errors import BackendError, InvalidOption, RunError
from appl.testing import Echo, Held, Instant, Scripted, Streamed, running
from tests.tools.support import again, recorded

ANSWER = Streamed(("a", "b\n", "c"))


@ppl
def story(about: str) -> int:
    f"Tell me of {about}."
    with AIRole():
        f"Sure: {gen()}"
    "Thanks."
    return 5


def test_each_piece_says_who_said_it() -> None:
    with running(Scripted([ANSWER])):
        program = stream(story, "dogs")
        pieces = [(str(each), each.role, each.generated) for each in program]
        assert program.result() == 5
    assert pieces == [
        ("Tell me of ", "user", False),
        ("dogs", "user", False),
        (".", "user", False),
        ("\nSure: ", "assistant", False),
        ("a", "assistant", True),
        ("b\n", "assistant", True),
        ("c", "assistant", True),
        ("\nThanks.", "user", False),
    ]


def test_text_and_pieces_come_before_the_answer_is_complete() -> None:
    with running(backend := Held(lambda _: ANSWER)):
        pieces = iter(stream(story, "dogs"))
        said = [next(pieces) for _ in range(4)]
        assert "".join(said) == "Tell me of dogs.\nSure: "
        for expected in ("a", "b\n", "c"):
            backend.release("/story.0/gen.0")
            assert next(pieces) == expected
        backend.release("/story.0/gen.0")
        assert list(pieces) == ["\nThanks."]


def test_several_readers_each_see_all_of_it() -> None:
    with running(Scripted([ANSWER])):
        program = stream(story, "dogs")
        early = next(iter(program))
        assert "".join(program) == "".join(program) == "Tell me of dogs.\nSure: ab\nc\nThanks."
        assert early == "Tell me of "


def test_in_a_coroutine_it_is_an_async_iterator() -> None:
    async def reads() -> list[tuple[str, bool]]:
        return [(str(each), each.generated) async for each in stream(asynchronous)]

    @ppl
    async def asynchronous() -> None:
        "x"
        (_ := await gen())

    with running(Scripted([ANSWER])):
        assert asyncio.run(reads()) == [("x", False), ("\n", False), ("ab\nc", True)]


def test_an_async_program_without_a_loop_is_refused() -> None:
    @ppl
    async def asynchronous() -> None:
        "x"

    with running(Echo()), pytest.raises(RunError, match=r"async for piece in appl\.stream"):
        stream(asynchronous)


def test_contexts_of_their_own_do_not_appear_and_the_same_one_does() -> None:
    @ppl(ctx="copy")
    def copied() -> str:
        "hidden"
        return str(gen())

    @ppl
    def fresh() -> str:
        "hidden too"
        return "fresh"

    @ppl(ctx="same")
    def shared() -> None:
        f"[{gen()}]"

    @ppl
    def program() -> None:
        "begin"
        shared()
        f"{fresh()} {copied()}"

    with running(Instant("ok")):
        assert "".join(stream(program)) == "begin\n[ok]\nfresh ok"


def test_a_function_that_resumes_remembers_what_was_streamed() -> None:
    @ppl(ctx="resume")
    def chat(question: str) -> None:
        f"{question}"
        with AIRole():
            gen()

    with running(Scripted(["one", "two", "three"])) as seen:
        assert "".join(stream(chat, "a")) == "a\none"
        assert "".join(stream(chat, "b")) == "b\ntwo"
        chat("c")
    assert seen.prompts["/chat.2/gen.0"] == (
        "user: a\nassistant: one\nuser: b\nassistant: two\nuser: c"
    )


def test_answers_are_streamed_inside_a_list_with_its_indent() -> None:
    @ppl
    def program() -> None:
        with NumberedList(indent="  "):
            gen(messages="x")
            "two"

    with running(Scripted([ANSWER])):
        pieces = [(str(each), each.generated) for each in stream(program)]
    assert pieces == [
        ("  1. ", False),
        ("a", True),
        ("b\n  ", True),
        ("c", True),
        ("\n  2. two", False),
    ]


def test_a_failed_answer_is_raised_after_the_text_that_came() -> None:
    seen: list[str] = []
    failing = Scripted([Streamed(("a",), BackendError("gone"))])
    with running(failing), pytest.raises(BackendError, match="gone"):
        seen.extend(stream(story, "dogs"))
    assert seen[-2:] == ["\nSure: ", "a"]


def test_a_failure_that_the_program_handles_does_not_end_the_stream() -> None:
    @ppl
    def program() -> None:
        "a"
        try:
            f"b {gen()}"
        except BackendError:
            "c"
        "d"

    failing = Scripted([Streamed(("x",), BackendError("gone"))])
    with running(failing):
        assert "".join(stream(program)) == "a\nb x\nc\nd"


def test_an_error_of_the_program_is_raised_at_the_end() -> None:
    @ppl
    def program() -> None:
        "before"
        raise KeyError("mine")

    seen: list[str] = []
    with running(Echo()), pytest.raises(KeyError, match="mine"):
        seen.extend(stream(program))
    assert seen == ["before"]


def test_who_leaves_the_loop_early_does_not_end_the_program() -> None:
    with running(Scripted([ANSWER])):
        program = stream(story, "dogs")
        for _ in program:
            break
        assert program.result() == 5


def test_only_prompt_functions_are_streamed() -> None:
    with running(Echo()), pytest.raises(InvalidOption, match="takes a @ppl function"):
        stream(len, "x")


def test_a_recorded_stream_replays_piece_by_piece(tmp_path: Path) -> None:
    def program() -> list[str]:
        return list(stream(story, "dogs"))

    path = tmp_path / "run.trace"
    first = recorded(path, Scripted([ANSWER]), program)
    assert again(path, program) == first


def test_a_run_that_was_not_streamed_replays_as_a_stream(tmp_path: Path) -> None:
    path = tmp_path / "run.trace"
    recorded(path, Scripted([ANSWER]), lambda: appl.call(story, "dogs").result())
    text = again(path, lambda: "".join(stream(story, "dogs")))
    assert text == "Tell me of dogs.\nSure: ab\nc\nThanks."


def test_the_pieces_are_the_records_of_the_function() -> None:
    @ppl
    def program() -> str:
        "a"
        f"b{gen()}"
        return str(records())

    with running(Instant("ok")):
        streamed = stream(program)
        assert "".join(streamed) == streamed.result()

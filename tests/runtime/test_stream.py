"""Streams: who sees what of an answer while it is made, and when."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
import weakref
from pathlib import Path

import pytest

from appl import AIRole, call, gen, ppl
from appl.backend import Chunk, Response, Sample
from appl.errors import BackendError, CallCancelled, DeadlockError, MalformedResponse
from appl.testing import (
    CallEnded,
    ChunkArrived,
    ChunksDelivered,
    Delivered,
    Held,
    Log,
    Run,
    Scripted,
    Seeded,
    Streamed,
    running,
)
from appl.tracing import Recorder, Replayer, Trace, profile_data

ABC = Streamed(("a", "b", "c"))
BROKEN = Streamed(("a", "b"), BackendError("the line broke"))


def letters(*answers: object) -> Scripted:
    """Streams texts letter by letter."""
    return Scripted(answers, pieces=list)


def by_letter(seed: int = 0) -> Seeded:
    """Answers a question ``x`` with ``x`` in capitals, each letter when no program can go on."""
    return Seeded(seed, lambda request: request.messages.message.content.upper(), pieces=list)


def test_the_chunks_are_those_of_the_backend() -> None:
    with running(letters(Streamed(("Hello", " ", "wor", "ld")))):
        g = gen(messages="x", stream=True)
        assert list(g.text_stream) == ["Hello", " ", "wor", "ld"] and g == "Hello world"


def test_every_loop_sees_the_whole_answer_however_late() -> None:
    with running(letters("abc")):
        g = gen(messages="x", stream=True)
        stream = g.text_stream
        assert [*stream] == [*stream] == [*g.text_stream] == ["a", "b", "c"]


def test_two_loops_side_by_side() -> None:
    with running(by_letter()):
        g = gen(messages="abc", stream=True)
        one, two = iter(g.text_stream), iter(g.text_stream)
        assert [next(one), next(one), next(two), next(one)] == ["A", "B", "A", "C"]
        assert list(one) == [] and list(two) == ["B", "C"] and next(one, None) is None


def test_asking_for_the_stream_does_not_wait() -> None:
    @ppl
    def program():
        "x"
        g = gen(stream=True)
        stream = g.text_stream
        return g.done(), stream, g

    backend = Held(lambda _: ABC)
    with running(backend):
        done, stream, g = program()
        assert not done and repr(stream) == "<text stream of /program.0/gen.0>"
        g.cancel()


async def test_asking_for_the_stream_does_not_wait_in_a_coroutine() -> None:
    @ppl
    async def program():
        "x"
        g = gen(stream=True)
        return g.text_stream, g.reasoning_stream, g

    async with Run(Held(lambda _: ABC)):
        *_, g = await program()
        g.cancel()


def test_a_program_that_reads_lets_others_go_on() -> None:
    order: list[str] = []

    @ppl(parallel=True)
    def reader(word: str) -> str:
        f"{word}"
        for chunk in gen(stream=True).text_stream:
            order.append(chunk)
        return "".join(order)

    @ppl
    def both():
        return [reader("abc"), reader("xyz")]

    with running(by_letter(seed=3)):
        results = [str(each) for each in both()]
    assert sorted(order) == sorted("ABCXYZ") and order not in (list("ABCXYZ"), list("XYZABC"))
    assert [c for c in order if c in "ABC"] == list("ABC")
    assert [c for c in order if c in "XYZ"] == list("XYZ")
    assert "".join(order) in results


def test_readers_in_other_fibers_and_threads_see_everything() -> None:
    with running(letters("abcdef")):
        g = gen(messages="x", stream=True)
        stream = g.text_stream
        found: list[str] = []
        thread = threading.Thread(target=lambda: found.append("".join(stream)))
        beside = call(lambda: "".join(stream))
        thread.start()
        thread.join()
        assert found == ["abcdef"] and beside.result() == "abcdef" == "".join(stream)


def test_a_thread_can_read_while_the_thread_that_asked_is_busy_elsewhere() -> None:
    backend = Held(lambda _: ABC)
    got = threading.Semaphore(0)
    seen: list[str] = []

    def read(stream) -> None:
        for chunk in stream:
            seen.append(chunk)
            got.release()

    with running(backend):
        g = gen(messages="x", stream=True)
        thread = threading.Thread(target=read, args=(g.text_stream,))
        thread.start()
        for count in range(1, 4):
            backend.release("/gen.0")
            got.acquire()
            assert seen == list("abc")[:count] and not g._pending.done
        backend.release("/gen.0")
        thread.join()
        assert g == "abc"


async def test_several_tasks_read_and_the_loop_goes_on() -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    async with Run(by_letter()):
        ticking = asyncio.create_task(tick())
        g = gen(messages="abcdefgh", stream=True)

        async def read() -> list[str]:
            return [chunk async for chunk in g.text_stream]

        one, two = await asyncio.gather(read(), read())
        ticking.cancel()
        assert one == two == list("ABCDEFGH") == await read() and await g == "ABCDEFGH"
    assert ticks > 8


def test_in_the_body_of_a_program_as_in_plain_python() -> None:
    @ppl
    def program():
        "x"
        g = gen(stream=True)
        said = [chunk for chunk in g.text_stream]
        for chunk in g.text_stream:
            said.append(chunk.upper())
        return said, "".join(g.text_stream), "".join(map(str.title, g.text_stream))

    with running(letters("ab")):
        assert program() == (["a", "b", "A", "B"], "ab", "AB")


async def test_in_the_body_of_an_async_program() -> None:
    @ppl
    async def program():
        "x"
        g = gen(stream=True)
        said = [chunk async for chunk in g.text_stream]
        async for chunk in g.text_stream:
            said.append(chunk)
        return said

    async with Run(letters("ab")):
        assert await program() == ["a", "b", "a", "b"]


def test_a_captured_answer_is_in_the_prompt_though_nobody_has_read_it() -> None:
    @ppl
    def program():
        "Say something."
        with AIRole():
            (g := gen(stream=True))
        "And now?"
        after = gen()
        return "".join(g.text_stream), str(after)

    with running(letters("ab", "c")) as backend:
        assert program() == ("ab", "c")
        assert backend.prompts["/program.0/gen.1"].splitlines()[1:] == [
            "assistant: ab",
            "user: And now?",
        ]


def test_the_stream_itself_as_a_statement_says_the_answer() -> None:
    @ppl
    def program():
        "x"
        g = gen(stream=True)
        g.text_stream
        return str(gen())

    with running(letters("ab", "c")) as backend:
        program()
        assert backend.prompts["/program.0/gen.1"] == "user: x\nab"


def test_the_stream_in_an_f_string_says_the_answer_too() -> None:
    @ppl
    def program():
        g = gen(messages="x", stream=True)
        f"It said {g.text_stream!r}, thinking: {g.reasoning_stream}{g.reasoning_stream:>5}."
        g.reasoning_stream
        return str(gen())

    thought = Streamed((Chunk(0, "hm", "reasoning"), "42"))
    with running(letters(thought, "c")) as backend:
        program()
        assert backend.prompts["/program.0/gen.1"] == "user: It said '42', thinking: hm   hm.\nhm"


def test_an_error_comes_after_the_text_so_far() -> None:
    with running(Scripted([BROKEN])):
        g = gen(messages="x", stream=True)
        said: list[str] = []
        with pytest.raises(BackendError, match="the line broke") as caught:
            said.extend(g.text_stream)  # what was read before the error is kept
            for chunk in g.text_stream:
                said.append(chunk)
        assert said == ["a", "b"] and "/gen.0" in caught.value.__notes__[0]
        reader = iter(g.text_stream)
        assert [next(reader), next(reader)] == ["a", "b"]
        for _ in range(2):
            with pytest.raises((BackendError, StopIteration)):
                next(reader)


async def test_an_error_comes_after_the_text_so_far_in_a_coroutine() -> None:
    async with Run(Scripted([BROKEN])):
        said: list[str] = []
        with pytest.raises(BackendError):
            async for chunk in gen(messages="x", stream=True).text_stream:
                said.append(chunk)
        assert said == ["a", "b"]


def test_an_error_that_a_reader_saw_is_not_raised_again_by_the_run() -> None:
    with running(Scripted([BROKEN])), pytest.raises(BackendError):
        list(gen(messages="x", stream=True).text_stream)


def test_an_error_that_nobody_saw_is_raised_by_the_run() -> None:
    with pytest.raises(BackendError), running(Scripted([BROKEN])):
        next(iter(gen(messages="x", stream=True).text_stream))


def test_cancelling_ends_the_stream_and_aborts_the_call() -> None:
    backend = by_letter()
    with running(backend):
        g = gen(messages="abc", stream=True)
        said: list[str] = []
        with pytest.raises(CallCancelled):
            for chunk in g.text_stream:
                said.append(chunk)
                if chunk == "B":
                    g.cancel()
        assert said == ["A", "B"] and backend.aborted == ["/gen.0"]


def test_leaving_a_loop_early_does_not_end_the_call() -> None:
    with running(by_letter()):
        g = gen(messages="abc", stream=True)
        said = []
        for chunk in g.text_stream:
            said.append(chunk)
            break
        assert said == ["A"] and g == "ABC"


def test_without_stream_the_answer_is_one_piece() -> None:
    with running(letters("abc", "")):
        assert list(gen(messages="x").text_stream) == ["abc"]
        assert list(gen(messages="x").text_stream) == []


def test_a_backend_that_cannot_stream_gives_one_piece() -> None:
    with running(Scripted(["abc"], features=())):
        assert list(gen(messages="x", stream=True).text_stream) == ["abc"]


def test_what_a_backend_left_out_of_its_stream_is_the_last_piece() -> None:
    backend = Scripted([Streamed(("a", "b"), Response((Sample("abcd", "stop"),)))])
    with running(backend):
        assert list(gen(messages="x", stream=True).text_stream) == ["a", "b", "cd"]


@pytest.mark.parametrize(
    ("pieces", "text"), [(("a", "x"), "abc"), (("abc", "d"), "abc"), ((Chunk(1, "a"),), "abc")]
)
def test_chunks_that_do_not_add_up_to_the_answer_are_an_error(pieces, text) -> None:
    backend = Scripted([Streamed(pieces, Response((Sample(text, "stop"),)))])
    with running(backend), pytest.raises(MalformedResponse, match="streamed"):
        str(gen(messages="x", stream=True))


def test_the_stream_is_of_the_first_sample() -> None:
    pieces = (Chunk(0, "a"), Chunk(1, "x"), Chunk(0, "b"), Chunk(1, "y"))
    both = Response((Sample("ab", "stop"), Sample("xy", "stop")))
    with running(Scripted([Streamed(pieces, both)])):
        g = gen(messages="q", n=2, stream=True)
        assert list(g.text_stream) == ["a", "b"] and list(g.samples) == ["ab", "xy"]


def test_reasoning_has_a_stream_of_its_own_and_is_not_in_the_prompt() -> None:
    thought = Streamed((Chunk(0, "Let me ", "reasoning"), Chunk(0, "see.", "reasoning"), "4", "2"))

    @ppl
    def program():
        "What is it?"
        with AIRole():
            (g := gen(stream=True))
        "Sure?"
        return list(g.reasoning_stream), list(g.text_stream), g.reasoning, str(gen())

    with running(letters(thought, "yes")) as backend:
        assert program() == (["Let me ", "see."], ["4", "2"], "Let me see.", "yes")
        assert "Let me" not in backend.prompts["/program.0/gen.1"]


def test_reasoning_without_stream_is_one_piece_or_none() -> None:
    thought = Response((Sample("42", "stop", reasoning="hm"),))
    with running(Scripted([thought, "a"])):
        assert list(gen(messages="x").reasoning_stream) == ["hm"]
        assert list(gen(messages="x").reasoning_stream) == []


def test_the_stream_of_what_a_function_returned() -> None:
    @ppl
    def answer():
        "x"
        return gen(stream=True)

    @ppl
    def stream():
        return answer().text_stream

    with running(letters("ab", "cd", "ef", "gh")):
        assert list(call(answer).text_stream) == ["a", "b"]
        assert list(call(stream).text_stream) == ["c", "d"]
        assert list(stream()) == ["e", "f"]
        assert list(call(lambda: 7).text_stream) == [7]


def test_what_a_function_receives_for_an_answer_streams_it_as_one_piece() -> None:
    async def pieces(text) -> list[str]:
        return [piece async for piece in text.text_stream]

    with running(letters(Streamed((Chunk(0, "hm", "reasoning"), "a", "b")))):
        text = gen(messages="x", stream=True).result()
        assert list(text.text_stream) == ["ab"] == asyncio.run(pieces(text))
        assert list(text.reasoning_stream) == ["hm"]


def test_sequential_and_scheduled_runs_read_the_same() -> None:
    @ppl
    def program():
        "x"
        g = gen(stream=True)
        h = gen(stream=True)
        return "".join(h.text_stream), "".join(g.text_stream)

    seen = []
    for sequential in (False, True):
        with running(letters("ab", "cd"), sequential=sequential):
            seen.append(program())
    assert seen == [("cd", "ab")] * 2


def test_a_stream_that_waits_for_its_own_reader_is_a_deadlock() -> None:
    box = []

    @ppl(parallel=True)
    def reader(gate):
        str(gate)
        return "".join(box[0].text_stream)

    @ppl
    def program():
        "start"
        f"{reader(gen())}"
        box.append(gen(stream=True))
        return str(box[0])

    with pytest.raises(DeadlockError, match="stream of"), running(letters("go", "x")):
        program()


def test_nothing_is_left_of_a_stream_that_nobody_reads() -> None:
    with running(letters(*["abc"] * 3)) as backend:
        streams = []
        for _ in range(3):
            g = gen(messages="x", stream=True)
            streams.append(weakref.ref(g._pending.stream))
            str(g)
            del g
        backend.requests.clear()
    gc.collect()
    assert [each() for each in streams] == [None] * 3


def test_chunks_are_events_when_they_come_and_when_they_are_delivered() -> None:
    log = Log()
    with running(by_letter(), instruments=[log]):
        assert "".join(gen(messages="abc", stream=True).text_stream) == "ABC"
    assert [event.chunk.text for event in log.of(ChunkArrived)] == list("ABC")
    assert [event.count for event in log.of(ChunksDelivered)] == [1, 2, 3]
    (ended,) = log.of(CallEnded)
    assert [chunk.text for chunk in ended.chunks] == list("ABC")
    assert isinstance(log.events[-2], Delivered)


@ppl(parallel=True)
def worker(dice: random.Random, depth: int) -> list[object]:
    """A random program: asks, says, reads streams in part and as a whole, late and at once."""
    f"depth {depth}"
    asked: list = []
    seen: list[object] = []
    for _ in range(dice.randint(2, 6)):
        step = dice.randrange(7)
        if step == 0 or not asked:
            asked.append(gen(stream=dice.random() < 0.8, max_tokens=dice.randint(1, 9)))
        elif step == 1:
            f"{asked[dice.randrange(len(asked))]}"
        elif step == 2:
            seen.append("".join(asked[dice.randrange(len(asked))].text_stream))
        elif step == 3:
            seen.append("".join(asked[-1].text_stream)[: dice.randint(0, 3)])
        elif step == 4:
            for chunk in asked[dice.randrange(len(asked))].text_stream:
                f"{chunk}"
        elif step == 5 and depth < 2:
            seen.append(worker(random.Random(dice.random()), depth + 1))
        else:
            asked[dice.randrange(len(asked))].text_stream
    return seen


def settled(value: object) -> object:
    value = value.result() if hasattr(value, "result") else value
    return [settled(each) for each in value] if isinstance(value, list) else value


def program_of(seed: int) -> object:
    return settled([worker(random.Random(seed * 10 + i), 0) for i in range(3)])


def answer(request) -> str:
    return request.digest.hex()[: request.sampling.max_tokens]


def by_two(said: str) -> list[str]:
    return [said[at : at + 2] for at in range(0, len(said), 2)]


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_ask_and_read_the_same_under_every_schedule(
    tmp_path: Path, seed: int
) -> None:
    found = []
    with running(Scripted(answer, pieces=by_two), sequential=True) as backend:
        found.append((program_of(seed), backend.prompts))
    for schedule in (1, 2):
        path = tmp_path / f"{schedule}.trace"
        backend = Seeded(schedule, answer, pieces=by_two)
        values = recorded(path, lambda: program_of(seed), backend)
        found.append((values, backend.prompts))
        assert again(path, lambda: program_of(seed)) == values
    assert found[0] == found[1] == found[2]


# -- recorded and replayed


def recorded(path: Path, program, backend):
    recorder = Recorder(path, {"program": "p", "profile": profile_data(backend.profile)})
    try:
        with Run(backend, instruments=[recorder], gate=recorder.gate):
            return program()
    finally:
        recorder.close()


def again(path: Path, program):
    replayer = Replayer(path)
    with Run(replayer.backend, instruments=[replayer], world=replayer):
        values = program()
    replayer.finish()
    return values


def test_a_replayed_stream_yields_the_recorded_chunks(tmp_path: Path) -> None:
    path = tmp_path / "x.trace"

    def program():
        g = gen(messages="x", stream=True)
        return list(g.text_stream), list(g.reasoning_stream)

    said = (Chunk(0, "hm", "reasoning"), "He", "llo", " ", "wörld 🎉")
    first = recorded(path, program, letters(Streamed(said)))
    assert again(path, program) == first == (["He", "llo", " ", "wörld 🎉"], ["hm"])
    (one,) = Trace.open(path).calls
    assert [chunk.text for chunk in one.chunks()] == ["hm", "He", "llo", " ", "wörld 🎉"]
    assert one.as_data()["chunks"] == [2, 2, 3, 1, 7]


def test_a_replayed_stream_breaks_where_it_broke(tmp_path: Path) -> None:
    def program():
        said: list[str] = []
        with pytest.raises(BackendError, match="the line broke"):
            for chunk in gen(messages="x", stream=True).text_stream:
                said.append(chunk)
        return said

    path = tmp_path / "x.trace"
    assert recorded(path, program, Scripted([BROKEN])) == again(path, program) == ["a", "b"]


def test_a_replayed_stream_is_cancelled_where_it_was(tmp_path: Path) -> None:
    def program():
        said: list[str] = []
        g = gen(messages="abc", stream=True)
        with pytest.raises(CallCancelled):
            for chunk in g.text_stream:
                said.append(chunk)
                if chunk == "B":
                    g.cancel()
        return said

    path = tmp_path / "x.trace"
    assert recorded(path, program, by_letter()) == again(path, program) == ["A", "B"]


def test_streaming_is_no_part_of_what_is_asked(tmp_path: Path) -> None:
    def program(stream: bool):
        return list(gen(messages="x", stream=stream).text_stream)

    for first in (False, True):
        path = tmp_path / f"{first}.trace"
        recorded(path, lambda first=first: program(first), letters("abc"))
        assert again(path, lambda first=first: program(not first)) == ["abc"]


@pytest.mark.parametrize("seed", range(12))
def test_the_order_in_which_programs_see_chunks_is_replayed(tmp_path: Path, seed: int) -> None:
    """Readers that race: what is seen first decides what is asked next."""
    dice = random.Random(seed)
    words = ["".join(dice.choices("abcdefgh", k=dice.randint(1, 6))) for _ in range(4)]
    order: list[str] = []

    @ppl(parallel=True)
    def reader(word: str):
        f"{word}"
        for chunk in gen(stream=True).text_stream:
            order.append(chunk)
            if chunk in "CF":
                f"{order[-2:]}"
                order.append(str(gen()))
        return len(order)

    @ppl
    def program():
        return [reader(word) for word in words]

    def whole():
        order.clear()
        ends = [each.result() for each in program()]
        return ends, "".join(order)

    path = tmp_path / "x.trace"
    first = recorded(path, whole, by_letter(seed))
    assert again(path, whole) == first
    assert again(path, whole) == first


async def test_async_readers_are_replayed(tmp_path: Path) -> None:
    order: list[str] = []

    async def reader(word: str) -> None:
        async for chunk in gen(messages=word, stream=True).text_stream:
            order.append(chunk)

    async def program() -> str:
        order.clear()
        await asyncio.gather(*[reader(word) for word in ("abc", "defg", "hi")])
        return "".join(order)

    path = tmp_path / "x.trace"
    backend = by_letter(5)
    recorder = Recorder(path, {"profile": profile_data(backend.profile)})
    async with Run(backend, instruments=[recorder], gate=recorder.gate):
        first = await program()
    recorder.close()
    replayer = Replayer(path)
    async with Run(replayer.backend, instruments=[replayer], world=replayer):
        assert await program() == first
    replayer.finish()


def test_a_stream_that_only_another_thread_read_is_replayed(tmp_path: Path) -> None:
    def program():
        found: list[list[str]] = []
        stream = gen(messages="x", stream=True).text_stream
        thread = threading.Thread(target=lambda: found.append(list(stream)))
        thread.start()
        thread.join()
        return found

    path = tmp_path / "x.trace"
    assert recorded(path, program, letters("abc")) == again(path, program) == [["a", "b", "c"]]

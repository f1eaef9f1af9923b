"""Timers of asyncio around what is no call: that they struck is a moment of the record."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import appl
from appl import gen, ppl
from appl.backend import Emit, Request, Response
from appl.session import predicted, replayed, rerun
from appl.testing import Fake

ANSWER_S, LIMIT_S = 0.1, 0.03


class Slow(Fake):
    """Answers late enough for every limit to strike before."""

    asked = 0

    def __init__(self) -> None:
        super().__init__(lambda request: request.digest.hex()[:6], name="slow")

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        await asyncio.sleep(ANSWER_S)
        Slow.asked += 1
        return self.end(request, self._answer(request))


@ppl
def ask(text: str) -> Any:
    f"{text}"
    return gen(max_tokens=4)


async def _then(put: Callable[[str], object], text: str) -> str:
    said = str(await ask(text))
    put(said)
    return said


async def over_a_queue() -> Any:
    queue: asyncio.Queue[str] = asyncio.Queue()
    task, late = asyncio.create_task(_then(queue.put_nowait, "p")), 0
    while True:
        try:
            said = await asyncio.wait_for(queue.get(), LIMIT_S)
            return [late > 0, said, await task, str(await ask(f"waited {late}"))]
        except TimeoutError:
            late += 1


async def over_an_event() -> Any:
    event = asyncio.Event()
    task = asyncio.create_task(_then(lambda _: event.set(), "e"))
    return [await _late(asyncio.wait_for(event.wait(), LIMIT_S)), await task]


async def over_a_shield() -> Any:
    task = asyncio.create_task(_then(str, "s"))
    return [await _late(asyncio.wait_for(asyncio.shield(task), LIMIT_S)), await task]


async def in_a_block() -> Any:
    task = asyncio.create_task(_then(str, "b"))
    try:
        async with asyncio.timeout(LIMIT_S):
            await asyncio.shield(task)
            late = "in time"
    except TimeoutError:
        late = "late"
    return [late, await task]


async def in_a_progress_loop() -> Any:
    task, rounds = asyncio.create_task(_then(str, "w")), 0
    while not (await asyncio.wait({task}, timeout=LIMIT_S))[0]:
        rounds += 1
    return [rounds > 0, rounds, await task]


async def beside_a_ticker() -> Any:
    ticks: list[int] = []

    async def tick() -> None:
        while True:
            await asyncio.sleep(LIMIT_S)
            ticks.append(1)

    task = asyncio.create_task(tick())
    await ask("k")
    seen = len(ticks)
    task.cancel()
    return [seen > 0, seen]


async def called_later() -> Any:
    hits: list[str] = []
    loop = asyncio.get_running_loop()
    loop.call_later(LIMIT_S, hits.append, "early")
    loop.call_later(60, hits.append, "never")
    await ask("l")
    return hits


async def _late(wait: Awaitable[object]) -> str:
    try:
        await wait
    except TimeoutError:
        return "late"
    return "in time"


FORMS = (
    over_a_queue, over_an_event, over_a_shield, in_a_block, in_a_progress_loop, beside_a_ticker,
    called_later,
)  # fmt: skip


async def around_the_first_call() -> Any:
    try:
        async with asyncio.timeout(LIMIT_S):
            await ask("first")
            late = "in time"
    except TimeoutError:
        late = "late"
    return [late, str(await ask(f"it was {late}"))]


async def around_what_the_first_call_brings() -> Any:
    event = asyncio.Event()
    waits = asyncio.ensure_future(_late(asyncio.wait_for(event.wait(), LIMIT_S)))
    await asyncio.sleep(0)
    await _then(lambda _: event.set(), "f")
    return await waits


async def in_time() -> Any:
    async with asyncio.timeout(60):
        return str(await ask("in time"))


EARLY = (around_the_first_call, around_what_the_first_call_brings, in_time)


@pytest.mark.parametrize("form", EARLY, ids=lambda form: form.__name__)
def test_a_timer_that_was_set_before_the_first_call_strikes_again(
    form: Callable[[], Any], tmp_path: Path
) -> None:
    check_repeated(form, tmp_path)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_a_timer_that_struck_strikes_again_and_one_that_did_not_does_not(
    form: Callable[[], Any], tmp_path: Path
) -> None:
    async def main() -> Any:
        await ask("begin")  # from the first call on the loop's timers have addresses
        return await form()

    check_repeated(main, tmp_path)


def check_repeated(main: Callable[[], Any], tmp_path: Path) -> None:
    """A replay, a prediction and a rerun of *main* give its value, and ask nobody."""
    path = tmp_path / "timed.trace"
    with appl.record(path, backend=f"{__name__}:Slow", home=tmp_path):
        value = asyncio.run(main())
    asked = Slow.asked
    with replayed(path):
        assert asyncio.run(main()) == value
    assert predicted(path, lambda: asyncio.run(main()), home=tmp_path).fewest == []
    with rerun(path, say=lambda line: None, home=tmp_path):
        assert asyncio.run(main()) == value
    assert Slow.asked == asked


def test_a_prediction_of_a_ticker_that_was_not_recorded_ends(tmp_path: Path) -> None:
    path = tmp_path / "timed.trace"
    with appl.record(path, backend=f"{__name__}:Slow", home=tmp_path):
        ask("k").result()
    found = predicted(path, beside_a_ticker, home=tmp_path)  # in a task, so at another address
    assert found.stopped == ""

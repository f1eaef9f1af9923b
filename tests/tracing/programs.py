"""Random programs whose values depend on who finishes first: what an exact replay must get right.

A program is a tree of plain data drawn from a seed; two interpreters run it, one of synchronous
fibers, one of asyncio tasks. Both write what they see into a shared list, in the order of happening.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import appl
from appl import NumberedList, as_tool, call, gen, gen_with_tools, ppl, select
from appl.errors import ApplError

Tree = dict[str, Any]


def tree(seed: int, asynchronous: bool = False) -> Tree:
    """A program."""
    dice = random.Random(seed)
    return _node(dice, 3 if not asynchronous else 2, ASYNC if asynchronous else SYNC)


SYNC = ["ask", "ask", "chain", "parallel", "parallel", "thread", "poll", "cancel", "expire", "deadline",
        "sleep", "dice", "try", "choose", "many", "stream", "typed", "relay", "tools", "loop"]  # fmt: skip
ASYNC = [
    "ask",
    "chain",
    "gather",
    "first",
    "first",
    "completed",
    "cancel",
    "sleep",
    "race",
    "group",
    "dice",
    "stream",
    "tools",
]
_HEAVY = {"parallel", "thread", "gather", "first", "completed", "cancel", "race", "group"}


def _node(dice: random.Random, depth: int, kinds: list[str]) -> Tree:
    steps = []
    for number in range(dice.randint(1, 4 if depth else 2)):
        kind = dice.choice(kinds if depth else [k for k in kinds if k not in _HEAVY])
        step = {
            "kind": kind,
            "text": f"{kind} {number} {dice.randrange(1000)}",
            "n": dice.randint(2, 4),
        }
        if kind in _HEAVY:
            step["below"] = [_node(dice, depth - 1, kinds) for _ in range(step["n"])]
        steps.append(step)
    return {"steps": steps}


# -- fibers


@ppl(parallel=True)
def branch(node: Tree, log: list[str]) -> list[str]:
    "A branch."
    f"seen so far: {len(log)}"
    return [_STEPS[step["kind"]](step, log) for step in node["steps"]]


def _ask(step: Tree, log: list[str]) -> str:
    said = str(_gen(step["text"], log))
    log.append(said)
    return said


@ppl
def _gen(text: str, log: list[str]):  # type: ignore[no-untyped-def]
    f"{text} after {log[-1:]}"
    return gen()


@ppl
def _chain(step: Tree, log: list[str]) -> str:
    f"{step['text']}"
    for _ in range(step["n"]):
        f"next: {gen()}"
    last = str(gen())
    log.append(last)
    return last


def _parallel(step: Tree, log: list[str]) -> list[Any]:
    return [list(x) for x in [branch(below, log) for below in step["below"]]]


def _thread(step: Tree, log: list[str]) -> list[Any]:
    return [list(f.result()) for f in [call(branch, below, log) for below in step["below"]]]


def _poll(step: Tree, log: list[str]) -> list[Any]:
    asked = [_gen(f"{step['text']} {i}", log) for i in range(step["n"])]
    seen: list[Any] = []
    while len(seen) < 50 and not any(done := [g.done() for g in asked]):
        seen.append(0)
        appl.sleep(0.0005)
    log.append(f"{len(seen)} {done}")
    return [done, [str(g) for g in asked]]


def _cancel(step: Tree, log: list[str]) -> str:
    asked = [_gen(f"{step['text']} {i}", log) for i in range(step["n"])]
    first = str(asked[0])
    for g in asked[1:]:
        g.cancel()
    got = []
    for g in asked[1:]:
        try:
            got.append(str(g))
        except ApplError as error:
            got.append(type(error).__name__)
    log.append(f"{first} {got}")
    return first


def _expire(step: Tree, log: list[str]) -> str:
    asked = _gen(step["text"], log)
    try:
        said = str(asked.result(timeout=0.001))
    except TimeoutError:
        log.append("late")
        said = "late, then " + str(asked)
    log.append(said)
    return said


def _deadline(step: Tree, log: list[str]) -> str:
    try:
        with appl.timeout(0.001):
            said = _chain(step, log)
    except TimeoutError:
        said = "out of time"
    log.append(said)
    return said


def _sleep(step: Tree, log: list[str]) -> str:
    asked = _gen(step["text"], log)
    appl.sleep(0.001)
    log.append("woke")
    return str(asked)


def _dice(step: Tree, log: list[str]) -> list[Any]:
    seen = [appl.random(), str(appl.uuid()), str(appl.now()), appl.env("PYTHONHASHSEED")]
    log.append(str(seen[0]))
    return seen


def _try(step: Tree, log: list[str]) -> str:
    try:
        return str(_gen(f"{step['text']} FAIL", log))
    except ApplError as error:
        log.append(str(error))
        return f"{type(error).__name__}: {error}"


@ppl
def _choose(step: Tree, log: list[str]) -> str:
    f"{step['text']}"
    return str(select(["yes", "no", "maybe"]))


@ppl
def _many(step: Tree, log: list[str]) -> list[str]:
    f"{step['text']}"
    return [s if isinstance(s, str) else str(s) for s in gen(n=step["n"]).samples]


@ppl(parallel=True)
def _reader(answer: Any, log: list[str]) -> str:
    said = []
    for piece in answer.text_stream:
        said.append(piece)
        log.append(piece)
    return "".join(said)


@ppl
def _stream(step: Tree, log: list[str]) -> list[str]:
    """Readers of several streams: who reads when depends on what comes when."""
    f"{step['text']}"
    answers = [gen(stream=True, temperature=float(i)) for i in range(step["n"])]
    return [str(reader) for reader in [_reader(answer, log) for answer in answers]]


@ppl
def _typed(step: Tree, log: list[str]) -> str:
    """Asked again when it is no number, and perhaps never one."""
    with NumberedList():
        f"{step['text']}"
        f"{gen()}"
    try:
        said = str(gen(response_format=int) + 1)
    except ApplError as error:
        said = type(error).__name__
    log.append(said)
    return said


@ppl
def _relay(step: Tree, log: list[str]) -> str:
    f"{step['text']}"
    said = gen(max_tokens=9, max_relay_rounds=2)
    f"{said}"
    log.append(f"{said} {gen()}")
    return said.finish_reason


def _look(q: str) -> str:
    """What it says depends on when it is run: a replay does not run it."""
    return f"{q} {random.random()}"


@ppl
def _think(q: str, log: list[str]) -> str:
    f"{q}"
    said = str(gen())
    log.append(said)
    return said


@ppl
def _tools(step: Tree, log: list[str]) -> list[str]:
    f"{step['text']}"
    answer = gen(tools=[_look, as_tool(_think, log=log)])
    answer
    results = answer.run_tool_calls()
    results
    log.append(f"{len(results)} then {gen()}")
    return [result.content for result in results]


@ppl
def _loop(step: Tree, log: list[str]) -> str:
    f"{step['text']}"
    tools = [_look, as_tool(_think, log=log)]
    (said := gen_with_tools(tools=tools, max_steps=2, on_limit="answer"))
    log.append(f"{said} then {gen()}")
    return str(said)


_STEPS = {
    "ask": _ask, "chain": _chain, "parallel": _parallel, "thread": _thread, "poll": _poll,
    "cancel": _cancel, "expire": _expire, "deadline": _deadline, "sleep": _sleep, "dice": _dice,
    "try": _try, "choose": _choose, "many": _many, "stream": _stream, "typed": _typed,
    "relay": _relay, "tools": _tools, "loop": _loop,
}  # fmt: skip


def run_sync(program: Tree) -> Any:
    """The values of a program of fibers, and what it wrote down on the way."""
    log: list[str] = []
    return [list(branch(program, log)), log]


# -- asyncio


@ppl
async def abranch(node: Tree, log: list[str]) -> list[Any]:
    f"seen so far: {len(log)}"
    return [await _ASTEPS[step["kind"]](step, log) for step in node["steps"]]


@ppl
async def _aask(step: Tree, log: list[str]) -> str:
    f"{step['text']} after {log[-1:]}"
    said = str(await gen())
    log.append(said)
    return said


@ppl
async def _achain(step: Tree, log: list[str]) -> str:
    f"{step['text']}"
    for _ in range(step["n"]):
        f"next: {gen()}"
    return str(await gen())


async def _gather(step: Tree, log: list[str]) -> list[Any]:
    return list(await asyncio.gather(*(abranch(below, log) for below in step["below"])))


async def _group(step: Tree, log: list[str]) -> list[Any]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(abranch(below, log)) for below in step["below"]]
    return [task.result() for task in tasks]


async def _ended(tasks: list[asyncio.Task[Any]]) -> list[Any]:
    """Cancel what still runs of *tasks*, and take note of how each ended, so that nobody else has to."""
    for task in tasks:
        task.cancel()
    return await asyncio.gather(*tasks, return_exceptions=True)


async def _first(step: Tree, log: list[str]) -> list[Any]:
    """Take the first two finishers, cancel the rest."""
    waiting = [asyncio.ensure_future(abranch(below, log)) for below in step["below"]]
    taken: list[Any] = []
    rest = set(waiting)
    try:
        while rest and len(taken) < 2:
            done, rest = await asyncio.wait(rest, return_when=asyncio.FIRST_COMPLETED)
            found = [task.result() for task in waiting if task in done]
            taken += found
            log.append(f"{len(found)} at once: {found}")
    finally:
        await _ended(waiting)
    return taken


async def _completed(step: Tree, log: list[str]) -> list[Any]:
    """Tasks, not coroutines: ``as_completed`` starts coroutines in the order of a set."""
    found = []
    tasks = [asyncio.ensure_future(abranch(below, log)) for below in step["below"]]
    try:
        for each in asyncio.as_completed(tasks):
            found.append(await each)
            log.append(f"completed {len(found)}")
    finally:
        await _ended(tasks)
    return found


async def _acancel(step: Tree, log: list[str]) -> Any:
    tasks = [asyncio.ensure_future(abranch(below, log)) for below in step["below"]]
    try:
        first = await tasks[0]
    finally:
        rest = await _ended(tasks[1:])
    log.append(str([type(r).__name__ for r in rest]))
    return first


async def _race(step: Tree, log: list[str]) -> str:
    """An answer against a declared sleep."""

    async def nap() -> str:
        await appl.sleep(0.002)
        return "slept"

    tasks = [asyncio.ensure_future(abranch(step["below"][0], log)), asyncio.ensure_future(nap())]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _ended(tasks)
    won = str([str(task.result()) for task in tasks if task in done])
    log.append(won)
    return won


async def _asleep(step: Tree, log: list[str]) -> str:
    await appl.sleep(0.001)
    log.append("woke")
    return "woke"


async def _adice(step: Tree, log: list[str]) -> list[Any]:
    return _dice(step, log)


@ppl
async def _areader(answer: Any, log: list[str]) -> str:
    said = []
    async for piece in answer.text_stream:
        said.append(piece)
        log.append(piece)
    return "".join(said)


@ppl
async def _astream(step: Tree, log: list[str]) -> list[str]:
    f"{step['text']}"
    answers = [gen(stream=True, temperature=float(i)) for i in range(step["n"])]
    tasks = [asyncio.ensure_future(_areader(answer, log)) for answer in answers]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@ppl
async def _atools(step: Tree, log: list[str]) -> list[str]:
    f"{step['text']}"
    answer = gen(tools=[_look])
    answer
    results = await answer.run_tool_calls()
    results
    log.append(str(await gen()))
    return [result.content for result in results]


_ASTEPS = {
    "ask": _aask, "chain": _achain, "gather": _gather, "first": _first, "completed": _completed,
    "cancel": _acancel, "sleep": _asleep, "race": _race, "group": _group, "dice": _adice,
    "stream": _astream, "tools": _atools,
}  # fmt: skip


def run_async(program: Tree) -> Any:
    """The values of a program of tasks, and what it wrote down on the way."""
    log: list[str] = []

    async def main() -> Any:
        return [await abranch(program, log), log]

    return asyncio.run(main())

"""The blocks of which random programs are put together: each feature in several forms.

In a block ``{k}`` is a word in quotes, ``{w}`` a list of two to four words, ``{t}`` a limit that
strikes, ``{r}`` a call that may fail and ``{c}`` the same for a coroutine.
A block works by itself, wherever in a program it stands, and notes in ``LOG`` what happened when.
"""

from __future__ import annotations

from typing import NamedTuple

DEFINITIONS = """
import asyncio
import queue
import threading
from concurrent import futures
from concurrent.futures import ThreadPoolExecutor
from appl.errors import BackendError

LOG, COUNT, LEFT = [], {"n": 0}, []

class Board:
    def __init__(self, title):
        self.title, self.notes = title, {}
        self.lock = Lock()
    @ppl
    def add(self, q) -> str:
        say(f"note {self.title} {q}")
        self.notes[q] = str(gen())
        return self.notes[q]
    @ppl(ctx="resume")
    def chat(self, q) -> str:
        say(f"on {self.title}: {q}")
        x = gen()
        say(x)
        return x
    @ppl
    async def add_soon(self, q):
        say(f"note {self.title} {q}")
        self.notes[q] = str(await gen())

@ppl
def told(q) -> str:
    say(f"tell {q}")
    return gen()

@ppl
def risk(q) -> str:
    say(f"risky {q}")
    return gen()

@ppl
def doom(q) -> str:
    say(f"doomed {q}")
    return gen()

@ppl
def hush(q) -> str:
    say(f"silent {q}")
    return gen()

@ppl
def quiet(q):
    say(f"silent {q}")
    return gen()

@ppl
def stuck(q):
    say(f"silent {q}")
    x = str(gen())
    LOG.append("never")
    return x

@ppl
def agent(q) -> str:
    say(f"first {q}")
    x = gen()
    say(f"then {x}")
    return str(gen())

@ppl(parallel=True)
def beside(q) -> str:
    say(f"silent {q}")
    return str(gen())

@ppl
def patient(q) -> str:
    say("I wait")
    try:
        LOG.append(f"wait {q}")
        return hush(q)
    except BackendError:
        LOG.append("never")
    finally:
        LOG.append(f"left {q}")

@ppl
async def told_soon(q):
    say(f"tell {q}")
    return str(await gen())

@ppl
async def risk_soon(q):
    say(f"risky {q}")
    return str(await gen())

@ppl
async def doom_soon(q):
    say(f"doomed {q}")
    return str(await gen())

@ppl
async def hush_soon(q):
    say(f"silent {q}")
    return str(await gen())

@ppl
async def agent_soon(q):
    say(f"first {q}")
    x = await gen()
    say(f"then {x}")
    return str(await gen())

@ppl
async def patient_soon(q):
    say("I wait")
    try:
        LOG.append(f"wait {q}")
        return await hush_soon(q)
    except BackendError:
        LOG.append("never")
    finally:
        LOG.append(f"left {q}")

async def helper_soon(q):
    x = await told_soon(q)
    return await told_soon(f"again {q} {x}")

async def careful_soon(q):
    try:
        return await risk_soon(q)
    except BackendError as e:
        return f"no {e}"

def careful(q):
    try:
        return risk(q)
    except BackendError as e:
        return f"no {e}"

@ppl
def counted(q, lock) -> str:
    say("I count")
    with lock:
        n = COUNT["n"]
        x = str(told(q))
        COUNT["n"] = n + len(x)
    return x

def plainly_counted(q, lock):
    with lock:
        n = COUNT["n"]
        x = str(told(q))
        COUNT["n"] = n + len(x)
    return x

async def counted_soon(q, lock):
    async with lock:
        n = COUNT["n"]
        x = await told_soon(q)
        COUNT["n"] = n + len(x)
    return x

@ppl
def walk(q):
    try:
        for i in range(3):
            say(f"stop {i} {q}")
            yield gen()
            LOG.append(f"past {i}")
    finally:
        LOG.append("end of the walk")

@ppl
def echoed(q):
    heard = "nothing"
    while True:
        say(f"heard {heard}")
        heard = yield str(gen())
        if heard is None:
            return

@ppl
def both_walks(q):
    yield from walk(f"one {q}")
    LOG.append("half")
    yield from walk(f"two {q}")

@ppl
async def walk_soon(q):
    try:
        for i in range(3):
            say(f"stop {i} {q}")
            yield str(await gen())
            LOG.append(f"past {i}")
    finally:
        LOG.append("end of the walk")

def shout(q: str) -> str:
    return q.upper()

def broken(q: str) -> str:
    raise ValueError(f"no {q}")

@ppl
def thinking(q: str) -> str:
    say(f"risky {q}")
    return gen()

@ppl
def tooled(q) -> list:
    say(f"{q} with tools")
    answer = gen(tools=[shout, broken, thinking])
    say(answer)
    results = answer.run_tool_calls()
    say(results)
    found = [r.content for r in results]
    return [*found, str(gen())]

@ppl
async def tooled_soon(q):
    say(f"{q} with tools")
    answer = await gen(tools=[shout, broken])
    say(answer)
    results = await answer.run_tool_calls()
    say(results)
    return [*[r.content for r in results], str(await gen())]

def in_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

def in_loop(work):
    async def looping():
        work()
        await asyncio.sleep(0)
    asyncio.run(looping())

def pool_of(words):
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(told, words))

def producer(words, into):
    for w in words:
        into.put(told(w))
    into.put(None)

async def producer_soon(words, into):
    for w in words:
        await into.put(await told_soon(w))
    await into.put(None)

async def worker_soon(work, results):
    while (w := await work.get()) is not None:
        results.append(await told_soon(w))
    await work.put(None)

async def leaving(q):
    LEFT.append(asyncio.create_task(hush_soon(q)))
    LEFT.append(asyncio.create_task(patient_soon(q)))
    await asyncio.sleep(0)
    return await told_soon(q)
"""


class Form(NamedTuple):
    """Lines of a block, and the kinds of functions in which it may stand.

    ``s`` is a synchronous prompt function, ``a`` an asynchronous one, ``p`` a plain function and
    ``c`` a plain coroutine function.
    """

    feature: str
    where: str
    lines: str


def _forms(feature: str, where: str, *blocks: str) -> list[Form]:
    return [Form(feature, where, block.strip("\n")) for block in blocks]


LATE = "except TimeoutError:\n    LOG.append('late')"

FORMS = [
    *_forms(
        "limits", "sp",
        f"try:\n    with timeout({{t}}):\n        LOG.append('in time')\n        table[{{k}}] = hush({{k}})\n        LOG.append('never')\n{LATE}",
        f"try:\n    with timeout({{t}}):\n        COUNT['n'] += 1\n        xs = [told({{k}}), hush({{k}}), told({{k}})]\n        LOG.append([str(x) for x in xs])\n{LATE}",
        f"try:\n    with timeout({{t}}):\n        out.append(str(patient({{k}})))\n        LOG.append('never')\n{LATE}",
        f"try:\n    x = limited(quiet, {{k}})\n    LOG.append('never')\n{LATE}\nLOG.append(str(told({{k}})))",
        "try:\n    with timeout(60):\n        LOG.append('slow')\n        out.append(str({r}))\n        COUNT['n'] += 1\nexcept (BackendError, TimeoutError) as e:\n    LOG.append(str(e))",
        f"with timeout(60):\n    try:\n        with timeout({{t}}):\n            x = str(hush({{k}}))\n            LOG.append('never')\n    {LATE.replace(chr(10), chr(10) + '    ')}\n    LOG.append(str(told({{k}})))",
        f"try:\n    with timeout({{t}}):\n        with timeout(60):\n            try:\n                x = str(hush({{k}}))\n            finally:\n                LOG.append('inner')\n        LOG.append('never')\n{LATE}",
        f"try:\n    with timeout({{t}}):\n        LOG.append(map(hush, {{w}}))\n{LATE}",
        "for w in {w}:\n    try:\n        with timeout({t}):\n            LOG.append(w)\n            out.append(str(hush(w)))\n    except TimeoutError:\n        out.append('late')",
    ),
    *_forms(
        "limits", "ac",
        f"try:\n    async with asyncio.timeout({{t}}):\n        LOG.append('in time')\n        table[{{k}}] = await hush_soon({{k}})\n        LOG.append('never')\n{LATE}",
        f"try:\n    async with timeout({{t}}):\n        COUNT['n'] += 1\n        x = await patient_soon({{k}})\n        LOG.append('never')\n{LATE}",
        f"try:\n    x = await asyncio.wait_for(patient_soon({{k}}), {{t}})\n    LOG.append('never')\n{LATE}\nLOG.append(await told_soon({{k}}))",
        "try:\n    async with asyncio.timeout(60):\n        LOG.append('slow')\n        out.append({c})\n        COUNT['n'] += 1\nexcept (BackendError, TimeoutError) as e:\n    LOG.append(str(e))",
        f"try:\n    async with asyncio.timeout({{t}}):\n        x = await asyncio.gather(*[hush_soon(w) for w in {{w}}])\n        LOG.append('never')\n{LATE}",
        "done, rest = await asyncio.wait([asyncio.ensure_future(hush_soon(w)) for w in {w}], timeout={t})\nLOG.append([len(done), len(rest)])\nfor each in rest:\n    each.cancel()\nfor each in rest:\n    try:\n        await each\n    except asyncio.CancelledError:\n        LOG.append('cancelled')",
        f"try:\n    async with asyncio.timeout({{t}}):\n        try:\n            async with timeout(60):\n                x = await hush_soon({{k}})\n        finally:\n            LOG.append('inner')\n{LATE}",
    ),
    *_forms(
        "locks", "sp",
        "lock = Lock()\nLOG.append([str(x) for x in map(lambda w: counted(w, lock), {w})])\nLOG.append(COUNT['n'])",
        "lock = Lock()\nwith lock:\n    n = COUNT['n']\n    COUNT['n'] = n + len(str(told({k})))",
        "lock = threading.Lock()\nLOG.append([str(x) for x in map(lambda w: plainly_counted(w, lock), {w})])\nLOG.append(COUNT['n'])",
        "lock = threading.Lock()\nwith ThreadPoolExecutor(2) as pool:\n    LOG.append(list(pool.map(lambda w: plainly_counted(w, lock), {w})))\nLOG.append(COUNT['n'])",
        "lock = Lock()\nfor w in {w}:\n    try:\n        with lock:\n            COUNT['n'] += 1\n            out.append(str(risk(w)))\n    except BackendError as e:\n        LOG.append(str(e))",
    ),
    *_forms(
        "locks", "ac",
        "lock = Lock()\nLOG.append(await asyncio.gather(*[counted_soon(w, lock) for w in {w}]))\nLOG.append(COUNT['n'])",
        "lock = asyncio.Lock()\nLOG.append(await asyncio.gather(*[counted_soon(w, lock) for w in {w}]))\nLOG.append(COUNT['n'])",
        "lock = Lock()\ntry:\n    async with lock:\n        COUNT['n'] += 1\n        x = {c}\n        LOG.append('held')\nexcept BackendError as e:\n    LOG.append(str(e))",
    ),
    *_forms(
        "own pools", "sp",
        "with ThreadPoolExecutor(2) as pool:\n    started = [pool.submit(told, w) for w in {w}]\n    LOG.append([f.result() for f in started])",
        "with ThreadPoolExecutor(2) as pool:\n    LOG.append(list(pool.map(agent, {w})))",
        "with ThreadPoolExecutor(3) as pool:\n    started = [pool.submit(risk, w) for w in {w}]\nfor f in started:\n    try:\n        out.append(f.result())\n        COUNT['n'] += 1\n    except BackendError as e:\n        LOG.append(str(e))",
        "with ThreadPoolExecutor(2) as pool:\n    LOG.append(list(pool.map(careful, {w})))",
        "found = []\nthreads = [threading.Thread(target=lambda w=w: found.append(told(w))) for w in {w}]\nfor each in threads:\n    each.start()\nfor each in threads:\n    each.join()\nLOG.append(sorted(map(str, found)))",
        "with ThreadPoolExecutor(1) as pool:\n    outer = pool.submit(lambda: [told({k}), *pool_of({w})])\n    LOG.append(outer.result())",
    ),
    *_forms(
        "own pools", "ac",
        "LOG.append(await asyncio.gather(*[asyncio.to_thread(told, w) for w in {w}]))",
        "with ThreadPoolExecutor(2) as pool:\n    loop = asyncio.get_running_loop()\n    LOG.append(await asyncio.gather(*[loop.run_in_executor(pool, careful, w) for w in {w}]))",
        "try:\n    x = await asyncio.to_thread(risk, {k})\n    COUNT['n'] += 1\n    LOG.append(x)\nexcept BackendError as e:\n    LOG.append(str(e))",
    ),
    *_forms(
        "as_completed", "sp",
        "LOG.append(sorted(str(x) for x in as_completed(told, {w})))",
        "LOG.append(sorted(str(x) for x in as_completed(agent, {w})))",
        "try:\n    for each in as_completed(risk, {w}):\n        n = len(str(each))\n    LOG.append('all')\nexcept BackendError:\n    LOG.append('one failed')",
        "for each in as_completed(agent, {w}):\n    LOG.append(len(str(each)) > 1)\n    break",
        "with ThreadPoolExecutor(3) as pool:\n    started = [pool.submit(told, w) for w in {w}]\n    LOG.append(sorted(f.result() for f in futures.as_completed(started)))",
    ),
    *_forms(
        "as_completed", "ac",
        "LOG.append(sorted([await each for each in asyncio.as_completed([helper_soon(w) for w in {w}])]))",
        "LOG.append(sorted([await each for each in asyncio.as_completed([careful_soon(w) for w in {w}])]))",
        "found = []\nasync for each in as_completed(told_soon, {w}):\n    found.append(str(each))\nLOG.append(sorted(found))",
        "LOG.append(sorted([await each for each in asyncio.as_completed([asyncio.create_task(agent_soon(w)) for w in {w}])]))",
        "first = next(iter(asyncio.as_completed([told_soon({k}), hush_soon({k})])))\nLOG.append(await first)\nfor each in asyncio.all_tasks() - {asyncio.current_task()}:\n    each.cancel()",
    ),
    *_forms(
        "wait", "sp",
        "with ThreadPoolExecutor(3) as pool:\n    started = [pool.submit(told, w) for w in {w}]\n    done, rest = futures.wait(started)\n    LOG.append([len(rest), sorted(f.result() for f in done)])",
        "with ThreadPoolExecutor(1) as pool:\n    started = [pool.submit(doom, {k}), pool.submit(told, {k})]\n    futures.wait(started, return_when=futures.FIRST_EXCEPTION)\n    LOG.append(str(started[0].exception()))\n    LOG.append(started[1].result())",
        "started = [call(risk, w) for w in {w}]\nfor each in started:\n    try:\n        out.append(str(each.result()))\n    except BackendError as e:\n        out.append('n/a')\n        LOG.append(str(e))",
    ),
    *_forms(
        "wait", "ac",
        "tasks = [asyncio.create_task(told_soon(w)) for w in {w}]\ndone, rest = await asyncio.wait(tasks)\nLOG.append([len(rest), sorted(t.result() for t in done)])",
        "tasks = [asyncio.create_task(each) for each in (hush_soon({k}), agent_soon({k}), hush_soon({k}))]\ndone, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)\nLOG.append([t.result() for t in done])\nfor each in rest:\n    each.cancel()\nLOG.append([type(e).__name__ for e in await asyncio.gather(*rest, return_exceptions=True)])",
        "tasks = [asyncio.create_task(each) for each in (patient_soon({k}), doom_soon({k}))]\ndone, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)\nLOG.append([str(t.exception()) for t in done])\nfor each in rest:\n    each.cancel()\nawait asyncio.gather(*rest, return_exceptions=True)",
        "LOG.append(await asyncio.gather(*[careful_soon(w) for w in {w}]))",
        "found = await asyncio.gather(*[risk_soon(w) for w in {w}], return_exceptions=True)\nLOG.append([str(x) for x in found])",
        "try:\n    async with asyncio.TaskGroup() as group:\n        for w in {w}:\n            group.create_task(hush_soon(w))\n        group.create_task(doom_soon({k}))\n    LOG.append('never')\nexcept* BackendError as e:\n    LOG.append([str(x) for x in e.exceptions])",
        "async with asyncio.TaskGroup() as group:\n    tasks = [group.create_task(helper_soon(w)) for w in {w}]\nLOG.append([t.result() for t in tasks])",
    ),
    *_forms(
        "queues", "sp",
        "q = queue.Queue()\nfor w in {w}:\n    q.put(told(w))\nwhile not q.empty():\n    out.append(str(q.get()))",
        "q = queue.Queue()\nthread = threading.Thread(target=producer, args=({w}, q))\nthread.start()\nwhile (x := q.get()) is not None:\n    LOG.append(str(x))\nthread.join()",
        "q = queue.Queue()\nwith ThreadPoolExecutor(2) as pool:\n    for w in {w}:\n        pool.submit(lambda w=w: q.put(agent(w)))\nLOG.append(sorted(str(q.get()) for _ in range(q.qsize())))",
    ),
    *_forms(
        "queues", "ac",
        "q = asyncio.Queue()\ntask = asyncio.create_task(producer_soon({w}, q))\nwhile (x := await q.get()) is not None:\n    LOG.append(x)\nawait task",
        "work, found = asyncio.Queue(), []\nfor w in [*{w}, None]:\n    work.put_nowait(w)\nawait asyncio.gather(worker_soon(work, found), worker_soon(work, found))\nLOG.append(sorted(found))",
    ),
    *_forms(
        "orphans", "p",
        "in_thread(lambda: leave(stuck, {k}))\nLOG.append(str(told({k})))",
        "in_thread(lambda: drop(beside, {k}))\nLOG.append('left')",
        "in_thread(lambda: leave(stuck, {k}))\nLOG.append('left')",
        "in_loop(lambda: leave(stuck, {k}))\nLOG.append(str(told({k})))",
        "in_loop(lambda: drop(beside, {k}))\nLOG.append('left')",
        "in_loop(lambda: leave(hush_soon, {k}))\nLOG.append('left')",
        "in_thread(lambda: in_loop(lambda: leave(stuck, {k})))\nLOG.append(str(told({k})))",
        "LOG.append(asyncio.run(leaving({k})))\nLOG.append('left')",
        "with ThreadPoolExecutor(1) as pool:\n    pool.submit(lambda: leave(stuck, {k})).result()\nLOG.append('left')",
    ),
    *_forms(
        "failing tools", "sp",
        "LOG.append([str(x) for x in tooled({k})])",
        "try:\n    LOG.append([str(x) for x in tooled({k})])\n    x = {r}\n    LOG.append('after tools')\nexcept BackendError as e:\n    LOG.append(str(e))",
        "for xs in map(tooled, {w}):\n    LOG.append([str(x) for x in xs])",
    ),
    *_forms(
        "failing tools", "ac",
        "LOG.append(await tooled_soon({k}))",
        "LOG.append(await asyncio.gather(*[tooled_soon(w) for w in {w}]))",
    ),
    *_forms(
        "generators", "sp",
        "for w in walk({k}):\n    LOG.append(str(w))",
        "it = walk({k})\nout.append(str(next(it)))\nit.close()\nLOG.append('closed')",
        "for w in walk({k}):\n    out.append(str(w))\n    break\nLOG.append('broken off')",
        "LOG.append([str(w) for w in both_walks({k})])",
        "it = echoed({k})\nout.append(next(it))\nout.append(it.send({k}))\nout.append(it.send({k}))",
        "LOG.append(sorted(str(told(w)) for w in {w}))",
        "one, two = walk({k}), walk({k})\nfor x, y in zip(one, two):\n    LOG.append([str(x), str(y)])\ntwo.close()",
    ),
    *_forms(
        "generators", "ac",
        "async for w in walk_soon({k}):\n    LOG.append(w)",
        "it = walk_soon({k})\nout.append(await anext(it))\nawait it.aclose()\nLOG.append('closed')",
        "LOG.append([w async for w in walk_soon({k})])",
    ),
    *_forms(
        "shared objects", "sp",
        "board = Board({k})\nLOG.append([str(x) for x in map(board.add, {w})])\nLOG.append(sorted(board.notes.items()))",
        "board = Board({k})\nfor w in {w}:\n    LOG.append(str(board.chat(w)))",
        "one, two = Board({k}), Board({k})\nfor w in {w}:\n    out.append(str(one.chat(w)))\n    LOG.append(str(two.chat(w)))",
        "board = Board({k})\nLOG.append([str(x) for x in map(board.chat, {w})])",
        "board = Board({k})\nwith ThreadPoolExecutor(2) as pool:\n    added = list(pool.map(board.add, {w}))\nLOG.append(sorted(board.notes.items()))",
    ),
    *_forms(
        "shared objects", "ac",
        "board = Board({k})\nawait asyncio.gather(*[board.add_soon(w) for w in {w}])\nLOG.append(sorted(board.notes.items()))",
    ),
    *_forms(
        "try", "p",
        "try:\n    out.append({r})\n    COUNT['n'] += 1\nexcept BackendError as e:\n    LOG.append(str(e))\nfinally:\n    LOG.append('finally')",
        "for w in {w}:\n    try:\n        table[w] = risk(w)\n        LOG.append(w)\n    except BackendError as e:\n        table[w] = 'n/a'",
        "LOG.append([careful(w) for w in {w}])",
    ),
    *_forms(
        "try", "c",
        "try:\n    out.append({c})\n    COUNT['n'] += 1\nexcept BackendError as e:\n    LOG.append(str(e))\nfinally:\n    LOG.append('finally')",
        "for w in {w}:\n    try:\n        table[w] = await risk_soon(w)\n        LOG.append(w)\n    except BackendError as e:\n        table[w] = 'n/a'",
    ),
    *_forms(
        "chains", "sp",
        "x = told({k})\ny = told(f'after {x}')\nLOG.append(str(told(f'last {y}')))",
        "for w in {w}:\n    x = str(told(w))\n    table[w] = str(told(f'after {x}'))",
    ),
    *_forms(
        "chains", "ac",
        "x = await told_soon({k})\ny = await told_soon(f'after {x}')\nLOG.append(await told_soon(f'last {y}'))",
    ),
    *_forms("uncaught", "sp", "LOG.append(str({r}))\nLOG.append('not caught')"),
    *_forms("uncaught", "ac", "LOG.append({c})\nLOG.append('not caught')"),
]  # fmt: skip

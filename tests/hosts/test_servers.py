"""Web servers, reruns of a script, several loops and threads: every request has its own run."""

from __future__ import annotations

import asyncio
import io
import linecache
import logging
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from fastapi.testclient import TestClient
from pydantic import BaseModel

import appl
from appl import AIRole, gen, ppl
from appl.runtime.frame import current
from appl.testing import Echo, Run, Scripted, running


class Loud(Scripted):
    """Answers with the last message, louder."""

    def __init__(self) -> None:
        super().__init__(lambda r: list(r.messages)[-1].content.upper(), name="loud")


@pytest.fixture(autouse=True)
def settings() -> Iterator[None]:
    """Runs that the tests open are answered by ``Loud``, and not recorded."""
    appl.init(backend=f"{__name__}:Loud", trace=False)
    yield
    appl.init(backend=None, trace=None)


@ppl
def ask(word: str):
    f"{word}"
    return gen()


@ppl(ctx="resume")
def remember(word: str):
    f"{word}"
    with AIRole():
        (answer := gen())
    return answer


def twice(word: str) -> list[str]:
    return [str(remember(word)), str(remember("again"))]


@ppl
async def later(word: str) -> str:
    f"{word}"
    return await gen()


# -- FastAPI

app = FastAPI()


@app.get("/async/{word}")
async def asynchronous(word: str) -> list[str]:
    return await appl.run(twice, word)


@app.get("/sync/{word}")
def synchronous(word: str) -> list[str]:
    return appl.run(twice, word)


@app.get("/native/{word}")
async def native(word: str) -> str:
    return str(await appl.run(later, word))


@app.get("/block/{word}")
async def block(word: str) -> str:
    async with appl.record():
        first = ask(word)
        return f"{await first} {await later('x')}"


@app.get("/fails")
async def fails() -> str:
    return await appl.run(lambda: str(gen(model="nobody's", messages="x", temprature=1)))


@app.get("/lines/{word}")
async def lines(word: str) -> StreamingResponse:
    async def body():
        async with appl.record():
            for number in range(3):
                yield f"{await later(f'{word}{number}')}\n"

    return StreamingResponse(body())


async def get(*paths: str) -> list[httpx.Response]:
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        return await asyncio.gather(*(client.get(path) for path in paths))


async def test_each_request_has_its_own_run_and_states():
    words = [f"w{number}" for number in range(20)]
    found = await get(*(f"/async/{w}" for w in words), *(f"/sync/{w}" for w in words))
    assert [each.json() for each in found] == [[w.upper(), "AGAIN"] for w in words] * 2


async def test_coroutines_blocks_and_streams_in_requests():
    native, block, lines = await get("/native/a", "/block/b", "/lines/c")
    assert (native.json(), block.json()) == ("A", "B X")
    assert lines.text == "C0\nC1\nC2\n"


async def test_a_request_that_fails_leaves_the_others_alone():
    failed, fine = await get("/fails", "/async/a")
    assert (failed.status_code, fine.status_code) == (500, 200)


# -- one process, many threads and loops


def test_several_loops_and_threads_at_once():
    def in_loop(number: int) -> list[str]:
        async def main() -> list[str]:
            tasks = [appl.run(later, f"{number}.{each}") for each in range(5)]
            return [str(each) for each in await asyncio.gather(*tasks)]

        return asyncio.run(main())

    def in_thread(number: int) -> list[str]:
        return [appl.run(lambda n=each: str(ask(f"{number}.{n}"))) for each in range(5)]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(in_loop, range(8))) + list(pool.map(in_thread, range(8)))
    assert found == [[f"{n}.{each}" for each in range(5)] for n in range(8)] * 2


def test_a_thread_without_a_run_is_in_none_of_several_others():
    opened, close = threading.Barrier(3), threading.Event()

    def holding() -> None:
        with Run(Echo()):
            opened.wait()
            close.wait()

    holders = [threading.Thread(target=holding) for _ in range(2)]
    for each in holders:
        each.start()
    opened.wait()
    with Run(Echo()):
        mine = current()
        seen: list[Run] = []
        thread = threading.Thread(target=lambda: seen.append(current()))
        thread.start()
        thread.join()
        assert seen[0] is not mine
    close.set()
    for each in holders:
        each.join()


def test_a_thread_of_the_only_run_belongs_to_it():
    with running(Echo()):
        seen: list[Run] = []
        thread = threading.Thread(target=lambda: seen.append(current()))
        thread.start()
        thread.join()
        assert seen == [current()]


# -- scripts that are run again and again, each time in a new thread, as Streamlit does

SCRIPT = """
from appl import gen, ppl

@ppl
def answer(question):
    f"{question}"
    return gen()

shown.append(str(answer(f"run {number}")))
"""


def test_a_script_that_is_rerun_in_new_threads_does_not_grow(tmp_path: Path):
    file = tmp_path / "page.py"
    file.write_text(SCRIPT)
    shown: list[str] = []

    def rerun(number: int) -> None:
        code = compile(file.read_text(), str(file), "exec")
        exec(code, {"__name__": "__main__", "shown": shown, "number": number})

    with running(Loud()):
        for number in range(300):
            thread = threading.Thread(target=rerun, args=(number,))
            thread.start()
            thread.join()
        assert len(current().tree.scopes) < 150
    assert shown == [f"RUN {number}" for number in range(300)]


def test_a_script_that_was_edited_is_compiled_as_it_is_now(tmp_path: Path):
    file = tmp_path / "page.py"
    shown: list[str] = []
    with running(Loud()):
        for number, text in enumerate((SCRIPT, SCRIPT.replace("{question}", "{question}!\\n"))):
            file.write_text(text)
            linecache.checkcache(str(file))
            exec(compile(text, str(file), "exec"), {"shown": shown, "number": number})
    assert shown == ["RUN 0", "RUN 1!\n"]


async def test_under_pytest_asyncio():
    assert await appl.run(ask, "x") == "X"
    async with appl.record():
        assert await later("y") == "Y"


SAME_NAMES = """
import appl, appl.session.session
from appl import gen, ppl

names = iter("aaaabc")
appl.session.session.new_path = lambda program, folder: folder / f"{next(names)}.trace"

@ppl
def ask(word):
    f"{word}"
    return gen()

appl.init(trace=True, backend="appl.testing:Echo")
for word in ("one", "two"):
    appl.run(ask, word)
"""


def test_runs_that_begin_in_the_same_millisecond_are_recorded_in_files_of_their_own(
    tmp_path: Path,
) -> None:
    environment = {**os.environ, "APPL_HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", SAME_NAMES], check=True, env=environment)
    assert sorted(file.name for file in tmp_path.glob("runs/*")) == ["a.trace", "b.trace"]


# -- answers in what a handler returns

returning = FastAPI()


def echoing() -> Any:
    """A run with the settings of a user; it is the only open one, so requests are part of it."""
    return appl.record(backend="appl.testing:Echo", trace=False)


@returning.get("/waited")
async def waited():
    answer = ask("x")
    await answer
    return {"answer": answer}


@returning.get("/sync")
def pending():
    return {"answer": ask("x")}


@returning.get("/async")
async def pending_too():
    return {"answer": ask("x")}


@pytest.mark.parametrize("path", ["/sync", "/async"])
def test_a_handler_that_returns_an_answer_is_told_what_to_write(path: str) -> None:
    with echoing(), pytest.raises(TypeError, match=r"str\(answer\).*-> str.*await answer"):
        TestClient(returning).get(path)


def test_an_answer_that_was_waited_for_is_encoded() -> None:
    with echoing():
        assert isinstance(TestClient(returning).get("/waited").json()["answer"], str)


# -- answers in what a handler with an annotation returns

annotated = FastAPI()


class Reply(BaseModel):
    answer: str


@annotated.get("/dict")
def in_dict() -> dict[str, str]:
    return {"answer": ask("x")}  # type: ignore[dict-item]


@annotated.get("/async")
async def in_dict_too() -> dict[str, str]:
    return {"answer": ask("x")}  # type: ignore[dict-item]


@annotated.get("/text")
def text() -> str:
    return ask("x")


@annotated.get("/any")
def anything() -> dict[str, Any]:
    return {"answer": ask("x")}


@annotated.get("/model")
def model() -> Reply:
    return Reply(answer=ask("x"))  # type: ignore[arg-type]


@annotated.get("/response-model", response_model=Reply)
def of_model() -> Any:
    return {"answer": ask("x")}


@annotated.get("/called")
def called() -> dict[str, str]:
    return {"answer": appl.call(lambda: "x")}  # type: ignore[dict-item]


@annotated.get("/int")
def other() -> dict[str, int]:
    return {"answer": "x"}  # type: ignore[dict-item]


def logged(path: str) -> str:
    """What a server's log says of a request that fails."""
    stream = io.StringIO()
    log = logging.getLogger("server")
    handler, log.propagate = logging.StreamHandler(stream), False
    log.addHandler(handler)
    with echoing():
        try:
            TestClient(annotated).get(path)
        except Exception as error:
            log.error("Exception in ASGI application", exc_info=error)
    log.removeHandler(handler)
    return stream.getvalue()


@pytest.mark.parametrize(
    "path", ["/dict", "/async", "/text", "/any", "/model", "/response-model", "/called"]
)
def test_the_log_says_what_an_annotated_handler_has_to_write(path: str) -> None:
    assert re.search(r"write str\(answer\).*-> str.*await answer", logged(path))


def test_the_log_says_nothing_of_answers_where_there_is_none() -> None:
    assert "valid integer" in (found := logged("/int")) and "answer is a future" not in found

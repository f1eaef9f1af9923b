"""Notebooks: what is shown never waits, nothing in it is markup, and cells run under a loop."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.formatters import DisplayFormatter
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from appl import AIRole, Conversation, PromptContext, StringFuture, call, gen, ppl, records
from appl.testing import Echo, Held, Scripted, running
from appl.tracing import Trace

MALICE = "<script>alert('x')</script>"


def shown(value: object) -> dict[str, str]:
    """What a notebook gets for *value*, by media type."""
    data, _ = DisplayFormatter().format(value)
    return data


@ppl
def ask(word: str):
    f"{word}"
    with AIRole():
        (answer := gen())
    return answer, records()


# -- what is shown


def test_an_answer_is_waited_for_when_it_is_shown():
    with running(backend := Held(lambda request: "Blue.")):
        answer, said = ask("hi <b>")
        assert "1 parts are pending" in shown(said)["text/plain"]
        assert "hi &lt;b&gt;" in shown(said)["text/html"]
        backend.release("/ask.0/gen.0")
        assert shown(answer)["text/plain"] == "Blue.\n[/ask.0/gen.0]"


def test_a_task_of_the_loop_is_shown_without_waiting_for_it():
    async def later() -> int:
        return 1

    async def cell() -> str:
        future = call(later)
        plain = shown(future)["text/plain"]
        assert await future == 1
        return plain

    with running(Echo()):
        plain = asyncio.run(cell())
    assert plain.startswith("…\n[") and plain.endswith("/later.0: pending, await it]")


def test_what_a_model_wrote_is_no_markup():
    with running(Scripted([MALICE])):
        answer, said = ask("hi")
        assert str(answer) == MALICE
        done = shown(answer)
        assert done["text/plain"] == f"{MALICE}\n[/ask.0/gen.0]"
        assert "<script>" not in done["text/html"] and "&lt;script&gt;" in done["text/html"]
        assert shown(said)["text/plain"] == f"user: hi\nassistant: {MALICE}"


def test_a_failure_is_shown_and_still_not_looked_at():
    with pytest.raises(KeyError, match="lost"), running(Scripted([KeyError("lost")])):
        answer, said = ask("x")
        with contextlib.suppress(KeyError):
            answer.result()
        assert "KeyError: 'lost'" in shown(answer)["text/plain"]
        assert "1 parts are pending or failed" in shown(said)["text/plain"]
        raise KeyError("lost")


def test_probes_of_a_notebook_do_not_wait():
    with running(backend := Held()):
        answer = gen(messages="x")
        for probe in (
            "_repr_html_",
            "_ipython_display_",
            "_ipython_canary_method_should_not_exist_",
        ):
            assert not hasattr(answer, probe)
        answer.cancel()
        assert backend.requests is not None
        with contextlib.suppress(Exception):
            answer.result()


def test_other_futures_prompts_and_conversations_are_shown():
    def add(a: int, b: int) -> int:
        return a + b

    with running(Echo()):
        future = call(add, 1, 2)
        future.result()
        assert shown(future)["text/plain"] == "3\n[/add.0]"
    lazy = StringFuture("a") + "b"
    assert shown(lazy)["text/plain"].startswith("ab")
    p = PromptContext()
    assert shown(p)["text/plain"] == "\n[empty]"
    assert shown(p.grow("<i>"))["text/html"].count("&lt;i&gt;") == 1
    talk = Conversation([{"role": "user", "content": MALICE}])
    assert shown(talk)["text/plain"] == f"user: {MALICE}"
    assert "<script>" not in shown(talk)["text/html"]


def test_a_trace_is_shown_as_a_table_of_its_calls(tmp_path: Path):
    from appl import record

    file = tmp_path / "one.trace"
    with record(file, backend="appl.testing:Echo"):
        str(ask("<b>")[0])
    trace = Trace.open(file)
    bundle = shown(trace)
    assert "/ask.0/gen.0" in bundle["text/plain"]
    assert "<td>/ask.0/gen.0</td>" in bundle["text/html"] and "<b>" not in bundle["text/html"]


# -- cells


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[InteractiveShell]:
    """A shell of IPython's that keeps nothing."""
    settings = Config()
    settings.HistoryManager.enabled = False
    made = InteractiveShell(config=settings, ipython_dir=str(tmp_path))
    yield made
    made.restore_sys_module_state()


def cells(shell: InteractiveShell, *sources: str) -> list[Any]:
    """The values of cells that run on one loop, one after the other, as a kernel runs them."""

    async def kernel() -> list[Any]:
        found = []
        for source in sources:
            done = await shell.run_cell_async(
                source, transformed_cell=shell.transform_cell(source), store_history=False
            )
            done.raise_error()
            found.append(done.result)
        return found

    with contextlib.redirect_stdout(io.StringIO()):
        return asyncio.run(kernel())


CELL = """
from appl import gen, ppl, call, run, map as side_by_side

@ppl
def ask(word):
    f"{word}"
    return gen()
"""


def test_cells_define_and_call_prompt_functions(shell: InteractiveShell):
    with running(Scripted(lambda r: list(r.messages)[-1].content.upper())):
        values = cells(
            shell, CELL, "a = ask('one')", "str(a)", "await a", "await run(ask, 'two')",
            "[str(x) for x in [ask('b'), ask('c')]]", "await side_by_side(ask, ['d', 'e'])",
        )  # fmt: skip
    assert values[2:4] == ["ONE", "ONE"]
    assert values[5:] == [["B", "C"], ["D", "E"]]


def test_a_cell_may_define_a_function_anew(shell: InteractiveShell):
    with running(Scripted(lambda r: list(r.messages)[-1].content.upper())):
        values = cells(
            shell, CELL, "str(ask('x'))", CELL.replace('{word}"', '{word}!"'), "str(ask('x'))"
        )
    assert [values[1], values[3]] == ["X", "X!"]


def test_a_failing_cell_shows_the_users_line(shell: InteractiveShell):
    broken = "@ppl\ndef broken():\n    'text'\n    raise KeyError('here')\nbroken()"
    with running(Echo()), pytest.raises(KeyError) as caught:
        cells(shell, CELL, broken)
    assert any("raise KeyError" in str(entry.line) for entry in _entries(caught.value))


def _entries(error: BaseException) -> list[Any]:
    import traceback

    return list(traceback.extract_tb(error.__traceback__))

"""A program, its tools and its backend, which say all that is in ``said.txt`` wherever they can."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import appl
from appl import as_tool, gen, ppl
from appl.backend import Request
from appl.errors import ApplError, BackendBusy, BackendUnavailable
from appl.testing import Answer, Fake, calling


def said() -> str:
    return Path("said.txt").read_text()


class Repeating(Fake):
    """Answers with all of it, in pieces, calls tools with it, and fails with it."""

    def __init__(self) -> None:
        features = {"stream", "tools", "n"}
        super().__init__(self._said, pieces=_pieces, name="repeating", features=features)

    def _said(self, request: Request) -> Answer:
        text = request.messages.message.content if request.messages else ""
        if text.startswith("Fail"):
            return BackendUnavailable(said())
        if request.sampling.tools and text.startswith("Look"):
            calls = (("look", {"table": said()}), ("fail", {"table": said()}))
            return calling(*calls, text=said())
        return said()


class Busy(Fake):
    """Says with each refusal what it was asked."""

    def __init__(self) -> None:
        super().__init__(lambda request: "an answer", name="busy")

    async def complete(self, request: Request, emit: Any = None) -> Any:
        assert request.messages is not None
        raise BackendBusy(request.messages.message.content, retry_after=30)


def _pieces(text: str) -> list[str]:
    return [text[at : at + 7] for at in range(0, len(text), 7)]


def look(table: str) -> str:
    return table + said()


def fail(table: str) -> str:
    raise ValueError(table + said())


@ppl
def ask(question: str, **options: Any) -> Any:
    f"{question}"
    return gen(**options)


@ppl
def looked() -> list[str]:
    "Look at the tables."
    answer = gen(tools=[as_tool(look), as_tool(fail)])
    answer
    return [result.content for result in answer.run_tool_calls()]


def every() -> None:
    """Say it in prompts, answers, streams, parameters, tools, observations, errors and a cache."""
    str(ask(said()))
    "".join(ask("Stream.", stream=True).text_stream)
    str(ask("Stop.", stop=[said()[:300]]))
    str(ask("Keep.", cache="answers.db"))
    looked()
    appl.observe(said)
    try:
        str(ask("Fail."))
    except ApplError as error:
        error.add_note(said())


def streams() -> None:
    str(ask("Say it."))


def works(question: str = "", api_key: str = "") -> dict[str, str]:
    every()
    return {"said": said()}


def fails(question: str = "", api_key: str = "") -> None:
    every()
    raise ValueError(said())

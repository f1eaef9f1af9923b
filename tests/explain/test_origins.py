"""Every part of a prompt has the user's line, also what blocks and types add to it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import appl
from appl import AIRole, Generation, NumberedList, Tagged, gen, ppl
from appl.prompt import digest_of
from appl.testing import Fake, Run
from appl.tracing import Recorder, Trace, profile_data


@ppl
def tagged() -> Generation:
    "Head"
    with Tagged("note", attrs={"a": 1}):  # <note </note>
        "inside"
        with NumberedList():
            "first"
    return gen()


@ppl
def listed() -> Generation:
    for word in appl.iter(["a", "b"], Tagged("words")):  # <words> </words>
        f"item {word}"
    return gen()


@ppl(compositor=Tagged("whole"))
def whole() -> Generation:  # <whole>
    "body"
    return gen()


@ppl
def by_hand() -> Generation:
    block = Tagged("hand")
    block.__enter__()  # <hand>
    "kept"
    block.__exit__(None, None, None)  # </hand>
    return gen()


@ppl(docstring_as="system")
def documented() -> Generation:  # Documented
    """Documented."""
    "Go."
    return gen()


@ppl
def typed() -> Generation:
    "How many?"
    return gen(response_format=int)  # whole number again, corrected


@ppl
def spoken() -> Generation:
    with AIRole(), Tagged("said"):  # <said> </said>
        "words"
    "more"
    return gen()


@ppl
async def waited() -> Any:
    async with Tagged("later"):  # <later> </later>
        "x"
    return await gen()


PROGRAMS = [tagged, listed, whole, by_hand, documented, typed, spoken, waited]


def recorded(program: Any, path: Path) -> Trace:
    backend = Fake(lambda request: "7" if "ask" in request.address else "seven")
    recorder = Recorder(path, {"profile": profile_data(backend.profile)}, durability="process")
    with Run(backend, instruments=[recorder]):
        value = program()
        str(asyncio.run(value) if program is waited else value)
    recorder.close()
    return Trace.open(path)


def lines_of(trace: Trace) -> list[tuple[str, str | None, int | None]]:
    """The parts of all prompts: their texts, and the lines that they come from."""
    found = []
    for call in trace.calls:
        for message, spans in zip(call.messages or (), call.spans(), strict=True):
            found += [
                (message.content[each.start : each.end], each.call or each.file, each.line)
                for each in spans
            ]
    return found


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_no_part_of_a_prompt_comes_from_nowhere(tmp_path: Path, program: Any) -> None:
    parts = lines_of(recorded(program, tmp_path / "a.trace"))
    assert parts and all(origin is not None for _, origin, _ in parts), parts


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_what_blocks_and_types_add_has_the_line_that_names_it(tmp_path: Path, program: Any) -> None:
    source = Path(__file__).read_text("utf-8").splitlines()
    for text, _, line in lines_of(recorded(program, tmp_path / "a.trace")):
        _, _, names = source[(line or 1) - 1].partition("  # ")
        if "<" in text or "again" in text or "number" in text or "Documented" in text:
            assert any(name in text for name in names.split() if name), (text, line)


def test_origins_change_no_digest(tmp_path: Path) -> None:
    call = recorded(tagged, tmp_path / "a.trace").calls[0]
    assert call.content == digest_of(call.messages.digest, call.model, call.sampling)  # type: ignore[union-attr]

"""What the command shows of answers while they are made."""

from __future__ import annotations

import io
import random

import pytest
from rich.console import Console

from appl.backend import Chunk, Request, Response, Sample, Sampling
from appl.base.status_line import Terminal
from appl.cli.display import AnswerPrinter, LiveDisplay, PlainDisplay
from appl.cli.terminal import TermSafe, term_safe
from appl.errors import BackendError
from appl.testing import CallEnded, CallStarted, ChunkArrived

from .conftest import Project

NASTY = [
    "\x1b[31m", "\x1b[", "\x1b]0;title\x07", "\x1b]52;c;aGk=\x1b\\", "\x1bP", "\x1b", "\x9b2J", "\x90x",
    "\x9c", "\r", "\r\n", "\n", "\t", "\0", "\x1bc", "\u202e", "\ud83d", "\ude00", "[31m", "]8;;", "a", "é",
    "漢", "🎉", " ", "m", "\\", "\x07", "0;1",
]  # fmt: skip


@pytest.mark.parametrize("seed", range(300))
def test_text_in_pieces_is_made_safe_as_the_whole_is(seed: int) -> None:
    dice = random.Random(seed)
    whole = "".join(dice.choices(NASTY, k=dice.randint(1, 20)))
    safe, shown, at = TermSafe(), [], 0
    while at < len(whole):
        size = dice.randint(1, 3)
        shown.append(safe.feed(whole[at : at + size]))
        at += size
    shown.append(safe.close())
    assert "".join(shown) == term_safe(whole)
    assert not any(c < " " and c not in "\n\t" for c in "".join(shown))


def test_a_sequence_without_an_end_is_not_waited_for_for_ever() -> None:
    safe = TermSafe()
    shown = [safe.feed(piece) for piece in ("\x1b]0;", *["x" * 100] * 60, "done")]
    assert "".join(shown).endswith("done") and len(safe._held) < 5000


def started(address: str) -> CallStarted:
    return CallStarted(Request(address, 0, "m", None, Sampling()), "gen", (), None, None, 0)


def chunk(address: str, text: str, sample: int = 0, kind: str = "text") -> ChunkArrived:
    return ChunkArrived(address, Chunk(sample, text, kind), 0)  # type: ignore[arg-type]


def ended(address: str, text: str | None = None) -> CallEnded:
    if text is None:
        return CallEnded(address, None, BackendError("the line\x1b[2J broke"), 0)
    return CallEnded(address, Response((Sample(text, "stop"),)), None, 0)


def test_answers_are_shown_one_after_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    answers = AnswerPrinter()
    for event in (
        started("/a"), started("/b"), started("/c"), chunk("/b", "b1 "), chunk("/a", "a1 "),
        chunk("/b", "hm", kind="reasoning"), chunk("/b", "no", sample=1),
    ):  # fmt: skip
        answers.on_event(event)
    assert capsys.readouterr().err == "--- /b\nb1 "
    for event in (chunk("/a", "a2"), chunk("/b", "b2"), ended("/a", "a1 a2")):
        answers.on_event(event)
    assert capsys.readouterr().err == "b2"
    answers.on_event(ended("/b", "b1 b2"))
    assert capsys.readouterr().err == "\n--- /a\na1 a2\n"
    answers.on_event(chunk("/c", "x\x1b["))
    answers.on_event(chunk("/c", "31my"))
    answers.on_event(ended("/c"))
    assert capsys.readouterr().err == "--- /c\nxy\n--- BackendError: the line broke\n"


def test_a_secret_is_masked_while_it_comes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "tall-tree-by-the-river")
    answers = AnswerPrinter()
    for piece in ("It is tall-", "tree-by-", "the-river", ", keep ", "it tall"):
        answers.on_event(chunk("/a", piece))
    assert capsys.readouterr().err == "--- /a\nIt is [secret SHOP_PASSWORD], keep it "
    answers.on_event(ended("/a", "…"))
    assert capsys.readouterr().err == "tall\n"


def test_what_was_not_streamed_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    answers = AnswerPrinter()
    answers.on_event(started("/a"))
    answers.on_event(ended("/a"))
    plain = PlainDisplay(answers=False)
    plain.on_event(chunk("/a", "x"))
    assert capsys.readouterr().err == ""


def drawn(live: LiveDisplay) -> str:
    """What *live* shows on a terminal now."""
    screen = io.StringIO()
    Console(file=screen, force_terminal=True, width=50, color_system=None).print(live.shown())
    return screen.getvalue()


def test_on_a_terminal_answers_stand_in_panels(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    live = LiveDisplay(answers=True, terminal=Terminal())
    live.on_event(started("/a.0/gen.0"))
    live.on_event(chunk("/a.0/gen.0", "It was a \x1b]52;c;aGk=\x07dark [bold]night[/bold] and "))
    live.on_event(chunk("/a.0/gen.0", "then\n" + "word " * 200))
    shown = drawn(live)
    assert "╭─ /a.0/gen.0 ─" in shown and "word" in shown and "52;c" not in shown
    assert shown.count("│") == 12  # six lines
    live.on_event(ended("/a.0/gen.0", "It was a [bold]night[/bold]\x1b[2J."))
    assert "It was a [bold]night[/bold]." in capsys.readouterr().err
    assert "night" not in drawn(live)


def test_a_secret_is_in_no_panel(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "tall-tree-by-the-river")
    live, shown = LiveDisplay(answers=True, terminal=Terminal()), ""
    for piece in ("It is tall-", "tree-by-", "the-river", ", keep it."):
        live.on_event(chunk("/a", piece))
        shown += drawn(live)
    live.on_event(ended("/a", "It is tall-tree-by-the-river, keep it."))
    last = capsys.readouterr().err
    assert "[secret SHOP_PASSWORD], keep it." in last
    assert "tall" not in shown + last


STREAMS = """\
from appl import gen, ppl

@ppl
def main():
    "x"
    return gen(stream=True).text_stream

async def later():
    return main()

@ppl
def typed():
    "x"
    return gen(stream=True, response_format=list[int]).text_stream
"""


def test_a_program_that_returns_a_stream_prints_it(project: Project) -> None:
    project.write("streams.py", STREAMS)
    echo = ("--backend", "appl.testing:Echo")
    for name in ("main", "later"):
        done = project.appl("run", f"streams.py:{name}", *echo)
        assert done.code == 0 and len(done.out.strip()) == 6 and done.out.count("\n") == 1
        document = project.appl("run", f"streams.py:{name}", *echo, "--json")
        assert document.data["value"] == done.out.strip()
        again = project.appl("trace", "replay")
        assert again.out == done.out


def test_what_a_program_had_streamed_is_printed_before_its_error(project: Project) -> None:
    project.write("streams.py", STREAMS)
    project.write(
        "cut.py",
        "from appl.errors import BackendError\n"
        "from appl.testing import Scripted, Streamed\n"
        "def make():\n"
        "    return Scripted([Streamed(('so ', 'far'), BackendError('gone'))])\n",
    )
    done = project.appl("run", "streams.py:main", "--backend", "cut:make")
    assert done.code == 1 and done.out == "so far\n" and "gone" in done.err

    shown = project.appl("trace", "show", "last", "/main.0/gen.0").out
    assert "streamed in 2 chunks" in shown and "[had said]\nso far\n" in shown


def test_the_last_object_of_a_typed_stream_is_the_value(project: Project) -> None:
    project.write("streams.py", STREAMS)
    project.write(
        "three.py",
        "from appl.testing import Scripted, Streamed\n"
        "def make():\n"
        "    return Scripted([Streamed(('[1, ', '2, ', '3]'))])\n",
    )
    done = project.appl("run", "streams.py:typed", "--backend", "three:make")
    assert done.out == "1\n2\n3\n"


def test_the_option_and_the_setting_show_answers_as_they_come(project: Project) -> None:
    done = project.run("ask", "--stream")
    assert f"--- /ask.0/gen.0\n{done.out.strip()}\n" in done.err
    project.write("appl.toml", "stream = true\n")
    done = project.run("ask")
    assert f"--- /ask.0/gen.0\n{done.out.strip()}\n" in done.err
    assert "---" not in project.run("nothing").err

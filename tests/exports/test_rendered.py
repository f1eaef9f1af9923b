"""A transcript is read by real renderers of Markdown: no markup of theirs comes from a text."""

from __future__ import annotations

import html
import itertools
import tempfile
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import markdown
import pytest
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from appl.backend import Response, Sample
from appl.errors import BackendUnavailable
from appl.prompt import Message, Messages, ToolCall
from appl.testing import CallEnded, ScopeEntered, ToolEnded, ToolStarted
from appl.tracing import Recorder, Trace
from appl.tracing.exporting import lines
from tests.drawn import examples
from tests.tracing.made import USAGE, asked, end, now, start

RENDERERS: dict[str, Callable[[str], str]] = {
    "CommonMark": MarkdownIt("commonmark").render,
    "as on a forge": MarkdownIt("gfm-like", {"linkify": False}).enable("table").render,
    "as mkdocs": lambda text: markdown.markdown(text, extensions=["fenced_code", "tables", "toc"]),
}
"""Renderers that let raw HTML through."""
OF_TRANSCRIPTS = {"h1", "h2", "p", "ul", "li", "pre", "code", "strong", "em"}
FRAGMENTS = [
    "<script>alert(1)</script>", "<img src=https://evil/x.png onerror=alert(1)>", "<!-- x", "</code>",
    "[x](javascript:alert(1))", "![x](https://evil/x.png)", "[x]: https://evil", "<https://evil>",
    "# Forged", "## /main.0/gen.9", "**user**", "---", "===", "```", "````text", "`" * 9, "~~~", "~~~text",
    "    indented", "> quoted", "* one", "1. one", "| a | b |\n|---|---|\n| c | d |", "&lt;b&gt;", "\\", "\\`",
    "`", "``", "\n", "\n\n", " ", "\t", "\r", "\x0b", "\x85", "\u2028", "\0", "$$x$$", "{% raw %}", "<b",
]  # fmt: skip
TEXTS = st.tuples(
    st.sampled_from(["", "\n"]), st.lists(st.sampled_from(FRAGMENTS), max_size=8)
).map(lambda drawn: drawn[0].join(drawn[1]))


class Page(HTMLParser):
    """The elements of a page, with their attributes, and its headings."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.shown = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.shown += data


def transcript(*texts: str) -> str:
    """The transcript of a run that holds *texts* wherever one may stand."""
    with tempfile.TemporaryDirectory() as folder:
        path, of = Path(folder) / "run.trace", itertools.cycle(texts)
        recorder = Recorder(path, {"program": next(of)})
        recorder.on_event(ScopeEntered("/main.0", "", "main", next(of), 1, now()))
        call = ToolCall("1", "look", next(of))
        chain = Messages.of([
            Message("system", next(of)), Message("user", next(of), name=next(of)),
            Message("assistant", next(of), tool_calls=(call,)), Message("tool", next(of), tool_call_id="1"),
        ])  # fmt: skip
        for number in range(2):
            request = asked(f"/main.0/gen.{number}", "q", model=next(of))
            object.__setattr__(request, "messages", chain)
            start(recorder, request)
            if number:
                end(recorder, request.address, BackendUnavailable(next(of)))
            else:
                sample = Sample(next(of), next(of) or "stop", (), (call,), next(of))
                response = Response((sample,), USAGE, next(of))
                recorder.on_event(CallEnded(request.address, response, None, now()))
        for number in range(2):
            tool = ToolStarted(
                f"/main.0/t.{number}", next(of), next(of), "pure", next(of), 1, now()
            )
            result = Message("tool", next(of), tool_call_id="1") if number else None
            error = None if number else ValueError(next(of))
            recorder.on_event(tool)
            recorder.on_event(ToolEnded(tool.address, result, error, now()))
        recorder.close()
        return "\n".join(lines(Trace.open(path)))


@examples(60, 1500, st.lists(TEXTS, min_size=1, max_size=12))
def test_no_text_becomes_markup(texts: list[str]) -> None:
    """No link, image, raw HTML or heading of a page comes from what was said."""
    said = transcript(*texts)
    for name, render in RENDERERS.items():
        page = Page(render(said))
        assert {tag for tag, _ in page.found} <= OF_TRANSCRIPTS, name
        assert all(set(attrs) <= {"id", "class"} for _, attrs in page.found), name
        heads = [tag for tag, _ in page.found if tag in ("h1", "h2")]
        assert heads == ["h1", *["h2"] * 4], name


@pytest.mark.parametrize("renderer", RENDERERS)
def test_what_was_said_is_readable(renderer: str) -> None:
    said = ["<b>Is 1 < 2?</b>", "[yes](https://a.b)", "# A heading\n\n    and code", "it's `x`"]
    page = Page(RENDERERS[renderer](transcript(*said)))
    assert all(line in page.shown for text in said for line in text.split("\n"))
    assert html.unescape(page.shown) == page.shown

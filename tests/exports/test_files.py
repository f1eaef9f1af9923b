"""Timelines, transcripts and JSON lines."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from appl.tracing import Trace, tape
from appl.tracing.exporting import chrome, markdown
from appl.tracing.exporting.chrome import laned
from appl.tracing.exporting.spans import ExportSpan
from tests.housekeeping.conftest import made
from tests.housekeeping.test_sharing import CANARY, PLACES, with_canaries
from tests.traces.programs import PROGRAMS

from .conftest import Project


def timeline(trace: Trace, **options: Any) -> list[dict[str, Any]]:
    document = json.loads("\n".join(chrome.lines(trace, **options)))
    events: list[dict[str, Any]] = document["traceEvents"]
    return events


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_a_timeline_has_everything_and_nothing_overlaps(golden: Any, name: str) -> None:
    trace = golden(name)
    events = timeline(trace)
    whole = [event for event in events if event["ph"] == "X"]
    assert len(whole) == 1 + len(trace.scopes) + len(trace.calls) + len(trace.tools)
    lanes: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for event in whole:
        lanes.setdefault((event["pid"], event["tid"]), []).append(
            (event["ts"], event["ts"] + event["dur"])
        )
    for spans in lanes.values():
        for (_, end), (start, _) in pairwise(sorted(spans)):
            assert start >= end - 1e-3
    starts = [event["id"] for event in events if event["ph"] == "s"]
    assert starts == [event["id"] for event in events if event["ph"] == "f"]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20))))
def test_no_two_spans_of_a_lane_overlap(times: list[tuple[int, int]]) -> None:
    spans = [
        ExportSpan(b"%d" % i, None, "", "client", at, at + for_)
        for i, (at, for_) in enumerate(times)
    ]
    lanes: dict[int, int] = {}
    for span, lane in laned(spans):
        assert lanes.get(lane, -1) <= span.start
        lanes[lane] = span.end
    peak = max(
        (sum(s.start <= at.start < max(s.end, s.start + 1) for s in spans) for at in spans),
        default=0,
    )
    assert len(lanes) <= peak


def test_texts_are_in_a_timeline_only_if_asked(tmp_path: Path) -> None:
    trace = Trace.open(with_canaries(tmp_path / "one.trace", {*PLACES} - {"path"}))
    assert CANARY not in json.dumps(timeline(trace))
    assert CANARY in json.dumps(timeline(trace, content=True))


def transcript(trace: Trace) -> str:
    return "\n".join(markdown.lines(trace))


def outside(text: str) -> str:
    """What of Markdown stands outside of fences."""
    found, fence = [], None
    for line in text.splitlines():
        match = re.match(r"^(`{3,})", line)
        if fence is None and match:
            fence = match[1]
        elif fence is not None:
            fence = None if line == fence else fence
        else:
            found.append(line)
    assert fence is None
    return "\n".join(found)


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_a_transcript_names_every_call_once(golden: Any, name: str) -> None:
    trace = golden(name)
    heads = [line for line in outside(transcript(trace)).splitlines() if line.startswith("## ")]
    assert heads == [
        f"## `{each.address}`"
        for each in sorted([*trace.calls, *trace.tools.values()], key=lambda each: each.position)
    ]


def test_a_shared_beginning_is_not_repeated(golden: Any) -> None:
    text = transcript(golden("tree"))
    assert text.count("You are a patient teacher") == 1
    assert "and then:*" in text


HOSTILE = [
    "```\n# head\n<script>alert(1)</script>",
    "`" * 40,
    "\x1b]0;x\x07",
    "[a](javascript:x)",
    "~~~\n<b>",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_recorded_text_is_no_markup_and_no_escape(tmp_path: Path, text: str) -> None:
    trace = Trace.open(made(tmp_path, 1, text=text, model=text, program="p`<i>"))
    shown = transcript(trace)
    assert "\x1b" not in shown
    left = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", outside(shown))
    for bad in ("<script", "<b>", "<i>", "](", "javascript"):
        assert bad not in left


def test_json_lines_read_back(golden: Any, project: Project) -> None:
    project.run("many")
    done = project.appl("trace", "export", "--jsonl", "run.jsonl", "--json")
    assert done.code == 0, done.err
    assert len(tape.read(project.folder / "run.jsonl").calls) == 3


def test_the_command_writes_each_form_once(project: Project) -> None:
    project.run("pair", "--first", "one")
    words = [
        "--otel-file",
        "o.jsonl",
        "--chrome",
        "c.json",
        "--markdown",
        "m.md",
        "--html",
        "v.html",
    ]
    done = project.appl("trace", "export", *words)
    assert done.code == 0, done.err
    assert (project.folder / "v.html").read_text().lstrip().lower().startswith("<!doctype html>")
    for name in ("o.jsonl", "c.json", "m.md", "v.html"):
        assert (project.folder / name).stat().st_mode & 0o777 == 0o600
    for line in (project.folder / "o.jsonl").read_text().splitlines():
        json.loads(line)
    json.loads((project.folder / "c.json").read_text())
    assert project.appl("trace", "export", "--html", "v.html").code == 2
    again = project.appl("trace", "export", "--markdown", "m.md")
    assert again.code == 2
    assert "exists already" in again.err
    assert project.appl("trace", "export", "--markdown", "-").out.startswith("# Run")
    assert project.appl("trace", "export").code == 2

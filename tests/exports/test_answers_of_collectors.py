"""Whatever a real collector answers: what an export says of it is what the collector has."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import pytest

from tests.housekeeping.conftest import made

from .conftest import Project, collector_process

CALLS = 600
SPANS = CALLS + 2
KEY = "canary-key-0123456789"
WHOLE = ("takes", "busy at first", "small requests only", "loses the first answer")
PARTLY = ("rejects some", "moved", "a page", "refuses, with the key", "hangs up")


@pytest.fixture
def run(project: Project, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"authorization=Bearer%20{KEY}")
    return made(project.folder / ".appl", 1, calls=CALLS).stem


def export(project: Project, run: str, way: str) -> tuple[int, dict[str, Any], dict[str, Any]]:
    """The exit code, what the export says, and what the collector has."""
    with collector_process(way) as url:
        words = ("trace", "export", run, "--otel", url, "--deadline", "5", "--json")
        done = project.appl(*words)
        with urllib.request.urlopen(url) as answer:
            facts = json.load(answer)
    assert KEY not in done.out + done.err
    return done.code, done.data["sent"], facts


@pytest.mark.parametrize("way", [*WHOLE, *PARTLY])
def test_no_answer_of_a_collector_loses_a_span_in_silence(
    project: Project, run: str, way: str
) -> None:
    code, sent, facts = export(project, run, way)
    assert (sent["arrived"], sent["rejected"]) == (facts["spans"], facts["rejected"])
    assert (code == 0) == (facts["spans"] == SPANS) == (way in WHOLE)
    assert code == 0 or sent["stopped"] or sent["said"]


def test_a_run_that_one_collector_refused_is_sent_whole_to_another(
    project: Project, run: str
) -> None:
    assert export(project, run, "refuses, with the key")[0] == 1
    first, second = (export(project, run, "takes")[2] for _ in range(2))
    assert first["ids"] == second["ids"] and first["spans"] == SPANS


@pytest.mark.parametrize("way", PARTLY)
def test_the_setting_says_what_a_collector_did_not_take(
    project: Project, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"authorization=Bearer%20{KEY}")
    with collector_process(way) as url:
        project.write("appl.toml", f'otel = "{url}"\n')
        done = project.run("many")
    assert done.code == 0
    assert "appl: sent " in done.err and KEY not in done.err

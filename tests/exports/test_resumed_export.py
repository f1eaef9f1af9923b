"""``appl trace export --otel``: it says how far it came, and the same command goes on from there."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path

import pytest

from appl.tracing.exporting.delivery import Batching
from tests.housekeeping.conftest import made

from .conftest import Collector, Project, collecting, collector_process

CALLS, LONG_CALLS = 3_000, 20_000
MEASURED = """
import sys
from appl.cli import main
try:
    code = main(sys.argv[1:])
except SystemExit as done:
    code = done.code
for line in open("/proc/self/status"):
    if line.startswith("VmHWM"):
        print("peak", line.split()[1], file=sys.stderr)
sys.exit(code)
"""


@pytest.fixture
def run(project: Project) -> str:
    return made(project.folder / ".appl", 1, calls=1200).stem


def notes(project: Project) -> list[Path]:
    return [*(project.folder / ".appl").rglob("*.sent")]


def test_what_did_not_arrive_is_said_and_the_same_command_goes_on(
    project: Project, run: str
) -> None:
    with collecting(200, 200, 400) as collector:
        words = ("trace", "export", run, "--otel", collector.url)
        first = project.appl(*words)
        assert first.code == 1
        assert "sent 1,024 of 1,202 spans (calls 1–1,022 of 1,200): the collector" in first.err
        assert first.err.endswith("; run the same command again to go on\n")
        (note,) = notes(project)
        assert note.stat().st_mode & 0o777 == 0o600
        again = project.appl(*words)
        assert (again.code, notes(project)) == (0, [])
        assert "sent 1,202 of 1,202 spans, 1,024 of them earlier, trace " in again.err
        ids = [span.span_id for span in collector.spans]
        assert len(ids) == len(set(ids)) == 1202


def test_from_start_sends_all_and_so_does_an_export_that_was_complete(
    project: Project, run: str
) -> None:
    with collecting(200, 400) as collector:
        words = ("trace", "export", run, "--otel", collector.url)
        assert project.appl(*words).code == 1
        assert project.appl(*words, "--from-start").code == 0
        assert len(collector.spans) == 512 + 1202
        assert project.appl(*words).code == 0
        assert len(collector.spans) == 512 + 1202 + 1202


def test_another_address_starts_at_the_beginning(project: Project, run: str) -> None:
    with collecting(200, 400) as one, collecting() as other:
        assert project.appl("trace", "export", run, "--otel", one.url).code == 1
        assert project.appl("trace", "export", run, "--otel", other.url).code == 0
        assert len(other.spans) == 1202


def test_json_says_what_arrived(project: Project, run: str) -> None:
    with collecting(200, 400) as collector:
        words = ("trace", "export", run, "--otel", collector.url, "--json")
        done = project.appl(*words)
        assert (done.code, done.err) == (1, "")
        sent = done.data["sent"]
        assert (sent["spans"], sent["arrived"], sent["calls_arrived"]) == (1202, 512, 510)
        assert "refused the spans (400)" in sent["stopped"]
        assert project.appl(*words).data["sent"]["earlier"] == 512


def test_rejected_spans_are_no_success(project: Project, run: str, collector: Collector) -> None:
    collector.rejected = 2
    done = project.appl("trace", "export", run, "--otel", collector.url)
    assert done.code == 1
    assert "sent 1,196 of 1,202 spans, 6 were rejected" in done.err


@pytest.mark.parametrize(
    "words",
    [("rm", "RUN", "--yes"), ("gc", "--runs", "1")],
)
def test_the_note_of_an_export_goes_with_its_run(
    project: Project, run: str, words: tuple[str, ...]
) -> None:
    newer = made(project.folder / ".appl", 2, calls=600).stem
    for each in (run, newer):
        with collecting(200, 400) as collector:
            assert project.appl("trace", "export", each, "--otel", collector.url).code == 1
    assert len(notes(project)) == 2
    done = project.appl("trace", *(run if word == "RUN" else word for word in words))
    assert done.code == 0, done.err
    (left,) = notes(project)
    with collecting() as collector:
        project.appl("trace", "export", newer, "--otel", collector.url, "--from-start")
        assert collector.spans[0].trace_id.hex() == left.name.split("-")[0]


def test_the_setting_names_the_command_that_goes_on(project: Project) -> None:
    with collecting(400) as collector:
        project.write("appl.toml", f'otel = "{collector.url}"\n')
        done = project.run("ask")
        assert done.code == 0
        command = re.search(r"`appl (trace export \S+ --otel \S+)` goes on", done.err)
        assert command is not None, done.err
        assert project.appl(*command[1].split()).code == 0
        assert len(collector.spans) > 1


@pytest.mark.parametrize(
    "words",
    [
        ("--chrome", "-", "--from-start"),
        ("--chrome", "-", "--deadline", "5"),
        *(("--otel", "http://127.0.0.1:9", "--deadline", each) for each in ("0", "-1", "nan")),
    ],
)
def test_options_that_cannot_be_are_refused(project: Project, words: tuple[str, ...]) -> None:
    made(project.folder / ".appl", 1)
    done = project.appl("trace", "export", *words)
    assert done.code == 2 and words[-1 if "--from-start" in words else -2] in done.err


@pytest.mark.parametrize("calls", [CALLS, pytest.param(LONG_CALLS, marks=pytest.mark.long)])
def test_many_calls_reach_a_collector_that_refuses_above_a_rate(
    calls: int, project: Project
) -> None:
    run = made(project.folder / ".appl", 1, calls=calls).stem
    with collector_process("takes", str(calls // 5), "0.3") as url:
        words = ("-c", MEASURED, "trace", "export", run, "--otel", url)
        first = project.python(*words, "--deadline", "1")
        again = project.python(*words)
        with urllib.request.urlopen(url) as answer:
            facts = json.load(answer)
    assert first.code == 1 and "run the same command again to go on" in first.err
    assert again.code == 0, again.err
    assert f"sent {calls + 2:,} of {calls + 2:,} spans" in again.err
    assert facts["spans"] == calls + 2
    assert facts["repeated"] <= Batching().spans  # of the request under way at the deadline
    assert facts["refused"] >= 4  # each time its queue is full
    for done in (first, again):
        assert int(done.err.split("peak ")[1]) < 300 << 10

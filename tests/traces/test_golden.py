"""Golden traces: every later version reads, shows and replays what a released one has written."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from appl.cli import main
from appl.errors import SecretInRecord, TraceTooNew, TraceWriteError
from appl.testing import Run
from appl.tracing import Recorder, Replayer, Trace, records
from appl.tracing.format import record
from appl.tracing.keeping import row_of

from . import make
from .programs import EDITS, PROGRAMS, SECRET

FOLDER = Path(__file__).parent
TRACES = sorted(FOLDER.glob("[0-9]*/*.trace"))
FORMATS = sorted(int(folder.name) for folder in FOLDER.glob("[0-9]*"))
KINDS = set("HITXBGMLNPSDACEVFRJOWZ!$")
SHUT = {"digests", "shared"}
"""Traces whose answers are not in them."""


def golden(path: Path) -> Any:
    return json.loads(path.with_suffix(".json").read_text("ascii"))


def unlike(found: Any, wanted: Any, at: str = "") -> list[str]:
    """Where *found* is not what *wanted* says; it may say more."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        gone = [f"{at}.{key} is missing" for key in wanted if key not in found]
        common = [key for key in wanted if key in found]
        return gone + [line for k in common for line in unlike(found[k], wanted[k], f"{at}.{k}")]
    if isinstance(wanted, list) and isinstance(found, list) and len(found) == len(wanted):
        pairs = enumerate(zip(found, wanted, strict=True))
        return [line for i, (f, w) in pairs for line in unlike(f, w, f"{at}[{i}]")]
    return [] if found == wanted else [f"{at}: {found!r:.80} is not {wanted!r:.80}"]


def replayed(path: Path, home: Path | None = None) -> Any:
    """What the program of *path* returns when the trace answers; its key is looked for at *home*."""
    replayer = Replayer(Trace.open(path, home=home))
    with make.environment(), Run(replayer.backend, instruments=[replayer], world=replayer) as run:
        run.reporter.tell = lambda line: None
        value = {**PROGRAMS, **EDITS}[make.OTHERS.get(path.stem, path.stem)]()
    replayer.finish()
    return make.plain(value)


def kinds(fields: Any) -> list[str]:
    return [fields[0], *kinds(fields[-1])] if fields[0] in "!$" else [fields[0]]


def test_there_is_a_golden_trace_of_every_format_and_every_kind_of_record() -> None:
    assert list(range(1, record.FORMAT + 1)) == FORMATS
    for number in FORMATS:
        here = [path for path in TRACES if path.parent.name == str(number)]
        assert {kind for path in here for each in records(path) for kind in kinds(each)} >= KINDS
        assert sum(path.stat().st_size for path in here) < 100_000


@pytest.mark.parametrize("path", TRACES, ids=lambda path: f"{path.parent.name}-{path.stem}")
class TestEvery:
    def test_golden_trace_reads_as_it_did(self, path: Path) -> None:
        assert unlike(make.read(path), golden(path)["trace"]) == []

    def test_golden_trace_replays_to_the_same_value(self, path: Path) -> None:
        if path.stem in SHUT:
            with pytest.raises(SecretInRecord):
                replayed(path, path.parent)
        else:
            assert replayed(path, path.parent) == golden(path)["value"]

    def test_golden_trace_is_shown_whole_and_call_by_call(self, path: Path) -> None:
        for call in [None, *Trace.open(path).calls]:
            out = io.StringIO()
            with redirect_stdout(out):
                assert main(["trace", "show", str(path), *([call.address] if call else [])]) == 0
            assert (call.address if call else path.stem) in out.getvalue()
            assert "\x1b" not in out.getvalue() and "\u202e" not in out.getvalue()

    def test_golden_trace_goes_on_in_a_copy(self, path: Path, tmp_path: Path) -> None:
        copy = tmp_path / path.name
        copy.write_bytes(path.read_bytes())
        before = make.read(copy)
        if path.stem == "shared":  # nobody has its key
            with pytest.raises(TraceWriteError, match="private"):
                Recorder(copy, {}, append=True, home=path.parent)
            return
        Recorder(copy, {}, append=True, reason="golden", home=path.parent).close()
        after = Trace.open(copy)
        assert after.torn == 0 and after.state == "finished"
        assert after.incarnations[-1].reason == "golden"
        assert unlike(make.read(copy), {"calls": before["calls"], "tools": before["tools"]}) == []

    def test_golden_trace_has_no_secret_and_no_machine(self, path: Path) -> None:
        data = repr(list(records(path))).encode("utf-8", "replace") + path.read_bytes()
        assert SECRET.encode() not in data
        assert {each.host for each in Trace.open(path).incarnations} == {"golden.example"}
        assert row_of(path).error == ""


def test_the_golden_traces_have_the_states_that_they_are_named_for() -> None:
    found = {path.stem: Trace.open(path) for path in TRACES if path.parent.name == "1"}
    assert found["tree"].state == "finished" and found["crashed"].state == "crashed"
    assert found["torn"].torn == 32 and found["torn"].state == "crashed"
    assert [i.reason for i in found["resumed"].incarnations] == ["run", "resume"]
    assert found["masked"].masked > 0
    assert {call.source for call in found["rerun"].calls} == {
        None, "reused", "shifted", "moved", "pinned",
    }  # fmt: skip


@pytest.mark.parametrize("name", [*make.PRIVATE, "shared"])
def test_a_private_golden_trace_holds_no_text_and_opens_with_its_key_alone(name: str) -> None:
    path = FOLDER / str(record.FORMAT) / f"{name}.trace"
    said = repr(list(records(path)))
    assert not [
        text for text in ("weather in", "Oslo", "12 degrees", "Let me look") if text in said
    ]
    shut, keyed = Trace.open(path), Trace.open(path, home=path.parent)
    assert (shut.private, shut.opened, keyed.opened) == (True, False, name == "redacted")
    with pytest.raises(SecretInRecord):
        replayed(path)


@pytest.mark.parametrize("name", make.names())
def test_records_written_today_look_like_the_golden_ones(name: str, tmp_path: Path) -> None:
    """A change of the format is declared: by making the golden traces again, or by a new number."""
    path = tmp_path / f"{name}.trace"
    value = make.made(name, path)
    kept = FOLDER / str(record.FORMAT) / f"{name}.trace"
    gone, new = make.shapes(kept) - make.shapes(path), make.shapes(path) - make.shapes(kept)
    assert not gone and not new, (
        f"records of {name} are not written as in format {record.FORMAT}: {sorted(new)} in place of "
        f"{sorted(gone)}; `python -m tests.traces.make` makes the golden traces of a format that is "
        "not released again, a released one needs a new number"
    )
    assert name == "observed" or value == golden(kept)["value"]  # its dice are not seeded


def test_a_format_of_the_future_is_refused_by_its_number(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    groups = make.blocks(FOLDER / "1" / "tree.trace")
    (kind, header), *rest = groups[0]
    for number in (record.FORMAT + 1, 1_000):
        make.rewritten(path, [[[kind, {**header, "format": number}], *rest], *groups[1:]])
        with pytest.raises(TraceTooNew, match=rf"format {number}; this version .* up to 1"):
            Trace.open(path)
        assert "format" in row_of(path).error
    path.write_bytes(b"APPLTRC7" + (FOLDER / "1" / "tree.trace").read_bytes()[8:])
    with pytest.raises(TraceTooNew, match="format 7"):
        Trace.open(path)


def test_every_beginning_of_a_golden_trace_opens(tmp_path: Path) -> None:
    whole = (FOLDER / "1" / "tools.trace").read_bytes()
    path = tmp_path / "a.trace"
    counts = []
    for size in range(0, len(whole), 7):
        path.write_bytes(whole[:size])
        counts.append(Trace.open(path).records)
    assert counts == sorted(counts) and counts[-1] > counts[0] == 0


@pytest.mark.parametrize("kind", "SEMNPX")
def test_a_changed_record_has_another_shape(kind: str, tmp_path: Path) -> None:
    """The control of what tells a change of the format: a field more, one less, another type."""
    kept = FOLDER / "1" / "tree.trace"
    path, known = tmp_path / "a.trace", make.shapes(kept)
    for change in (lambda f: [*f, 1], lambda f: f[:-1], lambda f: [*f[:-1], {"?": f[-1]}]):
        groups = [[change(e) if e[0] == kind else e for e in g] for g in make.blocks(kept)]
        make.rewritten(path, groups)
        assert make.shapes(path) != known


def test_kinds_of_record_that_are_not_known_are_passed_over(tmp_path: Path) -> None:
    kept, path = FOLDER / "1" / "tree.trace", tmp_path / "a.trace"
    groups = [[*group, ["?", {"a": None}], ["new kind", 1]] for group in make.blocks(kept)]
    make.rewritten(path, groups)
    assert make.read(path)["calls"] == make.read(kept)["calls"]

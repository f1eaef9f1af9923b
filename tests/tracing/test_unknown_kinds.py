"""A kind of record, or a field, that the filter does not know is never written in private."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

import appl
from appl.errors import TraceCorrupt, TraceWriteError
from appl.tracing import Recorder, Trace
from appl.tracing.format import MASKED, REDACTED, RunKey, block, block_file, codec
from appl.tracing.keeping import share
from appl.tracing.recording import SHARED, Veil
from tests.canaries.cage import asked

SAID = "my diagnosis"
NEW: list[list[Any]] = [
    ["K", 1, SAID],
    ["k", SAID],
    ["", SAID],
    ["T", 1, "prog.py", SAID],
    ["V", 1, 2, SAID],
    ["O", "/o.0", 0, "now", 1.5, 2, SAID],
    ["M", 1, "user", "x", {"mood": SAID}],
    ["E", 1, 0, [[], [1, 2, 3], "m", None, None], 5, {"first": 1, "thought": SAID}],
    ["A", 1, 1, ["E", "E", "x", [], {"diagnosis": SAID}], 3, 4],
    [MASKED, [REDACTED], ["K", 1, SAID]],
    ["H", {"format": 1, "mood": SAID}],
    ["H", {"format": 1, "entry": {"kind": "cli", "thought": SAID}}],
]


@pytest.mark.parametrize("mode", ["redacted", "digests", SHARED])
@pytest.mark.parametrize("fields", NEW, ids=lambda fields: str(fields[0]))
def test_what_the_filter_does_not_know_is_refused(fields: list[Any], mode: Any) -> None:
    pytest.importorskip("cryptography")
    with pytest.raises(ValueError, match="may hold a text"):
        Veil(mode, RunKey(bytes(32))).filter([codec.pack(fields)])


@pytest.mark.parametrize("mode", ["redacted", "digests"])
def test_a_private_run_ends_when_it_would_record_what_is_not_known(
    tmp_path: Path, mode: Any
) -> None:
    recorder = Recorder(tmp_path / "one.trace", privacy=mode, home=tmp_path)
    recorder.writer.append(codec.pack(NEW[0]))
    with pytest.raises(TraceWriteError, match="not known"):
        recorder.close()
    assert SAID.encode() not in (tmp_path / "one.trace").read_bytes()


@pytest.mark.parametrize("mode", ["redacted", "digests"])
def test_a_private_run_does_not_begin_with_a_header_that_is_not_known(
    tmp_path: Path, mode: Any
) -> None:
    with pytest.raises(TraceWriteError, match="'mood' is not known"):
        Recorder(tmp_path / "one.trace", {"mood": SAID}, privacy=mode, home=tmp_path)
    assert SAID.encode() not in (tmp_path / "one.trace").read_bytes()


@pytest.mark.parametrize("mode", ["redacted", "digests"])
def test_the_header_of_every_run_is_known(tmp_path: Path, mode: Any) -> None:
    """A key that is added to it needs a decision here: may it say what is talked about?"""
    with contextlib.chdir(tmp_path):
        with appl.record("one.trace", privacy=mode, backend="appl.testing:Echo"):
            str(asked("Hello"))
        assert {"entry", "settings", "privacy"} <= set(Trace.open("one.trace").header)


@pytest.mark.parametrize("content", [False, True])
def test_what_is_not_known_is_not_shared(tmp_path: Path, content: bool) -> None:
    made = tmp_path / "one.trace"
    records = b"".join(codec.pack(each) for each in (["H", {"format": 1}], NEW[0]))
    made.write_bytes(block.MAGIC + block_file.Encoder().block(records))
    with pytest.raises(TraceCorrupt, match="not known"):
        share(made, tmp_path / "two.trace", content=content)
    assert not (tmp_path / "two.trace").exists()

"""A stranger's sealed records: any bytes give a trace or a ``TraceError``, with a key and without."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from drawn import counts
from hypothesis import given, settings, strategies as st

from appl.errors import TraceError
from appl.tracing import Trace
from appl.tracing.format import Sealer, block, block_file, codec, keys
from appl.tracing.keeping import share, verify

HEADER = {"format": 1, "program": "p"}
INCARNATION = ("I", 0, 1, "h", "run", 10**18, 1)

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=4) | st.binary(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=8,
)  # fmt: skip
tags = st.sampled_from(list("HITXBGMLNPSDACEVFROWZU!$"))
shown = st.tuples(tags, plain, plain).map(list) | plain
sealed = st.tuples(
    st.just("$"), st.binary(max_size=60) | plain, st.lists(st.text(max_size=3)) | plain, shown
)
headers = st.fixed_dictionaries(
    {"format": st.just(1)},
    optional={
        "privacy": plain | st.fixed_dictionaries(
            {"mode": st.sampled_from(["redacted", "digests", "shared"]) | plain,
             "key": st.sampled_from(["0" * 16, "../x", "KEY"]) | plain}),
        "entry": plain, "settings": plain, "parent": plain,
    },
)  # fmt: skip


def written(path: Path, records: list[Any]) -> Path:
    encoder = block_file.Encoder()
    raw = b"".join(codec.pack(record) for record in records)
    path.write_bytes(block.MAGIC + encoder.block(raw))
    return path


@counts(100, 1000)
def test_any_sealed_record_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, count: int
) -> None:
    @settings(max_examples=count)
    @given(headers, st.lists(sealed, max_size=4), st.booleans())
    def check(header: dict[str, Any], more: list[Any], own: bool) -> None:
        read_or_refused(tmp_path_factory.mktemp("hostile"), header, more, own)

    check()


def read_or_refused(folder: Path, header: dict[str, Any], more: list[Any], own: bool) -> None:
    key = keys.make(folder)
    privacy = header.get("privacy")
    if isinstance(privacy, dict) and privacy.get("key") == "KEY":
        privacy["key"] = key.identity
    records: list[Any] = [("H", header), INCARNATION, *more]
    if own:  # what only the owner of the key can have sealed, and yet is no record
        record, beside = codec.pack(more), codec.pack(["T", 1, "x"])
        records.append(("$", Sealer(key).seal(record, beside), [], ["T", 1, "x"]))
    path = written(folder / "one.trace", records)
    for home in (None, folder):
        with contextlib.suppress(TraceError):
            Trace.open(path, home=home).as_data()
        verify(path, home)
    with contextlib.suppress(TraceError):
        share(path, folder / "two.trace")

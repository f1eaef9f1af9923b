from __future__ import annotations

import io
import json
from dataclasses import dataclass

import pytest

from appl.cli.terminal import as_json, columns, one_line, say, show, term_safe


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("plain", "plain"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bPdevice\x1b\\x", "x"),
        ("\x9b2Jx", "x"),
        ("\x1bcx", "x"),
        ("over\rwritten", "overwritten"),
        ("dos\r\nline", "dos\nline"),
        ("nul\0bell\a", "nulbell"),
        ("\u202egnitirw", "gnitirw"),
        ("\ud800", "\ufffd"),
        ("naïve – ✓ 漢字", "naïve – ✓ 漢字"),
        ("\x1b[31", ""),
    ],
)
def test_model_text_cannot_command_the_terminal(text: str, safe: str) -> None:
    assert term_safe(text) == safe


def test_a_line_is_cut_with_an_ellipsis() -> None:
    assert one_line("a\nb", 10) == "a b"
    assert one_line("x" * 50, 10) == "x" * 9 + "…"
    assert len(one_line("word " * 10_000_000, 10)) == 10


def test_values_are_shown_as_a_human_reads_them() -> None:
    assert show(None) == ""
    assert show(["a", 1, None, ["b"]]) == 'a\n1\n\n["b"]'
    assert show({"k": "ü"}) == '{\n  "k": "ü"\n}'


def test_json_is_ascii_and_knows_no_nan() -> None:
    @dataclass
    class Point:
        x: float

    text = as_json({"p": Point(1.5), "n": float("nan"), "s": "\ud800ü", 3: {1}})
    assert text.isascii()
    assert json.loads(text) == {"p": {"x": 1.5}, "n": "nan", "s": "\ud800ü", "3": [1]}


def test_columns_align_and_are_safe() -> None:
    assert columns([("a", "x"), ("long", "\x1b[2Jy")]) == ["a     x", "long  y"]
    assert columns([]) == []


def test_a_stream_that_knows_no_unicode_is_no_reason_to_fail() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, "ascii")
    say("naïve ✓", stream)
    assert raw.getvalue() == b"na?ve ?\n"

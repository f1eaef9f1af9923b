"""Texts that prompts are often laid out with."""

from __future__ import annotations

INDENT2 = " " * 2
INDENT4 = " " * 4
INDENT8 = " " * 8
INDENT_TAB = "\t"
INDENT = INDENT4
"""The default indentation of lists."""

STAR = "*"
DASH = "-"
SHARP = "#"
SHARP2 = "##"
SHARP3 = "###"
SHARP4 = "####"

NEWLINE = "\n"
EMPTY = ""

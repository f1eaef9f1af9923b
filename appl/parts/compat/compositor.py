"""The compositors under one name: ``from appl.compositor import *``."""

from __future__ import annotations

from appl.parts.compat.const import INDENT
from appl.prompt import Indexing
from appl.runtime.prompts.compositor import (
    ApplStr,
    Compositor,
    DashList,
    DoubleLineSeparated,
    IndentedList,
    InlineTagged,
    LineSeparated,
    Logged,
    LowerLetterList,
    LowerRomanList,
    NoIndent,
    NumberedList,
    StarList,
    Tagged,
    UpperLetterList,
    UpperRomanList,
    empty_line,
    iter,
)
from appl.runtime.prompts.prompt_context import PromptContext, need_ctx

Str = ApplStr
LetterList = UpperLetterList
RomanList = UpperRomanList

__all__ = [
    "INDENT",
    "ApplStr",
    "Compositor",
    "DashList",
    "DoubleLineSeparated",
    "IndentedList",
    "Indexing",
    "InlineTagged",
    "LetterList",
    "LineSeparated",
    "Logged",
    "LowerLetterList",
    "LowerRomanList",
    "NoIndent",
    "NumberedList",
    "PromptContext",
    "RomanList",
    "StarList",
    "Str",
    "Tagged",
    "UpperLetterList",
    "UpperRomanList",
    "empty_line",
    "iter",
    "need_ctx",
]

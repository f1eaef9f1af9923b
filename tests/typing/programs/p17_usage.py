"""What an answer knows besides its text."""

from __future__ import annotations

from typing import assert_type

from appl import Text, gen
from appl.backend import Usage

answer = gen()
assert_type(answer.usage, Usage)
assert_type(answer.cost, int | None)
assert_type(answer.finish_reason, str)
assert_type(answer.samples, tuple[Text, ...])
assert_type(answer.result(), Text)
assert_type(answer.upper(), str)
answer.uper()  # type: ignore[attr-defined]

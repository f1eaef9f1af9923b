"""Any JSON, and a JSON schema."""

from __future__ import annotations

from typing import Any, assert_type

from appl import gen, ppl


@ppl
def facts() -> dict[str, Any]:
    "Some facts."
    return gen(response_format="json")


@ppl
def table() -> list[dict[str, int]]:
    "A table."
    return gen(response_format={"type": "array"})


assert_type(facts(), dict[str, Any])
assert_type(table()[0]["a"], int)

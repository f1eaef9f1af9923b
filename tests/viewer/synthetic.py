"""A run of any number of calls without a trace: what a page is told of it, made up."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from appl.tracing.viewer.rows import NUMBERS, OUTCOMES, PAGE


class Synthetic:
    """Answers as ``Views`` does, of *calls* calls in scopes of a hundred."""

    def __init__(self, calls: int) -> None:
        self.calls = calls

    def document(self, name: str, asked: Mapping[str, str]) -> Any:
        """The document of that name."""
        if name == "runs":
            return ["a"]
        return getattr(self, name.removeprefix("a/"))(asked)

    def json(self, name: str, asked: Mapping[str, str]) -> bytes:
        return json.dumps(self.document(name, asked)).encode()

    def run(self, asked: Mapping[str, str]) -> dict[str, Any]:
        empty: dict[str, Any] = dict.fromkeys(("reason", "error", "began", "damage"), "")
        numbers = dict.fromkeys(("observations", "records", "masked", "torn"), 0)
        lists: dict[str, Any] = {"warnings": [], "processes": [], "outcomes": OUTCOMES}
        return {"name": "synthetic", "state": "finished", **empty, **numbers, **lists, "header": {}}

    def rows(self, asked: Mapping[str, str]) -> dict[str, Any]:
        since = int(asked["since"])
        rows = range(since, min(since + PAGE, self.calls))
        columns: dict[str, list[int]] = {name: [0] * len(rows) for name in NUMBERS}
        columns["outcome"] = [1 if row % 100 else 2 for row in rows]
        columns["started"] = [row // 64 * 1000 for row in rows]
        columns["asked"] = [row // 64 * 1000 + 100 for row in rows]
        columns["ended"] = [row // 64 * 1000 + 900 + row % 90 for row in rows]
        return {
            "next": rows.stop, "more": rows.stop < self.calls, "size": self.calls,
            "rows": list(rows), "strings": ["gen"], **columns,
            "address": [f"/main.0/part.{row // 100}/gen.{row % 100}" for row in rows],
            "said": [f"answer {row}" for row in rows],
            "uses": [[row - 1] if row % 100 else [] for row in rows],
        }  # fmt: skip

    def scopes(self, asked: Mapping[str, str]) -> dict[str, Any]:
        return {"address": [], "where": [], "arguments": [], "next": 0, "ends": [], "left": 0}

    def call(self, asked: Mapping[str, str]) -> dict[str, Any]:
        row = int(asked["row"])
        return {
            "row": row, "address": f"/main.0/part.{row // 100}/gen.{row % 100}", "where": "p.py:1",
            "kind": "gen", "outcome": "answered", "error": None, "masked": [], "messages": [],
        }  # fmt: skip

    def messages(self, asked: Mapping[str, str]) -> list[Any]:
        return []

    def search(self, asked: Mapping[str, str]) -> dict[str, Any]:
        rows = list(range(0, self.calls, 2))
        return {"rows": rows, "where": [4] * len(rows), "next": -1}

    def costs(self, asked: Mapping[str, str]) -> dict[str, Any]:
        kinds = ("spent", "reused", "in_doubt", "estimated")
        return {kind: {"calls": 0, "cost": None, "unknown": {}} for kind in kinds}

    def evaluations(self, asked: Mapping[str, str]) -> list[Any]:
        return []

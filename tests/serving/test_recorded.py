"""Answers have the very keys and values that a real SGLang gave for the same requests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from appl.testing import Served, serving

from .recorded import ANSWERS, CASES, ask

ABOUT = 5e-3  # nats: kernels of other makers round in other ways
FULLER = "prompt_tokens_details"  # theirs is null where no token was cached, ours says so


@pytest.fixture(scope="module")
def fresh() -> Iterator[Served]:
    with serving() as server:
        yield server


def differences(theirs: Any, ours: Any, place: str = "") -> Iterator[str]:
    """Where two answers are not the same."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in theirs.keys() | ours.keys():
            if key not in theirs or key not in ours:
                yield f"{place}.{key} is only {'ours' if key in ours else 'theirs'}"
            elif key != FULLER:
                yield from differences(theirs[key], ours[key], f"{place}.{key}")
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for at, (one, other) in enumerate(zip(theirs, ours, strict=True)):
            yield from differences(one, other, f"{place}[{at}]")
    elif isinstance(theirs, float) and isinstance(ours, float):
        if abs(theirs - ours) > ABOUT:
            yield f"{place}: {theirs}, ours {ours}"
    elif theirs != ours:
        yield f"{place}: {theirs!r:.300}, ours {ours!r:.300}"


def test_every_answer_is_that_of_the_real_server(fresh: Served) -> None:
    recorded = json.loads(ANSWERS.read_text("utf-8"))["answers"]
    assert [(path, body) for path, body, *_ in recorded] == CASES
    for path, body, *theirs in recorded:
        ours = ask(fresh.url, fresh.admin_headers, path, body)
        if path == "/flush_cache":
            assert theirs[0] == ours[0]
        else:
            assert list(differences(theirs, ours)) == [], (path, body)

"""Hostile cases, asked through a run of the product; what came of each is counted."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from appl import gen, ppl
from appl.errors import BackendError
from appl.testing import Deadlines, Policy, Retries
from appl_backends.embedded import WEIGHTS
from appl_backends.openai import OpenAI
from tests.faults.storm import CLIENTS
from tests.providers.asking import using
from tests.servers.matrix import Case, RawServer, http

LONGEST_S = 20.0
"""The deadline of each question; none of those here should come near it, the slow ones aside."""

ONCE = Policy(
    retries=Retries(attempts=1, patience_s=0.0), adaptive=False, circuit=None,
    deadlines=Deadlines(total_s=LONGEST_S),
)  # fmt: skip


ASKED = {
    **CLIENTS,
    "openai": lambda server: OpenAI(base_url=server.openai_url, model=server.model, features=["n"]),
}


@ppl
def ask(number: int, stream: bool, wanted: int, seconds: float) -> Any:
    f"question {number}"
    return gen(stream=stream, n=wanted, timeout=seconds)


@dataclass
class Found:
    """What came of questions: kinds of ends by name of the client; what may not come is listed."""

    kinds: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    asked: int = 0
    slowest: float = 0.0

    def add(self, other: Found) -> None:
        """Count what *other* has found, too."""
        self.kinds += other.kinds
        self.wrong += other.wrong
        self.asked += other.asked
        self.slowest = max(self.slowest, other.slowest)


def found_in(
    client: str, cases: Iterable[Case], stream: bool, wanted: int = 1, seconds: float = LONGEST_S
) -> Found:
    """Ask *client* for each of *cases*, one after the other, in one run."""
    found, listed = Found(), list(cases)
    with RawServer(listed, model_path=str(WEIGHTS)) as server:
        with using(ASKED[client](server), policy=ONCE):
            for number, case in enumerate(listed):
                since = time.monotonic()
                kind = _end(number, stream, wanted, seconds)
                took = time.monotonic() - since
                found.kinds[kind] += 1
                found.slowest = max(found.slowest, took)
                if kind.startswith("untyped") or took > seconds + 1:
                    found.wrong.append(
                        f"{client}, {case.name}: {kind} after {took:.1f} s: {case.raw[:300]!r}"
                    )
        found.asked = server.answered.total()
    return found


def found_of_slow(client: str, cases: Iterable[Case], stream: bool, seconds: float) -> Found:
    """Ask *client* for all of *cases* at once, each with a deadline of so many *seconds*.

    Its libraries are imported before, for an answer that does not count.
    """
    found, listed = Found(), list(cases)
    first = Case("first", http(b"", "text/plain", 500))
    with RawServer([first, *listed], model_path=str(WEIGHTS)) as server:
        with using(ASKED[client](server), policy=ONCE):
            assert _end(-1, stream, 1, LONGEST_S) == "BackendUnavailable"
            since = time.monotonic()
            answers = [ask(number, stream, 1, seconds) for number in range(len(listed))]
            for answer in answers:
                found.kinds[_end_of(answer)] += 1
            found.slowest = time.monotonic() - since
        found.asked = server.answered.total() - 1
    return found


def _end(number: int, stream: bool, wanted: int, seconds: float) -> str:
    return _end_of(ask(number, stream, wanted, seconds))


def _end_of(answer: Any) -> str:
    try:
        str(answer)
    except BackendError as error:
        return type(error).__name__
    except Exception as error:
        return f"untyped {type(error).__name__}: {error}"
    return "ok"

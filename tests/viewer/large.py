"""A large run, made by events: chats in parallel that share a beginning, on two models."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

from appl.backend import Request, Response, Sample, Sampling, Usage
from appl.errors import BackendBusy
from appl.prompt import Message, Messages
from appl.testing import (
    AttemptFailed,
    CallDispatched,
    CallEnded,
    CallStarted,
    Delivered,
    Event,
    ScopeEntered,
)
from appl.tracing import Recorder

WORDS = ("the", "river", "of", "and", "was", "slow", "that", "he", "saw", "from", "her", "house")
TURNS, LANES = 10, 64
_MS = 1_000_000


def large_trace(path: Path, calls: int, seed: int = 1) -> Path:
    """A finished run of about *calls* calls, as chats of ten turns with 5 kB in common."""
    recorder = Recorder(path, {"program": "large"})
    for event in events(calls, seed):
        recorder.on_event(event)
        recorder.gate()
    recorder.close()
    return path


def events(calls: int, seed: int = 1) -> Iterator[Event]:
    """What happens in such a run, with times of its own."""
    dice = random.Random(seed)
    shared = Message("system", _text(dice, 900))
    base = time.monotonic_ns()
    free = [base] * LANES
    yield ScopeEntered("/main.0", "", "main", "program.py", 3, base)
    for chat in range(max(calls // TURNS, 1)):
        scope = f"/main.0/chat.{chat}"
        lane = chat % LANES
        yield ScopeEntered(scope, "/main.0", "chat", "program.py", 9, free[lane])
        chain: Messages | None = Messages.of([shared])
        edges: tuple[str, ...] = ()
        for turn in range(TURNS):
            chain = Messages(chain, Message("user", _text(dice, 12)))
            answer = _text(dice, 20)
            address = f"{scope}/gen.{turn}"
            model = "big/model" if chat % 3 else "small/model"
            request = Request(address, turn, model, chain, Sampling(temperature=0.5))
            began = free[lane]
            free[lane] += dice.randrange(20, 400) * _MS
            yield from _call(request, edges, answer, began, free[lane], dice)
            chain = Messages(chain, Message("assistant", answer))
            edges = (*edges, address)


def _call(
    request: Request,
    edges: tuple[str, ...],
    answer: str,
    began: int,
    ended: int,
    dice: random.Random,
) -> Iterator[Event]:
    asked = began + (ended - began) // 5
    yield CallStarted(request, "gen", edges, "program.py", 12, began)
    yield CallDispatched(request.address, 1, asked)
    if not dice.randrange(50):
        yield AttemptFailed(request.address, 1, BackendBusy("busy"), asked + _MS, 5 * _MS)
        yield CallDispatched(request.address, 2, asked + 2 * _MS)
    if not dice.randrange(500):
        yield CallEnded(request.address, None, BackendBusy("busy for long"), ended)
    else:
        turns = len(edges)
        used = Usage(1200 + 45 * turns, 25, 1180 + 40 * turns if turns else 1100)
        response = Response((Sample(answer, "stop"),), used, request.model, cost=120)
        yield CallEnded(request.address, response, None, ended)
    yield Delivered(request.address, ended)


def _text(dice: random.Random, words: int) -> str:
    return " ".join(dice.choice(WORDS) + str(dice.randrange(1000)) for _ in range(words))

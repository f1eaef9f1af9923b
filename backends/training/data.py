"""Packed training batches, made by worker processes from the seeded generator; the same seed gives the same conversations."""

from __future__ import annotations

import multiprocessing as mp
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import generator
import numpy as np
from chat import ASSISTANT, BOS, CALL, END, ROLES
from numpy.typing import NDArray
from skills.core import Example, Message
from tokenizers import Tokenizer

CHUNK = 2000
SHORT, LONG = 512, 1536
PROMPT_WEIGHT = 0.03


class Batch(NamedTuple):
    """One packed row: ids, how much each counts, where conversations start, the longest that may occur."""

    ids: NDArray[np.uint16]
    factors: NDArray[np.float16]
    starts: NDArray[np.int32]
    longest: int


Focus = dict[str, float] | None
"""Skills whose share is multiplied."""
Segment = tuple[int, str, float]
"""(role token or -1 for none, text, weight)."""


def _cut(rng: random.Random, text: str) -> tuple[str, str]:
    """Text cut somewhere, half of the time behind a space."""
    spaces = [i + 1 for i, c in enumerate(text) if c == " " and i + 1 < len(text)]
    at = rng.choice(spaces) if spaces and rng.random() < 0.5 else rng.randrange(1, len(text))
    return text[:at], text[at:]


def segments(
    rng: random.Random, conversation: list[Message]
) -> list[list[tuple[list[int], str, float]]]:
    """A conversation as pieces: tokens before, text, weight of the text."""
    out: list[list[tuple[list[int], str, float]]] = []
    spoken = [
        i for i, (role, text) in enumerate(conversation) if role == "assistant" and len(text) > 1
    ]
    cut = rng.choice(spoken) if spoken and rng.random() < 0.3 else -1
    for i, (role, text) in enumerate(conversation):
        if role == "call":
            out.append([([ASSISTANT, CALL], text, 1.0)])
        elif i == cut:
            head, tail = _cut(rng, text)
            out.append([([ASSISTANT], head, 0.0), ([], tail, 1.0)])
        else:
            out.append([([ROLES[role]], text, 1.0 if role == "assistant" else PROMPT_WEIGHT)])
    return out


def joined(rng: random.Random, examples: Iterator[Example]) -> Iterator[list[Message]]:
    """Whole conversations; some are several tasks in one chat, which makes long ones."""
    waiting: list[Message] = []
    room = 0
    for example in examples:
        whole = generator.conversation(example)
        if whole[0][0] != "system" and (waiting or rng.random() < 0.06):
            room = room - 1 if waiting else rng.randrange(1, 9)
            waiting += whole
            if room <= 0:
                yield waiting
                waiting = []
        else:
            yield whole


def encoded(
    tokenizer: Tokenizer, seed: str, number: int, focus: Focus = None
) -> Iterator[tuple[list[int], list[float]]]:
    """Conversations as ids and weights."""
    rng = random.Random(f"pack-{seed}")
    chats = [segments(rng, c) for c in joined(rng, generator.training(seed, number, focus))]
    texts = [text for chat in chats for message in chat for _, text, _ in message]
    codes = iter(tokenizer.encode_batch_fast(texts, add_special_tokens=False))
    for chat in chats:
        ids, factors = [BOS], [0.0]
        for message in chat:
            scale = PROMPT_WEIGHT
            for before, _, weight in message:
                ids += before
                factors += [weight if b == CALL else 0.0 for b in before]
                code = next(codes).ids
                ids += code
                scale = (
                    weight * min(2.5, max(0.7, (14 / (len(code) + 1)) ** 0.5))
                    if weight == 1.0
                    else weight
                )
                factors += [scale] * len(code)
            ids.append(END)
            factors.append(scale)
        yield ids, factors


def _packed(rows: list[tuple[list[int], list[float]]], size: int, longest: int) -> Batch:
    ids, factors = np.zeros(size, np.uint16), np.zeros(size, np.float16)
    starts = np.full(size // 32, size, np.int32)
    at = 0
    for i, (row, weight) in enumerate(rows):
        n = min(len(row), size - at)
        starts[i] = at
        ids[at : at + n], factors[at : at + n] = row[:n], weight[:n]
        at += n
    return Batch(ids, factors, starts, longest)


def batches(tokenizer: Tokenizer, seed: str, size: int, focus: Focus = None) -> Iterator[Batch]:
    """Packed rows without end."""
    kept: dict[int, tuple[list[tuple[list[int], list[float]]], int]] = {
        SHORT: ([], 0),
        LONG: ([], 0),
    }
    for turn in range(10**9):
        for ids, factors in encoded(tokenizer, f"{seed}-{turn}", CHUNK, focus):
            ids, factors = ids[:LONG], factors[:LONG]
            kind = SHORT if len(ids) <= SHORT else LONG
            rows, total = kept[kind]
            rows.append((ids, factors))
            kept[kind] = (rows, total + len(ids))
            if total + len(ids) >= size:
                yield _packed(rows, size, kind)
                kept[kind] = ([], 0)


def even_batches(
    tokenizer: Tokenizer, seed: str, size: int, focus: Focus = None
) -> Iterator[Batch]:
    """Rows of equal length, conversations of like length together: for machines without packed attention."""
    rng = random.Random(f"even-{seed}")
    for turn in range(10**9):
        rows = sorted(
            (r for r in encoded(tokenizer, f"{seed}-{turn}", CHUNK, focus) if len(r[0]) <= SHORT),
            key=lambda r: len(r[0]),
        )
        made = []
        at = 0
        while at < len(rows):
            end = at + 1
            while end < len(rows) and len(rows[end][0]) * (end + 1 - at) <= size:
                end += 1
            made.append(_even(rows[at:end]))
            at = end
        rng.shuffle(made)
        yield from made


def _even(rows: list[tuple[list[int], list[float]]]) -> Batch:
    length = max(len(ids) for ids, _ in rows)
    ids, factors = (
        np.full((len(rows), length), 7, np.uint16),
        np.zeros((len(rows), length), np.float16),
    )
    for i, (row, weight) in enumerate(rows):
        ids[i, : len(row)], factors[i, : len(row)] = row, weight
    return Batch(
        ids.ravel(), factors.ravel(), np.arange(len(rows), dtype=np.int32) * length, length
    )


def _work(path: str, seed: str, size: int, even: bool, focus: Focus, queue: Any) -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    tokenizer = Tokenizer.from_file(path)
    tokenizer.encode_special_tokens = True
    for batch in (even_batches if even else batches)(tokenizer, seed, size, focus):
        queue.put(batch)


def stream(
    path: Path, seed: int, size: int, workers: int, even: bool = False, focus: Focus = None
) -> Iterator[Batch]:
    """Batches from worker processes, in turn, so that the order depends on the seed alone."""
    context = mp.get_context("spawn")
    queues = [context.Queue(maxsize=40) for _ in range(workers)]
    for i, queue in enumerate(queues):
        context.Process(
            target=_work, args=(str(path), f"{seed}-{i}", size, even, focus, queue), daemon=True
        ).start()
    while True:
        for queue in queues:
            yield queue.get()

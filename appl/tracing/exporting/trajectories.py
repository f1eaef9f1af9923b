"""Answers as token ids for training: what each prompt and answer was at the server, and how likely.

Two forms of JSON lines: rows, one for each answer; and a tree, in which what several answers have
in common is stored once, with ``read`` to make the rows of it again.

Invariant: ids are those that were recorded. An answer without them is named, and is never encoded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from appl.backend.tokens import unpack_ids, unpack_logprobs
from appl.errors import NotATrace, TraceCorrupt
from appl.tracing.reading.process_records import ProcessRecords
from appl.tracing.reading.reader import StoredCall
from appl.tracing.reading.trace import Trace

FORMAT = "appl trajectories 1"


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One generated answer to one prompt, in token ids.

    ``completion_ids`` are all generated ids, those that ended the answer included; ``logprobs`` are
    their natural log-probabilities, or ``None``. ``call`` is the address of the call, ``sample``
    the number of the answer among those of the call.
    """

    call: str
    sample: int
    model: str
    finish_reason: str
    prompt_ids: list[int]
    completion_ids: list[int]
    logprobs: list[float] | None

    @property
    def input_ids(self) -> list[int]:
        """The prompt and the answer."""
        return [*self.prompt_ids, *self.completion_ids]

    @property
    def loss_mask(self) -> list[int]:
        """For each of ``input_ids``, 1 where the model generated it, and 0 in the prompt."""
        return [0] * len(self.prompt_ids) + [1] * len(self.completion_ids)


@dataclass(frozen=True, slots=True)
class WithoutIds:
    """A call, or one of its answers, of which no ids are recorded."""

    call: str
    why: str


def trajectories(trace: Trace) -> Iterator[Trajectory | WithoutIds]:
    """The answers of *trace* in the order of its calls. Raises ``TraceCorrupt``."""
    prompts = _Prompts()
    for call in trace.calls:
        try:
            assert isinstance(call, StoredCall)  # as all calls of a file
            allowance = call.process.stored.allowance
            taken = allowance.used
            found = list(_of_call(call, prompts))
            allowance.used = taken  # of what was read for this call nothing is kept
        except (ValueError, TypeError, LookupError) as error:
            raise TraceCorrupt(f"{trace.path}: the token ids of {call.address}: {error}") from None
        yield from found


def row_lines(trace: Trace) -> Iterator[str]:
    """A line of JSON for each answer: a row for a trainer. Those without ids are left out."""
    for found in trajectories(trace):
        if isinstance(found, Trajectory):
            yield _as_json(
                {
                    "call": found.call,
                    "sample": found.sample,
                    "model": found.model,
                    "finish_reason": found.finish_reason,
                    "prompt_ids": found.prompt_ids,
                    "completion_ids": found.completion_ids,
                    "logprobs": found.logprobs,
                    "input_ids": found.input_ids,
                    "loss_mask": found.loss_mask,
                }
            )


def tree_lines(trace: Trace) -> Iterator[str]:
    """The lines of the tree: a header, nodes after their parents, answers, calls without ids."""
    root, ends, others = (
        _TreeNode(None, []),
        list[tuple[Trajectory, _TreeNode]](),
        list[WithoutIds](),
    )
    for found in trajectories(trace):
        if isinstance(found, Trajectory):
            ends.append((found, root.add(found.input_ids)))
        else:
            others.append(found)
    about = {"run": trace.path.stem, "rows": len(ends), "without_ids": len(others)}
    yield _as_json({"format": FORMAT, **about})
    for number, node in enumerate(root.below()):
        node.number = number
        parent = node.parent.number if node.parent is not None else None
        yield _as_json({"node": number, "parent": parent, "ids": node.ids})
    for row, node in ends:
        yield _as_json(
            {
                "call": row.call,
                "sample": row.sample,
                "model": row.model,
                "finish_reason": row.finish_reason,
                "end": node.number,
                "prompt_length": len(row.prompt_ids),
                "logprobs": row.logprobs,
            }
        )
    for other in others:
        yield _as_json({"call": other.call, "why": other.why})


def read(path: Path | str) -> Iterator[Trajectory]:
    """The answers in a file that holds a tree. Raises ``NotATrace``, ``TraceCorrupt``."""
    with Path(path).open(encoding="utf-8") as file:
        header = next(file, "")
        if f'"{FORMAT}"' not in header:
            raise NotATrace(f"{path} is no tree of `appl trace export --train`")
        nodes: list[tuple[int | None, list[int]]] = []
        for number, line in enumerate(file, 2):
            try:
                told = json.loads(line)
                if "node" in told:
                    nodes.append((told["parent"], told["ids"]))
                elif "end" in told:
                    yield _row(told, nodes)
            except (ValueError, TypeError, LookupError, RecursionError) as error:
                raise TraceCorrupt(f"{path}, line {number}: {error!r}") from None


def _row(told: dict[str, Any], nodes: Sequence[tuple[int | None, list[int]]]) -> Trajectory:
    parts: list[list[int]] = []
    at: int | None = told["end"]
    while at is not None:
        parent, ids = nodes[at]
        if parent is not None and parent >= at:
            raise ValueError(f"node {at} stands before its parent")
        parts.append(ids)
        at = parent
    whole = [number for ids in reversed(parts) for number in ids]
    length, about = told["prompt_length"], (told["call"], told["sample"], told["model"])
    return Trajectory(
        *about, told["finish_reason"], whole[:length], whole[length:], told["logprobs"]
    )


class _TreeNode:
    """Some ids that follow those of a parent; no two nodes below one begin with the same id."""

    __slots__ = ("children", "ids", "number", "parent")

    def __init__(self, parent: _TreeNode | None, ids: list[int]) -> None:
        self.parent, self.ids = parent, ids
        self.children: dict[int, _TreeNode] = {}
        self.number = 0

    def add(self, ids: list[int]) -> _TreeNode:
        """The node where *ids*, from here on, end; nodes are made and cut for it."""
        node, at = self, 0
        while at < len(ids):
            child = node.children.get(ids[at])
            if child is None:
                child = node.children[ids[at]] = _TreeNode(node, ids[at:])
                return child
            size = len(child.ids)
            if child.ids != ids[at : at + size]:
                size = _common(child.ids, ids, at)
                child = child.cut(size)
            node, at = child, at + size
        return node

    def cut(self, size: int) -> _TreeNode:
        """Have a new node hold the first *size* ids of this one, which comes below it."""
        assert self.parent is not None
        upper = _TreeNode(self.parent, self.ids[:size])
        self.parent.children[upper.ids[0]] = upper
        self.parent, self.ids = upper, self.ids[size:]
        upper.children[self.ids[0]] = self
        return upper

    def below(self) -> Iterator[_TreeNode]:
        """This node and all below it, each after its parent."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += reversed(node.children.values())


def _common(ids: list[int], others: list[int], at: int) -> int:
    """The number of first *ids* that stand in *others* from *at* on."""
    pairs = zip(ids, others[at : at + len(ids)], strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(ids), len(others) - at))


class _Prompts:
    """The prompts that were read, by process and number of their last piece."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], list[int]] = {}

    def ids(self, process: ProcessRecords, number: int) -> list[int]:
        """The ids of the prompt that piece *number* ends."""
        pieces: list[tuple[int, list[int]]] = []
        whole: list[int] = []
        while number:
            known = self._known.get((id(process), number))
            if known is not None:
                whole = known
                break
            before, *ids = unpack_ids(
                b"".join(process.stored.record(place).data for place in process.pieces[number])
            )
            if before >= number:
                raise ValueError(f"piece {number} follows piece {before}")
            pieces.append((number, ids))
            number = before
        for at, (end, ids) in enumerate(reversed(pieces)):
            whole = [*whole, *ids]
            if at == len(pieces) - 2 or len(pieces) == 1:  # others go on from there
                self._keep((id(process), end), whole)
        return whole

    def _keep(self, key: tuple[int, int], ids: list[int]) -> None:
        if len(self._known) >= _PROMPTS:
            self._known.clear()
        self._known[key] = ids


_PROMPTS = 256


def _of_call(call: StoredCall, prompts: _Prompts) -> Iterator[Trajectory | WithoutIds]:
    response = call.response
    if response is None:
        yield WithoutIds(call.address, f"it has no answer ({call.outcome})")
        return
    about = call.ended_in.stored.record(call.end).about
    tokens = about.get("tokens") if about else None
    for number, sample in enumerate(response.samples):
        told = tokens[number] if tokens is not None else None
        if told is None:
            yield WithoutIds(call.address, _reason(call))
            continue
        prompt, packed, scores = told
        ids = unpack_ids(packed)
        logprobs = None if scores is None else unpack_logprobs(scores)
        if logprobs is None and sample.logprobs and len(sample.logprobs) == len(ids):
            logprobs = [token.logprob for token in sample.logprobs]  # of gen(logprobs=...)
        yield Trajectory(
            call.address,
            call.sample + number,
            response.model,
            sample.finish_reason,
            prompts.ids(call.ended_in, prompt),
            ids,
            logprobs,
        )


def _reason(call: StoredCall) -> str:
    """Why the answer of *call* has no ids."""
    response = call.response
    assert response is not None
    if call.source is not None:
        return f"it was answered from {call.of or call.source}: export that run"
    if response.vectors is not None:
        return "it is an embedding"
    if response.choice_method is not None:
        return "a choice is scored, and not generated"
    return (
        "its backend kept no ids, or a secret stands in its texts: ids are kept with `tokens = "
        '"logprobs"` under [backends.sglang] or [backends.embedded]'
    )


def _as_json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))

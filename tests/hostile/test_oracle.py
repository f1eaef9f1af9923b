"""What every reader of traces makes of a file is what a plain reader finds in it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from appl.backend import Request, Response, Sample, Sampling
from appl.errors import CallCancelled
from appl.prompt import Message, Messages, Rope
from appl.testing import (
    CallDispatched,
    CallEnded,
    CallStarted,
    Delivered,
    Event,
    Observed,
    ScopeEntered,
)
from appl.tracing import RecordedCall, Recorder, ToolUse, Trace

from .plain_reader import PlainTrace
from .samples import GOLDEN, samples


def of_call(call: RecordedCall) -> dict[str, Any]:
    """The facts of *call* that the plain reader knows, those that are there."""
    found: dict[str, Any] = {"address": call.address, "sent": len(call.attempts)}
    if call.started is not None:
        found |= {name: getattr(call, name) for name in (
            "ordinal", "kind", "model", "sampling", "n", "sample", "content", "file", "line",
            "started", "position",
        )}  # fmt: skip
        found["prompt"] = [(said.role, said.content) for said in call.messages or ()]
        found["edges"] = [*call.edges]
    found |= _end(call)
    if call.response is not None:
        found["texts"] = [sample.text for sample in call.response.samples]
    if call.error is not None:
        found["error"] = str(call.error)
    return found


def _end(each: RecordedCall | ToolUse) -> dict[str, Any]:
    ended = {} if each.ended is None else {"outcome": each.outcome, "ended": each.ended}
    return ended if each.delivered is None else {**ended, "delivered": each.delivered}


def of_tool(used: ToolUse) -> dict[str, Any]:
    found = {name: getattr(used, name) for name in ("address", "name", "arguments", "started", "position")}  # fmt: skip
    found |= _end(used)
    return found if used.message is None else {**found, "result": used.message.content}


def agrees(run: Trace, plain: PlainTrace, dice: random.Random) -> None:
    """All that *run* gives, in a random order, is as the plain reader has it."""
    assert [*run.by_address] == [*plain.calls] and [*run.tools] == [*plain.tools]
    for address in dice.sample([*plain.calls], len(plain.calls)):
        assert of_call(run.by_address[address]) == plain.calls[address]
    assert [of_call(call) for call in run.calls] == [*plain.calls.values()]
    assert [of_tool(used) for used in run.tools.values()] == [*plain.tools.values()]
    assert [scope.address for scope in run.scopes] == plain.scopes
    assert [(o.address, o.kind, o.position) for o in run.observations] == plain.seen


def is_read_alike(path: Path, dice: random.Random) -> None:
    agrees(Trace.open(path), PlainTrace(path), dice)


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.trace")), ids=lambda path: path.stem)
def test_recorded_traces(path: Path) -> None:
    is_read_alike(path, random.Random(path.stem))


def test_every_beginning_of_a_trace_which_a_crash_may_leave(tmp_path: Path) -> None:
    path, dice = tmp_path / "a.trace", random.Random(1)
    for sample in samples():
        for end in sample.bounds[1:]:
            path.write_bytes(sample.data[: end + dice.randrange(3)])
            is_read_alike(path, dice)


def events(dice: random.Random, calls: int, again: list[str]) -> list[Event]:
    """A random run: chats that share their beginnings, whose calls overlap and end in any order."""
    ends: list[list[Event]] = []
    made: list[Event] = []
    chains: list[tuple[Messages | None, tuple[str, ...]]] = [(None, ())]
    answers: list[tuple[str, str]] = []
    for i in range(calls):
        address = (
            again.pop() if again and dice.random() < 0.5 else f"/p.{i % 7}/gen.{dice.random()}"
        )
        made.append(ScopeEntered(address.rpartition("/")[0], "", "p", "p.py", i, i))
        chain, edges = dice.choice(chains)
        text = dice.choice(("so ", "\U0001f600", "long " * 2000)) + str(i)
        if dice.random() < 0.3:
            rope = Rope(Rope(None, text * 3), " and on")
            chain = Messages(chain, Message("user", ""), rope=rope)
        else:
            chain = Messages(chain, Message("user", text))
        if answers and dice.random() < 0.5:
            of, said = dice.choice(answers)
            chain, edges = Messages(chain, Message("assistant", said)), (*edges, of)
        chains.append((chain, edges))
        request = Request(address, i, "m", chain, Sampling(max_tokens=i % 3 + 1))
        made.append(CallStarted(request, "gen", edges, "p.py", i, i))
        end = [CallDispatched(address, 1, i), *_ended(dice, address, i), Delivered(address, i)]
        ends.append(end[: dice.choice((1, 2, 3, 3, 3))])
        while ends and dice.random() < 0.6:
            some = ends.pop(dice.randrange(len(ends)))
            made += some
            answers += [
                (each.address, each.response.text)
                for each in some
                if isinstance(each, CallEnded) and each.response is not None
            ]
        if dice.random() < 0.2:
            made.append(Observed(address, i, "now", i, i))
    return made + [each for end in ends[::2] for each in end]


def _ended(dice: random.Random, address: str, at: int) -> list[Event]:
    if dice.random() < 0.1:
        return [CallEnded(address, None, CallCancelled("no more"), at)]
    said = dice.choice(("yes", "perhaps " * 800, "\udcff"))
    return [CallEnded(address, Response((Sample(f"{said} {at}", "stop"),)), None, at)]


@pytest.mark.parametrize("seed", range(12))
def test_random_runs_of_several_processes(seed: int, tmp_path: Path) -> None:
    dice, path = random.Random(seed), tmp_path / "a.trace"
    again: list[str] = []
    for process in range(dice.randrange(1, 4)):
        recorder = Recorder(path, {}, append=process > 0, durability="process")
        for event in events(dice, dice.randrange(5, 120), again):
            recorder.on_event(event)
            if isinstance(event, CallStarted) and dice.random() < 0.2:
                again.append(event.request.address)
            if dice.random() < 0.1:
                recorder.barrier()
        recorder.close()
    if dice.random() < 0.5:
        path.write_bytes(path.read_bytes()[: -dice.randrange(1, 400)])
    is_read_alike(path, dice)

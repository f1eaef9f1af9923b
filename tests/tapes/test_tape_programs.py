"""Random programs: their tapes replay as their traces do, and say the same when written again."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import Any

import pytest
from rehearsal import record, replay

from appl.tracing import Trace, tape

EACH = 40
BATCHES = [0, pytest.param(1, marks=pytest.mark.long)]
"""The first ``EACH`` programs, and those after them."""
_TOLD = "delivery", "chunks", "observation"


@functools.cache
def recorded(batch: int) -> tuple[Path, dict[int, Any]]:
    """The traces and tapes of the programs of *batch* in one folder, and the values of each."""
    folder, values = Path(tempfile.mkdtemp()), {}
    for seed in range(EACH * batch, EACH * (batch + 1)):
        values[seed], _ = record(seed, folder / f"{seed}.trace")
        tape.save(Trace.open(folder / f"{seed}.trace"), folder / f"{seed}.jsonl")
    return folder, values


@pytest.mark.parametrize("batch", BATCHES)
def test_a_tape_replays_to_the_same_values_with_no_live_call(batch: int) -> None:
    folder, values = recorded(batch)
    for seed in values:
        found, _ = replay(seed, folder / f"{seed}.jsonl", schedule=seed)
        assert found == values[seed], f"program {seed}"


@pytest.mark.parametrize("batch", BATCHES)
def test_what_was_read_says_the_same_when_it_is_written(batch: int) -> None:
    folder, values = recorded(batch)
    for seed in values:
        read = tape.read(folder / f"{seed}.jsonl")
        written = (folder / f"{seed}.jsonl").read_text("utf-8")
        assert "".join(tape.write(read)) == written, f"program {seed}"


@pytest.mark.parametrize("batch", BATCHES)
def test_a_tape_keeps_every_value_that_a_replay_gives(batch: int) -> None:
    folder, values = recorded(batch)
    for seed in values:
        old, new = Trace.open(folder / f"{seed}.trace"), tape.read(folder / f"{seed}.jsonl")
        assert new.by_address.keys() == old.by_address.keys()
        for address, call in old.by_address.items():
            again = new.by_address[address]
            assert _kept(again) == _kept(call), f"program {seed}, {address}"
        assert _order(new) == _order(old), f"program {seed}"
        assert [o.value for o in new.observations] == [o.value for o in old.observations]


def _kept(call: Any) -> tuple[Any, ...]:
    error = call.error
    return (
        call.content, call.ordinal, call.n, call.sample, call.model, call.sampling, call.edges,
        call.outcome, call.response, error and (type(error), error.args, str(error)),
        list(call.messages or ()), list(call.chunks()), call.started is None,
    )  # fmt: skip


def _order(trace: Trace) -> list[tuple[str, int]]:
    told = [(c.delivered, c.address, 0) for c in trace.calls if c.delivered is not None]
    told += [(at, c.address, count) for c in trace.calls for at, count in c.shown]
    told += [(o.position, o.address, o.ordinal) for o in trace.observations]
    told += [(t.delivered, t.address, 0) for t in trace.tools.values() if t.delivered is not None]
    return [(address, number) for _, address, number in sorted(told)]


def test_the_order_of_deliveries_on_a_tape_matters(tmp_path: Path) -> None:
    """Tapes whose last lines are in another order replay otherwise: they are not there in vain.

    Neither the shortest, nor long ones: beside threads of others, each delivery that does not come
    is waited for.
    """
    folder, values = recorded(0)
    programs = wrong = 0
    for seed in values:
        lines = (folder / f"{seed}.jsonl").read_text("utf-8").splitlines(keepends=True)
        told = [line for line in lines if any(f'"record": "{kind}"' in line for kind in _TOLD)]
        if not 8 <= len(told) <= 40:
            continue
        programs += 1
        others = [line for line in lines if line not in told]
        path = tmp_path / f"{seed}.jsonl"
        path.write_text("".join([*others, *reversed(told)]), "utf-8")
        try:
            wrong += replay(seed, path)[0] != values[seed]
        except Exception:
            wrong += 1
    assert programs > 6 and wrong > programs // 4

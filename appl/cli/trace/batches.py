"""``appl trace batches``: the batches of a run, as their providers see them now.

Invariant: nothing is sent but questions about batches of this run, and with ``--cancel`` the wish
that those that are away are answered no further.
"""

from __future__ import annotations

import asyncio
from typing import Any

from appl.backend import offers
from appl.base.moments import moment_of
from appl.cli import parameters
from appl.cli.commands import Options, appl_command, switch
from appl.cli.terminal import one_line, print_found
from appl.cli.trace.run_names import run_path
from appl.errors import ApplError, BackendError
from appl.parts.batching.provider import Batches, BatchProvider, BatchStatus, Intent
from appl.session.backend_setup import Choice, make_backend
from appl.session.replaying import opened
from appl.session.resume import recorded_config
from appl.tracing.reading.batches import RecordedBatch
from appl.tracing.reading.trace import Trace


@appl_command("batches", example="appl trace batches\nappl trace batches last --cancel")
@parameters.run
@switch("--cancel", help="have the providers answer no more of those that are away")
@switch("--trust", help="use it although it is not one of your own runs")
@parameters.as_json
def command(options: Options) -> None:
    """Show the batches of a run, and ask the providers about those that are away.

    A batch that is cancelled ends within some minutes; what was answered by then is paid, and used
    by `appl trace resume`. The calls that were not answered fail then.
    """
    trace = opened(run_path(options.run), {}, options.trust)
    batches = [_data(trace, batch, options.cancel) for batch in trace.batches.values()]
    print_found(options.json, {"run": trace.path.stem, "batches": batches}, _lines(trace, batches))


def _data(trace: Trace, batch: RecordedBatch, cancels: bool) -> dict[str, Any]:
    data: dict[str, Any] = {
        "key": batch.key,
        "state": batch.state,
        "id": batch.id,
        "backend": batch.facts.get("backend"),
        "calls": len(batch.calls),
    }
    if not batch.is_away:
        return data
    try:
        status = asyncio.run(_asked(trace, batch, cancels))
    except ApplError as error:
        return {**data, "error": f"{type(error).__name__}: {error}"}
    if status is None:
        return {**data, "at_provider": "not found: it was perhaps never sent"}
    return {
        **data,
        "id": status.id,
        "at_provider": status.word,
        "done": status.done,
        "cancelled": cancels and not status.ended,
    }


async def _asked(trace: Trace, batch: RecordedBatch, cancels: bool) -> BatchStatus | None:
    config, name = recorded_config(trace), str(batch.facts.get("backend"))
    backend = make_backend(config, Choice(name, None, True), 0)
    try:
        if not offers(backend, Batches):
            raise BackendError(f"the backend {name!r} has no batches")
        provider: BatchProvider = backend.batches()
        status = await _found(provider, batch)
        if status is not None and cancels and not status.ended:
            await provider.cancel(status.id)
        return status
    finally:
        await backend.aclose()


async def _found(provider: BatchProvider, batch: RecordedBatch) -> BatchStatus | None:
    if batch.id is not None:
        return await provider.look(batch.id)
    facts = batch.facts
    file = facts.get("file")
    intent = Intent(
        batch.key,
        str(facts.get("kind")),
        len(batch.calls),
        file if isinstance(file, str) else None,
        moment_of(facts.get("wall")) or 0.0,
    )
    return (await provider.find(intent)).status


def _lines(trace: Trace, batches: list[dict[str, Any]]) -> list[str]:
    if not batches:
        return [f"{trace.path.stem} has no batches"]
    return [one_line(_line(batch), 160) for batch in batches]


def _line(data: dict[str, Any]) -> str:
    name = data["id"] or data["key"]
    line = f"{name}  {data['state']}, {data['calls']} calls at {data['backend']}"
    if "error" in data:
        return f"{line}; not known now: {data['error']}"
    if "at_provider" not in data:
        return line
    done = f", {data['done']} done" if data.get("done") else ""
    return (
        f"{line}; now {data['at_provider']}{done}{', cancelled' if data.get('cancelled') else ''}"
    )

"""The state of a run as plain data, without content unless the client asks for it.

Invariant: secrets are masked in every text; times are in seconds.
"""

from __future__ import annotations

import itertools
import os
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace

from appl.parts.control.protocol import MOST_CALLS
from appl.runtime.programs import Program, programs_of
from appl.runtime.run import Run
from appl.runtime.scheduling.accounts import Account
from appl.runtime.scheduling.call_status import CallStatus, Load, Unfinished
from appl.runtime.scheduling.queue_status import loads
from appl.tracing.recording.secret import Masker

EXCERPT = 200
LONGEST_TEXT = 256 * 1024
_MOST_PARTS = 8
_LONGEST_WORD = 500


@dataclass(frozen=True, slots=True)
class About:
    """The description of a run: its name, program and trace.

    *masker* masks secrets in texts; *content* says whether messages may be shown at all.
    """

    name: str
    program: str
    trace: str | None
    masker: Masker
    content: bool = True
    began: float = field(default_factory=time.time)

    def mask(self, text: str) -> str:
        """*text* without secrets."""
        return self.masker.text(text, [])

    def text(self, value: object) -> str:
        """*value* as a short text that is safe to show."""
        return self.mask(str(value)[:LONGEST_TEXT])[:_LONGEST_WORD]


def summary(run: Run, about: About) -> dict[str, object]:
    """A short description of *run*."""
    return {**_about(run, about), **_counted(run.holdings())}


def _about(run: Run, about: About) -> dict[str, object]:
    return {
        "run": about.name,
        "program": about.program,
        "pid": os.getpid(),
        "trace": about.trace,
        "began": about.began,
        "state": "ended" if run.over else "paused" if run.dispatch.scheduler.paused else "running",
    }


def _counted(holdings: Iterable[CallStatus]) -> dict[str, object]:
    """The number of calls in each stage, and of those that a backend is working on."""
    stages, sent = Counter[str](), 0
    for holding in holdings:
        stages[holding.stage] += 1
        sent += holding.stage == "worker" and holding.why == "asked"
    counts = {stage: stages[stage] for stage in ("worker", "queue", "prompt", "record")}
    return {"counts": counts, "sent": sent}


def view(run: Run, about: About, limit: int, content: bool) -> dict[str, object]:
    """Everything that *run* waits for and works on: at most *limit* calls and *limit* programs."""
    holdings = run.holdings()
    programs = programs_of(run)
    limit = min(max(limit, 0), MOST_CALLS)
    shown = content and about.content
    account = run.tree.root.account
    return {
        **_about(run, about),
        **_counted(holdings),
        "backends": [_load(load, about) for load in loads(run.dispatch.scheduler)],
        "budget": _budget(account) if account is not None else None,
        "calls": [_call(status, about, shown) for status in holdings[:limit]],
        "programs": [_program(program, about) for program in itertools.islice(programs, limit)],
        "more": {
            "calls": max(len(holdings) - limit, 0),
            "programs": max(len(programs) - limit, 0),
        },
        "content": "shown" if shown else "redacted" if content else "not asked for",
    }


def _load(load: Load, about: About) -> dict[str, object]:
    outages = [
        {
            "model": about.text(model),
            "refusals": outage.refusals,
            "left_s": round(outage.remaining_s, 3),
            "error": _error(outage.error, about),
        }
        for model, outage in load.outages.items()
        if outage.error is not None
    ]
    return {**asdict(replace(load, outages={})), "outages": outages}


def _error(error: BaseException, about: About) -> dict[str, str]:
    return {"type": type(error).__name__, "message": about.text(error)}


def _budget(account: Account) -> dict[str, dict[str, float | None]]:
    """Limits, spent and reserved amounts by name; costs in the currency of the prices."""
    limits = dict(zip(("cost", "tokens", "calls"), account.limits, strict=True))
    amounts = {"limits": limits, "spent": account.spent._asdict()}
    amounts["reserved"] = account.reserved._asdict()
    for amount in amounts.values():
        if amount["cost"] is not None:
            amount["cost"] /= 1_000_000
    return amounts


def _call(holding: CallStatus, about: About, content: bool) -> dict[str, object]:
    call = holding.call
    data: dict[str, object] = {
        "call": call.address,
        "stage": holding.stage,
        "why": holding.why,
        "backend": holding.backend,
        "model": about.text(call.model),
        "priority": call.priority,
        "file": call.file,
        "line": call.line,
    }
    if holding.stage == "prompt":
        addresses = dict.fromkeys(
            promise.address for promise in itertools.islice(call.blockers(), 1000)
        )
        data["parts"] = list(itertools.islice(addresses, _MOST_PARTS))
    if call.away:
        data["away"] = call.away
    if holding.stage == "record":
        data["ahead"] = holding.ahead
    if holding.number:
        data["number"] = holding.number
    if holding.attempt:
        data["attempt"] = holding.attempt
        data["since_s"] = round(holding.since_s or 0.0, 3)
    if holding.next_s is not None:
        data["next_s"] = round(holding.next_s, 3)
    if holding.error is not None:
        data["error"] = _error(holding.error, about)
    if holding.refusals:
        data["refusals"] = holding.refusals
    if call.emit is not None:
        chunks = call.emit.chunks
        data["streamed"] = {"pieces": len(chunks), "characters": sum(len(c.text) for c in chunks)}
    if content:
        data["prompt"], data["answer"] = _prompt(call, about), _answer(call, about)
    return data


def _prompt(call: Unfinished, about: About) -> str | None:
    """The end of the prompt's last message; ``None`` while a part is missing."""
    if call.messages is None:
        return None
    return _excerpt(call.messages.message.content, about)


def _answer(call: Unfinished, about: About) -> str | None:
    """The end of the text streamed so far, less what may be the beginning of a secret."""
    if call.emit is None:
        return None
    pieces = (c.text for c in call.emit.chunks if c.sample == call.emit.first and c.kind == "text")
    text = "".join(pieces)
    return _excerpt(text[: max(len(text) - about.masker.longest, 0)], about)


def _excerpt(text: str, about: About) -> str:
    if len(text) > LONGEST_TEXT:
        return f"({len(text)} characters)"
    masked = about.mask(text)
    return masked if len(masked) <= EXCERPT else "…" + masked[-EXCERPT:]


def _program(program: Program, about: About) -> dict[str, object]:
    pending, place = program.waits_for, program.place
    data: dict[str, object] = {
        "program": program.address,
        "kind": program.kind,
        "name": about.text(program.name),
        "state": "runs" if pending is None else "waits",
        "for": None if pending is None else pending.last().address,
    }
    if place is not None:
        data["file"], data["line"], data["function"] = place
    return data

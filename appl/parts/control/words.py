"""The state of a run in words: why each call waits, and what each program waits for.

Invariant: the texts are made of what a run sent, and are not yet safe for a terminal.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

Data = Mapping[str, Any]

_QUEUE = {
    "turn": "others go first",
    "paused": "the run is paused",
    "gathering": "looked at together with what comes",
    "budget": "a call waits for the budget, and those behind it with it",
    "rate": "a call waits for the rate, and those behind it with it",
    "circuit": "the backend is left alone after what it said",
    "connect": "the backend is asked what it is before the first call (the probe of its server)",
}
_WORKER = {
    "connect": "connects with {backend}",
    "budget": "waits for the budget: it fits only if others use less than they may",
    "slot": "waits until fewer are on their way to {backend}",
    "circuit": "{backend} is left alone after what it said",
    "rate": "as many as may be were asked of {backend} in the period",
    "paused": "the run is paused",
    "sample": "waits for an answer to the same question",
    "retry": "rests after a failure",
}


def reason(call: Data, backends: Iterable[Data] = ()) -> str:
    """The reason why *call* is not answered yet."""
    why, stage = str(call.get("why")), call.get("stage")
    if stage == "prompt":
        parts = ", ".join(map(str, call.get("parts") or ()))
        return f"waits for a part of its prompt: {parts}" if parts else "waits for its prompt"
    if stage == "record":
        return _recorded(call, why)
    where = f"on worker {call['away']}: " if call.get("away") else ""
    if stage == "queue":
        return where + _queued(call, why, backends)
    backend = call.get("backend") or "the backend"
    if why == "asked":
        since = call.get("since_s")
        text = f"with {backend}" + ("" if since is None else f" for {seconds(since)}")
    else:
        remaining_s = call.get("next_s")
        text = _WORKER.get(why, why).format(backend=backend)
        text += "" if remaining_s is None else f"; goes on in {seconds(remaining_s)}"
    return where + "; ".join([text, *_more(call)])


def _recorded(call: Data, why: str) -> str:
    """The reason why a resumed or replayed run holds a call back."""
    if why == "recorded":
        return "its recorded end comes in its turn"
    ahead = call.get("ahead")
    still = "until all programs wait"
    if ahead:
        still = f"{ahead} recorded end{' is' if ahead == 1 else 's are'} still to come"
    return {
        "held": f"held back: {still}",
        "again": f"held back, as it was cancelled then and may be again: {still}",
        "stray": "held back: a recorded call that is still to come may be the same",
        "ending": f"was cancelled by appl ctl, which takes effect later: {still}",
    }.get(why, why)


def _queued(call: Data, why: str, backends: Iterable[Data]) -> str:
    if why == "prefix":
        return "the beginning of its prompt is being computed, once for all"
    if why == "cache":
        return "the server's cache has no room for one more prompt"
    number, level = call.get("number"), call.get("priority")
    text = _QUEUE.get(why, why)
    for load in backends if why == "slot" else ():
        if load.get("backend") == call.get("backend"):
            text = f"{load.get('taken')} of at most {load.get('limit')} are on their way"
    priority = f", priority {level}" if level else ""
    return f"number {number} in the queue{priority}: {text}"


def _more(call: Data) -> Iterator[str]:
    attempt, streamed, error = call.get("attempt"), call.get("streamed"), call.get("error")
    if attempt and (attempt > 1 or error):
        yield f"attempt {attempt}"
    if streamed and streamed.get("pieces"):
        yield f"{streamed['pieces']} pieces ({streamed['characters']} characters) so far"
    if (call.get("refusals") or 0) > 1:
        yield f"refused {call['refusals']} times in a row"
    if error:
        yield f"last error: {error.get('type')}: {error.get('message')}"


def program(data: Data) -> str:
    """A sentence about a program: running, or waiting for something."""
    name = data.get("program") or "the program"
    does = f"waits for {data.get('for')}" if data.get("state") == "waits" else "runs"
    return f"{name} ({data.get('kind')} {data.get('name')}) {does}"


def source(data: Data) -> str:
    """The user's file and line, with the function if it is known."""
    file, line, function = data.get("file"), data.get("line"), data.get("function")
    if not file:
        return ""
    where = f"{_here(str(file))}:{line}"
    return f"{where} in {function}" if function else where


def _here(file: str) -> str:
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except (ValueError, OSError):
        return file


def counts(about: Data) -> str:
    """The number of calls in each stage."""
    counts_by_stage = about.get("counts") or {}
    sent = about.get("sent", counts_by_stage.get("worker", 0))
    held = counts_by_stage.get("worker", 0) - sent
    return (
        f"{sent} running, "
        + (f"{held} out of the queue but not sent, " if held else "")
        + f"{counts_by_stage.get('queue', 0)} in the queue, "
        f"{counts_by_stage.get('prompt', 0)} waiting for parts"
        + (
            f", {counts_by_stage['record']} held back by the record"
            if counts_by_stage.get("record")
            else ""
        )
    )


def head(view: Data) -> list[str]:
    """The run, its backends and its budget, a line each."""
    began = float(view.get("began") or 0.0)
    lines = [
        f"{view.get('run')}: {_since(view, time.time() - began)}, process {view.get('pid')}",
        counts(view),
        *(_load(load) for load in view.get("backends") or ()),
    ]
    return [*lines, *_budget(view.get("budget") or {})]


def _since(view: Data, age_s: float) -> str:
    """The state of a run that began *age_s* ago, which may have been in other states since."""
    state, age = view.get("state"), seconds(max(age_s, 0.0))
    return f"{state} for {age}" if state == "running" else f"{state}, began {age} ago"


def _load(load: Data) -> str:
    most = "any number" if load.get("limit") is None else f"at most {load['limit']}"
    text = f"{load.get('backend')}: {load.get('taken')} on their way ({most} at once)"
    for outage in load.get("outages") or ():
        often = f"{outage['refusals']} times in a row" if outage["refusals"] > 1 else "last"
        retry = f", asked again in {seconds(outage['left_s'])}" if outage["left_s"] else ""
        about = f" for {outage['model']}" if outage["model"] else ""
        text += f"; refused{about} {often}{retry}: {outage['error']['message']}"
    return text


def _budget(budget: Data) -> Iterator[str]:
    limits = budget.get("limits") or {}
    for name, most in limits.items():
        if most is not None:
            spent, reserved = budget["spent"].get(name), budget["reserved"].get(name)
            used = "an unknown part" if spent is None else f"{spent:g}"
            yield f"budget of {name}: {used} of {most:g} spent, {reserved:g} reserved"


def seconds(value: float) -> str:
    """A length of time in a few characters."""
    if value < 10:
        return f"{value:.1f} s"
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"

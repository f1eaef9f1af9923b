"""The operations that a client may request of a run, by name.

Invariant: everything happens on the I/O loop. A change of the run is shown to its user and recorded
as a warning; a change that a replay must know (a call or function that was ended) is recorded as
such.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from appl.errors import ControlError, nearest
from appl.parts.control.steering import Steering
from appl.parts.control.view import About, summary, view
from appl.runtime.programs import tasks_of
from appl.runtime.run import Run
from appl.runtime.scheduling.call_status import Unfinished, When
from appl.runtime.scheduling.policy import Allowance

USUAL_CALLS = 500
_MOST = 1_000_000
_AMOUNTS = ("calls", "tokens", "cost")
Request = dict[str, object]


class RequestHandler:
    """Answers the requests of clients about *run*."""

    def __init__(self, run: Run, about: About) -> None:
        self._run, self._about = run, about
        self._steering = Steering(run)
        self._acts: dict[str, Callable[[Request], object]] = {
            "run": self._summary,
            "show": self._view,
            "pause": self._pause,
            "resume": self._resume,
            "cancel": self._cancel,
            "concurrency": self._concurrency,
            "budget": self._budget,
        }

    def answer(self, request: Request) -> object:
        """The reply to *request*. Raises ``ControlError``."""
        act = self._acts.get(str(request["do"]))
        if act is None:
            word = str(request["do"])[:40]
            raise ControlError(f"a run does not know {word!r}{nearest(word, self._acts)}", "do")
        self._about.masker.refresh()
        return act(request)

    # -- looking

    def _summary(self, request: Request) -> object:
        return summary(self._run, self._about)

    def _view(self, request: Request) -> object:
        limit = _whole(request, "limit", USUAL_CALLS)
        return view(self._run, self._about, limit, request.get("content") is True)

    # -- doing

    def _pause(self, request: Request) -> object:
        self._open()
        if self._steering.pause():
            self._tell("paused: no call is sent until `appl ctl resume`")
        return summary(self._run, self._about)

    def _resume(self, request: Request) -> object:
        self._open()
        if self._steering.resume():
            self._tell("goes on")
        return summary(self._run, self._about)

    def _cancel(self, request: Request) -> object:
        at = request.get("at")
        if not isinstance(at, str) or not at:
            raise ControlError("say which: the address of a call or of a function", "bad-request")
        at = "/" + at.strip("/")
        calls = {holding.call.address: holding.call for holding in self._open().holdings()}
        functions = {task.address: task for task in tasks_of(self._run)}
        if at in calls:
            return self._cancelled(at, "call", self._steering.end(calls[at]), [at])
        task = functions.get(at)
        if task is not None and task.of_program:
            when = self._steering.end(task)
            if when != "never":
                return self._cancelled(at, "function", when, [at])
        below = [call for address, call in calls.items() if address.startswith(at + "/")]
        if below:
            return self._cancelled(at, "calls", *self._ended(below))
        addresses = [*calls, *functions]
        raise ControlError(
            f"no call waits or runs at {at}{nearest(at, addresses, 0.4)}", "unknown-call"
        )

    def _ended(self, calls: list[Unfinished]) -> tuple[When, list[str]]:
        """End all of *calls* that can be ended. Raises ``ControlError`` if none can."""
        ended: dict[str, When] = {}
        refused: ControlError | None = None
        for call in calls:
            try:
                ended[call.address] = self._steering.end(call)
            except ControlError as error:
                refused = error
        if refused is not None and not ended:
            raise refused
        return "later" if "later" in ended.values() else "now", sorted(ended)

    def _cancelled(self, at: str, what: str, when: When, ended: list[str]) -> object:
        calls = f"{len(ended)} call{'' if len(ended) == 1 else 's'} below {at} cancelled"
        self._tell(f"{at} was cancelled" if what != "calls" else calls, at)
        return {"cancelled": what, "at": at, "calls": ended, "when": when}

    def _concurrency(self, request: Request) -> object:
        most = _whole(request, "most", 0)
        if not 1 <= most <= _MOST:
            raise ControlError(f"concurrency is a whole number from 1 to {_MOST}", "bad-request")
        set_to = self._open().dispatch.scheduler.resize(most)
        words = ", ".join(f"{number} with {backend}" for backend, number in set_to.items())
        self._tell(f"calls at once: at most {words}")
        return {"concurrency": set_to}

    def _budget(self, request: Request) -> object:
        amounts = {name: request[name] for name in _AMOUNTS if name in request}
        if not amounts:
            raise ControlError("say what of calls, tokens and cost", "bad-request")
        for name, value in amounts.items():
            if value is None:  # no limit
                continue
            kinds = (int, float) if name == "cost" else (int,)  # only a cost has fractions
            fits = isinstance(value, kinds) and not isinstance(value, bool)
            if not fits or not 0 <= value < math.inf or value > 1e15:  # type: ignore[operator]
                what = "a number" if name == "cost" else "a whole number"
                raise ControlError(
                    f"{name} is {what} of at least 0, or none (null in JSON) for no limit",
                    "bad-request",
                )
        account = self._open().tree.root.account
        late = account is None
        limits: dict[str, Any] = self._limits() | amounts
        self._steering.allow(Allowance(limits["cost"], limits["tokens"], limits["calls"]))
        words = ", ".join(
            f"no limit of {name}" if value is None else f"{name} {value}"
            for name, value in amounts.items()
        )
        self._tell(f"budget: {words}")
        shown = view(self._run, self._about, 0, False)["budget"]
        return {"budget": shown, "counts_from_now": late}

    def _limits(self) -> dict[str, object]:
        account = self._run.tree.root.account
        cost, tokens, calls = account.limits if account is not None else (None, None, None)
        return {"cost": cost if cost is None else cost / 1e6, "tokens": tokens, "calls": calls}

    def _open(self) -> Run:
        if self._run.over:
            raise ControlError("this run is over", "over")
        return self._run

    def _tell(self, what: str, address: str = "") -> None:
        self._run.reporter.warn(address, f"appl ctl: {what}")


def _whole(request: Request, name: str, default: int) -> int:
    value = request.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ControlError(f"{name} is a whole number", "bad-request")
    return value

"""Tools that a person has to approve before they run.

Invariant: the tool is not begun, and nothing is recorded of it, before it was approved: a run that
is broken off meanwhile asks again, or finds the answer, and its effect is never in doubt.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from appl.errors import CallCancelled, InvalidOption, ToolError
from appl.runtime.concurrency.fiber import Fiber, strand_here, wait
from appl.runtime.concurrency.promise import Error, Stop
from appl.runtime.concurrency.task import context_for
from appl.runtime.waiting.forms import Form
from appl.runtime.waiting.people import answer_of, limit_of, put

if TYPE_CHECKING:
    from appl.runtime.tools.tool import Tool
    from appl.runtime.tools.toolrun import ToolRun

_MOST_SHOWN = 400


@dataclass(frozen=True, slots=True)
class Approval:
    """When a tool needs approval, and the question for it; see ``as_tool``."""

    when: Callable[..., object] | None
    question: str | None
    expires: float | None

    def question_for(self, tool: Tool, arguments: Mapping[str, object]) -> str | None:
        """The question about a call with *arguments*; ``None`` if it needs no approval."""
        verdict = self.when(**arguments) if self.when is not None else True
        if not verdict:
            return None
        if isinstance(verdict, str):
            return verdict
        if self.question is not None:
            return self.question.format(**arguments)
        shown = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
        return f"Run {tool.name}({shown:.{_MOST_SHOWN}})?"


def approval_of(wanted: object, expires: float | datetime.timedelta | None) -> Approval | None:
    """The approval that ``as_tool(approve=…)`` means. Raises ``ToolError``."""
    limit = limit_of("as_tool(expires=...)", expires)
    if wanted is None or wanted is False:
        if limit is not None:
            raise InvalidOption("as_tool(expires=...) is the time for an approval: give approve=")
        return None
    if wanted is True:
        return Approval(None, None, limit)
    if isinstance(wanted, str):
        return Approval(None, wanted, limit)
    if callable(wanted):
        return Approval(wanted, None, limit)
    raise ToolError(
        "as_tool(approve=...) is True, the question as text, or a function of the tool's arguments "
        f"that returns whether approval is needed, or the question, got {wanted!r:.80}"
    )


def ask_first(run: ToolRun, arguments: dict[str, object], here_now: bool) -> None:
    """Have *run* begin its tool once it is approved; at once if it needs no approval."""
    tool = run.tool
    assert tool is not None and tool.approval is not None
    try:
        text = tool.approval.question_for(tool, _shown(run, arguments))
    except Exception as error:  # of a function of the user's: what is not known to be safe waits
        problem = f"{tool.name} was not called: approve= failed: {type(error).__name__}: {error}"
        run.start(arguments, problem, here_now)
        return
    if text is None:
        run.start(arguments, "", here_now)
    elif here_now:
        _decide(run, text, arguments, here_now=True)
    else:
        _beside(run, lambda: _decide(run, text, arguments, here_now=False))


def _shown(run: ToolRun, arguments: dict[str, object]) -> dict[str, object]:
    """The arguments that the model gave, without what is predefined."""
    assert run.tool is not None
    return {name: value for name, value in arguments.items() if name not in run.tool.predefined}


def _beside(run: ToolRun, decide: Callable[[], None]) -> None:
    """Have *decide* wait in a fiber of its own: the calls beside this one go on."""

    def program() -> None:
        try:
            decide()
        except Stop:
            run.conclude(Error(CallCancelled(f"{run.address} was cancelled")))
        except (KeyboardInterrupt, SystemExit):
            run.conclude(Error(CallCancelled(f"{run.address} was interrupted")))
            raise
        except BaseException as error:
            run.conclude(Error(error))

    def broken_off() -> None:
        run.conclude(Error(CallCancelled(f"{run.address} was interrupted")))

    # As its strand, too: where the thread of the fiber ends before it, nobody waits for the call.
    run.strand = run.asking = fiber = Fiber(
        strand_here().hub, program, context_for(run.frame), broken_off
    )
    fiber.start()


def _decide(run: ToolRun, text: str, arguments: dict[str, object], here_now: bool) -> None:
    """Ask, wait for the answer, and begin the tool or refuse its call."""
    tool = run.tool
    assert tool is not None and tool.approval is not None
    call_arguments: dict[str, Any] = json.loads(run.call.arguments or "{}")
    form = Form("approval", schema=tool.parameters)
    question_wait = put(
        run.run, run, text, form,
        expires=tool.approval.expires, tool=tool.name, arguments=call_arguments,
    )  # fmt: skip
    try:
        wait(question_wait)
    finally:
        run.strand = run.asking = None
        question_wait.left()
    answer = answer_of(question_wait)
    value = answer["value"]
    if answer.get("expired"):
        run.start(arguments, f"{tool.name} was not called: nobody approved it in time", here_now)
    elif not (isinstance(value, Mapping) and value.get("approved") is True):
        run.start(arguments, _refusal(tool.name, value), here_now)
    elif isinstance(value.get("arguments"), Mapping):
        run.start_with(dict(value["arguments"]), here_now)
    else:
        run.start(arguments, "", here_now)


def _refusal(name: str, value: object) -> str:
    reason = value.get("reason") if isinstance(value, Mapping) else None
    why = f": {reason}" if isinstance(reason, str) and reason else ""
    return f"{name} was not called: a person refused it{why}"

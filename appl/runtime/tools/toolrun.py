"""A tool call while it runs: checked, begun when the trace says so, and ended with a message.

Invariant: a bad argument, an unknown tool, an exception of the function and its ``sys.exit`` become
a message that says so; what the runtime itself has to say (a cancelled call, a diverging replay)
goes through. Exactly one end of a call is told, and before the program can see it.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from asyncio import _get_running_loop
from collections.abc import Callable, Coroutine, Sequence
from contextvars import Context
from typing import Any

from appl.errors import nearest
from appl.prompt import Media, Message, ToolCall, ToolMessage
from appl.runtime.concurrency.clock import Alarm
from appl.runtime.concurrency.fiber import Fiber, Hub, run_on, strand_here
from appl.runtime.concurrency.future import awaited, result_of
from appl.runtime.concurrency.loop_thread import void
from appl.runtime.concurrency.parallel import beside, is_async
from appl.runtime.concurrency.promise import Error, Outcome, Promise, Stop, Value
from appl.runtime.concurrency.task import at_home, context_for
from appl.runtime.event import Observed
from appl.runtime.frame import Frame, here
from appl.runtime.resolve import aresolve, resolve
from appl.runtime.tools.arguments import BadArguments, shown
from appl.runtime.tools.effecttask import ENDING, THROUGH, EffectTask
from appl.runtime.tools.reach import may_ask
from appl.runtime.tools.signature import place_of
from appl.runtime.tools.tool import Tool
from appl.runtime.world import Moment

UNKNOWN = "unknown_tool"


class Job:
    """Calls that are run together; their results in their order."""

    def __init__(
        self,
        calls: Sequence[tuple[ToolCall, Tool | None]],
        names: Sequence[str],
        parallel: bool | None,
        timeout: float | None,
    ) -> None:
        self._calls, self._known = calls, names
        self._parallel, self._timeout = parallel, timeout
        self._started: list[ToolRun] = []

    def run(self) -> list[ToolMessage]:
        """In a synchronous program."""
        here_now = self._parallel is False and self._timeout is None
        try:
            if not self._parallel:
                return [result_of(self._start(*call, here_now)) for call in self._calls]
            started = [self._start(*call, False) for call in self._calls]
            return [result_of(task) for task in started]
        except BaseException:
            self._cancel()
            raise

    async def arun(self) -> list[ToolMessage]:
        """In a coroutine."""
        try:
            if not self._parallel:
                return [await awaited(self._start(*call, False)) for call in self._calls]
            started = [self._start(*call, False) for call in self._calls]
            return [await awaited(task) for task in started]
        except BaseException:
            self._cancel()
            raise

    def _start(self, call: ToolCall, tool: Tool | None, here_now: bool) -> ToolRun:
        caller = here(lambda: f"{call.name} {call.arguments:.400}")
        caller.run.check_open()
        frame = beside(caller, UNKNOWN if tool is None else tool.name)
        run = ToolRun(frame, strand_here().hub, call, tool, self._timeout)
        caller.add(run)
        self._started.append(run)
        try:
            run.begin(self._known, here_now or caller.run.services.sequential)
        except BaseException as error:
            run.conclude(Error(error))
            raise
        return run

    def _cancel(self) -> None:
        for run in self._started:
            run.looked = True
            if not run.done:
                run.cancel()


class ToolRun(EffectTask):
    """One call of a tool; its outcome is a ``ToolMessage``."""

    of_program = False
    __slots__ = ("_alarm", "_changed", "_ordinal", "asking", "call", "timeout", "tool")

    def __init__(
        self, frame: Frame, home: Hub, call: ToolCall, tool: Tool | None, timeout: float | None
    ) -> None:
        super().__init__(frame, home)
        self.call, self.tool, self.timeout = call, tool, timeout
        self._ordinal = 0
        self._alarm: Alarm | None = None
        self._changed = ""
        self.asking: Fiber | None = None

    def begin(self, names: Sequence[str], here_now: bool) -> None:
        """Check the call, and run it or take its result from a record; it may need approval."""
        arguments, problem = self._read(names)
        if self.tool is None or self.tool.approval is None or problem:
            self.start(arguments, problem, here_now)
            return
        from appl.runtime.waiting.approval import ask_first  # few tools need approval

        ask_first(self, arguments, here_now)

    def start_with(self, changed: dict[str, object], here_now: bool) -> None:
        """Run the tool with arguments that a person has *changed*."""
        assert self.tool is not None
        self._changed = json.dumps(changed, ensure_ascii=False)
        try:
            arguments, problem = self.tool.reader.read(self._changed), ""
        except Exception as error:  # of the reader, or a validator of the user's
            arguments, problem = {}, f"{self.tool.name} was not called: {described(error)}"
        self.start(arguments, problem, here_now)

    def start(self, arguments: dict[str, object], problem: str, here_now: bool) -> None:
        """Run the tool, or take its result from a record; with a *problem* that is its result."""
        effect = "refused" if self.tool is None or problem else self.tool.effect
        place = place_of(self.tool.func) if self.tool else (None, None)
        name, text = self.call.name, self._changed or self.call.arguments
        self.tell_start(name, text, effect, place)

        def start(context: Context) -> None:
            if problem:
                self.conclude(Value(self._message(problem, True)))
            else:
                self._go(arguments, here_now, context)

        if effect == "program":
            start(context_for(self.frame))
        else:
            function = self.tool.func if self.tool is not None else None
            at_once = here_now or effect == "refused"
            self.expect(name, text, at_once, start, lambda: may_ask(function))

    def _read(self, names: Sequence[str]) -> tuple[dict[str, object], str]:
        """The arguments of the call, or its error."""
        if self.tool is None:
            has = f"there are: {', '.join(names)}" if names else "there are none"
            name = self.call.name
            return {}, f"there is no tool {shown(name)} ({has}){nearest(name, names)}"
        try:
            return self.tool.reader.read(self.call.arguments), ""
        except BadArguments as error:
            return {}, f"{self.tool.name} was not called: {error}"
        except Exception as error:  # of a validator of the user's
            return {}, f"{self.tool.name} was not called: {described(error)}"

    # -- from a record

    def outcome_of(self, recorded: Message | BaseException) -> Outcome:
        if isinstance(recorded, BaseException):
            return Error(recorded)
        call = recorded.tool_call_id or self.call.id
        return Value(ToolMessage(recorded.parts, call, recorded.has_error))

    def message_of(self, value: ToolMessage) -> Message:
        return value.plain()

    # -- live

    def _go(self, arguments: dict[str, object], here_now: bool, context: Context) -> None:
        assert self.tool is not None
        f = self.tool.function()
        if self.tool.mask:
            self.run.reporter.conceal(self.tool.secrets())
        self._active = True
        self._arm()
        if self.tool.effect == "program" and not is_async(f):
            start = self.run_here if self.run.services.sequential else self.run_in_fiber
            start(lambda: self._perform(arguments), context)
        elif is_async(f) and _get_running_loop() is not None:
            self.run_in_loop(self._aperform(arguments), context)
        elif here_now:
            self.run_here(lambda: self._perform_here(arguments), context)
        else:
            self.run_in_thread(lambda: self._perform(arguments), context)

    def _perform(self, arguments: dict[str, object]) -> ToolMessage:
        assert self.tool is not None
        self._await_turn()
        try:
            value = self.tool.invoke(arguments)
            if inspect.iscoroutine(value):
                return asyncio.run(self._in_own_loop(value))
            return self._result(resolve(value))
        except SystemExit as stop:  # it would end a thread, and not the program
            return self._failed(stop)

    def _perform_here(self, arguments: dict[str, object]) -> ToolMessage:
        try:
            return self._perform(arguments)
        except KeyboardInterrupt as stop:  # the program's own, here: a replay raises it again
            self.conclude(Error(stop))
            raise

    async def _aperform(self, arguments: dict[str, object]) -> ToolMessage:
        assert self.tool is not None
        if self.run.services.gate is not None or self.run.services.barrier is not None:
            await asyncio.to_thread(self._await_turn)
        try:
            return self._result(await aresolve(await self.tool.invoke(arguments)))
        except SystemExit as stop:  # it would break the loop off
            return self._failed(stop)

    async def _in_own_loop(self, coroutine: Coroutine[object, object, object]) -> ToolMessage:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        self._inner = lambda: void(loop.call_soon_threadsafe(task.cancel))
        try:
            return self._result(await aresolve(await coroutine))
        except SystemExit as stop:
            return self._failed(stop)
        finally:
            self._inner = None

    def _await_turn(self) -> None:
        """Return when the trace allows the tool to run: one with effects, when it is on disk."""
        assert self.tool is not None
        if self.tool.effect == "effect" and self.run.services.barrier is not None:
            code = getattr(inspect.unwrap(self.tool.function()), "__code__", None)
            if code is not None:
                from appl.runtime.tools.asking import running

                running[self.frame] = code
            self.run.services.barrier()
        elif self.tool.effect != "program" and self.run.services.gate is not None:
            self.run.services.gate()

    # -- its end

    def _result(self, value: object) -> ToolMessage:
        assert self.tool is not None
        if isinstance(value, Message):
            return ToolMessage(self._parts(value), self.call.id, value.has_error)
        if isinstance(value, Media):
            return ToolMessage(value, self.call.id)
        return self._message(text_of(value), False)

    def _parts(self, message: Message) -> list[object]:
        assert self.tool is not None
        return [self.tool.mask(p) if isinstance(p, str) else p for p in message.parts]

    def _message(self, text: str, failed: bool) -> ToolMessage:
        if self._changed and not failed:  # the model thinks of what it wrote
            text = f"{text}\n(A person changed the arguments to {self._changed}.)"
        if self.tool is not None:
            text = self.tool.mask(text)
        return ToolMessage(text, self.call.id, failed)

    def cancel(self) -> None:
        fiber = self.asking
        if fiber is None:
            super().cancel()
            return
        self.looked = self._cancelled = True
        at_home(fiber.hub, lambda: fiber.throw(Stop()) if self.asking is not None else None)

    def _failed(self, error: BaseException) -> ToolMessage:
        return self._message(f"{self._called} failed: {described(error)}", True)

    def attempt(self, body: Callable[[], object]) -> Outcome:
        outcome = super().attempt(body)
        if isinstance(outcome, Error) and not isinstance(outcome.error, THROUGH):
            return Value(self._failed(outcome.error))
        return outcome

    @property
    def _called(self) -> str:
        return self.tool.name if self.tool is not None else self.call.name

    def closing(self) -> None:
        if self._alarm is not None:
            self._alarm.off()

    # -- its early end

    def _arm(self) -> None:
        """Have :meth:`_late` called when the time is up; a replay knows when that was."""
        if self.timeout is None:
            return
        run = self.run
        self._ordinal = run.outside.next_observation(self)
        moment = Moment(self.address, "deadline", self._ordinal)
        run.outside.expect(moment, lambda _: self._expire(), self._set_alarm)

    def _set_alarm(self) -> None:
        assert self.timeout is not None
        if not self._over:
            self._alarm = Alarm(self.run, self.timeout, self._expire)

    def _expire(self) -> None:
        assert isinstance(self.home, Hub)
        run_on(self.home, self._late)

    def _late(self) -> None:
        """End the call, on the program's own thread: the time is up."""
        if self._over:
            return
        if (watcher := self.run.reporter.watcher) is not None:
            at = time.monotonic_ns()
            watcher.on_event(Observed(self.address, self._ordinal, "deadline", True, at))
        text = f"{self._called} did not finish within {self.timeout} s"
        with ENDING:
            if self._active and self.can_stop():
                self._rest = Promise(self.address, self.home)
                self.children = [self._rest]
        self.conclude(Value(self._message(text, True)))
        self.abandon()


def described(error: BaseException) -> str:
    """An exception by its type and, where it says something, its words."""
    kind = type(error).__name__
    try:
        message = str(error)
    except Exception:
        return kind
    return f"{kind}: {message}" if message else kind


def text_of(value: object) -> str:
    """The result of a tool as text for a model: JSON, but a text alone as it is."""
    if isinstance(value, str):
        return str.__str__(value)
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    import pydantic_core as core  # only typed answers and tools need it

    how: Any = {"fallback": str, "bytes_mode": "base64", "inf_nan_mode": "constants"}
    try:
        text = str(core.to_json(value, **how), "utf-8")
        return str(json.loads(text)) if text.startswith('"') else text
    except core.PydanticSerializationError as error:
        raise ValueError(f"what it returned cannot be written as JSON: {error}") from None

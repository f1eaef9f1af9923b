"""``gen_with_tools``: a model that is asked until it stops calling tools, as one future.

Invariant: it does not wait for anything; its calls, and those of the tools, have addresses below
its own, and a step begins when all tools of the step before have answered.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Literal, Required, TypeVar, Unpack, cast, overload

from appl.errors import InvalidOption, ToolLoopError, UnknownOption, Unsupported, nearest
from appl.prompt import UNFORMATTED, Part, Prompt, PromptNode, Voice, nodes_of
from appl.runtime.answers.gen_options import OPTION_NAMES, StepOptions, check_number, with_options
from appl.runtime.answers.generate import gen
from appl.runtime.answers.request_options import DEFAULTS
from appl.runtime.answers.samples import total_of
from appl.runtime.answers.text import Text
from appl.runtime.concurrency import structure
from appl.runtime.concurrency.fiber import Hub, in_coroutine, strand_here
from appl.runtime.concurrency.future import Generation, TypedGeneration, finished, text_of
from appl.runtime.concurrency.parallel import scope_beside
from appl.runtime.concurrency.promise import Outcome, Promise, Typed, Value
from appl.runtime.concurrency.task import Task, context_for
from appl.runtime.frame import Frame, here
from appl.runtime.future_takers import taking_futures
from appl.runtime.prompts.explicit import PromptSource, explicit_prompt
from appl.runtime.prompts.place import PendingPlace
from appl.runtime.prompts.say import say
from appl.runtime.tools.toolbox import Toolbox, Tools

if TYPE_CHECKING:
    from appl.runtime.answers.call import Call
    from appl.runtime.answers.multi_call import MultiCall

R = TypeVar("R")
STEPS = 8


class LoopOptions(StepOptions, total=False):
    """Options of ``gen_with_tools``, whose docstring describes those that are here."""

    tools: Required[Tools]
    max_steps: int
    tool_choice: object
    parallel: bool
    tool_timeout: float | None
    on_limit: Literal["raise", "answer"]


@overload
def gen_with_tools(
    model: str | None = None, *, response_format: type[R], **options: Unpack[LoopOptions]
) -> TypedGeneration[R]: ...
@overload
def gen_with_tools(
    model: str | None = None, *, response_format: None = None, **options: Unpack[LoopOptions]
) -> Generation: ...
@overload
def gen_with_tools(
    model: str | None = None, *, response_format: object, **options: Unpack[LoopOptions]
) -> TypedGeneration[Any]: ...


@taking_futures
@with_options(StepOptions, DEFAULTS)
def gen_with_tools(
    model: str | None = None,
    *,
    tools: Tools,
    max_steps: int = STEPS,
    tool_choice: object = None,
    messages: PromptSource | None = None,
    parallel: bool = True,
    tool_timeout: float | None = None,
    on_limit: Literal["raise", "answer"] = "raise",
    response_format: object = None,
    **options: Any,
) -> Generation[Any]:
    """Ask a model, run the tools that it calls, and ask again, until it answers; a future at once.

    For example::

        @ppl
        def agent(task: str) -> str:
            f"{task}"
            return gen_with_tools(tools=[search, calculate], max_steps=5)

    ``usage`` and ``cost`` of the answer are those of all steps. The prompt of the caller stays as
    it is. Said as a statement, ``(a := gen_with_tools(...))``, it adds every call, every result
    and the answer, each as a message; in an f-string, the text of the answer.

    The options of its own come first; the others are those of ``gen``, for every step:

        tools: Functions, ``Tool`` objects or MCP servers; at least one.
        max_steps: How many answers may call tools, the last included; default 8.
        on_limit: After ``max_steps``, ``"raise"`` (the default) raises ``ToolLoopError``;
            ``"answer"`` asks a last time, without tools.
        tool_choice: As for ``gen``; holds for the first step only.
        parallel: Whether the calls of one answer run side by side; default True.
        tool_timeout: Seconds for each call of a tool; by default no limit.
        model, messages, response_format: As for ``gen``.
    """
    caller = here(repr, messages)
    caller.run.check_open()
    box = Toolbox.of(tools)
    _check(box, max_steps, on_limit, options)
    check_number("tool_timeout", tool_timeout, 0)
    frame = scope_beside(caller, "gen_with_tools")
    if messages is not None:
        node, rendered = explicit_prompt(messages, frame.run.recent)
        frame.prompt = Prompt(nodes_of(None, rendered) if rendered is not None else node)
        frame.origin = frame.prompt.tip
    gen_options = {**options, "tools": box, "response_format": response_format}
    context = context_for(frame)
    first = context.run(lambda: gen(model, tool_choice=tool_choice, **gen_options))
    frame.call_place = _place(first)
    steps = _Steps(frame, model, gen_options, max_steps, parallel, tool_timeout, on_limit)
    loop = ToolLoop(frame, strand_here().hub)
    caller.add(loop)
    if caller.run.services.sequential and not in_coroutine():
        loop.run_here(lambda: steps.run(loop, first), context)
    else:
        loop.run_in_fiber(lambda: steps.run(loop, first), context)
    return Generation(loop)


_OWN = ("max_steps", "parallel", "tool_timeout", "on_limit")


def _check(box: Toolbox, max_steps: int, on_limit: str, options: dict[str, object]) -> None:
    if not len(box):
        raise InvalidOption("gen_with_tools(tools=...) needs at least one tool; without, use gen()")
    check_number("max_steps", max_steps, 1, whole=True)
    if on_limit not in ("raise", "answer"):
        raise InvalidOption(
            f"gen_with_tools(on_limit={on_limit!r}): it is 'raise' or 'answer', without tools"
        )
    for name in options:
        if name not in OPTION_NAMES and (hint := nearest(name, _OWN, 0.7)):
            raise UnknownOption(f"gen_with_tools() has no option {name!r}{hint}")
    for name, usual in (("n", 1), ("stream", False)):
        if options.get(name, usual) != usual:
            raise Unsupported(
                f"gen_with_tools({name}={options[name]!r}): write the loop with gen and "
                "run_tool_calls to have that"
            )


def _place(first: Generation) -> tuple[str, int] | None:
    """The user's line of the first step; the other steps have no line of the user's above them."""
    call = cast("Call | MultiCall", first._pending).call
    return (call.file, call.line) if call.file is not None and call.line is not None else None


@dataclasses.dataclass(slots=True)
class _Steps:
    """The arguments of one loop."""

    frame: Frame
    model: str | None
    asked: dict[str, Any]
    most: int
    parallel: bool
    timeout: float | None
    on_limit: str

    def run(self, loop: ToolLoop, answer: Generation) -> Value:
        """Ask until there is an answer; its outcome, with what all steps have used."""
        try:
            return self._run(loop, answer)
        except BaseException:
            structure.cancel_all(self.frame.started)
            raise
        finally:
            self.frame.finish()

    def _run(self, loop: ToolLoop, answer: Generation) -> Value:
        loop.answers.append(answer)
        while answer.tool_calls:
            last = len(loop.answers) >= self.most
            if last and self.on_limit == "raise":
                names = ", ".join(call.name for call in answer.tool_calls)
                raise ToolLoopError(
                    f"the model still calls tools ({names}) at step {self.most}, the last one: "
                    "raise max_steps, or let it answer with what it has, on_limit='answer'"
                )
            box: Toolbox = self.asked["tools"]
            say(self.frame, answer)
            calls = answer.tool_calls
            say(self.frame, box.run(calls, parallel=self.parallel, timeout=self.timeout))
            answer = gen(self.model, tool_choice="none" if last else None, **self.asked)
            loop.answers.append(answer)
            if last:
                break
        return _total(loop.address, loop.answers)


def _total(address: str, answers: list[Generation]) -> Value:
    """The outcome of the last answer, with the usage and cost of all; the loop is at *address*."""
    texts = [text_of(answer._pending) for answer in answers]
    last = texts[-1]
    response = total_of([text._response for text in texts], last._response.samples)
    text = Text.of(address, response, objects=last._objects, tools=last._tools)
    if last._objects is None:
        return Value(text)
    return Typed(finished(answers[-1]), text)


class ToolLoop(Task):
    """A ``gen_with_tools`` while it runs; ``answers`` are those of its steps so far."""

    __slots__ = ("answers",)

    def __init__(self, frame: Frame, home: Hub) -> None:
        super().__init__(frame, home)
        self.overlaps = False
        self.answers: list[Generation] = []

    def attempt(self, body: Any) -> Outcome:
        outcome = super().attempt(body)
        if isinstance(outcome, Value) and isinstance(outcome.value, Value):
            return outcome.value
        return outcome

    def answered_by(self) -> tuple[str, ...]:
        return self.answers[-1]._pending.answered_by() if self.answers else (self.address,)

    def prompt_place(self, voice: Voice) -> Part:
        return PendingPlace(self, _conversation, voice)


def _conversation(pending: Promise) -> list[PromptNode]:
    """The conversation of a finished loop: calls, results, and the answer."""
    assert isinstance(pending, ToolLoop)
    tip = pending.frame.tip()
    nodes = tip.since(pending.frame.origin) if tip is not None else []
    return [*nodes, PromptNode(None, _ANSWERING, pending)]


_ANSWERING = Voice("assistant", None, UNFORMATTED)
"""Who gives the answer: the model, whoever says the records of the loop."""

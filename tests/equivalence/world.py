"""Tools and previews in plain Python, and the names that a plain program uses."""

from __future__ import annotations

import inspect
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

from appl.errors import ToolLoopError

from . import spoken
from .answers import Answers, box_of, parts_of, total
from .layout import Msg, ToolCall
from .plain import (
    ASSISTANT,
    Answer,
    Frame,
    Part,
    Picture,
    Place,
    Scribe,
    Stream,
    Unknown,
    calls_of,
    outcome,
)


class Tool:
    """A function under a name, with arguments that the model does not set."""

    def __init__(self, f: Callable[..., Any], name: str | None = None, **fixed: Any) -> None:
        self.f, self.fixed = f, fixed
        self.__name__ = name or f.__name__

    def __call__(self, **given: Any) -> Any:
        return self.f(**given, **self.fixed)


class Context(Scribe):
    """A prompt that is held by hand."""

    world: World

    def grow(self, value: Any) -> Context:
        self.world.say(value, self)
        return self

    def copy(self) -> Context:
        return self._like(list(self.parts))

    def inherit(self) -> Context:
        return self._like(self.parts)

    def _like(self, parts: list[Part]) -> Context:
        made = type(self)(parts, [self.voice], len(parts), self.voice)
        return made

    @property
    def records(self) -> Any:
        return self.world.records(self)

    @property
    def messages(self) -> Any:
        return self.world.convo(self)


class World(Answers):
    """All that a plain program can do."""

    # -- tools

    def run_tool_calls(
        self, answer: Answer, filter: Any = None, *, parallel: bool = True
    ) -> list[Msg]:
        calls = calls_of(self.arrived(answer))
        box = outcome(answer).tools
        return [self.run_tool(each, box) for each in calls if filter is None or filter(each)]

    def run_tool(self, call: ToolCall, box: dict[str, Any]) -> Msg:
        """What one call of a tool says; whatever goes wrong is said, too."""
        tool = box.get(call.name)
        frame = self.beside("unknown_tool" if tool is None else call.name)
        if tool is None:
            problem = f'there is no tool "{call.name}" (there are: {", ".join(box)})'
            return Msg("tool", problem, answers=call.id, failed=True)
        arguments = json.loads(call.arguments)
        if problem := wrong_in(tool, arguments):
            problem = f"{call.name} was not called: {problem}"
            return Msg("tool", problem, answers=call.id, failed=True)
        self.marks["tool runs"] += 1
        try:
            value = self.within(frame, lambda: self.done(tool(**arguments)))
        except Exception as error:
            self.marks["tool failures"] += 1
            problem = f"{call.name} failed: {type(error).__name__}: {error}"
            return Msg("tool", problem, answers=call.id, failed=True)
        said = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
        return Msg("tool", said, answers=call.id)

    def gen_with_tools(
        self, *, tools: Any, max_steps: int = 8, on_limit: str = "raise", tool_choice: Any = None,
        messages: Any = None, parallel: bool = True, **options: Any,
    ) -> Answer:  # fmt: skip
        frame = self.beside("gen_with_tools")
        if messages is not None:
            frame.parts = parts_of(messages)
            frame.start = len(frame.parts)
        options["tools"] = tools
        answers: list[Answer] = []

        def ask(choice: Any) -> Answer:
            answers.append(self.gen(**options, **({"tool_choice": choice} if choice else {})))
            return answers[-1]

        def body() -> Any:
            answer = ask(tool_choice)
            for step in range(1, max_steps + 1):
                if not calls_of(self.arrived(answer)):
                    break
                if step == max_steps and on_limit == "raise":
                    raise ToolLoopError(too_many(answer, max_steps))
                self.say(answer)
                self.say(self.run_tool_calls(answer))
                self.marks["tool steps"] += 1
                answer = ask("none" if step == max_steps else None)
            self.v(answer)
            return answer.value if answer.text is not None else str(answer.value)

        made = self.later(frame.address, lambda: self.within(frame, body), late=False)
        last = answers[-1]
        made.place = [*frame.said, Part(replace(ASSISTANT, path=None), made)]
        made.addresses, made.replies = last.addresses, last.replies
        made.text, made.objects = last.text, last.objects
        made.used = total([each.used for each in answers])
        return made

    # -- what is kept

    def reset_context(self, f: Any) -> None:
        """Forget what a function remembers, on one object or on all."""
        own = getattr(f, "__self__", None)
        function = getattr(f, "__func__", f)
        for key in list(self.kept):
            if key[0] is function and (own is None or key[1] == id(own)):
                del self.kept[key]

    # -- previews

    def rendered(self, f: Callable[..., Any], *args: Any) -> list[str]:
        """The prompt of the first call that ``f(*args)`` makes, without making it."""
        outer = dict(vars(self))
        self.calls, self.said, self.marks, self.kept = {}, {}, Counter(), {}
        self.begin_run()
        self.previewing = True
        try:
            f(*args)
        except Unknown:
            pass
        finally:
            calls = list(self.calls.values())
            vars(self).update(outer)
        return [str(message) for asked in calls[:1] for message in asked.messages]

    # -- the names of a plain program

    def namespace(self) -> dict[str, Any]:
        """What the plain text uses."""
        same = [
            "v", "done", "answered", "say", "keep", "begin", "put", "region", "ppl", "gen", "select", "call",
            "map", "records", "convo", "task", "caught", "samples", "objects", "reply", "tokens",
            "run_tool_calls", "gen_with_tools", "rendered", "reset_context", "joined", "traceable",
            "text_of",
        ]  # fmt: skip
        names: dict[str, Any] = {name: getattr(self, name) for name in same}
        names |= spoken.vocabulary(self)
        names["grow"], names["mark"] = self.say, lambda feature: self.marks.update([feature])
        names["stream"] = partial(Stream, self)
        names["appl"] = SimpleNamespace(iter=partial(spoken.numbered, self))
        names["empty_line"] = self.empty_lines
        names["as_tool"] = Tool
        names["PromptContext"] = type("PromptContext", (Context,), {"world": self})
        names["Definition"] = spoken.Definition
        names["BracketedDefinition"] = spoken.BracketedDefinition
        names["Image"] = names["Audio"] = SimpleNamespace(from_bytes=Picture)
        for role, name in (
            ("user", "UserMessage"), ("assistant", "AIMessage"), ("system", "SystemMessage"),
        ):  # fmt: skip
            names[name] = partial(message, role)
        self.names = names
        return names

    def empty_lines(self, count: int = 1) -> Any:
        scribe = Frame()
        with_block = spoken.Block(spoken.changed(spoken.Look(), sep="\n", new_indent=""))
        scribe.voices = [replace(scribe.voice, path=(with_block,))]
        for _ in range(count):
            scribe.write("")
        return self.records(scribe)


def message(role: str, content: Any, *, name: str | None = None) -> Any:
    """A message of text and pictures."""
    if not isinstance(content, list):
        content = [content]
    text, media = "", []
    for each in content:
        if isinstance(each, Picture):
            media.append((len(text), bytes(each)))
        else:
            text += each
    return Msg(role, text, name, tuple(media))


def wrong_in(tool: Any, arguments: dict[str, Any]) -> str:
    """What is wrong with the arguments of a call."""
    f, fixed = (tool.f, tool.fixed) if isinstance(tool, Tool) else (tool, {})
    takes = [name for name in inspect.signature(f).parameters if name not in fixed]
    for name in arguments:
        if name not in takes:
            return f'unknown argument "{name}" (it takes {", ".join(takes)})'
    return "" if "q" in arguments else "q is missing"


def too_many(answer: Answer, steps: int) -> str:
    names = ", ".join(call.name for call in calls_of(answer))
    return (
        f"the model still calls tools ({names}) at step {steps}, the last one: raise "
        "max_steps, or let it answer with what it has, on_limit='answer'"
    )


__all__ = ["Place", "World", "box_of"]

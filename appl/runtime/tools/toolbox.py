"""The tools that one call offers to its model, by name, and how the calls that come back are run.

Invariant: no two tools of a box have one name; results stand in the order of the calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from appl.errors import InvalidOption, ToolError, nearest
from appl.prompt import ToolCall, ToolMessage
from appl.runtime.answers.answer import CallFilter
from appl.runtime.answers.gen_options import check_number
from appl.runtime.concurrency.fiber import in_coroutine
from appl.runtime.concurrency.future import finished
from appl.runtime.tools import toolrun
from appl.runtime.tools.tool import CHOICES, SchemaTool, Tool, ToolSource, as_tool, as_tool_choice

Offered = Tool | Callable[..., object] | Mapping[str, object] | ToolSource
Tools = Offered | Sequence[Offered]
"""A value of ``gen(tools=...)``: one tool, or several."""


class Toolbox:
    """Tools by name; ``texts`` is what goes to a backend, in their order."""

    __slots__ = ("_by_name", "texts")

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._by_name: dict[str, Tool] = {}
        for tool in tools:
            if tool.name in self._by_name:
                raise ToolError(
                    f"two tools are called {tool.name!r}; give one another name with "
                    "as_tool(f, name=...)"
                )
            self._by_name[tool.name] = tool
        self.texts = tuple(tool.text for tool in self)

    @classmethod
    def of(cls, tools: object) -> Toolbox:
        """The box of what ``gen(tools=...)`` was given: one tool or several, or sources of them."""
        return tools if isinstance(tools, Toolbox) else cls(_each(tools))

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def get(self, name: str) -> Tool | None:
        """The tool called *name*, if there is one."""
        return self._by_name.get(name)

    def choice(self, wanted: Any) -> str | None:
        """``tool_choice=`` as a word or a name of this box; ``None`` leaves it to the model."""
        wanted = finished(wanted)
        if wanted is None:
            return None
        name = as_tool_choice(wanted)
        if name not in CHOICES and name not in self._by_name:
            choices = ", ".join([*CHOICES, *self._by_name])
            raise InvalidOption(
                f"gen(tool_choice={name!r}): there is no such tool"
                f"{nearest(name, [*CHOICES, *self._by_name])} (it is one of: {choices})"
            )
        return None if name == "auto" else name

    def run(
        self,
        calls: Sequence[ToolCall],
        filter: CallFilter | None = None,
        *,
        parallel: bool | None = None,
        timeout: float | None = None,
    ) -> list[ToolMessage]:
        """Run *calls*, as ``run_tool_calls`` says; in a coroutine, something to await."""
        check_number("timeout", timeout, 0)
        if filter is not None and not callable(filter):
            raise InvalidOption(
                f"run_tool_calls(filter=...) takes a function of a call, got {filter!r:.80}"
            )
        chosen = [call for call in calls if filter is None or filter(call)]
        tools = [(call, self.get(call.name)) for call in chosen]
        for _, tool in tools:
            if tool is not None:
                tool.function()
        job = toolrun.Job(tools, list(self._by_name), parallel, timeout)
        return job.arun() if in_coroutine() else job.run()  # type: ignore[return-value]


def _each(tools: Any) -> Iterable[Tool]:
    """The tools in an object that a user gives as tools."""
    tools = finished(tools)
    if isinstance(tools, Tool):
        yield tools
    elif isinstance(tools, Mapping):
        yield SchemaTool(tools)
    elif isinstance(tools, list | tuple):
        for tool in tools:
            yield from _each(tool)
    elif isinstance(tools, ToolSource) and not callable(tools):
        yield from _each(list(tools.tools))
    elif tools is not None:
        yield as_tool(tools)

"""Renderings: the prompts of a program before anything was asked, with holes for what is not known.

Invariant: only reads; a hole ``‹/f.0/gen.0›`` stands where the text of that answer will stand.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from appl.prompt import Filled, Formatted, Lazy, Message, Prompt, PromptNode, PromptSlot
from appl.prompt.chain import moved
from appl.runtime.answers.call import Call
from appl.runtime.concurrency.promise import source_of

_LONGEST = 160


@dataclass(frozen=True, slots=True)
class Rendered:
    """One call: where it is asked, with which options, and its prompt.

    ``holes`` are the addresses of the answers that its prompt waits for, in their order.
    """

    address: str
    kind: str
    model: str
    options: dict[str, object]
    messages: tuple[Message, ...]
    holes: tuple[str, ...]
    file: str | None = None
    line: int | None = None

    def as_data(self) -> dict[str, object]:
        """The call as JSON-ready data."""
        data = {name: getattr(self, name) for name in self.__slots__}
        dialogue = [message.as_dict() for message in self.messages]
        return {**data, "messages": dialogue, "holes": list(self.holes)}

    def __str__(self) -> str:
        options = options_shown(self.options)
        where = f"{self.file}:{self.line}" if self.file else ""
        facts = [where, f"model {self.model}" if self.model else "", options]
        head = f"{self.address}  {', '.join(filter(None, facts))}".rstrip()
        return "\n".join([head, *(_shown(message) for message in self.messages)])


def options_shown(options: Mapping[str, object]) -> str:
    """The options of a call in one line: of its tools the names, of what is long the beginning."""
    return ", ".join(f"{key}={_option(key, value)}" for key, value in options.items())


def _option(key: str, value: object) -> str:
    if key == "tools" and isinstance(value, list | tuple):
        return json.dumps([_tool_name(tool) for tool in value])
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _tool_name(tool: Any) -> object:
    """The name of a described tool; what describes none, as a trace may hold, is shown itself."""
    try:
        name = json.loads(tool)["name"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return tool
    return name if isinstance(name, str) else tool


def _shown(message: Message) -> str:
    speaker = f"{message.role} {message.name}" if message.name else message.role
    return f"\n[{speaker}]\n{message.shown}"


@dataclass(frozen=True, slots=True)
class Need:
    """A place where a *program* needs *what*, and cannot go on without it."""

    program: str
    what: str
    file: str | None = None
    line: int | None = None

    def as_data(self) -> dict[str, object]:
        """The need as JSON-ready data."""
        return {"program": self.program, "what": self.what, "file": self.file, "line": self.line}

    def __str__(self) -> str:
        at = f" at {self.file}:{self.line}" if self.file else ""
        return f"{self.program or 'the program'} needs {self.what}{at}: what follows is not known"


@dataclass(frozen=True, slots=True)
class Rendering:
    """The calls that a program makes without waiting for an answer, and where it has to wait.

    ``needs`` is empty when the program came to its end.
    """

    calls: tuple[Rendered, ...] = ()
    needs: tuple[Need, ...] = ()

    def as_data(self) -> dict[str, object]:
        """All of it as JSON-ready data."""
        return {
            "calls": [call.as_data() for call in self.calls],
            "needs": [need.as_data() for need in self.needs],
        }

    def __iter__(self) -> Iterator[Rendered]:
        return iter(self.calls)

    def __len__(self) -> int:
        return len(self.calls)

    def __getitem__(self, index: int) -> Rendered:
        return self.calls[index]

    def __str__(self) -> str:
        parts = list(map(str, self.calls)) or ["no call is made before an answer is needed"]
        if self.needs:
            parts.append("\n".join(map(str, self.needs)))
        return "\n\n".join(parts)


class Holes:
    """Prompts with holes in place of what is not there; what they share is made once."""

    def __init__(self) -> None:
        self._rebuilt: dict[PromptNode, PromptNode | None] = {}

    def rendered(self, call: Call) -> Rendered:
        """*call* as it stands now."""
        messages = call.messages
        holes: list[str] = []
        if call.node is not None:
            todo: list[PromptNode] = []
            node: PromptNode | None = call.node
            while node is not None and node not in self._rebuilt:
                todo.append(node)
                node = node.parent
            tip = self._rebuilt[node] if node is not None else None
            for missing in reversed(todo):
                prompt = Prompt(tip)
                _say(prompt, missing)
                tip = self._rebuilt[missing] = prompt.tip
            messages = tip.messages() if tip is not None else None
            holes = [source_of(lazy).address for lazy in call.node.holes() if not _is_there(lazy)]
        return Rendered(
            call.address,
            call.identity.kind,
            call.model,
            json.loads(call.sampling.canonical()),
            tuple(messages or ()),
            tuple(dict.fromkeys(reversed(holes))),
            call.file,
            call.line,
        )


def _say(prompt: Prompt, node: PromptNode) -> None:
    part = node.part
    if isinstance(part, PromptSlot) and part.has_prompt_kind():
        for moved_node in moved(part.prompt_nodes(), part.voice, node.voice):
            _say(prompt, moved_node)
    elif (lazy := node.lazy) is None or _is_there(lazy):
        prompt.extend([node])
    else:
        prompt.extend([node.after(None, part=_hole(lazy))])


class _Hole:
    """A lazy part that is shown in place of another."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def prompt_ready(self) -> bool:
        return True

    def prompt_text(self) -> str:
        return self.text

    def prompt_source(self) -> object:
        return None


def _hole(lazy: Lazy) -> Lazy:
    if isinstance(lazy, Filled):
        return Filled(_hole(lazy.part), lazy.shape)
    form = ""
    if isinstance(lazy, Formatted):
        form = ("!" if lazy.conversion else "") + lazy.conversion
        form += f":{lazy.spec}" if lazy.spec else ""
    return _Hole(f"‹{source_of(lazy).address}{form}›")


def _is_there(lazy: Lazy) -> bool:
    if not lazy.prompt_ready():
        return False
    try:
        lazy.prompt_text()
    except BaseException:  # it failed, and will fail the call whose prompt it is in
        return False
    return True

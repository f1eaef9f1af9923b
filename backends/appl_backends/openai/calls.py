"""Tool calls as servers send them, whole or in pieces of a stream.

Servers differ in what they put into a piece: an index for each call or 0 for all of them, an id in
each piece or in the first, the name once or again and again. Invariant: pieces give the calls that
the same answer has when it is not streamed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from appl.backend.check import WrongField, text_in
from appl.prompt import ToolCall

NO_ARGUMENTS = "{}"
_MOST_LOOKS, _LONGEST_LOOK = 1000, 1 << 20
"""The most checks of growing arguments, and the length in characters up to which they are made."""

CALL_FIELDS = frozenset({"id", "type", "function", "index"})
FUNCTION_FIELDS = frozenset({"name", "arguments"})


class CallAssembler:
    """Puts the calls of one streamed answer together, from the pieces in their order."""

    __slots__ = ("_by_id", "_by_index", "_calls")

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._by_id: dict[str, _Call] = {}
        self._by_index: dict[int, _Call] = {}

    def add(self, piece: Any) -> int:
        """Add a *piece*, a member of ``tool_calls``. Returns the number of characters it holds.

        Raises ``WrongField``.
        """
        if not isinstance(piece, dict):
            raise WrongField(f"a tool call must be an object, got {type(piece).__name__}")
        index, id = _index(piece.get("index")), _text(piece.get("id"))
        function = piece.get("function")
        function = function if isinstance(function, dict) else {}
        name, arguments = text_in(_text(function.get("name")), "name"), _arguments(function)
        call = self._call_of(index, id, name, arguments)
        if call is None:
            call = _Call(len(self._calls) if index is None else index)
            self._calls.append(call)
        if index is not None:
            self._by_index[index] = call
        if id:
            call.id = id
            self._by_id[id] = call
        call.add(name, arguments)
        merge(call.more, piece, CALL_FIELDS)
        merge(call.function, function, FUNCTION_FIELDS)
        return len(arguments)

    def _call_of(self, index: int | None, id: str, name: str, arguments: str) -> _Call | None:
        """The call that a piece goes on with; ``None`` if it begins one."""
        if index is None:
            found = self._by_id.get(id) if id else (self._calls[-1] if self._calls else None)
        else:
            found = self._by_index.get(index)
            if found is not None and id and found.id and id != found.id:
                return self._by_id.get(id)  # a server that has the index 0 for all calls
        known = found is not None and id and found.id
        if found is None or known or not name or not found.name or not found.is_whole:
            return found
        # Where one has no id, another name, or the same one with arguments after whole ones.
        return found if name == found.name and arguments in ("", found.arguments) else None

    def calls(self) -> list[dict[str, Any]]:
        """The calls as an answer that is not streamed has them."""
        return [call.as_dict() for call in sorted(self._calls, key=lambda call: call.index)]

    def __bool__(self) -> bool:
        return bool(self._calls)


class _Call:
    """A call that pieces add to."""

    __slots__ = ("function", "id", "index", "looks", "more", "name", "pieces", "size")

    def __init__(self, index: int) -> None:
        self.index, self.id, self.name = index, "", ""
        self.size = self.looks = 0
        self.pieces: list[str] = []
        self.more: dict[str, Any] = {}
        self.function: dict[str, Any] = {}

    @property
    def arguments(self) -> str:
        if len(self.pieces) > 1:
            self.pieces = ["".join(self.pieces)]
        return self.pieces[0] if self.pieces else ""

    @property
    def is_whole(self) -> bool:
        """True if its arguments are a whole JSON object, which nothing can follow."""
        if not (self.pieces and self.pieces[-1].rstrip().endswith("}")):
            return False
        self.looks += 1
        if self.looks > _MOST_LOOKS or self.size > _LONGEST_LOOK:
            return False
        try:
            return isinstance(json.loads(self.arguments), dict)
        except (ValueError, RecursionError):
            return False

    def add(self, name: str, arguments: str) -> None:
        if name and name != self.name:
            self.name += name
        # A whole call that is sent a second time says nothing new.
        if arguments and not (name and self.is_whole and arguments == self.arguments):
            self.pieces.append(arguments)
            self.size += len(arguments)

    def as_dict(self) -> dict[str, Any]:
        function = {**put_together(self.function), "name": self.name, "arguments": self.arguments}
        return {**put_together(self.more), "id": self.id, "function": function}


def calls_of(message: dict[str, Any], answer: Any, known: Iterable[str]) -> tuple[ToolCall, ...]:
    """The calls of a whole *message*, each with an id of its own that is not among the *known*.

    *answer* is the id of the answer. Raises ``WrongField`` for a call of no tool.
    """
    listed = message.get("tool_calls")
    if not listed and isinstance(legacy := message.get("function_call"), dict):
        listed = [{"function": legacy}]
    if not listed:
        return ()
    if not isinstance(listed, list):
        raise WrongField(f"tool_calls must be a list, got {type(listed).__name__}")
    taken, answer = set(known), _text(answer)
    return tuple([_unique(each, at, answer, taken) for at, each in enumerate(listed)])


def _unique(call: Any, at: int, answer: str, taken: set[str]) -> ToolCall:
    if not isinstance(call, dict):
        raise WrongField(f"a tool call must be an object, got {type(call).__name__}")
    function = call.get("function")
    function = function if isinstance(function, dict) else call  # some servers nest nothing
    name = text_in(function.get("name"), "name of a tool call")
    if not name:
        raise WrongField("a tool call names no tool")
    id = _text(call.get("id")) or f"call_{answer or 'a'}_{at}"
    number, unique = 1, id
    while unique in taken:
        number += 1
        unique = f"{id}_{number}"
    taken.add(unique)
    arguments = _arguments(function)
    return ToolCall(unique, name, arguments if arguments.strip() else NO_ARGUMENTS)


def _arguments(function: dict[str, Any]) -> str:
    """The arguments as JSON text; some servers send the object itself."""
    arguments = function.get("arguments")
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _index(value: Any) -> int | None:
    """The index of a call, which a few servers send as text; ``None`` if it is none."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 9:
        value = int(value)
    return value if type(value) is int and value >= 0 else None


# -- fields that nothing here knows

_WHOLE = frozenset({"format", "id", "index", "name", "object", "role", "signature", "type"})
"""Fields whose text a stream sends whole, perhaps again; other texts come in pieces."""
_NEAR = 64
"""The number of last members of a list that are searched for one with the same index."""


class _Pieces(list[str]):
    """A text that comes in pieces."""


def merge(into: dict[str, Any], piece: dict[str, Any], known: frozenset[str]) -> bool:
    """Add the fields of a *piece* of a stream, without the *known* ones, to those *into* came.

    True if there were any. :func:`put_together` gives what all pieces say.
    """
    found = False
    for name, value in piece.items():
        if name not in known and not is_empty(value):
            into[name] = _joined(name, into.get(name), value)
            found = True
    return found


def _merge_inner(into: dict[str, Any], piece: dict[str, Any]) -> None:
    """As :func:`merge`, for an object within a field, whose empty fields may have to be there."""
    for name, value in piece.items():
        if is_empty(value):
            into.setdefault(name, value)
        else:
            into[name] = _joined(name, into.get(name), value)


def _joined(name: str, before: Any, value: Any) -> Any:
    # In place, as a server may send a million pieces.
    if isinstance(value, str):
        if name in _WHOLE:
            return value
        before = before if isinstance(before, _Pieces) else _Pieces()
        before.append(value)
        return before
    if isinstance(value, dict):
        before = before if isinstance(before, dict) else {}
        _merge_inner(before, value)
        return before
    if isinstance(value, list):
        before = before if isinstance(before, list) else []
        for each in value:
            _add(before, each)
        return before
    return value


def _add(listed: list[Any], value: Any) -> None:
    """Add *value* to a list, whose members with one index are put together."""
    if isinstance(value, dict):
        index = value.get("index")
        same = (e for e in listed[-_NEAR:] if isinstance(e, dict) and e.get("index") == index)
        before = next(same, None) if index is not None else None
        if before is None:
            listed.append(before := {})
        _merge_inner(before, value)
    else:
        listed.append(value)


def put_together(value: Any) -> Any:
    """The fields that :func:`merge` has gathered."""
    if isinstance(value, _Pieces):
        return "".join(value)
    if isinstance(value, dict):
        return {name: put_together(each) for name, each in value.items()}
    return [put_together(each) for each in value] if isinstance(value, list) else value


def is_empty(value: Any) -> bool:
    """True for a field that says nothing."""
    return value is None or value == "" or value == [] or value == {}

"""A plain reader of traces, written after ``docs/trace-format.md``: the oracle of the others.

It knows no code of ``appl``. It holds everything, believes every record, and reads those kinds of
which calls, tools and observations consist.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import zstandard

OUTCOMES = ("answered", "failed", "cancelled")


def payloads(data: bytes) -> Iterator[bytes]:
    """The records of each whole block."""
    at = 8
    while at + 21 <= len(data):
        length, _, _, _, codec, size = struct.unpack_from("<IIIIBI", data, at)
        payload = data[at + 21 : at + 21 + length]
        if len(payload) < length:
            return
        payload = payload[:-16] if codec & 0x80 else payload
        packed = codec & 0x7F
        yield zstandard.ZstdDecompressor().decompress(payload, size) if packed else payload
        at += 21 + length


def records(path: Path) -> Iterator[list[Any]]:
    """The records of a file, those that were masked or sealed as they are shown."""
    for payload in payloads(path.read_bytes()):
        unpacker = msgpack.Unpacker(raw=False, unicode_errors="surrogatepass", max_buffer_size=0)
        unpacker.feed(payload)
        for fields in unpacker:
            while fields[0] in "!$":
                fields = fields[-1]
            yield fields


class PlainTrace:
    """The calls, tools and observations of a trace, as lists of facts by address."""

    def __init__(self, path: Path) -> None:
        self.calls: dict[str, dict[str, Any]] = {}
        self.tools: dict[str, dict[str, Any]] = {}
        self.scopes: list[str] = []
        self.seen: list[tuple[str, str, int]] = []
        self._known: dict[Any, Any] = {}
        self._starts = self._told = 0
        for fields in records(path):
            act = getattr(self, f"_{fields[0]}", None)
            if act is not None:
                act(*fields[1:])

    def _text(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        number, _, is_text = value["$blob"]
        data = b"".join(self._known["B", number])
        return data.decode("utf-8", "surrogatepass") if is_text else data

    def _scope(self, scope: Any) -> str:
        return str(self._known["X", scope]) if isinstance(scope, int) else scope

    def _call(self, call: Any) -> dict[str, Any]:
        if isinstance(call, int):
            found: dict[str, Any] = self._known["S", call]
            return found
        return self.calls.setdefault(call, {"address": call, "sent": 0})

    def _I(self, *_: object) -> None:
        self._known = {}

    def _T(self, number: int, name: str) -> None:
        self._known["T", number] = name

    def _B(self, number: int, _: int, data: bytes) -> None:
        self._known.setdefault(("B", number), []).append(data)

    def _X(self, number: int, parent: Any, leaf: str, *_: object) -> None:
        address = f"{self._scope(parent)}/{leaf}" if parent != "" else leaf
        self._known["X", number] = address
        self.scopes.append(address)

    def _M(self, number: int, role: str, content: Any, *_: object) -> None:
        said = self._known["S", content]["texts"][0] if isinstance(content, int) else content
        self._known["M", number] = role, self._text(said)

    def _L(self, number: int, message: int, text: Any, *_: object) -> None:
        role, said = self._known["M", message]
        self._known["M", number] = role, said + self._text(text)

    def _N(self, number: int, parent: int | None, message: int, *_: object) -> None:
        above = [] if parent is None else self._known["N", parent]
        self._known["N", number] = [*above, self._known["M", message]]

    def _P(self, number: int, model: str, options: Any) -> None:
        self._known["P", number] = model, self._text(options)

    def _S(
        self, number: int, scope: Any, leaf: str, ordinal: int, kind: str, prompt: int | None,
        parameters: int, n: int, sample: int, content: bytes, edges: list[Any], file: int | None,
        line: int | None, at: int, *_: object,
    ) -> None:  # fmt: skip
        model, options = self._known["P", parameters]
        address = f"{self._scope(scope)}/{leaf}"
        self.calls.pop(address, None)
        self.calls[address] = self._known["S", number] = {
            "address": address, "sent": 0, "ordinal": ordinal, "kind": kind, "model": model,
            "sampling": options, "n": n, "sample": sample, "content": content,
            "prompt": [] if prompt is None else self._known["N", prompt],
            "edges": [self._call(edge)["address"] if isinstance(edge, int) else edge for edge in edges],
            "file": self._known.get(("T", file)), "line": line, "started": at,
            "position": self._starts,
        }  # fmt: skip
        self._starts += 1

    def _D(self, call: Any, *_: object) -> None:
        self._call(call)["sent"] += 1

    def _C(self, *_: object) -> None:
        self._told += 1

    def _E(self, call: Any, status: int, value: Any, at: int, *_: object) -> None:
        found = self._call(call)
        found.update(outcome=OUTCOMES[status], ended=at)
        if status == 0:
            found["texts"] = [self._text(sample[0]) for sample in value[0]]
        else:
            found["error"] = self._text(value[2])

    def _V(self, call: Any, _: int) -> None:
        used = self._known.get(("F", call)) if isinstance(call, int) else self.tools.get(call)
        (self._call(call) if used is None else used).setdefault("delivered", self._told)
        self._told += 1

    def _F(
        self, number: int, scope: Any, leaf: str, name: str, arguments: Any, effect: str,
        file: int | None, line: int | None, at: int,
    ) -> None:  # fmt: skip
        address = f"{self._scope(scope)}/{leaf}"
        self.tools.pop(address, None)
        self.tools[address] = self._known["F", number] = {
            "address": address, "name": name, "arguments": self._text(arguments),
            "started": at, "position": self._starts,
        }  # fmt: skip
        self._starts += 1

    def _R(self, call: Any, status: int, value: Any, at: int) -> None:
        used = self._known["F", call] if isinstance(call, int) else self.tools[call]
        used.update(outcome=OUTCOMES[status], ended=at)
        if status == 0:
            used["result"] = self._known["M", value][1]

    def _O(self, address: str, _: int, kind: str, *__: object) -> None:
        self.seen.append((address, kind, self._told))
        self._told += 1

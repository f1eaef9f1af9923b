"""Plain data to bytes and back: msgpack, total over ``str``, bounded, and nothing but data.

Invariant: ``revive(unpack(pack(plain(value))))`` equals *value* in content and type, for every
value that ``plain`` accepts; reading never makes an object of a type outside this module's list.
"""

from __future__ import annotations

import contextlib
import threading
from array import array
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import msgpack

if TYPE_CHECKING:
    from appl.tracing.format.allowance import DecodingAllowance

MAX_RAW = 16 << 20
UNCOUNTED = 1 << 20
MAX_DEPTH = 100
_MAX_ITEMS = 1 << 18
_WORD = 1 << 63
_NIL = b"\xc0"
_SMALL, _WIDEST = 1024, 16
"""Bytes of a record that is read without counting its parts, and of memory for each of them."""


class Plain(dict[str, Any]):
    """A value that ``plain`` returned; a process that records it again takes it as it is."""


_AS_IT_IS = frozenset((type(None), bool, float, str, bytes, Plain))
"""Types that ``pack`` takes; to look them up is ten times as fast as a call of ``plain``."""
_INT, _TUPLE, _MAP, _BLOB = "$int", "$tuple", "$map", "$blob"

Big = Callable[[str | bytes], object]


class _Packers(threading.local):
    """One pair of packers per thread: a packer keeps a buffer, so it cannot be shared."""

    def __init__(self) -> None:
        self.fast = msgpack.Packer()
        self.lenient = msgpack.Packer(unicode_errors="surrogatepass")


_packers = _Packers()


def pack(record: object) -> bytes:
    """The bytes of one record of plain data; lone surrogates are kept as they are."""
    try:
        packed: bytes = _packers.fast.pack(record)
    except UnicodeEncodeError:
        packed = _packers.lenient.pack(record)
    return packed


HEADS = {0xDC: 3, 0xDD: 5}
"""Bytes of the head of a packed list, by the first one; 1 for all that are not here."""


def packer() -> Callable[[object], bytes]:
    """A function that packs as ``pack``, but raises ``UnicodeEncodeError`` for a lone surrogate.

    One thread at a time may call it.
    """
    packs: Callable[[object], bytes] = msgpack.Packer().pack
    return packs


def unpack(data: bytes, allowance: DecodingAllowance | None = None) -> Iterator[Any]:
    """The records in *data*, in order; what they take is taken from *allowance*.

    Raises ``ValueError`` on anything that is not plain data, and ``TraceCorrupt`` when the
    allowance (by default that of a small file) is used up.
    """
    from appl.tracing.format.allowance import DecodingAllowance, of_file

    allowed = allowance or DecodingAllowance(of_file(0))
    return _records(data, list_hook=allowed.list_hook, object_hook=allowed.map_hook)


def unpack_singly(data: bytes, allowance: DecodingAllowance) -> Iterator[Any]:
    """As ``unpack``, for readers that keep one record at a time and count what they keep.

    At most ``UNCOUNTED`` bytes are not counted, as they cannot become more than a few hundred times
    that.
    """
    if len(data) <= UNCOUNTED:
        yield from _records(data)
        return
    from appl.tracing.format.allowance import DecodingAllowance

    scratch = DecodingAllowance(max(allowance.most - allowance.used, 0))
    for fields in unpack(data, scratch):
        yield fields
        scratch.used = 0


def unpack_one(data: bytes, allowance: DecodingAllowance) -> Any:
    """The record that *data* is, of those that ``unpack`` has read before.

    Raises ``ValueError``, and ``TraceCorrupt`` when the *allowance* is used up.
    """
    if len(data) < _SMALL:  # to be called for each list takes longer than to make it
        allowance.spend(_WIDEST * len(data))
        return msgpack.unpackb(data, **_LIMITS)
    hooks = {"list_hook": allowance.list_hook, "object_hook": allowance.map_hook}
    return msgpack.unpackb(data, **_LIMITS, **hooks)


def bounds(data: bytes) -> array[int]:
    """The places in *data* where each record begins, and where the last one ends."""
    unpacker = msgpack.Unpacker(max_buffer_size=MAX_RAW)
    unpacker.feed(data)
    places = array("I", [0])
    while places[-1] < len(data):
        unpacker.skip()
        places.append(unpacker.tell())
    return places


def _records(data: bytes, **hooks: object) -> Iterator[Any]:
    unpacker = msgpack.Unpacker(max_buffer_size=MAX_RAW, **_LIMITS, **hooks)
    unpacker.feed(data)
    yield from unpacker
    unpacker.feed(_NIL)  # a record that is cut off takes it in, so that no nil comes out
    with contextlib.suppress(ValueError):
        if next(unpacker, unpacker) is None:
            return
    raise ValueError("the last record is cut off")


def _refuse(code: int, data: bytes) -> object:
    raise ValueError(f"extension type {code} is not plain data")


_LIMITS: dict[str, Any] = {
    "raw": False,
    "unicode_errors": "surrogatepass",
    "strict_map_key": True,
    "ext_hook": _refuse,
    "max_array_len": _MAX_ITEMS,
    "max_map_len": _MAX_ITEMS,
    "max_ext_len": 0,
}


def plain(value: object, depth: int = MAX_DEPTH) -> Any:
    """*value* in the types that ``pack`` takes, with tags where those are too few: a copy.

    Raises ``TypeError`` for what is not plain data and ``ValueError`` for what is nested too
    deeply.
    """
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return int(value) if -_WORD <= value < _WORD else {_INT: hex(value)}
    if isinstance(value, str | bytes):
        return value
    if depth <= 0:
        raise ValueError(f"a value nested more than {MAX_DEPTH} deep cannot be recorded")
    if isinstance(value, dict):
        for key in value:
            if type(key) is not str or key[:1] == "$" or len(key) >= 4096:
                return {
                    _MAP: [[plain(k, depth - 1), plain(v, depth - 1)] for k, v in value.items()]
                }
        return {k: v if type(v) in _AS_IT_IS else plain(v, depth - 1) for k, v in value.items()}
    if isinstance(value, list | tuple):
        items = [v if type(v) in _AS_IT_IS else plain(v, depth - 1) for v in value]
        return {_TUPLE: items} if isinstance(value, tuple) else items
    raise TypeError(
        f"a value of type {type(value).__qualname__} cannot be recorded: a trace holds None, bool, "
        "int, float, str, bytes, list, tuple and dict; turn it into these first"
    )


def shortened(value: object, big: Big) -> Any:
    """The value of ``plain`` with the result of *big* in place of every ``str`` and ``bytes``."""
    if isinstance(value, str | bytes):
        return big(value)
    if isinstance(value, list):
        return [shortened(item, big) for item in value]
    if isinstance(value, dict) and _INT not in value:
        return {key: shortened(item, big) for key, item in value.items()}
    return value


def revive(value: object, big: Callable[[Any], str | bytes] | None = None, depth: int = 0) -> Any:
    """The value that ``plain`` was given; *big* turns back what stands for a long text."""
    if depth > 2 * MAX_DEPTH:
        raise ValueError("a value is nested too deeply")
    if isinstance(value, list):
        return [revive(item, big, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    tag, depth = next(iter(value), ""), depth + 1
    if tag[:1] != "$":
        return {key: revive(item, big, depth) for key, item in value.items()}
    body = value[tag]
    if tag == _INT and isinstance(body, str) and len(body) < 1 << 20:
        return int(body, 16)
    if tag == _TUPLE and isinstance(body, list):
        return tuple(revive(item, big, depth) for item in body)
    if tag == _MAP and isinstance(body, list):
        return {revive(k, big, depth): revive(v, big, depth) for k, v in body}
    if tag == _BLOB and big is not None:
        return big(value)
    raise ValueError(f"unknown tag {tag!r}")

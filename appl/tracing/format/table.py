"""The table of records: every kind of record of a trace, as a typed and frozen class.

The encoder, the readers, the privacy filter, sharing and ``docs/trace-format.md`` derive from it.

Invariant: a record is stored as an array of its fields. The first one is its tag. Optional fields
come last, and one that is ``None`` is left out. Each field declares its type and its ``Content``:
one that does not is written to no private trace.

A record that was read has the number of fields that its class declares; whoever reads it checks
what is in them. The annotations here are looked at when the program runs, so they are no strings.
"""

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Annotated, Any, Concatenate, Literal, NamedTuple, ParamSpec, TypeVar, get_args


class Content(Enum):
    """The classes of a field's content; the value says what becomes of it in a private trace."""

    PLAIN = "stays"
    OWNER = "stays, and is left out of a shared trace"
    PATH = "stays; a shared trace has only its last part"
    FACTS = "words of the command line are replaced; an unknown fact is refused"
    TEXT = "replaced"
    MESSAGE = "replaced, unless it is the id of a call"
    DETAILS = "name and arguments of calls are replaced; an unknown detail is refused"
    ERROR = "its message and arguments are replaced; an unknown fact is refused"
    ANSWER = "texts, arguments and reasoning are replaced, tokens and scores left out"
    RESULT = "an error is treated as that of a call; the message is a separate record"
    ABOUT = "stays, but ids of tokens are left out; an unknown fact is refused"
    OBSERVED = "numbers, booleans and nil stay; all other values are left out"
    OPTIONS = "numeric parameters stay; only the names of the others stay"
    WORD = "stays if it is a plain name"
    DIGEST = "its HMAC under the run key"
    PIECE = "sealed or left out"
    BYTES = "emptied"
    OMITTED = "left out"
    ORIGINS = "left out: it only says where a text comes from"


Map = dict[str, object]
Text = str | Map
"""A text, or what stands for one that is kept in pieces: ``{"$blob": [id, bytes, is text]}``."""

Id = Annotated[int, Content.PLAIN, "id"]
OptionalId = Annotated[int | None, Content.PLAIN, "id or nil"]
Reference = Annotated[int | str, Content.PLAIN, "id or address"]
Address = Annotated[str, Content.PLAIN, "address"]
Word = Annotated[str, Content.PLAIN]
OptionalWord = Annotated[str | None, Content.PLAIN]
Count = Annotated[int, Content.PLAIN]
OptionalLine = Annotated[int | None, Content.PLAIN]
Micros = Annotated[int, Content.PLAIN, "microseconds"]
Nanos = Annotated[int, Content.PLAIN, "nanoseconds"]


class HeaderRecord(NamedTuple):
    """The run: its format, program, settings, backend and versions. The first record of a file."""

    tag: Literal["H"]
    facts: Annotated[Map, Content.FACTS]


class ProcessRecord(NamedTuple):
    """A process begins to write. Record ids start again, and times count from its clock."""

    tag: Literal["I"]
    number: Count
    pid: Annotated[int, Content.OWNER]
    host: Annotated[str, Content.OWNER]
    reason: Word
    wall_ns: Nanos
    monotonic_ns: Nanos


class FileRecord(NamedTuple):
    """The name of a source file."""

    tag: Literal["T"]
    id: Id
    name: Annotated[str, Content.PATH]


class LineRecord(NamedTuple):
    """A source line. ``file`` is the id of a file."""

    tag: Literal["U"]
    id: Id
    file: Id
    line: Count


class ScopeRecord(NamedTuple):
    """A function, map item or task begins. Its address is that of ``parent`` and then ``leaf``.

    ``metadata`` is the user's; it is an empty map if ``arguments`` follow and the user set none.
    ``arguments`` show the arguments of a function.
    """

    tag: Literal["X"]
    id: Id
    parent: Reference
    leaf: Word
    name: Word
    file: OptionalId
    line: OptionalLine
    at: Micros
    metadata: Annotated[Any, Content.OMITTED, "value"] = None
    arguments: Annotated[str | None, Content.TEXT] = None


class ReturnRecord(NamedTuple):
    """A function returned the answer of ``call`` or the value in ``value``, or raised ``error``.

    Written if arguments are recorded, except for a function that returned the answer of its last
    ``gen``. The message of an ``error`` is shortened.
    """

    tag: Literal["Y"]
    scope: Reference
    call: Annotated[int | str | None, Content.PLAIN, "id or address"]
    value: Annotated[str | None, Content.TEXT]
    error: Annotated[Any, Content.ERROR, "error or nil"]
    at: Micros


class PieceRecord(NamedTuple):
    """A piece of a long text. The text consists of all pieces with this id."""

    tag: Literal["B"]
    id: Id
    place: Count
    data: Annotated[bytes, Content.PIECE]


class MediumRecord(NamedTuple):
    """An image or a sound (``image`` or ``audio``): a URL, or bytes."""

    tag: Literal["G"]
    id: Id
    kind: Word
    url: Annotated[str | None, Content.OMITTED]
    data: Annotated[bytes | Map, Content.BYTES, "long bytes"]
    mime: Word
    detail: OptionalWord


class MessageRecord(NamedTuple):
    """A message. A call id as the content of an assistant message stands for that call's answer."""

    tag: Literal["M"]
    id: Id
    role: Word
    content: Annotated[Text | int, Content.MESSAGE, "long text or id"]
    more: Annotated[Map | None, Content.DETAILS] = None


class LongerRecord(NamedTuple):
    """A message that consists of another one, ``message``, and then ``text``."""

    tag: Literal["L"]
    id: Id
    message: Id
    text: Annotated[Text, Content.MESSAGE, "long text"]
    more: Annotated[Map | None, Content.DETAILS] = None


class PromptRecord(NamedTuple):
    """A prompt: the prompt ``parent`` and one more message. ``digest`` covers both."""

    tag: Literal["N"]
    id: Id
    parent: OptionalId
    message: Id
    digest: Annotated[bytes, Content.DIGEST]
    origins: Annotated[list[object] | tuple[object, ...] | None, Content.ORIGINS, "array"] = None


class ParametersRecord(NamedTuple):
    """The model, and the sampling parameters as canonical JSON."""

    tag: Literal["P"]
    id: Id
    model: Word
    options: Annotated[Text, Content.OPTIONS, "long text"]


class StartRecord(NamedTuple):
    """A call is started. Its address is that of ``scope`` and then ``leaf``."""

    tag: Literal["S"]
    id: Id
    scope: Reference
    leaf: Word
    ordinal: Count
    kind: Word
    prompt: OptionalId
    parameters: Id
    n: Count
    sample: Count
    content: Annotated[bytes, Content.DIGEST]
    edges: Annotated[
        list[int | str] | tuple[int | str, ...], Content.PLAIN, "array of ids and addresses"
    ]
    file: OptionalId
    line: OptionalLine
    at: Micros
    timeout: Annotated[float | None, Content.PLAIN]


class DispatchRecord(NamedTuple):
    """An attempt of a call is sent. ``waited`` has the waiting time by reason, in microseconds."""

    tag: Literal["D"]
    call: Reference
    attempt: Count
    at: Micros
    waited: Annotated[dict[str, int] | None, Content.PLAIN] = None


class RetryRecord(NamedTuple):
    """An attempt failed. The next one follows after at least ``wait`` microseconds."""

    tag: Literal["A"]
    call: Reference
    attempt: Count
    error: Annotated[Any, Content.ERROR, "error"]
    at: Micros
    wait: Micros = 0


class ChunksRecord(NamedTuple):
    """``chunks`` is the number of chunks of a stream that have reached the program."""

    tag: Literal["C"]
    call: Reference
    chunks: Count
    at: Micros


class EndRecord(NamedTuple):
    """A call ended. ``status`` is 0 (answered), 1 (failed) or 2 (cancelled)."""

    tag: Literal["E"]
    call: Reference
    status: Count
    value: Annotated[Any, Content.ANSWER, "answer or error"]
    at: Micros
    lengths: Annotated[list[object] | None, Content.OMITTED] = None
    texts: Annotated[list[object] | None, Content.OMITTED] = None
    about: Annotated[Map | None, Content.ABOUT] = None


class DeliveryRecord(NamedTuple):
    """The outcome of a call or of a tool call is delivered to the program."""

    tag: Literal["V"]
    call: Reference
    at: Micros


class ToolStartRecord(NamedTuple):
    """A tool is called. Its address is that of ``scope`` and then ``leaf``."""

    tag: Literal["F"]
    id: Id
    scope: Reference
    leaf: Word
    name: Annotated[str, Content.WORD]
    arguments: Annotated[Text, Content.TEXT, "long text"]
    effect: Word
    file: OptionalId
    line: OptionalLine
    at: Micros


class ToolEndRecord(NamedTuple):
    """A tool call ended. ``value`` is the id of a message if ``status`` is 0, else an error."""

    tag: Literal["R"]
    call: Reference
    status: Count
    value: Annotated[Any, Content.RESULT, "id or error"]
    at: Micros


class FailureRecord(NamedTuple):
    """The last attempt at a typed answer did not fit its type, or an item raised (``kind``).

    An item is one of ``map`` or ``as_completed``, or a function that ``call`` started. ``of`` is
    the address of the first call for the answer, or of the first item in the same group.
    ``items`` is the size of the group; 0 if not all of its items run, or if it is unknown.
    """

    tag: Literal["J"]
    address: Address
    kind: Word
    error: Annotated[Any, Content.ERROR, "error"]
    of: Address
    items: Count
    at: Micros


class ObservationRecord(NamedTuple):
    """A program read something from outside, such as a time or a file: ``kind`` says what."""

    tag: Literal["O"]
    address: Address
    ordinal: Count
    kind: Word
    value: Annotated[Any, Content.OBSERVED, "value"]
    at: Micros


class BatchRecord(NamedTuple):
    """A batch of ``calls`` at a provider reached a state; ``facts`` have its name there.

    ``state`` is ``gathered``, ``sending``, ``sent``, ``refused``, ``ended`` or ``removed``.
    """

    tag: Literal["Q"]
    key: Word
    state: Word
    at: Micros
    facts: Annotated[Map, Content.PLAIN]
    calls: Annotated[
        list[int | str] | tuple[int | str, ...], Content.PLAIN, "array of ids and addresses"
    ]


class WarningRecord(NamedTuple):
    """A warning of the run, at an address."""

    tag: Literal["W"]
    address: Address
    message: Annotated[str, Content.TEXT]
    at: Micros


class CloseRecord(NamedTuple):
    """The run ends. ``reason`` is ``finished``, ``failed``, ``cancelled`` or another word.

    ``totals`` are the sums over all calls. ``sums`` has them by model, and the time that the calls
    took: a list of runs reads only these two fields.
    """

    tag: Literal["Z"]
    reason: Word
    error: Annotated[object, Content.ERROR, "error or nil"]
    at: Micros
    totals: Annotated[Map, Content.PLAIN]
    sums: Annotated[Map | None, Content.PLAIN] = None


Record = (
    HeaderRecord | ProcessRecord | FileRecord | LineRecord | ScopeRecord | ReturnRecord
    | PieceRecord | MediumRecord | MessageRecord | LongerRecord | PromptRecord | ParametersRecord
    | StartRecord | DispatchRecord | RetryRecord | ChunksRecord | EndRecord | DeliveryRecord
    | ToolStartRecord | ToolEndRecord | FailureRecord | ObservationRecord | BatchRecord
    | WarningRecord | CloseRecord
)  # fmt: skip
Kind = type[Any]
"""The class of a record."""
Fields = tuple[object, ...]

MASKED = "!"
"""The tag around a record from which secrets were taken out: their names, and the record."""
SEALED = "$"
"""The tag around a record of a private trace: sealed bytes, names of what was taken out of it, and
what is shown in its place."""
REDACTED = "redacted"
"""The name of what a private trace takes out of a record."""


def tag_of(kind: Kind) -> str:
    """The letter that a record of *kind* begins with."""
    tag: str = get_args(kind.__annotations__["tag"])[0]
    return tag


def width(kind: Kind) -> int:
    """The number of fields of *kind*, its tag included and optional fields left out."""
    return len(kind._fields) - len(kind._field_defaults)


KINDS: dict[str, Kind] = {tag_of(kind): kind for kind in get_args(Record)}
"""All kinds by their tags."""
EVERY: frozenset[Kind] = frozenset(KINDS.values())


def tags(kinds: Iterable[Kind]) -> frozenset[str]:
    """The letters that records of *kinds* begin with."""
    return frozenset(map(tag_of, kinds))


def _content(hint: object) -> Content | None:
    declared = [
        content for content in getattr(hint, "__metadata__", ()) if isinstance(content, Content)
    ]
    return declared[0] if declared else None


def contents_of(kind: Kind) -> dict[str, Content | None]:
    """The content that each field of *kind* besides its tag declares; ``None`` without one."""
    return {name: _content(kind.__annotations__[name]) for name in kind._fields[1:]}


CONTENTS: dict[Kind, dict[str, Content | None]] = {kind: contents_of(kind) for kind in EVERY}
"""Of every kind, the declared content of each field besides its tag."""


# -- from fields to arrays -------------------------------------------------------------------

_P = ParamSpec("_P")


def row(kind: Callable[Concatenate[Any, _P], Record]) -> Callable[_P, Fields]:
    """A function from the fields of *kind*, without the tag, to the array that is stored.

    It is generated once: an encoder calls it for every record, and to make an object of the class
    first would take five times as long.
    """
    record: Kind = kind  # type: ignore[assignment]
    optional = [*record._field_defaults]
    needed = [name for name in record._fields[1:] if name not in optional]
    head = ", ".join([repr(tag_of(record)), *needed])
    body = f"({head})"
    if optional:
        none = " and ".join(f"{name} is None" for name in optional)
        more = f"*(each for each in ({', '.join(optional)},) if each is not None)"
        body = f"({head}) if {none} else ({head}, {optional[0] if len(optional) == 1 else more})"
    signature = ", ".join([*needed, *(f"{name}=None" for name in optional)])
    function: Callable[_P, Fields] = eval(f"lambda {signature}: {body}")
    return function


def stored(record: Record) -> Fields:
    """The array that *record* is stored as: optional fields that are ``None`` are left out."""
    needed = len(record) - len(record._field_defaults)
    optional = record[needed:]
    if optional.count(None) == len(optional):
        return record[:needed]
    return *record[:needed], *(value for value in optional if value is not None)


# -- from arrays to fields -------------------------------------------------------------------


_USUAL = {tag: (kind, width(kind), [*kind._field_defaults.values()]) for tag, kind in KINDS.items()}
"""By tags: the kind, the number of fields that a usual array has, and its optional fields."""
_new: Any = tuple.__new__


def as_record(fields: list[Any]) -> Any:
    """The record of an array as it was read. Fields that this version does not know are dropped.

    Raises ``KeyError`` for an unknown tag, and ``TypeError`` if fields are missing.
    """
    kind, count, missing = _USUAL[fields[0]]
    if len(fields) == count:
        return _new(kind, fields + missing if missing else fields)
    return _unusual(kind, fields)


def _unusual(kind: Kind, fields: list[object]) -> Any:
    if len(fields) == len(kind._fields):
        return _new(kind, fields)
    values = fields[: len(kind._fields)]
    if kind is EndRecord and isinstance(values[-1], dict) and len(values) > 5:
        values[5:] = [*values[5:-1], *[None] * (8 - len(values)), values[-1]]
    return kind(*values)


_R = TypeVar("_R", bound=Record)


def chosen(arrays: Iterable[object], kind: type[_R]) -> Iterator[_R]:
    """The records of *kind* among *arrays*, those that were masked or sealed as they are shown."""
    tag = tag_of(kind)
    for fields in map(unwrapped, arrays):
        if fields[0] == tag:
            yield as_record(fields)


def unwrapped(fields: Any) -> Any:
    """The array of a record without the one around it that says that it was masked or sealed."""
    while fields[0] in (MASKED, SEALED):
        fields = fields[-1]
    return fields

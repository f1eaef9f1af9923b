"""A whole run, or a call, as one JSON document, written while it is read.

Invariant: a run's calls, scopes and so on are written one per line, and none of them is kept in
memory. A damaged run, or one whose text is far larger than its file, ends the document early, and
the command fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from appl.cli.terminal import as_json, out
from appl.prompt import Message
from appl.tracing import RecordedCall, Trace
from appl.tracing.format.allowance import Written
from appl.tracing.format.totals import Totals
from appl.tracing.reading.documents import (
    call_facts,
    of_observation,
    of_return,
    of_scope,
    run_facts,
)
from appl.tracing.reading.trace import Elapsed

_PIECE, _KEPT = 1 << 16, 1 << 24  # characters: of what is written at once, and of texts at hand


def write(path: Path, salvage: bool, begins: Callable[[], None], most: int = 0) -> None:
    """Print the run at *path*; *begins* is called before anything is written.

    *most* is the largest number of characters; the default is 4 GiB or 1,000 times the file. Raises
    ``TraceError``.
    """
    run = Trace.open(path, salvage=salvage)
    for text in gathered(_document(run), Written(path.stat().st_size, most)):
        begins()
        out(text, end="")


def of_call(run: Trace, call: RecordedCall) -> Iterator[str]:
    """The JSON of *call* with the origins of its prompt, indented, in pieces."""
    yield as_json(call_facts(run, call), indent=2).removesuffix("\n}")
    yield from _indented("messages", (message.as_dict() for message in call.messages or ()))
    spans = ([span._asdict() for span in spans] for spans in call.spans())
    yield from _indented("spans", spans)
    yield "\n}\n"


def _indented(name: str, items: Iterable[object]) -> Iterator[str]:
    yield f',\n  "{name}": ['
    between, end = "\n    ", "]"
    for item in items:
        yield between + as_json(item, indent=2).replace("\n", "\n    ")
        between, end = ",\n    ", "\n  ]"
    yield end


def gathered(pieces: Iterable[str], written: Written) -> Iterator[str]:
    """Join *pieces* into larger ones, within the limit of *written*. Raises ``TraceCorrupt``."""
    held: list[str] = []
    size = 0
    for piece in pieces:
        written.spend(len(piece))
        held.append(piece)
        size += len(piece)
        if size >= _PIECE:
            yield "".join(held)
            held, size = [], 0
    yield "".join(held)


def _document(run: Trace) -> Iterator[str]:
    totals, elapsed, texts = Totals(), Elapsed(), _Texts()
    yield "{\n"
    for name, value in run_facts(run).items():
        yield f'  "{name}": {as_json(value)},\n'
    yield from _list("calls", _calls(run, totals, elapsed, texts))
    yield from _list("scopes", ([as_json(of_scope(scope))] for scope in run.scopes))
    yield from _list("returns", ([as_json(of_return(end))] for end in run.returns.values()))
    yield from _list("tools", ([as_json(used.as_data())] for used in run.tools.values()))
    yield from _list("observations", ([as_json(of_observation(o))] for o in run.observations))
    warnings = ({"address": address, "message": message} for address, message in run.warnings)
    yield from _list("warnings", ([as_json(warning)] for warning in warnings))
    yield f'  "seconds": {as_json(elapsed.seconds)},\n'
    yield from _list(
        "failures", ([as_json(failure.as_data())] for failure in run.failures.values())
    )
    sums = {**totals.as_data(), **run.failure_counts().as_data()}
    yield f'  "totals": {as_json(sums)}\n}}\n'


def _list(name: str, items: Iterable[Iterable[str]]) -> Iterator[str]:
    yield f'  "{name}": ['
    between = "\n    "
    for pieces in items:
        yield between
        yield from pieces
        between = ",\n    "
    yield "],\n"


def _calls(run: Trace, totals: Totals, elapsed: Elapsed, texts: _Texts) -> Iterator[Iterator[str]]:
    for call in run.earlier:
        call.count_in(totals, earlier=True)
        elapsed.add(call)
    for call in run.calls:
        call.count_in(totals)
        elapsed.add(call)
        yield _call(run, call, texts)


def _call(run: Trace, call: RecordedCall, texts: _Texts) -> Iterator[str]:
    yield f'{as_json(call_facts(run, call))[:-1]}, "messages": ['
    links = call.messages.links() if call.messages is not None else []
    for i, link in enumerate(links):
        yield ", " + texts.of(link.message) if i else texts.of(link.message)
    yield "]}"


class _Texts:
    """Messages as JSON, with a cache of recent ones, as the next call usually repeats them."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Message, str]] = {}
        self._size = 0

    def of(self, message: Message) -> str:
        """The JSON of *message*."""
        cached = self._known.get(id(message))
        if cached is not None:
            return cached[1]
        text = as_json(message.as_dict())
        if self._size > _KEPT:
            self._known, self._size = {}, 0
        self._known[id(message)] = message, text  # which keeps the message, and so its id, alive
        self._size += len(text) + len(message.content)
        return text

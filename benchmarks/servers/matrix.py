"""A matrix: servers that nobody here has written × what programs ask of a model.

    python benchmarks/servers/matrix.py [NAME …] [--rows WORD …] [--cache FOLDER]
        [--start NAME=COMMAND …] [--write]

Each server is installed into an environment of its own under the cache folder, started, and asked
by ``@ppl`` programs through each backend that fits. ``--start`` gives the command for a server that
is installed otherwise, with the places ``{model}``, ``{port}`` and ``{key}``. ``--write`` keeps the
tables in ``benchmarks/results/servers.txt``; servers that are not asked keep their part there.

A cell is ``works``, ``refused`` before the call, an ``error`` that the program gets, or ``WRONG``:
a success that is none, or an exception without a type. Python 3.11, pip and npm are needed.
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from kinds import KEY, KINDS, Kind, Started, started
from programs import ROWS, NotApplicable, Route, Row, Wrong, bare_request
from relay import Relay
from report import kept

from appl.errors import ApplError

MARKS = {"works": "+", "refused": "-", "error": "!", "WRONG": "W", "n/a": "."}
_PLACE = re.compile(r"in call \S+, \S+?:\d+: ")


def verdict(row: Row, on: Route) -> tuple[str, str]:
    """What became of one cell, and what there is to say about it."""
    before = on.relay.questions()
    try:
        return "works", row(on)
    except Wrong as wrong:
        return "WRONG", str(wrong)
    except NotApplicable as reason:
        return "n/a", str(reason)
    except ApplError as error:
        asked = on.relay.questions() - before
        said = f"{type(error).__name__}: {_PLACE.sub('', str(error))}"
        if not asked and isinstance(error, (TypeError, ValueError)):
            return "refused", said
        return "error", f"{said} [{asked} request{'s' * (asked != 1)}]"
    except Exception as error:
        return "WRONG", f"untyped: {type(error).__name__}: {error}"


def routes(kind: Kind, server: Started) -> list[Route]:
    """The ways to *server*, each with a relay of its own, and with a bare way beside it.

    That one has the same model, where the way speaks OpenAI's interface.
    """
    found = []
    for way in kind.ways:
        relay, address = Relay(server.port), "url" if way.type == "sglang" else "base_url"
        settings = {"type": way.type, address: relay.url + way.path, "api_key": KEY, **way.settings}
        model = way.model.format(model=server.model)
        same = way.type == "openai"
        bare = bare_request(f"{relay.server}{way.path if same else '/v1'}", KEY)
        asked = model if same else kind.bare_model.format(model=server.model)
        name = re.sub(r"\W+", "-", way.title).strip("-")
        found.append(
            Route(way.title, settings, model, bare, relay, asked, kind.asks_key, kind.traits, name)
        )
    return found


def tables(kind: Kind, server: Started, wanted: list[str]) -> list[str]:
    """The table of one server, and below it what there is to say about its cells."""
    ways = routes(kind, server)
    lines = [f"== {server.title}", ""]
    lines += [f"   {chr(97 + at)} = {way.title}" for at, way in enumerate(ways)]
    lines += ["", f"   {'':30} " + " ".join(chr(97 + at) for at in range(len(ways)))]
    notes, counts = [], dict.fromkeys(MARKS, 0)
    for name in wanted:
        if name.startswith("fault: ") and "llmock" not in kind.traits:
            continue
        marks = []
        for at, on in enumerate(ways):
            began = time.monotonic()
            found, note = verdict(ROWS[name], on)
            note = _short(note, server)
            counts[found] += 1
            marks.append(MARKS[found])
            print(
                f"{kind.name}, {on.title}: {name}: {found} {note}"
                f" ({time.monotonic() - began:.1f} s)",
                flush=True,
            )
            if note:
                notes.append(f"   {name} ({chr(97 + at)}): {found}: {note}")
        lines.append(f"   {name:30} {' '.join(marks)}")
    for on in ways:
        on.relay.__exit__()
    told = ", ".join(f"{count} {found}" for found, count in counts.items())
    return [*lines, "", f"   {told}", "", *notes, ""]


def _short(note: str, server: Started) -> str:
    """*note* on one line, without what differs from machine to machine."""
    line = " ".join(note.replace(server.model, "MODEL").split())
    line = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", line)
    return line if len(line) <= 260 else line[:259] + "…"


HEAD = """Servers of others × what programs ask of a model.   + works, - refused before the call,
! an error that the program gets, W wrong, . nothing to try. The last table of each server is kept.
"""


def write(path: Path, parts: dict[str, list[str]]) -> None:
    """Put the *parts*, by the name of their server, into the file, in place of older ones."""
    old = path.read_text() if path.exists() else ""
    known = {each.partition(" | ")[0]: each for each in old.split("\n== ")[1:]}
    for name, lines in parts.items():
        known[name] = "\n".join(lines).removeprefix("== ").rstrip("\n") + "\n"
    order = [kind.name for kind in KINDS]
    found = sorted(known, key=lambda name: order.index(name) if name in order else 99)
    path.write_text(HEAD + "".join(f"\n== {known[name]}" for name in found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--rows", nargs="*", default=[])
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "appl-servers")
    parser.add_argument("--start", nargs="*", default=[], metavar="NAME=COMMAND")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    commands = dict(each.split("=", 1) for each in given.start)
    kinds = [k for k in KINDS if k.name in (given.names or [k.name for k in KINDS])]
    wanted = [n for n in ROWS if not given.rows or any(word in n for word in given.rows)]
    given.cache.mkdir(parents=True, exist_ok=True)
    os.environ.pop("OPENAI_API_KEY", None)
    for kind in kinds:
        if not kind.command and kind.name not in commands:
            print(f"{kind.name}: left out, --start {kind.name!r}=COMMAND would start it")
            continue
        with started(kind, given.cache.resolve(), commands.get(kind.name)) as server:
            lines = tables(kind, server, wanted)
        lines[0] = f"== {kind.name} | {server.title}, {datetime.date.today()}"
        print("\n".join(lines), flush=True)
        if given.write:
            write(kept("servers.txt"), {kind.name: lines})


if __name__ == "__main__":
    main()

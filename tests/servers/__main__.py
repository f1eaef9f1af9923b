"""The long form: ``python -m tests.servers [COUNT]`` asks every client for every kind of wrong answer.

*COUNT* answers (50,000) go to each of two clients and a third of that to litellm, all over sockets
and through runs; four times as many are parsed in this process.
"""

from __future__ import annotations

import os
import platform
import re
import sys
import time
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import chain, count, islice
from pathlib import Path

from tests.servers import matrix
from tests.servers.asked import Found, found_in, found_of_slow
from tests.servers.matrix import PROTOCOLS, Case, Protocol
from tests.servers.test_hostile_servers import parsed
from tests.wire.servers import FaultServer

EACH_RUN = 1000
CLIENTS = {"openai": 1.0, "sglang": 1.0, "litellm": 1 / 3}
SECONDS = 1.0


def kinds(protocol: Protocol, elsewhere: str) -> dict[str, Iterator[Case]]:
    """All cases by what is wrong with them; the last goes on for ever."""
    return {
        "status": matrix.statuses(protocol), "encoding": matrix.encodings(protocol),
        "framing": matrix.framings(protocol), "redirect": matrix.redirects(protocol, elsewhere),
        "order": matrix.orders(protocol), "field": matrix.fields(protocol),
        "bytes": chain.from_iterable(matrix.bytes_changed(protocol, seed, 800) for seed in count()),
    }  # fmt: skip


def memory(name: str) -> int:
    """The size of this process in MB: ``VmRSS`` now, ``VmHWM`` at most."""
    found = re.search(rf"{name}:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) >> 10


def of_client(client: str, stream: bool, number: int, elsewhere: str) -> Found:
    """Ask *client* for *number* cases, and tell what came of each kind."""
    protocol, total = PROTOCOLS[client][stream], Found()
    for kind, cases in kinds(protocol, elsewhere).items():
        found = Found()
        limited = islice(cases, number - total.kinds.total())
        while some := list(islice(limited, EACH_RUN)):
            found.add(found_in(client, some, stream))
        told(client, protocol, kind, found)
        total.add(found)
    found = found_in(client, matrix.choices(protocol), stream, wanted=2)
    told(client, protocol, "choices", found)
    total.add(found)
    slow = found_of_slow(client, matrix.slow(protocol, 0.05), stream, SECONDS)
    told(client, protocol, f"slow, deadline {SECONDS} s", slow)
    assert slow.slowest < SECONDS + 1
    total.add(slow)
    return total


def told(client: str, protocol: Protocol, kind: str, found: Found) -> None:
    """Print one line."""
    what = ", ".join(f"{number:,} {name}" for name, number in found.kinds.most_common())
    print(f"{client:8} {protocol.name:14} {kind:22} {found.kinds.total():7,}  "
          f"{memory('VmRSS'):4} MB  {what}", flush=True)  # fmt: skip


def main(number: int) -> None:
    """Ask, print, and fail where anything is wrong."""
    began, load = time.monotonic(), os.getloadavg()[0]
    found_in("litellm", [], False)
    for client in CLIENTS:
        found_in(client, islice(matrix.statuses(PROTOCOLS[client][False]), 50), False)
    idle = memory("VmRSS")
    print(f"idle: {idle} MB")
    Path("/proc/self/clear_refs").write_text("5")
    total = Found()
    with FaultServer() as other:
        for client, share in CLIENTS.items():
            for stream in (False, True):
                total.add(of_client(client, stream, int(number * share / 2), f"{other.url}/canary"))
        elsewhere = other.connections
    print(f"sockets: at most {memory('VmHWM')} MB", flush=True)
    inside = parsed(2 * number)
    above = memory("VmHWM") - idle
    sockets = total.kinds.total()
    print(f"\n{datetime.now(UTC):%Y-%m-%d}  $ python -m tests.servers {number}")
    print(f"Python {platform.python_version()}, load average {load:.0f} at the start, "
          f"{(time.monotonic() - began) / 60:.0f} minutes")  # fmt: skip
    print(f"{sockets + inside:,} answers: {sockets:,} over sockets through runs, {inside:,} parsed "
          f"in the process; {len(total.wrong)} untyped errors, stopped runs or calls past their "
          f"deadline by more than 1 s; {elsewhere} connections elsewhere; {above} MB above idle")  # fmt: skip
    print(*total.wrong, sep="\n")
    sys.exit(bool(total.wrong) or elsewhere > 0 or above > 200)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50_000)

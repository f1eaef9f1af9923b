"""Two processes that ask one server take half of its cache each, while both want all of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from appl.serving import Served, serving

CACHE = 1600
CLIENT = """
import sys, time, appl
from appl import gen, ppl

@ppl
def ask(number: int):
    f"{number} " + "the sea and the sky and the sand " * 8
    return gen(max_tokens=8)

with appl.record(sys.argv[1], backend="sglang") as session:
    until, told = time.monotonic() + 60, None
    while time.monotonic() < until:
        answers = [ask(number) for number in range(20)]
        for answer in answers:
            str(answer)
            share = session.run.dispatch.scheduler.ahead.room.residency.tokens
            if share != told:
                told = share
                print(share, flush=True)
"""


@contextmanager
def client(server: Served, trace: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that asks *server* for much, and says how large its share is."""
    keys = {"SGLANG_API_KEY": str(server.api_key), "SGLANG_ADMIN_KEY": str(server.admin_key)}
    with subprocess.Popen(
        [sys.executable, "-c", CLIENT, str(trace)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "SGLANG_URL": server.url, **keys},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def comes_to(process: subprocess.Popen[str], tokens: float) -> bool:
    assert process.stdout is not None
    return any(float(line) == tokens for line in iter(process.stdout.readline, ""))


def test_each_takes_half_while_both_want_all_and_all_when_the_other_is_killed(
    tmp_path: Path,
) -> None:
    with serving("--cache-tokens", str(CACHE)) as server, client(server, tmp_path / "a") as first:
        assert comes_to(first, CACHE)
        with client(server, tmp_path / "b") as second:
            assert comes_to(first, CACHE / 2) and comes_to(second, CACHE / 2)
            second.send_signal(signal.SIGKILL)
            assert comes_to(first, CACHE)

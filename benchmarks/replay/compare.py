"""Live calls and identical answers when a recorded parallel program is run again, by three tools.

``python -m benchmarks.replay.compare --vcr PYTHON --appl PYTHON [--runs 10]``

The PYTHONs are interpreters of environments of their own: ``pip install vcrpy httpx``, and
``pip install applang==0.2.2 "termcolor<3"`` (a fresh install of applang does not import with a
newer termcolor). The table goes to ``benchmarks/results/replay.txt``.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.replay.server import Sampling

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "replay.txt"
CALLS = 40
Once = Callable[[str, Path, bool], Any]


def _done(words: list[str], folder: Path, **environment: str) -> str:
    done = subprocess.run(
        words, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True,
        timeout=120,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return done.stdout


def ours(url: str, folder: Path, again: bool) -> Any:
    """What the program returns, recorded or replayed by appl."""
    (folder / "appl.toml").write_text(
        f'model = "gate/m"\n[backends.gate]\ntype = "openai"\nbase_url = "{url}"\n'
        'api_key = {env = "K"}\n'
    )
    paths = os.pathsep.join([str(ROOT), str(ROOT / "backends")])
    words = ["trace", "replay"] if again else ["run", f"{HERE}/ours.py:main"]
    command = [sys.executable, "-m", "appl", *words, "--json"]
    return json.loads(_done(command, folder, PYTHONPATH=paths, K="none", APPL_TRUST=str(folder)))[
        "value"
    ]


def with_vcr(python: str) -> Once:
    """What the program returns, recorded or replayed by vcrpy."""

    def once(url: str, folder: Path, again: bool) -> Any:
        _done(
            [python, f"{HERE}/with_vcr.py", url, f"{folder}/cassette.yaml", f"{folder}/out.json"],
            folder,
        )
        return json.loads((folder / "out.json").read_text())

    return once


def with_appl(python: str, strict: bool) -> Once:
    """What the program returns, recorded or resumed by APPL."""

    def once(url: str, folder: Path, again: bool) -> Any:
        (folder / "appl.yaml").write_text(
            "settings:\n  tracing:\n    enabled: true\n    path_format: ./trace\n"
            f"    strict_match: {str(strict).lower()}\n"
            "default_servers:\n  default: fake\nservers:\n  fake:\n"
            f"    model: openai/m\n    base_url: {url}\n    api_key: none\n"
        )
        given = {"HOME": str(folder), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        if again:
            (folder / "trace.pkl").rename(folder / "first.pkl")
            given["APPL_RESUME_TRACE"] = f"{folder}/first.pkl"
        program = folder / "program.py"
        program.write_text((HERE / "with_appl.py").read_text())
        _done([python, str(program), f"{folder}/out.json"], folder, **given)
        return json.loads((folder / "out.json").read_text())

    return once


def measured(once: Once, runs: int) -> tuple[int, int, int, int]:
    """Live calls on replay, of how many; identical answers, identical runs."""
    live = same = whole = 0
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as place:
            server = Sampling()
            first = once(server.url, Path(place), False)
            assert server.asked == CALLS, server.asked
            again = once(server.url, Path(place), True)
            live += server.asked - CALLS
            pairs = zip(_flat(first), _flat(again), strict=True)
            same += sum(str(a) == str(b) for a, b in pairs)
            whole += first == again
            server.shutdown()
    return live, CALLS * runs, same, whole


def _flat(value: Any) -> list[Any]:
    return [x for each in value for x in _flat(each)] if isinstance(value, list) else [value]


def table(given: argparse.Namespace) -> Iterator[str]:
    """The lines of the result."""
    yield f"{datetime.date.today()}  $ python -m benchmarks.replay.compare"
    yield f"{given.runs} recordings each, each replayed once: 10 votes of one prompt and 10 chats"
    yield "of 3 turns, all at once (fibers; for the others a pool of 8 threads), sampled answers"
    yield ""
    yield f"{'':34}{'live calls':>16}{'identical answers':>20}{'identical runs':>17}"
    tools: dict[str, Once] = {"appl (this project), exact replay": ours}
    if given.vcr:
        tools["vcrpy, method + address + body"] = with_vcr(given.vcr)
    if given.appl:
        tools["APPL 0.2.2 resume, strict match"] = with_appl(given.appl, True)
        tools["APPL 0.2.2 resume, not strict"] = with_appl(given.appl, False)
    for name, once in tools.items():
        try:
            live, of, same, whole = measured(once, given.runs)
        except RuntimeError as error:
            yield f"{name:34} failed: {str(error).strip().splitlines()[-1]}"
            continue
        cells = f"{live} of {of}", f"{same} of {of}", f"{whole} of {given.runs}"
        yield f"{name:34}{cells[0]:>16}{cells[1]:>20}{cells[2]:>17}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vcr", help="the Python that has vcrpy")
    parser.add_argument("--appl", help="the Python that has applang")
    parser.add_argument("--runs", type=int, default=10)
    lines = []
    for line in table(parser.parse_args()):
        print(line, flush=True)
        lines.append(line)
    RESULTS.write_text("\n".join(lines) + "\n")

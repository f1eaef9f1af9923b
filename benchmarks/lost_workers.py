"""Distributed maps on Ray while a worker, or a whole node, is killed at a random moment.

    python benchmarks/lost_workers.py --runs 20 --kinds worker node agent alone

Two nodes with one CPU each work on 24 items of 4 calls. Killed is a worker process, the daemon of a
node (its raylet, with all processes below it), or its agent; each time with SIGKILL, when a random
number of calls has begun. Each run must give the values of a run without Ray, ask no call twice,
and replay exactly without Ray. In the last runs no other node is left, and every item that was not
over must end with ``WorkerLost``.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # loopback only
os.environ["PYTHONPATH"] = f"{ROOT}:{ROOT / 'backends'}"
os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

import ray  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402

import appl  # noqa: E402
from appl import gen, ppl  # noqa: E402
from appl.errors import WorkerLost  # noqa: E402
from appl.parts.engine.cluster import Ray  # noqa: E402
from appl.session import replayed  # noqa: E402
from tests.cluster.programs import ledger  # noqa: E402

LEDGER = "tests.cluster.programs:Ledger"
STORE = 80 * 2**20
ITEMS, CALLS, CALL_S = 24, 4, 0.03


@ppl
def chain(word: str) -> str:
    f"{word} 0"
    for step in range(1, CALLS):
        answer = gen(max_tokens=4)
        f"{answer} {step}"
    return str(gen(max_tokens=4))


class Notices:
    """Stands in for stderr; notes when a line about a lost worker was written."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.lines: list[str] = []

    def write(self, text: str) -> int:
        if "a worker is lost" in text:
            self.times.append(time.monotonic())
            self.lines.append(text.strip())
        return len(text)

    def flush(self) -> None: ...

    def isatty(self) -> bool:
        return False


def below(pid: int) -> list[int]:
    """The processes that *pid* has started."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(one) for one in found]


def title(pid: int) -> str:
    """The command line of *pid*."""
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")


def kill(pids: list[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def kill_worker(node: Any, file: Path, dice: random.Random) -> None:
    daemons = [pid for pid in below(os.getpid()) if "raylet" in title(pid)]
    workers = [pid for daemon in daemons for pid in below(daemon) if "ray::Actor" in title(pid)]
    kill([dice.choice(sorted(workers))])


def kill_node(node: Any, file: Path, dice: random.Random) -> None:
    daemon = node.all_processes["raylet"][0].process.pid
    kill([daemon, *below(daemon)])


def kill_agent(node: Any, file: Path, dice: random.Random) -> None:
    daemon = node.all_processes["raylet"][0].process.pid
    kill([next(pid for pid in below(daemon) if "DashboardAgent" in title(pid))])


class Trial:
    """One map, and what is killed while it runs."""

    def __init__(self, seed: int, wait_s: float = 60.0) -> None:
        self.dice = random.Random(seed)
        self.folder = Path(tempfile.mkdtemp())
        self.file = self.folder / "ledger"
        self.file.touch()
        self.words = [f"w{i}" for i in range(ITEMS)]
        self._engine = Ray(at_once=4, wait_s=wait_s)
        self.killed = self.ended = 0.0
        self.in_flight = 0
        self.notices = Notices()

    def run(self, node: Any, harm: Callable[[Any, Path, random.Random], None]) -> list[Any]:
        """The values of the map; *harm* strikes while it runs."""
        lines = self.dice.randint(2, 2 * ITEMS * CALLS * 8 // 10)
        thread = threading.Thread(target=self._strike, args=(lines, node, harm))
        table = {"file": str(self.file), "seconds": CALL_S}
        before, sys.stderr = sys.stderr, self.notices  # type: ignore[assignment]
        try:
            with appl.record(
                self.folder / "trace", backend=LEDGER, backends={LEDGER: table}, seed=5
            ):
                thread.start()
                values: list[Any] = appl.map(
                    chain, self.words, on_error="collect", engine=self._engine
                )
        finally:
            sys.stderr = before
        self.ended = time.monotonic()
        thread.join()
        return values

    def _strike(self, lines: int, node: Any, harm: Callable[..., None]) -> None:
        while len(self.file.read_text().splitlines()) < lines:
            time.sleep(0.002)
        self.killed = time.monotonic()
        harm(node, self.file, self.dice)
        self.in_flight = sum(entry.ended is None for entry in ledger(self.file))

    def check(self, values: list[Any]) -> str:
        """Check the run; one line about it."""
        asked = Counter(entry.address for entry in ledger(self.file))
        again = [address for address, times in asked.items() if times > 1]
        assert not again, again
        with replayed(self.folder / "trace"):
            replay = appl.map(chain, self.words, on_error="collect", engine=self._engine)
        assert list(map(str, replay)) == list(map(str, values)), (replay, values)
        assert Counter(entry.address for entry in ledger(self.file)) == asked
        told = f"{self.notices.times[0] - self.killed:4.1f} s" if self.notices.times else "  -   "
        shutil.rmtree(self.folder)
        return (
            f"told after {told}, ended after {self.ended - self.killed:4.1f} s, "
            f"{len(again)} calls paid again, {self.in_flight} in flight"
        )


def expected() -> list[Any]:
    """The values of a run without Ray."""
    folder = Path(tempfile.mkdtemp())
    table = {"file": str(folder / "ledger")}
    with appl.record(folder / "trace", backend=LEDGER, backends={LEDGER: table}, seed=5):
        return appl.map(chain, [f"w{i}" for i in range(ITEMS)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    kinds = ["worker", "node", "agent", "alone"]
    parser.add_argument("--kinds", nargs="+", choices=kinds, default=kinds)
    options = parser.parse_args()
    right = expected()
    settings = {"num_cpus": 1, "object_store_memory": STORE}
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "include_dashboard": False, "object_store_memory": STORE},
    )
    try:
        stays = cluster.add_node(**settings)
        node = cluster.add_node(**settings)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
        harms = {"worker": kill_worker, "node": kill_node, "agent": kill_agent}
        for name in [kind for kind in options.kinds if kind in harms]:
            for seed in range(options.runs):
                trial = Trial(seed)
                values = trial.run(node, harms[name])
                assert values == right, values
                print(f"{name:6} {seed:2}: {trial.check(values)}", flush=True)
                if name != "worker":
                    cluster.remove_node(node, allow_graceful=False)
                    node = cluster.add_node(**settings)
        cluster.remove_node(node)
        for seed in range(3 if "alone" in options.kinds else 0):
            trial = Trial(seed, wait_s=5.0)
            values = trial.run(stays, kill_node)
            lost = sum(isinstance(value, WorkerLost) for value in values)
            good = sum(value == known for value, known in zip(values, right, strict=True))
            assert lost and lost + good == ITEMS, values
            print(f"alone  {seed:2}: {trial.check(values)}, {lost} items WorkerLost", flush=True)
            cluster.remove_node(stays, allow_graceful=False)
            stays = cluster.add_node(**settings)
        print(*trial.notices.lines)
    finally:
        ray.shutdown()
        cluster.shutdown()


if __name__ == "__main__":
    main()

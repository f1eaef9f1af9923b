"""``map(engine="ray")`` on a real Ray: a local one, with two worker processes."""

from __future__ import annotations

import _thread
import os
import threading
import time
from pathlib import Path

import pytest

import appl
from appl import Ray
from appl.errors import BudgetExceeded, InvalidOption
from appl.session import replayed
from appl.testing.embedded_server import serving
from appl.tracing import Trace
from tests.cluster.programs import (
    ask,
    ask_noted,
    fatal,
    ledger,
    own_thread,
    talk,
    talk_noted,
    telling,
)

LEDGER = "tests.cluster.programs:Ledger"
ROOT = Path(__file__).parents[2]
PATH = f"{ROOT}:{ROOT / 'backends'}"
SMALL = {"num_cpus": 2, "object_store_memory": 100 * 2**20}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A local Ray, started as a cluster's would be: the maps attach to it, and leave it running."""
    folder = tmp_path_factory.mktemp("ray")
    os.environ["APPL_TEST_FLAG"] = str(folder / "flag")
    engine = Ray(init={**SMALL, "runtime_env": {"env_vars": {"PYTHONPATH": PATH}}})
    engine.open()
    yield folder
    engine.close()
    del os.environ["APPL_TEST_FLAG"]


def recording(folder, *, seconds=0.0, hold="\0", together=0, **settings):
    """A run that asks the ledger in *folder*."""
    table = {"file": str(folder / "ledger"), "seconds": seconds, "hold": hold, "together": together}
    return appl.record(folder / "run.trace", backend=LEDGER, backends={LEDGER: table}, **settings)


def noted(folder):
    """The processes that items of ``ask_noted`` and ``talk_noted`` ran in."""
    file = folder / "flag.processes"
    found = {int(line) for line in file.read_text().split()}
    file.unlink()
    return found


def test_a_map_over_processes_is_one_run_and_replays_without_them(cluster, tmp_path):
    words = [f"w{i}" for i in range(40)]
    with recording(tmp_path, together=40):  # which takes both workers
        values = appl.map(talk_noted, words, engine=Ray(workers=2, at_once=20))
    workers = noted(cluster)
    assert len(workers) == 2 and os.getpid() not in workers
    assert {entry.pid for entry in ledger(tmp_path / "ledger")} == {os.getpid()}
    with replayed(tmp_path / "run.trace"):
        assert appl.map(talk_noted, words) == values
    trace = Trace.open(tmp_path / "run.trace")
    assert trace.state == "finished" and len(trace.calls) == 80
    with recording(tmp_path / "here" if (tmp_path / "here").mkdir() is None else tmp_path):
        assert appl.map(talk_noted, words) == values
    assert noted(cluster) == {os.getpid()}
    here = Trace.open(tmp_path / "here" / "run.trace")
    assert {c.address: c.content for c in trace.calls} == {c.address: c.content for c in here.calls}


def test_a_real_server_is_asked_with_the_key_of_the_calling_process(cluster, tmp_path, monkeypatch):
    with serving(log=tmp_path / "log") as server:
        monkeypatch.setenv("SERVER_API_KEY", server.api_key)
        table = {"url": server.url, "api_key": {"env": "SERVER_API_KEY"}}
        with appl.record(tmp_path / "trace", backend="sglang", backends={"sglang": table}):
            values = appl.map(talk, ["cat", "dog", "sun"], engine=Ray(workers=1))
    with replayed(tmp_path / "trace"):
        assert appl.map(talk, ["cat", "dog", "sun"]) == values
    assert server.api_key.encode() not in (tmp_path / "trace").read_bytes()


@pytest.mark.parametrize("items", [300, pytest.param(1000, marks=pytest.mark.long)])
def test_the_budget_is_never_passed(cluster, tmp_path, items):
    with recording(tmp_path, budget={"calls": 111}):
        found = appl.map(ask, range(items), on_error="collect", engine="ray")
    assert len(ledger(tmp_path / "ledger")) == 111
    assert sum(isinstance(each, BudgetExceeded) for each in found) == items - 111


def test_slots_and_requests_in_a_while_are_shared(cluster, tmp_path):
    limits = {"concurrency": 3, "requests": 12, "period": 1.5}
    with recording(tmp_path, seconds=0.02, limits=limits):
        assert len(appl.map(ask, range(24), engine="ray")) == 24
    entries = ledger(tmp_path / "ledger")
    assert {entry.ended is not None for entry in entries} == {True}
    assert max(sum(e.begun <= at.begun < e.ended for e in entries) for at in entries) <= 3
    begun = [entry.begun for entry in entries]
    assert begun[23] - begun[0] >= 0.5, "12 in 1.5 s; the first may have begun a second late"


def test_a_killed_worker_loses_nothing_that_was_told(cluster, tmp_path):
    words = [f"w{i}" for i in range(8)]
    with recording(tmp_path):
        values = appl.map(fatal, words, engine=Ray(workers=2, at_once=4))
    assert values == [f"W{i} ONE\nW{i} ONE TWO" for i in range(8)]
    asked = [entry.address for entry in ledger(tmp_path / "ledger")]
    assert asked.count("/fatal.3/gen.0") == 1, "it was told, so it was not paid again"
    trace = Trace.open(tmp_path / "run.trace")
    assert trace.by_address["/fatal.3/gen.0"].outcome == "answered"
    assert all(call.outcome == "answered" for call in trace.calls)


def test_a_secret_of_the_workers_environment_is_not_in_the_trace(cluster, tmp_path, monkeypatch):
    secret = "s3cr3t-of-the-worker-xyz"
    options = {"runtime_env": {"env_vars": {"LEDGER_API_KEY": secret}}}
    monkeypatch.setenv("LEDGER_API_KEY", "another-one-of-the-driver")
    with recording(tmp_path):
        values = appl.map(telling, ["LEDGER_API_KEY"], engine=Ray(options=options))
    assert values == [secret.upper()], "the model was told"
    trace = Trace.open(tmp_path / "run.trace")
    assert trace.calls[0].messages.message.content == "[secret LEDGER_API_KEY of a worker]"
    assert trace.calls[0].masked == ("LEDGER_API_KEY of a worker",)
    assert secret.encode() not in (tmp_path / "run.trace").read_bytes()


def test_ctrl_c_stops_the_workers(cluster, tmp_path):
    file = tmp_path / "ledger"
    file.touch()

    def interrupt():
        while len(file.read_text().splitlines()) < 4 + 12 or told() < 4:
            time.sleep(0.02)
        _thread.interrupt_main()

    def told():
        calls = Trace.open(tmp_path / "run.trace").calls
        return sum(call.outcome == "answered" for call in calls)

    watcher = threading.Thread(target=interrupt)
    with pytest.raises(KeyboardInterrupt), recording(tmp_path, hold="held"):
        watcher.start()
        appl.map(ask_noted, [*range(4), *(f"held {i}" for i in range(8))], engine="ray")
    watcher.join()
    trace = Trace.open(tmp_path / "run.trace")
    assert trace.reason == "interrupted"
    assert sum(call.outcome == "answered" for call in trace.calls) == 4
    assert sum(call.outcome == "cancelled" for call in trace.calls) == 8
    assert not [pid for pid in noted(cluster) if _works(pid)]


def _works(pid):
    """Whether process *pid* is there, and soon still; a killed one is a zombie until it is read."""
    for _ in range(1200):
        status = Path(f"/proc/{pid}/status")
        if not status.exists() or "State:\tZ" in status.read_text():
            return False
        time.sleep(0.05)
    return True


def test_what_cannot_be_pickled_is_refused(cluster, tmp_path):
    lock = threading.Lock()

    def locked(word):
        with lock:
            return word

    with recording(tmp_path), pytest.raises(InvalidOption, match=r"locked\(\) cannot be sent"):
        appl.map(locked, "ab", engine="ray")


def test_a_function_of_the_program_itself_is_sent_with_what_it_closes_over(cluster, tmp_path):
    """Here with one that asks on a thread of the user's own, which has no address on a worker."""
    added = 3

    @appl.ppl
    def local(number):
        f"{number + added}"
        return own_thread("x") if number == 3 else str(appl.gen(max_tokens=4))

    with recording(tmp_path):
        *values, said = appl.map(local, range(4), engine=Ray(workers=1))
    assert values == ["3", "4", "5"] and "start it with appl.call" in said

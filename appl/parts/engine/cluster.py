"""The engine of ``map(engine="ray")``: each worker is an actor of a Ray cluster.

Invariant: Ray is imported only when a map needs it. The engine ends what it started, and leaves a
cluster or local Ray that was already running.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Iterator, Mapping
from functools import partial
from types import ModuleType
from typing import Any

from appl.base import threads
from appl.base.extras import library
from appl.errors import InvalidOption, WorkerLost
from appl.parts.engine.node_watch import Address, answers, dies
from appl.parts.engine.protocol import Listener, Worker
from appl.parts.engine.worker_process import WorkerProcess

_END = b""
_QUIET = {"log_to_driver": False, "logging_level": "error"}
_CLUSTERS = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""The variable by which Ray is told whether other machines may reach it, despite its name."""


class Ray:
    """Workers on a Ray cluster: the one in Ray's settings, otherwise a local one for this map.

    There are at most *workers* (``None``: one per CPU of the cluster), each with *at_once* items at
    once. An item is started at most *tries* times if its workers are lost. *init* are arguments of
    ``ray.init`` if Ray does not run yet, *options* those of each worker's actor, such as
    ``{"num_cpus": 0.5, "runtime_env": {…}}``. If all workers are lost, new ones have *wait_s*
    seconds to start.
    """

    def __init__(
        self,
        workers: int | None = None,
        at_once: int = 64,
        tries: int = 3,
        *,
        init: Mapping[str, object] | None = None,
        options: Mapping[str, object] | None = None,
        wait_s: float = 60.0,
    ) -> None:
        for name, value in (("workers", workers), ("at_once", at_once), ("tries", tries)):
            if value is not None and (type(value) is not int or value < 1):
                raise InvalidOption(f"Ray({name}={value!r}): at least 1")
        self._wanted, self.at_once, self.tries = workers, at_once, tries
        self.workers = workers or 1
        self._init, self.options, self._wait_s = dict(init or {}), dict(options or {}), wait_s
        self._ray: Any = None
        self._started = False
        self._workers: list[_RayWorker] = []
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._nodes: set[str] = set()  # the nodes that are watched, by their ids
        self._closed, self._running = threading.Event(), threading.Event()
        self._running.set()
        self._late = False

    def open(self) -> None:
        """Connect to the cluster, starting a local one if necessary."""
        self._forget()
        local = "address" not in self._init and not os.environ.get("RAY_ADDRESS")
        with _on_loopback() if local else contextlib.nullcontext():
            self._ray = ray = _imported()
            self._started = not ray.is_initialized()
            if self._started:
                own = {"include_dashboard": False} if local else {}
                ray.init(**{**_QUIET, **own, **self._init})
        for node in ray.nodes():
            if node["Alive"]:
                self._watch(node["NodeID"])
        self.workers = self._wanted or max(int(ray.cluster_resources().get("CPU", 1)), 1)

    def close(self) -> None:
        """End the remaining workers, and the local Ray if this engine started it."""
        workers, self._workers = self._workers, []
        self._closed.set()
        self._running.set()
        for worker in workers:
            worker.kill()
        if self._started:
            self._started = False
            self._ray.shutdown()

    def hire(self, setup: bytes, listener: Listener) -> Worker:
        """Start one more actor."""
        worker = _RayWorker(self, self._ray, setup, listener)
        self._workers.append(worker)
        if self._late:
            worker.kill(self._too_late())
        return worker

    def started(self, worker: _RayWorker) -> None:
        """Note that *worker* has started, perhaps on a node that is new in the cluster."""
        with self._lock:
            self._late = False
            self._running.set()
        self._watch(worker.node)

    def _watch(self, node: str) -> None:
        """Watch *node* until the map ends, unless it is watched."""
        with self._lock:
            watched = node in self._nodes
            self._nodes.add(node)
        if not watched:
            threads.start(partial(self._until_dead, node, self._closed), "appl-ray-node")

    def _until_dead(self, node: str, closed: threading.Event) -> None:
        """Lose the workers on *node* when it dies, and those that may be starting there."""
        address = _address(self._ray, node)
        if address is None or not dies(partial(answers, address), closed.wait):
            return
        there = [worker for worker in self._workers if worker.node in (node, "")]
        for worker in there:
            worker.lose(f"the node {address[0]} ({node[:8]}) does not answer any more")
        # Only now, as it may take long: the cluster itself may be gone.
        for worker in there:
            worker.end()

    def lost(self) -> None:
        """Note that a worker is lost; if none is left, wait for new ones to start."""
        with self._lock:
            is_any_alive = any(worker.node and not worker.dead for worker in self._workers)
            if is_any_alive or not self._running.is_set() or self._closed.is_set():
                return
            # A new event for each time without workers: a thread that still waits for an earlier
            # one has seen it set.
            self._running = threading.Event()
            threads.start(partial(self._await_start, self._running, self._closed), "appl-ray-wait")

    def _await_start(self, running: threading.Event, closed: threading.Event) -> None:
        """Lose the workers that have not started after so long."""
        if running.wait(self._wait_s) or closed.is_set():
            return
        # First the mark, then the workers: hire() adds its worker before it reads the mark.
        self._late = True
        for worker in tuple(self._workers):
            worker.kill(self._too_late())

    def _too_late(self) -> str:
        return f"no worker started within {self._wait_s:g} s; Ray(wait_s=...) changes that"

    @staticmethod
    def dumps(value: object) -> bytes:
        """Serialize with Ray's own pickler, which also handles functions of the main module."""
        from ray import cloudpickle  # only a map on a Ray cluster needs it

        dumps: Any = cloudpickle.dumps
        data: bytes = dumps(value)
        return data


def _imported() -> Any:
    return library("ray", 'map(engine="ray")')


def _address(ray: ModuleType, node: str) -> Address | None:
    """The address of the daemon of *node*, an id; ``None`` if there is no such node."""
    members = (member for member in ray.nodes() if member["NodeID"] == node)
    return next(
        ((member["NodeManagerAddress"], member["NodeManagerPort"]) for member in members), None
    )


@contextlib.contextmanager
def _on_loopback() -> Iterator[None]:
    """Make a Ray that is imported and started inside the block listen on this machine only.

    By default Ray listens on every network of the machine and runs whatever any client asks for.
    """
    before = os.environ.get(_CLUSTERS)
    os.environ[_CLUSTERS] = before or "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_CLUSTERS]


class _RayWorker:
    """One actor, and the thread that receives its batches; ``node`` is "" until it has started."""

    def __init__(self, engine: Ray, ray: ModuleType, setup: bytes, listener: Listener) -> None:
        self._engine, self._ray, self._listener = engine, ray, listener
        # serve() occupies one of the actor's threads as long as it lives, so tell() needs others.
        options = {"num_cpus": 1, "max_concurrency": 4, "max_restarts": 0, **engine.options}
        self._actor = ray.remote(**options)(Actor).remote(setup)
        self._lock, self.dead, self.node = threading.Lock(), False, ""
        threads.start(self._hear, "appl-ray")

    def _hear(self) -> None:
        try:
            # This thread blocks in Ray until the next batch. The loop ends when the actor closes;
            # if its process dies, Ray raises, and the batches before that were heard.
            references = self._actor.serve.options(num_returns="streaming").remote()
            self.node = self._ray.get(next(references))
            self._engine.started(self)
            for reference in references:
                self._heard(self._ray.get(reference))
        except Exception as error:
            lines = str(error).strip().splitlines()
            self.lose(lines[0] if lines else type(error).__name__)

    def _heard(self, batch: bytes) -> None:
        # The watch of the node may lose the worker on another thread: after that nothing is heard.
        with self._lock:
            if not self.dead:
                self._listener.heard(self, batch)

    def lose(self, why: str) -> None:
        """Report the worker as lost, once."""
        with self._lock:
            first, self.dead = not self.dead, True
        if first:
            self._listener.lost(self, WorkerLost(why))
            self._engine.lost()

    def tell(self, batch: bytes) -> None:
        """Send *batch*. An actor receives one caller's calls in order."""
        if not self.dead:
            self._actor.tell.remote(batch)

    def kill(self, why: str = "it was killed") -> None:
        """End the process of the actor."""
        if not self.dead:
            self.lose(why)
            self.end()

    def end(self) -> None:
        """End the process, if the cluster is there to do it."""
        with contextlib.suppress(Exception):
            self._ray.kill(self._actor)


class Actor:
    """A worker inside a Ray actor: ``serve`` sends batches, ``tell`` receives them."""

    def __init__(self, setup: bytes) -> None:
        self._sent: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._process = WorkerProcess(setup, self._sent.put)

    def serve(self) -> Iterator[object]:
        """Yield the id of this node, then every batch that the worker sends, until it ends."""
        yield _imported().get_runtime_context().get_node_id()
        threads.start(self._run, "appl-worker")
        while (batch := self._sent.get()) != _END:
            yield batch

    def _run(self) -> None:
        try:
            self._process.run()
        finally:
            # serve() runs in another thread of the actor and ends with this mark, after the last
            # batch.
            self._sent.put(_END)

    def tell(self, batch: bytes) -> None:
        """Receive a batch from the driver."""
        self._process.receive(batch)

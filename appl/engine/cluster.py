"""The engine of ``map(engine="ray")``: each worker is an actor of a Ray cluster.

Invariant: Ray is imported only when a map needs it. The engine ends what it started, and leaves a
cluster or local Ray that was already running.
"""

from __future__ import annotations

import contextlib
import os
import queue
from collections.abc import Iterator, Mapping
from typing import Any

from appl import threads
from appl.engine.protocol import Listener, Worker
from appl.engine.worker_process import WorkerProcess
from appl.errors import InvalidOption, WorkerLost
from appl.extras import library
from appl.late import late_import

_END = b""
_QUIET = {"log_to_driver": False, "logging_level": "error"}
_CLUSTERS = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""The variable by which Ray is told whether other machines may reach it, despite its name."""


class Ray:
    """Workers on a Ray cluster: the one in Ray's settings, otherwise a local one for this map.

    There are at most *workers* (``None``: one per CPU of the cluster), each with *at_once* items at
    once. An item is started at most *tries* times if its workers are lost. *init* are arguments of
    ``ray.init`` if Ray does not run yet, *options* those of each worker's actor, such as
    ``{"num_cpus": 0.5, "runtime_env": {…}}``.
    """

    def __init__(
        self,
        workers: int | None = None,
        at_once: int = 64,
        tries: int = 3,
        *,
        init: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        for name, value in (("workers", workers), ("at_once", at_once), ("tries", tries)):
            if value is not None and (type(value) is not int or value < 1):
                raise InvalidOption(f"Ray({name}={value!r}): at least 1")
        self._wanted, self.at_once, self.tries = workers, at_once, tries
        self.workers = workers or 1
        self._init, self._options = dict(init or {}), dict(options or {})
        self._ray: Any = None
        self._started = False
        self._workers: list[_RayWorker] = []

    def open(self) -> None:
        """Connect to the cluster, starting a local one if necessary."""
        local = "address" not in self._init and not os.environ.get("RAY_ADDRESS")
        with _on_loopback() if local else contextlib.nullcontext():
            self._ray = ray = _imported()
            self._started = not ray.is_initialized()
            if self._started:
                own = {"include_dashboard": False} if local else {}
                ray.init(**{**_QUIET, **own, **self._init})
        self.workers = self._wanted or max(int(ray.cluster_resources().get("CPU", 1)), 1)

    def close(self) -> None:
        """End the remaining workers, and the local Ray if this engine started it."""
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.kill()
        if self._started:
            self._started = False
            self._ray.shutdown()

    def hire(self, setup: bytes, listener: Listener) -> Worker:
        """Start one more actor."""
        worker = _RayWorker(self._ray, setup, listener, {"num_cpus": 1, **self._options})
        self._workers.append(worker)
        return worker

    @staticmethod
    def dumps(value: Any) -> bytes:
        """Serialize with Ray's own pickler, which also handles functions of the main module."""
        data: bytes = late_import("ray.cloudpickle").dumps(value)
        return data


def _imported() -> Any:
    return library("ray", 'map(engine="ray")')


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
    """One actor, and the thread that receives its batches."""

    def __init__(self, ray: Any, setup: bytes, listener: Listener, options: Any) -> None:
        self._ray, self._listener = ray, listener
        # serve() occupies one of the actor's threads as long as it lives, so tell() needs others.
        kind = ray.remote(max_concurrency=4, max_restarts=0, **options)(Actor)
        self._actor = kind.remote(setup)
        self._dead = False
        threads.start(self._hear, "appl-ray")

    def _hear(self) -> None:
        try:
            # This thread blocks in Ray until the next batch. The loop ends when the actor closes;
            # if its process dies, Ray raises, and the batches before that were heard.
            for reference in self._actor.serve.options(num_returns="streaming").remote():
                self._listener.heard(self, self._ray.get(reference))
        except Exception as error:
            if not self._dead:
                self._listener.lost(self, WorkerLost(_first_line(error)))

    def tell(self, batch: bytes) -> None:
        """Send *batch*. An actor receives one caller's calls in order."""
        if not self._dead:
            self._actor.tell.remote(batch)

    def kill(self) -> None:
        """End the process of the actor."""
        if not self._dead:
            self._dead = True
            self._ray.kill(self._actor)
            self._listener.lost(self, WorkerLost("it was killed"))


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


class Actor:
    """A worker inside a Ray actor: ``serve`` sends batches, ``tell`` receives them."""

    def __init__(self, setup: bytes) -> None:
        self._sent: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._process = WorkerProcess(setup, self._sent.put)

    def serve(self) -> Iterator[bytes]:
        """Yield every batch that the worker sends, until it ends."""
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

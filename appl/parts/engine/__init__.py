"""Run ``map(f, items, engine=…)`` on worker processes as part of the current run.

The driver (``distributed_map``) runs where ``map`` was called. It gives every item its address,
hands items out, asks all calls and writes the only trace. A worker (``worker_process``) runs the
Python of items, at the addresses that they would have had in the driver's process, and asks the
driver (``driver_world``) whatever it would ask a model. An ``Engine`` connects them: a Ray cluster
(``cluster``) or, in tests, threads (``appl.testing.engine``).

Invariant: an engine carries bytes, in order, and knows nothing of programs. Losing a worker costs
the Python that it had run, and no call.
"""

from __future__ import annotations

from typing import cast

from appl.errors import InvalidOption
from appl.parts.engine.distributed_map import mapped
from appl.parts.engine.protocol import Engine, Listener, Worker

__all__ = ["Engine", "Listener", "Worker", "engine_of", "mapped"]


def engine_of(engine: object) -> Engine:
    """The engine that ``map(engine=…)`` names: ``"ray"``, or an object like ``Ray(…)``."""
    if engine == "ray":
        from appl.parts.engine.cluster import Ray  # only a map on a Ray cluster needs it

        return cast(Engine, Ray())
    if isinstance(engine, str) or not hasattr(engine, "hire"):
        raise InvalidOption(
            f"map(engine={engine!r:.80}): it is 'ray', an object like appl.Ray(…), "
            "or nothing for this process"
        )
    return cast(Engine, engine)

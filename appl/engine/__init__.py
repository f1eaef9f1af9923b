"""``map(f, items, engine=…)``: items are worked on in other processes, as part of this run.

The driver (``spread``) is where ``map`` was called: it gives every item its address, hands items
out, writes the one trace, and keeps the one account of budgets and rates, from which workers
borrow. A worker (``station``) has a run of its own, whose items have the addresses that they would
have had here. What connects them is an ``Engine``: the Ray cluster (``cluster``), or for tests
threads (``appl.testing.engine``).

Invariant: an engine carries bytes, in order, and knows nothing of programs; what it costs to lose a
worker is the work that had not come here yet.
"""

from __future__ import annotations

import importlib
from typing import Any, cast

from appl.engine.protocol import Engine, Listener, Worker
from appl.engine.spread import mapped
from appl.errors import InvalidOption

__all__ = ["Engine", "Listener", "Worker", "mapped", "named"]


def named(engine: Any) -> Engine:
    """The engine that ``map(engine=…)`` means: ``"ray"``, or an object that is one."""
    if engine == "ray":
        return cast(Engine, importlib.import_module("appl.engine.cluster").Ray())
    if isinstance(engine, str) or not hasattr(engine, "hire"):
        raise InvalidOption(
            f"map(engine={engine!r:.80}): it is 'ray', an object like appl.engine.cluster.Ray(…), "
            "or nothing for this process"
        )
    return cast(Engine, engine)

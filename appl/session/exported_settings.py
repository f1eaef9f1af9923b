"""The settings of a hosted run in the environment of the processes that its program starts.

Invariant: no key is among them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from appl.config import Config
from appl.session.isolation import OUTER, RECORDED

_LIMITS = ("concurrency", "home", "privacy", "trace")
_BUDGET = "APPL_BUDGET"


@contextmanager
def exported(config: Config) -> Iterator[None]:
    """A block in which processes that are started have the settings of *config*, but no keys.

    These are the ones that affect requests, and those that were given on the command line.
    """
    named = (name for name in _LIMITS if config.origin(name).startswith("--"))
    values = {name: getattr(config, name) for name in (*RECORDED, "seed", *named)}
    present = {f"APPL_{name.upper()}": _written(v) for name, v in values.items() if v is not None}
    if budget := config.schedule.get("budget"):
        present[_BUDGET] = " ".join(f"{name}={amount}" for name, amount in budget.items())
    before = {name: os.environ.get(name) for name in (*present, OUTER)}
    os.environ.update(present)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _written(value: object) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)

"""The policy of a run's scheduler, as the settings have it.

Invariant: what a backend has of its own holds over what all have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from appl.config import Config
from appl.config.schedule import OF_BACKENDS, PRICES, TABLES
from appl.runtime.scheduling.policy import (
    Allowance,
    Circuit,
    Deadlines,
    Limits,
    Policy,
    Price,
    Retries,
)

_SECONDS = ("period", "base", "cap", "patience", "first_token", "between_tokens", "total")


def policy_of(config: Config, backend: str) -> Policy:
    """What the tables about scheduling say about a run with *backend*."""
    parts = {table: _part(config, table, backend) for table in TABLES}
    limits, schedule = parts["limits"], parts["schedule"]
    if (per_minute := limits.pop("requests_per_minute", None)) is not None:
        limits |= {"requests": per_minute, "period_s": 60.0}
    if "circuit" in schedule:
        schedule["circuit"] = Circuit() if schedule["circuit"] else None
    return Policy(
        limits=Limits(**limits),
        budget=Allowance(**parts["budget"]),
        prices={name: Price(**each) for name, each in config.schedule.get(PRICES, {}).items()},
        retries=Retries(**parts["retries"]),
        deadlines=Deadlines(**parts["deadlines"]),
        **schedule,
    )


def _part(config: Config, table: str, backend: str) -> dict[str, Any]:
    found: Mapping[str, Any] = config.schedule.get(table, {})
    own = config.schedule.get(f"backends.{backend}.{table}", {}) if table in OF_BACKENDS else {}
    if "requests" in own:  # which general requests per minute do not override
        found = {name: value for name, value in found.items() if name != "requests_per_minute"}
    found = {**found, **own}
    return {f"{name}_s" if name in _SECONDS else name: value for name, value in found.items()}

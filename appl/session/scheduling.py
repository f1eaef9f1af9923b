"""The policy of a run's scheduler, made from the settings.

Invariant: a backend's own settings win over the general ones.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from appl.backend import Profile
from appl.config import Config, SecretSetting
from appl.config.layout import OF_BACKENDS, PRICES
from appl.runtime.concurrency.loop_thread import io_thread
from appl.runtime.scheduling.policy import (
    Allowance,
    Deadlines,
    Limits,
    Policy,
    Retries,
)
from appl.runtime.scheduling.traffic import Traffic
from appl.session.backend_setup import EMBEDDED, TYPE, memoized

if TYPE_CHECKING:
    from appl.backend.price import Price

_shared: dict[tuple[object, ...], Traffic] = {}
os.register_at_fork(after_in_child=_shared.clear)

_PARTS: dict[str, type[Limits | Allowance | Retries | Deadlines | Policy]] = {
    "limits": Limits,
    "budget": Allowance,
    "retries": Retries,
    "deadlines": Deadlines,
    "schedule": Policy,
}
"""The class whose fields the keys of a table are; a field of seconds has a name that ends so."""


@memoized
def policy_of(config: Config, backend: str) -> Policy:
    """The policy of a run with *backend*, from the tables about scheduling."""
    if not config.schedule:
        return Policy(prices={})
    parts = {table: _part(config, table, backend) for table in _PARTS}
    limits, schedule = parts["limits"], parts["schedule"]
    if (per_minute := limits.pop("requests_per_minute", None)) is not None:
        limits |= {"requests": per_minute, "period_s": 60.0}
    return Policy(
        limits=Limits(**limits),
        budget=Allowance(**parts["budget"]),
        prices=prices_of(config, backend),
        retries=Retries(**parts["retries"]),
        deadlines=Deadlines(**parts["deadlines"]),
        **schedule,
    )


def prices_of(config: Config, backend: str) -> dict[str, Price]:
    """Prices by model name; one written as ``backend/model`` holds for that backend."""
    from appl.backend.price import price_of

    prices = {name: price_of(row) for name, row in config.schedule.get(PRICES, {}).items()}
    own, begins = dict(prices), f"{backend}/"
    own |= {name.removeprefix(begins): p for name, p in prices.items() if name.startswith(begins)}
    return own


def traffic_of(config: Config, backend: str, profile: Profile, policy: Policy) -> Traffic | None:
    """The traffic of all runs of this process with the server of *backend*.

    The embedded engine, and so its traffic, belongs to one run.
    """
    if config.backends.get(backend, {}).get(TYPE, backend) == EMBEDDED:
        return None
    limits = (profile.concurrency, config.concurrency, policy.limits.concurrency)
    most = min((limit for limit in limits if limit is not None), default=None)
    key = (id(io_thread()), backend, *_written(config, backend, policy), most)
    traffic = _shared.get(key)
    return traffic or _shared.setdefault(key, Traffic(policy, most))


@memoized
def _written(config: Config, backend: str, policy: Policy) -> tuple[str, str]:
    """The settings of *backend* and *policy* as texts, which are equal for equal ones."""
    table = config.backends.get(backend, {})
    keys = [
        hash(setting) for setting in table.values() if isinstance(setting, SecretSetting)
    ]  # repr hides them
    return repr((sorted(table.items()), keys)), repr(policy)


def _part(config: Config, table: str, backend: str) -> dict[str, Any]:
    values: Mapping[str, Any] = config.schedule.get(table, {})
    own = config.schedule.get(f"backends.{backend}.{table}", {}) if table in OF_BACKENDS else {}
    if "requests" in own:  # which general requests per minute do not override
        values = {name: value for name, value in values.items() if name != "requests_per_minute"}
    values = {**values, **own}
    known = _PARTS[table].__dataclass_fields__
    return {f"{name}_s" if f"{name}_s" in known else name: v for name, v in values.items()}

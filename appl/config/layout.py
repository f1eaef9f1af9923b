"""The names at the top of the settings, and settings that are laid out in another way.

Invariant: what is read on has the layout of today.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from appl.base import fallback
from appl.config.values import KEYS
from appl.errors import ConfigError, nearest

PRICES = "prices"
SCHEDULE = ("limits", "budget", "retries", "deadlines", "schedule", PRICES)
"""The tables about scheduling, whose keys ``schedule.py`` has."""
OF_BACKENDS = ("limits", "retries", "deadlines", "schedule")
"""Those that a backend may have of its own: ``[backends.NAME.limits]``."""
TABLES = ("models", "backends", *SCHEDULE)
TOP = (*KEYS, *TABLES)
"""All names at the top."""


def of_today(values: Mapping[str, object], origin: str) -> tuple[Mapping[str, object], list[str]]:
    """*values* in the layout of today, and notes on those that have no meaning."""
    if set(TOP).issuperset(values):
        return values, []
    return fallback.layouts().translated(values, origin)


_OF_BACKENDS = ("base_url", "api_key", "organization", "azure_endpoint", "headers")
_VARIABLES = {"base_url": "OPENAI_BASE_URL", "api_key": "OPENAI_API_KEY"}


def check_keys(names: Iterable[str], origin: str, others: Iterable[str] = ()) -> None:
    """Refuse a name that is neither at the top nor among *others*. Raises ``ConfigError``."""
    keys = (*TOP, *others)
    for name in names:
        if name not in keys:
            if name in _OF_BACKENDS:
                how = "write it below [backends.openai]"
                if origin in ("appl.init", "argument"):
                    how = f'write appl.init(backends={{"openai": {{"{name}": …}}}})'
                if name in _VARIABLES:
                    how += f", or export {_VARIABLES[name]}=…"
                raise ConfigError(f"{origin}: {name} is a setting of a backend; {how}")
            raise ConfigError(
                f"{origin}: unknown key {name!r}{nearest(name, keys)} (known: {', '.join(keys)})"
            )

"""What tokens cost, by the table that the settings give.

Invariant: a cost is known only where the price and the count of every kind of token are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from appl.backend import Usage
from appl.errors import ConfigError, nearest

_KINDS = ("prompt", "cached", "answer")


@dataclass(frozen=True, slots=True)
class _Price:
    """Units of currency for a million tokens, which are millionths of it for one."""

    prompt: float
    answer: float
    cached: float

    def cost(self, usage: Usage) -> int | None:
        if usage.prompt_tokens is None or usage.completion_tokens is None:
            return None
        cached = usage.cached_tokens or 0
        fresh = usage.prompt_tokens - cached
        return round(
            fresh * self.prompt + cached * self.cached + usage.completion_tokens * self.answer
        )


class Prices:
    """The prices of models by name; a name that ends in ``*`` is for all that begin so."""

    def __init__(self, table: Mapping[str, Mapping[str, float]]) -> None:
        self._prices = {model: _price(model, row) for model, row in table.items()}

    def cost(self, asked: str, answered: str, usage: Usage) -> int | None:
        """The cost of *usage* in millionths of the currency's unit, ``None`` when unknown.

        The price is that of the model that was *asked*, or else of the one that *answered*.
        """
        price = self._of(asked) or self._of(answered)
        return price.cost(usage) if price is not None else None

    def _of(self, model: str) -> _Price | None:
        if model in self._prices:
            return self._prices[model]
        begun = [
            name for name in self._prices if name.endswith("*") and model.startswith(name[:-1])
        ]
        return self._prices[max(begun, key=len)] if begun else None


def _price(model: str, row: Mapping[str, float]) -> _Price:
    where = f"prices of {model!r}"
    if not isinstance(row, Mapping):
        raise ConfigError(f"{where} must be a table like {{prompt = 1.25, answer = 10.0}}")
    for name, value in row.items():
        if name not in _KINDS:
            raise ConfigError(
                f"{where}: unknown {name!r}{nearest(name, _KINDS)} (known: {', '.join(_KINDS)})"
            )
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            raise ConfigError(f"{where}: {name} must be a number of at least 0, got {value!r}")
    if "prompt" not in row or "answer" not in row:
        raise ConfigError(f"{where} need prompt and answer")
    return _Price(row["prompt"], row["answer"], row.get("cached", row["prompt"]))

"""What tokens cost, by the table that the settings give.

Invariant: a cost is known only where the price and the count of every kind of token are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from appl.backend import Usage
from appl.errors import ConfigError, nearest

_KINDS = ("prompt", "cached", "answer")


@dataclass(frozen=True, slots=True)
class Price:
    """Units of currency for a million tokens, which are millionths of it for one.

    Of tokens of the ``prompt``, of the ``answer``, and of the prompt as far as it was ``cached``
    (``None``: as all others).
    """

    prompt: float
    answer: float
    cached: float | None = None

    def cost(self, usage: Usage) -> int | None:
        """The cost of *usage* in millionths, ``None`` when it does not say enough."""
        if usage.prompt_tokens is None or usage.completion_tokens is None:
            return None
        cached = usage.cached_tokens or 0
        fresh = usage.prompt_tokens - cached
        less = self.prompt if self.cached is None else self.cached
        return round(fresh * self.prompt + cached * less + usage.completion_tokens * self.answer)


class Prices(Mapping[str, Price]):
    """The prices of models by name; a name that ends in ``*`` is for all that begin so."""

    def __init__(self, table: Mapping[str, Mapping[str, float]]) -> None:
        self._prices = {model: _price(model, row) for model, row in table.items()}

    def cost(self, asked: str, answered: str, usage: Usage) -> int | None:
        """The cost of *usage* in millionths of the currency's unit, ``None`` when unknown.

        The price is that of the model that was *asked*, or else of the one that *answered*.
        """
        price = self.get(asked) or self.get(answered)
        return price.cost(usage) if price is not None else None

    def __getitem__(self, model: str) -> Price:
        if model in self._prices:
            return self._prices[model]
        begun = [
            name for name in self._prices if name.endswith("*") and model.startswith(name[:-1])
        ]
        return self._prices[max(begun, key=len) if begun else model]

    def __iter__(self) -> Iterator[str]:
        return iter(self._prices)

    def __len__(self) -> int:
        return len(self._prices)


def _price(model: str, row: Mapping[str, float]) -> Price:
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
    return Price(row["prompt"], row["answer"], row.get("cached"))

"""The prices of models, by the table that the settings give.

Invariant: a cost is known only where the price and the count of every kind of token are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from appl.backend import Usage
from appl.errors import ConfigError, InvalidOption
from appl.price import Price, price_of


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
    try:
        return price_of(row)
    except InvalidOption as error:
        raise ConfigError(f"prices of {model!r}: {error}") from None

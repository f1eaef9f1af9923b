"""The prices of models: by the table that the settings give, or by that of the package.

Invariant: a cost is known only where the price and the count of every kind of token are. The
package's prices are those of a seller, and hold at the seller's own address alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from appl.backend import Response
from appl.backend.price import Price, price_of
from appl.backend.price_table import Seller
from appl.errors import ConfigError, InvalidOption


class Prices(Mapping[str, Price]):
    """The prices of models by name; a name that ends in ``*`` is for all that begin so.

    The *table* is the user's; for other models those of the *seller* hold, where there is one.
    """

    def __init__(self, table: Mapping[str, Mapping[str, float]], seller: str | None = None) -> None:
        self._own = {model: _price(model, row) for model, row in table.items()}
        self._seller = None if seller is None else Seller(seller)

    def cost(self, asked: str, response: Response) -> int | None:
        """The cost of a live answer in millionths of the currency unit, ``None`` if unknown.

        The user's own price goes first, then what the server reported, then the seller's price.
        Own prices are by the name that was *asked* for, or else by that of the model that answered;
        the seller is paid for the model that answered.
        """
        own = (self._named(asked) or self._named(response.model)) if self._own else None
        cost = None if own is None else own.cost(response.usage)
        if cost is not None or response.cost is not None:
            return response.cost if cost is None else cost
        if self._seller is None:
            return None
        sold = self._seller.get(response.model) or self._seller.get(asked)
        return None if sold is None else sold.cost(response.usage)

    def _named(self, model: str) -> Price | None:
        if model in self._own:
            return self._own[model]
        begun = [name for name in self._own if name.endswith("*") and model.startswith(name[:-1])]
        return self._own[max(begun, key=len)] if begun else None

    def __getitem__(self, model: str) -> Price:
        price = self._named(model)
        if price is None and self._seller is not None:
            price = self._seller.get(model)
        if price is None:
            raise KeyError(model)
        return price

    def __iter__(self) -> Iterator[str]:
        return iter(self._own)

    def __len__(self) -> int:
        return len(self._own)


def _price(model: str, row: Mapping[str, float]) -> Price:
    try:
        return price_of(row)
    except InvalidOption as error:
        raise ConfigError(f"prices of {model!r}: {error}") from None

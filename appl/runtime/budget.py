"""``budget``: a block whose calls may use a limited amount.

Invariant: what is issued inside is charged to it, wherever and whenever it is answered.
"""

from __future__ import annotations

from appl.errors import InvalidOption
from appl.runtime.frame import Frame, here
from appl.runtime.scheduling.accounts import Account, Amounts
from appl.runtime.scheduling.policy import Allowance


class budget:
    """``with appl.budget(tokens=…, cost=…, calls=…):`` holds for every call issued inside.

    Also for those of functions that are called inside, with the budgets around it, which all hold.
    *cost* is in the currency unit of the settings' ``[prices]``. A call that could pass a limit is
    not sent and fails with ``BudgetExceeded``. The block does not wait for its calls.
    """

    def __init__(
        self, *, cost: float | None = None, tokens: int | None = None, calls: int | None = None
    ) -> None:
        self._allowance = Allowance(cost, tokens, calls)
        if not self._allowance:
            raise InvalidOption(
                "appl.budget() needs a limit: write budget(tokens=…), cost or calls"
            )
        self._account: Account | None = None
        self._frame: Frame | None = None

    @property
    def spent(self) -> Amounts:
        """The amounts that calls inside have used; ``cost`` is in millionths of the currency unit.

        It counts what is known. Where the cost of no call is known it is ``None``, and not 0.
        """
        return self._account.spent if self._account is not None else Amounts()

    @property
    def unpriced(self) -> int:
        """The number of attempts inside of unknown cost: ``spent.cost`` is without them."""
        return self._account.unpriced if self._account is not None else 0

    @property
    def reserved(self) -> Amounts:
        """The amounts that calls on their way may still use."""
        return self._account.reserved if self._account is not None else Amounts()

    def __enter__(self) -> budget:
        frame = self._frame = here(lambda: "budget")
        self._account = frame.account = Account(self._allowance, frame.account)
        return self

    def __exit__(self, *error: object) -> None:
        assert self._frame is not None and self._account is not None
        self._frame.account = self._account.around

    async def __aenter__(self) -> budget:
        return self.__enter__()

    async def __aexit__(self, *error: object) -> None:
        self.__exit__(*error)

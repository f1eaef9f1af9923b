"""``budget``: a block whose calls may use a limited amount.

Invariant: what is issued inside is charged to it, wherever and whenever it is answered.
"""

from __future__ import annotations

from collections.abc import Callable

from appl.errors import InvalidOption, TraceCorrupt
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

        It counts what is known. Where the cost of no call is known it is ``None``, and not 0. Like
        all that is seen of a budget it is recorded: a replay shows the same amounts.
        """
        return self._amounts("spent", lambda account: account.spent)

    @property
    def unpriced(self) -> int:
        """The number of attempts inside of unknown cost: ``spent.cost`` is without them."""
        return self._amounts("unpriced", lambda account: Amounts(calls=account.unpriced)).calls

    @property
    def reserved(self) -> Amounts:
        """The amounts that calls on their way may still use."""
        return self._amounts("reserved", lambda account: account.reserved)

    def _amounts(self, kind: str, look: Callable[[Account], Amounts]) -> Amounts:
        """The amounts that *look* finds, as the program is shown them.

        They are recorded, as it depends on time how far its calls have got.
        """
        account, entered = self._account, self._frame
        if account is None or entered is None:
            return Amounts()
        if entered.run.closed:  # the program is told nothing any more that a replay repeats
            return look(account)
        frame = here(lambda: kind, call=False)
        value = frame.run.outside.observe(frame, kind, lambda: list(look(account)))
        # A record may hold anything.
        if isinstance(value, list) and len(value) == len(Amounts._fields):
            cost, tokens, calls = value
            if type(tokens) is type(calls) is int and type(cost) in (int, type(None)):
                return Amounts(cost, tokens, calls)
        raise TraceCorrupt(f"a recorded `{kind}` of a budget is none: {value!r:.80}")

    def __enter__(self) -> budget:
        frame = self._frame = here(lambda: "budget")
        self._account = frame.account = Account(self._allowance, frame.account, is_block=True)
        return self

    def __exit__(self, *error: object) -> None:
        assert self._frame is not None and self._account is not None
        self._frame.account = self._account.around

    async def __aenter__(self) -> budget:
        return self.__enter__()

    async def __aexit__(self, *error: object) -> None:
        self.__exit__(*error)

"""The world of a worker: the driver answers its calls.

Invariant: an outcome of a call is the driver's, also when the program cancels it: the driver says
whether that came too late.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

from appl.backend import Chunk, Profile
from appl.errors import CallCancelled
from appl.parts.engine.item_log import ItemAnswers, key_of
from appl.parts.engine.questions import WorkerQuestion
from appl.parts.engine.wire import Outbox, key_of_prompt
from appl.runtime.answers.call import Call
from appl.runtime.answers.models import Model, Models
from appl.runtime.answers.samples import Caches, NamedStore, RunAnswers
from appl.runtime.scheduling.accounts import Account, AccountState
from appl.runtime.world import Go, How, Live, Moment, Programs, Tell, ToolRequest


class DriverWorld(Live):
    """Asks the driver through *out*, and knows what lost workers did for the items of this one."""

    def __init__(self, out: Outbox) -> None:
        self._out = out
        self._answers: ItemAnswers = {}
        self._tells: dict[str, Tell] = {}
        self._numbers = itertools.count(1)
        self._requests: dict[int, _DriverRequest] = {}
        self._budgets: dict[int, Account] = {}
        self._given_up: CallCancelled | None = None
        self.caches = Caches(lambda path: RunAnswers())  # by name: the driver's answer

    def opens(self, programs: Programs) -> None:
        super().opens(programs)
        programs.answered_by(self)

    def add(self, answers: ItemAnswers) -> None:
        """Add *answers* of lost workers to those that are known."""
        self._answers |= answers

    # -- for programs

    def expect(
        self, moment: Moment, tell: Tell, live: Go, about: Call | ToolRequest | None = None
    ) -> None:
        if moment.kind == "workers":  # a worker hires none
            tell(None)
        elif isinstance(about, Call):
            self._ask(about, tell)
        else:
            key, outcome = self._answers.get(moment, (None, None))
            if key is None or key != key_of(about):
                live()
            else:
                del self._answers[moment]
                tell(outcome)

    def see(self, moment: Moment, live: Callable[[], object]) -> object:
        recorded = self._answers.pop(moment, None)
        return super().see(moment, live if recorded is None else lambda: recorded[1])

    def ends(self, moment: Moment, how: How, end: Go) -> None:
        if how == "cancelled" and moment.kind == "answer" and moment.address in self._tells:
            self._out.say("cancel", moment.address)
        else:
            end()

    def _ask(self, call: Call, tell: Tell) -> None:
        if self._given_up is not None:
            tell(self._given_up)
            return
        # Stored before the question is sent, so that an answer that comes at once finds it.
        self._tells[call.address] = tell
        self._out.ask(self._question(call), call.messages)

    def _question(self, call: Call) -> WorkerQuestion:
        frame, levels = call.frame(), call.account.levels() if call.account is not None else ()
        conversation = frame.root_of_prompt().address if frame is not None else ""
        return WorkerQuestion(
            call.address, call.identity, call.model, key_of_prompt(call.messages), call.sampling,
            call.n, call.timeout, call.priority, self._store(call.cache), call.edges(),
            conversation or call.address.rpartition("/")[0], call.emit is not None,
            tuple((self._number(account), account.limits) for account in levels),
            call.key,
        )  # fmt: skip

    def _store(self, name: str | None) -> str | NamedStore | None:
        """The cache of this *name* as the driver takes it: one that the call has brought, whole."""
        store = self.caches[name] if name is not None else None
        return store if isinstance(store, NamedStore) else name

    def _number(self, account: Account) -> int:
        self._budgets[id(account)] = account
        return id(account)

    # -- from the driver, on the I/O loop

    def told(self, address: str, news: Any, budgets: tuple[tuple[int, AccountState], ...]) -> None:
        """Tell a call a piece of its answer, the answer, or an error."""
        for number, state in budgets:
            self._budgets[number].state = state
        tells = self._tells
        tell = tells.get(address) if isinstance(news, Chunk) else tells.pop(address, None)
        if tell is not None:
            tell(news)

    def replied(self, number: int, value: object) -> None:
        """Give the driver's reply to who waits for it."""
        waiting = self._requests.pop(number, None)
        if waiting is not None:
            waiting.reply(value)

    def give_up(self) -> None:
        """End all waiting: the driver no longer replies."""
        self._given_up = error = CallCancelled("the map was cancelled")
        for address in tuple(self._tells):
            self.told(address, error, ())
        for number in tuple(self._requests):
            self.replied(number, error)

    # -- requests of a thread that waits

    def request(self, kind: str, *about: object) -> Any:
        """Ask the driver, and wait for the reply. Raises an error that it replies with."""
        number, waiting = next(self._numbers), _DriverRequest()
        # The entry is stored before the request is sent. If give_up() ran before this line, the
        # check below ends the wait; if it runs later, it finds the entry. Without both, this thread
        # would wait for ever.
        self._requests[number] = waiting
        if self._given_up is not None:
            self.replied(number, self._given_up)
        self._out.say(kind, number, *about)
        return waiting.value()

    def barrier(self) -> None:
        """Wait until the driver has everything on disk that was reported so far."""
        self.request("barrier")


class _DriverRequest:
    """One thread's wait for the driver."""

    def __init__(self) -> None:
        self._event, self._value = threading.Event(), None

    def value(self) -> Any:
        self._event.wait()
        if isinstance(self._value, BaseException):
            raise self._value
        return self._value

    def reply(self, value: Any) -> None:
        self._value = value
        self._event.set()


class DriverModels(Models):
    """The names for models on a worker: the driver knows what they mean, and is asked once."""

    def __init__(self, world: DriverWorld, profile: Profile, default: Model, own: Profile) -> None:
        super().__init__(own)
        self.default, self._world = default, world
        self._profiles[default.name or ""] = profile

    def resolve(self, name: str | None, has_key: bool = False) -> Model:
        if name is None:
            return self.default
        model_found = self._resolved_models.get(name)
        if model_found is None:
            model, profile = self._world.request("model", name, has_key)
            self._profiles[model.name or ""] = profile
            model_found = self._resolved_models[name] = model
        return model_found

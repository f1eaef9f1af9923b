"""The order of calls to a provider that charges for its cache: who goes first, and who waits."""

from __future__ import annotations

from typing import Any

import pytest

from appl import AIRole, gen, ppl
from appl.backend import Emit, Request, Response, Sample
from appl.errors import BackendRefused
from appl.testing import Policy, Run
from tests.bill.programs import ask, branch, said
from tests.bill.world import Provider

FACTS = said("facts", 9_000)


class Timed(Provider):
    """Notes when each request came, and lets those *refused* fail, by their numbers."""

    def __init__(self, *refused: int, begins: bool = True) -> None:
        super().__init__("openai")
        self._refused, self._begins = refused, begins
        self.came = list[float]()
        self.reuses = list[Any]()

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        """Answer, or refuse."""
        self.came.append(self.clock.now())
        self.reuses.append(request.reuse)
        if len(self.came) - 1 in self._refused:
            raise BackendRefused("no")
        if not self._begins and request.reuse is not None:
            await self.clock.sleep(2.0)
            return Response((Sample("answer", "stop"),))
        return await super().complete(request, emit)


def run(backend: Timed, program: Any, **policy: Any) -> Any:
    with Run(backend, policy=Policy(clock=backend.clock, **policy)):
        return program()


def asked(number: int, facts: str = FACTS) -> list[Any]:
    return [ask(facts, f"question {at}") for at in range(number)]


def outcomes(answers: list[Any]) -> list[str]:
    found = []
    for answer in answers:
        try:
            found.append(str(answer)[:6])
        except BackendRefused:
            found.append("failed")
    return found


def test_the_first_call_of_a_fan_out_goes_ahead_until_its_answer_begins() -> None:
    backend = Timed()
    run(backend, lambda: outcomes(asked(5)))
    first, *others = backend.came
    assert [round(at - first, 2) for at in others] == [1.01] * 4


def test_a_backend_that_does_not_tell_of_the_beginning_tells_by_its_answer() -> None:
    backend = Timed(begins=False)
    run(backend, lambda: outcomes(asked(3)))
    first, *others = backend.came
    assert [round(at - first, 2) for at in others] == [2.0] * 2


def test_another_one_goes_ahead_if_the_first_one_fails() -> None:
    backend = Timed(0)
    assert run(backend, lambda: outcomes(asked(4))) == ["failed", *["answer"] * 3]
    first, second, *others = backend.came
    assert second == first and [round(at - second, 2) for at in others] == [1.01] * 2


def test_calls_wait_for_nobody_where_nothing_is_shared_or_too_little() -> None:
    backend = Timed()
    run(backend, lambda: outcomes(asked(4, "short")))
    assert len(set(backend.came)) == 1 and backend.reuses == [None] * 4


def test_a_setting_has_all_calls_sent_at_once() -> None:
    backend = Timed()
    run(backend, lambda: outcomes(asked(4)), warm=False)
    assert len(set(backend.came)) == 1 and backend.reuses == [None] * 4


@ppl
def cancelled() -> list[str]:
    f"{FACTS}"
    first, *others = [branch(f"question {at}") for at in range(4)]
    first.cancel()
    return outcomes_of(others)


def outcomes_of(answers: list[Any]) -> list[str]:
    return [str(answer)[:6] for answer in answers]


def test_the_others_go_on_if_the_first_one_is_cancelled() -> None:
    backend = Timed()
    assert run(backend, cancelled) == ["answer"] * 3


@ppl
def twice() -> list[str]:
    f"{FACTS}"
    first = gen()
    with AIRole():
        f"{first}"
    "And then?"
    return [str(first), str(gen())]


def test_a_request_is_told_whether_its_prompt_goes_on() -> None:
    backend = Timed()
    run(backend, twice)
    assert [(reuse.goes_on, reuse.begun) for reuse in backend.reuses] == [(True, 0), (False, 1)]


@ppl
def helped(question: str) -> Any:
    f"{FACTS}"
    helper(question)
    "And then?"
    return gen()


@ppl(ctx="same")
def helper(question: str) -> Any:
    f"{question}"
    return gen()


def test_a_helper_that_has_ended_leaves_a_prompt_that_goes_on() -> None:
    backend = Timed()
    run(backend, lambda: str(helped("who?")))
    assert [reuse.goes_on for reuse in backend.reuses] == [True, False]


def test_what_has_come_twice_is_expected_again() -> None:
    backend = Timed()
    run(backend, lambda: [str(each) for each in (ask(FACTS, "a"), ask(FACTS, "b"))])
    backend = Timed()
    run(backend, lambda: [str(ask(FACTS, name)) for name in "abc"])
    borders = [[(b.sent, b.to_come) for b in reuse.borders] for reuse in backend.reuses]
    assert borders == [[], [(0, 1)], [(1, 1)]]


@pytest.mark.parametrize("number", [2, 30])
def test_calls_that_differ_in_their_tools_share_nothing(number: int) -> None:
    def one() -> int:
        """One."""
        return 1

    @ppl
    def with_tool(at: int) -> Any:
        f"{FACTS}"
        f"question {at}"
        return gen(tools=[one]) if at % 2 else gen()

    backend = Timed()
    backend.profile = type(backend.profile)("p", frozenset({"tools"}))
    run(backend, lambda: outcomes([with_tool(at) for at in range(number)]))
    first, second = backend.came[:2]
    assert first == second

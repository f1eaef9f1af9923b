"""A real server that is killed in the middle of a run, and started again at the same address."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from appl import gen, ppl
from appl.backend import Backend, Emit, Request, Response
from appl.testing import Policy, Retries, Run, Served, on_backend_loop, serving
from appl_backends.openai import OpenAI
from appl_backends.sglang import SGLang
from tests.faults.storm import Counted

CLIENTS: dict[str, Callable[[str], Backend]] = {
    "openai": lambda url: OpenAI(
        base_url=f"{url}/v1", api_key="k", model="embedded", server="sglang"
    ),
    "sglang": lambda url: SGLang(url=url, api_key="k", admin_key="a", advise=lambda line: None),
}
KEYS = ("--api-key", "k", "--admin-key", "a")
POLICY = Policy(
    retries=Retries(attempts=1000, base_s=0.02, cap_s=0.05, share=1000.0, spare=100_000),
    circuit=None,
)


@dataclass
class Restarting(Counted):
    """Has the server killed and started again when so many answers have come."""

    after: int = 10
    restart: Callable[[], None] = lambda: None

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        response = await super().complete(request, emit)
        if sum(self.answered.values()) == self.after:
            await asyncio.to_thread(self.restart)
        return response


@ppl
def question(number: int) -> Any:
    f"What is {number} + {number}?"
    return gen(max_tokens=12, temperature=0.0)


@ppl
def all_questions(count: int) -> list[str]:
    answers = [question(number) for number in range(count)]
    return [str(answer) for answer in answers]


def answers_of(backend: Counted) -> list[str]:
    with Run(backend, policy=POLICY, concurrency=8):
        found = all_questions(60)
    on_backend_loop(backend.aclose)
    return found


@pytest.mark.parametrize("client", [pytest.param("openai", marks=pytest.mark.long), "sglang"])
def test_a_run_goes_on_when_its_server_is_there_again(client: str) -> None:
    with ExitStack() as servers:
        first: Served = servers.enter_context(serving(*KEYS))
        expected = answers_of(Counted(CLIENTS[client](first.url)))

        def restart() -> None:
            first.kill()
            servers.enter_context(serving(*KEYS, "--port", first.url.rpartition(":")[2]))

        backend = Restarting(CLIENTS[client](first.url), restart=restart)
        assert answers_of(backend) == expected
    assert set(backend.answered.values()) == {1} and backend.late == []
    assert backend.errors["BackendUnavailable"] > 0 and set(backend.errors) == {
        "BackendUnavailable"
    }

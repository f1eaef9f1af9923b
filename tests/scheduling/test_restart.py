"""A real server that dies in the middle of a run, and comes back."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter

import pytest

from appl import gen, ppl
from appl.testing import (
    AttemptFailed,
    CallEnded,
    Event,
    Log,
    Policy,
    Retries,
    Run,
    on_backend_loop,
    serving,
)
from appl_backends.openai import OpenAI
from appl_backends.sglang import SGLang

WIDTH = 60


class Watch(Log):
    """Rings when so many calls have ended."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.rung = threading.Event()
        self._left = count

    def on_event(self, event: Event) -> None:
        super().on_event(event)
        self._left -= isinstance(event, CallEnded)
        if self._left == 0:
            self.rung.set()


@ppl
def fan() -> list[str]:
    "Tell me something about tea."
    answers = [gen(max_tokens=24, seed=number) for number in range(WIDTH)]
    return [str(each) for each in answers]


@pytest.mark.parametrize("client", ["openai", pytest.param("sglang", marks=pytest.mark.long)])
def test_a_server_that_is_killed_and_started_again_loses_no_call(client: str) -> None:
    watch = Watch(WIDTH // 4)
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(serving("--api-key", "k"))
        port = first.url.rpartition(":")[2]

        def kill() -> None:
            watch.rung.wait()
            first.kill()
            stack.enter_context(serving("--api-key", "k", "--port", port))

        killer = threading.Thread(target=kill)
        killer.start()
        backend = (
            OpenAI(base_url=f"{first.url}/v1", api_key="k")
            if client == "openai"
            else SGLang(url=first.url, api_key="k")
        )
        policy = Policy(retries=Retries(base_s=0.1))
        with Run(backend, instruments=[watch], policy=policy, concurrency=8):
            found = fan()
        on_backend_loop(backend.aclose)
        killer.join()
    assert all(found) and len(found) == WIDTH
    ended = Counter(event.address for event in watch.of(CallEnded))
    assert len(ended) == WIDTH and set(ended.values()) == {1}
    assert watch.of(AttemptFailed)

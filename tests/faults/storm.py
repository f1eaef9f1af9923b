"""Many calls through a server that fails most of them, and what is counted meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from appl import gen, ppl
from appl.backend import Backend, Emit, Profile, Request, Response
from appl_backends.embedded import WEIGHTS
from appl_backends.litellm import LiteLLM
from appl_backends.openai import OpenAI
from appl_backends.sglang import SGLang
from tests.wire.servers import FaultServer

CLIENTS: dict[str, Callable[[FaultServer], Backend]] = {
    "openai": lambda server: OpenAI(base_url=server.openai_url, model=server.model),
    "litellm": lambda server: LiteLLM(
        base_url=server.openai_url, api_key="k", model=f"openai/{server.model}"
    ),
    "sglang": lambda server: SGLang(url=server.url, tokenizer=WEIGHTS, advise=lambda line: None),
}


@dataclass
class Counted:
    """A backend that counts, for each call, how often it was asked and how often it answered."""

    backend: Backend
    asked: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    late: list[str] = field(default_factory=list)

    @property
    def profile(self) -> Profile:
        return self.backend.profile

    async def connect(self) -> None:
        await self.backend.connect()  # type: ignore[attr-defined]

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        self.asked[request.address] += 1
        if self.answered[request.address]:
            self.late.append(request.address)  # asked again after it had been answered
        try:
            response = await self.backend.complete(request, emit)
        except BaseException as error:
            self.errors[type(error).__name__] += 1
            raise
        self.answered[request.address] += 1
        return response

    async def aclose(self) -> None:
        await self.backend.aclose()


@ppl
def one(number: int) -> Any:
    f"question {number}"
    return gen()


@ppl
def streamed(number: int) -> Any:
    f"question {number}"
    return gen(stream=True)


@ppl
def several(numbers: range) -> list[str]:
    """Ask all of them at once."""
    answers = [one(number) for number in numbers]
    return [str(answer) for answer in answers]


@ppl
def outcomes(numbers: range) -> list[str | BaseException]:
    """Ask all of them at once, streamed; what came of each."""
    answers = [streamed(number) for number in numbers]
    found: list[str | BaseException] = []
    for answer in answers:
        try:
            found.append(str(answer))
        except Exception as error:
            found.append(error)
    return found

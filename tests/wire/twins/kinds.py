"""The twins by name: which backend of the product asks each, and what its model takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import openai.types.chat.completion_create_params
import openai.types.responses.response_create_params  # noqa: F401 - two threads may not import these at once

from appl.backend import Backend, Emit, Request, Response
from appl_backends.anthropic import Anthropic
from appl_backends.litellm import LiteLLM
from appl_backends.openai import OpenAI
from tests.wire.servers import FaultServer

from . import claude, deepseek, google, hosted, local, mistral, responses
from .chat import Twin

ALL = frozenset({"forced", "max_tokens", "seed", "stop", "temperature"})
"""The options that programs use, where a model takes them."""


@dataclass(frozen=True)
class Kind:
    """A twin, how the product asks it, and the kind of server by whose types requests are looked at."""

    twin: type[Twin]
    connect: Callable[[FaultServer, str], Backend]
    takes: frozenset[str] = ALL
    server: str = "other"
    fields: tuple[str, ...] = ()
    """Fields of requests that have other values than OpenAI's."""

    @property
    def name(self) -> str:
        return self.twin.name

    @property
    def by_litellm(self) -> bool:
        return "litellm" in self.name

    def backend(self, server: FaultServer) -> Backend:
        return self.connect(server, self.twin.model_name)  # type: ignore[attr-defined]


def chat(server: str | None = None, **more: Any) -> Callable[[FaultServer, str], Backend]:
    """The backend ``openai`` for a kind of server."""

    def made(twin: FaultServer, model: str) -> Backend:
        return OpenAI(base_url=f"{twin.url}/v1", model=model, server=server, name="twin", **more)  # type: ignore[arg-type]

    return made


def azure(twin: FaultServer, model: str) -> Backend:
    return OpenAI(azure_endpoint=twin.url, api_version="2024-10-21", api_key="k", model=model, name="twin")  # fmt: skip


def litellm(provider: str, path: str = "", **more: Any) -> Callable[[FaultServer, str], Backend]:
    """The backend ``litellm`` for a provider."""

    def made(twin: FaultServer, model: str) -> Backend:
        return LiteLLM(
            base_url=f"{twin.url}{path}",
            api_key="k",
            model=f"{provider}/{model}",
            name="twin",
            **more,
        )

    return made


def anthropic(**more: Any) -> Callable[[FaultServer, str], Backend]:
    """The backend ``anthropic``."""

    def made(twin: FaultServer, model: str) -> Backend:
        return Anthropic(base_url=twin.url, api_key="k", model=model, name="twin", **more)

    return made


def thinking(twin: FaultServer, model: str) -> Backend:
    """The backend ``anthropic``, which is told to think in each call."""
    return Thinking(base_url=twin.url, api_key="k", model=model, name="twin")


class Thinking(Anthropic):
    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        extra = (("thinking", {"type": "enabled", "budget_tokens": 1024}),)
        sampling = replace(request.sampling, extra=extra, max_tokens=5000)
        return await super().complete(replace(request, sampling=sampling), emit)


class Claude(claude.Claude):
    name = "anthropic"


class MistralByLiteLLM(mistral.Mistral):
    name = "mistral, by litellm"


class DeepSeekByLiteLLM(deepseek.DeepSeek):
    name = "deepseek, by litellm"


THINKING = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 5000}

CALM = ALL - {"seed"}
KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(hosted.OpenAI, chat("openai"), ALL, "openai"),
        Kind(hosted.OpenAIReasoning, chat("openai"), ALL - {"stop", "temperature"}, "openai"),
        Kind(hosted.Azure, azure, ALL, "azure"),
        Kind(
            responses.Responses,
            chat("openai", interface="responses"),
            frozenset({"forced", "max_tokens"}),
            "openai",
        ),
        Kind(
            responses.ResponsesPlain,
            chat("openai", interface="responses"),
            frozenset({"forced", "max_tokens", "temperature"}),
            "openai",
        ),
        Kind(google.GeminiOpenAI, chat("gemini"), CALM, "gemini"),
        Kind(deepseek.DeepSeek, chat("deepseek"), ALL - {"forced"}, "deepseek"),
        Kind(deepseek.DeepSeekBeta, chat("deepseek"), ALL, "deepseek"),
        Kind(mistral.Mistral, chat("mistral"), ALL, "mistral"),
        Kind(local.VLLM_, chat("vllm"), ALL, "vllm"),
        Kind(local.SGLang, chat("sglang"), ALL, "sglang"),
        Kind(
            local.Ollama, chat("ollama"), ALL - {"forced"}, "ollama"
        ),  # it passes over tool_choice
        Kind(local.LlamaCpp, chat("llama.cpp"), ALL, "llama.cpp"),
        Kind(hosted.OpenRouter, chat("other")),
        Kind(Claude, anthropic(), CALM),
        Kind(claude.Preserved, anthropic(), frozenset({"forced", "max_tokens", "stop"})),
        Kind(claude.Remembers, thinking, frozenset({"stop"})),
        Kind(claude.Claude, litellm("anthropic"), CALM),
        Kind(claude.ClaudeThinking, litellm("anthropic", parameters=THINKING), frozenset({"stop"})),
        Kind(google.Gemini, litellm("gemini"), CALM),
        Kind(
            DeepSeekByLiteLLM,
            litellm("deepseek", without=("images",)),
            CALM - {"forced"},
            "deepseek",
        ),
        Kind(MistralByLiteLLM, litellm("mistral", "/v1"), CALM, "mistral", ("tool_choice",)),
    )
}


def twin_of(name: str, seed: int = 0, failing: float = 0.05) -> Twin:
    return KINDS[name].twin(seed, failing)

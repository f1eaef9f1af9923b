"""The servers that speak OpenAI's chat interface: what each can do, and how it is told.

Invariant: a feature is listed where the server documents it; ``[backends.…] features`` and
``without`` correct the list for a server that is older, newer, or between.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from appl.backend.http import host_of
from appl.errors import ConfigError, Unsupported, nearest
from appl.prompt import Message, Messages
from appl_backends.openai.strict_schema import AZURE, LOCAL, OPENAI, Subset

Kind = Literal[
    "openai",
    "azure",
    "vllm",
    "sglang",
    "llama.cpp",
    "ollama",
    "gemini",
    "mistral",
    "deepseek",
    "other",
]

_HOSTED = frozenset(
    {
        "n",
        "seed",
        "logprobs",
        "schema",
        "schema_object",
        "stream",
        "tools",
        "images",
        "audio",
        "reasoning",
        "prefix_cache",
        "embeddings",
    }
)
_LOCAL = frozenset(
    {
        "n",
        "seed",
        "logprobs",
        "schema",
        "regex",
        "grammar",
        "stream",
        "tools",
        "images",
        "reasoning",
        "prefix_cache",
        "stop_tokens",
        "prefill",
        "embeddings",
    }
)
_COMMON = frozenset(
    {"seed", "logprobs", "schema", "stream", "tools", "images", "reasoning", "embeddings"}
)
FEATURES: dict[str, frozenset[str]] = {
    "openai": _HOSTED,
    "azure": _HOSTED,
    "vllm": _LOCAL | {"audio", "prompt_logprobs"},
    "sglang": _LOCAL,
    "llama.cpp": _LOCAL - {"n", "regex", "stop_tokens"},
    "ollama": _COMMON,
    "gemini": _COMMON - {"seed", "logprobs"} | {"schema_object"},
    "mistral": _COMMON - {"logprobs"} | {"schema_object", "prefill"},
    "deepseek": _COMMON - {"schema", "images", "embeddings"},
    "other": _COMMON | {"schema_object"},
}
PREFIXED = ("mistral", "deepseek")
"""Servers that go on with a message of the assistant that has the field ``prefix``.

Sources: Mistral's "Chat completions", ``prefix``; DeepSeek's "Chat Prefix Completion (Beta)".
"""
_KNOWN = frozenset({"drafts"}).union(*FEATURES.values())
"""``drafts`` is on no list: OpenAI charges for a prediction that is not the answer."""

LOCAL_OPTIONS = frozenset({"chat_template_kwargs", "min_p", "repetition_penalty", "top_k"})
"""The options that OpenAI does not have: it refuses them, and some servers pass over them."""

_TAKES: dict[str, frozenset[str]] = {
    "vllm": LOCAL_OPTIONS,
    "sglang": LOCAL_OPTIONS,
    "llama.cpp": LOCAL_OPTIONS - {"repetition_penalty"},
    "other": LOCAL_OPTIONS,
}


@dataclass(frozen=True)
class ServerKind:
    """A kind of server: its *features*, and the names of what not all servers call the same."""

    kind: str
    features: frozenset[str]

    @cached_property
    def max_tokens(self) -> str:
        """The field for the length of an answer, which counts reasoning where there is some."""
        return "max_completion_tokens" if self.takes_cache_key else "max_tokens"

    @cached_property
    def continuing(self) -> dict[str, object]:
        """The fields of a request that make it go on with a message of the assistant."""
        if self.kind in ("llama.cpp", *PREFIXED):
            return {}  # the first does so by itself, the others by a field of the message
        go_on: dict[str, object] = {"continue_final_message": True}
        return go_on if self.kind == "sglang" else {**go_on, "add_generation_prompt": False}

    @cached_property
    def seed(self) -> str:
        """The field for the seed."""
        return "random_seed" if self.kind == "mistral" else "seed"

    @cached_property
    def tells_usage_when_asked(self) -> bool:
        """True if a stream tells of its tokens only where ``stream_options`` asks for that.

        Mistral always tells of them, and refuses that field.
        """
        return self.kind != "mistral"

    @property
    def takes_tool_names(self) -> bool:
        """True if ``tool_choice`` may name a tool; llama.cpp knows the other words alone."""
        return self.kind != "llama.cpp"

    @property
    def heeds_tool_choice(self) -> bool:
        """True if it calls no tool when it is told so.

        https://docs.ollama.com/api/openai-compatibility
        """
        return self.kind != "ollama"

    @property
    def may_repeat(self) -> bool:
        """True if an answer may begin with the begun text, as those of llama.cpp and Mistral do."""
        return "prefill" not in self.features or self.kind in ("llama.cpp", "mistral")

    @property
    def heeds_seed(self) -> bool:
        """True if the same seed gives the same answer, and is not a wish.

        SGLang does so only with ``--enable-deterministic-inference``.
        """
        return self.kind in ("vllm", "llama.cpp", "ollama")

    @cached_property
    def takes_cache_key(self) -> bool:
        """True if requests with one key are sent to the machine that has their prefix."""
        return self.kind in ("openai", "azure")

    @cached_property
    def fields(self) -> frozenset[str]:
        """The fields of a request that it takes, besides those that OpenAI has."""
        found = {self.seed} | _TAKES.get(self.kind, frozenset())
        found |= {self.constraint_field(name) for name in self.features & {"regex", "grammar"}}
        if "stop_tokens" in self.features:
            found.add("stop_token_ids")
        found |= self.features & {"prompt_logprobs"}
        if "prefill" in self.features:
            found |= self.continuing.keys()
        return frozenset(found)

    def check_media(self, messages: Messages) -> None:
        """Raise ``Unsupported`` for images and sounds that OpenAI, Azure or Ollama refuse."""
        if self.kind not in ("openai", "azure", "ollama"):
            return
        for message in (link.message for link in messages.links() if link.outline.media):
            if self.kind == "ollama":
                self._check_bytes(message)
            elif message.role != "user":
                raise Unsupported(
                    f"{self.kind} takes images and sounds in the user's messages only, and there "
                    f"is one in a message of the role {message.role!r}; give it to the user "
                    "(with UserRole(): …)"
                )

    def _check_bytes(self, message: Message) -> None:
        """Refuse a reference in *message*: https://docs.ollama.com/api/openai-compatibility"""
        for _, medium in message.media:
            if medium.url is not None and not medium.url.startswith("data:"):
                raise Unsupported(
                    f"ollama takes the bytes of an image only, and got {medium}: save it, and give "
                    'it as Image.from_file("…")'
                )

    def constraint_field(self, feature: str) -> str:
        """The field for a ``regex`` or a ``grammar``."""
        if self.kind == "vllm":
            return "structured_outputs"
        return "ebnf" if (self.kind, feature) == ("sglang", "grammar") else feature

    @cached_property
    def strict_subset(self) -> Subset:
        """The schemas that it takes as strict; few publish it, and those follow OpenAI."""
        if self.kind in ("vllm", "sglang", "llama.cpp", "ollama"):
            return LOCAL
        return AZURE if self.kind == "azure" else OPENAI


_told: set[str] = set()


def tell_of_seed(who: str) -> None:
    """Say once on standard error that *who* may ignore a seed."""
    if who not in _told:
        _told.add(who)
        line = f"appl: {who} may ignore gen(seed=...): the same seed may give another answer"
        print(line, file=sys.stderr, flush=True)


def server_for(
    kind: str | None, base_url: str | None, features: Iterable[str], without: Iterable[str]
) -> ServerKind:
    """The server of *kind*, or what *base_url* suggests. Raises ``ConfigError``."""
    name = kind or _guessed(base_url)
    if name == "deepseek" and "/beta" in (base_url or ""):
        features = (*features, "prefill")
    if name not in FEATURES:
        known = ", ".join(FEATURES)
        raise ConfigError(f"server must be one of {known}, got {name!r}{nearest(name, FEATURES)}")
    added, removed = _known("features", features), _known("without", without)
    return ServerKind(name, (FEATURES[name] | added) - removed)


def _guessed(base_url: str | None) -> str:
    host = host_of(base_url or "")
    if not host or host == "api.openai.com":
        return "openai"
    if host.endswith(".openai.azure.com"):
        return "azure"
    if host == "generativelanguage.googleapis.com":
        return "gemini"
    if host == "api.mistral.ai":
        return "mistral"
    if host == "api.deepseek.com":
        return "deepseek"
    return "ollama" if host.endswith(":11434") else "other"


def _known(setting: str, names: Iterable[str]) -> frozenset[str]:
    if isinstance(names, str):
        raise ConfigError(f'{setting} must be a list, as in {setting} = ["{names}"]')
    found = frozenset(names)
    for name in sorted(found - _KNOWN):
        raise ConfigError(
            f"{setting}: there is no feature {name!r}{nearest(name, _KNOWN)} "
            f"(known: {', '.join(sorted(_KNOWN))})"
        )
    return found

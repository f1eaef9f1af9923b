"""The servers that speak OpenAI's chat interface: what each can do, and how it is told.

Invariant: a feature is listed where the server documents it; ``[backends.…] features`` and
``without`` correct the list for a server that is older, newer, or between.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from appl.backend_http import host_of
from appl.errors import ConfigError, nearest

Kind = Literal["openai", "azure", "vllm", "sglang", "llama.cpp", "ollama", "other"]

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
    }
)
FEATURES: dict[str, frozenset[str]] = {
    "openai": _HOSTED,
    "azure": _HOSTED,
    "vllm": _LOCAL | {"audio"},
    "sglang": _LOCAL,
    "llama.cpp": _LOCAL - {"n", "regex", "prefill", "stop_tokens"},
    "ollama": frozenset({"seed", "schema", "stream", "tools", "images", "reasoning"}),
    "other": frozenset(
        {"seed", "schema", "schema_object", "stream", "tools", "images", "reasoning"}
    ),
}
_KNOWN = frozenset().union(*FEATURES.values())


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
    def takes_cache_key(self) -> bool:
        """True if requests with one key are sent to the machine that has their prefix."""
        return self.kind in ("openai", "azure")


def server_for(
    kind: str | None, base_url: str | None, features: Iterable[str], without: Iterable[str]
) -> ServerKind:
    """The server of *kind*, or what *base_url* suggests. Raises ``ConfigError``."""
    name = kind or _guessed(base_url)
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

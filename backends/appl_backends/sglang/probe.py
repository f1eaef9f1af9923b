"""Asks a server about itself, and judges what its settings cost or forbid.

Invariant: nothing is guessed: what a server does not say is ``None`` here.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any, TypeGuard
from urllib.parse import urlsplit

from appl.backend import canonical
from appl.backend.check import MOST
from appl.errors import BackendError, BackendRefused, Unsupported
from appl_backends.sglang.wire import PROBE_S, Wire

_LONGEST = 4096
"""The most characters of a name or path that a server says."""

FRESH_S = 60.0
"""Seconds after which a new run asks again: behind a proxy, a server changes unseen."""

OLDEST = (0, 5, 4)
"""The oldest version whose native interface is the one that the client speaks."""


_GIB = 1 << 30
_AT_ONCE = 128
"""Answers at once that programs ask for often."""


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """An SGLang server as it was when it was probed; ``None`` is "it does not say".

    ``short`` is the last part of the model's name. ``cache_tokens`` is what its prefix cache holds,
    ``context`` the most tokens of prompt and answer together, ``longest`` the most that it takes as
    a prompt, ``running`` how many answers it decodes at once. ``workers`` are the addresses of the
    servers behind a router, as far as they are on its machine. ``facts`` is everything it said.
    """

    version: str = ""
    model: str = ""
    short: str = ""
    tokenizer: str = ""
    policy: str | None = None
    radix: bool | None = None
    cache_tokens: int | None = None
    context: int | None = None
    longest: int | None = None
    running: int | None = None
    priority: bool = False
    deterministic: bool = False
    incremental: bool | None = None
    lora: bool = False
    images: bool | None = None
    reasoning: bool = False
    workers: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def advice(self) -> list[str]:
        """Settings of the server that could be better, and the gain."""
        found = []
        if self.radix is False:
            found.append(
                "its prefix cache is off (--disable-radix-cache): what calls share is computed for "
                "each of them"
            )
        if self.radix and self.facts.get("enable_hierarchical_cache") is False:
            found.append(
                "its prefix cache has no more room than the GPU has; --enable-hierarchical-cache "
                "keeps what is pushed out of it in the memory of the machine, for later"
            )
        graphs = _largest_graph(self.facts)
        if graphs is not None and 0 < graphs < min(self.running or 0, _AT_ONCE):
            found.append(
                f"more than {graphs} answers at once are decoded at a third of the speed, without "
                "CUDA graphs: --cuda-graph-max-bs"
            )
        if self.facts.get("speculative_algorithm") == "NGRAM":
            found.append(
                "it speculates on every call, which is slower for many at once and for new "
                "answers; beside a plain server (drafting=, appl serve sglang --drafting) it gets "
                "the calls that gain"
            )
        if self.radix and self.policy == "fcfs" and not self.priority:
            found.append(
                "it serves first come, first served; with --schedule-policy lpm calls that share a "
                "prompt are served together"
            )
        if self.facts.get("constrained_json_disable_any_whitespace") is False:
            found.append(
                "its JSON may hold any white space, which models can go on with for ever: "
                "--constrained-json-disable-any-whitespace"
            )
        return found


class EmbeddingsOnly(Unsupported):
    """The server was asked for a text, and was started for embeddings."""


async def server_at(wire: Wire) -> ServerFacts:
    """The server's description of itself, as it was given at most ``FRESH_S`` ago.

    Runs of one process ask once, as long as the server closes no connection: it would say the same.
    Raises ``BackendError``, ``Unsupported`` for one too old.
    """
    kept: Any = wire.learned.get(ServerFacts)
    if kept is None or time.monotonic() - kept[1] > FRESH_S:
        kept = await probe(wire), time.monotonic()
        wire.learned[ServerFacts] = kept
    return kept[0]  # type: ignore[no-any-return]


async def probe(wire: Wire) -> ServerFacts:
    """Ask the server about itself. Raises ``BackendError``, ``Unsupported`` for one too old."""
    model = await _either(wire, "/model_info", "/get_model_info")
    facts = await _either(wire, "/server_info", "/get_server_info")
    found = _server(model, facts, await _context(wire))
    if not found.version:
        found = replace(found, workers=await _workers(wire))
    check_version(found.version, wire.who)
    if model.get("is_generation") is False:
        raise EmbeddingsOnly(
            f"{wire.who} is no model that generates text: appl.embed(texts) asks it for vectors"
        )
    if facts.get("skip_tokenizer_init"):
        raise Unsupported(
            f"{wire.who} runs without a tokenizer (--skip-tokenizer-init) and cannot answer texts"
        )
    return found


async def tokens_of(wire: Wire, text: str) -> list[int] | None:
    """The ids that the server encodes *text* to; ``None`` where it does not say."""
    try:
        asked = wire.post("/tokenize", canonical({"prompt": text}).encode("ascii"))
        found = (await wire.within(PROBE_S, asked, "/tokenize"))["tokens"]
        return [each for each in found if type(each) is int]
    except (BackendError, KeyError, TypeError):
        return None


def check_version(version: str, who: str) -> None:
    """Refuse what is too old. Raises ``Unsupported``."""
    numbers = tuple(map(int, re.findall(r"[0-9]{1,9}", version)[:3]))
    if numbers and numbers < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise Unsupported(
            f"{who} is SGLang {version}; {oldest} is the oldest that is supported: "
            'pip install "sglang>=0.5.17"'
        )


def _cache_tokens(facts: Mapping[str, Any], inner: Mapping[str, Any]) -> int | None:
    """The tokens that the prefix cache holds, where the memory of the machine is a part of it.

    What the GPU has is also there, so the larger of the two counts. ``--hicache-size`` says how
    many GB there are, else ``--hicache-ratio`` how many times the tokens of the GPU.
    """
    tokens = _number(facts.get("max_total_num_tokens"))
    if tokens is None or facts.get("enable_hierarchical_cache") is not True:
        return tokens
    usage = inner.get("memory_usage")
    used = usage if isinstance(usage, Mapping) else {}
    gb, ratio = facts.get("hicache_size"), facts.get("hicache_ratio")
    size, held = used.get("kvcache"), used.get("token_capacity")
    if _is_positive(gb) and _is_positive(size) and _is_positive(held):
        return max(tokens, int(gb * 1e9 / (size * _GIB / held)))
    return max(tokens, int(tokens * ratio)) if _is_positive(ratio) else tokens


def _largest_graph(facts: Mapping[str, Any]) -> int | None:
    """The most answers that are decoded at once by a CUDA graph; ``None`` where there is none.

    Servers from 0.5.17 on say it for decoding and for prompts apart, older ones in one number.
    """
    config = facts.get("cuda_graph_config")
    if not isinstance(config, Mapping):
        return _number(facts.get("cuda_graph_max_bs"))
    decode = config.get("decode")
    if not isinstance(decode, Mapping) or decode.get("backend") == "disabled":
        return None
    return _number(decode.get("max_bs"))


def _is_positive(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and 0 < value < 1e9


def _server(model: Mapping[str, Any], facts: Mapping[str, Any], context: int | None) -> ServerFacts:
    inner = _first(facts.get("internal_states"))
    off = facts.get("disable_radix_cache")
    name = _word(facts.get("served_model_name")) or _word(model.get("model_path"))
    return ServerFacts(
        version=_word(facts.get("version")),
        model=name,
        short=PurePath(name).name,
        tokenizer=_word(model.get("tokenizer_path")) or _word(model.get("model_path")),
        policy=_word(facts.get("schedule_policy")) or None,
        radix=None if off is None else not off,
        cache_tokens=_cache_tokens(facts, inner) if off is False else None,
        context=context or _number(facts.get("context_length")),
        longest=_number(facts.get("max_req_input_len")),
        running=_number(inner.get("effective_max_running_requests_per_dp"))
        or _number(facts.get("max_running_requests")),
        priority=bool(facts.get("enable_priority_scheduling")),
        deterministic=bool(facts.get("enable_deterministic_inference")),
        incremental=facts.get("incremental_streaming_output"),
        lora=bool(facts.get("enable_lora") or facts.get("lora_paths")),
        images=model.get("has_image_understanding"),
        reasoning=bool(facts.get("reasoning_parser")),
        facts=facts,
    )


async def _either(wire: Wire, path: str, older: str) -> Mapping[str, Any]:
    """The server's answer at *path*, or at the *older* one; empty where a router has neither."""
    for each in (path, older):
        try:
            found = await wire.get(each)
        except BackendRefused:
            continue
        return found if isinstance(found, Mapping) else {}
    return {}


async def _context(wire: Wire) -> int | None:
    try:
        found = await wire.get("/v1/models")
        return _number(_first(found["data"]).get("max_model_len"))
    except (BackendError, KeyError, TypeError):
        return None


async def _workers(wire: Wire) -> tuple[str, ...]:
    """The servers behind a router; none where it does not say, or is none."""
    try:
        found = await wire.get("/workers")
        urls = [_word(each["url"]) for each in found["workers"]]
        return tuple(url for url in urls if urlsplit(url).hostname == urlsplit(wire.url).hostname)
    except (BackendError, KeyError, TypeError, ValueError):
        return ()


def _first(found: Any) -> Mapping[str, Any]:
    first = found[0] if isinstance(found, list) and found else found
    return first if isinstance(first, Mapping) else {}


def _word(found: Any) -> str:
    """A name or version that a server says; nothing where it is no short text."""
    is_short = isinstance(found, str) and len(found) <= _LONGEST
    return found if is_short and found.isprintable() else ""


def _number(found: Any) -> int | None:
    return found if type(found) is int and 0 <= found <= MOST else None

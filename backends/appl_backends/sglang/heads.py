"""The fixed beginning of a regular expression: computed with the prompt, not generated.

The first characters of ``{"name": "[a-z]+"}`` are known, and still each of their tokens would cost
a step of decoding. Going over them at once is the idea of the compressed finite state machine of
SGLang (arXiv 2312.07104, section 4), which servers give up where steps overlap; at the beginning of
an answer a client can do it for them. The last token of the head is left to the model, which may
well go on from it with a longer one.

Invariant: head and answer together match the expression, and count as one answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from appl.backend import Sampling
from appl_backends.sglang.tokens import ModelTokenizer

_LEAST = 3
_MOST = 1024
_SPECIAL = frozenset(".^$*+?{}[]()|\\")
_QUANTIFIERS = frozenset("*+?{")
_PART = "\ufffd"  # of a letter, whose other bytes are in the next token
_WORDS = frozenset("<>")
_LOOKS_BACK = re.compile(r"\\[AGbB]|\(\?<[=!]")
"""Patterns that match by the text before them, and so would not after a head was taken off."""
_HARMLESS = frozenset({"cache_salt", "extra_key", "ignore_eos", "lora", "routing_key"})


@dataclass(frozen=True, slots=True)
class FixedHead:
    """The beginning of an answer, as text and tokens, and the sampling of what comes after it."""

    text: str
    ids: tuple[int, ...]
    sampling: Sampling

    def on(self, answer: Mapping[str, Any]) -> Mapping[str, Any]:
        """*answer* of the server, a complete one, as if it had generated the head as well."""
        meta, count = dict(answer["meta_info"]), len(self.ids)
        for name, more in (("prompt_tokens", -count), ("completion_tokens", count)):
            if isinstance(meta.get(name), int):
                meta[name] += more
        if isinstance(meta.get("cached_tokens"), int) and "prompt_tokens" in meta:
            meta["cached_tokens"] = min(meta["cached_tokens"], meta["prompt_tokens"])
        ids = [*self.ids, *(answer.get("output_ids") or ())]
        return {**answer, "text": self.text + answer["text"], "output_ids": ids, "meta_info": meta}


class Heads:
    """The heads of answers under one tokenizer; *max_tokens* bounds those that say nothing."""

    def __init__(self, tokenizer: ModelTokenizer, max_tokens: int | None = None) -> None:
        self._tokenizer, self._max_tokens = tokenizer, max_tokens
        self._known: dict[str, FixedHead | None] = {}

    def of(self, sampling: Sampling) -> FixedHead | None:
        """The head of answers to *sampling*; ``None`` where there is none that is worth it."""
        if sampling.regex is None:
            return None
        key = sampling.canonical()
        if key not in self._known:
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[key] = self._made(sampling, sampling.regex)
        return self._known[key]

    def _made(self, sampling: Sampling, regex: str) -> FixedHead | None:
        text, ends = fixed(regex)
        if sampling.stop or sampling.stop_tokens or sampling.begun:
            return None
        if sampling.logprobs is not None or sampling.prompt_logprobs is not None:
            return None
        if not {name for name, _ in sampling.extra} <= _HARMLESS:
            return None  # penalties and the like count what is generated
        ids = self._tokenizer.encode_said(text)[:-1]
        said = self._tokenizer.decode(ids)
        most = sampling.max_tokens or self._max_tokens
        left = None if most is None else most - len(ids)
        if not text.startswith(said) or _PART in said:
            return None
        if len(ids) < _LEAST or (left is not None and left < 1):
            return None
        rest = regex[ends[len(said) - 1] :]
        return FixedHead(said, tuple(ids), replace(sampling, regex=rest, max_tokens=left))


def fixed(regex: str) -> tuple[str, list[int]]:
    """The common beginning of all matches of *regex*, and where in it each character of that ends.

    Only a plain beginning is found: characters that stand for themselves, up to the first that does
    not, or that is repeated. It is empty if *regex* has an alternative anywhere, or looks back.
    """
    if "|" in regex or regex.startswith("(?") or _LOOKS_BACK.search(regex):
        return "", []
    text, ends, at = "", list[int](), 0
    while at < len(regex):
        end = at + 1
        letter = regex[at]
        if letter == "\\":
            end = at + 2
            letter = regex[at + 1 : end]
            if letter.isalnum() or letter in _WORDS:
                break  # a class, a reference, an escape such as \n, or where a word begins
        elif letter in _SPECIAL:
            break
        if not letter or regex[end : end + 1] in _QUANTIFIERS:
            break
        text += letter
        ends.append(end)
        at = end
    return text, ends

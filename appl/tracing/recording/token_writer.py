"""Writes the token ids of answers, where a backend keeps them.

A prompt is written in pieces, each after another one: prompts that begin alike share the pieces of
their beginning. ``appl/tracing/exporting/trajectories.py`` reads them.

Invariant: no ids are written of a text in which a secret is found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from appl.backend import Sample
from appl.backend.tokens import PromptTokens, SampleTokens, pack_ids, pack_logprobs
from appl.prompt import Messages

BLOCK = 64
"""The most ids of one piece: so far apart are the places where prompts may part."""
_KNOWN = 1 << 12
_SAFE = 1 << 16


class TokenWriter:
    """Writes ids with *piece*, which returns the number of the bytes that it is given.

    *finds* says whether some bytes hold a secret.
    """

    def __init__(self, piece: Callable[[bytes], int], finds: Callable[[bytes], bool]) -> None:
        self._piece, self._finds = piece, finds
        self._known: dict[int, tuple[PromptTokens, int]] = {}
        self._safe: dict[bytes | str, bool] = {}

    def facts(self, samples: Sequence[Sample]) -> list[object] | None:
        """What is recorded of the tokens of *samples*, in their order; ``None`` for nothing."""
        found = [self._of(sample) for sample in samples]
        return found if any(found) else None

    def _of(self, sample: Sample) -> object:
        tokens = sample.tokens
        if tokens is None or not self._is_free_of_secrets(sample, tokens):
            return None
        try:
            prompt = self._number(tokens.prompt)
            scores = None if tokens.logprobs is None else pack_logprobs(tokens.logprobs)
            return prompt, pack_ids(tokens.ids), scores
        except (TypeError, ValueError, OverflowError):  # of a backend that is not ours
            return None

    def _number(self, prompt: PromptTokens) -> int:
        """The number of the last piece of *prompt*."""
        runs: list[PromptTokens] = []
        run: PromptTokens | None = prompt
        number = 0
        while run is not None:
            known = self._known.get(id(run))
            if known is not None:  # it is held here, so that no other one has its id
                number = known[1]
                break
            runs.append(run)
            run = run.before
        for run in reversed(runs):
            for ids in _blocks(run.ids):
                number = self._piece(pack_ids((number, *ids)))
            if len(self._known) >= _KNOWN:
                self._known.clear()
            self._known[id(run)] = run, number
        return number

    def _is_free_of_secrets(self, sample: Sample, tokens: SampleTokens) -> bool:
        """True if no secret is found in what was asked, and in what was answered."""
        sampling = tokens.request.sampling.canonical()
        if not self._is_safe(sampling, sampling):
            return False
        links: list[Messages] = []
        messages = tokens.request.messages
        while messages is not None and messages.digest not in self._safe:
            links.append(messages)
            messages = messages.parent
        if messages is not None and not self._safe[messages.digest]:
            return False
        for link in reversed(links):
            said = link.message
            texts = [said.content, *(call.arguments for call in said.tool_calls)]
            if not self._is_safe(link.digest, "\n".join(texts)):
                return False
        answer = [sample.text, sample.reasoning or "", *(c.arguments for c in sample.tool_calls)]
        return not any(self._finds(_bytes(text)) for text in answer)

    def _is_safe(self, key: bytes | str, text: str) -> bool:
        found = self._safe.get(key)
        if found is None:
            if len(self._safe) >= _SAFE:
                self._safe.clear()
            found = self._safe[key] = not self._finds(_bytes(text))
        return found


def _blocks(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    for at in range(0, len(ids), BLOCK):
        yield ids[at : at + BLOCK]


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")

"""Places in a prompt, kept at the call for the text of a program that runs beside.

Invariant: a place never changes the order of a prompt, whenever it is filled.
"""

from __future__ import annotations

from collections.abc import Callable

from appl.prompt import Lazy, PromptNode, PromptSlot, Voice
from appl.runtime.concurrency.promise import Promise, source_of


class PendingPlace(PromptSlot):
    """A place for the *nodes* of *pending*, which are known when it is done; in *voice*."""

    __slots__ = ("_cached_nodes", "_nodes", "_pending")

    def __init__(
        self, pending: Promise, nodes: Callable[[Promise], list[PromptNode]], voice: Voice
    ) -> None:
        super().__init__(voice)
        self._pending, self._nodes = pending, nodes
        self._cached_nodes: list[PromptNode] | None = None

    def prompt_nodes(self) -> list[PromptNode]:
        if self._cached_nodes is None:
            self._cached_nodes = self._nodes(self._pending)
        return self._cached_nodes

    def has_prompt_kind(self) -> bool:
        return self._pending.done

    def _waiting(self) -> Lazy | None:
        for node in self.prompt_nodes():
            if node.lazy is not None and not node.lazy.prompt_ready():
                return node.lazy
        return None

    def prompt_ready(self) -> bool:
        return self._pending.done and self._waiting() is None

    def prompt_text(self) -> str:
        return "".join(node.text() for node in self.prompt_nodes())

    def prompt_source(self) -> Promise:
        if not self._pending.done:
            return self._pending
        part = self._waiting()
        return source_of(part) if part is not None else self._pending

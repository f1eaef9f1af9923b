"""Token ids and their texts as a stranger's tokenizer has them: special tokens are read and shown.

Invariant: only the native interface reads special tokens in text; messages never become any.
"""

from __future__ import annotations

from collections.abc import Sequence

import tokenizers

from appl_backends.embedded.tokenizer import Tokenizer, clean


class Words:
    """The vocabulary of a model, of *vocab* ids; ``end`` is the one that ends an answer."""

    def __init__(self, tokenizer: Tokenizer, vocab: int) -> None:
        self.vocab = vocab
        self._inner = tokenizers.Tokenizer.from_str(tokenizer.source)
        self._bytes, self.end = tokenizer.bytes, tokenizer.end
        self._special = tokenizer.names

    def encode(self, text: str) -> list[int]:
        """The ids of *text*, in which special tokens are what they are in a chat template."""
        ids: list[int] = self._inner.encode(clean(text), add_special_tokens=False).ids
        return ids

    def decode(self, tokens: Sequence[int], *, special: bool) -> str:
        """The text of *tokens*; with *special*, special tokens are written out."""
        shown = (token for token in tokens if special or token not in self._special)
        return b"".join(map(self.data, shown)).decode("utf-8", "replace")

    def shown(self, token: int) -> str:
        """The text of one token; half a character is shown as U+FFFD."""
        return self.data(token).decode("utf-8", "replace")

    def data(self, token: int) -> bytes:
        """The bytes of *token*; an id without use has none."""
        if token in self._special:
            return self._special[token]
        return self._bytes[token] if token < len(self._bytes) else b""

"""Constraints on an answer: a regex, a grammar or a JSON schema as masks over the vocabulary.

Invariant: an answer that ends by itself satisfies its constraint; only one that is cut by its
token limit may not.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import llguidance
import llguidance.numpy as bitmask
import numpy as np
from numpy.typing import NDArray

from appl.errors import Unsupported
from appl.prompt.digest import digest_of
from appl_backends.ebnf import lark_of

if TYPE_CHECKING:
    from appl_backends.embedded.tokenizer import Tokenizer

Mask = NDArray[np.bool_]
JSON_STYLE = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


class Constraint:
    """The state of one constrained answer."""

    def __init__(self, matcher: llguidance.LLMatcher, size: int) -> None:
        self._matcher = matcher
        self._bits = bitmask.allocate_token_bitmask(1, size)
        self._size = size
        self._mask: Mask | None = None

    def mask(self) -> Mask:
        """True for each token that may come next."""
        if self._mask is None:
            bitmask.fill_next_token_bitmask(self._matcher, self._bits)
            bits = np.unpackbits(self._bits.view(np.uint8)[0], bitorder="little")
            self._mask = bits[: self._size].view(np.bool_)
        return self._mask

    def forced(self) -> int | None:
        """The token that comes next, if no other may."""
        mask = self.mask()
        if np.count_nonzero(mask) != 1:
            return None
        token: int = mask.argmax().item()
        return token

    def allowed(self, tokens: list[int]) -> int:
        """The number of *tokens*, from the first one on, that may come next."""
        count: int = self._matcher.validate_tokens(tokens)
        return count

    def accept(self, token: int) -> None:
        """Go on with *token*."""
        self._mask = None
        self._matcher.consume_token(token)

    def after(self, tokens: list[int]) -> Constraint:
        """This state once *tokens* are there. Raises ``Unsupported`` if they must not come."""
        for token in tokens:
            if not self._matcher.consume_token(token):
                raise Unsupported("the answer has begun in a way that its constraint forbids")
        return self

    @property
    def failure(self) -> str:
        """Why nothing more can be said of what may come; empty while something can."""
        matcher = self._matcher
        return str(matcher.get_error()).partition("\n")[0] if matcher.is_error() else ""

    @property
    def complete(self) -> bool:
        """True if nothing but the end may follow."""
        return bool(self._matcher.is_stopped())

    def fork(self) -> Constraint:
        """An independent copy in the same state."""
        return Constraint(self._matcher.deep_copy(), self._size)


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """The form that a request wants; at most one of the fields is set. ``grammar`` is EBNF."""

    regex: str | None = None
    grammar: str | None = None
    schema: str | None = None


class Constraints:
    """Compiles constraints for one tokenizer, and remembers the latest of them."""

    LIMIT = 64

    def __init__(self, tokenizer: Tokenizer, vocab: int) -> None:
        self._inner = llguidance.LLTokenizer(
            tokenizer.source, n_vocab=vocab, eos_token=tokenizer.end
        )
        self._vocab = vocab
        self._known: dict[bytes, Constraint] = {}

    def compile(self, wanted: AnswerForm, healed: bytes = b"") -> Constraint:
        """A fresh state for *wanted*, which follows the bytes *healed*. Raises ``Unsupported``."""
        try:
            return self.of(_source(wanted, healed.decode("ascii")))
        except UnicodeEncodeError:
            raise Unsupported("a constraint cannot hold half of a surrogate pair") from None

    def of(self, source: str) -> Constraint:
        """A fresh state for a grammar in the language of llguidance."""
        key = digest_of(source)
        found = self._known.pop(key, None) or self._compiled(source)
        self._known[key] = found
        if len(self._known) > self.LIMIT:
            del self._known[next(iter(self._known))]
        return found.fork()

    def _compiled(self, source: str) -> Constraint:
        matcher = llguidance.LLMatcher(self._inner, source, log_level=0)
        if matcher.is_error():
            raise Unsupported(f"this constraint cannot be used: {matcher.get_error().strip()}")
        compiled = Constraint(matcher, self._vocab)
        compiled.mask()  # which shows that an answer can begin
        if why := compiled.failure:
            raise Unsupported(f"this constraint cannot be used: no answer fits it ({why})")
        return compiled


def _source(wanted: AnswerForm, healed: str) -> str:
    """The constraint in the language of llguidance."""
    matcher = llguidance.LLMatcher
    if wanted.regex is not None:
        body = f"{re.escape(healed)}(?:{wanted.regex})" if healed else wanted.regex
        return str(matcher.grammar_from_regex(body))
    if wanted.schema is not None:
        schema = {**json.loads(wanted.schema), "x-guidance": JSON_STYLE}
        return f"start: {json.dumps(healed)} object\nobject: %json {json.dumps(schema)}"
    assert wanted.grammar is not None, "there is a constraint to compile"
    return str(matcher.grammar_from_lark(lark_of(wanted.grammar)))

"""Text to token ids and back: the chat format, and text that grows token by token.

Invariant: the text of a message never becomes a special token, so data cannot open a turn.
"""

from __future__ import annotations

import codecs
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tokenizers

from appl.errors import PromptTooLong
from appl.prompt import Message, Messages, RoleName, ToolCall

START, END, ASSISTANT, CALL = "<s>", "<|end|>", "<|assistant|>", "<|call|>"
ROLE_TOKENS = {
    "system": "<|system|>",
    "user": "<|user|>",
    "assistant": ASSISTANT,
    "tool": "<|tool|>",
}


def clean(text: str) -> str:
    """*text* with lone surrogates replaced by U+FFFD (pairs of them are joined)."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@dataclass(frozen=True, slots=True)
class Encoded:
    """A prompt as ids; the answer must start with the bytes *healed*, which are not part of it.

    A prompt that ends with a space is cut before it, because words are learnt with the space that
    precedes them.
    """

    ids: list[int]
    healed: bytes = b""


class Tokenizer:
    """The tokenizer of a model folder, with its chat format."""

    def __init__(self, folder: Path) -> None:
        source = (folder / "tokenizer.json").read_text("utf-8")
        self.source = source
        self._inner = tokenizers.Tokenizer.from_str(source)
        self._inner.encode_special_tokens = True
        self.size: int = self._inner.get_vocab_size(with_added_tokens=True)
        vocab = self._inner.get_vocab(with_added_tokens=True)
        added = {entry["id"] for entry in json.loads(source)["added_tokens"]}
        self.names = {vocab[name]: name.encode() for name in vocab if vocab[name] in added}
        self.special = frozenset(added)
        self.bytes = _token_bytes(vocab, added)
        self.longest = max(map(len, self.bytes))
        self.start, self.end, self.call = vocab[START], vocab[END], vocab[CALL]
        self._roles = {role: vocab[token] for role, token in ROLE_TOKENS.items()}
        self.fingerprint = hashlib.blake2b(source.encode(), digest_size=8).hexdigest()

    def encode(self, text: str) -> list[int]:
        """The ids of plain text; special tokens written in it are text as well."""
        ids: list[int] = self._inner.encode(clean(text), add_special_tokens=False).ids
        return ids

    def prompt(
        self,
        messages: Messages | None,
        limit: int,
        *,
        heal: bool = True,
        tools: str = "",
        begun: bool = True,
    ) -> Encoded:
        """The ids that ask for the next assistant message, or continue the one at the end.

        Without *begun*, one at the end is complete as well. *tools* is said at the end of the
        system message. Raises ``PromptTooLong`` for more than *limit* tokens, without encoding
        hopeless texts.
        """
        parts: list[list[int]] = [[self.start]]
        healed, total = b"", 1
        open_link = messages if begun and is_begun(messages) else None
        links = messages.links() if messages else []
        if tools:
            first = links.pop(0).message if links and links[0].message.role == "system" else None
            text = f"{first.content}\n{tools}" if first is not None else tools
            self._refuse_hopeless(text, limit)
            parts.append(self._said("system", text))
            total += len(parts[-1])
        for link in links:
            self._refuse_hopeless(link.message.content, limit)
            if link is open_link:
                ids, healed = self._open(link, heal)
            else:
                ids = self._closed(link)
            parts.append(ids)
            total += len(ids)
        if open_link is None:
            parts.append([self._roles["assistant"]])
            total += 1
        if total > limit:
            raise too_long(f"{total}", limit)
        return Encoded([token for part in parts for token in part], healed)

    def option(self, messages: Messages | None, prompt: Encoded, option: str) -> list[int]:
        """The ids of *option* as the continuation of *prompt*."""
        if messages is not None and is_begun(messages):
            content = messages.message.content
            before = len(self.encode(content[:-1] if prompt.healed else content))
            whole = self.encode(content + option)
            if whole[:before] == prompt.ids[len(prompt.ids) - before :]:
                return whole[before:]
        return self.encode(option)

    def _closed(self, link: Messages) -> list[int]:
        key = ("embedded", self.fingerprint)
        found = link.cache.get(key)
        if not isinstance(found, list):
            found = self._whole(link.message)
            link.cache[key] = found
        return found

    def _whole(self, message: Message) -> list[int]:
        found = self._said(message.role, message.content)
        if message.tool_calls:
            found = found if message.content else []
            for call in written(message):
                found += [self._roles["assistant"], self.call, *self.encode(call), self.end]
        return found

    def _said(self, role: RoleName, content: str) -> list[int]:
        return [self._roles[role], *self.encode(content), self.end]

    def _open(self, link: Messages, heal: bool) -> tuple[list[int], bytes]:
        content, healed = link.message.content, b""
        if heal and content.endswith(" ") and content.strip():
            content, healed = content[:-1], b" "
        return [self._roles["assistant"], *self.encode(content)], healed

    def _refuse_hopeless(self, text: str, limit: int) -> None:
        """A lower bound on the tokens of *text*, so that megabytes are not encoded in vain."""
        if len(text) > limit * self.longest:
            raise too_long(f"at least {len(text) // self.longest}", limit)


def is_begun(messages: Messages | None) -> bool:
    """True if the conversation ends with an answer that is to be continued."""
    last = messages.message if messages is not None else None
    return last is not None and last.role == "assistant" and not last.tool_calls


def written(message: Message) -> list[str]:
    """The tool calls of *message* as the model writes them."""
    return [written_call(call) for call in message.tool_calls]


def written_call(call: ToolCall) -> str:
    """A tool call as the model writes it."""
    return f'{{"name": {json.dumps(call.name, ensure_ascii=False)}, "arguments": {call.arguments}}}'


def too_long(length: str, limit: int) -> PromptTooLong:
    """The error that names both lengths."""
    return PromptTooLong(
        f"the prompt has {length} tokens, the model has room for {limit}; shorten the prompt"
    )


def _token_bytes(vocab: dict[str, int], special: set[int]) -> list[bytes]:
    """The bytes of each id; special tokens have none."""
    alphabet = {char: byte for byte, char in _alphabet().items()}
    found = [b""] * (max(vocab.values()) + 1)
    for token, index in vocab.items():
        if index not in special:
            found[index] = bytes(alphabet[char] for char in token)
    return found


def _alphabet() -> dict[int, str]:
    """The printable stand-in for each byte in a byte-level vocabulary (GPT-2's table)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = (byte for byte in range(256) if byte not in printable)
    table = {byte: chr(byte) for byte in printable}
    table.update({byte: chr(0x100 + order) for order, byte in enumerate(hidden)})
    return table


class TextWriter:
    """The growing text of one answer.

    Bytes become text only when a character is complete, and text becomes *safe* only when no stop
    string can begin in it any more; ``stopped`` is true once one is complete (``matched``: the
    first to be so, wherever tokens are cut), and the text ends before it.
    """

    __slots__ = ("_decoder", "_skip", "_stop", "_taken", "matched", "stopped", "text")

    def __init__(self, stop: Sequence[str] = (), skip: bytes = b"") -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._stop, self._skip = tuple(filter(None, stop)), len(skip)
        self._taken = 0
        self.text, self.stopped, self.matched = "", False, ""

    def add(self, data: bytes) -> None:
        """Append the bytes of a token."""
        if self._skip:
            data, self._skip = data[self._skip :], max(0, self._skip - len(data))
        self._append(self._decoder.decode(data))

    def close(self, cut: bool = False) -> None:
        """No more bytes will come: half a character becomes U+FFFD, and is left out at a *cut*."""
        if not self.stopped and not cut:
            self._append(self._decoder.decode(b"", final=True))

    def take(self, final: bool = False) -> str:
        """The safe text that was not taken before; with *final*, all that is left."""
        end = len(self.text) if final or self.stopped else self._safe_end()
        piece, self._taken = self.text[self._taken : end], max(self._taken, end)
        return piece

    def _append(self, piece: str) -> None:
        if not piece:
            return
        before = len(self.text)
        self.text += piece
        found = [
            (at + len(stop), at, stop)
            for stop in self._stop
            if (at := self.text.find(stop, max(0, before - len(stop) + 1))) >= 0
        ]
        if found:
            _, at, self.matched = min(found)
            self.text, self.stopped = self.text[:at], True

    def _safe_end(self) -> int:
        text, held = self.text, 0
        for stop in self._stop:
            for size in range(min(len(stop) - 1, len(text)), held, -1):
                if text.endswith(stop[:size]):
                    held = size
                    break
        return len(text) - held

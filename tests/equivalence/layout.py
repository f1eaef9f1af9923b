"""How a finished prompt looks, from all of its pieces at once: an independent reading of the rules.

Every piece knows the blocks that it is in; separators, numbers and indents follow by counting.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple


class ToolCall(NamedTuple):
    """A tool that the model wants to be called."""

    id: str
    name: str
    arguments: str

    def __str__(self) -> str:
        return f"[call {self.id}: {self.name}({self.arguments})]"


class Msg(NamedTuple):
    """A message: who says what; ``media`` are pictures with their places in the text."""

    role: str
    content: str
    name: str | None = None
    media: tuple[tuple[int, bytes], ...] = ()
    calls: tuple[ToolCall, ...] = ()
    answers: str | None = None
    failed: bool = False

    @property
    def whole(self) -> bool:
        """Whether nothing may be added to it."""
        return bool(self.calls or self.answers or self.failed)

    def __str__(self) -> str:
        speaker = f"{self.role} ({self.name})" if self.name else self.role
        said = [self.content] if self.content else []
        return f"{speaker}: " + "\n".join([*said, *map(str, self.calls)])


Messages = tuple[Msg, ...]


@dataclass(frozen=True)
class Index:
    """What stands before each item: what counts, or a sign; *skipped* numbers are passed over."""

    method: str
    skipped: int = 0
    prefix: str = ""
    suffix: str | None = None

    def label(self, position: int) -> str:
        """What stands before the item at *position*, counted from 0."""
        number = position + self.skipped + 1
        counted = {"number": decimal, "lower": letters, "upper": capitals, "roman": roman}
        if self.method in counted:
            sign, suffix = counted[self.method](number), ". "
        elif self.method == "Roman":
            sign, suffix = roman(number).upper(), ". "
        else:
            sign, suffix = {"dash": "-", "star": "*"}.get(self.method, self.method), " "
        return self.prefix + sign + (suffix if self.suffix is None else self.suffix)


def decimal(number: int) -> str:
    return f"{number}"


def letters(number: int) -> str:
    """a … z, aa, ab …"""
    head, last = divmod(number - 1, 26)
    return (letters(head) if head else "") + "abcdefghijklmnopqrstuvwxyz"[last]


def capitals(number: int) -> str:
    return letters(number).upper()


def roman(number: int) -> str:
    """i, ii, iii, iv …: as many small ones as there are, then pairs of equals exchanged."""
    found = "i" * number
    for five, ten, one in (("v", "x", "i"), ("l", "c", "x"), ("d", "m", "c")):
        found = found.replace(one * 10, ten).replace(one * 9, one + ten)
        found = found.replace(one * 5, five).replace(one * 4, one + five)
    return found


@dataclass(frozen=True)
class Look:
    """How the items of a block look; ``None`` is as in the block around."""

    sep: str | None = None
    index: Index | None = None
    indent: str = ""
    new_indent: str | None = None
    inline: bool = False


@dataclass(frozen=True, eq=False)
class Block:
    """A block that was entered; each entry is one of its own, however equal they look."""

    look: Look


@dataclass(frozen=True)
class Voice:
    """Who speaks, in which blocks, with how many roles open; ``path`` is ``None`` for messages."""

    role: str
    name: str | None = None
    path: tuple[Block, ...] | None = ()
    depth: int = 0


class Calling(NamedTuple):
    """The content of a piece that is an answer with calls of tools."""

    text: str
    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, eq=False)
class Piece:
    """A finished part of a prompt: text, a picture, a whole message, or an answer that calls.

    ``starts`` begins an item, ``apart`` a message.
    """

    voice: Voice
    content: str | bytes | Msg | Calling
    starts: bool = True
    apart: bool = False


def pieces_of(message: Msg, apart: bool) -> Iterator[Piece]:
    """A message as it is said: text and pictures, or all of it when nothing may be added."""
    voice = Voice(message.role, message.name, None)
    if message.whole:
        yield Piece(voice, message)
        return
    cuts = [at for at, _ in message.media]
    contents: list[str | bytes] = []
    for begin, end, picture in zip(
        [0, *cuts], [*cuts, len(message.content)], [*(data for _, data in message.media), None],
        strict=True,
    ):  # fmt: skip
        contents += [message.content[begin:end]] if end > begin else []
        contents += [picture] if picture is not None else []
    for number, content in enumerate(contents or [""]):
        yield Piece(voice, content, number == 0, apart and number == 0)


class Around(NamedTuple):
    """What stands around a piece: before an item, and at the start of its lines."""

    sep: str
    label: str
    indent: str


class Counting:
    """The blocks that have begun, and how many items each has."""

    def __init__(self) -> None:
        self.items: Counter[Block] = Counter()
        self.begun: set[Block] = set()

    def around(self, piece: Piece) -> Around | None:
        """What stands around the next piece; ``None`` where no block has a say."""
        path = piece.voice.path
        if not path or alone(piece):
            return None
        indent = ""
        for block in path:
            own = block.look.new_indent
            indent = indent + block.look.indent if own is None else own
        if not piece.starts:
            return Around("", "", indent)
        open_ = [block for block in path if block in self.begun]
        label = "".join(reversed(list(self._labels(path))))
        self.begun.update(path)
        seps = [block.look.sep for block in open_ if block.look.sep is not None]
        return Around(seps[-1] if seps else "\n", label, indent)

    def _labels(self, path: tuple[Block, ...]) -> Iterator[str]:
        """The labels of the blocks of which the piece is an item, or begins one; innermost first."""
        for block in reversed(path):
            if block.look.index is not None:
                yield block.look.index.label(self.items[block])
            self.items[block] += 1
            if block in self.begun or not block.look.inline:
                return


@dataclass
class Draft:
    """A message that is being written; nothing joins a ``closed`` one."""

    role: str
    name: str | None
    text: str = ""
    media: list[tuple[int, bytes]] = field(default_factory=list)
    calls: tuple[ToolCall, ...] = ()
    closed: bool = False
    glued: bool = True  # no separator belongs here: at the beginning, and after a picture

    def write(self, text: str, around: Around | None, starts: bool) -> None:
        if around is not None:
            if starts:
                self.lead(around)
            text = text.replace("\n", "\n" + around.indent)
        elif starts and not self.glued:
            self.text += "\n"
        self.text += text
        self.glued = bool(self.media) and self.media[-1][0] == len(self.text)

    def lead(self, around: Around) -> None:
        """What stands before an item; an indent only where a line begins."""
        sep = "" if self.glued else around.sep
        line = sep or self.text
        begins = self.glued or not self.text or line.endswith("\n")
        self.text += sep + (around.indent if begins else "") + around.label

    def draw(self, picture: bytes, around: Around | None) -> None:
        if around is not None and around.label:
            self.lead(around)
        self.media.append((len(self.text), picture))
        self.glued = True

    def done(self) -> Msg:
        return Msg(self.role, self.text, self.name, tuple(self.media), self.calls)


Entry = Draft | Msg


def alone(piece: Piece) -> bool:
    """Whether this is an answer that calls tools and continues nothing."""
    calls = isinstance(piece.content, Calling)
    return calls and (piece.voice.role != "assistant" or piece.apart)


def _write(pages: list[Entry], piece: Piece, around: Around | None) -> None:
    content = piece.content
    if isinstance(content, Msg):
        pages.append(content)
    elif not isinstance(content, Calling):
        draft = _draft(pages, piece)
        if isinstance(content, str):
            draft.write(content, around, piece.starts)
        else:
            draft.draw(content, around)
    elif alone(piece):
        pages.append(Msg("assistant", content.text, calls=content.calls))
    else:
        draft = _draft(pages, piece)
        if content.text:
            draft.write(content.text, around, piece.starts)
        draft.calls, draft.closed = content.calls, True


def _draft(pages: list[Entry], piece: Piece) -> Draft:
    """The message that the piece goes on with, or a new one."""
    speaker = piece.voice.role, piece.voice.name
    last = pages[-1] if pages else None
    joins = isinstance(last, Draft) and not last.closed and not piece.apart
    if isinstance(last, Draft) and joins and (last.role, last.name) == speaker:
        return last
    draft = Draft(*speaker)
    pages.append(draft)
    return draft


def messages(pieces: Iterable[Piece]) -> Messages:
    """The conversation: neighbours of one speaker joined, what the system says at the front."""
    counting = Counting()
    marked = [(piece, counting.around(piece)) for piece in pieces]
    pages: list[Entry] = []
    for piece, around in marked:
        if not _in_front(piece):
            _write(pages, piece, around)
    leading = next((i for i, page in enumerate(pages) if page.role != "system"), len(pages))
    front = pages[:leading]
    for piece, around in marked:
        if _in_front(piece):
            _write(front, piece, around)
    every = [*front, *pages[leading:]]
    return tuple(page if isinstance(page, Msg) else page.done() for page in every)


def _in_front(piece: Piece) -> bool:
    return piece.voice.role == "system" and not piece.apart and not alone(piece)

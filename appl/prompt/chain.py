"""The persistent prompt: a chain of items that are never changed, so that a copy is one reference.

Invariant: a ``Node`` is immutable but for caches; two prompts that share a beginning share it as
the same objects, and a ``Messages`` link is computed once per node, iteratively.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from appl.prompt.lazy import Lazy
from appl.prompt.message import Message, RoleName

Part = str | Lazy


class Place:
    """A lazy part that stands for any number of nodes: kept for what is said there later."""

    __slots__ = ()

    def prompt_nodes(self) -> list[Node]:
        """The nodes, once ``prompt_ready``; their parts may be lazy, and are then ready too."""
        raise NotImplementedError


def digest_of(*fields: str | bytes) -> bytes:
    """16 bytes of BLAKE2b over the length-prefixed *fields*, so that no two lists collide."""
    h = hashlib.blake2b(digest_size=16)
    for field in fields:
        data = field.encode("utf-8", "surrogatepass") if isinstance(field, str) else field
        h.update(len(data).to_bytes(8, "little"))
        h.update(data)
    return h.digest()


def tagged(digest: bytes) -> str:
    """A digest in its written form, ``b2:`` and hex."""
    return "b2:" + digest.hex()


_EMPTY = digest_of("appl-messages-1")


class Messages:
    """Rendered messages as a chain: the last message, and the chain before it.

    ``digest`` covers this message and all before it. ``cache`` holds what a backend derives from
    exactly this prefix (token ids, encoded JSON), keyed by whatever that backend chooses.
    """

    __slots__ = ("cache", "digest", "length", "message", "parent")

    def __init__(self, parent: Messages | None, message: Message) -> None:
        self.parent, self.message = parent, message
        self.length: int = 1 + (parent.length if parent else 0)
        before = parent.digest if parent else _EMPTY
        self.digest: bytes = digest_of(before, message.role, message.content)
        self.cache: dict[object, object] = {}

    @classmethod
    def of(cls, messages: Iterable[Message]) -> Messages | None:
        """The chain of *messages*, ``None`` when there are none."""
        chain: Messages | None = None
        for message in messages:
            chain = cls(chain, Message(message.role, message.content))
        return chain

    def links(self) -> list[Messages]:
        """Every link, first message first."""
        found: list[Messages] = []
        link: Messages | None = self
        while link is not None:
            found.append(link)
            link = link.parent
        found.reverse()
        return found

    def __iter__(self) -> Iterator[Message]:
        return (link.message for link in self.links())

    def __len__(self) -> int:
        return self.length


class Node:
    """One part of a prompt, and everything before it.

    ``starts`` is true for the first part of an item; ``sep`` stands before an item that continues
    a message of the same role, ``lead`` (indentation, index) before it in any case. ``hole`` is the
    nearest node, this one included, whose part is lazy.
    """

    __slots__ = (
        "_folded", "_ready", "_rendered", "hole", "lead", "length", "parent", "part", "role", "sep",
        "starts",
    )  # fmt: skip

    def __init__(
        self,
        parent: Node | None,
        role: RoleName,
        part: Part,
        *,
        sep: str = "\n",
        lead: str = "",
        starts: bool = True,
    ) -> None:
        self.parent, self.role, self.part = parent, role, part
        self.sep, self.lead, self.starts = sep, lead, starts
        self.length: int = 1 + (parent.length if parent else 0)
        self._rendered: Messages | None = None
        self._folded = False
        if isinstance(part, str):
            self.hole: Node | None = parent.hole if parent else None
            self._ready = self.hole is None
        else:
            self.hole, self._ready = self, False

    def waiting(self) -> Iterator[Lazy]:
        """The lazy parts that are not there yet, nearest first; none when the prompt is ready."""
        hole = None if self._ready else self.hole
        first, missing = hole, False
        while hole is not None and not hole._ready:
            part = hole.part
            if not isinstance(part, str) and not part.prompt_ready():
                missing = True
                yield part
            hole = hole.parent.hole if hole.parent else None
        if first is not None and not missing:
            first._ready = self._ready = True

    def first_waiting(self) -> Lazy | None:
        """The nearest lazy part that is not there yet."""
        return next(self.waiting(), None)

    def holes(self) -> Iterator[Lazy]:
        """All lazy parts, nearest first, there or not: the data edges into this prompt."""
        hole = self.hole
        while hole is not None:
            assert not isinstance(hole.part, str)
            yield hole.part
            hole = hole.parent.hole if hole.parent else None

    def text(self) -> str:
        """The text of this part alone."""
        part = self.part
        return part if isinstance(part, str) else part.prompt_text()

    def messages(self) -> Messages | None:
        """The rendered conversation up to here; every lazy part must be ready.

        Adjacent items of one role form one message; system text moves to the front. ``None`` when
        all parts are places that stayed empty.
        """
        if not self._folded:
            fresh: list[Node] = []
            node: Node | None = self
            while node is not None and not node._folded:
                fresh.append(node)
                node = node.parent
            fresh.reverse()
            self._rendered = _fold(node._rendered if node else None, _unfolded(fresh))
            self._folded = True
        return self._rendered

    def since(self, start: Node | None) -> list[Node]:
        """The nodes after *start* up to this one, oldest first."""
        found: list[Node] = []
        node: Node | None = self
        while node is not None and node is not start:
            found.append(node)
            node = node.parent
        found.reverse()
        return found


@dataclass(slots=True)
class _Run:
    """Adjacent parts of one role on their way to become one message."""

    role: RoleName
    texts: list[str]


def _runs(nodes: list[Node], last: RoleName | None) -> list[_Run]:
    runs: list[_Run] = []
    for node in nodes:
        if runs and runs[-1].role == node.role:
            runs[-1].texts += [node.sep if node.starts else "", node.lead, node.text()]
        else:
            sep = node.sep if not runs and node.role == last and node.starts else ""
            runs.append(_Run(node.role, [sep, node.lead, node.text()]))
    return runs


def _unfolded(nodes: list[Node]) -> list[Node]:
    """*nodes* with what stands in the places that were kept for others."""
    found: list[Node] = []
    stack = nodes[::-1]
    while stack:
        node = stack.pop()
        if isinstance(node.part, Place):
            stack += node.part.prompt_nodes()[::-1]
        else:
            found.append(node)
    return found


def _fold(before: Messages | None, nodes: list[Node]) -> Messages | None:
    chain = before
    spoken = [node for node in nodes if node.role != "system"]
    for run in _runs(spoken, before.message.role if before else None):
        chain = _join(chain, run)
    system = [node for node in nodes if node.role == "system"]
    if system:
        chain = _front(chain, system)
    return chain


def _join(chain: Messages | None, run: _Run) -> Messages:
    text = "".join(run.texts)
    if chain is not None and chain.message.role == run.role:
        return Messages(chain.parent, Message(run.role, chain.message.content + text))
    return Messages(chain, Message(run.role, text))


def _front(chain: Messages | None, system: list[Node]) -> Messages:
    """System text joins the front however late it is said: providers take it there only."""
    rest = list(chain) if chain else []
    first = rest.pop(0) if rest and rest[0].role == "system" else None
    (run,) = _runs(system, first.role if first else None)
    text = (first.content if first else "") + "".join(run.texts)
    moved = Messages.of([Message("system", text), *rest])
    assert moved is not None
    return moved


class Prompt:
    """A prompt that grows: a reference to the newest node of its chain."""

    __slots__ = ("tip",)

    def __init__(self, tip: Node | None = None) -> None:
        self.tip = tip

    def append(
        self, role: RoleName, part: Part, *, sep: str = "\n", lead: str = "", starts: bool = True
    ) -> Node:
        """Add one part and return its node."""
        self.tip = Node(self.tip, role, part, sep=sep, lead=lead, starts=starts)
        return self.tip

    def copy(self) -> Prompt:
        """A prompt that continues from here on its own; costs one reference and never waits."""
        return Prompt(self.tip)

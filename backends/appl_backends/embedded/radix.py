"""Paged keys and values in a radix tree: match, insert, split, lock, evict the least recently used.

Invariants (held by ``verify``): the tokens from the root to a node are those whose keys and values
its blocks hold; siblings differ in their first token; free blocks and blocks in the tree are all
blocks; a locked node's ancestors are locked and none of them is evicted; leaves go first, and no
node was used later than its parent.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from appl_backends.embedded.cache import CacheReport, Hold, Tokens
from appl_backends.embedded.model import F32, ModelShape, Row

BLOCK = 16


class Blocks:
    """A fixed store of blocks of ``BLOCK`` tokens; a block that two nodes share counts twice."""

    def __init__(self, shape: ModelShape, count: int) -> None:
        self.data: F32 = np.empty(
            (count, shape.layers, 2 * shape.kv_heads, BLOCK, shape.head_dim), np.float32
        )
        self.users: NDArray[np.int32] = np.zeros(count, np.int32)
        self.free = list(range(count - 1, -1, -1))

    def take(self, count: int) -> list[int]:
        """*count* free blocks; there must be as many."""
        taken = [self.free.pop() for _ in range(count)]
        self.users[taken] = 1
        return taken

    def share(self, block: int) -> None:
        """One more node uses *block*."""
        self.users[block] += 1

    def release(self, blocks: list[int]) -> None:
        """One node fewer uses each of *blocks*."""
        for block in blocks:
            self.users[block] -= 1
            if not self.users[block]:
                self.free.append(block)


class RadixNode:
    """A run of tokens whose keys and values start at ``offset`` in the first of its blocks."""

    __slots__ = ("blocks", "children", "locks", "offset", "parent", "tokens", "used")

    def __init__(
        self, parent: RadixNode | None, tokens: Tokens, blocks: list[int], offset: int = 0
    ) -> None:
        self.parent, self.tokens = parent, tokens
        self.blocks, self.offset = blocks, offset
        self.children: dict[int, RadixNode] = {}
        self.locks = 0
        self.used = 0

    def path(self) -> Iterator[RadixNode]:
        """This node and its ancestors, without the root."""
        node = self
        while node.parent is not None:
            yield node
            node = node.parent


class RadixCache:
    """The prefix cache: its memory is ``blocks`` blocks, taken once.

    Every space has a tree of its own, and all share the blocks.
    """

    shares = True

    def __init__(self, shape: ModelShape, blocks: int) -> None:
        self.blocks = Blocks(shape, blocks)
        self.count = blocks
        self.root = _root()
        self._spaces: dict[str, RadixNode] = {}
        self.nodes = self.tokens = self.protected = self.evicted = 0
        self._tick = 0

    def match(self, tokens: Tokens, space: str = "") -> int:
        """The number of leading *tokens* in the cache."""
        root = self._spaces.get(space) if space else self.root
        return self._walk(root, tokens)[1] if root is not None else 0

    def open(self, tokens: Tokens, row: Row, space: str = "") -> Hold:
        """Lock the longest held prefix of *tokens* and copy it into the empty *row*."""
        root = self._spaces.setdefault(space, _root()) if space else self.root
        root.locks += 1
        node, length = self._descend(root, tokens)
        self._lock(node)
        self._touch(node)
        for part in reversed(list(node.path())):
            self._copy(part, row)
        return Hold(node, length)

    def publish(self, hold: Hold, tokens: Tokens, row: Row) -> None:
        """Keep what *row* has computed of *tokens* beyond *hold*, as far as there is room."""
        computed = tokens[: row.length]
        node, more = self._descend(hold.node, computed[hold.length :])
        self._move(hold, node, hold.length + more)
        fresh = len(computed) - hold.length
        blocks = self._room(-(-fresh // BLOCK))
        fresh = min(fresh, len(blocks) * BLOCK)
        if fresh:
            start, end = hold.length, hold.length + fresh
            leaf = RadixNode(node, computed[start:end].copy(), blocks)
            node.children[int(computed[start])] = leaf
            self._store(leaf, row, start)
            self.nodes, self.tokens = self.nodes + 1, self.tokens + fresh
            self._move(hold, leaf, end)

    def close(self, hold: Hold) -> None:
        """Unlock *hold*; it may be evicted from now on."""
        self._unlock(hold.node)
        _top(hold.node).locks -= 1
        hold.node, hold.length = self.root, 0

    def clear(self) -> None:
        """Evict all that is not locked."""
        self._evict(self.count)

    def report(self) -> CacheReport:
        """The state of the cache now; may be called from any thread."""
        return CacheReport(
            blocks=self.count,
            free_blocks=len(self.blocks.free),
            tokens=self.tokens,
            protected=self.protected,
            nodes=self.nodes,
            evicted=self.evicted,
        )

    def _walk(self, node: RadixNode, tokens: Tokens) -> tuple[RadixNode, int, int]:
        """The last node that *tokens* reach, how far they match, and how far inside that node."""
        done, inside = 0, len(node.tokens)
        while inside == len(node.tokens) and done < len(tokens):
            child = node.children.get(int(tokens[done]))
            if child is None:
                break
            node, inside = child, common(child.tokens, tokens[done:])
            done += inside
        return node, done, inside

    def _descend(self, start: RadixNode, tokens: Tokens) -> tuple[RadixNode, int]:
        """As ``_walk``, with the last node split where the match ends."""
        node, done, inside = self._walk(start, tokens)
        return (self._split(node, inside) if inside < len(node.tokens) else node), done

    def _split(self, node: RadixNode, at: int) -> RadixNode:
        """Cut *node* after *at* tokens; both halves use the block in which the cut falls."""
        assert node.parent is not None, "the root has no tokens to split"
        block, offset = divmod(node.offset + at, BLOCK)
        head = RadixNode(
            node.parent, node.tokens[:at], node.blocks[: block + bool(offset)], node.offset
        )
        head.locks, head.used = node.locks, node.used
        head.children[int(node.tokens[at])] = node
        node.parent.children[int(node.tokens[0])] = head
        self.nodes += 1
        if offset:
            self.blocks.share(node.blocks[block])
        node.parent, node.tokens = head, node.tokens[at:]
        node.blocks, node.offset = node.blocks[block:], offset
        return head

    def _copy(self, node: RadixNode, row: Row) -> None:
        """Append the keys and values of *node* to *row*."""
        for block, inside, start, count in _pieces(node, row.length):
            source = self.blocks.data[block]
            row.kv[:, :, start : start + count] = source[:, :, inside : inside + count]
        row.length += len(node.tokens)

    def _store(self, node: RadixNode, row: Row, at: int) -> None:
        """Fill the blocks of *node* from position *at* of *row*."""
        for block, inside, start, count in _pieces(node, at):
            target = self.blocks.data[block]
            target[:, :, inside : inside + count] = row.kv[:, :, start : start + count]

    def _lock(self, node: RadixNode, above: RadixNode | None = None) -> None:
        """Lock the path from below *above* (the root, if not said) to *node*."""
        for part in node.path():
            if part is above:
                break
            self.protected += 0 if part.locks else len(part.tokens)
            part.locks += 1

    def _unlock(self, node: RadixNode) -> None:
        for part in node.path():
            part.locks -= 1
            self.protected -= 0 if part.locks else len(part.tokens)

    def _move(self, hold: Hold, node: RadixNode, length: int) -> None:
        """Lock down to *node*, a descendant of the hold's, instead."""
        self._lock(node, hold.node)
        hold.node, hold.length = node, length
        self._touch(node)

    def _touch(self, node: RadixNode) -> None:
        self._tick += 1
        for part in node.path():
            part.used = self._tick

    def _room(self, wanted: int) -> list[int]:
        """Up to *wanted* blocks, after evicting what is neither locked nor recently used."""
        if len(self.blocks.free) < wanted:
            self._evict(wanted)
        return self.blocks.take(min(wanted, len(self.blocks.free)))

    def _evict(self, wanted: int) -> None:
        """Drop unlocked leaves, least recently used first, until *wanted* blocks are free."""
        leaves = [(n.used, id(n), n) for n in self._nodes() if not n.children and not n.locks]
        heapq.heapify(leaves)
        while leaves and len(self.blocks.free) < wanted:
            node = heapq.heappop(leaves)[2]
            parent = node.parent
            assert parent is not None, "the root is no leaf to evict"
            self.blocks.release(node.blocks)
            del parent.children[int(node.tokens[0])]
            self.evicted += len(node.tokens)
            self.nodes, self.tokens = self.nodes - 1, self.tokens - len(node.tokens)
            if parent.parent is not None and not parent.children and not parent.locks:
                heapq.heappush(leaves, (parent.used, id(parent), parent))
        used = {name: root for name, root in self._spaces.items() if root.children or root.locks}
        self._spaces = used

    def _nodes(self) -> Iterator[RadixNode]:
        """All nodes but the roots."""
        roots = [self.root, *self._spaces.values()]
        waiting = [node for root in roots for node in root.children.values()]
        while waiting:
            node = waiting.pop()
            waiting.extend(node.children.values())
            yield node

    def verify(self) -> None:
        """Raise ``AssertionError`` when an invariant of this module does not hold."""
        users: NDArray[np.int32] = np.zeros(self.count, np.int32)
        for node in self._nodes():
            users[node.blocks] += 1
            _verify_node(node)
        nodes = list(self._nodes())
        held = [len(node.tokens) for node in nodes]
        locked = [len(node.tokens) for node in nodes if node.locks]
        assert (self.nodes, self.tokens, self.protected) == (len(nodes), sum(held), sum(locked))
        assert (users == self.blocks.users).all(), "every block counts the nodes that use it"
        assert sorted(self.blocks.free) == np.flatnonzero(users == 0).tolist(), "free xor in use"


def _root() -> RadixNode:
    """A root: it has no tokens, is never evicted, and its locks count the holds below it."""
    return RadixNode(None, np.zeros(0, np.int32), [])


def _top(node: RadixNode) -> RadixNode:
    while node.parent is not None:
        node = node.parent
    return node


def _verify_node(node: RadixNode) -> None:
    parent = node.parent
    assert parent is not None and len(node.tokens) > 0, "only the root is empty"
    assert parent.children[int(node.tokens[0])] is node, "a child hangs under its first token"
    assert len(node.blocks) == -(-(node.offset + len(node.tokens)) // BLOCK), "no block too many"
    if parent.parent is not None:
        assert parent.locks >= node.locks >= 0, "a locked node's ancestors are locked"
        assert parent.used >= node.used, "no node was used later than its parent"


def _pieces(node: RadixNode, at: int) -> Iterator[tuple[int, int, int, int]]:
    """For each block of *node*: its id, where it starts inside, position in the row, and count."""
    inside, left = node.offset, len(node.tokens)
    for block in node.blocks:
        count = min(BLOCK - inside, left)
        yield block, inside, at, count
        at, left, inside = at + count, left - count, 0


def common(a: Tokens, b: Tokens) -> int:
    """The length of the common prefix."""
    size = min(len(a), len(b))
    differs = a[:size] != b[:size]
    first = int(differs.argmax()) if size else 0
    return first if size and differs[first] else size

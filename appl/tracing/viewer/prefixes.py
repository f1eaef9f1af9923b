"""The common beginnings of a run's prompts, and how much of them was in a cache.

Invariant: a node is a beginning that at least two calls share, and the longest such; the calls
below a node are those whose prompts begin with it. Prompts of other models never share.

The tree is a radix tree (Morrison 1968) over the text of the prompts, with a mark at each message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from appl.prompt import Message, Messages
from appl.tracing.reading.trace import RecordedCall
from appl.tracing.viewer.rows import Rows

_SHOWN, _SHORT, _MOST = 100, 12, 20_000

Prompt = tuple[str, Messages | None]
"""A model, and what it was asked if that is known."""
Used = tuple[int, int]
"""Tokens of a prompt, and those of them that were in a cache."""


@dataclass(slots=True)
class _PrefixNode:
    text: str
    parent: int
    below: dict[str, int] = field(default_factory=dict)


class PrefixTree:
    """The tree of shared beginnings; calls are added as they are seen, each once.

    Nodes of less than *short* characters go into those below them.
    """

    def __init__(self, rows: Rows, short: int = _SHORT) -> None:
        self._rows, self._short = rows, short
        self._nodes: list[_PrefixNode] = [_PrefixNode("", -1)]
        self._ends: list[int] = []
        self._known: dict[str, dict[bytes, int]] = {}

    def taken(self) -> Callable[[], dict[str, object]]:
        """Note the run's present calls; the function returned makes ``data`` of them later."""
        rows = range(len(self._rows))
        new = [self._prompt(row) for row in rows[len(self._ends) :]]
        used = [self._used(row) for row in rows]
        return lambda: self._data(new, used)

    def data(self) -> dict[str, object]:
        """The nodes as columns, parents first, and for each row the deepest node that it shares.

        ``chars`` is the length of the text of a node, ``text`` its beginning; ``prompt`` and
        ``cached`` are the tokens of the calls below that say both, ``calls`` counts calls.
        Of very many nodes those with the most calls are given.
        """
        return self.taken()()

    def _data(self, new: Iterable[Prompt], used: Sequence[Used]) -> dict[str, object]:
        for model, messages in new:
            self._ends.append(-1 if messages is None else self._insert(model, messages))
        calls, prompt, cached, first = self._sums(used)
        shared = [node for node in self._parents_first() if node == 0 or calls[node] > 1]
        lead: dict[int, str] = {}  # the text of the nodes right above that are too short to draw
        for node in shared:
            above = self._nodes[node].parent
            hidden = above > 0 and not self._is_drawn(above, lead)
            lead[node] = lead[above] + self._nodes[above].text if hidden else ""
        drawn = [node for node in shared if self._is_drawn(node, lead)]
        nodes = sorted(drawn, key=lambda node: -calls[node])[:_MOST]  # parents stay before children
        place = {node: i for i, node in enumerate(nodes)}
        return {
            "left_out": len(drawn) - len(nodes),
            "parent": [self._shared(self._nodes[node].parent, place) for node in nodes],
            "chars": [len(lead[node]) + len(self._nodes[node].text) for node in nodes],
            "text": [(lead[node] + self._nodes[node].text)[:_SHOWN] for node in nodes],
            "calls": [calls[node] for node in nodes],
            "prompt": [prompt[node] for node in nodes],
            "cached": [cached[node] for node in nodes],
            "first": [first[node] for node in nodes],
            "node": [self._shared(end, place) for end in self._ends],
        }

    def _prompt(self, row: int) -> Prompt:
        step = self._rows.at(row)
        return (step.model, step.messages) if isinstance(step, RecordedCall) else ("", None)

    def _insert(self, model: str, messages: Messages) -> int:
        """The node at which the prompt ends, reached from the known end of its beginning."""
        nodes = self._known.setdefault(model, {})
        new: list[Message] = []
        link: Messages | None = messages
        while link is not None and link.digest not in nodes:
            new.append(link.message)
            link = link.parent
        text = "".join(map(_marked, reversed(new)))
        at = (
            self._walk(0, f"{model}\n{text}")
            if link is None
            else self._walk(nodes[link.digest], text)
        )
        nodes[messages.digest] = at
        return at

    def _walk(self, at: int, text: str) -> int:
        """The node at which *text* ends, if it begins at the end of the node *at*."""
        done = 0
        while done < len(text):
            child = self._nodes[at].below.get(text[done])
            if child is None:
                return self._grow(at, text[done:])
            label = self._nodes[child].text
            if not text.startswith(label, done):
                child = self._split(child, _common(label, text, done))
            at, done = child, done + len(self._nodes[child].text)
        return at

    def _grow(self, parent: int, text: str) -> int:
        self._nodes.append(_PrefixNode(text, parent))
        number = len(self._nodes) - 1
        self._nodes[parent].below[text[0]] = number
        return number

    def _split(self, number: int, length: int) -> int:
        """A new node for the first *length* characters of a node, which then hangs below it."""
        node = self._nodes[number]
        upper = self._grow(node.parent, node.text[:length])
        node.text, node.parent = node.text[length:], upper
        self._nodes[upper].below[node.text[0]] = number
        return upper

    def _sums(self, used: Sequence[Used]) -> tuple[list[int], list[int], list[int], list[int]]:
        """Calls, prompt tokens, cached tokens and a first row, of each node with all below it."""
        size = len(self._nodes)
        calls, prompt, cached, first = [0] * size, [0] * size, [0] * size, [-1] * size
        for row, node in enumerate(self._ends):
            if node < 0:
                continue
            calls[node] += 1
            first[node] = row if first[node] < 0 else first[node]
            prompt[node] += used[row][0]
            cached[node] += used[row][1]
        for node in reversed(self._parents_first()):
            above = self._nodes[node].parent
            if above >= 0:
                calls[above] += calls[node]
                prompt[above] += prompt[node]
                cached[above] += cached[node]
                if first[node] >= 0 and not 0 <= first[above] <= first[node]:
                    first[above] = first[node]
        return calls, prompt, cached, first

    def _used(self, row: int) -> Used:
        step = self._rows.at(row)
        response = step.response if isinstance(step, RecordedCall) else None
        if response is None or response.usage.prompt_tokens is None:
            return 0, 0
        cached = response.usage.cached_tokens
        return (0, 0) if cached is None else (response.usage.prompt_tokens, cached)

    def _parents_first(self) -> list[int]:
        order = [0]
        for node in order:
            order.extend(self._nodes[node].below.values())
        return order

    def _is_drawn(self, node: int, lead: dict[int, str]) -> bool:
        return node == 0 or len(lead[node]) + len(self._nodes[node].text) >= self._short

    def _shared(self, node: int, place: dict[int, int]) -> int:
        while node >= 0 and node not in place:
            node = self._nodes[node].parent
        return place.get(node, -1)


def _marked(message: Message) -> str:
    name = f" {message.name}" if message.name else ""
    return f"[{message.role}{name}]\n{message.shown}\n"


def _common(label: str, text: str, start: int) -> int:
    """The length of the longest beginning of *label* that stands in *text* at *start*."""
    low, high = 0, len(label)
    while low < high:
        middle = (low + high + 1) // 2
        if text.startswith(label[low:middle], start + low):
            low = middle
        else:
            high = middle - 1
    return low

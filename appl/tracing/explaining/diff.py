"""The differences between two runs, first causes first.

A call is the consequence of another when its prompt differs only where it holds that call's answer,
or the very text that differs there. If the programs and their inputs are the same, a call that
differs in any other way is a consequence too when an earlier answer differs, as nothing else can
have led the program elsewhere. All other differences are causes.

Invariant: only reads; a run compared with itself has no differences.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Literal

from appl.prompt import Message
from appl.tracing.explaining.alignment import Pair, aligned
from appl.tracing.explaining.difference_filter import Sifted, sifted
from appl.tracing.explaining.parts import (
    Part,
    calls_tool,
    different,
    different_inputs,
    observed,
    only,
    outputs,
    results,
    results_of,
    said,
    shape,
    text_of,
    value_shown,
)
from appl.tracing.reading import inputs
from appl.tracing.reading.spans import Span
from appl.tracing.reading.trace import RecordedCall, Trace

ASPECTS = ("program", "settings", "answers", "tools", "observations", "timing", "places")
"""Aspects that a comparison can leave out."""

Kind = Literal["program", "settings", "observation", "call", "tool"]
How = Literal["changed", "added", "removed", "moved"]
Through = Literal["", "prompt", "settings", "program"]
_TIMES = frozenset({"now", "sleep", "timeout", "deadline", "done", "loop limit", "loop timer"})
_FOLLOWED = 2000
_NEAR = 1000
_TOKENS = 0xF0000  # private characters, which stand for answers
_SIGNS = re.compile("[\U000f0000-\U000fffff]")


@dataclass(slots=True)
class RunDifference:
    """A difference between the two runs.

    ``address`` is that in the second run (for ``program`` and ``settings`` a name), ``was`` that in
    the first if it is another. ``causes`` are the addresses of the differences that it follows
    from, and ``through`` says how; both are empty for a first cause. ``perhaps`` are answers in the
    prompt of a first cause that differ as well.
    """

    kind: Kind
    how: How
    address: str
    where: str = ""
    was: str = ""
    parts: list[Part] = field(default_factory=list)
    causes: list[str] = field(default_factory=list)
    through: Through = ""
    perhaps: list[str] = field(default_factory=list)

    def as_data(self, whole: bool = False) -> dict[str, object]:
        """The difference as JSON-ready data."""
        return {
            "kind": self.kind,
            "how": self.how,
            "address": self.address,
            "where": self.where,
            "was": self.was or None,
            "causes": self.causes,
            "through": self.through or None,
            "perhaps": self.perhaps,
            "parts": [part.as_data(whole) for part in self.parts],
        }


@dataclass(slots=True)
class Diff:
    """The differences of two runs: causes in the order of the data's flow, then consequences.

    ``same`` are the calls that are the same in both, ``calls`` all calls of each.
    """

    a: Trace
    b: Trace
    differences: list[RunDifference]
    same: int
    calls: tuple[int, int]

    def causes(self) -> list[RunDifference]:
        """The differences that follow from no other, first cause first."""
        return [difference for difference in self.differences if not difference.causes]

    def consequences(self) -> list[RunDifference]:
        """The differences that follow from the causes, in the order in which they happened."""
        return [difference for difference in self.differences if difference.causes]

    def root(self, difference: RunDifference) -> str:
        """The first cause of *difference*: follows the first of its causes back."""
        by_address = {other.address: other for other in self.differences}
        visited = {difference.address}
        while difference.causes:
            before = by_address.get(difference.causes[0])
            if before is None or before.address in visited:
                return difference.causes[0]
            visited.add(before.address)
            difference = before
        return difference.address

    def as_data(self, most: int | None = None, whole: bool = False) -> dict[str, object]:
        """The comparison as JSON-ready data, with at most *most* causes and consequences each."""
        causes, consequences = self.causes(), self.consequences()
        return {
            "a": str(self.a.path),
            "b": str(self.b.path),
            "same": not self.differences,
            "calls_same": self.same,
            "causes_count": len(causes),
            "consequences_count": len(consequences),
            "causes": [cause.as_data(whole) for cause in causes[:most]],
            "consequences": [
                {**consequence.as_data(whole), "root": self.root(consequence)}
                for consequence in consequences[:most]
            ],
        }


def compare(
    a: Trace,
    b: Trace,
    ignore: Collection[str] = (),
    reduced: Callable[[Trace, Trace], Sifted] = sifted,
) -> Diff:
    """The differences between *a* and *b*, without the aspects to *ignore* (of ``ASPECTS``).

    With answers ignored, differences that follow from an answer alone are ignored as well. The
    runs are *reduced* to their differing parts before. Raises ``ValueError`` for an unknown aspect,
    and ``TraceError``.
    """
    unknown = set(ignore) - set(ASPECTS)
    if unknown:
        raise ValueError(f"there is no aspect {min(unknown)!r}; known are {', '.join(ASPECTS)}")
    return _Comparison(reduced(a, b), frozenset(ignore)).diff()


class _Comparison:
    """The state of a comparison: two runs, and the differing outputs of each call."""

    def __init__(self, both: Sifted, ignore: frozenset[str]) -> None:
        self._both, self._ignore = both, ignore
        self._a, self._b = a, b = both.a, both.b
        self._pairs = aligned(a.calls, b.calls)
        self._names = {p.a.address: p.address for p in self._pairs if p.a is not None}
        self._of: dict[str, Pair] = {pair.address: pair for pair in self._pairs}
        self._heads = list(inputs.differences(a.header, b.header))
        self._equal_programs = not any(head.decides for head in self._heads)
        self._came: dict[str, list[Part]] = {}
        self._texts: dict[str, tuple[list[str], list[str]]] = {}
        self._changed: set[str] = set()
        self._tools: list[str] = []
        self._early: list[tuple[float, str]] = []
        self._told: dict[tuple[str, str | None, str | None], str] = {}

    def diff(self) -> Diff:
        self._compare_ends()
        differences = [
            RunDifference(head.kind, head.how, head.name, parts=[Part(head.name, head.a, head.b)])
            for head in self._heads
        ]
        before, after = observed(self._a), observed(self._b)
        for name in {**before, **after}:
            a, b = before.get(name), after.get(name)
            if a is not None and b is not None and a.value != b.value:
                part = Part(b.kind, value_shown(a.value), value_shown(b.value))
                self._early.append((float(b.at), name))
                differences.append(RunDifference("observation", "changed", name, parts=[part]))
        self._early.sort()
        events: list[tuple[tuple[float, int], RunDifference | None]] = []
        for i, pair in enumerate(self._pairs):
            events.append(((_start(pair), i), self._of_call(pair)))
        for i, (address, used) in enumerate({**self._a.tools, **self._b.tools}.items()):
            events.append(((float(used.started or 0), i), self._of_tool(address)))
        for _, difference in sorted(events, key=lambda event: event[0]):
            if difference is not None:
                differences.append(difference)
        same = sum(1 for p in self._pairs if p.a and p.b and p.address not in self._changed)
        shown = [difference for difference in differences if not self._ignored(difference)]
        both = self._both
        return Diff(self._a, self._b, _closed(shown), same + len(both.equal), both.calls)

    # -- what came out

    def _compare_ends(self) -> None:
        for pair in self._pairs:
            parts = list(different(outputs(pair.a), outputs(pair.b)))
            if parts and pair.a is not None and pair.b is not None:
                self._came[pair.address] = parts
                self._texts[pair.address] = said(pair.a), said(pair.b)
                self._early.append((_ended(pair), pair.address))
        for address, used in self._b.tools.items():
            before = self._a.tools.get(address)
            parts = list(different(results(before), results(used))) if before else []
            if parts:
                self._came[address] = parts
                self._texts[address] = results_of(before), results_of(used)
                self._tools.append(address)
                self._early.append((float(used.ended or 0), address))
        self._early.sort()

    # -- the kinds of differences

    def _changes(self, pair: Pair) -> tuple[list[Part], list[Part]]:
        """The parts that differ in the inputs of a pair, and in its outputs."""
        if pair.a is None or pair.b is None:
            return [], []
        ends = [] if "answers" in self._ignore else self._came.get(pair.address, [])
        return list(different_inputs(pair.a, pair.b)), ends

    def _of_call(self, pair: Pair) -> RunDifference | None:
        call = pair.call
        input_changes, came = self._changes(pair)
        was = pair.a.address if pair.a is not None and pair.moved else ""
        how: How = "changed" if input_changes or came else "moved"
        if pair.a is None or pair.b is None:
            how = "added" if pair.a is None else "removed"
        elif not input_changes and not came and not was:
            return None
        if input_changes or came:
            self._changed.add(pair.address)
        difference = RunDifference(
            "call", how, pair.address, call.where, was, [*input_changes, *came]
        )
        if how in ("added", "removed"):
            difference.parts = [only(call, how == "added")]
        if input_changes or how != "changed":
            self._explain(pair, input_changes, difference)
        return difference

    def _of_tool(self, address: str) -> RunDifference | None:
        a, b = self._a.tools.get(address), self._b.tools.get(address)
        used = b or a
        assert used is not None
        if a is None or b is None:
            difference = RunDifference(
                "tool", "added" if a is None else "removed", address, used.where
            )
            self._after(difference, float(used.started or 0))
            return difference
        argument_changes = (
            [] if a.arguments == b.arguments else [Part("arguments", a.arguments, b.arguments)]
        )
        parts = [
            *argument_changes,
            *([] if "answers" in self._ignore else self._came.get(address, [])),
        ]
        if not parts:
            return None
        difference = RunDifference("tool", "changed", address, used.where, parts=parts)
        if argument_changes:
            callers = [
                name
                for name, (before, after) in self._texts.items()
                if calls_tool(before, a) and calls_tool(after, b)
            ]
            if callers:
                difference.causes, difference.through = callers[:1], "prompt"
            else:
                self._after(difference, float(used.started or 0))
        return difference

    # -- what they follow from

    def _explain(self, pair: Pair, input_changes: list[Part], difference: RunDifference) -> None:
        upstream = self._upstream(pair)
        if pair.a is not None and pair.b is not None and input_changes:
            heads: list[str | None] = []  # settings of the whole run that explain those of a call
            for part in input_changes:
                if not part.name.startswith("message "):
                    sets = (head.name for head in self._heads if head.sets(part.name))
                    heads.append(next(sets, None) or self._told.get(_like(part)))
            held = self._held(pair.a, pair.b, upstream)
            if held is not None and None not in heads:
                difference.causes = list(dict.fromkeys([*held, *filter(None, heads)]))
                difference.through = "prompt" if held else "settings"
                return
            for part in input_changes:
                self._told.setdefault(_like(part), difference.address)
        if upstream and self._equal_programs:
            difference.causes, difference.through = upstream[:1], "program"
        elif self._equal_programs:
            self._after(difference, _start(pair))
        else:
            difference.perhaps = upstream[:3]

    def _after(self, difference: RunDifference, start: float) -> None:
        """Make the nearest earlier difference its cause, if the programs are equal."""
        if not self._equal_programs:
            return
        scope = difference.address.rpartition("/")[0]
        behind = bisect_right(self._early, start, key=lambda early: early[0])
        last = self._early[max(behind - _NEAR, 0) : behind]
        before = [name for _, name in reversed(last) if name != difference.address]
        near = next((name for name in before if name.startswith(scope + "/")), None)
        if before:
            difference.causes, difference.through = [near or before[0]], "program"
        elif self._heads:
            difference.causes, difference.through = [self._heads[0].name], "settings"

    def _upstream(self, pair: Pair) -> list[str]:
        """The calls with differing answers in this prompt, or in the prompts that led to it."""
        upstream: list[str] = []
        todo: list[Iterable[str]] = [self._edges(pair)]
        visited = {pair.address}
        for edges in todo:
            for address in edges:
                if address in visited or len(visited) > _FOLLOWED:
                    continue
                visited.add(address)
                if address in self._texts:
                    upstream.append(address)
                if address in self._of:
                    todo.append(self._edges(self._of[address]))
                else:
                    todo.append(self._both.equal.get(address, ()))
        chain = pair.b.messages if pair.b is not None and self._tools else None
        results_held = {m.content for m in chain or () if m.role == "tool"}
        for address in self._tools:
            if address not in visited and not results_held.isdisjoint(self._texts[address][1]):
                upstream.append(address)
        return upstream

    def _edges(self, pair: Pair) -> Iterator[str]:
        for edge in pair.b.edges if pair.b is not None else ():
            yield edge
        for edge in pair.a.edges if pair.a is not None else ():
            yield self._names.get(edge, edge)

    def _held(self, a: RecordedCall, b: RecordedCall, upstream: list[str]) -> list[str] | None:
        """The addresses that explain every difference in the prompt; ``None`` when there is more.

        They are *upstream* calls whose answers it holds, and earlier differences of the same texts.
        """
        used: dict[str, None] = {}
        before, after = _Forms(self._texts, upstream, 0), _Forms(self._texts, upstream, 1)
        spans = zip_longest(a.spans(), b.spans(), fillvalue=())
        messages = zip_longest(a.messages or (), b.messages or ())
        for (old, new), (was, now) in zip(messages, spans, strict=True):
            if old is None or new is None or shape(old) != shape(new):
                return None
            texts = text_of(old), text_of(new)
            if texts[0] == texts[1]:
                continue
            answers: dict[str, None] = {}
            if (
                was
                and now
                and (old.tool_calls, old.tool_call_id)
                == (
                    new.tool_calls,
                    new.tool_call_id,
                )
            ):
                # They may be the same but where they hold answers that differ.
                if self._outline(old, was, answers) == self._outline(new, now, answers):
                    used.update(answers)
                    continue
                answers.clear()
            forms = before.of(texts[0], answers), after.of(texts[1], answers)
            if forms[0] != forms[1] and answers:  # an empty answer leaves no sign
                forms = _SIGNS.sub("", forms[0]), _SIGNS.sub("", forms[1])
            if forms[0] == forms[1]:
                used.update(answers)
                continue
            explained_at = self._told.get(("", *texts))
            if explained_at is None:
                return None
            used[explained_at] = None
        return list(used)

    def _outline(
        self, message: Message, spans: Sequence[Span], answers: dict[str, None]
    ) -> list[tuple[str, str]]:
        """The parts of a message: the call of each differing answer, the text of all others."""
        parts: list[tuple[str, str]] = []
        for span in spans:
            call = self._names.get(span.call, span.call) if span.call is not None else None
            text = message.content[span.start : span.end]
            if call is not None and call in self._texts:
                answers[call] = None
                parts.append((call, ""))
            elif parts and not parts[-1][0]:
                parts[-1] = ("", parts[-1][1] + text)
            else:
                parts.append(("", text))
        return parts

    # -- what is not looked at

    def _ignored(self, difference: RunDifference) -> bool:
        ignore = self._ignore
        if difference.kind in ignore or (difference.how == "moved" and "places" in ignore):
            return True
        if difference.kind == "tool" and "tools" in ignore:
            return True
        if difference.kind == "observation":
            timed = "timing" in ignore and difference.parts[0].name in _TIMES
            return timed or "observations" in ignore
        return "answers" in ignore and difference.through in ("prompt", "program")


class _Forms:
    """The texts of one side, each answer of an *upstream* call replaced by a sign."""

    def __init__(
        self, texts: Mapping[str, tuple[list[str], list[str]]], upstream: list[str], side: int
    ) -> None:
        signs = [
            (text, chr(_TOKENS + i), address)
            for i, address in enumerate(upstream)
            for text in texts[address][side]
        ]
        self._signs = sorted(signs, key=lambda sign: -len(sign[0]))

    def of(self, text: str, used: dict[str, None]) -> str:
        for answer, sign, address in self._signs:
            if answer and answer in text:
                text = text.replace(answer, sign)
                used[address] = None
        return text


def _like(part: Part) -> tuple[str, str | None, str | None]:
    """The identity of a difference: the same text may be another message of another prompt."""
    return "" if part.name.startswith("message ") else part.name, part.a, part.b


def _closed(differences: list[RunDifference]) -> list[RunDifference]:
    """*differences* with causes first, and without causes that are ignored."""
    addresses = {difference.address for difference in differences}
    for difference in differences:
        difference.causes = [
            cause
            for cause in difference.causes
            if cause in addresses and cause != difference.address
        ]
        if not difference.causes:
            difference.through = ""
    return sorted(differences, key=lambda difference: bool(difference.causes))


def _start(pair: Pair) -> float:
    return float(pair.call.started or 0)


def _ended(pair: Pair) -> float:
    ended = pair.call.ended
    return _start(pair) if ended is None else float(ended)

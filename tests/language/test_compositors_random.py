"""Random nested structures look as a renderer says that only knows the finished tree."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import given, settings, strategies as st

from appl import AIRole, SystemRole, UserRole, call, gen, ppl, records, stream
from appl.compositor import (
    ApplStr,
    Compositor,
    DashList,
    DoubleLineSeparated,
    IndentedList,
    Indexing,
    InlineTagged,
    LineSeparated,
    Logged,
    LowerLetterList,
    NoIndent,
    NumberedList,
    Tagged,
    UpperRomanList,
)
from appl.prompt import Format
from appl.testing import Seeded, running
from appl.tracing import Recorder, Replayer

# -- trees, and the program that says one


@dataclass(frozen=True)
class Said:
    """Text, of which some comes from a model."""

    pieces: tuple[tuple[str, bool], ...]

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.pieces)


@dataclass(frozen=True)
class Block:
    make: Callable[[], Any]
    inside: tuple[Any, ...]


@dataclass(frozen=True)
class Group:
    """What another function says: on the caller's prompt, returned, or beside the caller."""

    how: str
    inside: tuple[Any, ...]


@ppl(ctx="same")
def play(tree):
    for node in tree:
        match node:
            case Said(((text, False),)):
                text
            case Said(((text, True),)):
                gen(messages=text)
            case Said(((first, late), (second, later))):
                f"{gen(messages=first) if late else first}{gen(messages=second) if later else second}"
            case Block(make, inside):
                with make():
                    play(inside)
            case Group("same", inside):
                play(inside)
            case Group("beside", inside):
                call(play, inside)
            case Group("returned", inside):
                returned(inside)
            case Group("parallel", inside):
                parallel(inside)


@ppl
def returned(tree):
    play(tree)
    return records()


@ppl(parallel=True)
def parallel(tree):
    play(tree)
    return records()


@ppl
def program(tree):
    play(tree)
    gen(seed=7)
    return records()


TEXTS = st.text("ab \n", max_size=4)
COMPOSITORS = st.sampled_from(
    [
        ApplStr, Compositor, DashList, DoubleLineSeparated, IndentedList, LineSeparated,
        LowerLetterList, NoIndent, NumberedList, UpperRomanList,
        lambda: Tagged("t", attrs={"n": "1"}, indent=1, indent_inside=2, indexing="dash"),
        lambda: Logged(prolog="p\nP", epilog="e", sep="\n\n", indexing="number"),
        lambda: InlineTagged("i", sep=","),
        lambda: InlineTagged("j", sep="\n", indexing=Indexing("roman", 1, "(", ")"), indent=1),
        lambda: NumberedList(sep="; ", indent="| "),
        lambda: LineSeparated(new_indent=1, role="assistant"),
        lambda: Compositor(is_inline=True, indent=1),
    ]
)  # fmt: skip
ROLES = st.sampled_from([AIRole, SystemRole, UserRole, lambda: AIRole("Ann")])
PIECES = st.lists(st.tuples(TEXTS, st.booleans()), min_size=1, max_size=2).map(tuple)
TREES = st.recursive(
    st.builds(Said, PIECES),
    lambda inner: st.one_of(
        st.builds(Block, COMPOSITORS, st.lists(inner, max_size=4).map(tuple)),
        st.builds(Block, ROLES, st.lists(inner, max_size=3).map(tuple)),
        st.builds(
            Group,
            st.sampled_from(["same", "returned", "beside", "parallel"]),
            st.lists(inner, max_size=3).map(tuple),
        ),
    ),
    max_leaves=14,
)

# -- the reference: every item knows the blocks that it is in; the rest is counting


@dataclass(eq=False)
class Around:
    """A block around items: each is one of its own, however equal they look."""

    format: Format


@dataclass(eq=False)
class Item:
    text: str
    speaker: tuple[str, str | None]
    path: tuple[Around, ...]


def items(tree: Any, speaker: tuple[str, str | None], path: tuple[Around, ...]) -> Iterator[Item]:
    for node in tree:
        if isinstance(node, Said):
            yield Item(node.text, speaker, path)
        elif isinstance(node, Group):
            yield from items(node.inside, speaker, path)
        else:
            yield from block(node.make(), node.inside, speaker, path)


def block(
    made: Any, inside: Any, speaker: tuple[str, str | None], path: tuple[Around, ...]
) -> Iterator[Item]:
    if not isinstance(made, Compositor):
        yield from items(inside, (made.kind, made.name), path)
        return
    if made._role is not None:
        speaker = (made._role.kind, made._role.name)
    path = (*path, Around(made._format))
    if isinstance(made, Logged):
        yield Item(made.prolog, speaker, path)
        yield from items(inside, speaker, (*path, Around(made._inner)))
        yield Item(made.epilog, speaker, path)
    else:
        yield from items(inside, speaker, path)


def begun_by(item: Item, around: Around, every: list[Item]) -> bool:
    """Whether *item* is the first one in a block."""
    return next(each for each in every if around in each.path) is item


def counted_by(item: Item, every: list[Item]) -> list[Around]:
    """The blocks of which *item* is an item, or begins one: outermost first."""
    found: list[Around] = []
    for around in reversed(item.path):
        found.insert(0, around)
        if not (around.format.inline and begun_by(item, around, every)):
            break
    return found


def indent_of(path: tuple[Around, ...]) -> str:
    indent = ""
    for around in path:
        own = around.format.new_indent
        indent = indent + around.format.indent if own is None else own
    return indent


def separator(path: tuple[Around, ...]) -> str:
    return next((a.format.sep for a in reversed(path) if a.format.sep is not None), "\n")


def before(item: Item, every: list[Item]) -> tuple[str, str]:
    """The separator and the label of *item*."""
    earlier = every[: every.index(item)]
    label = ""
    for around in counted_by(item, every):
        position = sum(around in counted_by(each, every) for each in earlier)
        label += around.format.indexing.label(position)
    for depth in range(len(item.path), -1, -1):
        path = item.path[:depth]
        if not path or any(path[-1] in each.path for each in earlier):
            return separator(path), label
    raise AssertionError


def reference(tree: Any, *, in_front: bool = True) -> list[tuple[str, str | None, str]]:
    """What *tree* looks like: the system's text *in_front*, then who said what."""
    every = list(items(tree, ("user", None), ()))
    messages: list[tuple[tuple[str, str | None], str]] = []
    for system in (True, False) if in_front else (None,):
        for item in every:
            if system is not None and (item.speaker[0] == "system") is not system:
                continue
            sep, label = before(item, every)
            so_far = ""
            if messages and messages[-1][0] == item.speaker:
                so_far = messages.pop()[1] + sep
            indent = indent_of(item.path)
            starts_line = so_far == "" or so_far.endswith("\n")
            body = item.text.replace("\n", "\n" + indent)
            said = so_far + (indent if starts_line else "") + label + body
            messages.append((item.speaker, said))
    return [(role, name, said) for (role, name), said in messages]


def answer(request: Any) -> str:
    """The text that was asked for; something for the whole prompt."""
    return "end" if request.sampling.seed == 7 else str(next(iter(request.messages)).content)


def shown(tree: Any, seed: int, sequential: bool) -> list[tuple[str, str | None, str]]:
    with running(Seeded(seed, answer), sequential=sequential) as seen:
        program(tree)
    last = next(each for each in seen.requests if each.sampling.seed == 7)
    return [(m.role, m.name, m.content) for m in last.messages or ()]


@settings(max_examples=150, deadline=None)
@given(st.lists(TREES, max_size=5).map(tuple), st.integers(0, 3), st.booleans())
def test_a_structure_looks_as_its_finished_tree(tree, seed, sequential):
    assert shown(tree, seed, sequential) == reference(tree)


def cut(text: str) -> list[str]:
    """*text* in pieces of two characters."""
    return [text[at : at + 2] for at in range(0, len(text), 2)]


@settings(max_examples=100, deadline=None)
@given(st.lists(TREES, max_size=5).map(tuple), st.integers(0, 3), st.booleans(), st.booleans())
def test_the_pieces_of_a_streamed_program_are_its_prompt(tree, seed, sequential, is_cut):
    backend = Seeded(seed, answer, pieces=cut if is_cut else None)
    with running(backend, sequential=sequential):
        streamed = stream(program, tree)
        pieces = list(streamed)
        again = "".join(streamed)
    finished = reference((*tree, Said((("end", True),))), in_front=False)
    assert "".join(pieces) == again == "\n".join(said for _, _, said in finished)


@settings(max_examples=15, deadline=None)
@given(st.lists(TREES, max_size=4).map(tuple), st.integers(0, 3))
def test_a_recorded_structure_replays_without_a_live_call(tree, seed):
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(Path(folder) / "run.trace", {}, durability="process")
        with running(Seeded(seed, answer), instruments=[recorder], gate=recorder.gate):
            recorded = str(program(tree))
        recorder.close()
        replayer = Replayer(Path(folder) / "run.trace")
        with running(replayer.backend, instruments=[replayer], world=replayer):
            assert str(program(tree)) == recorded
        replayer.finish()

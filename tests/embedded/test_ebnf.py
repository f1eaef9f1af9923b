"""Grammars in EBNF: what they accept is judged by a recogniser that knows nothing of llguidance."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from appl.errors import Unsupported
from appl_backends.ebnf import fits, lark_of
from appl_backends.embedded import Embedded
from appl_backends.embedded.constraint import AnswerForm
from tests.embedded.test_backend import ask

LETTERS = "abé"
Node = tuple[Any, ...]
"""``("text", s)``, ``("set", chars, negated)``, ``("rule", name)``, ``("times", node, least, most)``,
``("join", nodes)`` or ``("or", nodes)``."""


@dataclass
class Grammar:
    """Rules by name, which this module reads without any of the code that it judges."""

    rules: dict[str, Node] = field(default_factory=dict)

    def accepts(self, text: str) -> bool:
        return len(text) in self._ends(("rule", "root"), text, 0)

    def _ends(self, node: Node, text: str, at: int) -> set[int]:
        """Where *node* may end that begins at *at*."""
        match node:
            case ("text", said):
                return {at + len(said)} if text.startswith(said, at) else set()
            case ("set", characters, negated):
                fits = at < len(text) and (text[at] in characters) != negated
                return {at + 1} if fits else set()
            case ("rule", name):
                return self._ends(self.rules[name], text, at)
            case ("or", nodes):
                return {end for each in nodes for end in self._ends(each, text, at)}
            case ("join", nodes):
                return self._joined(nodes, text, {at})
            case ("times", inner, least, most):
                return self._times(inner, least, most, text, at)
        raise AssertionError(node)

    def _joined(self, nodes: list[Node], text: str, starts: set[int]) -> set[int]:
        for node in nodes:
            starts = {end for start in starts for end in self._ends(node, text, start)}
        return starts

    def _times(self, inner: Node, least: int, most: int | None, text: str, at: int) -> set[int]:
        starts = self._joined([inner] * least, text, {at})
        found = set(starts)
        count = least
        while starts and (most is None or count < most):
            starts = self._joined([inner], text, starts) - found
            found |= starts
            count += 1
        return found

    def written(self) -> str:
        lines = [f"{name} ::= {_written(node)}  # {name}" for name, node in self.rules.items()]
        return "\n".join(lines)


def _written(node: Node) -> str:
    match node:
        case ("text", said):
            return '"' + said.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
        case ("set", characters, negated):
            return f"[{'^' * negated}{''.join(characters)}]"
        case ("rule", name):
            return str(name)
        case ("or", nodes):
            return "(" + "\n  | ".join(map(_written, nodes)) + ")"
        case ("join", nodes):
            return "(" + " ".join(map(_written, nodes)) + ")"
        case ("times", inner, least, most):
            return _written(inner) + _suffix(least, most)
    raise AssertionError(node)


def _suffix(least: int, most: int | None) -> str:
    short = {(0, None): "*", (1, None): "+", (0, 1): "?", (2, 2): "{2}"}
    return short.get((least, most), f"{{{least},{'' if most is None else most}}}")


def grammar_of(seed: int) -> Grammar:
    """A random grammar of three rules, each of which refers to later ones, or to itself at last."""
    draw = random.Random(seed)
    found = Grammar()
    names = ["root", "a-1", "b_2"]
    for number, name in enumerate(names):
        node = _node(draw, names[number + 1 :], 3)
        if draw.random() < 0.4:  # right recursion behind a letter
            node = ("or", [node, ("join", [("text", "a"), ("rule", name), ("text", "b")])])
        found.rules[name] = node
    return found


def _node(draw: random.Random, names: list[str], depth: int) -> Node:
    kind = draw.choice(["text", "set", "rule", "times", "join", "or"] if depth else ["text", "set"])
    if kind == "rule" and names:
        return ("rule", draw.choice(names))
    if kind == "times":
        least, most = draw.choice([(0, None), (1, None), (0, 1), (2, 2), (1, 3), (2, None)])
        return ("times", _node(draw, names, depth - 1), least, most)
    if kind in ("join", "or"):
        return (kind, [_node(draw, names, depth - 1) for _ in range(draw.randint(2, 3))])
    if kind == "set":
        chosen = draw.sample(LETTERS, draw.randint(1, 2))
        return ("set", chosen, draw.random() < 0.3)
    return ("text", "".join(draw.choice(LETTERS) for _ in range(draw.randint(0, 3))))


def texts(draw: random.Random) -> Iterator[str]:
    for _ in range(60):
        yield "".join(draw.choice(LETTERS + "x") for _ in range(draw.randint(0, 6)))


@pytest.fixture(scope="module")
def model() -> Embedded:
    return Embedded()


def accepts(model: Embedded, grammar: str, text: str) -> bool:
    """Whether the engine may write *text* under *grammar*, and end there."""
    state = model.constraints.compile(AnswerForm(grammar=grammar))
    for token in model.tokenizer.encode(text):
        if state.complete or not state.mask()[token]:
            return False
        state.accept(token)
    return state.complete or bool(state.mask()[model.tokenizer.end])


@pytest.mark.parametrize("seed", range(40))
def test_the_engine_accepts_what_a_random_grammar_accepts(model: Embedded, seed: int) -> None:
    grammar = grammar_of(seed)
    said = grammar.written()
    for text in texts(random.Random(seed)):
        assert accepts(model, said, text) == grammar.accepts(text), (said, text)
        assert fits(said, text) == grammar.accepts(text), (said, text)


async def test_what_is_generated_is_in_the_language(model: Embedded) -> None:
    ended = 0
    for seed in range(12):
        grammar = grammar_of(seed)
        request = ask("ab", grammar=grammar.written(), temperature=1.5, seed=seed, max_tokens=40)
        (sample,) = (await model.complete(request)).samples
        if sample.finish_reason == "stop":
            ended += 1
            assert grammar.accepts(sample.text), (grammar.written(), sample.text)
    assert ended >= 6


@pytest.mark.parametrize(
    ("grammar", "good", "bad"),
    [
        (r'root ::= "\n\t\"\\\x41\u00e9\U0001F600"', ['\n\t"\\Aé😀'], ["\n"]),
        (r"root ::= [\]\-^\\]+", ["]-^\\"], ["a"]),
        (r"root ::= [a-c-]+", ["a-c"], ["d", "~"]),
        ("root ::= .{2}", ["a\n", "😀é"], ["a"]),
        ('root ::= "a" | # none\n', ["a", ""], ["b"]),
        ('root::="a"b\nb::="c"', ["ac"], ["a"]),
        ('root ::= ("ab" "x") | [a-z] [a-z] "y"', ["abx", "aby"], ["ab"]),
        ('root ::= root "+" "1" | "1"', ["1", "1+1+1"], ["+1"]),
    ],
)
def test_how_it_is_written(model: Embedded, grammar: str, good: list[str], bad: list[str]) -> None:
    assert [text for text in good if not accepts(model, grammar, text)] == []
    assert [text for text in bad if accepts(model, grammar, text)] == []
    assert {fits(grammar, text) for text in good} == {True}
    assert {fits(grammar, text) for text in bad} == {False}


@pytest.mark.parametrize(
    ("grammar", "message"),
    [
        ('start: "a"', r"line 1: ':( \"a\")?' is not understood|there is no rule root"),
        ('a ::= "b"', "line 1: there is no rule root: write root ::="),
        ("root ::= b", "line 1: there is no rule 'b'"),
        ('root ::= "a"\nroot ::= "b"', "there are two rules 'root'"),
        ('root ::= "a"\nb ::= ("c"', "line 2: a \\( is not closed"),
        ("root ::= *", "line 1: '\\*' has nothing before it"),
        ("root ::= []", "the set \\[\\] is empty"),
        ("root ::= [b-a]", "the range b-a goes backwards"),
        (r'root ::= "\q"', r"the escape \\q is not known"),
        (r'root ::= "\ud800"', "is no character"),
        ('root ::= "a"{3,1}', "asks for more than it allows"),
        ('"a" root ::= "b"', "a rule NAME ::= … is wanted, got"),
        ('root ::= "a" (= "b")', "is not understood"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(grammar: str, message: str) -> None:
    with pytest.raises(Unsupported, match=message):
        lark_of(grammar)

"""Practice that no table measures: looking things up in short lists in both directions, letters, equality, copying; many questions a chat."""

from __future__ import annotations

from collections.abc import Callable

from skills.core import Draw, Example, Message, contains

Question = tuple[str, str]


def _things(draw: Draw, number: int) -> list[str]:
    maker = draw.pick(
        [draw.noun, draw.first, draw.word, draw.city, lambda: str(draw.num(1, 999)), draw.full]
    )
    return list(dict.fromkeys(maker() for _ in range(number)))


def letters(draw: Draw) -> tuple[str, Callable[[], Question]]:
    """Options with letters: the letter of a thing, the thing of a letter."""
    things = _things(draw, draw.num(2, 5))
    style = draw.pick(
        ["{l}) {o}", "{l}. {o}", "{l}: {o}", "({l}) {o}", "Answer {l}: {o}", "Option {l}: {o}"]
    )
    text = draw.pick(["\n", "\n", " "]).join(
        style.format(l="ABCDE"[i], o=o) for i, o in enumerate(things)
    )

    def ask() -> Question:
        at = draw.num(0, len(things) - 1)
        if draw.chance(0.7):
            return draw.free(
                "[Which letter has {o}?|Which letter is {o}?|{o}?|Where is {o}?|Letter of {o}?]",
                o=things[at],
            ), "ABCDE"[at]
        return draw.free("[What is {l}?|{l}?|What does {l} say?]", l="ABCDE"[at]), things[at]

    return text, ask


def pairs(draw: Draw) -> tuple[str, Callable[[], Question]]:
    """Pairs: what belongs to a thing, in both directions."""
    n = draw.num(2, 6)
    left, right = _things(draw, n), _things(draw, n)
    both = [(a, b) for a, b in zip(left, right, strict=False) if a not in right]
    both = both or [("left", "right")]
    link = draw.pick([" - ", ": ", " has ", " likes ", " = ", " is ", " -> ", " took ", " with "])
    text = draw.pick(["\n", ". ", ", ", "; "]).join(a + link + b for a, b in both)

    def ask() -> Question:
        a, b = draw.pick(both)
        if draw.chance(0.35):
            return draw.free("[What goes with {x}?|{x}?|What belongs to {x}?]", x=a), b
        return draw.free("[What goes with {x}?|{x}?|Who has {x}?|What belongs to {x}?]", x=b), a

    return text, ask


def equality(draw: Draw) -> tuple[str, Callable[[], Question]]:
    """Is a right? The same thing or not."""

    def ask() -> Question:
        thing = draw.pick([str(draw.num(1, 9999)), draw.word(), draw.full(), draw.noun()])
        other = (
            draw.pick(_things(draw, 2))
            if draw.chance(0.5)
            else str(draw.num(1, 9999))
            if thing.isdigit()
            else thing + draw.pick("aeins")
        )
        if thing.isdigit() and draw.chance(0.5):
            digits = list(thing)
            at = draw.num(0, len(digits) - 1)
            digits[at] = str((int(digits[at]) + draw.num(1, 9)) % 10)
            other = "".join(digits)
        second = thing if draw.chance(0.5) else other
        return draw.free(
            "[Is {a} the same as {b}?|Are {a} and {b} the same?|{a} = {b}?]", a=thing, b=second
        ), "Yes" if second == thing else "No"

    return draw.pick(["", "Same or not?", "Compare."]), ask


def true_false(draw: Draw) -> tuple[str, Callable[[], Question]]:
    """Is a small sum right? Which of two sums is?"""

    def ask() -> Question:
        a, b, op = draw.num(2, 400), draw.num(2, 400), draw.pick("+-*")
        if op == "*":
            a, b = draw.num(2, 40), draw.num(2, 12)
        if op == "-":
            a, b = max(a, b), min(a, b)
        value = {"+": a + b, "-": a - b, "*": a * b}[op]
        wrong = value + draw.pick([1, -1, 10, -10, 2, 100, 5])
        if draw.chance(0.5):
            shown = draw.pick([value, wrong])
            return f"{a} {op} {b} = {shown}?", "Yes" if shown == value else "No"
        first = draw.pick([value, wrong])
        return (
            f"{a} {op} {b}\nA: {first}\nB: {value + wrong - first}",
            "A" if first == value else "B",
        )

    return draw.pick(["", "Check these.", "Right or wrong?"]), ask


def copying(draw: Draw) -> tuple[str, Callable[[], Question]]:
    """Repeat words, count or list them."""

    def ask() -> Question:
        things = _things(draw, draw.num(1, 6))
        if draw.chance(0.5):
            return "Repeat: " + ", ".join(things), ", ".join(things)
        return "Count: " + ", ".join(things), str(len(things))

    return "", ask


def sample(draw: Draw) -> Example:
    """Two to eight questions on one list."""
    text, ask = draw.pick(
        [letters, letters, pairs, pairs, equality, true_false, true_false, copying]
    )(draw)
    asked = [ask() for _ in range(draw.num(2, 8))]
    turns: list[Message] = []
    for question, answer in asked:
        turns += [("user", question), ("assistant", answer)]
    turns[0] = ("user", f"{text}\n{asked[0][0]}".strip())
    return Example(
        "drill", turns[:1], turns[1], contains(asked[0][1]), turns[2:], templates=draw.used
    )

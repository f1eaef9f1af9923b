"""Multi-step arithmetic word problems with written-out reasoning and a last line `Answer: N`, and plain sums."""

from __future__ import annotations

import re

from skills import stories, words
from skills.core import Check, Draw, Example, Pool, system
from skills.phrases import Phrases
from skills.stories import Story

PHRASES = Phrases("arithmetic")

TERSE = 0.27
"""The share of one-line solutions where the prompt does not ask for steps."""
SPELLED = 0.08
"""The share of problems in which small numbers are words."""
ASK_STEPS = Pool(
    "arith.steps",
    PHRASES.text("arith.steps"),
)
ASK_END = Pool(
    "arith.end",
    PHRASES.text("arith.end"),
)
LEAD = Pool(
    "arith.lead",
    PHRASES.text("arith.lead"),
)


GAIN = Pool(
    "arith.gain",
    PHRASES.text("arith.gain"),
)
LOSE = Pool(
    "arith.lose",
    PHRASES.text("arith.lose"),
)
BAGS = Pool(
    "arith.bags",
    PHRASES.text("arith.bags"),
)
LOSE_BAGS = Pool(
    "arith.losebags",
    PHRASES.text("arith.losebags"),
)
SHARE = Pool(
    "arith.share",
    PHRASES.text("arith.share"),
)
TIMES = Pool(
    "arith.times",
    PHRASES.text("arith.times"),
)
START = Pool(
    "arith.start",
    PHRASES.text("arith.start"),
)
HOW_MANY = Pool(
    "arith.howmany",
    PHRASES.text("arith.howmany"),
)


def _plus(draw: Draw, story: Story, slot: dict[str, str]) -> None:
    k = draw.num(2, 99) if draw.chance(0.6) else draw.num(10, 350)
    story.step(
        draw.say(GAIN, k=k, **slot), story.value, "+", k, draw.pick(["More", "After that", "Add"])
    )


def _minus(draw: Draw, story: Story, slot: dict[str, str]) -> None:
    if story.value < 2:
        return _plus(draw, story, slot)
    k = (
        draw.num(1, max(1, story.value - 1))
        if story.value < 60 or draw.chance(0.5)
        else draw.num(2, 60)
    )
    story.step(
        draw.say(LOSE, k=k, **slot),
        story.value,
        "-",
        k,
        draw.pick(["Left", "After that", "Take away"]),
    )
    return None


def _bags(draw: Draw, story: Story, slot: dict[str, str]) -> None:
    a, b = _room(draw)
    before = story.value
    new = story.step(
        draw.say(BAGS, a=a, b=b, **slot),
        a,
        "*",
        b,
        draw.pick(["New", f"{a} times {b}", "The new ones"]),
    )
    story.step("", before, "+", new, draw.pick(["Together", "Sum", "In total"]))


def _lose_bags(draw: Draw, story: Story, slot: dict[str, str]) -> None:
    a = draw.num(2, 9)
    most = (story.value - 1) // a
    if most < 2:
        return _plus(draw, story, slot)
    b = draw.num(2, min(most, 40))
    before = story.value
    gone = story.step(
        draw.say(LOSE_BAGS, a=a, b=b, **slot),
        a,
        "*",
        b,
        draw.pick(["Gone", f"{a} times {b}", "Used"]),
    )
    story.step("", before, "-", gone, draw.pick(["Left", "Rest"]))
    return None


def _times(draw: Draw, story: Story, slot: dict[str, str]) -> None:
    if story.value > 160:
        return _minus(draw, story, slot)
    k = draw.num(2, 6)
    story.step(
        draw.say(TIMES, k=k, **slot), story.value, "*", k, draw.pick(["Times", f"{k} times"])
    )
    return None


def _share(draw: Draw, story: Story, slot: dict[str, str]) -> bool:
    fits = [k for k in range(2, 25) if story.value % k == 0 and story.value // k > 1]
    if not fits:
        return False
    k = draw.pick(fits)
    story.question = draw.say(SHARE, k=k, **slot)
    story.step("", story.value, "/", k, draw.pick(["Each", "Share", "Divide"]))
    return True


def collection(draw: Draw, wordy: bool) -> Story:
    """Someone has things; they become more and fewer."""
    who, friend = draw.firsts(2)
    noun = words.plural(draw.pick(words.COUNTABLE)) if draw.chance(0.9) else draw.word() + "s"
    box = draw.pick(words.CONTAINERS)
    slot = {
        "S": who,
        "s": draw.pick(["he", "she", who]),
        "f": friend,
        "n": noun,
        "c": words.plural(box),
        "o": box,
    }
    story = Story(draw.num(3, 60) if draw.chance(0.5) else draw.num(20, 400), wordy=wordy)
    story.said.append(draw.say(START, k=story.value, **slot))
    moves = draw.pick([1, 2, 2, 2, 3, 3])
    while len(story.lines) < moves:
        draw.pick([_plus, _minus, _minus, _bags, _bags, _lose_bags, _times])(draw, story, slot)
        if story.value > 900:
            _minus(draw, story, slot)
    if not (draw.chance(0.2) and _share(draw, story, slot)):
        story.question = draw.say(HOW_MANY, **slot)
    return story


PRICE = Pool(
    "arith.price",
    PHRASES.text("arith.price"),
)
CHANGE = Pool(
    "arith.change",
    PHRASES.text("arith.change"),
)


def _room(draw: Draw) -> tuple[int, int]:
    return (
        (draw.num(2, 9), draw.num(2, 20))
        if draw.chance(0.62)
        else (draw.num(3, 19), draw.num(11, 49))
    )


def prices(draw: Draw, wordy: bool) -> Story:
    """Two kinds of goods, perhaps change, perhaps a discount."""
    x, y = (words.plural(n) for n in draw.some(words.COUNTABLE, 2))
    (a, p), (b, q) = _room(draw), _room(draw)
    unit = draw.pick(["dollars", "euros", "dollars", "coins", "pounds", "cents"])
    who = draw.first()
    slot = {
        "x": x,
        "y": y,
        "X": x.capitalize(),
        "Y": y.capitalize(),
        "u": unit,
        "S": who,
        "s": draw.pick(["he", "she", who]),
    }
    story = Story(0, wordy=wordy)
    text = draw.say(PRICE, a=a, p=p, b=b, q=q, **slot)
    first = story.step("", a, "*", p, f"{x.capitalize()}")
    second = story.step("", b, "*", q, f"{y.capitalize()}")
    total = story.step("", first, "+", second, "Total")
    story.question = text
    if draw.chance(0.35):
        money = draw.pick(
            [
                m
                for m in (
                    20,
                    50,
                    100,
                    150,
                    200,
                    250,
                    300,
                    400,
                    500,
                    600,
                    800,
                    1000,
                    1200,
                    1500,
                    2000,
                    3000,
                )
                if m > total
            ]
            or [total + 15]
        )
        body = text.split(". ")
        asked = body.pop() if len(body) > 1 else ""
        buys = not re.search(rf"{who} s(ells|old)", text)
        if buys and asked and not re.search(r"\d", asked):
            story.question = ". ".join(body) + ". " + draw.say(CHANGE, m=money, **slot)
            story.step("", money, "-", total, "Change")
    return story


DAILY = Pool(
    "arith.daily",
    PHRASES.text("arith.daily"),
)
DAILY_MINUS = Pool(
    "arith.dailyminus",
    PHRASES.text("arith.dailyminus"),
)


def daily(draw: Draw, wordy: bool) -> Story:
    """So many a day, then some more; or taken from a supply."""
    (a, b), who = _room(draw), draw.first()
    slot = {
        "S": who,
        "s": draw.pick(["he", "she", who]),
        "o": words.plural(draw.pick(words.COUNTABLE)),
        "c": words.plural(draw.pick(words.CONTAINERS)),
        "u2": draw.pick(["dollars", "euros", "coins", "pounds"]),
    }
    story = Story(0, wordy=wordy)
    if draw.chance(0.5):
        k = draw.num(2, 120)
        story.question = draw.say(DAILY, a=a, b=b, k=k, **slot)
        part = story.step("", a, "*", b, f"{a} times {b}")
        story.step("", part, "+", k, "Total")
    else:
        more = a * b + draw.num(1, 300)
        story.question = draw.say(DAILY_MINUS, a=a, b=b, m=more, **slot)
        part = story.step("", a, "*", b, f"{a} times {b}")
        story.step("", more, "-", part, "Left")
    return story


COMPARE = Pool(
    "arith.compare",
    PHRASES.text("arith.compare"),
)
COMPARE_TWO = Pool(
    "arith.comparetwo",
    PHRASES.text("arith.comparetwo"),
)


def compare(draw: Draw, wordy: bool) -> Story:
    """More than, times as many."""
    a, b, c = draw.firsts(3)
    k, d, m = draw.num(3, 60), draw.num(2, 40), draw.num(2, 5)
    story = Story(0, wordy=wordy)
    noun = words.plural(draw.pick(words.COUNTABLE))
    if draw.chance(0.6):
        small = draw.pick(words.COUNTABLE)
        story.question = draw.say(COMPARE, A=a, B=b, C=c, k=k, d=d, m=m, n=noun, n2=small)
        second = story.step("", k, "+", d, b)
        third = story.step("", second, "*", m, c)
        story.step("", story.step("", k, "+", second, "First two"), "+", third, "Total")
        return story
    k = k // 2 * 2 + 2
    text = story.question = draw.say(COMPARE_TWO, A=a, B=b, C=c, k=k, d=d, m=m, n=noun)
    second = story.step("", k, "/", 2, b) if "half" in text else story.step("", k, "*", m, b)
    if "years old" in text:
        story.step("", second, "+", d, "Later")
    else:
        total = story.step("", k, "+", second, "Together")
        if c in text:
            story.step("", total, "+", d, "Total")
    return story


SUM = Pool(
    "arith.sum",
    PHRASES.text("arith.sum"),
)


def expression(draw: Draw) -> Story:
    """A plain sum of two to four numbers, perhaps with brackets."""
    story = Story(0)
    form = draw.num(0, 9)
    (a, b), c = _room(draw), draw.num(2, 99)
    if form == 0:
        text, _ = f"{a} * {b} + {c}", story.step("", story.step("", a, "*", b, ""), "+", c, "")
    elif form == 1:
        c = min(c, a * b)
        text, _ = f"{a} * {b} - {c}", story.step("", story.step("", a, "*", b, ""), "-", c, "")
    elif form == 2:
        x, y = draw.num(10, 99), draw.num(1, 60)
        x, y, k = max(x, y + 1), y, draw.num(2, 9)
        text, _ = f"({x} - {y}) * {k}", story.step("", story.step("", x, "-", y, ""), "*", k, "")
    elif form == 3:
        x, y, k = draw.num(2, 60), draw.num(2, 60), draw.num(2, 9)
        text, _ = f"({x} + {y}) * {k}", story.step("", story.step("", x, "+", y, ""), "*", k, "")
    elif form == 4:
        x, y = draw.num(2, 500), draw.num(2, 400)
        text, _ = f"{x} + {y} + {c}", story.step("", story.step("", x, "+", y, ""), "+", c, "")
    elif form == 5:
        x, y = draw.num(50, 900), draw.num(2, 400)
        x, y = max(x, y), min(x, y)
        text, _ = (
            (f"{x} - {y}", story.step("", x, "-", y, ""))
            if draw.chance(0.5)
            else (f"{x} + {y}", story.step("", x, "+", y, ""))
        )
    elif form == 6:
        c += a * b
        text, _ = f"{c} - {a} * {b}", story.step("", c, "-", story.step("", a, "*", b, ""), "")
    elif form == 7:
        x, y = draw.num(2, 12), draw.num(2, 30)
        text = f"{a} * {b} + {x} * {y}"
        story.step("", story.step("", a, "*", b, ""), "+", story.step("", x, "*", y, ""), "")
    elif form == 8:
        x, y, k = draw.num(2, 60), draw.num(2, 60), draw.num(2, 9)
        text, _ = f"{k} * ({x} + {y})", story.step("", k, "*", story.step("", x, "+", y, ""), "")
    else:
        text, _ = (
            (f"{c} + {a} * {b}", story.step("", c, "+", story.step("", a, "*", b, ""), ""))
            if draw.chance(0.6)
            else (f"{a} * {b}", story.step("", a, "*", b, ""))
        )
    if draw.chance(0.2):
        text = text.replace(" ", "")
    story.question = draw.say(SUM, e=text)
    return story


def _chain(story: Story) -> str:
    """All steps in one line, where each step goes on from the one before; empty where they do not."""
    text, last = "", None
    for line in story.lines:
        left, _, result = line.rpartition(": ")[2].rpartition(" = ")
        a, op, b = left.split(" ")
        if last is None:
            text = left
        elif a == last:
            text = (
                f"({text}) {op} {b}"
                if op in "*/" and any(o in text for o in "+-")
                else f"{text} {op} {b}"
            )
        else:
            return ""
        last = result
    return f"{text} = {last}"


def _merged(story: Story) -> str:
    """Two products or a product and a sum in one line."""
    parts = [line.rpartition(": ")[2].rpartition(" = ") for line in story.lines]
    known: dict[str, str] = {}
    last = ""
    for left, _, result in parts:
        a, op, b = left.split(" ")
        a, b = (known.pop(x, x) for x in (a, b))
        a, b = (
            f"({x})" if " " in x and (op in "*/" or (op == "-" and x == b)) else x for x in (a, b)
        )
        known[result] = last = f"{a} {op} {b}"
    return f"{last} = {parts[-1][2]}"


def terse(story: Story) -> str:
    """The whole way in one line: shorter, and easier to get wrong."""
    return f"{_chain(story) or _merged(story)}\nAnswer: {story.value}"


def written(draw: Draw, story: Story) -> str:
    """The reasoning, a line a step, and the answer line."""
    return "\n".join([*story.lines, f"Answer: {story.value}"])


def problem(draw: Draw) -> Story:
    """Any kind of problem."""
    wordy = draw.chance(0.4)
    roll = draw.rng.random()
    if roll < 0.22:
        return stories.clauses(draw, wordy)
    if roll < 0.57:
        return stories.scene(draw, wordy)
    if roll < 0.71:
        return collection(draw, wordy)
    if roll < 0.79:
        return prices(draw, wordy)
    if roll < 0.86:
        return daily(draw, wordy)
    return compare(draw, wordy) if roll < 0.91 else expression(draw)


def text_of(story: Story) -> str:
    """The problem as one text."""
    return _TIDY.sub(r"\1", " ".join([*story.said, story.question]))


SMALL = PHRASES.lines("small")
_FORMULA = re.compile(r"\d ?[-+*/=] ?\(?\d|\?\?")


def spelled(draw: Draw, text: str) -> str:
    """Small numbers as words, half of them."""
    if _FORMULA.search(text):
        return text
    return re.sub(
        r"(?<![\d.-])([1-9]|1[0-2])(?![\d.:]|\. )",
        lambda m: SMALL[int(m[1]) - 1] if draw.chance(0.6) else m[1],
        text,
    )


_TIDY = re.compile(r" +([ .?,])")


def sample(draw: Draw) -> Example:
    """One problem."""
    story = problem(draw)
    text = text_of(story)
    if draw.chance(SPELLED):
        text = spelled(draw, text)
    if draw.chance(0.3):
        text = draw.say(LEAD) + text
    roll = draw.rng.random()
    gap = draw.pick([" ", "\n"])
    if roll < 0.3:
        text += gap + draw.say(ASK_STEPS)
    elif roll < 0.45:
        text += gap + draw.say(ASK_END)
    elif roll < 0.55:
        text += gap + draw.say(ASK_STEPS) + " " + draw.say(ASK_END)
    check: Check = {"kind": "answer", "value": story.value}
    messages = system(draw, [("user", draw.loosen(text) if roll >= 0.55 else text)], 0.2)
    short = len(story.lines) > 1 and (roll >= 0.55 or 0.3 <= roll < 0.45) and draw.chance(TERSE)
    answer = terse(story) if short else written(draw, story)
    return Example("arithmetic", messages, ("assistant", answer), check, templates=draw.used)

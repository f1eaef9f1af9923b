"""Word problems told in clauses: what people do in the present or the past, several things in one sentence; and everyday situations."""

from __future__ import annotations

from dataclasses import dataclass, field

from skills import words
from skills.core import Draw, Pool
from skills.phrases import Phrases

PHRASES = Phrases("stories")


@dataclass
class Story:
    """A running total `value`, what was said, and the reasoning line of each step."""

    value: int
    said: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    question: str = ""
    wordy: bool = False

    def step(self, said: str, left: int, op: str, right: int, why: str) -> int:
        """Add a step `left op right`; the result becomes the value."""
        result = {
            "+": left + right,
            "-": left - right,
            "*": left * right,
            "/": left // max(right, 1),
        }[op]
        if said:
            self.said.append(said)
        text = f"{left} {op} {right} = {result}"
        self.lines.append(f"{why}: {text}" if self.wordy and why else text)
        self.value = result
        return result


GAIN = [pair.split("/") for pair in PHRASES.lines("gain")]
LOSE = [pair.split("/") for pair in PHRASES.lines("lose")]
GIVE = [pair.split("/") for pair in PHRASES.lines("give")]
TO = PHRASES.lines("to")
TAIL = Pool(
    "story.tail",
    PHRASES.text("story.tail"),
)
GAIN_VP = Pool(
    "story.gain",
    PHRASES.text("story.gain"),
)
LOSE_VP = Pool(
    "story.lose",
    PHRASES.text("story.lose"),
)
BAG_VP = Pool(
    "story.bag",
    PHRASES.text("story.bag"),
)
BAG_LOSE = Pool(
    "story.baglose",
    PHRASES.text("story.baglose"),
)
START = Pool(
    "story.start",
    PHRASES.text("story.start"),
)
END = Pool(
    "story.end",
    PHRASES.text("story.end"),
)
ROLES = PHRASES.lines("roles")


def _vp(draw: Draw, story: Story, slot: dict[str, str], past: bool) -> str:
    """One clause that changes the value."""
    slot = slot | {"v": draw.pick(GAIN)[past], "o": draw.pick(TO).format(**slot)}
    slot["t"] = draw.say(TAIL, **slot)
    slot["g"] = draw.pick(GIVE)[past]
    kind = draw.rng.random()
    if kind < 0.3:
        k = draw.num(2, 60) if draw.chance(0.7) else draw.num(20, 250)
        story.step("", story.value, "+", k, "More")
        return draw.say(GAIN_VP, k=k, **slot)
    if kind < 0.7 and story.value > 4:
        slot["v"] = draw.pick(LOSE)[past]
        k = draw.num(1, min(story.value - 1, 80))
        story.step("", story.value, "-", k, "Left")
        return draw.say(LOSE_VP, k=k, **slot)
    if kind < 0.76 and story.value > 6:
        k, other = draw.num(1, story.value // 3), draw.num(1, story.value // 3)
        story.step("", story.value, "-", k, "Left")
        story.step("", story.value, "-", other, "Left")
        given = "[{g} {k} to {f} and {m} to {o}|{g} {f} {k} and {o} {m}|{g} {k} {n} to {f} and {m} to {o}]"
        return draw.free(given, k=k, m=other, **slot)
    a, b = draw.num(2, 9), draw.num(2, 12)
    before = story.value
    if kind > 0.9 and a * b < before:
        slot["v"] = draw.pick(LOSE)[past]
        gone = story.step("", a, "*", b, "Gone")
        story.step("", before, "-", gone, "Left")
        return draw.say(BAG_LOSE, a=a, b=b, **slot)
    new = story.step("", a, "*", b, "New")
    story.step("", before, "+", new, "Together")
    return draw.say(BAG_VP, a=a, b=b, **slot)


def clauses(draw: Draw, wordy: bool) -> Story:
    """Someone has things; one to three clauses; a question."""
    past = draw.chance(0.5)
    who, friend = draw.firsts(2)
    noun = words.plural(draw.pick(words.COUNTABLE)) if draw.chance(0.93) else draw.word() + "s"
    pronoun = draw.pick(["she", "he"])
    box = draw.pick(words.CONTAINERS)
    role = draw.pick(ROLES)
    slot = {
        "S": who,
        "f": friend,
        "n": noun,
        "c": words.plural(box),
        "c1": draw.pick(words.CONTAINERS),
        "p": pronoun,
        "h": "had" if past else "has",
        "d": "did" if past and draw.chance(0.3) else "does",
        "st": "started" if past else "starts",
        "who": role,
    }
    story = Story(draw.num(5, 60) if draw.chance(0.65) else draw.num(30, 300), wordy=wordy)
    start = draw.say(
        START, k=story.value, v=draw.pick(GAIN)[past], t=draw.say(TAIL, **slot), **slot
    )
    if start.startswith("A "):
        slot["S"] = f"the {role}"
    number = draw.pick([1, 2, 2, 3])
    parts = [_vp(draw, story, slot, past) for _ in range(number)]
    story.question = draw.say(END, **slot)
    named = start.startswith(("A ", who))
    if named and story.question.startswith("How many") and draw.chance(0.1):
        first = start[0].lower() + start[1:] if start.startswith("A ") else start
        story.question = story.question[0].lower() + story.question[1:]
        story.said.append(f"If {words.listing([first, *parts])},")
        return story
    story.said.append(_told(draw, start, parts, slot["S"], pronoun))
    return story


def _told(draw: Draw, start: str, parts: list[str], who: str, pronoun: str) -> str:
    """The clauses as sentences."""
    name = who[0].upper() + who[1:]

    def subject() -> str:
        return name if draw.chance(0.35) else pronoun.capitalize()

    if len(parts) == 1:
        return draw.pick(
            [
                f"{start}. {subject()} {parts[0]}.",
                f"{start} and {parts[0]}.",
                f"{start}. Then {pronoun} {parts[0]}.",
            ]
        )
    if len(parts) == 2:
        return draw.pick([
            f"{start}. {subject()} {parts[0]} and {parts[1]}.", f"{start}. {subject()} {parts[0]}, then {parts[1]}.", f"{start}. {subject()} {parts[0]}. Then {pronoun} {parts[1]}.",
            f"{start}, {parts[0]} and {parts[1]}.", f"{start}. {subject()} {parts[0]} and then {parts[1]}.", f"{start}. First {pronoun} {parts[0]}, then {pronoun} {parts[1]}.",
            f"{start}. {subject()} {parts[0]}. Later {pronoun} {parts[1]}.", f"{start}. {subject()} {parts[0]}, and {pronoun} {parts[1]}.",
        ])  # fmt: skip
    return draw.pick([
        f"{start}. {subject()} {parts[0]}, {parts[1]} and {parts[2]}.", f"{start}. {subject()} {parts[0]} and {parts[1]}. Then {pronoun} {parts[2]}.",
        f"{start}. {subject()} {parts[0]}. Then {pronoun} {parts[1]}. After that {pronoun} {parts[2]}.", f"{start}. {subject()} {parts[0]}, then {parts[1]}, and then {parts[2]}.",
        f"{start}. {subject()} {parts[0]}. {subject()} {parts[1]}. {subject()} {parts[2]}.",
    ])  # fmt: skip


Plan = list[tuple[str, str, str]]
"""Steps: left, operator, right; `#i` is the result of step i, a name is a number of the story."""
SCENES: list[tuple[str, dict[str, tuple[int, int]], Plan, str]] = [
    ("wages", {"p": (5, 30), "a": (2, 12), "b": (2, 12)}, [("a", "+", "b"), ("#0", "*", "p")], PHRASES.text("scenes")),
    ("older", {"k": (3, 60), "e": (2, 20), "t": (2, 20)}, [("k", "+", "e"), ("#0", "+", "t")], PHRASES.text("scenes.2")),
    ("younger", {"k": (20, 80), "e": (2, 18), "t": (2, 20)}, [("k", "-", "e"), ("#0", "+", "t")], PHRASES.text("scenes.3")),
    ("seats", {"m": (30, 300), "a": (2, 14), "b": (2, 14)}, [("a", "+", "b"), ("m", "-", "#0")], PHRASES.text("scenes.4")),
    ("onoff", {"m": (10, 90), "a": (2, 9), "b": (2, 40)}, [("m", "-", "a"), ("#0", "+", "b")], PHRASES.text("scenes.5")),
    ("rows", {"a": (2, 12), "b": (2, 15), "k": (1, 3)}, [("a", "*", "b"), ("#0", "-", "k")], PHRASES.text("scenes.6")),
    ("days", {"a": (2, 60), "b": (2, 60), "m": (2, 4)}, [("a", "*", "m"), ("a", "+", "b"), ("#1", "+", "#0")], PHRASES.text("scenes.7")),
    ("teams", {"q": (3, 15), "k": (2, 8), "j": (1, 9)}, [("qk", "/", "k"), ("#0", "+", "j")], PHRASES.text("scenes.8")),
    ("shareminus", {"q": (4, 20), "k": (2, 8), "j": (1, 3)}, [("qk", "/", "k"), ("#0", "-", "j")], PHRASES.text("scenes.9")),
    ("fewer", {"k": (20, 200), "e": (2, 19)}, [("k", "-", "e"), ("k", "+", "#0")], PHRASES.text("scenes.10")),
    ("more", {"k": (5, 200), "e": (2, 60)}, [("k", "+", "e"), ("k", "+", "#0")], PHRASES.text("scenes.11")),
    ("three", {"a": (2, 99), "b": (2, 99), "e": (2, 99)}, [("a", "+", "b"), ("#0", "+", "e")], PHRASES.text("scenes.12")),
    ("half", {"h2": (4, 120), "j": (1, 2)}, [("hh", "/", "2"), ("#0", "-", "j")], PHRASES.text("scenes.13")),
    ("boxes", {"k": (2, 12), "j": (2, 9), "b": (2, 15)}, [("k", "+", "j"), ("#0", "*", "b")], PHRASES.text("scenes.14")),
    ("rate", {"a": (2, 12), "b": (3, 90), "k": (2, 60)}, [("a", "*", "b"), ("#0", "+", "k")], PHRASES.text("scenes.15")),
    ("plates", {"a": (2, 12), "b": (2, 12), "m": (2, 6)}, [("a", "*", "b"), ("#0", "*", "m")], PHRASES.text("scenes.16")),
    ("restshared", {"q": (3, 15), "k": (2, 8), "a": (2, 40)}, [("qa", "-", "a"), ("#0", "/", "k")], PHRASES.text("scenes.17")),
    ("putshared", {"q": (7, 20), "k": (3, 8), "a": (2, 12)}, [("qs", "+", "a"), ("#0", "/", "k")], PHRASES.text("scenes.18")),
    ("difference", {"a": (2, 80), "b": (81, 300)}, [("b", "-", "a")], PHRASES.text("scenes.19")),
    ("product", {"a": (2, 15), "b": (2, 40)}, [("a", "*", "b")], PHRASES.text("scenes.20")),
    ("asmany", {"k": (2, 60), "m": (2, 6)}, [("k", "*", "m")], PHRASES.text("scenes.21")),
    ("ticketsand", {"a": (2, 12), "p": (2, 40), "k": (2, 60)}, [("a", "*", "p"), ("#0", "+", "k")], PHRASES.text("scenes.22")),
    ("tworates", {"a": (2, 12), "p": (2, 60), "b": (2, 12), "q1": (2, 60)}, [("a", "*", "p"), ("b", "*", "q1"), ("#0", "+", "#1")], PHRASES.text("scenes.23")),
    ("threeless", {"a": (4, 60), "b": (4, 60), "e": (4, 60), "j": (1, 9)}, [("a", "+", "b"), ("#0", "+", "e"), ("#1", "-", "j")], PHRASES.text("scenes.24")),
    ("quarter", {"h4": (2, 60)}, [("hq", "/", "4"), ("hq", "-", "#0")], PHRASES.text("scenes.25")),
    ("weeks", {"q": (2, 15), "k": (5, 80), "b": (2, 20)}, [("goal", "-", "k"), ("#0", "/", "b")], PHRASES.text("scenes.26")),
    ("eatstwice", {"m": (40, 200), "a": (2, 12)}, [("a", "*", "2"), ("m", "-", "a"), ("#1", "-", "#0")], PHRASES.text("scenes.27")),
    ("bagsless", {"a": (2, 12), "b": (3, 30), "r": (1, 99)}, [("a", "*", "b"), ("#0", "-", "x")], PHRASES.text("scenes.28")),
    ("bagsgive", {"a": (4, 12), "b": (5, 20), "c0": (2, 4), "d0": (2, 4)}, [("a", "*", "b"), ("c0", "*", "d0"), ("#0", "-", "#1")], PHRASES.text("scenes.29")),
    ("twice", {"k": (3, 90), "e": (2, 60)}, [("k", "*", "2"), ("#0", "+", "e")], PHRASES.text("scenes.30")),
]  # fmt: skip
POOLS = {name: Pool(f"scene.{name}", patterns) for name, _, _, patterns in SCENES}
TIMES = {
    2: ["twice", "twice", "two times"],
    3: ["three times", "3 times"],
    4: ["four times", "4 times"],
}


def scene(draw: Draw, wordy: bool) -> Story:
    """One everyday situation."""
    name, ranges, plan, _ = draw.pick(SCENES)
    numbers = {k: draw.num(low, high) for k, (low, high) in ranges.items()}
    if "q" in numbers:
        whole = numbers["qk"] = numbers["q"] * numbers["k"]
        numbers |= {"qa": whole + numbers.get("a", 0), "qs": whole - numbers.get("a", 0)}
    if "r" in numbers:
        most = numbers["a"] * numbers["b"] - 1
        numbers["x"] = 1 + (most - 1) * numbers["r"] // 100
    if "h4" in numbers:
        numbers["hq"] = numbers["h4"] * 4
    if "q" in numbers and "b" in numbers:
        numbers["goal"] = numbers["k"] + numbers["q"] * numbers["b"]
    if "h2" in numbers:
        numbers["hh"] = numbers["h2"] * 2
    a, b, c = draw.firsts(3)
    if draw.chance(0.04):
        a = f"{draw.pick(['Mr.', 'Mrs.', 'Dr.', 'Aunt', 'Uncle'])} {a}"
    days = draw.some(words.DAYS, 3)
    things = draw.some([n for n in words.COUNTABLE if n[0] not in "aeiou"], 3)
    he = draw.pick(["he", "she"])
    slot: dict[str, object] = {
        "S": a,
        "F": b,
        "G": c,
        "s": he,
        "H": he.capitalize(),
        "d1": days[0],
        "d2": days[1],
        "d3": days[2],
        "m1": draw.pick(words.MONTHS[:6]),
        "m2": draw.pick(words.MONTHS[6:]),
        "n": words.plural(draw.pick(words.COUNTABLE)),
        "c": words.plural(draw.pick(words.CONTAINERS)),
        "c1": draw.pick(words.CONTAINERS),
        "u": draw.pick(["dollars", "euros", "coins", "pounds"]),
        "o1": things[0],
        "o2": things[1],
        "o3": things[2],
    }
    if "m" in numbers and numbers["m"] in TIMES:
        slot["M"] = draw.pick(TIMES[numbers["m"]])
    story = Story(0, wordy=wordy)
    story.question = draw.say(POOLS[name], **slot, **numbers)
    results: list[int] = []

    def value(t: str) -> int:
        return results[int(t[1:])] if t[0] == "#" else int(t) if t.isdigit() else numbers[t]

    for left, op, right in plan:
        results.append(story.step("", value(left), op, value(right), ""))
    return story

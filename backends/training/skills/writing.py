"""Short writing: an outline, one of its points expanded, a list summarised, an argument for a side."""

from __future__ import annotations

from skills import choose, knowledge, words
from skills.core import Check, Draw, Example, Message, Pool, contains, equals, every, regex, system
from skills.phrases import Phrases

PHRASES = Phrases("writing")

HEADINGS = PHRASES.lines("headings")  # fmt: skip
"""The headings of each place of an outline: how it began, what there is, in daily life, in practice, and the end."""
PLACES = [line.split("|") for line in HEADINGS]
NUMBER_WORDS = {2: "two", 3: "three", 4: "four", 5: "five"}
OUTLINE = Pool(
    "outline.ask",
    PHRASES.text("outline.ask"),
)
OUTLINE_FREE = Pool(
    "outline.free",
    PHRASES.text("outline.free"),
)
EXPAND_NUMBER = Pool(
    "expand.number",
    PHRASES.text("expand.number"),
)
EXPAND = Pool(
    "expand.one",
    PHRASES.text("expand.one"),
)
BODY = PHRASES.lines("body")  # fmt: skip


def topic(draw: Draw) -> str:
    """A topic: of the list or made up; of the list the withheld ones only in held-out prompts."""
    roll = draw.rng.random()
    noun = draw.pick(words.NOUNS)
    if roll < 0.08:
        return words.plural(draw.word())
    if roll < 0.16:
        return words.plural(noun)
    if roll < 0.24:
        return f"{draw.pick(words.ADJECTIVES)} {words.plural(noun)}"
    if roll < 0.32:
        return f"{noun} {words.plural(draw.pick(words.NOUNS))}"
    if roll < 0.38:
        return f"the {draw.pick([draw.noun(), draw.word(), draw.pick(words.ROOMS)])}"
    if roll < 0.44:
        return draw.pick(
            [
                draw.pick(words.HOBBIES),
                draw.pick(words.SUBJECTS),
                draw.pick(words.SPORTS),
                draw.pick(words.FOODS),
                draw.pick(words.DRINKS),
            ]
        )
    if roll < 0.48:
        return (
            f"{draw.noun()}-{draw.pick(['free', 'friendly', 'made', 'sized'])} {words.plural(noun)}"
        )
    if roll < 0.54:
        return draw.pick([draw.city(), draw.country(), draw.word(), f"{draw.word()} {draw.word()}"])
    if roll < 0.6:
        return f"{words.plural(draw.pick(words.ANIMALS))} {draw.pick(['in', 'and', 'of', 'for'])} {draw.pick(words.ROOMS)}s"
    keep = [t for i, t in enumerate(words.TOPICS) if (i % 10 in (3, 6, 9)) == draw.held]
    return draw.pick(keep)


def points(draw: Draw, t: str, number: int) -> list[str]:
    """Headings on the topic in the order of the places, the last place at the end: none can come twice."""
    chosen = [draw.pick(place) for place in [*PLACES[: number - 1], PLACES[-1]]]
    return [agree(a.replace("{t}", t).replace("{T}", knowledge.cap(t)), t) for a in chosen]


def numbered(items: list[str]) -> str:
    """`1. a`, a line each."""
    return "\n".join(f"{i}. {item}" for i, item in enumerate(items, 1))


def outline(draw: Draw) -> Example:
    """An outline of so many numbered points, each about the topic."""
    t = topic(draw)
    free = draw.chance(0.25)
    k = 3 if free else draw.num(2, 5)
    shown = NUMBER_WORDS[k] if draw.chance(0.4) else str(k)
    ask = (
        draw.say(OUTLINE_FREE, t=t)
        if free
        else knowledge.cap(draw.say(OUTLINE, t=t, k=shown, K=knowledge.cap(shown)))
    )
    answer = numbered(points(draw, t, k))
    check = every(
        *(regex(rf"(?im)^{i}\. .*{_re(t)}") for i in range(1, k + 1)),
        regex(rf"^(?!.*(^|\n){k + 1}\.)"),
        {"kind": "distinct"},
    )
    rest: list[Message] = []
    if draw.chance(0.25):
        at = draw.num(1, k)
        rest = [
            (
                "user",
                draw.free(
                    "[Expand point {i}.|Now expand point {i}.|Write more about point {i}.|Tell me more about point {i}.]".replace(
                        "{i}", str(at)
                    )
                ),
            ),
            ("assistant", expansion(draw, answer.split("\n")[at - 1][3:], t)),
        ]
    return Example(
        "outline",
        system(draw, [("user", draw.loosen(ask))]),
        ("assistant", answer),
        check,
        rest,
        templates=draw.used,
    )


def _re(text: str) -> str:
    return "".join(c if c.isalnum() or c in " -_" else "." for c in text)


def expansion(draw: Draw, point: str, t: str) -> str:
    """One to three sentences that name the point and its topic."""
    number = draw.pick([2, 2, 2, 3, 1])
    body = [BODY[0], *draw.some(BODY[1:], number - 1)]
    if number == 1:
        return draw.free(BODY[0].replace("{P}", point))
    return " ".join(agree(draw.free(s.replace("{P}", point).replace("{t}", t)), t) for s in body)


def expand(draw: Draw) -> Example:
    """A point of an outline (in the prompt or in the chat) expanded."""
    t = topic(draw)
    listed = points(draw, t, draw.num(2, 5))
    at = draw.num(0, len(listed) - 1)
    point = listed[at]
    free = draw.chance(0.35)
    if free:
        head = draw.pick(
            [
                "tools",
                "soil",
                "rules",
                "tips",
                "games",
                "plans",
                "ideas",
                draw.word(),
                draw.noun(),
                words.plural(draw.pick(words.NOUNS)),
                draw.pick(words.FOODS),
            ]
        )
        point = listed[at] = knowledge.cap(f"{head} {draw.pick(['for', 'in', 'and', 'of'])} {t}")
    answer = expansion(draw, point, t)
    check = every(contains(t), contains(point), regex(r"\.\s*$"))
    roll = draw.rng.random()
    messages: list[Message]
    if roll < 0.35:
        messages = [("user", draw.say(EXPAND_NUMBER, i=at + 1, o=numbered(listed)))]
    elif roll < 0.55:
        first: list[Message] = [
            ("user", draw.say(OUTLINE_FREE, t=t)),
            ("assistant", numbered(listed)),
        ]
        messages = [
            *first,
            (
                "user",
                draw.free(
                    "[Expand point {i}.|Now expand point {i}.|Write about point {i}.|Expand point {i} in two sentences.]".replace(
                        "{i}", str(at + 1)
                    )
                ),
            ),
        ]
    else:
        messages = [
            (
                "user",
                draw.say(EXPAND, p=point if draw.chance(0.8) else point[0].lower() + point[1:]),
            )
        ]
    return Example(
        "expand", system(draw, messages), ("assistant", answer), check, templates=draw.used
    )


SUMMARY = Pool(
    "summary.ask",
    PHRASES.text("summary.ask"),
)
COUNT = Pool(
    "summary.count",
    PHRASES.text("summary.count"),
)
COMMON = Pool(
    "summary.common",
    PHRASES.text("summary.common"),
)


def _items(draw: Draw) -> list[str]:
    number = draw.num(2, 8)
    roll = draw.rng.random()
    if roll < 0.35:
        items = draw.some(
            words.CATEGORIES[
                draw.pick(
                    ["animal", "fruit", "colour", "vehicle", "job", "city", "drink", "country"]
                )
            ],
            number,
        )
    elif roll < 0.55:
        items = draw.some(words.FOODS + words.FRUITS, number)
    elif roll < 0.75:
        items = draw.some(words.NOUNS, number)
    elif roll < 0.85:
        items = [f"{draw.pick(words.ADJECTIVES)} {draw.noun()}" for _ in range(number)]
    elif roll < 0.93:
        items = draw.firsts(number)
    else:
        items = [draw.word() for _ in range(number)]
    if draw.chance(0.2):
        items = [
            words.plural(i) if i.islower() and not i.endswith("s") and " " not in i else i
            for i in items
        ]
    return list(dict.fromkeys(items))


def _shown(draw: Draw, items: list[str]) -> tuple[str, str]:
    roll = draw.rng.random()
    if roll < 0.4:
        return "\n", "\n".join(f"- {i}" for i in items)
    if roll < 0.5:
        return "\n", "\n".join(f"* {i}" for i in items)
    if roll < 0.65:
        return "\n", numbered(items)
    if roll < 0.75:
        return "\n", "\n".join(items)
    return draw.pick([" ", "\n"]), ", ".join(items)


def summarise(draw: Draw) -> Example:
    """A summary in one sentence, the number of items, or the most frequent one."""
    items = _items(draw)
    roll = draw.rng.random()
    check: Check
    if roll < 0.65:
        ask = draw.say(SUMMARY)
        answer = (
            f"The list has {len(items)} items: {words.listing(items)}."
            if len(items) > 1
            else f"The list has 1 item: {items[0]}."
        )
        check = every(contains(*items), contains(str(len(items))))
    elif roll < 0.85:
        ask, answer = draw.say(COUNT), str(len(items))
        check = equals(answer)
    else:
        items = items[:4]
        answer = draw.pick(items)
        items = draw.shuffled(items + [answer] * draw.num(1, 3))
        ask, check = draw.say(COMMON), equals(answer)
    sep, shown = _shown(draw, items)
    text = ask + sep + shown
    if draw.chance(0.2):
        bare = ask.rstrip(":")
        text = (
            shown
            + "\n"
            + draw.pick(["", "\n"])
            + (bare if bare.endswith(("?", ".")) else bare + ".")
        )
    return Example(
        "summarise",
        system(draw, [("user", text)]),
        ("assistant", answer),
        check,
        templates=draw.used,
    )


PRO = [
    "{T} make life [easier|better|richer] for [many|most|all] of us.", "{T} [help|bring] people [|to come ]together.".replace("[help|bring]", "bring").replace("[|to come ]", ""), "{T} are good for [families|children|the whole town|everyone].",
    "With {t} we [learn|gain] [something new every day|a lot].", "{T} [save time|save money|give us joy|keep us healthy].", "{T} are worth [the effort|the price|every minute].", "A world without {t} would be [poorer|sad|less kind].",
    "[Studies at home and common sense|Common sense and experience] speak for {t}.", "{T} cost little and give [much|a lot].", "That is why I am for {t}.", "We should [support|have more of] {t}.",
]  # fmt: skip
CON = [
    "{T} cost [too much|a lot of] [money|time].", "{T} make life [harder|more complicated] for [many|most] people.", "There are better things than {t}.", "{T} [take too much time|cause more trouble than joy|are bad for the purse].",
    "Not everyone [likes|can use|needs] {t}.", "With {t} we [lose|waste] [time|money] that we need elsewhere.", "{T} are [not worth the effort|often a burden|easy to do without].", "Life was fine without {t}.",
    "{T} divide people instead of helping them.", "That is why I am against {t}.", "We should have fewer of {t}, not more.".replace("fewer of", "less of"),
]  # fmt: skip
SIDES = {
    "for": "in favour|for it|for|pro|in favour of it|yes|on the supporting side",
    "against": "against|against it|contra|no|on the opposing side",
}
DEBATE = Pool(
    "debate.ask",
    PHRASES.text("debate.ask"),
)
DEBATE_SYSTEM = Pool(
    "debate.system",
    PHRASES.text("debate.system"),
)
NEXT = Pool(
    "debate.next",
    PHRASES.text("debate.next"),
)


SINGULAR = {" are ": " is ", " make ": " makes ", " bring ": " brings ", " help ": " helps ", " cost ": " costs ", " take ": " takes ", " save ": " saves ", " give us": " gives us", " divide ": " divides ", " change our": " changes our", " matter": " matters", " work.": " works.", " cause ": " causes ", " give ": " gives "}  # fmt: skip


def agree(text: str, t: str) -> str:
    """The sentence with its verbs in the singular right after a topic that is no plural."""
    if t.endswith("s") and t not in ("chess", "tennis", "history of buses"):
        return text
    for name in (t, knowledge.cap(t)):
        for many, one in SINGULAR.items():
            text = text.replace(name + many, name + one)
    return text


def argument(draw: Draw, t: str, side: str, number: int) -> str:
    """So many sentences for the side."""
    chosen = draw.some(PRO[:-2] if side == "for" else CON[:-2], max(1, number - 1))
    closing = (PRO if side == "for" else CON)[-2:]
    chosen = [*chosen, draw.pick(closing)] if number > 1 else chosen
    return " ".join(
        agree(draw.free(s.replace("{T}", knowledge.cap(t)).replace("{t}", t)), t) for s in chosen
    )


def debate(draw: Draw) -> Example:
    """An argument for or against, in one to three sentences."""
    t, side = topic(draw), draw.pick(["for", "against"])
    number = draw.pick([1, 2, 2, 3])
    counted = {1: "one sentence", 2: "two sentences", 3: "three sentences"}[number]
    slot = {
        "t": t,
        "s": draw.pick(SIDES[side].split("|")),
        "f": draw.pick(["for", "in favour of"]) if side == "for" else "against",
        "k": counted,
        "g": "in favour of" if side == "for" else "against",
        "one": "one",
    }
    check = every(contains(t), regex(r"\.\s*$"))
    other = argument(draw, t, "against" if side == "for" else "for", draw.num(1, 2))
    if draw.chance(0.3):
        messages: list[Message] = [
            ("system", draw.say(DEBATE_SYSTEM, **slot)),
            ("user", draw.say(NEXT, o=other, **{k: v for k, v in slot.items() if k != "o"})),
        ]
        return Example(
            "debate",
            messages,
            ("assistant", argument(draw, t, side, draw.num(1, 3))),
            check,
            templates=draw.used,
        )
    ask = draw.say(DEBATE, **slot)
    number = (
        1 if " one " in f" {ask.casefold()} " else number if "sentence" in ask else draw.num(1, 3)
    )
    messages = system(draw, [("user", draw.loosen(ask))])
    return Example(
        "debate",
        messages,
        ("assistant", argument(draw, t, side, number)),
        check,
        templates=draw.used,
    )


def winner(draw: Draw) -> Example:
    """A debate is judged: the side that argues better (more sentences on the topic) is named by the letters asked for."""
    t = topic(draw)
    good, poor = (
        argument(draw, t, draw.pick(["for", "against"]), 3),
        draw.pick(["I do not know.", "No.", "Maybe.", "I have nothing to say.", "Whatever."]),
    )
    letter = draw.pick("AB")
    a, b = (good, poor) if letter == "A" else (poor, good)
    text = draw.free(
        "[The topic is|Topic:|We debate] {t}.\n[Side A|A|Speaker A]: {a}\n[Side B|B|Speaker B]: {b}\n[Who argued better?|Which side is better?|Who wins?|Who won the debate?] [Reply with A or B.|Answer A or B.|A or B?]".replace(
            "{a}", a
        ).replace("{b}", b),
        t=t,
    )
    return Example(
        "debate",
        system(draw, [("user", text)]),
        ("assistant", letter),
        equals(letter),
        templates=draw.used,
    )


def sample_debate(draw: Draw) -> Example:
    """An argument, at times the judgement of two."""
    return winner(draw) if draw.chance(0.12) else debate(draw)


__all__ = ["choose", "expand", "outline", "sample_debate", "summarise"]

"""A quotation with a note on its author: name the author, then answer questions about the author."""

from __future__ import annotations

from skills import knowledge, people, words
from skills.core import Check, Draw, Example, Message, Pool, contains, equals, label, system
from skills.facts import form
from skills.knowledge import QA
from skills.phrases import Phrases

PHRASES = Phrases("quotation")

ASK = Pool(
    "quote.ask",
    PHRASES.text("quote.ask"),
)
NOTE = Pool(
    "quote.note",
    PHRASES.text("quote.note"),
)
QUOTES = Pool(
    "quote.text",
    PHRASES.text("quote.text"),
)
VERBS = PHRASES.lines("verbs")
KEYS = PHRASES.lines("keys")
PRONOUN = PHRASES.lines("pronoun")
LINKS = ["wrote", "lived", "won", "died"]


def _quote(draw: Draw) -> str:
    noun, other = (draw.pick(words.NOUNS + [w.lower() for w in words.BOOK_HEADS]) for _ in range(2))
    return draw.say(
        QUOTES,
        n=noun,
        m=other,
        v=draw.pick(VERBS),
        a=draw.pick(words.ADJECTIVES),
        b=draw.pick(words.ADJECTIVES),
    )


def _note(draw: Draw, who: people.Person, extra: list[tuple[str, str, str, str]]) -> str:
    """The note: compact (name, born 1921 in Tarn, wrote ...) or in sentences."""
    keys = list(who.facts)
    if draw.chance(0.5):
        parts = [who.name]
        if "year" in keys and "born" in keys:
            parts.append(
                f"born {who.facts['year']} in {who.facts['born']}"
                if draw.chance(0.7)
                else f"born in {who.facts['born']} in {who.facts['year']}"
            )
        elif "year" in keys:
            parts.append(
                draw.pick(
                    [
                        f"born {who.facts['year']}",
                        f"born in {who.facts['year']}",
                        f"*{who.facts['year']}",
                    ]
                )
            )
        elif "born" in keys:
            parts.append(draw.pick([f"born in {who.facts['born']}", f"from {who.facts['born']}"]))
        rest = [k for k in keys if k not in ("year", "born")]
        parts += [
            draw.say(people.ATTRIBUTES[k].says, **people.slots(k, who.name, who.facts[k]))
            for k in rest[:2]
        ]
        text = ", ".join(parts)
        tail = [
            people.statement(draw, k, draw.pick(["She", "He", who.first, who.first]), who.facts[k])
            for k in rest[2:]
        ]
        tail += [f"{draw.pick(['She', 'He', who.first])} {e[0]}." for e in extra]
        return (
            text
            + ("." if tail or draw.chance(0.3) else "")
            + (" " + " ".join(tail) if tail else "")
        )
    text = people.describe(draw, who, draw.shuffled(keys))
    tail = [f"{draw.pick(['She', 'He', who.first])} {e[0]}." for e in extra]
    lead = draw.pick(
        ["", "", f"The author is {who.name}. ", f"{who.name} is the author. ", f"By {who.name}. "]
    )
    return lead + " ".join([text, *tail])


def _extra(draw: Draw) -> list[tuple[str, str, str, str]]:
    year, place = str(draw.num(1830, 2020)), draw.city()
    prize = f"the {words.made_name(draw.rng)} Prize"
    children = draw.num(2, 9)
    options = [
        (f"died in {year}", "When did {s} die?|In which year did {s} die?|What year did {s} die?", year, f"In {year}"),
        (f"won {prize}", "Which prize did {s} win?|What prize did {s} win?|What did {s} win?", prize, knowledge.cap(prize)),
        (f"died in {place}", "Where did {s} die?|In which place did {s} die?", place, f"In {place}"),
        (f"had {children} children", "How many children did {s} have?|Did {s} have children, and how many?", str(children), str(children)),
        (f"is buried in {place}", "Where is {s} buried?|Where is the grave of {s}?", place, f"In {place}"),
    ]  # fmt: skip
    return [draw.pick(options)] if draw.chance(0.35) else []


def _question(draw: Draw, who: people.Person, extra: list[tuple[str, str, str, str]]) -> QA:
    subject = draw.pick([*PRONOUN, who.name, who.first])
    if extra and draw.chance(0.4):
        told, asks, bare, short = extra[0]
        question = draw.pick(asks.split("|")).format(s=subject)
        return QA([], question, bare, short, f"{who.name} {told}", [], "extra", who.name)
    key = draw.pick(list(who.facts))
    slot = people.slots(key, subject, who.facts[key])
    question = knowledge.cap(draw.say(people.ATTRIBUTES[key].asks, **slot))
    full = f"{who.name} {draw.fill(people.ATTRIBUTES[key].says.parsed[0], slot)}"
    return QA(
        [],
        question,
        slot["o"],
        people.ATTRIBUTES[key].short.format(**slot),
        full,
        [],
        key,
        who.name,
    )


NOT_SAID = [k for k in KEYS if k not in ("born", "year", "city")]


def _keys(draw: Draw) -> list[str]:
    keys: list[str] = []
    for key in draw.shuffled(KEYS):
        if len(keys) < 4 and not any(
            people.conflict(key, k) and {key, k} != {"born", "year"} for k in keys
        ):
            keys.append(key)
    return keys[: draw.num(1, 4)]


def _check(qa: QA, answer: str) -> Check:
    return (
        contains(qa.bare.strip('"'))
        if answer.endswith(".") and len(answer) > len(qa.short) + 1
        else equals(answer)
    )


def sample(draw: Draw) -> Example:
    """The author, or one of the questions that follow."""
    who = people.person(draw, _keys(draw), name=draw.full() if draw.chance(0.85) else draw.first())
    extra = _extra(draw)
    ask = draw.say(ASK)
    noted = draw.say(NOTE, q=_quote(draw), n=_note(draw, who, extra), L=label(draw))
    first: list[Message] = [("user", ask + noted)]
    if draw.chance(0.15):
        first = [("user", ask.strip()), ("user", noted)]
    first = system(draw, first, 0.15)
    named = f"The author is {who.name}."
    if draw.chance(0.35):
        prefill = "The author is " if draw.chance(0.6) else ""
        return Example(
            "quotation",
            first,
            ("assistant", named),
            contains(who.name),
            prefill=prefill,
            templates=draw.used,
        )
    shown = draw.pick([named, named[:-1], named[:-1], who.name])
    messages: list[Message] = [*first, ("assistant", shown)]
    for _ in range(draw.pick([0, 0, 1, 2])):
        qa = _question(draw, who, extra)
        messages += [("user", qa.question), ("assistant", qa.short + ".")]
    qa = _question(draw, who, extra)
    request, answer = form(draw, qa) if draw.chance(0.4) else ("", qa.short + ".")
    messages.append(("user", f"{qa.question} {request}".strip()))
    return Example(
        "quotation", messages, ("assistant", answer), _check(qa, answer), templates=draw.used
    )

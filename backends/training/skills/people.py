"""People and what can be said of them: each attribute knows its statements, questions, short answers and field names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from skills import words
from skills.core import Draw, Pool
from skills.phrases import Phrases

PHRASES = Phrases("people")


@dataclass
class Attribute:
    """`says` are verb phrases after the subject; `{o}` is the value, `{ao}` the value with its article."""

    key: str
    value: Callable[[Draw], Any]
    says: Pool
    asks: Pool
    yes: Pool
    short: str
    me: Pool
    ask_me: Pool
    fields: list[str]
    label: str


ATTRIBUTES: dict[str, Attribute] = {}


def _add(
    key: str,
    value: Callable[[Draw], Any],
    short: str,
    fields: str,
    sections: str = "",
    word: str = "",
) -> None:
    """Add the attribute *key*, whose phrases stand in the sections `key.says`, `key.asks`, …

    Several may share *sections*, with a *word* of their own in place of `@`.
    """
    says, asks, yes, me, ask_me = (
        Pool(f"{name}.{key}", PHRASES.text(f"{sections or key}.{section}").replace("@", word))
        for name, section in (
            ("say", "says"),
            ("ask", "asks"),
            ("yes", "yes"),
            ("me", "me"),
            ("askme", "ask_me"),
        )
    )
    names = fields.split("|")
    label = names[0].replace("_", " ")
    ATTRIBUTES[key] = Attribute(key, value, says, asks, yes, short, me, ask_me, names, label)


_add("city", Draw.city, "In {o}", "city|town|home|residence|location|place|lives_in")
_add("born", Draw.city, "In {o}", "birthplace|born_in|place_of_birth|from|origin")
_add("year", lambda d: d.num(1800, 2012), "In {o}", "birth_year|year|born|year_of_birth")
_add("job", lambda d: d.pick(words.JOBS), "{Ao}", "job|profession|occupation|work|role")
_add("age", lambda d: d.num(5, 95), "{o}", "age|years|age_in_years")
_add("food", lambda d: d.pick(words.FOODS), "{O}", "favourite_food|food|dish|likes_to_eat")
_add("drink", lambda d: d.pick(words.DRINKS), "{O}", "favourite_drink|drink|beverage")
_add("colour", lambda d: d.pick(words.COLOURS), "{O}", "favourite_colour|colour|color")
_add("pets", lambda d: (d.num(1, 12), d.pick(words.ANIMALS)), "{O}", "pets|pet|animals")
_add(
    "instrument",
    lambda d: d.pick(words.INSTRUMENTS),
    "The {o}",
    "instrument|plays|musical_instrument",
)
_add("hobby", lambda d: d.pick(words.HOBBIES), "{O}", "hobby|interest|pastime|free_time")
_add("sport", lambda d: d.pick(words.SPORTS), "{O}", "sport|favourite_sport")
for _rel in ("brother", "sister", "partner", "best friend", "neighbour", "boss"):
    _add(
        _rel.replace(" ", "_"),
        Draw.first,
        "{o}",
        f"{_rel.replace(' ', '_')}|name_of_{_rel.replace(' ', '_')}",
        "relation",
        _rel,
    )
_add("language", lambda d: d.pick(words.LANGUAGES), "{o}", "language|speaks|mother_tongue")
_add(
    "ride",
    lambda d: f"{d.pick(words.COLOURS)} {d.pick(words.VEHICLES)}",
    "{Ao}",
    "vehicle|drives|transport",
)
_add(
    "owns",
    lambda d: f"{d.pick(words.ADJECTIVES)} {d.noun()}",
    "{Ao}",
    "item|thing|possession|object",
)
_add("subject", lambda d: d.pick(words.SUBJECTS), "{O}", "subject|studies|field|degree")
_add(
    "company",
    lambda d: f"{words.made_name(d.rng)} {d.pick(words.COMPANY_END)}",
    "{o}",
    "company|employer|works_for|organisation|firm",
)
_add(
    "email",
    lambda d: f"{d.word()}@{d.word()}.{d.pick(['com', 'org', 'net'])}",
    "{o}",
    "email|email_address|mail|contact",
)
_add(
    "phone",
    lambda d: f"{d.num(100, 999)}-{d.num(1000, 9999)}",
    "{o}",
    "phone|phone_number|telephone|tel",
)


def book_title(draw: Draw) -> str:
    """A made-up title."""
    head = draw.pick(words.BOOK_HEADS)
    roll = draw.rng.random()
    if roll < 0.5:
        return f"The {draw.pick(words.BOOK_ADJ)} {head}"
    if roll < 0.7:
        return f"{draw.pick(words.BOOK_ADJ)} {words.plural(head)}"
    return (
        f"The {head} of {draw.city()}"
        if roll < 0.85
        else f"{head} and {draw.pick(words.BOOK_HEADS)}"
    )


_add("book", lambda d: f'"{book_title(d)}"', "{o}", "book|title|wrote|novel")

TEXTUAL = [k for k in ATTRIBUTES if k != "book"]


def shown(key: str, value: Any) -> str:
    """The value as text inside a sentence."""
    if key == "pets":
        return words.count(value[0], value[1]) if value[0] > 1 else words.article(value[1])
    return str(value)


def slots(key: str, subject: str, value: Any) -> dict[str, str]:
    """Everything that a phrasing of the attribute may name."""
    text = shown(key, value)
    with_article = words.article(text)
    big = text[0].upper() + text[1:]
    return {
        "s": subject,
        "o": text,
        "O": big,
        "ao": with_article,
        "Ao": with_article[0].upper() + with_article[1:],
    }


def conflict(a: str, b: str) -> bool:
    """Whether two attributes would make one question ambiguous (both are things one has or likes)."""
    groups = (
        {"pets", "owns", "ride"}, {"food", "hobby", "sport", "drink", "colour"}, {"born", "year", "city"}, {"language", "subject"}, {"job", "company"},
        {"sport", "instrument", "hobby"}, {"subject", "job"}, {"email", "phone"}, {"owns", "instrument"},
    )  # fmt: skip
    return any(a in g and b in g for g in groups)


@dataclass
class Person:
    """A name and some of its attributes."""

    name: str
    facts: dict[str, Any]

    @property
    def first(self) -> str:
        return self.name.split()[0]


def person(draw: Draw, keys: list[str] | None = None, number: int = 3, name: str = "") -> Person:
    """Someone with the attributes named, or with some that do not collide."""
    if keys is None:
        keys = []
        for key in draw.shuffled(TEXTUAL):
            if len(keys) < number and not any(conflict(key, k) for k in keys):
                keys.append(key)
    return Person(name or draw.person(), {k: ATTRIBUTES[k].value(draw) for k in keys})


def statement(draw: Draw, key: str, subject: str, value: Any) -> str:
    """One sentence that states the attribute."""
    return f"{subject} {draw.say(ATTRIBUTES[key].says, **slots(key, subject, value))}."


def describe(draw: Draw, who: Person, keys: list[str] | None = None) -> str:
    """Some sentences on the person: joined, or with a pronoun after the first."""
    keys = list(who.facts) if keys is None else keys
    pronoun = draw.pick(["He", "She", who.first])
    phrases = [draw.say(ATTRIBUTES[k].says, **slots(k, who.name, who.facts[k])) for k in keys]
    out, subject, at = [], who.name, 0
    while at < len(phrases):
        if at + 1 < len(phrases) and draw.chance(0.4):
            link = draw.pick([" and ", " and ", ", and "])
            out.append(f"{subject} {phrases[at]}{link}{phrases[at + 1]}.")
            at += 2
        else:
            out.append(f"{subject} {phrases[at]}.")
            at += 1
        subject = pronoun if draw.chance(0.75) else who.name
    return " ".join(out)

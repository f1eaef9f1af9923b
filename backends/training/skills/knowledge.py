"""Questions on stated facts, whatever skill asks them: facts, question, the answer in each form, and wrong answers of the same kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from skills import people, schemas, words
from skills.core import Draw, Pool
from skills.people import ATTRIBUTES, Person
from skills.phrases import Phrases

PHRASES = Phrases("knowledge")


@dataclass
class QA:
    """`bare` is the value alone, `short` a short phrase, `full` a sentence without its full stop."""

    facts: list[str]
    question: str
    bare: str
    short: str
    full: str
    wrong: list[str] = field(default_factory=list)
    kind: str = "what"
    subject: str = ""
    more: list[QA] = field(default_factory=list)


WHO = Pool(
    "who",
    PHRASES.text("who"),
)


def cap(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]


def _cast(draw: Draw) -> tuple[list[Person], list[str]]:
    number = draw.pick((1, 1, 2, 2, 3, 3, 4))
    keys = list(people.person(draw, number=draw.num(1, 4)).facts)
    names = draw.firsts(number)
    cast = []
    for name in names:
        mine = [k for k in keys if draw.chance(0.75)] or [draw.pick(keys)]
        full = f"{name} {draw.last()}" if draw.chance(0.35) else name
        cast.append(people.person(draw, draw.shuffled(mine), name=full))
    return cast, keys


def _others(draw: Draw, cast: list[Person], key: str, value: Any) -> list[str]:
    values = [
        people.shown(key, p.facts[key]) for p in cast if key in p.facts and p.facts[key] != value
    ]
    while len(values) < 3:
        other = people.shown(key, ATTRIBUTES[key].value(draw))
        if other != people.shown(key, value) and other not in values:
            values.append(other)
    return values


def _filled(draw: Draw, template: str, slot: dict[str, str]) -> str:
    return template.format(**slot)


def attribute_qa(draw: Draw, who: Person, key: str, cast: list[Person]) -> QA:
    """What is the attribute of this person?"""
    value = who.facts[key]
    name = who.first if draw.chance(0.5) else who.name
    slot = people.slots(key, name, value)
    question = draw.say(ATTRIBUTES[key].asks, **slot)
    full = f"{name} {draw.fill(ATTRIBUTES[key].says.parsed[0], slot)}"
    if key == "pets" and draw.chance(0.5) and value[0] > 1:
        question = draw.free("How many [{p}] does {s} [have|own|keep]?", p="", s=name).replace(
            "many  ", f"many {words.plural(value[1])} "
        )
        return QA(
            [],
            question,
            str(value[0]),
            str(value[0]),
            full,
            [str(value[0] + 1), str(value[0] + 3)],
            "many",
            name,
        )
    return QA(
        [],
        question,
        slot["o"],
        _filled(draw, ATTRIBUTES[key].short, slot),
        full,
        _others(draw, cast, key, value),
        key,
        name,
    )


def who_qa(draw: Draw, who: Person, key: str, cast: list[Person]) -> QA:
    """Whose attribute is this?"""
    slot = people.slots(key, who.name, who.facts[key])
    phrase = draw.say(ATTRIBUTES[key].says, **slot)
    wrong = [p.name for p in cast if p.name != who.name] or [draw.person(), draw.person()]
    return QA(
        [],
        draw.say(WHO, v=phrase),
        who.name,
        who.name,
        f"{who.name} {phrase}",
        wrong,
        "who",
        who.name,
    )


def _unique(cast: list[Person], key: str, value: Any) -> bool:
    return (
        sum(
            people.shown(key, p.facts.get(key)) == people.shown(key, value)
            for p in cast
            if key in p.facts
        )
        == 1
    )


def _one(draw: Draw, cast: list[Person]) -> QA:
    who = draw.pick(cast)
    key = draw.pick(list(who.facts))
    ask_who = len(cast) > 1 and draw.chance(0.45) and _unique(cast, key, who.facts[key])
    return who_qa(draw, who, key, cast) if ask_who else attribute_qa(draw, who, key, cast)


def _several(draw: Draw, facts: list[str], ask: Callable[[], QA]) -> QA:
    """A question on the facts, and some more for the turns that follow."""
    qa = ask()
    qa.facts = facts
    if not draw.held and draw.chance(0.5):
        asked = {qa.question}
        for _ in range(draw.num(1, 6)):
            other = ask()
            if other.question not in asked:
                asked.add(other.question)
                qa.more.append(other)
    return qa


def people_qa(draw: Draw) -> QA:
    """One to four people."""
    cast, _ = _cast(draw)
    facts = [people.describe(draw, p) for p in cast]
    return _several(draw, facts, lambda: _one(draw, cast))


def absent_qa(draw: Draw) -> QA:
    """A question that the facts do not answer."""
    cast, _ = _cast(draw)
    who = draw.pick(cast)
    free = [
        k
        for k in people.TEXTUAL
        if k not in who.facts and not any(people.conflict(k, m) for m in who.facts)
    ]
    if draw.chance(0.4):
        asked = Person(draw.first(), people.person(draw, number=1).facts)
        if asked.name in [p.first for p in cast]:
            return absent_qa(draw)
        key = draw.pick(list(asked.facts))
    else:
        key = draw.pick(free)
        asked = Person(
            who.first if draw.chance(0.5) else who.name, {key: ATTRIBUTES[key].value(draw)}
        )
    question = draw.say(ATTRIBUTES[key].asks, **people.slots(key, asked.name, asked.facts[key]))
    facts = [people.describe(draw, p) for p in cast]
    return QA(
        facts,
        question,
        "The facts do not say",
        "The facts do not say",
        "The facts do not say",
        [],
        "absent",
        asked.name,
    )


def _yes_no(draw: Draw, cast: list[Person]) -> QA:
    who = draw.pick(cast)
    key = draw.pick(list(who.facts))
    true = draw.chance(0.5)
    value = who.facts[key]
    while not true and people.shown(key, value) == people.shown(key, who.facts[key]):
        same = [p.facts[key] for p in cast if key in p.facts and p.facts[key] != who.facts[key]]
        value = draw.pick(same) if same and draw.chance(0.6) else ATTRIBUTES[key].value(draw)
    name = who.first if draw.chance(0.5) else who.name
    question = draw.say(ATTRIBUTES[key].yes, **people.slots(key, name, value))
    answer = "Yes" if true else "No"
    return QA([], question, answer, answer, answer, ["No" if true else "Yes"], "yesno", name)


def yes_no(draw: Draw) -> QA:
    """A question answered with yes or no."""
    cast, _ = _cast(draw)
    return _several(
        draw,
        [people.describe(draw, p) for p in cast],
        lambda: _yes_no(draw, cast) if draw.chance(0.8) else _one(draw, cast),
    )


VERBS = [pair.split("/") for pair in PHRASES.lines("verbs")]  # fmt: skip
PREPS = ["in", "in", "at", "near", "behind"]
WHENS = (
    [f"on {d}" for d in words.DAYS]
    + [f"in {m}" for m in words.MONTHS]
    + ["yesterday", "last week", "this morning", "last night", "today"]
)
EVENT_WHAT = Pool(
    "event.what",
    PHRASES.text("event.what"),
)
EVENT_WHO = Pool(
    "event.who",
    PHRASES.text("event.who"),
)
EVENT_WHERE = Pool(
    "event.where",
    PHRASES.text("event.where"),
)
EVENT_WHEN = Pool(
    "event.when",
    PHRASES.text("event.when"),
)


@dataclass
class Event:
    """Someone did something with a thing, somewhere, some time."""

    who: str
    past: str
    base: str
    adjective: str
    noun: str
    place: str
    when: str

    @property
    def thing(self) -> str:
        return f"{self.adjective} {self.noun}".strip()


def event(draw: Draw, who: str, noun: str, place: bool, when: bool) -> Event:
    past, base = draw.pick(VERBS)
    adjective = draw.pick(words.ADJECTIVES) if draw.chance(0.7) else ""
    spot = (
        f"{draw.pick(PREPS)} the {draw.pick(words.ROOMS)}"
        if draw.chance(0.7)
        else f"in {draw.city()}"
    )
    return Event(
        who, past, base, adjective, noun, spot if place else "", draw.pick(WHENS) if when else ""
    )


def tell(draw: Draw, e: Event) -> str:
    """The event as a sentence."""
    thing = words.article(e.thing)
    if e.when and draw.chance(0.25):
        return cap(f"{e.when}, {e.who} {e.past} {thing}{' ' + e.place if e.place else ''}.")
    tail = [part for part in ([e.place, e.when] if draw.chance(0.7) else [e.when, e.place]) if part]
    return " ".join([e.who, e.past, thing, *tail]) + "."


def event_qa(draw: Draw) -> QA:
    """One to four events, a question on what, who, where, when or which colour."""
    number = draw.num(1, 4)
    names, nouns = draw.firsts(number), draw.some(words.NOUNS, number)
    place, when = draw.chance(0.6), draw.chance(0.6)
    events = [
        event(draw, n, draw.word() if draw.chance(0.1) else o, place, when)
        for n, o in zip(names, nouns, strict=True)
    ]
    return _several(
        draw, [tell(draw, e) for e in events], lambda: _event(draw, events, place, when)
    )


def _event(draw: Draw, events: list[Event], place: bool, when: bool) -> QA:
    e = draw.pick(events)
    slot = {
        "s": e.who,
        "p": e.past,
        "b": e.base,
        "n": e.noun,
        "a": e.adjective + " " if e.adjective else "",
    }
    kinds = (
        ["what", "who", "who"]
        + (["where"] * 2 if place else [])
        + (["when"] * 2 if when else [])
        + (["colour"] * 2 if e.adjective in words.COLOURS else [])
    )
    kind = draw.pick(kinds)
    told = f"{e.who} {e.past} {words.article(e.thing)}"
    facts: list[str] = []
    if kind == "what":
        bare, others = (
            words.article(e.thing),
            [words.article(o.thing) for o in events if o is not e],
        )
        return QA(
            facts,
            draw.say(EVENT_WHAT, **slot),
            bare,
            cap(bare),
            told,
            others or [words.article(draw.pick(words.NOUNS))],
            kind,
            e.who,
        )
    if kind == "who":
        others = [o.who for o in events if o is not e] or [draw.first()]
        return QA(
            facts,
            draw.say(EVENT_WHO, **slot),
            e.who,
            e.who,
            f"{e.who} {e.past} the {e.thing}",
            others,
            kind,
            e.who,
        )
    if kind == "colour":
        question = draw.free(
            "[What|Which] [colour|color] [is|was] [the {n}|{s}'s {n}|the {n} that {s} {p}]?".replace(
                "{n}", e.noun
            )
            .replace("{s}", e.who)
            .replace("{p}", e.past)
        )
        return QA(
            facts,
            question,
            e.adjective,
            cap(e.adjective),
            f"The {e.noun} is {e.adjective}",
            draw.some([c for c in words.COLOURS if c != e.adjective], 2),
            kind,
            e.who,
        )
    value = e.place if kind == "where" else e.when
    pool = EVENT_WHERE if kind == "where" else EVENT_WHEN
    others = [v for o in events if (v := o.place if kind == "where" else o.when) != value]
    others = others or [f"in the {draw.pick(words.ROOMS)}" if kind == "where" else "in a year"]
    return QA(
        facts,
        draw.say(pool, **slot),
        value,
        cap(value),
        f"{e.who} {e.past} the {e.noun} {value}",
        others,
        kind,
        e.who,
    )


def give_qa(draw: Draw) -> QA:
    """One gave, sent, lent or showed something to another."""
    a, b, c, d = draw.firsts(4)
    past, base = draw.pick(
        [
            ("gave", "give"),
            ("sent", "send"),
            ("lent", "lend"),
            ("showed", "show"),
            ("sold", "sell"),
            ("brought", "bring"),
        ]
    )
    x, y = draw.some(words.NOUNS, 2)
    adj = draw.pick(words.ADJECTIVES) + " " if draw.chance(0.5) else ""
    thing = words.article(adj + x)
    facts = [f"{a} {past} {b} {thing}." if draw.chance(0.5) else f"{a} {past} {thing} to {b}."]
    facts += [f"{c} {past} {d} {words.article(y)}."] if draw.chance(0.7) else []
    told = f"{a} {past} {thing} to {b}"
    kind = draw.num(0, 2)
    if kind == 0:
        question = draw.free("[Who|Which person] {p} {b} {t}?|", p=past, b=b, t="the " + x).rstrip(
            "|"
        )
        return QA(draw.shuffled(facts), question, a, a, told, [c, b], "who", a)
    if kind == 1:
        question = draw.free(
            "[Who did {a} {v} the {x} to?|To whom did {a} {v} the {x}?|Who got the {x} from {a}?|Who did {a} {v} {t} to?]".replace(
                "{a}", a
            )
            .replace("{v}", base)
            .replace("{x}", x)
            .replace("{t}", thing)
        )
        return QA(draw.shuffled(facts), question, b, b, told, [d, a], "who", b)
    question = draw.free("What did {a} {v} [{b}|to {b}]?".replace("{b}", b), a=a, v=base).replace(
        f"{base} to {b}", f"{base} to {b}"
    )
    return QA(
        draw.shuffled(facts), question, thing, cap(thing), told, [words.article(y)], "what", a
    )


RELATIONS = PHRASES.lines("relations")  # fmt: skip


def relation_value(draw: Draw, kind: str) -> str:
    """A value of that kind."""
    table: dict[str, Any] = {
        "city": draw.city, "name": draw.full, "word": draw.word, "noun": lambda: words.article(draw.pick(words.NOUNS)),
        "animal": lambda: f"the {draw.pick(words.ANIMALS)}", "food": lambda: draw.pick(words.FOODS), "colour": lambda: draw.pick(words.COLOURS),
        "code": lambda: str(draw.num(100, 99999)), "number": lambda: str(draw.num(10, 9999)), "price": lambda: f"{draw.num(2, 300)} dollars",
        "title": lambda: people.book_title(draw), "date": lambda: f"{draw.num(1, 28)} {draw.pick(words.MONTHS)}",
        "time": lambda: f"{draw.num(1, 12)} {draw.pick(['am', 'pm'])}", "address": lambda: f"{draw.num(1, 99)} {draw.pick(words.BOOK_HEADS)} {draw.pick(['Street', 'Road', 'Lane'])}",
        "language": lambda: draw.pick(words.LANGUAGES), "metres": lambda: f"{draw.num(2, 900)} metres", "kilos": lambda: f"{draw.num(2, 200)} kilos",
        "degrees": lambda: f"{draw.num(1, 35)} degrees",
    }  # fmt: skip
    return str(table[kind]())


def relation_subject(draw: Draw) -> str:
    """A place, a team, a firm or a thing that relations are about."""
    roll = draw.rng.random()
    if roll < 0.6:
        return draw.country()
    if roll < 0.8:
        return f"{words.made_name(draw.rng)} {draw.pick(words.COMPANY_END)}"
    return "the " + draw.pick(PHRASES.lines("relation_subject"))


RELATION_ASK = Pool(
    "relation.ask",
    PHRASES.text("relation.ask"),
)


def relation_ask(draw: Draw, relation: str, kind: str, subject: str) -> str:
    """The question for a relation."""
    w = "Who" if kind == "name" else "What"
    return cap(draw.say(RELATION_ASK, w=w, w2=w.lower(), r=relation, x=subject))


def relation_qa(draw: Draw) -> QA:
    """`The capital of X is Y.` and the like."""
    number = draw.num(1, 4)
    facts: list[str] = []
    rows: list[tuple[str, str, str, str]] = []
    same = draw.pick(RELATIONS)
    for _ in range(number):
        relation, kind = (same if draw.chance(0.5) else draw.pick(RELATIONS)).split(":")
        relation, subject, value = (
            relation.replace("_", " "),
            relation_subject(draw),
            relation_value(draw, kind),
        )
        if any(r[:2] == (relation, subject) for r in rows):
            continue
        rows.append((relation, subject, value, kind))
        facts.append(
            cap(
                draw.free(
                    "[The {r} of {x} is {v}.|The {r} of {x} is {v}.|{v} is the {r} of {x}.]".replace(
                        "{r}", relation
                    )
                    .replace("{x}", subject)
                    .replace("{v}", value)
                )
            )
        )
    return _several(draw, facts, lambda: _relation(draw, rows))


def _relation(draw: Draw, rows: list[tuple[str, str, str, str]]) -> QA:
    relation, subject, value, kind = draw.pick(rows)
    facts: list[str] = []
    wrong = [r[2] for r in rows if r[2] != value and r[3] == kind] or [relation_value(draw, kind)]
    return QA(
        facts,
        relation_ask(draw, relation, kind, subject),
        value,
        cap(value),
        f"The {relation} of {subject} is {value}",
        wrong,
        "relation",
        subject,
    )


def place_qa(draw: Draw) -> QA:
    """Where things are, and what is where."""
    number = draw.num(1, 5)
    nouns, spots = (
        draw.some(words.NOUNS, number),
        draw.some(words.ROOMS if draw.chance(0.5) else words.SPOTS, number),
    )
    same = draw.chance(0.25)
    adjectives = draw.some(words.ADJECTIVES, number)
    things = [
        f"{a} {nouns[0] if same else n}" if same or draw.chance(0.4) else n
        for a, n in zip(adjectives, nouns, strict=True)
    ]
    preps = [
        draw.pick(["in", "in", "on", "under", "near", "behind", "next to"]) for _ in range(number)
    ]
    pairs = list(zip(things, preps, spots, strict=True))
    facts = [f"The {t} is {p} the {s}." for t, p, s in pairs]
    return _several(draw, facts, lambda: _place(draw, pairs))


def _place(draw: Draw, pairs: list[tuple[str, str, str]]) -> QA:
    facts: list[str] = []
    thing, prep, spot = draw.pick(pairs)
    told = f"The {thing} is {prep} the {spot}"
    others = [o for o in pairs if o[0] != thing] or [(draw.pick(words.NOUNS), "on", "moon")]
    if draw.chance(0.5):
        question = draw.free(
            "[Where is|Where can I find|Where do I find|Where would I look for|Where do we have|Say where we find|Where did I see] the {t}?",
            t=thing,
        )
        return QA(
            facts,
            question,
            f"{prep} the {spot}",
            cap(f"{prep} the {spot}"),
            told,
            [f"{p} the {s}" for _, p, s in others],
            "where",
            thing,
        )
    question = draw.free(
        "[What is|Which thing is|What do we find|What can be found] {p} the {s}?", p=prep, s=spot
    )
    return QA(
        facts,
        question,
        f"the {thing}",
        f"The {thing}",
        told,
        [f"the {t}" for t, _, _ in others],
        "what",
        spot,
    )


def shop_qa(draw: Draw) -> QA:
    """Prices, opening times, meetings."""
    if draw.chance(0.5):
        things = draw.some(words.NOUNS, draw.num(1, 4))
        prices = [draw.num(1, 300) for _ in things]
        unit = draw.pick(["dollars", "euros", "dollars", "coins", "pounds"])
        facts = [
            draw.free(
                "[The {t} costs {p}.|The {t} is {p}.|{A} costs {p}.|The price of the {t} is {p}.]".replace(
                    "{A}", cap(words.article(t))
                )
                .replace("{t}", t)
                .replace("{p}", f"{p} {unit}")
            )
            for t, p in zip(things, prices, strict=True)
        ]
        at = draw.num(0, len(things) - 1)
        question = draw.free(
            "[How much is the {t}?|How much does the {t} cost?|What does the {t} cost?|What is the price of the {t}?|How many dollars is the {t}?]".replace(
                "{t}", things[at]
            ).replace("dollars", unit)
        )
        bare = f"{prices[at]} {unit}"
        return QA(
            facts,
            question,
            bare,
            bare,
            f"The {things[at]} costs {bare}",
            [f"{prices[at] + 3} {unit}"],
            "price",
            things[at],
        )
    what = draw.pick(PHRASES.lines("shop_qa"))
    day, hour, room = (
        draw.pick(words.DAYS),
        f"{draw.num(1, 12)} {draw.pick(['am', 'pm', 'pm'])}",
        draw.pick(words.ROOMS),
    )
    facts = [
        draw.free(
            "[The {w} is on {d} at {h} in the {r}.|The {w} starts on {d} at {h}. It takes place in the {r}.|On {d} at {h} there is a {w} in the {r}.|The {w} takes place in the {r} on {d} at {h}.]".replace(
                "{w}", what
            )
            .replace("{d}", day)
            .replace("{h}", hour)
            .replace("{r}", room)
        )
    ]
    kind = draw.num(0, 2)
    if kind == 0:
        question = draw.free(
            "[On which day is the {w}?|Which day is the {w} on?|What day is the {w}?|On what day does the {w} take place?]".replace(
                "{w}", what
            )
        )
        return QA(
            facts,
            question,
            day,
            f"On {day}",
            f"The {what} is on {day}",
            [draw.pick(words.DAYS)],
            "day",
            what,
        )
    if kind == 1:
        question = draw.free(
            "[At what time is the {w}?|What time does the {w} start?|At which hour does the {w} begin?|When does the {w} start?|What time is the {w}?]".replace(
                "{w}", what
            )
        )
        return QA(
            facts,
            question,
            hour,
            f"At {hour}",
            f"The {what} starts at {hour}",
            [f"{draw.num(1, 12)} am"],
            "time",
            what,
        )
    question = draw.free(
        "[Where is the {w}?|Where does the {w} take place?|In which room or place is the {w}?|Where do we meet for the {w}?]".replace(
            "{w}", what
        )
    )
    return QA(
        facts,
        question,
        f"in the {room}",
        f"In the {room}",
        f"The {what} is in the {room}",
        [f"in the {draw.pick(words.ROOMS)}"],
        "where",
        what,
    )


def _schema(draw: Draw, rows: list[tuple[schemas.Schema, str, dict[str, str]]]) -> QA:
    schema, text, values = draw.pick(rows)
    key, question, bare, short = schemas.asked(draw, schema, values)
    wrong = [v[key] for s, _, v in rows if s is schema and v[key] != bare]
    for _ in range(20):
        other = schema.values[key](draw)
        if other != bare and other not in wrong and len(wrong) < 3:
            wrong.append(other)
    return QA([], question, bare, short, text.rstrip("."), wrong, "who" if key == "s" else key, "")


def schema_qa(draw: Draw) -> QA:
    """One to four everyday facts, at times of one kind."""
    same = draw.pick(schemas.SCHEMAS)
    one_kind = draw.chance(0.6)
    rows: list[tuple[schemas.Schema, str, dict[str, str]]] = []
    for _ in range(draw.num(1, 4)):
        schema = same if one_kind else draw.pick(schemas.SCHEMAS)
        text, values = schemas.filled(draw, schema)
        taken = {v for _, _, old in rows for v in old.values()}
        clash = any(s is schema for s, _, _ in rows) and (
            not one_kind or bool(taken & set(values.values()))
        )
        if not clash:
            rows.append((schema, text, values))
    return _several(draw, [r[1] for r in rows], lambda: _schema(draw, rows))


def any_qa(draw: Draw) -> QA:
    """A question of any kind but yes-or-no and absent."""
    roll = draw.rng.random()
    if roll < 0.34:
        return people_qa(draw)
    if roll < 0.5:
        return event_qa(draw)
    if roll < 0.55:
        return give_qa(draw)
    if roll < 0.65:
        return relation_qa(draw)
    if roll < 0.86:
        return schema_qa(draw)
    return place_qa(draw) if roll < 0.94 else shop_qa(draw)

"""Fields from a text as one JSON object; null where the text does not say."""

from __future__ import annotations

import json
from typing import Any

from skills import knowledge, people, words
from skills.core import Draw, Example, Message, Pool, label, system
from skills.phrases import Phrases

PHRASES = Phrases("extract")

ASK = Pool(
    "extract.ask",
    PHRASES.text("extract.ask"),
)
SHAPE = Pool(
    "extract.shape",
    PHRASES.text("extract.shape"),
)
TEXT = Pool(
    "extract.text",
    PHRASES.text("extract.text"),
)
BEFORE = Pool(
    "extract.before",
    PHRASES.text("extract.before"),
)
KINDS: dict[str, list[str]] = {
    "city": ["city", "town", "place"], "job": ["job", "profession", "occupation"], "age": ["age"], "year": ["birth_year", "year", "born"],
    "email": ["email", "mail"], "phone": ["phone", "phone_number", "telephone"], "company": ["company", "employer"], "food": ["food", "favourite_food"],
    "drink": ["drink", "favourite_drink"], "instrument": ["instrument"], "hobby": ["hobby"], "language": ["language"], "colour": ["colour", "favourite_colour"],
    "subject": ["subject"], "sport": ["sport"], "brother": ["brother"], "sister": ["sister"], "partner": ["partner"], "book": ["book", "title"],
}  # fmt: skip


def _bare(key: str, value: Any) -> Any:
    return value.strip('"') if key == "book" else value


def person_text(draw: Draw) -> tuple[str, dict[str, Any]]:
    """A description of a person, and its fields."""
    keys: list[str] = []
    for key in draw.shuffled(list(KINDS)):
        if len(keys) < 4 and not (key in ("year", "age") and ("year" in keys or "age" in keys)):
            keys.append(key)
    keys = keys[: draw.num(1, 4)]
    who = people.person(draw, keys, name=draw.full() if draw.chance(0.7) else "")
    record: dict[str, Any] = {draw.pick(["name", "name", "full_name", "person"]): who.name}
    record |= {draw.pick(KINDS[k]): _bare(k, who.facts[k]) for k in keys}
    return (
        _compact(draw, who) if draw.chance(0.5) else people.describe(draw, who, draw.shuffled(keys))
    ), record


def _compact(draw: Draw, who: people.Person) -> str:
    keys = list(who.facts)
    name = who.name
    if "age" in keys:
        name += draw.pick([", {a},", " ({a})", ", aged {a},", ", {a} years old,"]).format(
            a=who.facts["age"]
        )
        keys.remove("age")
    phrases = [
        draw.say(people.ATTRIBUTES[k].says, **people.slots(k, who.name, who.facts[k])) for k in keys
    ]
    if not phrases:
        return f"{name.rstrip(',')} is here."
    start = (
        draw.pick(["", "", "My friend ", "This is about our guest: ", "Yesterday we met "])
        if phrases
        else ""
    )
    if start.startswith("Yesterday"):
        return f"{start}{name.rstrip(',')}, who {words.listing(phrases)}."
    return f"{start}{name} {words.listing(phrases)}."


ORDER = Pool(
    "extract.order",
    PHRASES.text("extract.order"),
)


def order_text(draw: Draw) -> tuple[str, dict[str, Any]]:
    """An order: product, quantity, price and perhaps name, city, day."""
    noun = words.plural(draw.pick(words.NOUNS)) if draw.chance(0.85) else draw.word() + "s"
    values = {
        "q": draw.num(2, 99),
        "p": noun,
        "x": draw.num(2, 300),
        "u": draw.pick(["dollars", "euros", "pounds"]),
        "n": draw.person(),
        "c": draw.city(),
        "d": draw.pick(words.DAYS),
    }
    index = draw.say(ORDER, **{k: "{" + k + "}" for k in values})
    text = index.format(**values)
    record: dict[str, Any] = {"product": values["p"]}
    record[draw.pick(["price", "unit_price"])] = values["x"]
    record[draw.pick(["quantity", "amount", "number"])] = values["q"]
    for key, names in (
        ("u", ["currency"]),
        ("n", ["customer", "name", "buyer"]),
        ("c", ["city"]),
        ("d", ["day", "date"]),
    ):
        if "{" + key + "}" in index:
            record[draw.pick(names)] = values[key]
    return text, record


def event_text(draw: Draw) -> tuple[str, dict[str, Any]]:
    """A meeting, concert, trip: what, day, time, place."""
    what = draw.pick(PHRASES.lines("event_text"))
    day, hour, place = (
        draw.pick(words.DAYS),
        f"{draw.num(1, 12)} {draw.pick(['am', 'pm'])}",
        draw.city() if draw.chance(0.5) else "the " + draw.pick(words.ROOMS),
    )
    who = draw.person()
    text = draw.free(
        "[The {w} is on {d} at {h} in {p}.|On {d} at {h} there is a {w} in {p}.|{n} invites you to a {w} on {d} at {h} in {p}.|Do not forget: {w} with {n} on {d}, {h}, in {p}.|The {w} with {n} takes place in {p} on {d} at {h}.]".replace(
            "{w}", what
        )
        .replace("{d}", day)
        .replace("{h}", hour)
        .replace("{p}", place)
        .replace("{n}", who)
    )
    record: dict[str, Any] = {
        draw.pick(["event", "what", "title"]): what,
        draw.pick(["day", "date"]): day,
        draw.pick(["time", "start"]): hour,
        draw.pick(["place", "location", "where"]): place,
    }
    if who in text:
        record["person"] = who
    return text, record


def product_text(draw: Draw) -> tuple[str, dict[str, Any]]:
    """A thing with a colour, a price, a material and a weight."""
    noun, colour, price = draw.noun(), draw.pick(words.COLOURS), draw.num(2, 500)
    brand, material, unit = (
        words.made_name(draw.rng),
        draw.pick(["wood", "steel", "glass", "wool", "plastic", "leather", "paper", "cotton"]),
        draw.pick(["dollars", "euros"]),
    )
    text = draw.free(
        "[The {c} {n} from {b} is made of {m} and costs {p} {u}.|{b} sells {A} in {c} for {p} {u}. It is made of {m}.|New: {n} by {b}, {c}, {m}, only {p} {u}!|For {p} {u} you get a {c} {n} of {m} from {b}.]".replace(
            "{c}", colour
        )
        .replace("{n}", noun)
        .replace("{b}", brand)
        .replace("{m}", material)
        .replace("{p}", str(price))
        .replace("{u}", unit)
        .replace("{A}", words.article(noun))
    )
    return text, {
        draw.pick(["product", "item", "thing"]): noun,
        draw.pick(["colour", "color"]): colour,
        "price": price,
        "brand": brand,
        "material": material,
    }


def relation_text(draw: Draw) -> tuple[str, dict[str, Any]]:
    """Facts on a place or firm."""
    subject = words.made_city(draw.rng) if draw.chance(0.7) else draw.pick(words.COUNTRIES)
    chosen = draw.some(
        ["capital", "population", "mayor", "language", "river", "currency", "founder", "area"],
        draw.num(2, 4),
    )
    kinds = {
        "capital": "city",
        "population": "number",
        "mayor": "name",
        "language": "language",
        "river": "city",
        "currency": "word",
        "founder": "name",
        "area": "number",
    }
    values = {c: knowledge.relation_value(draw, kinds[c]) for c in chosen}
    sentences = [f"The {c} of {subject} is {v}." for c, v in values.items()]
    if draw.chance(0.5):
        sentences = [sentences[0], *[f"Its {c} is {v}." for c, v in list(values.items())[1:]]]
    record: dict[str, Any] = {draw.pick(["country", "place", "name"]): subject}
    record |= {c: int(v) if kinds[c] == "number" else v for c, v in values.items()}
    return " ".join(sentences), record


def ticket_text(draw: Draw) -> tuple[str, dict[str, Any]]:
    """A travel or a parcel note with several values."""
    a, b = draw.city(), draw.city()
    vehicle, day, hour = (
        draw.pick(["train", "bus", "flight", "ferry"]),
        draw.pick(words.DAYS),
        f"{draw.num(1, 12)} {draw.pick(['am', 'pm'])}",
    )
    price, who = draw.num(5, 400), draw.person()
    text = draw.free(
        "[{n} takes the {v} from {a} to {b} on {d} at {h}. The ticket costs {p} dollars.|{v} from {a} to {b}, {d}, {h}, {p} dollars, passenger {n}.|Book a {v} for {n} from {a} to {b} on {d} at {h} for {p} dollars.]".replace(
            "{n}", who
        )
        .replace("{v}", vehicle)
        .replace("{a}", a)
        .replace("{b}", b)
        .replace("{d}", day)
        .replace("{h}", hour)
        .replace("{p}", str(price))
    )
    record: dict[str, Any] = {
        "from": a,
        "to": b,
        "day": day,
        draw.pick(["time", "departure"]): hour,
        "price": price,
        draw.pick(["passenger", "name"]): who,
        draw.pick(["vehicle", "transport"]): vehicle,
    }
    return knowledge.cap(text), record


GENERIC = PHRASES.lines("generic")


def _value(draw: Draw) -> tuple[str, Any]:
    roll = draw.rng.random()
    if roll < 0.3:
        number = draw.num(1, 5000)
        return str(number), number
    kinds: list[Any] = [
        draw.full,
        draw.first,
        draw.city,
        draw.word,
        draw.noun,
        lambda: draw.pick(words.COLOURS),
        lambda: draw.pick(words.DAYS),
        lambda: draw.pick(words.JOBS),
        lambda: people.book_title(draw),
        lambda: draw.pick(words.FOODS),
    ]
    text = str(draw.pick(kinds)())
    return text, text


def generic_text(draw: Draw) -> tuple[str, dict[str, Any]]:
    """Any keys with any values, said plainly."""
    keys = draw.some(GENERIC, draw.num(2, 5))
    keys = list(dict.fromkeys(keys))
    rows = [(k, *_value(draw)) for k in keys]
    style = draw.num(0, 5)
    if style == 0:
        text = "\n".join(f"{k.capitalize()}: {t}" for k, t, _ in rows)
    elif style == 1:
        text = ", ".join(f"{k} {t}" for k, t, _ in rows)
    elif style == 2:
        text = " ".join(f"The {k} is {t}." for k, t, _ in rows)
    elif style == 3:
        text = f"The {draw.noun()} has the " + words.listing([f"{k} {t}" for k, t, _ in rows]) + "."
    elif style == 4:
        text = "; ".join(f"{k}: {t}" for k, t, _ in rows)
    else:
        text = " ".join(
            draw.pick(
                [
                    f"The {k} is {t}.",
                    f"Its {k} is {t}.",
                    f"It has the {k} {t}.",
                    f"{t} is the {k}." if t == knowledge.cap(t) else f"There is the {k} {t}.",
                ]
            )
            for k, t, _ in rows
        )
    return knowledge.cap(text), {k: v for k, _, v in rows}


NOTES: list[tuple[str, list[str], dict[str, list[str]]]] = [
    ("contact", PHRASES.lines("notes"), {"n": ["name", "person", "contact"], "e": ["email", "mail", "email_address"], "p": ["phone", "phone_number"]}),
    ("book", PHRASES.lines("notes.2"), {"b": ["title", "book"], "n": ["author", "writer"], "y": ["year", "published"]}),
    ("weather", PHRASES.lines("notes.3"), {"t": ["temperature", "degrees"], "c": ["city", "place"], "w": ["weather"]}),
    ("job", PHRASES.lines("notes.4"), {"n": ["name", "person"], "j": ["job", "role", "profession"], "f": ["company", "employer"], "c": ["city"]}),
    ("person", PHRASES.lines("notes.5"), {"n": ["name", "full_name"], "a": ["age"], "c": ["city", "town"], "j": ["job"]}),
    ("order", PHRASES.lines("notes.6"), {"o": ["order", "order_number", "id"], "q": ["quantity", "amount", "count"], "g": ["product", "item"], "x": ["price"], "n": ["name", "customer"]}),
    ("sport", ["{h} beat {k} {q} to {z}.", "{h} won against {k} by {q} to {z} in {c}.", "Final score: {h} {q}, {k} {z}.", "In {c}, {h} played {k}. The winner was {h}.", "{h} beat {k} in {c}.", "{k} lost to {h} in {c}.", "{h} is the winner, {k} the loser.", "The game in {c}: {h} won, {k} lost."], {"h": ["winner", "home", "team"], "k": ["loser", "opponent"], "c": ["city", "place"]}),
    ("film", ['The film "{b}" by {n} starts at {s}.', '"{b}" is shown on {d} at {s} in {c}.', '{n} made the film "{b}" in {y}.', 'We saw "{b}" on {d}.', 'On {d} at {s} there is "{b}" in {c}.', '"{b}" is a film by {n} from {y}.', 'Film: "{b}", {d}, {s}, {c}', 'The director of "{b}" is {n}.'], {"b": ["title", "film"], "n": ["director"], "s": ["time"], "d": ["day"], "c": ["city"], "y": ["year"]}),
    ("product", ["The {i} costs {x} dollars and weighs {q} kilos.", "This {i} is {l} and costs {x} dollars.", "{i}, {l}, {x} euros", "We sell a {l} {i} for {x} pounds.", "The {l} {i} weighs {q} kilos.", "For {x} dollars you get a {l} {i}.", "{i}: {l}, {q} kilos, {x} dollars", "The {i} is {l} and weighs {q} kilos.", "A {l} {i} costs {x} euros here."], {"i": ["product", "item", "name"], "x": ["price", "cost"], "q": ["weight"], "l": ["colour", "color"]}),
    ("travel", ["{n} flies from {c} to {m} on {d}.", "Flight {o} from {c} to {m} leaves at {s}.", "From {c} to {m} on {d} at {s} for {x} dollars.", "{n} needs a ticket to {m} on {d}.", "On {d} {n} goes from {c} to {m}.", "{n} travels to {m} on {d} at {s}. It costs {x} dollars.", "Flight {o}: {c} - {m}, {s}", "Passenger {n}, from {c} to {m}, {d}, {x} dollars"], {"n": ["passenger", "name"], "c": ["from", "origin"], "m": ["to", "destination"], "d": ["day", "date"], "s": ["time"], "x": ["price"], "o": ["flight", "number"]}),
]  # fmt: skip


def note_text(draw: Draw) -> tuple[str, dict[str, Any]]:
    """A note as people write it."""
    _, says, keys = draw.pick(NOTES)
    job = draw.pick(words.JOBS)
    values: dict[str, Any] = {
        "n": draw.full() if draw.chance(0.7) else draw.first(), "e": f"{draw.word()}@{draw.word()}.{draw.pick(['com', 'org', 'net'])}", "p": f"{draw.num(100, 999)}-{draw.num(1000, 9999)}",
        "b": people.book_title(draw), "y": draw.num(1700, 2024), "t": draw.num(1, 38), "c": draw.city(), "m": words.made_city(draw.rng), "w": draw.pick(["sunny", "rainy", "cloudy", "windy"]),
        "j": words.article(job), "j0": job, "f": f"{words.made_name(draw.rng)} {draw.pick(words.COMPANY_END)}", "a": draw.num(4, 95), "o": draw.num(100, 9999), "q": draw.num(2, 60),
        "g": words.plural(draw.noun()), "x": draw.num(2, 400), "h": draw.country(), "k": draw.city(), "z": draw.num(0, 1), "s": f"{draw.num(1, 12)} {draw.pick(['am', 'pm'])}",
        "d": draw.pick(words.DAYS), "i": draw.noun(), "l": draw.pick(words.COLOURS),
    }  # fmt: skip
    shape = draw.pick([s for i, s in enumerate(says) if draw.held or i % 4 != 3])
    present = [k for k in keys if "{" + k + "}" in shape or (k == "j" and "{j0}" in shape)]
    return knowledge.cap(shape.format(**values)), {
        draw.pick(keys[k]): job if k == "j" else values[k] for k in present
    }


def _names(draw: Draw, keys: list[str]) -> str:
    shown = [k for k in keys]
    roll = draw.rng.random()
    if roll < 0.35:
        return words.listing(shown)
    if roll < 0.6:
        return ", ".join(shown)
    if roll < 0.75:
        return ", ".join(f'"{k}"' for k in shown)
    return "the " + words.listing(shown) if roll < 0.9 else ", ".join(f"`{k}`" for k in shown)


def _skeleton(draw: Draw, keys: list[str]) -> str:
    fill = draw.pick(['""', "...", "null", "?"])
    return "{" + ", ".join(f'"{k}": {fill}' for k in keys) + "}"


def sample(draw: Draw) -> Example:
    """One text and the fields that are wanted from it."""
    roll = draw.rng.random()
    limits = [
        (0.28, person_text),
        (0.36, order_text),
        (0.44, event_text),
        (0.52, product_text),
        (0.58, relation_text),
        (0.63, ticket_text),
        (0.78, generic_text),
        (1.0, note_text),
    ]
    maker = next(m for limit, m in limits if roll < limit)
    text, record = maker(draw)
    keys = list(record)
    keys = draw.some(keys, draw.num(1, len(keys))) if draw.chance(0.5) else keys
    wanted: dict[str, Any] = {k: record[k] for k in keys}
    if draw.chance(0.12):
        other = draw.pick(
            [n for ks in KINDS.values() for n in ks] + ["address", "weight", "size", "note"]
        )
        if other not in record and not {"place", "name"} & {other} and not _covered(other, record):
            at = draw.num(0, len(keys))
            wanted = dict([*list(wanted.items())[:at], (other, None), *list(wanted.items())[at:]])
    messages = _asked(draw, text, list(wanted))
    return Example(
        "extract",
        messages,
        ("assistant", json.dumps(wanted, ensure_ascii=False)),
        {"kind": "json", "value": wanted},
        templates=draw.used,
    )


def _covered(key: str, record: dict[str, Any]) -> bool:
    same = [{"city", "town", "place", "location", "where", "from", "to"}, {"birth_year", "year", "born", "age"}, {"title", "book", "event", "what"}, {"email", "mail"}, {"phone", "phone_number", "telephone"}, {"job", "profession", "occupation"}, {"company", "employer", "brand"}, {"food", "favourite_food"}, {"drink", "favourite_drink"}, {"colour", "favourite_colour", "color"}, {"language"}, {"partner"}]  # fmt: skip
    return any(key in group and any(k in group for k in record) for group in same)


def _asked(draw: Draw, text: str, keys: list[str]) -> list[Message]:
    if draw.chance(0.2):
        ask = draw.say(SHAPE, f=_skeleton(draw, keys))
    else:
        ask = draw.say(ASK, f=_names(draw, keys))
        if draw.chance(0.12):
            ask += draw.pick(PHRASES.lines("asked"))
    roll = draw.rng.random()
    if roll < 0.12:
        return [("system", ask), ("user", text)]
    if roll < 0.3:
        return system(draw, [("user", draw.say(BEFORE, t=text, a=ask, L=label(draw)))])
    return system(draw, [("user", ask + draw.say(TEXT, t=text, L=label(draw)))])

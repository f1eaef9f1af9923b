"""Fields from a text as one JSON object; null where the text does not say."""

from __future__ import annotations

import json
from typing import Any

from skills import knowledge, people, words
from skills.core import Draw, Example, Message, Pool, label, system

ASK = Pool(
    "extract.ask",
    """
[Extract|Give|Output|Find|Get] {f} as [JSON|a JSON object][.|:]
Extract the fields {f} as JSON.
Return a JSON object with the fields {f}.
[Give|Return|Write|Output] {f} as [a JSON object|JSON].
Turn this into JSON with the keys {f}.
[Get|Extract|Read|Collect] {f} [from|out of] the [text|message]. [Answer|Reply] [in|with|as] JSON.
[Fields|Keys|Wanted]: {f}. [Reply with|Output|Write|Return|Format:] JSON[| only].
Find {f} in the text and [write|return|give] them as JSON.
Pull {f} out of this text as [a |]JSON[ object|].
Fill in a JSON object with the keys {f}.
Read the text and return JSON with {f}.
Convert the text to JSON. Use the [keys|fields] {f}.
[I need|Please give me] {f} from the text in JSON[| format].
JSON with {f}[, please.|:|]
What are {f}? Answer [with|in|as] JSON.
Parse the text. Keys: {f}. Format: JSON.
Create [a |]JSON[ object|] with {f} from this [sentence|text].
List {f} as JSON.
Take {f} from the [message|text] and put them into a JSON object.
[Write|Create|Make|Build|Produce] [a |]JSON object with {f}.
[Write|Print|Show] {f} as [a |]JSON[ object|].
Fields: {f}. Format: JSON.
Fields: {f}
Keys: {f}. [Return|Answer with|Write] JSON.
[Make|Write] JSON from [this|the] [text|sentence]. [Fields|Keys]: {f}.
Which {f} does the text give? [Reply|Answer] as JSON.
Extract: {f}. [Reply|Answer] in JSON.
From the text, [extract|take|get] {f} as JSON.
I want a JSON object with the fields {f}.
Please extract {f} [as|into] [a |]JSON[ object|].
[Extract|Get|Collect] {f} in JSON[ format|].
Give me JSON with {f}.
Output a JSON object with {f}.
[Summarise|Record|Store] the text as JSON with the [keys|fields] {f}.
JSON object, keys {f}.
[Identify|Detect] {f} and [output|return] JSON.
Your task: extract {f}. Output JSON only.
Extract the following fields as JSON: {f}.
Extract {f} from [this|the following] text as JSON.
Read this and answer with a JSON object that has the [keys|fields] {f}.
[Keys|Fields|Wanted|Required|Needed|Names]: {f}[. JSON.|. Return JSON.|. Write JSON.|. As JSON.|. Give JSON.|. Output JSON.]
[Fill|Complete|Make|Fill in] [a|the|one] JSON [object|record] with [the keys|the fields|] {f}.
[Keys|Fields|Wanted|Required|Needed]: {f}[.|] [Return|Reply with|Answer in|Only|Output only] JSON.
[Your task|The task|Task|Job]: [extract|find|get|return] {f}. [Output JSON only.|JSON only.|Answer in JSON.|Return JSON.]
[Give|Get|Return|Extract|Write|Find|Record|Store] {f} [as|in] JSON.
[Extract|Take|Copy] {f} [from|out of] [the text|this|the following] [and return JSON|as JSON|into JSON].
JSON with {f}[:|.|]
[Extract|Return|Output|Wanted]: {f} [as JSON|in JSON|(JSON)].
[Please write|Please give me|Please return|Please find] {f} [as|in] JSON.
{f} as JSON, please[.|:]
JSON, please: {f}
[Answer with|Give me|I want] JSON that has {f}[, please|].
[Which|What] {f}? [Reply|Answer] [in|with] JSON[, please|].
[Find|Look for] {f}[, please|] and answer [in|with] JSON[, please|].
As JSON, please: {f}
[Return|Give|Print] a JSON object: {f}
[Task|Job]: [read the text and return|get] {f} as JSON[, please|].
[Read|Take] the text and [write|give] a JSON object with {f}[, please|].
[Find|Get|Take] {f}, then [answer|reply] [with|in] JSON.
{f} in JSON[, please|][.|:]
[Read|See] the text, [find|get] {f}, [answer|reply] [in|with] JSON[, please|].
[Search|Scan] the text for {f}. [Answer|Reply] [in|with|as] JSON.
[I ask for|We need|Needed are] {f}. JSON[, please|].
Only these [fields|keys]: {f}. [Answer|Reply] [as|in] JSON.
Give {f}. [Answer|Reply] [as|in] JSON[, please|].
[Answer|Reply] [as|in|with] JSON: {f}
[What|Which] are {f} [here|in the text]? [Answer|Reply] with JSON[, please|].
[Look up|Note|Copy] {f} and [reply|give the answer] in JSON[, please|].
Please [take|copy|note] {f} as JSON[.|:]
{f} - [JSON, please|as JSON|in JSON].
[Give me|I want|I need] {f} as JSON, please[.|:]
""",
)
SHAPE = Pool(
    "extract.shape",
    """
[Fill this JSON|Fill in this JSON|Fill the JSON] [from|with] the text: {f}
Use this [form|format|shape|skeleton]: {f}
Return JSON like this: {f}
[Extract the data|Read the text]. [Output format|Format|Output|Shape]: {f}
Complete {f} from the text.
The answer must [look like|have the form] {f}
Extract the data as JSON in this shape: {f}
[Extract the data|Extract|Parse the text|Read the text|Data][ as JSON|][.|] [Format|Form|JSON|Output|Shape|Template][:| -] {f}
[Put|Write] the data into this JSON: {f}
[Give|Return] the answer [in the form|in this form|as] {f}
[Output|Reply with|Write] JSON of the form {f}
Here is an empty JSON object: {f} Fill it.
JSON template: {f}
[Your answer|The output] should be {f} with the values [from|of] the text.
Take the values from the text and fill {f}
[Read|Use] the text. [Fill|Complete] this: {f}
[Schema|Skeleton|Empty form]: {f}
[Make|Produce|Create] JSON like {f}
""",
)
TEXT = Pool(
    "extract.text",
    """
\\n[Text|Input|Message|Content|Data|Note]: {t}
\\n{t}
\\n"{t}"
\\n\\n{t}
\\nText:\\n{t}
\\nHere is the text: {t}
 {t}
\\n\\nText: {t}
\\nMessage: {t}
\\nInput: {t}
\\n---\\n{t}
\\nSentence: {t}
\\nThe text: {t}
: {t}
\\nNote: {t}
\\n{L}: {t}
\\n[This|Here] [begins|starts] the text:\\n{t}
\\n{L}: {t}
\\n\\n{L}: {t}
\\n{L}:\\n{t}
\\n{L}: "{t}"
 {L}: {t}
\\n[The text is|The text says|It says|This is what it says]: {t}
\\n[Use|Take|Read] this[ text|]: {t}
\\n[This is the text|Here it is|Here is what I have|This is the input].\\n{t}
\\n[The message is as follows|The text is as follows|As follows].\\n{t}
\\n<text>{t}</text>
\\n<[message|data|input|doc|note|email|content|source]>{t}</end>
\\n<[message|data|input|doc|note|email|content|source]>\\n{t}\\n</end>
\\n>>> {t}
\\n```\\n{t}\\n```
\\n({t})
\\n=== {t} ===
\\n[Begin|Start|Text]>>{t}<<[End|Stop|Text]
\\n'{t}'
\\n* {t}
\\n[Input|Document|Email] 1: {t}
\\n[I got this message|I have this text|We got this|This came today]: {t}
\\n[It reads|They wrote|I wrote|Someone wrote]: "{t}"
\\n***\\n{t}\\n***
""",
)
BEFORE = Pool(
    "extract.before",
    """
{t}\\n{a}
{L}: {t}\\n{a}
{t}\\n\\n{a}
Text: {t}\\n{a}
"{t}"\\n{a}
Here is a text: {t}\\n{a}
[I got this|Look at this|Read this]: {t}\\n{a}
{t}\\nThat was the text. {a}
[This is a message|There is this text]: {t}\\n\\n{a}
[They wrote|Someone wrote|My friend wrote]: "{t}"\\n{a}
{t}\\n---\\n{a}
[The text is|The message is|It says]: {t}\\n{a}
{t}\\nFrom this: {a}
{t}\\n[Task|Your task|Now]: {a}
""",
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
    """
Please send {q} {p} at {x} {u} each[| to {c}].
I would like to order {q} {p} for {x} {u} each.
[{n} ordered|Order by {n}:|New order by {n}:] {q} [x |]{p} at {x} {u} each[| on {d}].
{n} bought {q} {p} for {x} {u} each in {c}.
Order from {n}: {q} {p}, {x} {u} each, ship to {c}.
{q} {p} at a price of {x} {u} were sold to {n} [on {d}|].
We need {q} {p} by {d}. The price is {x} {u} each.
On {d}, {n} paid {x} {u} each for {q} {p}.
Hello, this is {n}. Send me {q} {p} ({x} {u} each).
{n} from {c} wants {q} {p} for {x} {u} each.
{n} sold {q} {p} for {x} {u} each on {d}.
[I bought|New order:|We sold|Order:|Delivery:] {q} [x |]{p}, [each for |]{x} {u}[, in {c}|].
{n} needs {q} {p} before {d} and pays {x} {u} each.
New order: {q} x {p}, {x} {u}, for {n}.
Can you deliver {q} {p} to {c}? {n} offers {x} {u} each.
{n} would like {q} {p}, at {x} {u} each[|, sent to {c}].
[Order|Sale] on {d}: {q} {p} for {x} {u} each, {n}.
Dear team, I need {q} {p}. I can pay {x} {u} each. {n}
On {d} we sent {q} {p} to {n} in {c}, {x} {u} each.
{p}: {q} at {x} {u} each, for {n}.
[My name is|I am] {n} and I want to buy {q} {p} at {x} {u} each.
{n} paid {x} {u} for each of {q} {p}.
{n} in {c} needs {q} {p} at {x} {u}.
{n}, who lives in {c}, wants {q} {p} for {x} {u} each.
From {n}, {c}: {q} {p}, {x} {u} each.
{n} of {c} orders {q} {p} ({x} {u} each).
[A customer|Someone] from {c}, {n}, buys {q} {p} for {x} {u} each.
""",
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
    what = draw.pick(
        [
            "concert",
            "meeting",
            "party",
            "lesson",
            "match",
            "film",
            "talk",
            "market",
            "wedding",
            "exam",
            "trip",
            "dinner",
            "workshop",
            "lunch",
        ]
    )
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


GENERIC = [
    "temperature",
    "city",
    "size",
    "weight",
    "colour",
    "price",
    "year",
    "title",
    "author",
    "date",
    "time",
    "place",
    "address",
    "name",
    "age",
    "height",
    "width",
    "length",
    "speed",
    "status",
    "type",
    "brand",
    "model",
    "owner",
    "country",
    "language",
    "number",
    "code",
    "level",
    "score",
    "team",
    "player",
    "goal",
    "topic",
    "subject",
    "teacher",
    "room",
    "floor",
    "street",
    "country",
    "capital",
    "weather",
    "amount",
    "total",
    "currency",
    "product",
    "quantity",
    "customer",
    "supplier",
    "email",
    "phone",
    "website",
    "company",
    "job",
    "salary",
    "start",
    "end",
    "duration",
    "rating",
    "rank",
    "version",
]


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
    ("contact", ["You can reach {n} at {e}.", "Contact {n} at {e}.", "Write to {n}, {e}.", "{n} can be reached at {e} or {p}.", "Call {n} at {p}.", "{n}: {e}, {p}", "For questions ask {n} ({e}).", "Please send the letter to {n} at {e}.", "The email of {n} is {e}.", "{n} has the email {e} and the phone number {p}.", "My phone is {p} and my mail is {e}. {n}", "Ask {n}: {p} or {e}.", "{n}, phone {p}, email {e}"], {"n": ["name", "person", "contact"], "e": ["email", "mail", "email_address"], "p": ["phone", "phone_number"]}),
    ("book", ['"{b}" was written by {n} in {y}.', '{n} wrote "{b}" in {y}.', 'In {y}, {n} published "{b}".', 'I liked "{b}" by {n} ({y}).', 'The book "{b}" by {n} came out in {y}.', '"{b}", a book by {n}, is from {y}.', 'The author of "{b}" is {n}. It is from {y}.', '{n} is the writer of "{b}".', '"{b}" ({n}, {y}) is a good book.', 'I read "{b}" by {n}.'], {"b": ["title", "book"], "n": ["author", "writer"], "y": ["year", "published"]}),
    ("weather", ["It is {t} degrees in {c} today.", "In {c} it is {t} degrees and {w}.", "{c} is {w} today, {t} degrees.", "Weather for {c}: {w}, {t} degrees.", "Today: {t} degrees, {w}, {c}.", "{w} weather in {c}, {t} degrees", "The weather in {c} is {w}.", "We have {t} degrees here in {c} and it is {w}.", "The temperature in {c} is {t} degrees.", "{c}: {t} degrees, {w}", "It is {w} in {c}. The temperature is {t} degrees.", "{c} today: {w}"], {"t": ["temperature", "degrees"], "c": ["city", "place"], "w": ["weather"]}),
    ("job", ["{n} is {j} at {f}.", "{n} is {j} at {f} in {c}.", "{n} works as {j} for {f}.", "{n}, {j} at {f}, lives in {c}.", "Our new {j0} at {f} is {n} from {c}.", "{f} has a new {j0}: {n}.", "{n} from {c} is now {j} at {f}.", "As {j}, {n} works at {f} in {c}.", "{n} ({j0}, {f})", "{f} in {c} pays {n}, {j}."], {"n": ["name", "person"], "j": ["job", "role", "profession"], "f": ["company", "employer"], "c": ["city"]}),
    ("person", ["{n} ({a}) is {j} from {c}.", "My name is {n}, I am {a} and I live in {c}.", "I am {n}, {a} years old, from {c}.", "{n} from {c} is {a}.", "{n}, {a}, {j}, {c}", "This is {n}. She is {a} years old and comes from {c}.", "{n}, age {a}, {c}", "{n} comes from {c} and is {a}.", "In {c} lives {n}, {j}, aged {a}.", "Meet {n}, {a}, {j} from {c}.", "{n} is {a} years old and works as {j} in {c}.", "Name: {n}. Age: {a}. City: {c}."], {"n": ["name", "full_name"], "a": ["age"], "c": ["city", "town"], "j": ["job"]}),
    ("order", ["Order {o}: {q} {g} for {n}.", "{n} ordered {q} {g}, order number {o}.", "{q} {g} at {x} dollars each for {n}.", "New order {o}: {q} x {g}, {x} dollars, {n}.", "I would like {q} {g}, please. My name is {n}.", "{n} wants {q} {g}, {x} dollars each.", "Please deliver {q} {g} to {n}. Order number: {o}.", "{q} x {g}, order {o}", "Order number {o} is from {n}: {q} {g}.", "{n} has ordered {q} {g} for {x} dollars each (order {o})."], {"o": ["order", "order_number", "id"], "q": ["quantity", "amount", "count"], "g": ["product", "item"], "x": ["price"], "n": ["name", "customer"]}),
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
            ask += draw.pick(
                [
                    " Use null for what is missing.",
                    " Only JSON.",
                    " No other text.",
                    " Write null if the text does not say.",
                ]
            )
    roll = draw.rng.random()
    if roll < 0.12:
        return [("system", ask), ("user", text)]
    if roll < 0.3:
        return system(draw, [("user", draw.say(BEFORE, t=text, a=ask, L=label(draw)))])
    return system(draw, [("user", ask + draw.say(TEXT, t=text, L=label(draw)))])

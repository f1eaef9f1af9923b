"""A quotation with a note on its author: name the author, then answer questions about the author."""

from __future__ import annotations

from skills import knowledge, people, words
from skills.core import Check, Draw, Example, Message, Pool, contains, equals, label, system
from skills.facts import form
from skills.knowledge import QA

ASK = Pool(
    "quote.ask",
    """
Name the author of the quotation, then answer the questions.\\n
Who is the author of this [quotation|quote]?\\n
Name the author of [the|this] [quotation|quote].\\n
Who [said|wrote] this?\\n
[Read the quotation and name|Tell me] its author.\\n
Tell me the author of [this|the] [quotation|quote], then answer [my|some] questions.\\n
First name the author of the quotation. Then answer the questions.\\n
[Say|State] who [wrote|said] the following[ words|].\\n
Here is a [quotation|quote]. Who is its author?\\n
Who is the [author|writer] of the following words?\\n
Whose words are these?\\n
Name the author[, please|].\\n
Identify the [author|writer] of the quotation[, then answer the questions|].\\n
[Give|Find] the author of the [following|next] [quotation|quote].\\n
Who is [it|this] by?\\n
Please name the [author|writer] of [this|the] [quotation|quote|saying|line].\\n
By whom is this [quotation|quote|saying]?\\n
Which author [said|wrote] [this|the following]?\\n
[First|Now] [say|tell me|name] the [author|writer][, then answer|. Then answer] [my|the|some] questions.\\n
Read the [quotation|quote]. Name [the|its] [author|writer], then answer the questions.\\n
Look at this quotation and [tell me|say] who [wrote|said] it.\\n
""",
)
NOTE = Pool(
    "quote.note",
    """
"{q}" ({n})
"{q}"\\n({n})
"{q}"\\n{n}
"{q}"\\nFacts: {n}
{q} ({n})
"{q}"\\n\\nFacts about the author: {n}
"{q}"\\nAbout the author: {n}
Quotation: "{q}"\\nNotes: {n}
Quote: "{q}"\\nFacts:\\n{n}
"{q}" - {n}
'{q}' ({n})
Facts: {n}\\nQuotation: "{q}"
"{q}"\\n{L}: {n}
"{q}"\\n\\n{L}: {n}
{L}: "{q}" ({n})
{L}: {q}\\nFacts: {n}
"{q}" {n}
"{q}"\\n- {n}
"{q}"\\n[Who wrote it|About the writer|The writer]: {n}
"{q}"\\n[This is known|We know this|I know this]: {n}
[Somebody wrote|Someone said|It was once said]: "{q}"\\n{n}
[The quotation|The words|The line] is "{q}" ({n})
"{q}"\\n[Here are some facts|Some facts|A few facts] about the author: {n}
"{q}"\\n[From the book cover|From a dictionary|From the notes]: {n}
"{q}"\\n[Author facts|On the author|Life]: {n}
""",
)
QUOTES = Pool(
    "quote.text",
    """
A {n} does not ask the way.
Every {n} was once a {m}.
[Never|Do not] trust a {n} that {v}.
The {a} {n} [always |]{v} [before the storm|in the end|at night|alone].
[We|You] carry our {n} in a {m}.
[Who|He who] loves a {n} will [never|soon] fear a {m}.
Even a {a} {n} {v}.
[Life|Love|Time|Hope|Work] is a {a} {n}.
[Life|Love|Time|Hope|Work] is like a {n}: it {v}.
There is no {n} without a {m}.
The {n} knows what the {m} forgets.
[Give|Show] me a {n} and I will [give|show] you a {m}.
A {a} {n} is better than a {b} {m}.
One {n} is enough for a whole {m}.
[To be or not to be|I came, I saw, I left|I think, so I am].
[Be kind|Be brave|Stay calm], and the {n} will follow.
If the {n} {v}, open the {m}.
[All|Most] that {v} is not a {n}.
""",
)
VERBS = [
    "sings",
    "waits",
    "sleeps",
    "grows",
    "falls",
    "burns",
    "moves",
    "speaks",
    "laughs",
    "breaks",
    "shines",
    "returns",
    "hides",
    "listens",
]
KEYS = [
    "year",
    "city",
    "born",
    "job",
    "book",
    "instrument",
    "language",
    "pets",
    "hobby",
    "drink",
    "food",
    "subject",
    "age",
    "company",
    "brother",
    "sister",
]
PRONOUN = [
    "the author",
    "the author",
    "the author",
    "the writer",
    "this person",
    "this author",
    "the person",
]
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

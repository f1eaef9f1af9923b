"""A persona in the system message, a two-party chat, and memory of what the other side said about themselves."""

from __future__ import annotations

from skills import people, words
from skills.core import Check, Draw, Example, Message, Pool, contains
from skills.people import ATTRIBUTES, Person
from skills.phrases import Phrases

PHRASES = Phrases("persona")

SYSTEM = Pool(
    "persona.system",
    PHRASES.text("persona.system"),
)
HELLO = Pool(
    "persona.hello",
    PHRASES.text("persona.hello"),
)
HELLO_BACK = PHRASES.lines("hello_back")
NAME_ASK = Pool(
    "persona.name",
    PHRASES.text("persona.name"),
)
MY_NAME = Pool(
    "persona.myname",
    PHRASES.text("persona.myname"),
)
OTHER = {
    "city": ("I live in {o}.|I come from {o}.|I am from {o}.", "Where do I live?|Where am I from?|Do you remember where I live?|Which city do I live in?", "You live in {o}."),
    "job": ("I am {ao}.|I work as {ao}.", "What is my job?|What do I do for a living?|What do I work as?|Do you remember my job?", "You are {ao}."),
    "pets": ("I have {o}.", "What pets do I have?|Which pets do I have?|Do you remember my pets?|What animals do I have?", "You have {o}."),
    "age": ("I am {o} years old.|I'm {o}.", "How old am I?|What is my age?|Do you remember how old I am?", "You are {o} years old."),
    "drink": ("I like {o}.|I drink {o}.", "What do I like to drink?|What do I drink?|Do you remember what I drink?", "You like {o}."),
    "food": ("I love {o}.|I like {o}.|My favourite food is {o}.", "What do I like to eat?|What is my favourite food?|Do you remember what I eat?", "You like {o}."),
    "hobby": ("I like {o}.|My hobby is {o}.|I enjoy {o}.", "What is my hobby?|What do I enjoy?|What do I like to do?", "You like {o}."),
    "colour": ("My favourite colour is {o}.|I like the colour {o}.", "What is my favourite colour?|Which colour do I like?", "Your favourite colour is {o}."),
    "instrument": ("I play the {o}.", "Which instrument do I play?|What do I play?|What instrument do I play?", "You play the {o}."),
    "language": ("I speak {o}.", "Which language do I speak?|What do I speak?|What language do I speak?", "You speak {o}."),
}  # fmt: skip
MINE = PHRASES.lines("mine")
YOU_SAY = {
    "city": "You live in {o}", "job": "You are {ao}|You work as {ao}", "age": "You are {o} years old", "food": "You like {o}|You love {o}", "drink": "You like {o}|You drink {o}|You only drink {o}",
    "colour": "Your favourite colour is {o}|You like the colour {o}", "pets": "You have {o}|You own {o}", "instrument": "You play the {o}", "hobby": "You like {o}|You enjoy {o}|Your hobby is {o}",
    "sport": "You do {o}|Your sport is {o}", "brother": "Your brother is called {o}|You have a brother called {o}", "sister": "Your sister is called {o}|You have a sister called {o}", "language": "You speak {o}",
    "subject": "You study {o}|You studied {o}", "born": "You were born in {o}|You come from {o}", "company": "You work for {o}|You work at {o}", "ride": "You drive {ao}|You own {ao}", "best_friend": "Your best friend is called {o}",
}  # fmt: skip
PHRASE = {"job": "{ao}", "city": "from {o}"}


def _describe(draw: Draw, who: Person, style: str) -> str:
    keys = draw.shuffled(list(who.facts))
    out = []
    for key in keys:
        slot = people.slots(key, who.name, who.facts[key])
        if style == "you":
            out.append(draw.pick(YOU_SAY[key].split("|")).format(**slot))
        else:
            out.append(
                "They"
                if False
                else f"{draw.pick([who.first, 'She', 'He'])} {draw.say(ATTRIBUTES[key].says, **slot)}"
            )
    joined: list[str] = []
    while out:
        if len(out) > 1 and style == "you" and draw.chance(0.35):
            second = out.pop(1)
            joined.append(f"{out.pop(0)} and {second[0].lower() + second[1:]}.")
        else:
            joined.append(out.pop(0) + ".")
    return " ".join(joined)


def _system(draw: Draw, me: Person) -> str:
    if "job" in me.facts and draw.chance(0.4):
        slot = people.slots("job", "", me.facts["job"])
        rest = Person(me.name, {k: v for k, v in me.facts.items() if k not in ("job", "city")})
        where = f" from {me.facts['city']}" if "city" in me.facts else ""
        return draw.say(
            SYSTEM, n=f"{me.name}, {slot['ao']}{where}", d=_describe(draw, rest, "you")
        ).strip()
    return draw.say(
        SYSTEM, n=me.name, d=_describe(draw, me, "you" if draw.chance(0.8) else "third")
    )


def _ask_me(draw: Draw, me: Person) -> tuple[str, str, Check]:
    key = draw.pick(list(me.facts))
    slot = people.slots(key, "", me.facts[key])
    answer = draw.fill(ATTRIBUTES[key].me.parsed[0], slot) + "."
    if key == "born":
        answer = f"I was born in {slot['o']}."
    return draw.say(ATTRIBUTES[key].ask_me, **slot), answer, contains(slot["o"])


def _ask_name(draw: Draw, me: Person) -> tuple[str, str, Check]:
    return draw.say(NAME_ASK), f"I am {me.name}.", contains(me.name)


def _turns(
    draw: Draw, me: Person, other: Person
) -> tuple[list[Message], list[tuple[str, str, Check]]]:
    """The greeting, and the questions that can follow."""
    said = " ".join(
        draw.pick(OTHER[k][0].split("|")).format(**people.slots(k, "", other.facts[k]))
        for k in other.facts
    )
    hello = draw.say(HELLO, n=other.name, d=said).strip()
    back = draw.pick(HELLO_BACK).format(n=other.first, m=me.name)
    later = [(draw.say(MY_NAME), f"Your name is {other.name}.", contains(other.name))]
    for key in other.facts:
        slot = people.slots(key, "", other.facts[key])
        asks = OTHER[key][1].split("|")
        usable = [a for i, a in enumerate(asks) if (i % 3 == 2) == draw.held] or asks
        later.append((draw.pick(usable), OTHER[key][2].format(**slot), contains(slot["o"])))
    return [("user", hello), ("assistant", back)], later


SMALL = [
    ("How are you?", "I am fine, thank you!"),
    ("Nice to meet you.", "Nice to meet you too!"),
    ("Tell me more.", "There is not much more to tell."),
    ("Thanks.", "You are welcome!"),
]


def sample(draw: Draw) -> Example:
    """A chat of one to five turns; the last answer is checked."""
    keys: list[str] = []
    for key in draw.shuffled(MINE):
        if len(keys) < 4 and not any(
            people.conflict(key, k) and {key, k} & {"born", "job", "ride", "food"} for k in keys
        ):
            keys.append(key)
    me = people.person(
        draw, keys[: draw.num(1, 4)], name=draw.full() if draw.chance(0.6) else draw.first()
    )
    other = Person(
        draw.person(),
        {k: ATTRIBUTES[k].value(draw) for k in draw.some(_apart(draw), draw.num(0, 2))},
    )
    messages: list[Message] = [("system", _system(draw, me))]
    greeted = draw.chance(0.6)
    turns, later = _turns(draw, me, other)
    if greeted:
        messages += turns
    questions = [_ask_me(draw, me) for _ in range(draw.num(1, 3))] + (
        [_ask_name(draw, me)] if draw.chance(0.35) else []
    )
    questions += later if greeted else []
    if draw.chance(0.15):
        ask, answer = draw.pick(SMALL)
        questions.append((ask, answer, contains("")))
    chosen = draw.shuffled(questions)[: draw.num(1, 4)]
    last = [q for q in chosen if q[2]["value"] != [""]] or [questions[0]]
    for ask, answer, _ in (q for q in chosen if q is not last[-1]):
        messages += [("user", draw.loosen(ask)), ("assistant", answer)]
    ask, answer, check = last[-1]
    return Example(
        "persona",
        [*messages, ("user", draw.loosen(ask))],
        ("assistant", answer),
        check,
        templates=draw.used,
    )


def _apart(draw: Draw) -> list[str]:
    """Things the other side may say together without making a question ambiguous."""
    return draw.pick(
        [
            ["city", "job"],
            ["job", "pets", "colour"],
            ["city", "age", "pets"],
            ["hobby", "city"],
            ["drink", "instrument"],
            ["food", "job"],
            ["language", "city", "age"],
            ["colour", "instrument", "job"],
        ]
    )


__all__ = ["sample", "words"]

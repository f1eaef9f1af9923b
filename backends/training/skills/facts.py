"""Answering from facts in the prompt, also after a prefilled beginning, also when the facts came earlier in the chat."""

from __future__ import annotations

from skills import knowledge, people, words
from skills.core import Check, Draw, Example, Message, Pool, contains, equals, label, system
from skills.knowledge import QA
from skills.phrases import Phrases

PHRASES = Phrases("facts")

HEAD = Pool(
    "facts.head",
    PHRASES.text("facts.head"),
)
NO_HEAD = Pool("facts.nohead", ["", "", "", "", "Hi! ", "OK, listen. ", ""])
ASK = Pool(
    "facts.ask",
    PHRASES.text("facts.ask"),
)
WORD = Pool(
    "form.word",
    PHRASES.text("form.word"),
)
BARE = Pool(
    "form.bare",
    PHRASES.text("form.bare"),
)
NAME = Pool(
    "form.name",
    PHRASES.text("form.name"),
)
NUMBER = Pool(
    "form.number",
    PHRASES.text("form.number"),
)
SENTENCE = Pool(
    "form.sentence",
    PHRASES.text("form.sentence"),
)
SHORT = Pool(
    "form.short",
    PHRASES.text("form.short"),
)
YESNO = Pool(
    "form.yesno",
    PHRASES.text("form.yesno"),
)


def form(draw: Draw, qa: QA) -> tuple[str, str]:
    """A request for a form of answer (may be empty) and the answer in that form."""
    if qa.kind == "yesno":
        return (draw.say(YESNO), qa.bare) if draw.chance(0.65) else ("", qa.bare + ".")
    if qa.kind == "absent":
        return draw.pick(["", "", "", draw.say(SHORT), draw.say(SENTENCE)]), "The facts do not say."
    roll = draw.rng.random()
    if roll < 0.45:
        return (draw.say(SHORT) if draw.chance(0.3) else ""), qa.short + "."
    if roll < 0.62:
        return draw.say(SENTENCE), qa.full + "."
    if qa.kind == "who" and roll < 0.85:
        return draw.say(NAME), qa.bare
    if qa.bare.isdigit() and roll < 0.85:
        return draw.say(NUMBER), qa.bare
    if " " not in qa.bare and "-" not in qa.bare and roll < 0.92:
        return draw.say(WORD), qa.bare
    return draw.say(BARE), qa.bare


def laid_out(draw: Draw, facts: list[str]) -> str:
    """The facts as a paragraph, lines, dashes or numbers, now and then between marks."""
    if draw.chance(0.05):
        return draw.pick(MARKS).replace("{t}", _laid_out(draw, facts))
    return _laid_out(draw, facts)


MARKS = [
    *(f"<{tag}>\n{{t}}\n</{tag}>" for tag in ("facts", "data", "notes", "context", "doc", "text")),
    "<data>{t}</data>",
    "```\n{t}\n```",
    '"{t}"',
    '"""\n{t}\n"""',
    "---\n{t}\n---",
    "({t})",
    ">>> {t}",
    "===\n{t}\n===",
]


def _laid_out(draw: Draw, facts: list[str]) -> str:
    roll = draw.rng.random()
    if roll < 0.4:
        return " ".join(facts)
    if roll < 0.6:
        return "\n".join(facts)
    if roll < 0.9:
        mark = draw.pick(["- ", "- ", "* "])
        return "\n".join(mark + f for f in facts)
    return "\n".join(f"{i}. {f}" for i, f in enumerate(facts, 1))


def _check(qa: QA, answer: str) -> Check:
    if qa.kind == "absent":
        return contains("not say")
    if answer.endswith(".") and len(answer) > len(qa.short) + 1:
        return contains(qa.bare)
    return equals(answer)


def _head(draw: Draw) -> str:
    name = label(draw)
    return draw.say(HEAD, L=name, l=name.lower().removeprefix("the "))


def question(draw: Draw) -> QA:
    roll = draw.rng.random()
    return (
        knowledge.yes_no(draw)
        if roll < 0.15
        else knowledge.absent_qa(draw)
        if roll < 0.21
        else knowledge.any_qa(draw)
    )


def padded(draw: Draw, facts: list[str]) -> list[str]:
    """At times many more facts that have nothing to do with the question."""
    if not draw.chance(0.12):
        return facts
    extra = [f"{t}." for t in (knowledge.relation_qa(draw).full for _ in range(draw.num(3, 25)))]
    at = draw.num(0, len(extra))
    return extra[:at] + facts + extra[at:]


def make(draw: Draw) -> Example:
    """One question in one of five settings."""
    qa = question(draw)
    facts = laid_out(draw, padded(draw, qa.facts))
    request, answer = form(draw, qa)
    roll = draw.rng.random()
    messages: list[Message]
    if roll < 0.6:
        messages = _one_message(draw, qa, facts, request)
    elif roll < 0.75:
        head = draw.pick(
            [
                "",
                "Facts:\n",
                "You know these facts:\n",
                "Answer from these facts.\n",
                "You are a helpful assistant. ",
            ]
        )
        messages = [("system", head + facts), ("user", _asked(draw, qa, request))]
    elif roll < 0.88:
        messages = _told_before(draw, qa, facts, request)
    else:
        messages = _rules_in_system(draw, qa, facts, request)
    example = Example(
        "facts", messages, ("assistant", answer), _check(qa, answer), templates=draw.used
    )
    if (
        answer == qa.full + "."
        and draw.chance(0.5)
        and qa.bare in answer
        and not answer.startswith(qa.bare)
    ):
        example.prefill = answer[: answer.index(qa.bare)]
        example.check = contains(qa.bare)
    example.rest = _more(draw, qa)
    return example


def _asked(draw: Draw, qa: QA, request: str) -> str:
    question = draw.loosen(qa.question) if not request else qa.question
    return f"{question} {request}".strip() if draw.chance(0.8) else f"{request} {question}".strip()


def _one_message(draw: Draw, qa: QA, facts: str, request: str) -> list[Message]:
    if draw.chance(0.12):
        text = f"{qa.question}\n{_head(draw)}{facts}" + (f"\n{request}" if request else "")
        return system(draw, [("user", text)])
    head = _head(draw) if draw.chance(0.65) else draw.say(NO_HEAD)
    asked = draw.say(ASK, q=qa.question)
    if not request:
        return system(draw, [("user", draw.loosen(head + facts + asked))])
    if asked.endswith(":"):
        return system(draw, [("user", f"{request}\n{head}{facts}{asked}")])
    gap = draw.pick([" ", " ", "\n", "\n\n"])
    return system(draw, [("user", head + facts + asked + gap + request)])


def _told_before(draw: Draw, qa: QA, facts: str, request: str) -> list[Message]:
    said = (
        draw.free(
            "[Here are some facts:\n|Remember this: |I will tell you something. |Please note: |Facts:\n||]"
        )
        + facts
    )
    reply = draw.pick(PHRASES.lines("told_before"))
    messages: list[Message] = [("user", said), ("assistant", reply)]
    if draw.chance(0.3):
        messages += [
            ("user", draw.pick(["Thanks.", "Thank you!", "Good."])),
            ("assistant", draw.pick(["You are welcome.", "You are welcome!"])),
        ]
    return system(draw, [*messages, ("user", _asked(draw, qa, request))])


def _rules_in_system(draw: Draw, qa: QA, facts: str, request: str) -> list[Message]:
    text = draw.free(
        "[Answer from the facts.|You answer questions about a text.|You are a helpful assistant.]"
    )
    text = f"{text} {request}".strip() if draw.chance(0.7) else request or text
    return [
        ("system", text),
        (
            "user",
            facts + draw.say(ASK, q=qa.question).removesuffix("\nAnswer:").removesuffix("\nA:"),
        ),
    ]


def _more(draw: Draw, qa: QA) -> list[Message]:
    if qa.more:
        out: list[Message] = []
        for each in qa.more:
            request, answer = form(draw, each)
            out += [("user", f"{each.question} {request}".strip()), ("assistant", answer)]
        return out
    if not draw.chance(0.1):
        return []
    return [
        ("user", draw.pick(["Thanks!", "Thank you.", "ok thanks", "Great, thanks."])),
        ("assistant", "You are welcome!"),
    ]


def lines(draw: Draw) -> Example:
    """Facts as `key: value` lines; the question names a key."""
    who = people.person(draw, number=draw.num(2, 6))
    keys = list(who.facts)
    rows = [
        f"{knowledge.cap(people.ATTRIBUTES[k].label)}: {people.shown(k, who.facts[k])}"
        for k in keys
    ]
    rows.insert(0, f"Name: {who.name}")
    key = draw.pick(keys)
    qa = knowledge.attribute_qa(draw, who, key, [who])
    request, answer = form(draw, qa)
    text = (
        draw.free("[Here is a card:\n|Facts:\n|Data:\n|Read the data.\n||]")
        + "\n".join(rows)
        + "\n"
        + draw.pick(["", "\n"])
        + qa.question
    )
    messages = system(draw, [("user", f"{text} {request}".strip())])
    return Example(
        "facts", messages, ("assistant", answer), _check(qa, answer), templates=draw.used
    )


def prefilled(draw: Draw) -> Example:
    """Someone's role is stated; the answer begins `The <role> is ` and ends with the name and a full stop."""
    roles = draw.some(
        PHRASES.lines("prefilled"),
        draw.num(1, 3),
    )
    names = [draw.full() if draw.chance(0.7) else draw.first() for _ in roles]
    told = [
        draw.free(
            "[{n} is the {r}.|The {r} is {n}.|The {r} is called {n}.|The name of the {r} is {n}.]".replace(
                "{n}", n
            ).replace("{r}", r)
        )
        for n, r in zip(names, roles, strict=True)
    ]
    at = draw.num(0, len(roles) - 1)
    ask = draw.free(
        "[Who is the {r}?|Name the {r}.|Tell me who the {r} is.|What is the name of the {r}?|Name the {r}, then answer the questions.]".replace(
            "{r}", roles[at]
        )
    )
    more = [knowledge.relation_qa(draw).full + "." for _ in range(draw.num(0, 2))]
    text = laid_out(draw, draw.shuffled(told + more))
    text = f"{ask}\n{text}" if draw.chance(0.5) else f"{text}\n{ask}"
    messages = system(draw, [("user", text)])
    example = Example(
        "facts",
        messages,
        ("assistant", f"The {roles[at]} is {names[at]}."),
        contains(names[at]),
        templates=draw.used,
    )
    example.prefill = f"The {roles[at]} is " if draw.chance(0.7) else ""
    return example


def sample(draw: Draw) -> Example:
    """Any of the above."""
    roll = draw.rng.random()
    return make(draw) if roll < 0.8 else lines(draw) if roll < 0.9 else prefilled(draw)


__all__ = ["sample", "words"]

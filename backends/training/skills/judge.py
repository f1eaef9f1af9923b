"""Judging which of two answers to a question is right: A or B, at times with one line of reason."""

from __future__ import annotations

from skills import arithmetic, choose, knowledge
from skills.core import Draw, Example, Message, Pool, equals, regex, system
from skills.knowledge import QA
from skills.phrases import Phrases

PHRASES = Phrases("judge")

FORM = Pool(
    "judge.form",
    PHRASES.text("judge.form"),
)
END = Pool(
    "judge.end",
    PHRASES.text("judge.end"),
)
REASON = Pool(
    "judge.reason",
    PHRASES.text("judge.reason"),
)


def _pair(draw: Draw, qa: QA) -> tuple[str, str]:
    """The right answer and a wrong one, as values, phrases or sentences."""
    wrong = draw.pick(qa.wrong)
    if draw.chance(0.3):
        return knowledge.cap(qa.bare) + ".", knowledge.cap(wrong) + "."
    if draw.chance(0.25) and qa.bare in qa.full and qa.full != qa.bare:
        return qa.full + ".", qa.full.replace(qa.bare, wrong) + "."
    return qa.bare, wrong


def _usable(qa: QA) -> bool:
    return bool(qa.wrong) and all(w.casefold() != qa.bare.casefold() for w in qa.wrong)


def _facts(draw: Draw) -> tuple[str, str, str, str, list[QA]]:
    qa = knowledge.yes_no(draw) if draw.chance(0.1) else knowledge.any_qa(draw)
    while not _usable(qa):
        qa = knowledge.any_qa(draw)
    head = draw.pick(["Facts: ", "", "Text: ", "Context: ", "Facts: "])
    joined = " ".join(qa.facts)
    question = (
        f"{head}{joined}{draw.pick([chr(10), ' ', chr(10)])}"
        + ("Question: " if draw.chance(0.4) else "")
        + qa.question
    )
    right, bad = _pair(draw, qa)
    return (
        question,
        right,
        bad,
        "The facts say: " + qa.full + "." if qa.kind != "yesno" else "The facts say so.",
        qa.more,
    )


def _sum(draw: Draw) -> tuple[str, str, str, str]:
    story = arithmetic.expression(draw)
    while len(story.lines) > 1 and draw.chance(0.5):
        story = arithmetic.expression(draw)
    wrong = _near(draw, story.value)
    right, bad = str(story.value), str(wrong)
    if draw.chance(0.2):
        expr = story.lines[-1].split(" = ")[0]
        right, bad = (
            (f"{expr} = {right}", f"{expr} = {bad}")
            if len(story.lines) == 1
            else (f"It is {right}.", f"It is {bad}.")
        )
    return story.question, right, bad, "; ".join(story.lines) + "."


def _near(draw: Draw, value: int) -> int:
    off = draw.pick([1, 2, 10, 10, 5, 3, 20, 100 if value > 100 else 4])
    return value + off if value < off or draw.chance(0.5) else value - off


def _worked(draw: Draw) -> tuple[str, str, str, str]:
    story = arithmetic.problem(draw)
    at = draw.num(0, len(story.lines) - 1)
    good = arithmetic.written(draw, story)
    wrong = _near(draw, story.value)
    left, _, _result = story.lines[at].rpartition(" = ")
    lines = list(story.lines)
    if at == len(lines) - 1:
        lines[at] = f"{left} = {wrong}"
    else:
        lines[-1] = lines[-1].rpartition(" = ")[0] + f" = {wrong}"
    bad = "\n".join([*lines, f"Answer: {wrong}"])
    if draw.chance(0.4):
        good, bad = good.replace("\n", "; "), bad.replace("\n", "; ")
    return arithmetic.text_of(story), good, bad, f"The right result is {story.value}."


def _kind(draw: Draw) -> tuple[str, str, str, str]:
    text, options, right = draw.pick([choose.kind, choose.which, choose.use, choose.size])(draw)
    others = [o for o in options if o != right]
    wrong = draw.pick(others)
    if draw.chance(0.3) or "these" in text or "of the following" in text:
        text += f" Options: {', '.join(options)}"
    return text, right, wrong, f"{knowledge.cap(right)} fits the question."


def _follow(draw: Draw, more: list[QA]) -> list[Message]:
    """More pairs of answers on the same facts."""
    out: list[Message] = []
    for qa in filter(_usable, more):
        right, wrong = _pair(draw, qa)
        letter = draw.pick("AB")
        a, b = (right, wrong) if letter == "A" else (wrong, right)
        out += [
            ("user", draw.say(FORM, q=qa.question, a=a, b=b, e=draw.say(END))),
            ("assistant", letter),
        ]
    return out


def sample(draw: Draw) -> Example:
    """One pair of answers."""
    roll = draw.rng.random()
    maker = _sum if roll < 0.26 else _worked if roll < 0.36 else _kind
    more: list[QA] = []
    if roll >= 0.5:
        question, right, wrong, reason, more = _facts(draw)
    else:
        question, right, wrong, reason = maker(draw)
    letter = draw.pick("AB")
    a, b = (right, wrong) if letter == "A" else (wrong, right)
    explain = draw.chance(0.2)
    text = draw.say(FORM, q=question, a=a, b=b, e=draw.say(REASON if explain else END))
    messages = system(draw, [("user", text)])
    if draw.chance(0.08):
        messages = [
            (
                "system",
                draw.pick(PHRASES.lines("sample")),
            ),
            messages[-1],
        ]
    answer = f"{letter}\n{reason}" if explain else letter
    check = regex(rf"^\W*{letter}\b") if explain else equals(letter)
    return Example(
        "judge", messages, ("assistant", answer), check, _follow(draw, more), templates=draw.used
    )

"""``gen`` in plain Python: an answer may take several calls, asked again or continued."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any, Literal

from appl.errors import BackendError, OutputError

from .layout import Msg, Voice
from .model import SCHEMAS, SHAPES, Reply
from .plain import ASSISTANT, USER, Answer, Convo, Part, Plain, Records, Scribe, calls_of

CONTINUE = (
    "The answer above was cut off by the limit of its length. Write the rest of it. Begin by "
    "repeating its last words exactly as they stand between these two lines, and go on from there; "
    "write nothing else before them.\n-----\n{}\n-----"
)
CHOOSE = "Choose one of these options. Answer with its number only.\n"
CHOOSE_AGAIN = "That is not one of the numbers 1 to {}. Answer with one of them and nothing else."
AGAIN = "That answer cannot be used: {}. Answer again, corrected, with nothing else."
NO_VALUE = "it does not say one value of the form that was asked for, or says several"
NO_JSON = "it holds no JSON"


@dataclass(frozen=True)
class Question:
    """What one call asks."""

    address: str
    ordinal: int
    parts: list[Part]
    sampling: dict[str, Any]


@dataclass(frozen=True)
class Open:
    """An answer that is still to be read: sample *number* of *given*, to *question*."""

    place: int
    question: Question
    given: Answer
    number: int


class Answers(Plain):
    """A run whose answers are typed, chosen, continued, and of several samples."""

    def gen(
        self, name: str = "gen", messages: Any = None, *, n: int = 1, stream: bool = False,
        choices: Any = None, response_format: Any = None, max_asks: int = 3,
        max_relay_rounds: int = 0, tools: Any = None, cache: Any = None, _ctx: Any = None,
        **sampling: Any,
    ) -> Answer:  # fmt: skip
        frame = self.frames[-1]
        given = messages if messages is not None else _ctx
        parts = list(frame.parts) if given is None else parts_of(given)
        ordinal = frame.counts["gen"] + frame.counts["select"]
        question = Question(frame.child(name), ordinal, parts, sampling)
        if (error := self.broken(parts)) is not None:
            return self.fail(error)
        if "stop" in sampling:
            sampling["stop"] = tuple(sampling["stop"])
        box = box_of(tools)
        if box:
            sampling["tools"] = tuple(box)
        shape = shape_of(response_format)
        self.demand(question, choices, shape)
        try:
            answer = self.pose(question, max_relay_rounds, n)
            if choices is not None and not self.able and not self.previewing:
                answer = self.chosen(question, choices, answer)
            if shape is not None and not self.previewing:
                answer = self.typed(question, shape, max_asks, answer, max_relay_rounds)
        except (BackendError, OutputError) as failure:
            self.marks["failing calls"] += 1
            answer = self.fail(failure, late=stream and self.able)
        self.said[question.address] = answer = replace(answer, streamed=stream, tools=box)
        return answer

    def demand(self, question: Question, choices: Any, shape: str | None) -> None:
        """Say what form the answer is to have: as an option, or in words."""
        sampling, words = question.sampling, ""
        if choices is not None and self.able:
            sampling["choices"] = tuple(choices)
        elif choices is not None:
            words = CHOOSE + "\n".join(f"{i}. {each}" for i, each in enumerate(choices, 1))
        if shape is not None and self.able:
            sampling["schema"] = SCHEMAS[shape]
        elif shape is not None:
            words = SHAPES[shape][0]
        if words:
            question.parts.append(Part(USER, words))

    def pose(self, question: Question, rounds: int, n: int = 1) -> Answer:
        """Ask, and go on asking while the token limit cuts the answer."""
        q = question
        first = last = self.ask(q.address, q.ordinal, q.parts, q.sampling, n)
        if not rounds or self.previewing:
            return first
        text, thoughts, used = last.value, [last.replies[0].thoughts], [last.used]
        for number in range(1, rounds + 1):
            if last.replies[0].finish != "length":
                break
            self.marks["continued"] += 1
            text = text.rstrip()
            parts = [*q.parts, self.continued(q.parts, replace(last, value=text, replies=()))]
            sampling = dict(q.sampling)
            if not self.able:
                parts.append(Part(USER, CONTINUE.format(text)))
                sampling["max_tokens"] += len(text)
            last = self.ask(f"{q.address}/more.{number}", q.ordinal, parts, sampling)
            text += last.value if self.able else last.value.partition(text)[2]
            thoughts.append(last.replies[0].thoughts)
            used.append(last.used)
        joined = last.replies[0]._replace(
            text=text, thoughts="".join(filter(None, thoughts)) or None
        )
        return replace(
            first, value=text, addresses=last.addresses, replies=(joined,), used=total(used)
        )

    def continued(self, parts: list[Part], said: Answer) -> Part:
        """The answer *said*, where the assistant goes on speaking."""
        speaks = bool(parts) and parts[-1].voice.role == "assistant"
        return Part(parts[-1].voice if speaks else ASSISTANT, said, starts=False)

    def again(self, open_: Open, address: str, said: str, rounds: int = 0) -> Open:
        """Ask the same with the answer in the prompt, and what the user says to it."""
        self.marks["asked again"] += 1
        q, given = open_.question, open_.given
        before = replace(given, value=given.replies[open_.number].text, text=None, replies=())
        parts = [*q.parts, self.continued(q.parts, before), Part(USER, said)]
        question = replace(q, address=address, parts=parts)
        return Open(open_.place, question, self.pose(question, rounds), 0)

    def chosen(self, question: Question, options: Any, first: Answer) -> Answer:
        """The option whose number the model says; asked three times at most."""
        open_, used = Open(0, question, first, 0), [first.used]
        for number in (1, 2):
            if re.match(r"\d+\.", open_.given.value):
                break
            said = CHOOSE_AGAIN.format(len(options))
            open_ = self.again(open_, f"{question.address}/ask.{number}", said)
            used.append(open_.given.used)
        text = options[int(open_.given.value.rstrip(".")) - 1]
        return replace(
            first, value=text, addresses=open_.given.addresses, used=total(used),
            replies=(Reply(text),),
        )  # fmt: skip

    def typed(
        self, question: Question, shape: str, limit: int, first: Answer, rounds: int
    ) -> Answer:
        """The objects of all samples; what is none is asked again, *limit* times in all."""
        count = len(first.replies)
        todo = [Open(place, question, first, place) for place in range(count)]
        asked, used, addresses = 0, [first.used], first.addresses
        found: dict[int, tuple[Reply, Any]] = {}
        while todo:
            wrong = []
            for each in todo:
                reply = each.given.replies[each.number]
                text = json_in(reply.text, shape)
                if reply.calls:  # no answer yet
                    found[each.place] = reply, None
                elif text is None:
                    wrong.append(each)
                else:
                    found[each.place] = reply._replace(text=text), self.object_of(text, shape)
            limit -= 1
            if wrong and limit <= 0:
                raise OutputError()
            todo = []
            for each in wrong:
                asked += 1
                said = AGAIN.format(NO_JSON if shape in JSON else NO_VALUE)
                todo.append(self.again(each, f"{question.address}/ask.{asked}", said, rounds))
            if todo:
                used += [each.given.used for each in todo]
                addresses = tuple(at for each in todo for at in each.given.addresses)
        replies, objects = zip(*(found[place] for place in range(count)), strict=True)
        return replace(
            first, value=objects[0], text=replies[0].text, addresses=addresses, replies=replies,
            objects=objects, used=total(used),
        )  # fmt: skip

    def object_of(self, text: str, shape: str) -> Any:
        if shape == "word":
            return text
        if shape == "Heat":
            return self.names["Heat"](text)
        value = float(text) if shape == "float" else json.loads(text)
        return self.names["Point"](**value) if shape == "Point" else value

    names: dict[str, Any]

    def select(self, options: Any) -> Answer:
        return self.gen("select", choices=options)

    # -- what is known of an answer

    def samples(self, answer: Answer) -> list[str]:
        return [reply.text for reply in self.arrived(answer).replies]

    def objects(self, answer: Answer) -> list[Any]:
        return list(self.arrived(answer).objects)

    def reply(self, answer: Answer) -> Reply:
        """The first sample: text, finish reason, calls, thoughts."""
        return self.arrived(answer).replies[0]

    def tokens(self, answer: Answer) -> int:
        """How many tokens all calls for it have taken."""
        return sum(self.arrived(answer).used)

    def arrived(self, answer: Answer) -> Answer:
        self.v(answer)
        while isinstance(answer.value, Answer):
            answer = answer.value
        return answer


def total(used: list[tuple[int, int]]) -> tuple[int, int]:
    return sum(prompt for prompt, _ in used), sum(said for _, said in used)


def parts_of(messages: Any) -> list[Part]:
    """Explicit messages as parts, each where it stands; a prompt as it is."""
    if isinstance(messages, Records):
        return messages.parts(USER)
    if isinstance(messages, Scribe):
        return list(messages.parts)
    if isinstance(messages, Answer):
        return [Part(Voice("user", None, None), messages, apart=True)]
    if isinstance(messages, str):
        messages = [Msg("user", messages)]
    every = messages.messages if isinstance(messages, Convo) else messages
    return [Part(Voice(each.role, each.name, None), each, apart=True) for each in every]


def box_of(tools: Any) -> dict[str, Any]:
    """Tools by name."""
    every = tools if isinstance(tools, list) else [] if tools is None else [tools]
    return {each.__name__: each for each in every}


def shape_of(wanted: Any) -> str | None:
    if wanted is None:
        return None
    known = {
        int: "int", bool: "bool", float: "float", Literal["red", "green"]: "word",
        list[int]: "list", list[str]: "words",
    }  # fmt: skip
    return known.get(wanted) or str(wanted.__name__)


VALUES = {
    "int": r"\d+", "bool": "true|false", "word": "red|green", "list": r"\[.*\]", "Point": r"\{.*\}",
    "float": r"\d+(\.\d+)?", "Heat": "hot|cold", "words": r"\[.*\]",
}  # fmt: skip
JSON = ("list", "words", "Point")


def json_in(text: str, shape: str) -> str | None:
    """The value that a text states, if it states one."""
    found = re.search(VALUES[shape], text)
    return found[0] if found else None


__all__ = ["Answers", "calls_of"]

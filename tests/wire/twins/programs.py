"""Random programs of one to six turns, as text, with what each answer must be seen as.

A seed gives a program. It says what its functions do in the order in which they do it, so what a
question must hold is written down here beside the program, in the plainest way there is.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field

HEADER = '''
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, Optional

from appl import (
    AIRole, Image, SystemMessage, SystemRole, UserMessage, UserRole, convo, gen, gen_with_tools, ppl,
    records, select,
)
from pydantic import BaseModel, Field

PICTURE = Image.from_bytes(bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360f8cf500f0003860180"
))

class Item(BaseModel):
    name: str
    count: int

class Mood(Enum):
    GOOD = "good"
    BAD = "bad"

class Order(BaseModel):
    items: list[Item]
    first: Item = Field(description="the most important one")
    note: Optional[str]
    mood: Mood
    kind: Literal["a", "b"]

class Tree(BaseModel):
    label: str
    children: list["Tree"]

@dataclass
class Point:
    x: float
    y: float

def weather(city: str, unit: Literal["C", "F"] = "C") -> str:
    """Tell the weather.

    Args:
        city: Where.
    """
    return f"12 {unit} in {city}"

def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b

def now() -> str:
    """Tell the time."""
    return "it is noon"

def broken(reason: str) -> str:
    """Fail."""
    raise ValueError(f"cannot {reason}")

def order(item: Item, tags: list[str]) -> str:
    """Order something."""
    return f"{item.count} of {item.name}, {len(tags)} tags"

def blank(a: Optional[int] = None) -> str:
    """Say nothing."""
    return ""

@ppl
def ask(question):
    f"{question}"
    return gen()

@ppl(ctx="copy")
def aside(question):
    f"{question}"
    return gen()

@ppl
def about(answer, question):
    "This was said:"
    f"{answer}"
    f"{question}"
    with AIRole():
        (found := gen())
    return found

@ppl
def passed(messages):
    return gen(messages=messages)
'''

TOOLS = ("weather", "add", "now", "broken", "order", "blank")
TYPES = ("Item", "Order", "Tree", "Point", "list[Item]", "Optional[Item]", "Literal['red', 'green']",
         "int", "bool", "Mood", "list[str]", "Item | Point", "float")  # fmt: skip


@dataclass(frozen=True)
class Words:
    """Text of the program, which a question must hold."""

    text: str


@dataclass(frozen=True)
class Answer:
    """The text of an answer of the model, and then the results of the tools that it called."""

    mark: str
    step: int
    results: bool = False


Item = Words | Answer


@dataclass
class Program:
    """A program: its *source*, and for each mark what its question must hold, and how it is seen.

    *sees* says for each result of the program which answer it is, and in which form; *calls* is the
    number of times that a question is asked by itself, and *pictures* the numbers of pictures in
    questions.
    """

    seed: int
    source: str = ""
    holds: dict[str, list[Item]] = field(default_factory=dict)
    sees: list[tuple[str, int, str]] = field(default_factory=list)
    calls: dict[str, int] = field(default_factory=dict)
    pictures: dict[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"program_{self.seed}"


TEXTS = (
    "Tell me about amber.", "What is 1 + 2?", "Größe? 大きさ?", 'Say "so" and \\n.', '{"json": null}',
    "Why?", "one\ntwo", "<b>&amp;</b>", "Go on, please.", "👩‍🔬 data: [DONE]", "half \udc97 a character",
)  # fmt: skip
HALF = re.compile("[\ud800-\udfff]")
"""Half a character, which no server can be sent: what is around it must reach it."""


class Writer:
    """Writes the program of a *seed* for a backend with *features*.

    *takes* are options that its model takes; with *other*, some questions go to another backend.
    """

    def __init__(
        self, seed: int, features: frozenset[str], takes: frozenset[str], other: bool
    ) -> None:
        self.random = random.Random(f"program {seed}")
        self.program = Program(seed)
        self.features, self.takes, self.other = features, takes, other
        self.lines: list[str] = []
        self.results: list[str] = []
        self.said: list[Item] = []
        self.front: list[Item] = []
        self.pictures = 0
        self.answers: list[tuple[str, str, int]] = []  # variable, mark, step: plain texts

    def write(self) -> Program:
        """The program."""
        if self.chance(0.3):
            self.system()
        if self.chance(0.1):
            self.greeting()
        turns: list[Callable[[], None]] = [
            self.plain, self.plain, self.spoken, self.streamed, self.unread, self.typed, self.by_hand,
            self.by_hand, self.loop, self.loop, self.begun, self.given, self.beside, self.fresh,
            self.several, self.chosen, self.typed_loop, self.speaker, self.whole_talk,
        ]  # fmt: skip
        if "images" in self.features:
            turns += [self.picture, self.picture]
        for turn in self.random.choices(turns, k=self.random.randint(1, 6)):
            turn()
            if self.answers and self.chance(0.25):
                self.again()
        head = f"@ppl\ndef {self.program.name}():"
        self.lines.append(f"return [{', '.join(self.results)}]")
        self.program.source = "\n".join([head, *(f"    {line}" for line in self.lines)]) + "\n"
        return self.program

    # -- parts

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def fresh_mark(self) -> str:
        return f"#p{self.program.seed}q{len(self.program.holds)}#"

    def text(self) -> str:
        """A text that somebody says."""
        return self.random.choice(TEXTS)

    def say(self, text: str, into: list[Item] | None = None) -> None:
        """Note that *text* is said."""
        items = self.said if into is None else into
        items += [Words(part) for part in HALF.split(text)]

    def question(self, holds: list[Item] | None = None) -> tuple[str, str]:
        """A literal that asks with a mark of its own, and that mark.

        It joins the prompt, unless the items before it are given as *holds*.
        """
        mark, text = self.fresh_mark(), self.text()
        items = [*self.front, *self.said] if holds is None else [*holds]
        self.say(text, items)
        self.program.holds[mark] = [*items, Words(mark)]
        self.program.calls[mark] = 1
        self.program.pictures[mark] = self.pictures if holds is None else 0
        if holds is None:
            self.said = [*items[len(self.front) :], Words(mark)]
        return quoted(f"{text} {mark}"), mark

    def options(self, *given: str, stop: bool = True) -> str:
        """Arguments of ``gen``: some of those that the model takes."""
        found = list(given)
        if "max_tokens" in self.takes and self.chance(0.2):
            found.append(f"max_tokens={self.random.randint(20, 4000)}")
        if "temperature" in self.takes and self.chance(0.15):
            found.append("temperature=0.5")
        if stop and "stop" in self.takes and self.chance(0.15):
            found.append("stop=['ivory', '##']")
        if "seed" in self.features & self.takes and self.chance(0.1):
            found.append("seed=7")
        return ", ".join(found)

    def asked(self, mark: str, *given: str, stop: bool = True) -> str:
        """A call of ``gen``, perhaps of the other backend."""
        if self.other and self.chance(0.3):
            given = ("'other'", *given)
        return f"gen({self.options(*given, stop=stop)})"

    def see(self, expression: str, mark: str, step: int, form: str) -> None:
        """The program gives back *expression*: answer *step* to *mark*, in this form."""
        self.program.sees.append((mark, step, form))
        self.results.append(expression)

    def name(self, stem: str = "x") -> str:
        return f"{stem}{len(self.program.sees)}"

    # -- turns

    def system(self) -> None:
        text = self.text()
        self.lines += self.random.choice([["with SystemRole():", f"    {quoted(text)}"], [f"SystemMessage({quoted(text)})"]])  # fmt: skip
        self.say(text, self.front)

    def greeting(self) -> None:
        """The model has begun the conversation."""
        text = self.text()
        self.lines += ["with AIRole():", f"    {quoted(text)}"]
        self.say(text)

    def plain(self) -> None:
        """An answer that is not said."""
        literal, mark = self.question()
        x = self.name()
        self.lines += [literal, f"{x} = {self.asked(mark)}"]
        self.see(x, mark, 0, "text")
        self.answers.append((x, mark, 0))

    def spoken(self) -> None:
        """An answer in the prompt, as the user's or the model's words."""
        literal, mark = self.question()
        x, call = self.name(), self.asked(mark)
        self.lines.append(literal)
        if self.chance(0.7):
            self.lines += ["with AIRole():", f"    ({x} := {call})"]
        else:
            self.lines.append(f"({x} := {call})")
        self.said.append(Answer(mark, 0))
        self.see(x, mark, 0, "text")
        self.answers.append((x, mark, 0))
        if self.chance(0.5):
            text = self.text()
            self.lines.append(quoted(text))
            self.say(text)

    def speaker(self) -> None:
        """A speaker of the user's side, with a name."""
        text = self.text()
        name = self.random.choice(("Ann", "Ann Lee", "大山"))
        self.lines += [f"with UserRole({name!r}):", f"    {quoted(text)}"]
        self.say(text)
        self.spoken()

    def streamed(self) -> None:
        literal, mark = self.question()
        x = self.name()
        self.lines += [literal, f"{x} = {self.asked(mark, 'stream=True')}"]
        self.lines.append(f"{x}p = list({x}.text_stream)")
        self.see(f"{x}p", mark, 0, "pieces")

    def unread(self) -> None:
        literal, mark = self.question()
        x = self.name()
        self.lines += [literal, "with AIRole():", f"    ({x} := {self.asked(mark, 'stream=True')})"]
        self.said.append(Answer(mark, 0))
        self.see(x, mark, 0, "text")

    def typed(self) -> None:
        literal, mark = self.question()
        x, kind = self.name(), self.random.choice(TYPES)
        stream = ["stream=True"] if self.chance(0.3) else []
        call = self.asked(mark, f"response_format={kind}", *stream, stop=False)
        said = self.chance(0.3)
        self.lines += [
            literal,
            *(["with AIRole():", f"    ({x} := {call})"] if said else [f"{x} = {call}"]),
        ]
        self.see(f"({x}.result(), {kind})", mark, 0, "object")

    def picture(self) -> None:
        self.pictures += 1
        place = self.random.choice(["PICTURE", 'f"look: {PICTURE} there"'])
        self.lines.append(place)
        if place != "PICTURE":
            self.said += [Words("look: "), Words(" there")]
        self.spoken()

    def tools(self) -> str:
        names = self.random.sample(TOOLS, self.random.randint(1, 3))
        return f"[{', '.join(names)}]"

    def by_hand(self) -> None:
        """Calls and results in the prompt, and an answer after them."""
        literal, mark = self.question()
        x, y, tools = self.name(), self.name("y"), self.tools()
        stream = ["stream=True"] if self.chance(0.3) else []
        choice = ["tool_choice='required'"] if self.chance(0.1) and "forced" in self.takes else []
        self.lines += [literal, f"({x} := {self.asked(mark, f'tools={tools}', *stream, *choice)})"]
        self.said.append(Answer(mark, 0, results=True))
        self.see(f"{x}.tool_calls", mark, 0, "calls")
        self.see(x, mark, 0, "text")
        run = self.random.choice(["", "parallel=True", "parallel=False"])
        self.lines += [f"if {x}.tool_calls:", f"    {x}.run_tool_calls({run})"]
        more = [f"tools={tools}", "tool_choice='none'"] if self.chance(0.4) else []
        call = self.asked(mark, *more)
        if self.chance(0.6):
            self.lines += ["    with AIRole():", f"        ({y} := {call})"]
        else:
            self.lines.append(f"    ({y} := {call})")
        self.lines += ["else:", f"    {y} = None"]
        self.said.append(Answer(mark, 1))
        self.see(y, mark, 1, "text after calls")

    def loop(self) -> None:
        literal, mark = self.question()
        x, tools = self.name(), self.tools()
        options = self.options(f"tools={tools}", stop=False)
        if self.chance(0.5):
            self.lines += [literal, f"{x} = gen_with_tools({options})"]
        else:
            self.lines += [literal, "with AIRole():", f"    ({x} := gen_with_tools({options}))"]
            self.said += [Answer(mark, step, results=True) for step in range(4)]
        self.see(x, mark, -1, "text")

    def typed_loop(self) -> None:
        literal, mark = self.question()
        x, tools, kind = self.name(), self.tools(), self.random.choice(TYPES)
        call = f"gen_with_tools(tools={tools}, response_format={kind})"
        self.lines += [literal, f"{x} = {call}"]
        self.see(f"({x}.result(), {kind})", mark, -1, "object")

    def begun(self) -> None:
        """Text of the assistant from which the answer goes on."""
        literal, mark = self.question()
        x, begun = (
            self.name(),
            self.random.choice(["Name: ", "Well, I", "First line.\nThen", "It is:"]),
        )
        call = self.asked(mark)
        self.lines += [literal, "with AIRole():", f'    f{quoted(begun)[:-1]}{{({x} := {call})}}"']
        self.say(begun.strip())
        self.program.holds[mark].append(Words(begun.strip()))
        self.said.append(Answer(mark, 0))
        self.see(x, mark, 0, "text")

    def given(self) -> None:
        """A conversation of plain data."""
        front = self.text()
        items: list[Item] = []
        self.say(front, items)
        items += [Words("hello"), Words("hi there")]
        literal, mark = self.question(items)
        x = self.name()
        talk = (
            f'[{{"role": "system", "content": {quoted(front)}}}, {{"role": "user", "content": "hello"}}, '
            f'{{"role": "assistant", "content": "hi there"}}, {{"role": "user", "content": {literal}}}]'
        )
        self.lines.append(f"{x} = passed({talk})" if self.chance(0.5) else f"{x} = {self.asked(mark, f'messages={talk}')}")  # fmt: skip
        self.see(x, mark, 0, "text")

    def whole_talk(self) -> None:
        """The conversation so far, passed on by itself."""
        literal, mark = self.question()
        x = self.name()
        self.lines += [
            literal,
            f"{x} = passed({self.random.choice(['convo()', 'convo().as_list()'])})",
        ]
        self.see(x, mark, 0, "text")

    def beside(self) -> None:
        """A copy of the prompt, which goes on by itself."""
        literal, mark = self.question([*self.front, *self.said])
        self.program.pictures[mark] = self.pictures
        x = self.name()
        self.lines.append(f"{x} = aside({literal})")
        self.see(x, mark, 0, "text")

    def fresh(self) -> None:
        """Several functions of their own, at once."""
        for _ in range(self.random.randint(1, 3)):
            literal, mark = self.question([])
            x = self.name()
            self.lines.append(f"{x} = ask({literal})")
            self.see(x, mark, 0, "text")
            self.answers.append((x, mark, 0))

    def again(self) -> None:
        """An answer in the prompt of another function as well."""
        x, known, step = self.random.choice(self.answers)
        items: list[Item] = [Words("This was said:"), Answer(known, step)]
        literal, mark = self.question(items)
        y = self.name()
        self.lines.append(f"{y} = about({x}, {literal})")
        self.see(y, mark, 0, "text")

    def several(self) -> None:
        literal, mark = self.question()
        x = self.name()
        self.program.calls[mark] = 2
        self.lines += [literal, f"{x} = gen(n=2)"]
        self.see(f"{x}.samples", mark, 0, "samples")

    def chosen(self) -> None:
        literal, mark = self.question()
        x = self.name()
        self.lines += [literal, f"{x} = gen(choices=['left', 'right (now)', 'up'])"]
        self.see(x, mark, 0, "choice")


def quoted(text: str) -> str:
    """*text* as a literal of Python in double quotes."""
    found = json.dumps(text, ensure_ascii=False)
    return HALF.sub(lambda half: f"\\u{ord(half[0]):04x}", found)


def module(programs: list[Program]) -> str:
    """A module that holds *programs*."""
    return "\n\n".join([HEADER.lstrip(), *(each.source for each in programs)])

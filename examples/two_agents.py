"""Two agents talk, written in four styles with the same prompts and so the same answers.

appl run examples/two_agents.py
appl run examples/two_agents.py --style generator
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Literal

from appl import AIMessage, AIRole, Generation, Message, SystemMessage, UserMessage, gen, ppl

NORA = "You are Nora Vell, a gardener from Tarn. You like tea and you have two cats."
TOM = [
    "Hi, I am Tom. What is your name?",
    "What do you do for a living?",
    "Which drink do you like?",
    "What is my name?",
]

Style = Literal["resume", "history", "generator", "shared"]


# 1. resume: the function continues the prompt of its last call, on the same object


@dataclass(eq=False)
class Agent:
    persona: str

    @ppl(ctx="resume")
    def reply(self, heard: str, first: bool) -> Generation:
        if first:
            SystemMessage(self.persona)
        f"{heard}"
        with AIRole():
            (said := gen(temperature=0))
        return said


def with_resume() -> list[str]:
    agent = Agent(NORA)
    return [str(agent.reply(line, number == 0)) for number, line in enumerate(TOM)]


# 2. history: the program keeps the messages, and says them all again


@dataclass
class Memory:
    messages: list[Message] = field(default_factory=list)


@ppl
def reply(memory: Memory, heard: str) -> Generation:
    SystemMessage(NORA)
    memory.messages
    f"{heard}"
    said = gen(temperature=0)
    memory.messages += [UserMessage(heard), AIMessage(str(said))]
    return said


def with_history() -> list[str]:
    memory = Memory()
    return [str(reply(memory, line)) for line in TOM]


# 3. generator: the agent is suspended between turns, and goes on where it stopped


@ppl
def agent() -> Generator[Generation | None, str, None]:
    SystemMessage(NORA)
    said: Generation | None = None
    while True:
        yield said  # each value sent in is prompt text
        with AIRole():
            (said := gen(temperature=0))


def with_generator() -> list[str]:
    talking = agent()
    next(talking)
    return [str(talking.send(line)) for line in TOM]


# 4. shared context: the turns are functions that write into the prompt of their caller


@ppl(ctx="same")
def turn(heard: str) -> Generation:
    f"{heard}"
    with AIRole():
        (said := gen(temperature=0))
    return said


@ppl
def conversation() -> list[str]:
    SystemMessage(NORA)
    return [str(turn(line)) for line in TOM]


STYLES = {
    "resume": with_resume,
    "history": with_history,
    "generator": with_generator,
    "shared": conversation,
}


def main(style: Style | None = None) -> Iterator[str]:
    """The conversation, and whether the four styles agree on it."""
    chosen = [style] if style else list(STYLES)
    told = {name: STYLES[name]() for name in chosen}
    for line, answer in zip(TOM, told[chosen[0]], strict=True):
        yield f"Tom:  {line}"
        yield f"Nora: {answer}"
    if len(told) > 1:
        same = len({tuple(answers) for answers in told.values()}) == 1
        yield ""
        yield f"{len(told)} styles, {'the same words' if same else 'not the same words'}"


if __name__ == "__main__":
    print(*main(), sep="\n")

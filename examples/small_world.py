"""Generative agents in a small world: they walk, meet, talk, and remember.

appl run examples/small_world.py
appl run examples/small_world.py --hours 4 --dice 7

After Park et al., "Generative Agents" (arXiv 2304.03442), on a small scale: an agent
decides where to go, introduces itself to those it meets, and keeps what it hears in a memory, from
which later prompts retrieve. In each hour all agents act in parallel.
"""

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from appl import AIRole, Generation, SystemMessage, gen, ppl, select

PLACES = ["garden", "kitchen", "library"]
WORLD = "The flowers are in the garden. The tea is in the kitchen. The books are in the library."
WANTS = ["flowers", "tea", "books"]


@dataclass(eq=False)
class Person:
    name: str
    work: str
    likes: str
    place: str = "garden"
    memory: list[str] = field(default_factory=list)

    @property
    def persona(self) -> str:
        return f"You are {self.name}, a {self.work}. You like {self.likes}."


PEOPLE = [
    ("Nora Vell", "gardener", "tea"),
    ("Olaf Brand", "pilot", "coffee"),
    ("Ines Holt", "teacher", "juice"),
]


@ppl
def decides(want: str) -> Generation:
    """The place to go to for a wish."""
    f"Facts: {WORLD}"
    f"Question: Where are the {want}? Answer with the place only."
    return select(PLACES)


@ppl
def introduces(person: Person, greeting: str, question: str) -> tuple[Generation, Generation]:
    """The replies of *person* to a greeting, and then to a question."""
    SystemMessage(person.persona)
    f"{greeting}"
    with AIRole():
        (hello := gen(temperature=0))
    f"{question}"
    return hello, gen(temperature=0)


@ppl
def recalls(person: Person, question: str) -> Generation:
    """The answer of *person*, from the memories that name the person in question."""
    "Facts:"
    for each in person.memory:
        if each.split(" is ")[0] in question:
            f"- {each}"
    f"Question: {question} Answer with the answer only."
    return gen(temperature=0)


def meet(one: Person, other: Person) -> tuple[Generation, Generation]:
    """*one* asks *other*; the next two meet before the answer is there."""
    greeting = f"Hi, I am {one.name}. What is your name?"
    return introduces(other, greeting, "What do you do for a living?")


def main(hours: int = 2, dice: int = 5) -> Iterator[str]:
    """A line for every meeting, and at the end the knowledge of each person about the others."""
    people = [Person(*each) for each in PEOPLE]
    drawn = random.Random(dice)
    for hour in range(9, 9 + hours):
        ways = [decides(drawn.choice(WANTS)) for _ in people]
        for person, place in zip(people, ways, strict=True):
            person.place = str(place)
        pairs = [
            (one, other)
            for one, other in itertools.permutations(people, 2)
            if one.place == other.place
        ]
        said = [meet(one, other) for one, other in pairs]  # all pairs talk in parallel
        for (one, other), (hello, work) in zip(pairs, said, strict=True):
            yield f"{hour}:00 {one.place}: {other.name} to {one.name}: {hello} {work}"
            fact = f"{other.name} is {str(work).removeprefix('I am ').rstrip('.')}."
            if fact not in one.memory:
                one.memory.append(fact)
    yield ""
    asked = list(itertools.permutations(people, 2))
    answers = [recalls(one, f"What work does {other.name} do?") for one, other in asked]
    for (one, other), answer in zip(asked, answers, strict=True):
        yield f"{one.name} on {other.name}: {answer}"


if __name__ == "__main__":
    print(*main(), sep="\n")

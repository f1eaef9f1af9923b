"""MemWalker: a text too long for one prompt becomes a tree of summaries, which a reader walks down.

appl run examples/memwalker.py
appl run examples/memwalker.py --question "How old is Ines Vega?"

After Chen et al., "Walking Down the Memory Maze" (arXiv 2310.05029). All summaries are written in
parallel; a question then costs one short path from the root to a leaf, and not the whole text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from appl import Generation, gen, ppl, select

TEXT = {
    "the harbour": {
        "the pier": ["Mira Holt is a sailor. She lives in Tarn.",
                     "Olaf Brand is a fisherman. He is 61 years old."],
        "the dock": ["Ines Vega is a pilot. She is 34 years old.",
                     "Hugo Lind is a cook. He lives in Delft."],
    },
    "the market": {
        "the hall": ["Leo Marsh is a baker. He is 44 years old.",
                     "Anna Reed is a tailor. She plays the violin."],
        "the square": ["Karl Moss is a farmer. He owns 3 dogs.",
                       "Nina Falk is a florist. She likes tea."],
    },
    "the school": {
        "the yard": ["Ivan Petrov is a student. He is 12 years old.",
                     "Sara Blom is a nurse. She lives in Riga."],
        "the library": ["Ruth Kane is a teacher. She plays the organ.",
                        "Tom Berg is a librarian. He likes the colour green."],
    },
}  # fmt: skip
QUESTIONS = [
    "What work does Anna Reed do?",
    "Where does Sara Blom live?",
    "How old is Olaf Brand?",
    "Which instrument does Ruth Kane play?",
]
NAME = re.compile(r"[A-Z]\w+ [A-Z]\w+")
UNKNOWN = "The facts do not say."


@dataclass
class Part:
    """A part of the text: a leaf holds sentences, a branch holds parts; both have a summary."""

    title: str
    sentences: list[str] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    summary: object = ""

    @property
    def people(self) -> str:
        """The people whom the summary names."""
        return str(self.summary).partition(": ")[2].rstrip(".")


@ppl
def summarise(sentences: list[str]) -> Generation:
    "Summarise this list in one sentence:"
    for name in NAME.findall(" ".join(sentences)):
        f"- {name}"
    return gen(temperature=0)


def build() -> list[Part]:
    """The tree; every summary is a future, and all of them are computed in parallel."""
    chapters = []
    for title, places in TEXT.items():
        leaves = [Part(place, said, summary=summarise(said)) for place, said in places.items()]
        everything = [sentence for leaf in leaves for sentence in leaf.sentences]
        chapters.append(Part(title, parts=leaves, summary=summarise(everything)))
    return chapters


@ppl
def choose(question: str, parts: list[Part]) -> Generation:
    """The part in which the person of the question is, by log-probability."""
    "Facts:"
    for part in parts:
        f"- {part.people} are in {part.title}."
    f"Question: Where is {NAME.findall(question)[0]}? Answer with the place only."
    return select([part.title for part in parts])


@ppl
def read(sentences: list[str], question: str) -> Generation:
    "Facts:"
    for sentence in sentences:
        f"- {sentence}"
    f"Question: {question} Answer with the answer only."
    return gen(temperature=0)


def walk(parts: list[Part], question: str) -> tuple[list[str], str]:
    """The path down to an answer; if a leaf has no answer, the next best path is taken."""
    chosen = choose(question, parts)
    ranked = sorted(zip(chosen.scores or (), parts, strict=True), key=lambda pair: -pair[0])
    for _, part in ranked:
        if part.parts:
            path, answer = walk(part.parts, question)
        else:
            path, answer = [], str(read(part.sentences, question))
        if answer != UNKNOWN:
            return [part.title, *path], answer
    return [], UNKNOWN


def main(question: str | None = None) -> Iterator[str]:
    """Each question with its answer, and the path that led to it."""
    chapters = build()
    for chapter in chapters:
        yield f"{chapter.title}: {chapter.summary}"
    yield ""
    for each in [question] if question else QUESTIONS:
        path, answer = walk(chapters, each)
        yield f"{each} {answer}  ({' > '.join(path)})"


if __name__ == "__main__":
    print(*main(), sep="\n")

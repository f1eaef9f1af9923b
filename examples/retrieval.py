"""Retrieval with citations: find passages by their vectors, read each alone, cite what holds.

appl run examples/retrieval.py
appl run examples/retrieval.py --question "Who plays the organ?" --top 4
"""

import sqlite3
from collections.abc import Iterator, Sequence

from appl import Generation, embed, gen, ppl

PASSAGES = [
    "Mira Holt was born in 1921 in Tarn. She was a teacher.",
    "Mira Holt wrote The Slow River.",
    "Olaf Brand is a pilot from Lund. He owns 3 dogs.",
    "Anna Reed lives in Lund and plays the violin.",
    "Hugo Lind plays the organ. He lives in Delft.",
    "The red box is in the kitchen. The blue box is in the garden.",
    "The capital of Velmora is Tarn. The river of Velmora is the Ost.",
    "Nora Vell is a gardener. She likes tea and has two cats.",
    "Leo Marsh is a baker from Riga. He is 44 years old.",
    "The library opens at 9. It closes at 17.",
]
QUESTIONS = [
    "Who is a baker?",
    "When was Mira Holt born?",
    "Who wrote The Slow River?",
    "What is the capital of Velmora?",
    "Which instrument does Anna Reed play?",
]
UNKNOWN = "The facts do not say."


class Store:
    """Vectors by number: in sqlite-vec where it can be loaded, else compared one by one.

    pip install 'appl[retrieval]'
    """

    def __init__(self, vectors: Sequence[Sequence[float]]) -> None:
        self.vectors, self.database = vectors, sqlite3.connect(":memory:")
        try:
            import sqlite_vec

            self.database.enable_load_extension(True)
            sqlite_vec.load(self.database)
        except (ImportError, AttributeError):  # some builds of Python load no extensions
            self.is_indexed = False
            return
        form = f"vec0(vector float[{len(vectors[0])}] distance_metric=cosine)"
        self.database.execute(f"CREATE VIRTUAL TABLE passages USING {form}")
        self.database.executemany(
            "INSERT INTO passages(rowid, vector) VALUES (?, ?)", enumerate(vectors)
        )
        self.is_indexed = True

    def nearest(self, vector: Sequence[float], top: int) -> list[int]:
        """The numbers of the most similar vectors, the best first."""
        if not self.is_indexed:
            return self.compared(vector, top)
        query = "SELECT rowid FROM passages WHERE vector MATCH ? AND k = ? ORDER BY distance"
        return [row for (row,) in self.database.execute(query, (vector, top))]

    def compared(self, vector: Sequence[float], top: int) -> list[int]:
        """The same by exact comparison: the vectors of most models have length 1."""
        near = [sum(a * b for a, b in zip(vector, each, strict=True)) for each in self.vectors]
        return sorted(range(len(near)), key=lambda number: -near[number])[:top]


@ppl
def read(passage: str, question: str) -> Generation:
    "Facts:"
    f"{passage}"
    f"Question: {question} Answer with the answer only."
    return gen(temperature=0)


def supported(answer: str, passage: str) -> bool:
    """Whether the passage itself holds the answer; otherwise it is not a citation."""
    return answer != UNKNOWN and answer.strip(" .").lower() in passage.lower()


def main(question: str | None = None, top: int = 3, model: str | None = None) -> Iterator[str]:
    """Each question with its answer, and the passages that support it."""
    asked = [question] if question else QUESTIONS
    vectors = embed([*PASSAGES, *asked], model).result()  # one request; a rerun asks for none
    store = Store(vectors[: len(PASSAGES)])
    found = [store.nearest(vector, top) for vector in vectors[len(PASSAGES) :]]
    answers = [
        [read(PASSAGES[i], each) for i in near] for each, near in zip(asked, found, strict=True)
    ]
    for each, near, said in zip(asked, found, answers, strict=True):
        texts = [str(answer).strip() for answer in said]
        good = [
            (i, text) for i, text in zip(near, texts, strict=True) if supported(text, PASSAGES[i])
        ]
        if not good:
            yield f"{each} No passage says so."
            continue
        best = [i for i, text in good if text == good[0][1]]
        yield f"{each} {good[0][1]} {''.join(f'[{i + 1}]' for i in best)}"
        yield from (f"    [{i + 1}] {PASSAGES[i]}" for i in best)


if __name__ == "__main__":
    print(*main(), sep="\n")

"""Retrieval with citations: find passages, read each alone, and cite those that hold the answer.

appl run examples/retrieval.py
appl run examples/retrieval.py --question "Who plays the organ?" --top 4
"""

import math
import re
from collections import Counter
from collections.abc import Iterator

from appl import Generation, gen, ppl

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


def words(text: str) -> list[str]:
    return [word.removesuffix("s") for word in re.findall(r"[a-z0-9]+", text.lower())]


def retrieve(question: str, top: int) -> list[int]:
    """The passages that share the rarest words with the question, best first (TF-IDF)."""
    bags = [Counter(words(passage)) for passage in PASSAGES]
    known = Counter(word for bag in bags for word in bag)

    def score(bag: Counter[str]) -> float:
        return sum(math.log(len(bags) / known[w]) for w in set(words(question)) if bag[w])

    ranked = sorted(range(len(bags)), key=lambda i: -score(bags[i]))
    return ranked[:top]


@ppl
def read(passage: str, question: str) -> Generation:
    "Facts:"
    f"{passage}"
    f"Question: {question} Answer with the answer only."
    return gen(temperature=0)


def supported(answer: str, passage: str) -> bool:
    """Whether the passage itself holds the answer; otherwise it is not a citation."""
    return answer.strip(" .").lower() in passage.lower()


def main(question: str | None = None, top: int = 3) -> Iterator[str]:
    """Each question with its answer, and the passages that support it."""
    asked = [question] if question else QUESTIONS
    found = [(each, retrieve(each, top)) for each in asked]
    answers = [[read(PASSAGES[i], each) for i in places] for each, places in found]
    for (each, places), said in zip(found, answers, strict=True):
        texts = [str(answer).strip() for answer in said]
        good = [
            (place, text)
            for place, text in zip(places, texts, strict=True)
            if text != UNKNOWN and supported(text, PASSAGES[place])
        ]
        if not good:
            yield f"{each} No passage says so."
            continue
        best = good[0][1]
        cited = "".join(f"[{place + 1}]" for place, text in good if text == best)
        yield f"{each} {best} {cited}"
        for place, text in good:
            if text == best:
                yield f"    [{place + 1}] {PASSAGES[place]}"


if __name__ == "__main__":
    print(*main(), sep="\n")

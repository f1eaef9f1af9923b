import numpy as np
from data import PASSAGES, QUESTIONS
from pydantic import BaseModel

from appl import embed, gen, map, ppl


class Cited(BaseModel):
    answer: str
    passages: list[int]


@ppl
def answer(question: str, near: list[int]) -> Cited:
    def cites_what_is_there(cited: Cited) -> None:
        if wrong := set(cited.passages) - set(near):
            raise ValueError(f"there is no passage {min(wrong)}; cite {near}")

    for number in near:
        f"[{number}] {PASSAGES[number]}"
    f"{question}"
    return gen(response_format=Cited, check=cites_what_is_there)


def main() -> str:
    vectors = np.array(embed([*PASSAGES, *QUESTIONS], "openai/m").result(), float)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    scores = vectors[len(PASSAGES) :] @ vectors[: len(PASSAGES)].T
    near = np.argsort(-scores, axis=1, kind="stable")[:, :5].tolist()
    found = map(answer, QUESTIONS, near, concurrency=64)
    known = sum(bool(each.passages) for each in found)
    return f"{known} answers with citations, {sum(sum(each.passages) for each in found)}"

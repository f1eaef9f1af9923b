import asyncio

import numpy as np
from data import PASSAGES, QUESTIONS
from pydantic import BaseModel
from pydantic_ai import Agent, Embedder, ModelRetry, RunContext


class Cited(BaseModel):
    answer: str
    passages: list[int]


agent = Agent("openai-chat:m", deps_type=list, output_type=Cited, retries=2)
embedder = Embedder("openai:m")
at_once = asyncio.Semaphore(64)


@agent.output_validator
def cites_what_is_there(context: RunContext[list[int]], cited: Cited) -> Cited:
    if wrong := set(cited.passages) - set(context.deps):
        raise ModelRetry(f"there is no passage {min(wrong)}; cite {context.deps}")
    return cited


async def answer(question: str, near: list[int]) -> Cited:
    passages = "\n".join(f"[{number}] {PASSAGES[number]}" for number in near)
    async with at_once:
        return (await agent.run(f"{passages}\n{question}", deps=near)).output


async def embedded(texts: list[str]) -> np.ndarray:
    parts = [texts[start : start + 128] for start in range(0, len(texts), 128)]
    found = await asyncio.gather(*map(embedder.embed_documents, parts))
    return np.array([vector for part in found for vector in part.embeddings])


async def main() -> str:
    vectors = await embedded([*PASSAGES, *QUESTIONS])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    scores = vectors[len(PASSAGES) :] @ vectors[: len(PASSAGES)].T
    near = np.argsort(-scores, axis=1, kind="stable")[:, :5].tolist()
    found = await asyncio.gather(*map(answer, QUESTIONS, near))
    known = sum(bool(each.passages) for each in found)
    return f"{known} answers with citations, {sum(sum(each.passages) for each in found)}"


print(asyncio.run(main()))

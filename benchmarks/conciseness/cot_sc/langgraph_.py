import re
from collections import Counter

from langchain_openai import ChatOpenAI
from langgraph.func import entrypoint, task

model = ChatOpenAI(model="default", temperature=0.7)


@task
def sample(prompt: str) -> str:
    return model.invoke(prompt).content


@entrypoint()
def vote(asked: dict) -> str:
    lines = [*asked["examples"], f"Question: {asked['question']}", "Let's think step by step."]
    samples = [sample("\n".join(lines)) for _ in range(asked["n"])]
    votes = Counter(re.findall(r"-?\d+", text.result())[-1] for text in samples)
    return votes.most_common(1)[0][0]


def solve(question: str, examples: list[str], n: int) -> str:
    return vote.invoke({"question": question, "examples": examples, "n": n})

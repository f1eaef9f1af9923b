import re
from collections import Counter

import sglang as sgl


@sgl.function
def sample(s, question: str, examples: list[str]):
    lines = [*examples, f"Question: {question}", "Let's think step by step."]
    s += sgl.user("\n".join(lines))
    s += sgl.assistant(sgl.gen("answer", temperature=0.7))


def solve(question: str, examples: list[str], n: int) -> str:
    states = sample.run_batch([{"question": question, "examples": examples}] * n)
    votes = Counter(re.findall(r"-?\d+", state["answer"])[-1] for state in states)
    return votes.most_common(1)[0][0]

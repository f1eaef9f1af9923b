import re
from collections import Counter

from appl import gen, ppl


@ppl
def solve(question: str, examples: list[str], n: int) -> str:
    examples
    f"Question: {question}"
    "Let's think step by step."
    samples = gen(n=n, temperature=0.7).samples
    votes = Counter(re.findall(r"-?\d+", text)[-1] for text in samples)
    return votes.most_common(1)[0][0]

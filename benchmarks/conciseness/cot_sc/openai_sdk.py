import re
from collections import Counter

from openai import OpenAI

client = OpenAI()


def solve(question: str, examples: list[str], n: int) -> str:
    lines = [*examples, f"Question: {question}", "Let's think step by step."]
    completion = client.chat.completions.create(
        model="default",
        messages=[{"role": "user", "content": "\n".join(lines)}],
        n=n,
        temperature=0.7,
    )
    samples = [choice.message.content for choice in completion.choices]
    votes = Counter(re.findall(r"-?\d+", text)[-1] for text in samples)
    return votes.most_common(1)[0][0]

"""Hello: the smallest prompt program, with a few questions at once.

appl run examples/hello.py
appl run examples/hello.py:hello --name Ada
"""

from appl import Generation, gen, ppl


@ppl
def hello(name: str = "Tom") -> Generation:
    """A triple-quoted docstring is documentation; the statements below are the prompt."""
    f"Hello, I am {name}. What can you do?"
    return gen(temperature=0)


@ppl
def from_facts(question: str) -> Generation:
    """Answer from facts: this model knows only what its prompt says."""
    "Facts:"
    "- Mira Holt is a baker from Tarn."
    "- Olaf Brand is a pilot. He owns 3 dogs."
    f"Question: {question} Answer in a full sentence."
    return gen(temperature=0)


def main(name: str = "Tom") -> list[str]:
    """Four questions; none of them waits for another."""
    questions = ("Who is a baker?", "How many dogs does Olaf Brand own?", "Who is a pilot?")
    answers = [hello(name), *(from_facts(question) for question in questions)]
    asked = (f"Hello, I am {name}. What can you do?", *questions)
    return [f"{q:36} {a}" for q, a in zip(asked, answers, strict=True)]


if __name__ == "__main__":
    print(*main(), sep="\n")

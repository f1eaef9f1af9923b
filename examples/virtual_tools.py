"""Virtual tools: an agent calls tools, and another model answers from their descriptions alone.

appl run examples/virtual_tools.py
appl run examples/virtual_tools.py --question "Look up the capital of Velmora."

A tool is a function with a docstring. Here its body is a prompt, so that you can try an agent
before the real tools exist. The calls inside have addresses below the agent's, and are recorded.
"""

from collections.abc import Iterator

from appl import Generation, SystemMessage, gen, gen_with_tools, ppl

WORLD = [
    "The capital of Velmora is Tarn.",
    "The river of Velmora is the Ost.",
    "The king of Velmora is Hugo Lind.",
]
QUESTIONS = [
    "Look up the capital of Velmora.",
    "Look up the king of Velmora.",
    "Look up the river of Velmora.",
]


@ppl
def lookup(key: str) -> Generation:
    """Look up a fact.

    Args:
        key: What to look up.
    """
    "Facts:"
    for fact in WORLD:
        f"- {fact}"
    f"Question: What is the {key}? Answer with the answer only."
    return gen(temperature=0)


@ppl
def agent(question: str) -> Generation:
    SystemMessage("You are helpful.")
    f"{question}"
    return gen_with_tools(tools=[lookup], max_steps=3, temperature=0)


def main(question: str | None = None) -> Iterator[str]:
    """Each question with the answer of the agent."""
    asked = [question] if question else QUESTIONS
    answers = [agent(each) for each in asked]
    for each, answer in zip(asked, answers, strict=True):
        yield f"{each} {answer}"


if __name__ == "__main__":
    print(*main(), sep="\n")

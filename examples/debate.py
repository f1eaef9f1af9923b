"""A debate: two agents who remember what was said, and a judge who hears both.

appl run examples/debate.py
appl run examples/debate.py --topic "night buses" --rounds 3
"""

from collections.abc import Iterator
from dataclasses import dataclass

from appl import AIRole, Generation, SystemMessage, gen, ppl, select


@dataclass(eq=False)
class Agent:
    """One side of the debate, which keeps all that it said and heard in its own prompt."""

    name: str
    work: str
    side: str

    @ppl(ctx="resume")  # every turn continues where this agent left off
    def speak(self, topic: str, heard: Generation | None = None) -> Generation:
        if heard is None:
            SystemMessage(f"You are {self.name}, a {self.work}.")
        else:
            f"The other side says: {heard}"
        f"Topic: {topic}. Argue {self.side}, in two sentences."
        with AIRole():
            (said := gen())
        return said


@ppl
def judge(topic: str, first: Generation | None, second: Generation | None) -> Generation:
    """The log-probabilities of A and B: which of two arguments is better?"""
    f"Question: What do you think about {topic}?"
    f"Answer A: {first}"
    f"Answer B: {second}"
    "Which answer is better? Reply with A or B."
    return select(["A", "B"])


def lead(verdict: Generation) -> float:
    """By how much A is ahead of B."""
    a, b = verdict.scores or (0.0, 0.0)
    return a - b


def main(topic: str = "school uniforms", rounds: int = 2) -> Iterator[str]:
    """Both sides speak in turn; the judge hears them in both orders, as order may matter."""
    nora = Agent("Nora Vell", "teacher", "in favour")
    olaf = Agent("Olaf Brand", "pilot", "against")
    said, pro, con = [], None, None
    for _ in range(rounds):
        pro = nora.speak(topic, con)  # a future: the other's prompt takes it without waiting
        con = olaf.speak(topic, pro)
        said += [(nora, pro), (olaf, con)]
    verdicts = judge(topic, pro, con), judge(topic, con, pro)
    yield f"Topic: {topic}"
    for agent, words in said:
        yield f"  {agent.name} ({agent.side}): {words}"
    margin = lead(verdicts[0]) - lead(verdicts[1])
    winner = nora if margin > 0 else olaf
    yield f"The judge is for {winner.name}, {winner.side}, by {abs(margin):.2f} in log-probability."


if __name__ == "__main__":
    print(*main(), sep="\n")

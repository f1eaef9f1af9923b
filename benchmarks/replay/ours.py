"""The program for appl: votes of one prompt, and chats whose next question holds the answer."""

from __future__ import annotations

from appl import AIRole, gen, ppl


@ppl(parallel=True)
def vote() -> str:
    "Name a number."
    return str(gen(temperature=1.0))


@ppl(parallel=True)
def chat(name: int) -> list[str]:
    "Let us count."
    said = []
    for _ in range(3):
        "Next?"
        with AIRole():
            answer = gen(temperature=1.0)
            f"{answer}"
        said.append(str(answer))
    return said


def main() -> list[object]:
    """Ten votes and ten chats, all at once."""
    votes, chats = [vote() for _ in range(10)], [chat(i) for i in range(10)]
    return [[str(v) for v in votes], [list(c) for c in chats]]

"""A chatbot that prints each answer while the model writes it.

appl run examples/chatbot.py
appl run examples/chatbot.py --ask on        (and type; an empty line ends it)
"""

import sys
from collections.abc import Generator, Iterator

from appl import AIRole, Generation, SystemMessage, gen, input, ppl

PERSONA = "You are Nora Vell, a gardener from Tarn. You like tea and you have two cats."
SAID = ["Hi, I am Tom. What is your name?", "What do you do for a living?", "What is my name?"]


@ppl(auto_prime=True)
def bot(persona: str) -> Generator[Generation | None, str, None]:
    """Takes lines of the user with ``send``, and yields answers that are still being written."""
    SystemMessage(persona)
    answer: Generation | None = None
    while True:
        yield answer
        with AIRole():
            (answer := gen(stream=True, max_tokens=60))


def typed() -> Iterator[str]:
    while line := input("> "):
        yield line


def main(ask: bool = False) -> None:
    """Talk, with lines from the keyboard or with three fixed ones."""
    nora = bot(PERSONA)
    for line in typed() if ask else SAID:
        if not ask:
            print(f"> {line}")
        answer = nora.send(line)
        for piece in answer.text_stream if answer is not None else ():
            print(piece, end="")
            sys.stdout.flush()
        print()


if __name__ == "__main__":
    main()

"""Two answers in one prompt, and a third; it stops after the first where it is told to."""

from appl import gen, ppl

STOP = False


@ppl
def ask(question):
    f"What of {question}?"
    return gen(max_tokens=9)


@ppl
def main():
    "Hello"
    first = ask("one")
    if STOP and len(first):
        raise InterruptedError
    second = ask("two")
    f"They say {first} and {second}."
    return str(gen())

"""Two answers in one prompt, and a third; it stops after the first where it is told to."""

from appl import gen, ppl
from appl.backend import Profile, Response, Sample

STOP = False


class Plain:
    """A backend that answers with a digest of the question, and does no more than it must."""

    profile = Profile("plain")

    async def complete(self, request, emit=None):
        return Response((Sample(request.digest.hex()[:6], "stop"),))

    async def aclose(self):
        pass


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

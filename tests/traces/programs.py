"""The programs of the golden traces: each uses a part of the format, and its answers are scripted.

They are replayed from recordings that may be years old: what one asks is never changed. For a new
thing to record, add a program.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

import appl
from appl import AIRole, Image, call, gen, gen_with_tools, ppl, select
from appl.backend import Request, Response, Sample, TokenLogprob, Usage
from appl.errors import ApplError, BackendUnavailable
from appl.testing import Answer, Fake, Streamed, calling

SECRET = "sk-golden-0123456789abcdef"
SECRET_NAME = "GOLDEN_API_KEY"
LONG = "It is a long document. " * 50_000
GROWING = "Once upon a time there was a list of numbers. " * 500


class Answering(Fake):
    """Answers by what is asked; one question is refused at the first attempt."""

    def __init__(self) -> None:
        features = {"n", "prefill", "seed", "stream", "tools", "choices", "images"}
        super().__init__(self._said, pieces=_pieces, name="golden", features=features)
        self._refused: set[str] = set()

    def _said(self, request: Request) -> Answer:
        text = request.messages.message.content if request.messages else ""
        again = request.address in self._refused
        if "REFUSE ONCE" in text and not again:
            self._refused.add(request.address)
            return BackendUnavailable("the server is down for a moment")
        if "FAIL" in text:
            return BackendUnavailable("the server is gone: é, \ud800 and \x1b[31m")
        if "CUT" in text:
            return Streamed(("first ", "and then "), BackendUnavailable("the stream broke off"))
        if "AT LENGTH" in text:
            return f"{_answer(request).text}: " + "one thing follows from another, " * 10
        if "A BOOK" in text:
            return f"{_answer(request).text}: " + "chapter after chapter, " * 300
        if request.sampling.choices:
            return request.sampling.choices[1]
        if request.sampling.tools and "is 12 degrees" not in text:
            return calling(
                ("weather", {"city": "Oslo"}), ("broken", {"city": "Rome"}), text="Let me look."
            )
        return _answer(request)


def _answer(request: Request) -> Response:
    mark = request.digest.hex()[:8]
    texts = [f"answer {mark} {i}" for i in range(request.n)]
    tokens = (TokenLogprob("answer", -0.25, (("answer", -0.25), ("Answer", -2.5))),)
    samples = tuple(
        Sample(text, "stop", tokens if i == 1 else None) for i, text in enumerate(texts)
    )
    return Response(samples, Usage(11, 7, 3), "golden-1", cost=120)


def _pieces(text: str) -> list[str]:
    return [text[at : at + 5] for at in range(0, len(text), 5)]


@ppl(parallel=True)
def ask(question: str, **options: Any) -> str:
    f"{question}"
    return str(gen(**options))


@ppl
def chat(turns: int) -> list[str]:
    "You are a patient teacher: naïve, 漢字, \U0001f600."
    said = []
    for turn in range(turns):
        f"Question {turn}: why?"
        with AIRole():
            answer = gen(temperature=0.5, stop=["\n\n"])
            f"{answer}"
        said.append(str(answer))
    return said


@ppl
def dialogue(topics: tuple[str, ...]) -> list[str]:
    """Answers of some length, each said again in the next prompt."""
    said: list[str] = []
    for topic in topics:
        f"Speak of {topic}."
        with AIRole():
            f"{(answer := str(gen()))}"
        said.append(answer)
    return said


def dialogues() -> Any:
    """Answers that prompts say again: short and long ones, some of them twice."""
    topics = "rain AT LENGTH", "snow AT LENGTH", "A BOOK", "wind"
    first = dialogue(topics)
    return [first, _retold(first[1]), _retold(first[2])]


@ppl
def _retold(text: str) -> str:
    "Did you say this?"
    with AIRole():
        f"{text}"
    "Why?"
    return str(gen())


def tree() -> Any:
    """Scopes below scopes, threads, choices, several samples, an answer that leads to a question."""
    first = ask("What is one?")
    others = [call(ask, f"What follows {first}, way {i}?") for i in range(3)]
    return [str(first), [str(other.result()) for other in others], chat(3), _many(), _chosen()]


@ppl
def _many() -> list[str]:
    "Say three things."
    return [str(sample) for sample in gen(n=3, temperature=1.0).samples]


@ppl
def _chosen() -> str:
    "Yes or no?"
    return str(select(["yes", "no"]))


def observed() -> Any:
    """What a program sees of the world outside."""
    appl.sleep(0.001)
    return [
        appl.random(),
        str(appl.uuid()),
        str(appl.now()),
        appl.env("GOLDEN_HOME"),
        str(ask("And?")),
    ]


def failing() -> Any:
    """A retry, a failure that is caught, a call that is cancelled, and one that fails to the end."""
    found = [str(ask("REFUSE ONCE and then answer"))]
    try:
        found.append(str(ask("FAIL always")))
    except ApplError as error:
        found.append(f"{type(error).__name__}: {error!s:.40}".encode("ascii", "replace").decode())
    late = [ask(f"Who needs {i}?") for i in range(3)]
    found.append(str(late[0]))
    return found


@ppl
def streamed() -> Any:
    "Count to ten."
    pieces = list(gen(stream=True).text_stream)
    "CUT"
    begun = []
    try:
        for piece in gen(stream=True).text_stream:
            begun.append(piece)
    except ApplError as error:
        begun.append(type(error).__name__)
    return [pieces, begun]


def weather(city: str) -> str:
    """The weather in a city."""
    return f"In {city} it is 12 degrees."


def broken(city: str) -> str:
    """Fails, whatever it is asked."""
    raise ValueError(f"no data for {city}")


@ppl
def tools() -> Any:
    "What is the weather in Oslo and in Rome?"
    answer = gen(tools=[weather, broken])
    answer
    results = answer.run_tool_calls()
    results
    "And in Oslo?"
    (last := gen_with_tools(tools=[weather], max_steps=1, on_limit="answer"))
    return [[result.content for result in results], str(last)]


@ppl
def media() -> Any:
    "Look at:"
    Image("https://example.com/cat.png", "low")
    " and at "
    Image.from_bytes(bytes(range(256)) * 3, "image/png")
    f"{gen()}"
    "And now in words?"
    return str(gen())


@ppl
def growing() -> Any:
    """One message that goes on, and a text of more than a megabyte."""
    f"{GROWING}"
    for turn in range(3):
        f"Number {turn}: {gen()}"
    f"{LONG}"
    return str(gen())


@ppl
def masked() -> Any:
    f"My key is {os.environ.get(SECRET_NAME, SECRET)}, keep it."
    return str(gen())


@ppl
async def _asked(question: str) -> str:
    f"{question}"
    return str(await gen())


def tasks() -> Any:
    """Tasks of asyncio, of which the first two to finish are taken."""

    async def main() -> list[str]:
        waiting = [asyncio.ensure_future(_asked(f"Task {i}?")) for i in range(4)]
        done = [await each for each in asyncio.as_completed(waiting[:2])]
        rest = await asyncio.gather(*waiting[2:])
        return [*done, *rest]

    return asyncio.run(main())


@ppl
def _pair(extra: bool) -> list[str]:
    "Which of the two?"
    before = [str(gen(temperature=0.5))] if extra else []
    return [*before, str(gen())]


def original() -> Any:
    """What is edited afterwards."""
    return [str(ask("What stays?")), *_pair(False), *(str(ask(q)) for q in ("Alpha?", "Beta?"))]


def edited() -> Any:
    """The same, edited: a call before one of its frame, a new one, and one that went elsewhere."""
    return [
        str(ask("What stays?")),
        *_pair(True),
        *(str(ask(q)) for q in ("New?", "Alpha?", "Gamma?")),
    ]


@ppl
def _is_true(question: str) -> Any:
    f"{question}"
    return gen(response_format=bool)


def refused() -> Any:
    """Items whose answers are never of their type."""
    found = appl.map(_is_true, ["Is it?", "And then?"], on_error="collect", progress=False)
    return [type(each).__name__ for each in found]


PROGRAMS: dict[str, Callable[[], Any]] = {
    "tree": tree,
    "observed": observed,
    "failing": failing,
    "streamed": streamed,
    "tools": tools,
    "media": media,
    "growing": growing,
    "masked": masked,
    "tasks": tasks,
    "dialogues": dialogues,
    "refused": refused,
}
EDITS = {"original": original, "edited": edited}
"""Two versions of a program: the second is run from the trace of the first."""

"""Prompts: building and rendering a large one, and a chat whose history grows.

Run: python benchmarks/prompt.py [--json FILE] [--turns 400] [--repeats 5]
Bars: 2,000 messages with 1 MB in 20 ms; CPU of turn 400 at most 1.5 times that of turn 4, recorded.

``turn`` figures are CPU of all threads, as the mean of 16 turns from the given one on, in the best
of the repeats; the backend answers at once and reads nothing, so that no byte of the history is
needed on a wire. ``parts`` is one message that is built in 1,000 pieces with a call after each;
``branches`` are questions in the same message as a long document. Both compute a digest of all of
the message for each call.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from report import write

from appl import AIRole, Conversation, UserMessage, convo, gen, ppl
from appl.prompt import Messages, Prompt, RoleName
from appl.runtime.run import Run
from appl.testing import Instant
from appl.tracing import Recorder

MESSAGES, LENGTH = 2000, 525
TEXTS = [f"{i:5} " + "x" * (LENGTH - 6) for i in range(MESSAGES)]
ROLES: tuple[RoleName, RoleName] = ("user", "assistant")
WINDOW = 16
ANSWER = "An answer of some length, as a model in a chat would give it to its user."


# -- one large prompt


def by_hand() -> int:
    prompt = Prompt()
    for i, text in enumerate(TEXTS):
        prompt.append(ROLES[i % 2], text)
    assert prompt.tip is not None
    return len(prompt.tip.messages() or ())


@ppl
def said() -> int:
    for i, text in enumerate(TEXTS):
        if i % 2:
            with AIRole():
                text
        else:
            f"{text}"
    return len(convo())


def given() -> int:
    said_then = [{"role": ROLES[i % 2], "content": text} for i, text in enumerate(TEXTS)]
    return len(Conversation(said_then).chain or ())


def sent() -> int:
    """The bytes of a wire: every message as a dict."""
    return len([message.as_dict() for message in CHAIN])


CHAIN = Messages.of(
    [UserMessage(text) for text in TEXTS]  # what ``sent`` reads is made beforehand
) or []  # fmt: skip


def milliseconds(action: Callable[[], int], repeats: int) -> dict[str, float]:
    """The time of *action*: the best by the clock, and the medians of clock and CPU."""
    cpu, wall = [], []
    for _ in range(4 * repeats):
        gc.collect()
        before, began = time.perf_counter_ns(), time.thread_time_ns()
        assert action() == MESSAGES
        cpu.append((time.thread_time_ns() - began) / 1e6)
        wall.append((time.perf_counter_ns() - before) / 1e6)
    found = {"best": min(wall), "clock": median(wall), "cpu": median(cpu)}
    return {name: round(value, 2) for name, value in found.items()}


# -- a chat


@ppl
def one_function(turns: int, clock: Clock) -> None:
    for i in range(turns):
        f"Question {i}: what do you think of it, and why?"
        with AIRole():
            answer = gen()
            answer
        clock.tick(str(answer))


@ppl(ctx="resume")
def bot(i: int) -> Any:
    f"Question {i}: what do you think of it, and why?"
    with AIRole():
        (answer := gen())
    return answer


def resumed(turns: int, clock: Clock) -> None:
    for i in range(turns):
        clock.tick(str(bot(i)))


@ppl
def agent() -> Iterator[Any]:
    answer = None
    while True:
        yield answer
        with AIRole():
            (answer := gen())


def generator(turns: int, clock: Clock) -> None:
    talk: Any = agent()
    next(talk)
    for i in range(turns):
        clock.tick(str(talk.send(f"Question {i}: what do you think of it, and why?")))


def conversation(turns: int, clock: Clock) -> None:
    history = Conversation()
    for i in range(turns):
        history.append(UserMessage(f"Question {i}: what do you think of it, and why?"))
        answer = gen(messages=history)
        history.append(answer.message)
        clock.tick(str(answer))


def dicts(turns: int, clock: Clock) -> None:
    history: list[dict[str, str]] = []
    for i in range(turns):
        said = f"Question {i}: what do you think of it, and why?"
        history.append({"role": "user", "content": said})
        answer = str(gen(messages=history))
        history.append({"role": "assistant", "content": answer})
        clock.tick(answer)


@ppl(ctx="copy")
def reply() -> Any:
    return gen(messages=convo())


@ppl
def copied(turns: int, clock: Clock) -> None:
    for i in range(turns):
        f"Question {i}: what do you think of it, and why?"
        answer = reply()
        with AIRole():
            f"{answer}"
        clock.tick(str(answer))


CHATS: dict[str, Callable[[int, Clock], None]] = {
    "one function": one_function, "resume": resumed, "generator": generator,
    "Conversation": conversation, "list of dicts": dicts, "copy and convo()": copied,
}  # fmt: skip


class Clock:
    """CPU of the process after each turn."""

    def __init__(self) -> None:
        self.times = [time.process_time_ns()]

    def tick(self, text: str) -> None:
        self.times.append(time.process_time_ns())

    def at(self, turn: int) -> float:
        """Microseconds of a turn: the mean of a window that begins there."""
        return (self.times[turn - 1 + WINDOW] - self.times[turn - 1]) / WINDOW / 1000


@contextmanager
def recorded(folder: str) -> Iterator[Recorder]:
    """A recorded run on a backend that answers at once."""
    recorder = Recorder(Path(folder) / f"{time.monotonic_ns()}.trace")
    with Run(Instant(ANSWER), instruments=[recorder], gate=recorder.gate):
        yield recorder
    recorder.close("finished")


def chat(program: Callable[[int, Clock], None], turns: int, repeats: int) -> dict[str, Any]:
    """What an early and a late turn of *program* cost."""
    early, late = [], []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(repeats + 1):  # the first warms up
            gc.collect()
            with recorded(folder):
                clock = Clock()
                program(turns + WINDOW, clock)
            early.append(clock.at(4))
            late.append(clock.at(turns))
    first, last = min(early[1:]), min(late[1:])
    found = {"turn 4 us": first, f"turn {turns} us": last, "ratio": last / first}
    return {name: round(value, 2) for name, value in found.items()}


# -- one message of many parts


@ppl
def growing(parts: int, clock: Clock) -> None:
    with AIRole():
        for _ in range(parts):
            "x" * LENGTH
            f"{(answer := gen())}"
            clock.tick(str(answer))


def parts(count: int, record: bool) -> dict[str, float]:
    """What a part costs in the first and in the last tenth, and the trace of all."""
    with tempfile.TemporaryDirectory() as folder:
        clock = Clock()
        if record:
            with recorded(folder) as recorder:
                growing(count, clock)
            size = recorder.path.stat().st_size
        else:
            size = 0
            with Run(Instant(ANSWER)):
                growing(count, clock)
    tenth = count // 10
    first = (clock.times[tenth] - clock.times[0]) / tenth / 1000
    last = (clock.times[-1] - clock.times[-1 - tenth]) / tenth / 1000
    return {"first us": round(first, 1), "last us": round(last, 1), "trace KB": size // 1000}


# -- many questions about one document


@ppl(ctx="copy")
def about(i: int) -> Any:
    f"Question {i}?"
    return gen()


@ppl
def questions(count: int) -> None:
    DOCUMENT
    for answer in [about(i) for i in range(count)]:
        _ = str(answer)


DOCUMENT = "".join(TEXTS)[:200_000]


def branches(count: int) -> dict[str, float]:
    """What a question costs, and the trace of all of them."""
    with tempfile.TemporaryDirectory() as folder:
        before = time.process_time_ns()
        with recorded(folder) as recorder:
            questions(count)
        spent = (time.process_time_ns() - before) / count / 1000
        size = recorder.path.stat().st_size
    return {"us a question": round(spent, 1), "trace KB": size // 1000}


def main() -> None:
    """Measure and print tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    parser.add_argument("--turns", type=int, default=400)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    found: dict[str, Any] = {"large": {}, "chat": {}, "parts": {}, "branches": {}}
    for action in (by_hand, said, given, sent):
        with Run(Instant()):
            row = found["large"][action.__name__] = milliseconds(action, arguments.repeats)
        print(
            f"{MESSAGES} messages, {MESSAGES * LENGTH / 1e6:.2f} MB, {action.__name__:8} {row} ms"
        )
    for name, program in CHATS.items():
        row = found["chat"][name] = chat(program, arguments.turns, arguments.repeats)
        print(f"chat: {name:17} {row}")
    for record in (False, True):
        for count in (250, 1000):
            row = parts(count, record)
            found["parts"][f"{count} {'recorded' if record else 'plain'}"] = row
            print(f"one message of {count:4} parts, {'recorded' if record else 'plain':8} {row}")
    for count in (10, 100, 1000):
        row = found["branches"][count] = branches(count)
        print(f"{count:4} questions about {len(DOCUMENT) // 1000} KB {row}")
    write(arguments.json, "python benchmarks/prompt.py", found)


if __name__ == "__main__":
    main()

"""A program that waits for people and days, through many lives: each may be killed at any moment.

A process without threads forks one child for each life, and for each person who answers. What costs
or has an effect is written to a bill that outlives all of them. The value that is to come out is
that of a naive twin, which is plain Python and waits for nobody.
"""

from __future__ import annotations

import contextlib
import faulthandler
import hashlib
import importlib
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import appl
from appl import as_tool, gen, ppl
from appl.backend import Request, Response
from appl.errors import (
    InDoubtEffect,
    NoSuchQuestion,
    NotATrace,
    RunWaiting,
    TraceError,
    TraceLocked,
    TraceWriteError,
    UntrustedTrace,
)
from appl.session import record, resumed
from appl.session.answers import add_answers
from appl.testing import Scripted, WallClock, calling
from appl.tracing import Trace
from appl.tracing.reading import open_questions

DAYS = 30
BEGAN = 1_767_225_600.0
Step = tuple[str, str]
"""What a branch does: ``call``, ``tool``, ``free`` (a tool without approval), ``person``, ``sleep``;
and a key."""


def digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=4).hexdigest()


def decides(text: str) -> bool:
    """What people say to a question: it depends on its words alone."""
    return int(digest(text), 16) % 4 != 0


def branches(seed: int) -> list[list[Step]]:
    """A random program."""
    dice = random.Random(f"program {seed}")
    kinds = ["call", "call", "tool", "free", "person", "sleep"]
    return [
        [(dice.choice(kinds), f"b{b}s{s}") for s in range(dice.randint(2, 5))]
        for b in range(dice.randint(1, 4))
    ]


def twin(seed: int, words: dict[str, str]) -> list[list[str]]:
    """The value of the program, with nobody to wait for."""
    return [[_twin_step(kind, key + words.get(key, "")) for kind, key in b] for b in branches(seed)]


def _twin_step(kind: str, text: str) -> str:
    if kind == "call":
        return digest(f"say {text}")
    if kind == "person":
        return str(decides(f"Is {text} right?"))
    if kind == "sleep":
        return "slept"
    if kind == "free":
        return f"result: did {text}"
    if decides(f"Do {text}?"):
        return f"result: did {text}"
    return "result: act was not called: a person refused it: no"


# -- one life


class Bill:
    """What was asked and done, in a file in which each line is at once."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, *words: str) -> None:
        os.write(self._fd, (" ".join(words) + "\n").encode())


BILL: list[Bill] = []


def act(text: str) -> str:
    """Do it.

    text: what
    """
    BILL[-1].write("begun", text)
    time.sleep(0.04)
    BILL[-1].write("done", text)
    return f"did {text}"


TOOL = as_tool(act, approve="Do {text}?")
FREE = as_tool(act)


def _model(request: Request) -> str | Response:
    messages = list(request.messages or ())
    first, last = messages[0].content, messages[-1]
    BILL[-1].write("asked", request.address, request.digest.hex()[:16])
    if last.role == "tool":
        return f"result: {last.content}"
    return digest(first) if first.startswith("say") else calling(("act", {"text": first}))


def backend(**_: object) -> Scripted:
    """The model, which writes down what it is asked."""
    return Scripted(_model)


@ppl
def said(text: str) -> Any:
    f"say {text}"
    return gen()


def step(kind: str, text: str) -> str:
    if kind == "call":
        return str(said(text))
    if kind == "person":
        return str(appl.ask_person(f"Is {text} right?", bool))
    if kind == "sleep":
        appl.sleep(hours=1 + int(digest(text), 16) % 200)
        return "slept"
    return str(appl.gen_with_tools(messages=text, tools=[TOOL if kind == "tool" else FREE]))


def program(seed: int, words: dict[str, str]) -> list[list[str]]:
    """The branches side by side: every other one on a thread of its own."""

    def plain(branch: list[Step]) -> list[str]:
        return [step(kind, key + words.get(key, "")) for kind, key in branch]

    return [list(each) for each in appl.map(plain, branches(seed))]


@dataclass
class Order:
    """One life: at which time, with what was edited, and what is assumed of tools in doubt."""

    seed: int
    folder: Path
    now: float
    words: dict[str, str]
    edited: bool
    assume: dict[str, str]


def live(order: Order) -> dict[str, Any]:
    """Begin the run or go on with it; how that ended."""
    BILL.append(Bill(order.folder / "bill"))
    path = order.folder / "run.trace"
    quiet: Callable[[str], None] = lambda line: None  # noqa: E731
    with WallClock(at=order.now):
        try:
            if path.exists():
                block = resumed(path, edited=order.edited, assume=order.assume, say=quiet)
            else:
                block = record(path, backend="tests.waits.lives:backend", durability="process")
            with block:
                return {"value": program(order.seed, order.words)}
        except RunWaiting as waiting:
            return {"waits": [list(entry) for entry in waiting.waits]}
        except InDoubtEffect as doubt:
            return {"doubt": doubt.address, "arguments": doubt.arguments}
        except TraceLocked:
            return {"locked": True}
        except (NotATrace, UntrustedTrace):  # it was killed before the first block was there
            return {"nothing": True}
        except TraceWriteError as error:
            if isinstance(error.__cause__, FileExistsError):  # two begin at once
                return {"locked": True}
            raise


def forked(act: Callable[[], dict[str, Any]], result: Path, kill_after: float | None) -> int:
    """The child that does *act*, and is killed after some seconds if that is given."""
    pid = os.fork()
    if pid:
        if kill_after is not None:
            time.sleep(kill_after)
            os.kill(pid, signal.SIGKILL)
        return pid
    faulthandler.dump_traceback_later(20, exit=True)
    try:
        text = json.dumps(act())
        part = result.with_suffix(f".{os.getpid()}")
        part.write_text(text)
        part.rename(result)
    except BaseException:
        import traceback

        result.with_suffix(".failed").write_text(traceback.format_exc())
    os._exit(0)


# -- a run through all its lives


@dataclass
class Outcome:
    """What went wrong with a run, in words; and how often it was killed."""

    kills: int = 0
    lives: int = 0
    answers: int = 0
    doubts: int = 0
    edits: int = 0
    both: int = 0
    wrong: list[str] = field(default_factory=list)


def through(seed: int, folder: Path) -> Outcome:
    """Have the program of *seed* come to its end, through kills, answers and days."""
    folder.mkdir(parents=True)
    dice, out, now = random.Random(seed), Outcome(), BEGAN
    words: dict[str, str] = {}
    assume: dict[str, str] = {}
    given: set[tuple[str, str]] = set()  # questions with recorded answers, by address and words
    for number in range(400):
        order = Order(seed, folder, now, dict(words), bool(words), dict(assume))
        before = _answered(folder)
        bill_before = _lines(folder)
        kill = dice.random() < 0.8
        result = folder / f"life{number}.json"
        twice = dice.random() < 0.1
        out.lives += 1 + twice
        out.both += twice
        second = folder / f"second{number}.json"
        other = forked(lambda: live(order), second, None) if twice else None  # noqa: B023
        after = dice.random() ** 2 * 0.7 if kill else None
        pid = forked(lambda: live(order), result, after)  # noqa: B023
        os.waitpid(pid, 0)
        if other is not None:
            os.waitpid(other, 0)
        out.kills += kill
        ends = [json.loads(path.read_text()) for path in (result, second) if path.exists()]
        for failed in folder.glob("*.failed"):
            out.wrong.append(f"life {number}: {failed.read_text()[-1500:]}")
            return out
        if any("nothing" in end for end in ends):
            trace = _opened(folder)
            if trace is not None and trace.incarnations:
                out.wrong.append(f"life {number}: a run that had begun was not gone on with")
            (folder / "run.trace").unlink(missing_ok=True)
        _check_bill(out, number, before, _lines(folder)[len(bill_before) :])
        for end in ends:
            if "value" in end:
                _check_end(out, end["value"], seed, words, folder)
                return out
            if "doubt" in end:
                out.doubts += 1
                text = json.loads(end["arguments"])["text"]
                assume[end["doubt"]] = f"did {text}"
            for address, kind, text, _ in end.get("waits", ()):
                if kind != "time" and (address, text) in given:
                    out.wrong.append(f"life {number}: {text} at {address} was asked again")
        if any("doubt" in end for end in ends):
            continue
        given |= _answer(out, folder, dice, now)
        now += dice.random() * 40 * 3600
        if dice.random() < 0.1 and not any("nothing" in end for end in ends):
            key = dice.choice([key for branch in branches(seed) for _, key in branch])
            if not _is_done(folder, key):  # a tool that has run with the old words stays done
                words[key] = f"v{number}"
                out.edits += 1
    out.wrong.append("it never came to its end")
    return out


def _lines(folder: Path) -> list[list[str]]:
    path = folder / "bill"
    return [line.split(" ") for line in path.read_text().splitlines()] if path.exists() else []


def _is_done(folder: Path, key: str) -> bool:
    return any(words[0] == "begun" and words[1].startswith(key) for words in _lines(folder))


def _opened(folder: Path) -> Trace | None:
    try:
        return Trace.open(folder / "run.trace")
    except (TraceError, OSError):
        return None


def _answered(folder: Path) -> set[tuple[str, str]]:
    """The calls with recorded answers, by address and content."""
    trace = _opened(folder)
    calls = trace.calls if trace is not None else ()
    return {(c.address, c.content.hex()[:16]) for c in calls if c.outcome == "answered"}


def _check_bill(
    out: Outcome, number: int, before: set[tuple[str, str]], new: list[list[str]]
) -> None:
    for words in new:
        if words[0] == "asked" and (words[1], words[2]) in before:
            out.wrong.append(f"life {number}: {words[1]} was paid twice")


def _check_end(out: Outcome, value: object, seed: int, words: dict[str, str], folder: Path) -> None:
    if value != twin(seed, words):
        out.wrong.append(f"the value is {value}, and not {twin(seed, words)}")
    begun = Counter(line[1] for line in _lines(folder) if line[0] == "begun")
    out.wrong += [f"{text} was done {n} times" for text, n in begun.items() if n > 1]


def _answer(out: Outcome, folder: Path, dice: random.Random, now: float) -> set[tuple[str, str]]:
    """Some people answer, in any order; the questions that are answered for certain."""
    trace = _opened(folder)
    questions = open_questions(trace) if trace is not None and trace.state != "running" else []
    chosen = [question for question in questions if dice.random() < 0.6]
    if not chosen:
        return set()
    dice.shuffle(chosen)
    texts = {q.address: ("yes" if decides(q.text) else _no(q.tool)) for q in chosen}

    def add() -> dict[str, Any]:
        with WallClock(at=now):
            try:
                add_answers(folder / "run.trace", texts, by="people", via="test")
            except (TraceLocked, NoSuchQuestion) as refused:
                return {"refused": str(refused)}
        return {"added": True}

    result = folder / "answers.json"
    result.unlink(missing_ok=True)
    kill = dice.random() < 0.3
    out.kills += kill
    os.waitpid(forked(add, result, dice.random() * 0.02 if kill else None), 0)
    added = result.exists() and "added" in json.loads(result.read_text())
    out.answers += len(texts) if added else 0
    return {(q.address, q.text) for q in chosen} if added else set()


def _no(tool: str) -> str:
    return "no: no" if tool else "no"


def preload(folder: Path) -> None:
    """Import here what a life imports, so that lives are short; a thread would be lost in a fork."""
    folder.mkdir(parents=True)

    def modules() -> dict[str, Any]:
        live(Order(3, folder, BEGAN, {}, False, {}))
        live(Order(3, folder, BEGAN, {}, False, {}))
        return {"modules": list(sys.modules)}

    result = folder / "modules.json"
    os.waitpid(forked(modules, result, None), 0)
    for name in json.loads(result.read_text())["modules"]:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def main(folder: Path, first: int, kills: int) -> None:
    """Runs from seed *first* on, until so many processes were killed; prints what came of it."""
    preload(folder / "preload")
    total, seed, wrong = Outcome(), first, list[str]()
    while total.kills < kills:
        out = through(seed, folder / str(seed))
        for name in ("kills", "lives", "answers", "doubts", "edits", "both"):
            setattr(total, name, getattr(total, name) + getattr(out, name))
        wrong += [f"seed {seed}: {each}" for each in out.wrong]
        seed += 1
        print(f"{total.kills} kills, {len(wrong)} wrong", file=sys.stderr)
    data = {**vars(total), "runs": seed - first, "wrong": wrong}
    print(json.dumps(data))

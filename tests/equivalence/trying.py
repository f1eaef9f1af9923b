"""Random programs full of ``try``, with side effects in every body, for plain Python to judge.

Calls that may fail stand in bodies of ``try``; a ``say(…)`` is a bare statement of the prompt program.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from appl.backend import Emit, Request, Response, Sample, Usage
from appl.testing import Run

from .backends import Hurried, Shuffled
from .compare import described, module_of
from .python import Python, answer

FUNCTIONS = """
import asyncio
from contextlib import suppress
from appl.errors import BackendError

LOG, COUNT = [], {"n": 0}

class Keeper:
    def __enter__(self):
        LOG.append("in")
        return self
    def __exit__(self, kind, error, tb):
        LOG.append(f"out {error}")
        return kind is not None and issubclass(kind, BackendError)

class Box:
    text = "empty"

@ppl
def ask(q):
    say(f"what of {q}")
    return gen()

@ppl
def dare(q):
    say(f"risky {q}")
    return gen()

@ppl(ctx="copy")
def dare_copy(q):
    say(f"risky {q}")
    return gen()

@ppl(ctx="same")
def dare_same(q):
    say(f"risky {q}")
    return gen()

@ppl(ctx="resume")
def dare_again(q):
    say(f"risky {q}")
    x = gen()
    say(x)
    return x

@ppl
async def dare_async(q):
    say(f"risky {q}")
    return str(await gen())

@ppl
def dare_both(q):
    try:
        x = dare(q)
        y = dare(q + " again")
    finally:
        LOG.append("both")
    return x

@ppl
def steps(q):
    for i in range(3):
        say(f"step {i} {q}")
        try:
            say("risky step")
            yield gen()
            LOG.append("gone on")
        except BackendError as e:
            LOG.append(f"step {e}")
            yield "n/a"

@ppl
async def steps_async(q):
    for i in range(3):
        say(f"step {i} {q}")
        try:
            say("risky step")
            yield str(await gen())
            LOG.append("gone on")
        except BackendError as e:
            LOG.append(f"step {e}")
            yield "n/a"
"""
_APPL = "from appl import gen, map, ppl\n"
SAID = re.compile(r"^( *)say\((.*)\)$", re.M)

BODIES = {
    "append": ["out.append({d})", "out.append('after')"],
    "dict item": ["table[{k}] = {d}", "table['after'] = len(table)"],
    "key that asks": ["table[str({d})] = {k}", "LOG.append(sorted(table))"],
    "counter": ["COUNT['n'] += 1", "x = {d}", "COUNT['n'] += 10"],
    "print": ["LOG.append('begin')", "x = {d}", "LOG.append(f'got {{x}}')"],
    "statement": ["say({d})", "LOG.append('after a statement')"],
    "said": ["say('risky here')", "say(gen())", "LOG.append('said')"],
    "said by name": ["say('risky name')", "x = gen()", "say(f'name {{x}}')", "COUNT['n'] += 1"],
    "fan-out": ["xs = [dare(w) for w in 'ab']", "LOG.append(list(xs))"],
    "two in flight": ["x = dare_both({k})", "LOG.append(x)"],
    "map": ["xs = map(dare, ['m', {k}])", "LOG.append(xs)"],
    "several": ["x, y = {d}, {d}", "LOG.append(y)", "LOG.append(x)"],
    "augmented": ["out += [{d}]", "LOG.append(len(out))"],
    "attribute": ["box.text = {d}", "LOG.append('stored')"],
    "walrus": ["if (x := {d}) > 'd':", "    LOG.append('late in the alphabet')"],
    "if": ["if {d} > 'f':", "    LOG.append('yes')", "else:", "    LOG.append('no')"],
    "while": ["n = 0", "while {d} and n < 2:", "    n += 1", "    LOG.append(n)"],
    "for": ["for w in [{d}, {d}]:", "    LOG.append('round')", "    out.append(w)"],
    "for steps": ["for w in steps({k}):", "    LOG.append('round')", "    out.append(str(w))"],
    "next": ["it = steps({k})", "out.append(next(it))", "LOG.append('one')", "out.append(next(it))"],
    "async for": ["async for w in steps_async({k}):", "    LOG.append('round')", "    out.append(w)"],
    "anext": ["it = steps_async({k})", "out.append(await anext(it))", "LOG.append('one')",
              "out.append(await anext(it))", "await it.aclose()"],
    "match": ["match {d}:", "    case str() as w:", "        LOG.append('matched')"],
    "assert": ["assert {d}", "LOG.append('held')"],
    "del": ["table['z'] = 1", "del table['z' if {d} else 'y']", "LOG.append('gone')"],
    "raise": ["raise ValueError(str({d}))"],
    "raise later": ["x = {d}", "LOG.append('about to raise')", "raise ValueError('own')"],
    "user's with": ["with Keeper():", "    x = {d}", "    LOG.append('inside')"],
    "suppress": ["with suppress(BackendError):", "    out.append({d})", "    COUNT['n'] += 1"],
    "inner try": [
        "try:", "    x = {d}", "    LOG.append('inner')", "except ValueError:",
        "    LOG.append('never')", "finally:", "    COUNT['n'] += 1", "LOG.append('outer')",
    ],
    "finally alone": ["try:", "    x = {d}", "    LOG.append('had')", "finally:",
                      "    LOG.append('finally')"],
    "raised again": [
        "try:", "    x = {d}", "    COUNT['n'] += 1", "except BackendError as e:",
        "    say('seen')", "    LOG.append('again')", "    raise",
    ],
    "helper": ["def step(w):", "    return dare(w)", "out.append(step({k}))", "LOG.append('step')"],
    "loop": ["for w in 'xy':", "    try:", "        x = dare(w)", "        out.append(x)",
             "        if x > 'g':", "            break", "    except BackendError:",
             "        out.append('n/a')", "        continue", "    LOG.append(w)"],
}  # fmt: skip

SYNC = ("map", "for steps", "next")  # what a coroutine does in another way
ASYNC = ("async for", "anext")  # what only a coroutine does


class Trying:
    """The program of one seed; ``marks`` are the features in it."""

    def __init__(self, seed: int) -> None:
        self.seed, self.random = seed, random.Random(seed)
        self.asynchronous = seed % 3 == 0
        self.marks: Counter[str] = Counter(["async"] if self.asynchronous else [])
        self.number = 0
        self.text = self._made()

    def _made(self) -> str:
        return FUNCTIONS + "".join(self._main())

    def _main(self) -> list[str]:
        lines = ["LOG.clear()", "COUNT['n'] = 0", "out, table, box = [], {}, Box()", "x = y = None"]
        for _ in range(self.random.randint(3, 6)):
            lines += self._try()
            lines += self.random.choice([[], ["say('between')"], ["out.append(ask('plain'))"]])
        lines.append(self._last())
        word = "async def" if self.asynchronous else "def"
        return [f"\n@ppl\n{word} main():\n", *(f"    {line}\n" for line in lines)]

    def _last(self) -> str:
        made = "[str(w) for w in out], {k: str(v) for k, v in table.items()}"
        return f"return [{made}, COUNT['n'], list(LOG), str(x), str(box.text), str(ask('end'))]"

    def _dare(self, first: bool) -> str:
        """A call that may fail; a later one of a statement keeps nothing for other statements."""
        self.number += 1
        kinds = ["dare", "dare", "dare", "dare_copy", "dare_same", *["dare_again"] * first]
        kind = self.random.choice(kinds + ["await dare_async"] * 3 * self.asynchronous)
        self.marks[kind.rpartition(" ")[2]] += 1
        call = f"{kind}({self._word()!r})"
        return f"({call})" if kind.startswith("await") else call

    def _word(self) -> str:
        return self.random.choice("abcdefgh") + str(self.number)

    def _try(self) -> list[str]:
        body: list[str] = []
        others = SYNC if self.asynchronous else ASYNC
        names = [name for name in BODIES if name not in others]
        for name in self.random.sample(names, self.random.randint(1, 3)):
            self.marks[name] += 1
            body += self._filled(BODIES[name])
        star = "*" * self.random.choice([0, 0, 0, 0, 1])
        self.marks.update(["except*"] if star else [])
        shown = "[str(each) for each in e.exceptions]" if star else "str(e)"
        handler = [f"LOG.append({shown})", *self.random.choice([[], ["say('caught')"]])]
        lines = ["try:", *(f"    {line}" for line in body)]
        lines += [f"except{star} (BackendError, ValueError) as e:", *(f"    {h}" for h in handler)]
        for word in ("else", "finally"):
            if self.random.random() < 0.3:
                self.marks[word] += 1
                lines += [f"{word}:", f"    LOG.append('{word}')"]
        return lines

    def _filled(self, lines: list[str]) -> list[str]:
        filled = []
        for line in lines:
            for place in range(line.count("{d}")):
                line = line.replace("{d}", self._dare(first=place == 0), 1)
            filled.append(
                line.replace("{k}", repr(self._word())).replace("{{", "{").replace("}}", "}")
            )
        return filled

    def prompt_program(self) -> str:
        """The same for the compiler."""
        return _APPL + SAID.sub(r"\1\2", self.text)


class _Answers:
    """Answers as plain Python is answered, in an order of its own."""

    asked: list[str]

    async def answer(self: Any, request: Request, emit: Emit | None) -> Response:
        await self.pause(request)
        prompt = "\n".join(message.content for message in request.messages or ())
        self.asked.append(prompt)
        return Response((Sample(answer(prompt), "stop"),), Usage(1, 1))


class _Hurried(_Answers, Hurried):
    pass


class _Shuffled(_Answers, Shuffled):
    pass


def outcome(run: Callable[[], Any]) -> Any:
    """What *run* returns, or the words of its error."""
    try:
        return run()
    except Exception as error:
        return described(error)


def difference(program: Trying) -> str | None:
    """Where a run of *program* departs from plain Python."""
    plain = Python()
    expected = outcome(lambda: plain.run(program.text))
    for name, kind, options in (
        ("naive", _Hurried, {"sequential": True}), ("hurried", _Hurried, {}),
        ("shuffled", _Shuffled, {}),
    ):  # fmt: skip
        backend = kind(program.seed)
        backend.asked = []
        got = outcome(lambda: _compiled(program, backend, options))  # noqa: B023
        if got != expected:
            return f"plain / {name}:\n  {expected}\n  {got}"
        missing = Counter(plain.asked) - Counter(backend.asked)
        if missing:
            return f"plain / {name}: not asked: {list(missing)}"
    return None


def _compiled(program: Trying, backend: Any, options: dict[str, Any]) -> Any:
    main = module_of(f"<trying {program.seed}>", program.prompt_program())["main"]

    async def inside() -> Any:
        async with Run(backend, **options):
            return await main()

    if program.asynchronous:
        return asyncio.run(inside())
    with Run(backend, **options):
        return main()

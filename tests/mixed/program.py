"""Random programs with limits, locks, pools, tasks, queues, tools, generators and shared objects."""

from __future__ import annotations

import copy
import re
from collections import Counter
from typing import NamedTuple

from tests.equivalence.trying import FUNCTIONS, SAID, Trying

from .forms import DEFINITIONS, FORMS, Form

_APPL = "from appl import Lock, as_completed, call, gen, map, ppl, timeout\n"
_HEAD = """
def leave(f, *args):
    call(f, *args)

def drop(f, *args):
    f(*args)
"""
_LIMITED = re.compile(r"limited\((\w+), (.*?)\)")
_SHORT, _WORD = re.compile(r"0\.00\d|limited\("), re.compile(r"'([a-h]\d+)'")
STYLES = {"s": "@ppl\ndef", "p": "def", "a": "@ppl\nasync def", "c": "async def"}
OWN = ("Thread", "_thread", "in_loop", "executor", "asyncio.run", "pool_of", "plainly_counted")
LOOSE = ("as_completed(agent", "as_completed(risk", "leave(", "worker_soon", "FIRST_")
BEGIN = ["LOG.clear()", "COUNT['n'] = 0", "out, table, box = [], {}, Box()", "x = y = None"]
END = "return [out, table, COUNT['n'], LOG, str(x)]"


class Block(NamedTuple):
    """Some lines of ``main``, and the features in them."""

    features: tuple[str, ...]
    lines: tuple[str, ...]


def _definitions() -> dict[str, str]:
    """The definitions that programs use, by name; the empty name has the rest."""
    own = {"": DEFINITIONS.partition("\n\nclass")[0] + "\nfrom contextlib import suppress\n"}
    for part in re.split(r"\n\n(?=@|class |def |async def )", FUNCTIONS + DEFINITIONS):
        name = re.search(r"^(?:class|(?:async )?def) (\w+)", part.lstrip("\n"), re.M)
        if name is not None:
            own.setdefault(name[1], f"\n{part.strip()}\n")
    return own


DEFINED = _definitions()


class Mixed(Trying):
    """The program of one seed; ``marks`` are the features in it."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)

    def _made(self) -> str:
        self.style = self.random.choice("ssssppppaaac")
        self.asynchronous = self.style in "ac"
        self.marks = Counter([f"style {self.style}"])
        self.blocks = [self._block(feature) for feature in self._features()]
        if self.random.random() < 0.12:
            self.blocks.append(self._block("uncaught"))
        return self.source()

    def _features(self) -> list[str]:
        """Three or four; half of those with own pools do without, as such programs take long."""
        fit = {form.feature for form in FORMS if self.style in form.where} - {"uncaught"} | {"try"}
        if self.random.random() < 0.5:
            fit -= {"own pools"}
        return self.random.sample(sorted(fit), self.random.randint(3, 4))

    def _block(self, feature: str) -> Block:
        if feature == "try" and self.style in "sa":
            before = Counter(self.marks)
            lines = self._try()
            return Block(("try", *(self.marks - before)), tuple(lines))
        return Block((feature,), tuple(self._worded(self._form(feature))))

    def _form(self, feature: str) -> Form:
        """A form of *feature*; one in four has threads where it may do without."""
        fit = [form for form in FORMS if form.feature == feature and self.style in form.where]
        alone = [form for form in fit if not any(word in form.lines for word in OWN)]
        return self.random.choice(fit if not alone or self.random.random() < 0.25 else alone)

    def _worded(self, form: Form) -> list[str]:
        """The lines of *form* with words, limits and calls in its places."""
        made = {
            "{k}": lambda: repr(self._word()),
            "{w}": self._words,
            "{t}": lambda: self.random.choice(["0.02", "0.03", "0.04"]),
            "{r}": lambda: f"risk({self._word()!r})",
            "{c}": lambda: f"(await risk_soon({self._word()!r}))",
        }
        pattern = re.compile("|".join(map(re.escape, made)))
        return pattern.sub(lambda place: made[place[0]](), form.lines).split("\n")

    def _words(self) -> str:
        words = [self._word() for _ in range(self.random.randint(2, 4))]
        if self.random.random() < 0.2:
            words[-1] = words[0]
        return repr(words)

    def _word(self) -> str:
        self.number += 1
        return super()._word()

    @property
    def has_threads(self) -> bool:
        """Whether threads or loops of its own wait."""
        return any(word in line for block in self.blocks for line in block.lines for word in OWN)

    @property
    def waits_for_rest(self) -> bool:
        """Whether some of these threads are waited for, which takes long where outcomes are held."""
        blocks = [block for block in self.blocks if "orphans" not in block.features]
        return any(word in line for block in blocks for line in block.lines for word in OWN)

    @property
    def features(self) -> set[str]:
        """What is in its blocks."""
        return {feature for block in self.blocks for feature in block.features}

    @property
    def is_loose(self) -> bool:
        """Whether the order of answers decides which calls are made, or made to their end."""
        return any(word in line for block in self.blocks for line in block.lines for word in LOOSE)

    def is_timed(self, prompt: str) -> bool:
        """Whether the call of *prompt* is in a block with a limit of milliseconds."""
        lines = ["\n".join(block.lines) for block in self.blocks]
        words = {word for text in lines if _SHORT.search(text) for word in _WORD.findall(text)}
        return not words.isdisjoint(re.findall(r"\w+", prompt))

    def source(self) -> str:
        """The program for plain Python."""
        body = [*BEGIN, *(line for block in self.blocks for line in block.lines), END]
        main = f"\n{STYLES[self.style]} main():\n" + "".join(f"    {line}\n" for line in body)
        return DEFINED[""] + _needed(main) + main

    def prompt_program(self) -> str:
        """The same for the compiler."""
        return (
            _APPL
            + _HEAD
            + SAID.sub(r"\1\2", _LIMITED.sub(r"\1(\2).result(timeout=0.001)", self.text))
        )

    def with_blocks(self, blocks: list[Block]) -> Mixed:
        """A program of the same kind with other *blocks*."""
        made = copy.copy(self)
        made.blocks = blocks
        made.text = made.source()
        made.marks = Counter({feature: 1 for block in blocks for feature in block.features})
        return made


def _needed(text: str) -> str:
    """The definitions that *text* uses, and those that they use."""
    found: dict[str, str] = {}
    new = [text]
    while new:
        words = set(re.findall(r"\w+", new.pop())) & DEFINED.keys() - found.keys()
        found |= {word: DEFINED[word] for word in words}
        new += [DEFINED[word] for word in sorted(words)]
    return "".join(DEFINED[name] for name in DEFINED if name in found)

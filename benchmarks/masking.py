"""What taking secrets out of texts costs: CPU per megabyte, by what the texts are.

``python benchmarks/masking.py`` prints the table and writes ``benchmarks/results/masking.txt``.
"""

from __future__ import annotations

import base64
import datetime
import json
import platform
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from report import kept, printed  # type: ignore[import-not-found]

from appl.tracing import Masker
from appl.tracing.format import codec

RESULTS = kept("masking.txt")
SIZE, REPEATS, BLOCK = 1_000_000, 9, 64_000
PROSE = "the of and to in is it you that he was for on are with as his they at be this".split()
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


def prose(dice: random.Random) -> str:
    """Words and numbers, as the other benchmarks write them."""
    return " ".join(f"{dice.choice(PROSE)}{dice.randrange(1000)}" for _ in range(100))


def record(dice: random.Random) -> str:
    """An object as interfaces answer it: ids, digests, times, counts and tokens."""
    return json.dumps({
        "id": f"chatcmpl-{''.join(dice.choices(ALPHABET, k=29))}", "model": "gpt-5-mini",
        "sha256": dice.randbytes(32).hex(), "created": dice.randrange(2 * 10**9),
        "usage": {"prompt_tokens": 12, "completion_tokens": 40, "cached_tokens": 0},
        "next_page_token": base64.b64encode(dice.randbytes(24)).decode(),
        "key": f"orders/{dice.randrange(10**6)}", "message": prose(dice)[:300],
    })  # fmt: skip


def picture(dice: random.Random) -> str:
    """An image within a text."""
    return "data:image/png;base64," + base64.b64encode(dice.randbytes(3000)).decode()


def code(dice: random.Random) -> str:
    """Source code about keys and tokens, none of which stands in it."""
    return (
        f"token_{dice.randrange(99)} = tokenizer.encode(text)[{dice.randrange(9)}]\n"
        "api_key=config.get_secret(name)  # the key of the table\n"
        "for key, value in self._keys.items(): self.password = Secret(value)\n"
    )


def keys(dice: random.Random) -> str:
    """Prose with a key in every tenth text."""
    key = f" ghp_{''.join(dice.choices(ALPHABET, k=36))}" if dice.random() < 0.1 else ""
    return prose(dice) + key


TEXTS: dict[str, Callable[[random.Random], str]] = {
    "prose": prose,
    "JSON": record,
    "pictures in base64": picture,
    "code": code,
    "prose with keys": keys,
}


def blocks(make: Callable[[random.Random], str]) -> list[bytes]:
    """A megabyte of records, in pieces such as a recorder writes."""
    dice, made, size = random.Random(1), list[bytes](), 0
    while size < SIZE:
        block = b""
        while len(block) < BLOCK:
            block += codec.pack(("M", 1, "user", make(dice)))
        made.append(block)
        size += len(block)
    return made


def milliseconds(masker: Masker, items: list[bytes]) -> float:
    """CPU milliseconds per megabyte of *items*."""
    size = sum(map(len, items))
    began = time.process_time()
    masker.filter([*items])
    return (time.process_time() - began) * 1e9 / size


def table() -> Iterator[str]:
    """The lines of the result."""
    yield f"{datetime.date.today()}  $ python benchmarks/{Path(__file__).name}"
    yield f"Python {platform.python_version()}, CPU ms per megabyte, best of {REPEATS}"
    yield ""
    yield f"{'':24}{'no known secret':>18}{'10 known secrets':>18}"
    dice = random.Random(2)
    ten = {f"KEY_{n}": "".join(dice.choices(ALPHABET, k=40)) for n in range(10)}
    for name, make in TEXTS.items():
        items = blocks(make)
        columns = []
        for secrets in ({}, ten):
            masker = Masker(secrets)
            columns.append(min(milliseconds(masker, items) for _ in range(REPEATS)))
        yield f"{name:24}" + "".join(f"{each:15.2f} ms" for each in columns)


if __name__ == "__main__":
    printed(table(), RESULTS)

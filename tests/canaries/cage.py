"""Canary secrets, a program that handles them carelessly, and the search for them."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, quote_plus
from urllib.request import Request, urlopen

from appl import as_tool, gen, ppl
from appl.cli import main
from appl.errors import ApplError, BackendBusy
from appl.testing import Fake
from appl.testing.faults import Fault
from appl.tracing.format import block

KEY = "canary:key/4711+aou=="
HEADER = "canary-header-0815"
PASSWORD = "canary-password-1234"
QUERY = "canary-query-5678"
DATABASE = 'canary"database\\9/9'
TOKEN = "canary töken\nof two lines"
CANARIES = {
    "key": KEY, "header": HEADER, "password": PASSWORD, "query": QUERY, "database": DATABASE,
    "token": TOKEN,
}  # fmt: skip
ENVIRONMENT = {
    "GATE_API_KEY": KEY, "DATABASE_PASSWORD": DATABASE, "SERVICE_TOKEN": TOKEN, "GATE": HEADER,
}  # fmt: skip


def forms(secret: str) -> set[bytes]:
    """How *secret* may be written."""
    texts = {
        secret, repr(secret)[1:-1], json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1], json.dumps(json.dumps(secret))[3:-3],
        quote(secret), quote(secret, safe=""), quote_plus(secret), *(each[:-1] for each in coded(secret)),
    }  # fmt: skip
    return {text.encode() for text in texts}


def coded(secret: str) -> tuple[str, str]:
    """*secret* as a server may have stored it: in base64 and in hexadecimal."""
    data = secret.encode()
    return base64.b64encode(data).decode().rstrip("="), data.hex()


def found(data: bytes | str) -> list[str]:
    """The names of the canaries in *data*."""
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    return [name for name, secret in CANARIES.items() if any(f in raw for f in forms(secret))]


def found_in_files(folder: Path) -> list[str]:
    """Which canaries lie where below *folder*; traces are looked into compressed and not."""
    wrong = []
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        data = path.read_bytes()
        if path.suffix == ".trace":
            with path.open("rb") as file:
                data += b"".join(block.scan(file, block.Scan()))
        wrong += [f"{name} in {path.relative_to(folder)}" for name in found(data)]
    return wrong


@contextlib.contextmanager
def caged(folder: Path) -> Iterator[None]:
    """The secrets in the environment, and *folder* as the working directory."""
    before = dict(os.environ)
    os.environ.update(ENVIRONMENT)
    try:
        with contextlib.chdir(folder):
            yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def logged() -> Iterator[io.StringIO]:
    """What is logged at a level that is shown by default."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logging.getLogger().addHandler(handler)
    try:
        yield stream
    finally:
        logging.getLogger().removeHandler(handler)


def command(*words: str) -> tuple[int, str]:
    """What ``appl WORDS`` returns, and prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            code = main(list(words))
        except SystemExit as done:
            code = int(done.code or 0)
    return code, out.getvalue()


def fetched(url: str, body: object = None, **headers: str) -> str:
    """What the server at *url* answers, whatever the code."""
    data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        with urlopen(Request(url, data, named), timeout=60) as answer:
            told: bytes = answer.read()
    except HTTPError as error:
        told = error.read()
    return told.decode()


# -- servers that say what they were sent, and worse

_HTML = {"Content-Type": "text/html"}


def echoes(*known: str) -> tuple[Fault, ...]:
    """Failures of a server that tells the canaries of these names."""
    secrets = [CANARIES[name] for name in known]
    every = " ".join((*secrets, *(each for secret in secrets for each in coded(secret))))
    told = json.dumps({"error": {"message": f"no such key: {every}", "code": "x"}}).encode()
    page = f"<html>{every}</html>".encode()
    return (
        *(Fault(f"echo {code}", code, {}, told) for code in (400, 401, 403, 404, 429, 500, 503)),
        Fault("echo in the head", 401, {"WWW-Authenticate": KEY, "X-Echo": KEY}, told),
        Fault("echo as page", 502, _HTML, page),
        Fault("echo as page of 200", 200, _HTML, page),
        Fault("echo as bad json", 200, {}, b'{"id": "' + every.encode()),
        Fault("echo inside", 200, {}, told),
    )


# -- a program that is careless with secrets


@ppl
def asked(question: str, **options: Any) -> Any:
    f"{question}"
    return gen(**options)


def look(path: str) -> str:
    """Fails, and says all it knows."""
    raise ValueError(f"cannot open {path} with {DATABASE}")


@ppl
def _looked() -> list[str]:
    f"Look at the table with {DATABASE}."
    answer = gen(tools=[as_tool(look)])
    answer
    return [result.content for result in answer.run_tool_calls()]


def outcomes() -> list[BaseException]:
    """Say every secret of the environment, whatever comes of it: the errors."""
    errors: list[BaseException] = []
    for step in (
        lambda: str(asked(f"My password is {DATABASE}.")),
        lambda: "".join(asked(f"Stream {TOKEN}.", stream=True).text_stream),
        lambda: str(asked("Nothing secret", stop=[TOKEN])),
        lambda: str(_looked()),
    ):
        try:
            step()
        except ApplError as error:
            errors.append(error)
    return errors


class Telling(Fake):
    """A backend that is busy for long, and says why, with all it knows."""

    def __init__(self) -> None:
        super().__init__(lambda request: "an answer", name="telling")

    async def complete(self, request: Any, emit: Any = None) -> Any:
        raise BackendBusy(f"{KEY} with {DATABASE} and {TOKEN}", retry_after=30)


def careless() -> None:
    """The same, and an error that holds them all."""
    outcomes()
    raise ValueError(f"it failed with {DATABASE}, {TOKEN} and {KEY}")

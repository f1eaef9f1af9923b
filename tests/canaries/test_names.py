"""Secrets under sixty names, in all encodings: none is in what passes the filter of texts."""

from __future__ import annotations

import base64
import contextlib
import html
import itertools
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from appl.backend.http import masked
from appl.prompt.command_words import shown_words
from appl.prompt.secret import of_environment
from appl.tracing import Masker
from appl.tracing.format import codec

from .cage import command

NAMES = [
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AZURE_CLIENT_SECRET",
    "GITHUB_TOKEN",
    "GH_PAT",
    "GITLAB_TOKEN",
    "HF_TOKEN",
    "NPM_TOKEN",
    "PYPI_TOKEN",
    "SLACK_BOT_TOKEN",
    "STRIPE_SECRET_KEY",
    "DB_PASSWORD",
    "DATABASE_PASSWORD",
    "MYSQL_PWD",
    "PGPASSWORD",
    "PGPASS",
    "NETRC_PASS",
    "FTP_PASS",
    "SMTP_PASS",
    "SSH_PASS",
    "KEY_PASSPHRASE",
    "GPG_PASSPHRASE",
    "GOOGLE_CREDENTIALS",
    "SENTRY_DSN",
    "REGISTRY_AUTH",
    "DOCKER_AUTH_CONFIG",
    "PROXY_AUTHORIZATION",
    "HTTP_AUTHORIZATION",
    "BASIC_AUTH",
    "NPM_AUTH",
    "COOKIE",
    "SESSION_COOKIE",
    "SET_COOKIE",
    "JWT",
    "APP_JWT",
    "JWT_SIGNER",
    "SESSION_ID",
    "PHP_SESSIONID",
    "PRIVATE_PEM",
    "SERVER_PEM",
    "TLS_PRIVATE",
    "SIGNING_SALT",
    "REQUEST_SIGNING",
    "SLACK_WEBHOOK_URL",
    "DISCORD_WEBHOOK",
    "WEBHOOK_URL",
    "CONNECTION_STRING",
    "AZURE_STORAGE_CONNECTION_STRING",
    "DB_CONN_STR",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "HTTP_HEADERS",
    "DATABASE_URL",
    "REDIS_URL",
    "MONGO_URI",
    "AMQP_URL",
    "HTTPS_PROXY",
    "ENCRYPTION_KEY",
    "MASTER_SECRET",
]
URLS = ("DATABASE_URL", "REDIS_URL", "MONGO_URI", "AMQP_URL", "HTTPS_PROXY")
Encoding = Callable[[str], str]
USUAL: dict[str, Encoding] = {
    "plain": str,
    "json": lambda s: json.dumps(s)[1:-1],
    "url": lambda s: quote(s, safe=""),
    "base64": lambda s: base64.b64encode(s.encode()).decode().rstrip("="),
    "url-safe base64": lambda s: base64.urlsafe_b64encode(s.encode()).decode().rstrip("="),
    "basic auth": lambda s: base64.b64encode(f"user:{s}".encode()).decode().rstrip("="),
    "hex": lambda s: s.encode().hex(),
    "upper-case hex": lambda s: s.encode().hex().upper(),
}
ENCODINGS = {
    **USUAL,
    "HTML": html.escape,
    "base64 in lines of 16": lambda s: in_lines(base64.b64encode(s.encode()).decode().rstrip("=")),
    "hex in lines of 16": lambda s: in_lines(s.encode().hex()),
    "each byte percent-encoded": lambda s: "".join(f"%{byte:02X}" for byte in s.encode()),
    "each byte percent-encoded, in small letters": lambda s: "".join(
        f"%{b:02x}" for b in s.encode()
    ),
    "each byte as in source code": lambda s: "".join(f"\\x{byte:02x}" for byte in s.encode()),
    "each character as in JSON": lambda s: "".join(f"\\u{ord(c):04x}" for c in s),
    "each character as in JSON in JSON": lambda s: "".join(f"\\\\u{ord(c):04X}" for c in s),
    "each character as in HTML": lambda s: "".join(f"&#{ord(c)};" for c in s),
    "each character as in HTML, hexadecimal": lambda s: "".join(f"&#x{ord(c):X};" for c in s),
}


def in_lines(text: str) -> str:
    return "\n".join(text[at : at + 16] for at in range(0, len(text), 16))


def secret(name: str) -> str:
    """A value of its own for each name, with what each encoding changes."""
    return f'canary-of"{name[::-1]}~?>/é+{len(name)}-which-ends'


def plain(name: str) -> str:
    return (
        f"canary-of-{name[::-1]}-47114711"
        if name in URLS or name.endswith("HEADERS")
        else secret(name)
    )


def variable(name: str) -> str:
    if name in URLS:
        return f"scheme://user:{plain(name)}@host:1/path"
    return f"a=b,x-key={plain(name)}" if name.endswith("HEADERS") else plain(name)


def core(encoded: str) -> str:
    """The middle of an encoded secret: nothing of that length may be left."""
    return encoded[8:-8]


@pytest.fixture
def environment() -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update({name: variable(name) for name in NAMES})
    yield
    os.environ.clear()
    os.environ.update(before)


def test_there_are_sixty_names_and_eighteen_encodings() -> None:
    assert (len({*NAMES}), len(USUAL), len(ENCODINGS)) == (60, 8, 18)


def test_no_secret_passes_in_any_encoding(environment: None) -> None:
    masker, wrong = Masker(), []
    for name, (how, encode) in itertools.product(NAMES, ENCODINGS.items()):
        said = f"x {encode(plain(name))} y"
        record = b"".join(masker.filter([codec.pack(("M", 1, "user", said))])).decode("latin-1")
        for place, text in {
            "a record": record, "a text": masker.text(said, []), "an error": masked(said),
            "an object": json.dumps(masker.cleaned({said: [said]}), ensure_ascii=False),
        }.items():  # fmt: skip
            if core(encode(plain(name))) in text:
                wrong.append(f"{name} in {place} as {how}")
    assert not wrong, wrong[:20]


def test_the_search_would_find_what_is_not_masked() -> None:
    """The control: without the environment every one of them is there."""
    masker = Masker()
    for name, encode in itertools.product(NAMES, ENCODINGS.values()):
        said = encode(plain(name))
        assert core(said) and core(said) in masker.text(f"x {said} y", [])


def test_every_place_of_a_run_is_without_them(tmp_path: Path, environment: None) -> None:
    """The trace, what commands print of it, and the files that are made of it."""
    every = [encode(plain(name)) for name in NAMES for encode in USUAL.values()]
    with contextlib.chdir(tmp_path):
        Path("prog.py").write_text(
            "from tests.canaries.cage import asked\n"
            "def main(question, api_key=''):\n    return str(asked(open('said.txt').read()))\n"
        )
        Path("said.txt").write_text("\n".join(every))
        printed = command(
            "run", "prog.py:main", "--question", "?", "--api_key", "sk-unknown-0123456789abcdef",
            "--backend", "appl.testing:Echo",
        )[1]  # fmt: skip
        for words in (
            ["show"], ["show", "--json"], ["export", "--jsonl", "all.jsonl"],
            ["export", "--markdown", "all.md"], ["view", "--html", "all.html"],
            ["share", "--content", "--out", "shared.trace"],
        ):  # fmt: skip
            code, out = command("trace", words[0], "last", *words[1:])
            assert code == 0, out
            printed += out
        code, out = command("trace", "replay")
        assert code == 0, out  # the prompt is known by its digest, and the answer is there
        Path("said.txt").write_text("\n".join(every[:-1]))
        changed, more = command("trace", "replay")
        printed += out + more
        Path("said.txt").unlink()
        data = printed + "".join(content(path) for path in tmp_path.rglob("*") if path.is_file())
    assert changed == 3 and "sk-unknown" not in data
    assert [each for each in every if core(each) in data] == []


def content(path: Path) -> str:
    """What a file holds, a trace decompressed."""
    from appl.tracing.format import block

    data = path.read_bytes()
    if path.suffix == ".trace":
        with path.open("rb") as file:
            data += b"".join(block.scan(file, block.Scan()))
    return data.decode("utf-8", "replace")


ORDINARY = [
    "d41d8cd98f00b204e9800998ecf8427e", "550e8400-e29b-41d4-a716-446655440000", "sk-learn",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
    "https://example.com:8080/a@b", "the key is under the mat", "git@github.com:a/b.git",
]  # fmt: skip


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_texts_stay(text: str, environment: None) -> None:
    assert (shown_words([text]), Masker().text(text, [])) == ([text], text)


@pytest.mark.parametrize("words", [
    ["--api_key", "s3cr3t-value"], ["--api-key=s3cr3t-value"], ["--password", "s3cr3t-value"],
    ["--url", "https://u:s3cr3t-value@h/"], ["--note", "AKIAS3CR3TVALUE00000"],
])  # fmt: skip
def test_no_secret_is_among_the_words_of_a_command(words: list[str]) -> None:
    shown = " ".join(shown_words(words))
    assert "s3cr3t" not in shown.lower() and "[secret]" in shown


def test_the_password_alone_is_taken_out_of_a_url(environment: None) -> None:
    assert plain("REDIS_URL") in of_environment()
    shown = Masker().text(variable("REDIS_URL"), [])
    assert shown == "scheme://user:[secret REDIS_URL]@host:1/path"

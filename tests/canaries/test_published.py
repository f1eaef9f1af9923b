"""Keys of the published list are masked, and ordinary texts are not, with the bars of both."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from appl.backend.http import masked
from appl.prompt.secret_names import is_likely
from appl.tracing import Masker
from appl.tracing.recording import PiecewiseMasker
from tests.drawn import counts

from .cage import command
from .ordinary import alnum, texts
from .published import NAMED, NOT_SECRET, OTHERS, PLACES, SHAPES, assigned, drawn, random_parts
from .test_names import ENCODINGS, content

ROOT = Path(__file__).parents[2]
FORMS: dict[str, tuple[str, str]] = {
    **{rule: ("", form) for rule, form in {**SHAPES, **PLACES}.items()},
    **NAMED,
    **{f"{name} of its provider": ("", form) for name, (_, form) in OTHERS.items()},
}
"""Of each rule the name of the variable, if it needs one, and the form of the key."""
RULES = 222
"""Rules of the list in July 2026."""


def keys(rule: str, count: int) -> list[tuple[str, list[str]]]:
    """Keys of a *rule*, each with its random parts."""
    dice, form = random.Random(rule), FORMS[rule][1]
    made = (drawn(form, dice) for _ in range(count))
    return [(key, random_parts(key, form)) for key in made]


def told(rule: str, key: str) -> list[str]:
    """Texts that hold *key*: prompts, answers, results of tools, errors."""
    name = FORMS[rule][0]
    if name:
        return [*assigned(name, key).values()]
    return [f"It is {key}\nand so on", json.dumps({"stdout": f"a\n{key}\nb"}), f'"{key}"', key]


def share(rule: str, count: int, shown: str = "text") -> float:
    """The share of the texts with keys of a *rule* in which none is left."""
    masker, good = Masker(), list[bool]()
    for key, parts in keys(rule, count):
        for said in told(rule, key):
            left = masked(said) if shown == "error" else masker.text(said, [])
            good.append(not any(part in left for part in parts))
    return sum(good) / len(good)


def test_the_table_has_every_rule_of_the_list() -> None:
    listed = {rule.partition(",")[0] for rule in (*SHAPES, *NAMED, *PLACES)} | NOT_SECRET
    assert len(listed) == RULES


@counts(5, 300)
@pytest.mark.parametrize("shown", ["text", "error"])
def test_of_the_published_shapes_95_in_100_are_masked(count: int, shown: str) -> None:
    """A shape is masked if nine of ten of its keys are; on the average 98 in 100 are."""
    shares = {rule: share(rule, count, shown) for rule in FORMS}
    poor = {rule: found for rule, found in shares.items() if found < 0.9}
    assert len(poor) <= 0.05 * len(shares), poor
    assert sum(shares.values()) / len(shares) >= 0.98


@pytest.fixture
def environment() -> Iterator[None]:
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@counts(8, 1, "every")
def test_each_key_in_the_environment_is_masked_in_each_encoding(
    every: int, environment: None
) -> None:
    """Under the name that its provider gives to the variable, or that of its rule."""
    held = {}
    for rule, (name, _) in [*FORMS.items()][::every]:
        variable = name if is_likely(name) else re.sub("[^A-Z0-9]+", "_", f"{rule} TOKEN".upper())
        held[variable] = keys(rule, 1)[0][0]
    os.environ.update(held)
    masker, left = Masker(shapes=False), []
    for variable, value in held.items():
        for how, encode in ENCODINGS.items():
            said = f"x {encode(value)} y"
            if encode(value)[4:-4] in masker.text(said, []) + masked(said):
                left.append(f"{variable} as {how}")
    assert left == []


def test_no_key_of_the_list_is_left_in_a_run_and_what_is_made_of_it(tmp_path: Path) -> None:
    """Prompts, answers, streams, arguments and results of tools, observations and errors."""
    every = [(rule, *keys(rule, 1)[0]) for rule in FORMS if share(rule, 5) == 1]
    assert len(every) > 0.9 * len(FORMS)
    lines = [told(rule, key)[0] for rule, key, _ in every]
    with contextlib.chdir(tmp_path):
        Path("said.txt").write_text("\n\n".join(lines))
        program = f"{ROOT}/tests/canaries/places.py:fails"
        backend = "tests.canaries.places:Repeating"
        code, out = command("run", program, "--backend", backend, "--quiet")
        assert code == 1
        for words in (["show"], ["show", "--json"], ["export", "--markdown", "all.md"]):
            code, more = command("trace", words[0], "last", *words[1:])
            assert code == 0, more
            out += more
        Path("said.txt").unlink()
        out += "".join(content(path) for path in tmp_path.rglob("*") if path.is_file())
    assert [rule for rule, _, parts in every if any(part in out for part in parts)] == []


@counts(1, 40)
def test_no_published_key_is_shown_while_it_streams(count: int) -> None:
    """Of keys in several parts, the last one is the secret."""
    left = []
    for rule in FORMS:
        for key, parts in keys(rule, count):
            said = f"Look, a key for you: {told(rule, key)[0]} That is all."
            flow = PiecewiseMasker(Masker())
            shown = "".join(flow.feed(said[at : at + 7]) for at in range(0, len(said), 7))
            if parts[-1] not in Masker().text(said, []) and parts[-1] in shown + flow.close():
                left.append(rule)
    assert left == []


# -- ordinary texts


@counts(10_000, 200_000)
def test_of_ordinary_texts_one_in_10000_is_masked_at_most(count: int) -> None:
    masker = Masker()
    wrong = [(kind, text) for kind, text in texts(count) if masker.text(text, []) != text]
    assert len(wrong) <= count / 10_000, wrong[:3]


def test_no_key_begins_within_a_long_random_text() -> None:
    dice = random.Random(3)
    for start in ("sk-", "pk-", "ghp_", "hf_", "AIza"):
        before, after = (alnum(dice, 60) for _ in range(2))
        for said in (f"{before}_{start}{after}", f"{before}/{start}{after}"):
            assert Masker().text(said, []) == said
        assert after not in Masker().text(f"a/path/to_{start}{after}", [])


BEGUN = [
    "curl -u ", "machine a login b password ", "token=", "=", "|a", "--a ", "://a:b", "cookie: a=",
    "otpauth://", "&sig=a", "-eyJa.", "-----BEGIN PRIVATE KEY-----\n", f"\nLS0tLS1CRUdJTi{'A' * 40}\n",
    "-sk-", "pat.", "sl.", "1234567890:A", "_mmk", "%41", "\\u0041", "&#65;", "Bearer ", " is ",
    '"value": ', ";Password=", "hooks.slack.com/services/", "MTa.", ".acc_", "token=Aa1Bb2Cc3Dd4Ee5Ff6",
]  # fmt: skip


@pytest.mark.parametrize("begun", BEGUN)
def test_no_text_of_many_beginnings_takes_long(begun: str) -> None:
    """A tenth of a megabyte takes a fifth of a second at most, also as an error."""
    said, masker = begun * (100_000 // len(begun)), Masker({"K": "known-secret-of-a-program"})
    began = time.process_time()
    masker.text(said, [])
    masked(said)
    assert time.process_time() - began < 5


def sources(folder: Path, without: str = "") -> Iterator[str]:
    """The files below *folder*, in pieces of the length of a message."""
    for path in sorted(folder.rglob("*")):
        if (
            path.suffix in (".py", ".md", ".txt", ".json", ".js", ".toml", ".rst")
            and path.is_file()
            and not (without and without in path.relative_to(folder).parts)
        ):
            text = path.read_text("utf-8", "replace")
            yield from (text[at : at + 2000] for at in range(0, len(text), 2000))


@pytest.mark.parametrize("folder, known", [
    ("asyncio", 0), ("email", 0), ("http", 0), ("json", 0), ("importlib", 0), ("xml", 0),
    pytest.param("", 3, marks=pytest.mark.long),  # the tests of netrc and urllib have passwords
])  # fmt: skip
def test_the_sources_of_python_are_recorded_as_they_are(folder: str, known: int) -> None:
    place = Path(sysconfig.get_paths()["stdlib"]) / folder
    masker, every = Masker(), {*sources(place, without="site-packages")}
    assert len(every) > 10
    wrong = [text for text in every if masker.text(text, []) != text]
    assert len(wrong) <= known + len(every) / 10_000, wrong[:3]


@pytest.mark.long
def test_installed_packages_are_recorded_as_they_are() -> None:
    """Of 140,000 pieces, nineteen are masked: most are examples of keys and passwords."""
    masker, every = Masker(), {*sources(Path(sysconfig.get_paths()["purelib"]))}
    wrong = [text for text in every if masker.text(text, []) != text]
    assert len(wrong) <= 3 * len(every) / 10_000, wrong[:3]


# -- the rule for names


@pytest.mark.parametrize("name", [
    "CLOUDFLARE_API_TOKEN", "VERCEL_TOKEN", "apiToken", "x-api-key", "AccountKey", "SharedAccessKey",
    "ACCESS_KEY_ID", "client_secret", "PGPASSWORD", "auth", "NPM_AUTH", "sessionid", "PHPSESSID",
    "Set-Cookie", "webhook_url", "MY_PAT", "SENTRY_DSN", "KEY", "token", "Ocp-Apim-Subscription-Key",
])  # fmt: skip
def test_a_name_tells(name: str) -> None:
    assert is_likely(name)


@pytest.mark.parametrize("name", [
    "key", "keys", "key2", "KEYBOARD", "publicKey", "next_page_token", "nextPageToken", "max_tokens",
    "tokenizer", "TOKENIZERS_PARALLELISM", "cache_key", "Idempotency-Key", "token_url", "token_type",
    "secret_name", "auth_url", "key_sha256", "PWD", "Sec-WebSocket-Key", "primary_key", "PATH",
])  # fmt: skip
def test_a_name_tells_nothing(name: str) -> None:
    assert not is_likely(name)


@pytest.mark.parametrize(
    "name", ["SOME_API_TOKEN", "AccountKey", "session_cookie", "next_page_token"]
)
def test_the_environment_and_texts_go_by_the_same_names(name: str, environment: None) -> None:
    value = "q7Rb2Lx9Wm4Kd8Zs1Tp6"
    in_text = value not in Masker().text(f'{{"{name}": "{value}"}}', [])
    os.environ[name] = value
    of_variable = value not in Masker(shapes=False).text(f"it is {value}", [])
    assert in_text == of_variable == is_likely(name)

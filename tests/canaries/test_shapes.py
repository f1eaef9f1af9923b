"""Keys that no variable holds are known by their shape, and keys that are known also across lines."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import pickle
import random
import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from appl.backend.http import masked
from appl.parts.engine.wire import Outbox
from appl.prompt.command_words import shown_words
from appl.prompt.key_masking import without_keys
from appl.prompt.key_shapes import SHAPES
from appl.tracing import Masker, Trace
from appl.tracing.format import codec
from appl.tracing.recording import PiecewiseMasker
from tests.drawn import examples

from .cage import command

_DICE = random.Random(7)
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def chance(length: int, letters: str = f"{_LETTERS}0123456789") -> str:
    """Random characters, among them digits in two places."""
    made = "".join(_DICE.choice(letters) for _ in range(length - 2))
    return f"{made[: length // 3]}4{made[length // 3 :]}7"


HEX, CAPITALS = "0123456789abcdef", "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_LINES = "\n".join(chance(64) for _ in range(12))
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{_LINES}\n-----END RSA PRIVATE KEY-----"
KEYS = {
    "OpenAI": f"sk-proj-{chance(48)}",
    "OpenAI, older": f"sk-{chance(48)}",
    "Anthropic": f"sk-ant-api03-{chance(93)}-{chance(6)}AA",
    "OpenRouter": f"sk-or-v1-{chance(64, HEX)}",
    "Stripe": f"sk_live_{chance(24)}",
    "Groq": f"gsk_{chance(52)}",
    "xAI": f"xai-{chance(80)}",
    "NVIDIA": f"nvapi-{chance(64)}",
    "Perplexity": f"pplx-{chance(48)}",
    "Replicate": f"r8_{chance(37)}",
    "Hugging Face": f"hf_{chance(34)}",
    "GitHub": f"ghp_{chance(36)}",
    "GitHub, fine-grained": f"github_pat_{chance(22)}_{chance(59)}",
    "GitLab": f"glpat-{chance(20)}",
    "Slack": f"xoxb-{chance(12, '0123456789')}-{chance(24)}",
    "Slack's webhook": f"https://hooks.slack.com/services/T{chance(8)}/B{chance(8)}/{chance(24)}",
    "AWS": f"AKIA{chance(16, CAPITALS)}",
    "Google": f"AIza{chance(35)}",
    "Google, OAuth": f"ya29.{chance(60)}",
    "npm": f"npm_{chance(36)}",
    "PyPI": f"pypi-AgE{chance(100)}",
    "SendGrid": f"SG.{chance(22)}.{chance(43)}",
    "DigitalOcean": f"dop_v1_{chance(64, HEX)}",
    "Databricks": f"dapi{chance(32, HEX)}",
    "age": f"AGE-SECRET-KEY-1{chance(58, CAPITALS)}",
    "JWT": f"eyJ{chance(30)}.eyJ{chance(60)}.{chance(43)}",
    "PEM": PEM,
    "PEM in JSON": json.dumps(PEM)[1:-1],
    "PEM, cut off": PEM[:400],
    "PEM in base64": base64.b64encode(PEM.encode()).decode(),
    "PEM in wrapped base64": base64.encodebytes(PEM.encode()).decode(),
    "a password": f"password: {chance(24)}",
    "a password in JSON": json.dumps({"password": chance(24)}),
    "a password in JSON in JSON": json.dumps(json.dumps({"client_secret": chance(32)})),
    "a bearer": f"Authorization: Bearer {chance(40)}",
    "basic auth": f"curl -H 'Authorization: Basic {base64.b64encode(chance(30).encode()).decode()}'",
    "an assignment": f"API_KEY={chance(32, HEX)}",
    "an argument": f'client = Client(api_key="{chance(40)}")',
    "a URL": f"postgres://app:{chance(12)}@db.internal:5432/app",
}
_BODY = re.compile(r"[A-Za-z0-9]{12,}")


def bodies(key: str) -> set[str]:
    """The random parts of *key*, none of which may be left."""
    return {part for part in _BODY.findall(key) if any(letter.isdigit() for letter in part)}


def record(text: str) -> list[bytes]:
    return Masker().filter([codec.pack(("M", 1, "user", text))])


@pytest.mark.parametrize("name", KEYS)
def test_a_key_of_a_known_shape_is_masked_wherever_it_goes(name: str) -> None:
    said = f"Look: {KEYS[name]}\nand so on"
    for how, shown in {
        "a record": b"".join(record(said)).decode("latin-1"),
        "a text": Masker().text(said, []),
        "an error": masked(said),
        "an argument": " ".join(shown_words(["--note", said])),
        "bytes": str(Masker().cleaned(said.encode())),
    }.items():
        assert [part for part in bodies(KEYS[name]) if part in shown] == [], how
    assert Masker().text(said, []).startswith("Look: ")
    assert Masker().finds(said.encode())


def test_the_search_would_find_what_is_not_masked() -> None:
    """The control: each key has a part that is looked for."""
    assert [name for name, key in KEYS.items() if not bodies(key)] == []


@examples(80, 2000, st.data())
def test_what_fits_a_shape_is_always_looked_at(data: st.DataObject) -> None:
    shape = data.draw(st.sampled_from(SHAPES))
    starts = "|".join(map(re.escape, shape.starts))
    pattern = re.compile(f"(?:{shape.before})(?:{starts})(?:{shape.rest})", re.A)
    is_looked_at(f"it is {data.draw(st.from_regex(pattern, fullmatch=True))} and on")


@examples(80, 2000, st.text(max_size=12), st.text(min_size=3, max_size=20))
def test_a_password_of_any_letters_is_looked_at(user: str, password: str) -> None:
    is_looked_at(f"see postgres://{user}:{password}@host/db")


def is_looked_at(text: str) -> None:
    """The quick test of a whole block never passes over what the patterns would mask."""
    data, hits = text.encode("utf-8", "surrogatepass"), list[str]()
    without_keys(data.decode("latin-1"), lambda kind: (hits.append(kind), "")[1])
    assert not hits or Masker().finds(data)


@pytest.mark.parametrize("user", ["naïve", "à", "\xba\xc0", "用户", "\U0001f600"])
def test_other_letters_beside_a_password_do_not_hide_it(user: str) -> None:
    for password in (f"{user}{chance(12)}", f"{chance(12)}{user}{chance(4)}"):
        shown = Masker().text(f"see postgres://{user}:{password}@host/db", [])
        assert shown == f"see postgres://{user}:[secret password of a URL]@host/db"


def test_a_password_at_the_end_of_a_sentence_is_masked_to_its_last_letter() -> None:
    key = chance(24)
    shown = Masker().text(f"The password is {key}. Use it well.", [])
    assert shown == "The password is [secret key or password]. Use it well."


def in_pieces(text: str, size: int) -> Iterator[str]:
    """What is shown after each piece of *text*, and at its end."""
    flow = PiecewiseMasker(Masker())
    yield from (flow.feed(text[at : at + size]) for at in range(0, len(text), size))
    yield flow.close()


@pytest.mark.parametrize("size", [1, 7, 40])
@pytest.mark.parametrize("name", KEYS)
def test_a_key_that_comes_in_pieces_is_not_shown(name: str, size: int) -> None:
    said = f"Look, a key for you, and keep it: {KEYS[name]}\nThat is all."
    shown = "".join(in_pieces(said, size))
    assert [part for part in bodies(KEYS[name]) if part in shown] == []
    assert shown.startswith("Look, a key for you")
    assert shown.rpartition("]")[2] == Masker().text(said, []).rpartition("]")[2]


def test_a_known_secret_that_comes_in_pieces_is_not_shown(environment: None) -> None:
    for key in KNOWN.values():
        data = key.encode()
        wrapped = "\n  ".join(key[at : at + 18] for at in range(0, len(key), 18))
        for said in (key, wrapped, data.hex(), base64.b64encode(data).decode()):
            shown = "".join(in_pieces(f"It is {said}, yes.", 3))
            assert "[secret CANARY" in shown and shown.endswith(", yes."), shown
            assert said[3:15] not in shown and said[-15:-5] not in shown


def test_what_cannot_be_a_key_is_shown_at_once(environment: None) -> None:
    """No more than a few characters are held back, and only for a moment."""
    said = prose(random.Random(5))
    shown = list(in_pieces(said, 4))
    lag = [4 * number - sum(map(len, shown[:number])) for number in range(1, len(said) // 4)]
    assert "".join(shown) == said and max(lag) < 30 and sum(lag) < len(lag)


def prose(dice: random.Random) -> str:
    words = [
        "the",
        "a",
        "risk-based",
        "task-oriented",
        "disk",
        "well-known",
        "is",
        "of",
        "token",
        "key",
        "password",
        "secret",
        "api",
    ]
    return " ".join(dice.choices(words, k=400))


def numbers(dice: random.Random) -> str:
    return json.dumps({
        "id": str(uuid.UUID(int=dice.getrandbits(128))), "sha256": dice.randbytes(32).hex(),
        "image": "data:image/png;base64," + base64.b64encode(dice.randbytes(3000)).decode(),
        "wrapped": base64.encodebytes(dice.randbytes(3000)).decode(),
        "next_page_token": base64.b64encode(dice.randbytes(24)).decode(),
        "tokens": [dice.randrange(50_000) for _ in range(50)],
        "etag": f'W/"{dice.randbytes(16).hex()}"', "url": f"https://h/a?id={dice.randbytes(16).hex()}",
        "certificate": f"-----BEGIN CERTIFICATE-----\n{base64.encodebytes(dice.randbytes(600)).decode()}",
    })  # fmt: skip


CODE = """
password = os.environ["DATABASE_PASSWORD_2024_01_EU_WEST"]
api_key=config.get_secret_value_v2_of_the_other_module(name)
def check_private_key(pem): return pem.startswith("-----BEGIN PRIVATE KEY-----")
secret: SecretManagerServiceClientConfiguration = make()
url = "postgres://user:password@localhost:5432/db", "https://${USER}:${PASS}@host", "http://u:<pw>@h"
access_token = "your-access-token-goes-here-please"
headers = {"Authorization": f"Bearer {os.environ['API_KEY_OF_THE_SERVICE']}"}
sk-learn-based-classifiers-and-other-models, task-1234, hf_transformers_dataset, AKIAIOSFODNN7EXAMPLE
"""


@pytest.mark.parametrize("make", [prose, numbers, lambda dice: CODE])
def test_ordinary_texts_are_recorded_as_they_are(make: Callable[[random.Random], str]) -> None:
    texts = [make(random.Random(seed)) for seed in range(100)]
    assert [text for text in texts if Masker().text(text, []) != text] == []


def test_the_repository_s_own_texts_are_recorded_as_they_are() -> None:
    root, masker = Path(__file__).parents[2], Masker()
    files = [
        path
        for name in ("docs", "appl", "backends", "examples")
        for path in (root / name).rglob("*")
    ]
    texts = [
        path.read_text() for path in files if path.suffix in (".md", ".py", ".toml", ".css", ".js")
    ]
    assert len(texts) > 400
    assert [text[:60] for text in texts if masker.text(text, []) != text] == []


# -- known keys

KNOWN = {"CANARY_API_KEY": f"canary-{chance(40)}", "CANARY_TOKEN": chance(20), "CANARY_PEM": _LINES}


@pytest.fixture
def environment() -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(KNOWN)
    yield
    os.environ.clear()
    os.environ.update(before)


BREAKS = ["\n", "\r\n", "\n    ", " \\\n  ", "\n> ", "\\n", "\\\\n", "\n# "]


@pytest.mark.parametrize("line_break", BREAKS)
def test_a_line_break_hides_no_known_key(line_break: str, environment: None) -> None:
    key = KNOWN["CANARY_API_KEY"]
    masker = Masker()
    for coded in (key, key.encode().hex(), base64.b64encode(f"me:{key}".encode()).decode()):
        for at in range(1, len(key)):
            said = f"it is {coded[:at]}{line_break}{coded[at:]}, yes"
            shown = masker.text(said, [])
            assert "[secret CANARY_API_KEY]" in shown and shown.endswith(", yes"), said
            assert coded[at : at + 8] not in shown and masked(said) != said
    twice = f"{key[:9]}{line_break}{key[9:]}, {key[:30]}{line_break}{key[30:]}."
    assert masker.text(twice, []) == "[secret CANARY_API_KEY], [secret CANARY_API_KEY]."


def sent_by_a_worker(text: str) -> list[bytes]:
    """The batches in which a worker tells the driver of *text*."""
    batches: list[bytes] = []
    outbox = Outbox(batches.append, lambda: 0, lambda action: action(), wants_chunks=False)
    outbox.say("event", text)
    return batches


def shown_by_the_driver(batches: list[bytes]) -> str:
    """The text of *batches*, without the secrets of which the driver was told before it."""
    known: dict[str, str] = {}
    for kind, about in itertools.chain.from_iterable(map(pickle.loads, batches)):
        if kind == "secrets":
            known |= about
        elif kind == "event":
            return Masker(known).text(about, [])
    raise AssertionError("no text was sent")


@pytest.mark.parametrize("line_break", ["", *BREAKS])
def test_a_line_break_hides_no_key_that_only_a_worker_knows(
    line_break: str, environment: None
) -> None:
    """The driver is told of each key before what holds it, and masks it as its own secrets."""
    key, sent = KNOWN["CANARY_API_KEY"], []
    for coded in (key, key.encode().hex(), base64.b64encode(key.encode()).decode()):
        for at in range(1, len(coded), 3):
            said = f"é is {coded[:at]}{line_break}{coded[at:]}, yes"
            sent.append((coded[at : at + 8], sent_by_a_worker(said)))
    os.environ.clear()
    for part, batches in sent:
        shown = shown_by_the_driver(batches)
        assert shown.endswith(", yes")
        assert "[secret CANARY_API_KEY" in shown and part not in shown, shown


@pytest.mark.parametrize("width", [20, 40, 100])
def test_wrapping_hides_no_key_that_only_a_worker_knows(width: int, environment: None) -> None:
    text = KNOWN["CANARY_PEM"].replace("\n", "")
    wrapped = "\n".join(text[at : at + width] for at in range(0, len(text), width))
    batches = sent_by_a_worker(wrapped)
    os.environ.clear()
    shown = shown_by_the_driver(batches)
    assert shown.startswith("[secret CANARY_PEM") and text[-8:] not in shown


def test_a_worker_tells_of_no_key_that_nobody_said(environment: None) -> None:
    assert not any(key.encode() in sent for key in KNOWN.values() for sent in sent_by_a_worker("x"))


@pytest.mark.parametrize("width", [40, 64, 76])
def test_wrapping_hides_no_known_key(width: int, environment: None) -> None:
    for value in KNOWN.values():
        data = base64.b64encode(b"xy" + value.encode() + b"z").decode()
        wrapped = "\n".join(data[at : at + width] for at in range(0, len(data), width))
        assert Masker().text(wrapped, []).count("[secret CANARY") == 1, value


def test_lines_that_hold_no_key_stay(environment: None) -> None:
    key = KNOWN["CANARY_API_KEY"]
    for said in (f"{key[:20]}\n{key[21:]}", f"{key[:20]} {key[20:]}", f"{key[:-1]}\n"):
        assert Masker().text(said, []) == said


def test_a_given_secret_is_masked_beside_a_variable_of_its_name(environment: None) -> None:
    masker = Masker({"CANARY_TOKEN": "given-by-the-program"})
    masker.add({"CANARY_TOKEN": "added-by-a-tool"})
    said = f"given-by-the-program, added-by-a-tool, {KNOWN['CANARY_TOKEN']}"
    assert masker.text(said, []) == ", ".join(["[secret CANARY_TOKEN]"] * 3)


RUN = """\
from tests.canaries.cage import asked
from appl.testing import Fake

class Telling(Fake):
    def __init__(self):
        super().__init__(lambda request: open("answer.txt").read(), name="telling")

def main():
    return str(asked(open("said.txt").read()))
"""


def ran(tmp_path: Path, said: str, answer: str) -> None:
    """Record a run with a prompt that says *said*, and that gets *answer*."""
    for name, text in (("key_shown.py", RUN), ("said.txt", said), ("answer.txt", answer)):
        (tmp_path / name).write_text(text)
    code, out = command("run", "key_shown.py:main", "--backend", "key_shown:Telling", "--quiet")
    assert code == 0, out


def call_of(tmp_path: Path) -> Any:
    *_, path = sorted((tmp_path / ".appl" / "runs").glob("*.trace"))
    return Trace.open(path).calls[0]


def test_a_run_with_a_key_in_its_prompt_is_read_without_it_and_replayed(tmp_path: Path) -> None:
    with contextlib.chdir(tmp_path):
        ran(tmp_path, f"My key is {KEYS['GitHub']}.", "Thank you.")
        said = call_of(tmp_path).messages
        assert [each.content for each in said] == ["My key is [secret GitHub token]."]
        assert command("trace", "replay")[1].startswith("Thank you.")
        Path("said.txt").write_text(f"My key is {KEYS['GitHub'][:-1]}0.")
        code, out = command("trace", "replay")
        assert code == 3 and not any(part in out for part in bodies(KEYS["GitHub"]))


def test_a_key_in_an_answer_is_lost_unless_its_shape_may_be_recorded(
    tmp_path: Path, environment: None
) -> None:
    key = KEYS["Stripe"]
    with contextlib.chdir(tmp_path):
        ran(tmp_path, "An example of a key?", f"Such as {key}, which is none.")
        code, out = command("trace", "replay")
        assert code == 3 and "its record held OpenAI, Anthropic or Stripe key" in out
        assert "mask_shapes = false (APPL_MASK_SHAPES=off)" in out and key not in out
        os.environ.update(APPL_MASK_SHAPES="off", STRIPE_KEY=KEYS["GitHub"])
        ran(tmp_path, f"And {KEYS['GitHub']}?", f"Such as {key}, which is none.")
        call = call_of(tmp_path)
        assert call.messages.message.content == "And [secret STRIPE_KEY]?"  # known by its value
        code, out = command("trace", "replay")
        assert code == 0 and out.startswith(f"Such as {key}, which is none.")


def test_the_settings_of_a_folder_do_not_let_keys_be_recorded(
    tmp_path: Path, environment: None
) -> None:
    os.environ["APPL_TRUST"] = ""
    with contextlib.chdir(tmp_path):
        Path("appl.toml").write_text("mask_shapes = false\n")
        code, out = command("config")
        assert code == 2 and "has what looks like a key recorded as it is" in out
        Path("appl.toml").write_text("mask_shapes = true\n")
        assert command("config")[0] == 0

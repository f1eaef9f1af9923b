"""No secret is ever in a trace; what held one is marked, and replaying it is a named error."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from operator import is_
from pathlib import Path
from urllib.parse import quote

import pytest
import zstandard
from made import answer, asked, call, end, now, read_back, replayed, start

from appl.backend import Chunk, Response, Sample, TokenLogprob
from appl.errors import BackendError, DivergenceError, SecretInRecord
from appl.prompt import Message
from appl.runtime.world import Moment
from appl.testing import AttemptFailed, CallEnded, ChunksDelivered, Observed, ScopeEntered, Warned
from appl.tracing import Masker, Recorder, Replayer, Trace
from appl.tracing.format import block, block_file

CANARIES = {
    "OPENAI_API_KEY": "sk-canary-0123456789",
    "HF_TOKEN": 'hf_cänary"quoted\\slash/é',
    "DB_PASSWORD": "p w&d=canary+%7",
    "AWS_SECRET_ACCESS_KEY": "canaryAWS/secret+key==",
    "MY_PASSPHRASE": "two\nlines of canary",
}


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(CANARIES)
    yield
    os.environ.clear()
    os.environ.update(before)


def raw(path: Path) -> bytes:
    """Everything in the file, decompressed."""
    with path.open("rb") as file:
        return b"".join(block.scan(file, block.Scan()))


def forms(secret: str) -> list[bytes]:
    texts = [
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        quote(secret),
        quote(secret, safe=""),
    ]
    return [text.encode() for text in texts]


def holds_a_secret(path: Path) -> list[str]:
    data, compressed = raw(path), path.read_bytes()
    return [
        name for name, s in CANARIES.items() if any(f in data or f in compressed for f in forms(s))
    ]


def leaky_run(recorder: Recorder, secret: str) -> None:
    """The secret in every place where text can be."""
    recorder.on_event(ScopeEntered(f"/{secret}.0", "", secret, f"/home/{secret}.py", 1, now()))
    start(recorder, asked("/p.0/gen.0", f"my key is {secret}!", stop=(secret,), model=secret))
    recorder.on_event(
        AttemptFailed(
            "/p.0/gen.0", 1, BackendError(f"401 for https://h/?key={quote(secret)}"), now()
        )
    )
    end(recorder, "/p.0/gen.0", answer(json.dumps({"key": secret})))
    start(recorder, asked("/p.0/gen.1", "x" * 3_000_000 + secret + "y"))
    end(recorder, "/p.0/gen.1", BackendError(f"failed with {secret}", secret))
    tokens = tuple(TokenLogprob(letter, -1.0, ((letter, -1.0),)) for letter in secret)
    start(recorder, asked("/p.0/gen.2", "say it"))
    end(recorder, "/p.0/gen.2", Response((Sample(secret, "stop", tokens),)))
    letters = [Chunk(0, letter) for letter in secret]
    for at, outcome in ((3, answer(secret)), (4, BackendError("broke off"))):
        start(recorder, asked(f"/p.0/gen.{at}", "say it letter by letter"))
        recorder.on_event(ChunksDelivered(f"/p.0/gen.{at}", 3, now()))
        said = (outcome, None) if at == 3 else (None, outcome)
        recorder.on_event(CallEnded(f"/p.0/gen.{at}", *said, now(), letters))  # type: ignore[arg-type]
    recorder.on_event(Observed("/p.0", 0, "env", {secret: [secret, secret.encode()]}, now()))
    recorder.on_event(Warned("/p.0", f"careful with {secret}", now()))


@pytest.mark.parametrize("name", CANARIES)
def test_a_secret_is_nowhere_in_the_file(path: Path, name: str) -> None:
    recorder = Recorder(
        path, {"settings": {"header": CANARIES[name]}, "arguments": [CANARIES[name]]}
    )
    leaky_run(recorder, CANARIES[name])
    recorder.close()
    assert holds_a_secret(path) == []
    trace = Trace.open(path)
    assert trace.masked > 5
    assert all(name in c.masked for c in trace.calls)
    assert f"[secret {name}]" in str(trace.as_data()["calls"][0]["messages"])
    assert trace.by_address["/p.0/gen.2"].response.samples[0].logprobs is None  # type: ignore[union-attr]
    assert list(trace.by_address["/p.0/gen.3"].chunks()) == []


def test_several_secrets_in_one_text_are_all_masked(path: Path) -> None:
    recorder = Recorder(path, {})
    call(recorder, "/p.0/gen.0", " and ".join(CANARIES.values()), "fine")
    recorder.close()
    assert holds_a_secret(path) == []
    assert set(Trace.open(path).calls[0].masked) == set(CANARIES)


def test_a_secret_that_appears_later_in_the_environment_is_masked_too(path: Path) -> None:
    recorder = Recorder(path, {})
    recorder.barrier()
    os.environ["LATE_API_KEY"] = "loaded-from-dotenv"
    call(recorder, "/p.0/gen.0", "key loaded-from-dotenv here")
    recorder.close()
    assert b"loaded-from-dotenv" not in raw(path)


def test_secrets_given_by_the_transport_are_masked(path: Path) -> None:
    recorder = Recorder(path, {}, secrets={"appl.toml api_key": "given-by-config"})
    call(recorder, "/p.0/gen.0", "a given-by-config b")
    trace = read_back(path, recorder)
    assert trace.calls[0].masked == ("appl.toml api_key",)
    assert b"given-by-config" not in raw(path)


def test_short_values_and_harmless_names_are_left_alone(path: Path) -> None:
    os.environ["SOME_TOKEN"] = "short"
    os.environ["HOME_TOWN"] = "Springfield"
    recorder = Recorder(path, {})
    call(recorder, "/p.0/gen.0", "short Springfield", "ok")
    assert read_back(path, recorder).masked == 0


def test_masking_leaves_the_other_records_and_their_digests_intact(path: Path) -> None:
    recorder = Recorder(path, {})
    call(recorder, "/p.0/gen.0", "before")
    call(recorder, "/p.0/gen.1", CANARIES["OPENAI_API_KEY"])
    call(recorder, "/p.0/gen.2", "after")
    trace = read_back(path, recorder)
    assert [bool(c.masked) for c in trace.calls] == [False, True, False]
    assert trace.calls[2].messages and trace.calls[2].messages.message.content == "after"


async def test_replaying_a_masked_answer_is_a_named_error(path: Path) -> None:
    recorder = Recorder(path, {})
    call(recorder, "/p.0/gen.0", "q", CANARIES["HF_TOKEN"])
    recorder.close()
    (result,) = await replayed(Replayer(path), asked("/p.0/gen.0", "q"))
    assert isinstance(result, SecretInRecord) and "HF_TOKEN" in str(result)
    assert "mask_shapes" not in str(result)  # a known secret is masked in any case


async def test_a_call_with_a_masked_prompt_is_known_by_its_digest(path: Path) -> None:
    recorder = Recorder(path, {})
    call(recorder, "/p.0/gen.0", f"with {CANARIES['HF_TOKEN']}", "a")
    recorder.close()
    (same,) = await replayed(Replayer(path), asked("/p.0/gen.0", f"with {CANARIES['HF_TOKEN']}"))
    (other,) = await replayed(Replayer(path), asked("/p.0/gen.0", "with [secret HF_TOKEN]"))
    assert same == "a" and isinstance(other, DivergenceError)


def test_replaying_a_masked_observation_is_a_named_error(path: Path) -> None:
    recorder = Recorder(path, {})
    recorder.on_event(Observed("/p.0", 0, "env", CANARIES["HF_TOKEN"], now()))
    recorder.close()
    with pytest.raises(SecretInRecord):
        Replayer(path).see(Moment("/p.0", "env"), lambda: "live")


def test_redact_sees_every_message_and_answer_before_it_is_stored(path: Path) -> None:
    seen: list[str] = []

    def redact(message: Message) -> Message:
        seen.append(message.role)
        return Message(message.role, message.content.replace("Alice", "[name]"))

    recorder = Recorder(path, {}, redact=redact)
    call(recorder, "/p.0/gen.0", "Alice asks", "Hello Alice")
    call(recorder, "/p.0/gen.1", "Bob asks", "Hello Bob")
    trace = read_back(path, recorder)
    assert b"Alice" not in raw(path)
    assert seen == ["user", "assistant"] * 2
    assert [c.masked for c in trace.calls] == [("redact", "redact"), ()]
    assert trace.header["redaction"] == "hook"


def test_a_redact_hook_that_fails_lets_nothing_through(path: Path) -> None:
    def redact(message: Message) -> Message:
        raise RuntimeError(message.content)

    recorder = Recorder(path, {}, redact=redact)
    call(recorder, "/p.0/gen.0", "private question", "private answer")
    recorder.close()
    assert b"private" not in raw(path)


def test_looking_for_secrets_costs_little_when_there_are_none() -> None:
    masker, items = Masker(), [b"x" * 500] * 100
    assert all(map(is_, masker.filter(items), items))


def test_the_file_is_compressed_and_still_checked() -> None:
    assert (
        zstandard.ZstdDecompressor().decompress(
            block_file.Encoder().block(b"a" * 1000)[block.HEAD.size :]
        )
        == b"a" * 1000
    )

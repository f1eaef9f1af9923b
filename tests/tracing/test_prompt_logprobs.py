"""Log-probabilities of a prompt: recorded, replayed, and never with a secret in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import appl
from appl import Generation, gen, ppl
from appl.backend import Response, Sample, TokenLogprob
from appl.errors import InvalidOption
from appl.testing import Fake, Run, running
from appl.tracing import Recorder, Replayer, Trace, profile_data, tape

SECRET = "a-secret-of-some-length"
PIECES = tuple(
    TokenLogprob(text, -float(at), ((text, -float(at)), ("or", -9.0)))
    for at, text in enumerate(["Say ", "a-sec", "ret-of-so", "me-length", "."])
)


def backend(tokens: tuple[TokenLogprob, ...]) -> Fake:
    answer = Response((Sample("fine", "stop"),), prompt_logprobs=tokens)
    return Fake(lambda _: answer, features=frozenset({"prompt_logprobs", "stream"}))


@ppl
def ask() -> Generation:
    "Say something."
    return gen(prompt_logprobs=1)


def recorded(path: Path, tokens: tuple[TokenLogprob, ...], **options: Any) -> Trace:
    asked = backend(tokens)
    recorder = Recorder(path, {"profile": profile_data(asked.profile)}, **options)
    with Run(asked, instruments=[recorder]):
        assert ask().prompt_logprobs == tokens
    recorder.close()
    return Trace.open(path)


def test_they_are_recorded_taped_and_replayed(tmp_path: Path) -> None:
    trace = recorded(tmp_path / "a.trace", PIECES)
    tape.save(trace, tmp_path / "a.jsonl")
    for path in (tmp_path / "a.trace", tmp_path / "a.jsonl"):
        replayer = Replayer(path)
        with Run(replayer.backend, instruments=[replayer], world=replayer):
            assert ask().prompt_logprobs == PIECES


def test_where_a_secret_stands_in_several_tokens_none_is_recorded(tmp_path: Path) -> None:
    trace = recorded(tmp_path / "a.trace", PIECES, secrets={"MINE": SECRET})
    assert trace.calls[0].response.prompt_logprobs is None  # type: ignore[union-attr]
    assert b"ret-of-so" not in (tmp_path / "a.trace").read_bytes()


def test_a_redacted_trace_has_none(tmp_path: Path) -> None:
    trace = recorded(tmp_path / "a.trace", PIECES, redact=lambda message: message)
    assert trace.calls[0].response.prompt_logprobs is None  # type: ignore[union-attr]


def test_a_cache_keeps_no_answer_with_a_secret_in_its_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", SECRET)
    with running(backend(PIECES)) as seen:
        for _ in range(2):
            str(gen(messages="x", prompt_logprobs=1, cache=tmp_path / "answers"))
    assert len(seen.requests) == 2 and b"ret-of-so" not in (tmp_path / "answers").read_bytes()


def test_a_stream_has_them_too() -> None:
    with running(backend(PIECES)):
        answer = gen(messages="x", prompt_logprobs=1, stream=True)
        assert "".join(answer.text_stream) == "fine" and answer.prompt_logprobs == PIECES


def test_choices_have_none() -> None:
    with running(backend(PIECES)), pytest.raises(InvalidOption, match="choices are scored"):
        appl.gen(messages="x", choices=["a", "b"], prompt_logprobs=0)

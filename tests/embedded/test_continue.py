"""What an answer does at its limits: stop tokens, half characters, constraints across a cut."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from appl import gen
from appl.errors import Unsupported
from appl.testing import Run
from appl_backends.embedded import Embedded
from appl_backends.embedded.tokenizer import Tokenizer
from tests.drawn import counts

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "maximum": 999}},
    "required": ["name", "age"],
    "additionalProperties": False,
}  # fmt: skip


@pytest.mark.parametrize("limit", [2, 3, 5, 8])
def test_a_regex_holds_across_every_cut(folder: Path, limit: int) -> None:
    pattern = r"(ab|cde|x y|é){6} [0-9]{1,3}( end)?"
    with Run(Embedded(weights=folder)):
        answers = [
            gen(messages="Say it.", regex=pattern, max_tokens=limit, max_relay_rounds=60, seed=seed)
            for seed in range(12)
        ]
        for answer in answers:
            assert answer.finish_reason == "stop" and re.fullmatch(pattern, str(answer)), answer


@pytest.mark.parametrize("limit", [4, 7, 16])
def test_a_schema_holds_across_every_cut(folder: Path, limit: int) -> None:
    with Run(Embedded(weights=folder)):
        answers = [
            gen(
                messages="Who?", response_format=SCHEMA, max_tokens=limit, max_relay_rounds=99,
                seed=seed, stream=True,
            )
            for seed in range(8)
        ]  # fmt: skip
        for answer in answers:
            *_, last = answer.text_stream
            assert set(answer.result()) == {"name", "age"} and last == answer.result()


def test_a_beginning_that_the_constraint_forbids_is_an_error(folder: Path) -> None:
    class Wrong(Embedded):
        async def complete(self, request, emit=None):
            if request.sampling.begun:
                object.__setattr__(request.sampling, "begun", "?")
            return await super().complete(request, emit)

    with Run(Wrong(weights=folder)), pytest.raises(Unsupported, match="begun"):
        str(gen(messages="x", regex="(ab){9}", max_tokens=2, max_relay_rounds=1))


@counts(8, 20)
def test_a_stop_token_ends_the_answer_and_is_no_part_of_it(folder: Path, count: int) -> None:
    backend = Embedded(weights=folder)
    byte = {data: token for token, data in enumerate(Tokenizer(folder).bytes) if len(data) == 1}
    with Run(backend):
        free = [str(gen(messages="Hi", seed=seed, max_tokens=60)) for seed in range(count)]
        for letter in "eo":
            token = byte[letter.encode()]
            for seed, whole in enumerate(free):
                g = gen(messages="Hi", seed=seed, max_tokens=60, stop_tokens=[token], logprobs=0)
                assert whole.startswith(str(g)) and all(t.token != letter for t in g.logprobs)
                if str(g) != whole:
                    assert g.finish_reason == "stop" and whole[len(g)] == letter


def test_a_cut_never_ends_in_half_a_character(folder: Path) -> None:
    with Run(Embedded(weights=folder)):
        answers = [
            gen(messages="x", regex="[é日🙂]{40}", max_tokens=limit, seed=seed)
            for limit in range(1, 12)
            for seed in range(4)
        ]
        for answer in answers:
            assert answer.finish_reason == "length" and set(answer) <= set("é日🙂"), answer


@pytest.mark.parametrize("seed", range(4))
def test_what_is_streamed_is_what_is_answered(folder: Path, seed: int) -> None:
    with Run(Embedded(weights=folder)):
        g = gen(messages="Tell me.", seed=seed, max_tokens=50, stop=["e", "ab"], stream=True, n=2)
        chunks = list(g.text_stream)
        assert "".join(chunks) == g and len(chunks) > 1
        assert json.dumps(g.samples[1]) == json.dumps("".join(_second(g)))


def _second(g) -> list[str]:
    return [chunk.text for chunk in g._pending.emit.chunks if chunk.sample == 1]

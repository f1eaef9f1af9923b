"""Adapters of low rank: each changes its own rows of a batch, as merged weights would."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from appl.backend import Request, Sampling
from appl.errors import ConfigError, ModelNotFound, Unsupported
from appl.prompt import Messages, UserMessage
from appl_backends.embedded import WEIGHTS, Embedded

from .tiny import make_adapter, make_model, merged

TEXTS = "Mia has apples, the fox jumps, Olaf lives in Lund, is it new or positive or lazy".split()


def prompts(number: int) -> list[str]:
    dice = random.Random(5)
    return [" ".join(dice.choices(TEXTS, k=dice.randrange(3, 30))) for _ in range(number)]


def asked(text: str, lora: object = None) -> Request:
    extra = {} if lora is None else {"lora": lora}
    sampling = Sampling(temperature=0.0, max_tokens=20, extra=tuple(extra.items()))
    return Request("/a", 0, "", Messages.of([UserMessage(text)]), sampling)


async def texts(backend: Embedded, requests: Sequence[Request]) -> list[str]:
    answers = await asyncio.gather(*map(backend.complete, requests))
    return [answer.samples[0].text for answer in answers]


async def compared(tmp: Path, model: Path, number: int, **settings: float) -> tuple[int, int]:
    """How many of *number* answers by each of three adapters are those of merged weights."""
    names = ["a", "b", "c"]
    folders = {
        name: make_adapter(tmp / name, model, seed=at, rank=2**at + 1, **settings)  # type: ignore[arg-type]
        for at, name in enumerate(names)
    }
    backend = Embedded(weights=model, adapters=folders)
    each = prompts(number)
    every = [(text, name) for text in each for name in [None, *names]]
    answers = await texts(backend, [asked(*one) for one in every])
    await backend.aclose()
    equal = changed = 0
    for name in [None, *names]:
        weights = model if name is None else merged(tmp / f"{name}-merged", model, folders[name])
        alone = Embedded(weights=weights)
        expected = await texts(alone, [asked(text) for text in each])
        await alone.aclose()
        mine = [answer for answer, (_, lora) in zip(answers, every, strict=True) if lora == name]
        equal += sum(one == other for one, other in zip(mine, expected, strict=True))
        changed += sum(
            one != other for one, other in zip(mine, answers[:: len(names) + 1], strict=True)
        )
    return equal, changed


async def test_answers_of_a_mixed_batch_are_those_of_merged_weights(tmp_path: Path) -> None:
    model = make_model(tmp_path / "model", heads=4, kv_heads=2)
    equal, changed = await compared(tmp_path, model, 12)
    assert equal == 4 * 12 and changed == 3 * 12


@pytest.mark.long
async def test_200_answers_of_the_shipped_model_are_those_of_merged_weights(tmp_path: Path) -> None:
    equal, changed = await compared(tmp_path, WEIGHTS, 200, alpha=4.0)
    print(
        f"{equal} of 800 answers are those of merged weights; {changed} of 600 differ from the plain"
    )
    assert equal == 800 and changed > 300


async def test_adapters_share_no_computed_prefix(tmp_path: Path) -> None:
    model = make_model(tmp_path / "model")
    adapters = {name: make_adapter(tmp_path / name, model, seed=1) for name in "ab"}
    backend = Embedded(weights=model, adapters=adapters)
    text = " ".join(prompts(4))
    cached = []
    for lora in (None, "a", "b", "a"):
        cached.append((await backend.complete(asked(text, lora))).usage.cached_tokens)
    await backend.aclose()
    assert cached[:3] == [0, 0, 0] and (cached[3] or 0) > 0


async def test_an_adapter_may_change_some_matrices_only(tmp_path: Path) -> None:
    model = make_model(tmp_path / "model")
    one = make_adapter(tmp_path / "one", model, seed=1, targets=("v_proj", "up_proj"))
    backend, alone = (
        Embedded(weights=model, adapters={"one": one}),
        Embedded(weights=merged(tmp_path / "merged", model, one)),
    )
    each = prompts(5)
    with_adapter = await texts(backend, [asked(text, "one") for text in each])
    assert with_adapter == await texts(alone, list(map(asked, each)))
    await backend.aclose()
    await alone.aclose()


async def test_an_unknown_adapter_is_named_with_those_there_are(tmp_path: Path) -> None:
    model = make_model(tmp_path / "model")
    backend = Embedded(
        weights=model, adapters={"poems": make_adapter(tmp_path / "p", model, seed=1)}
    )
    for wrong in ("poem", ["poem"]):
        with pytest.raises(ModelNotFound, match=r"'poem'.*poems"):
            await backend.complete(asked("hello", wrong))
    await backend.aclose()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"peft_type": "IA3"}, "peft_type IA3"),
        ({"use_dora": True}, "use_dora"),
        ({"bias": "all"}, "bias"),
    ],
)
async def test_an_adapter_of_another_kind_is_refused(
    tmp_path: Path, change: dict[str, object], said: str
) -> None:
    model = make_model(tmp_path / "model")
    file = make_adapter(tmp_path / "p", model, seed=1) / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    backend = Embedded(weights=model, adapters={"p": file.parent})
    with pytest.raises(Unsupported, match=said):
        await backend.complete(asked("hello", "p"))
    await backend.aclose()


async def test_an_adapter_of_another_model_is_refused(tmp_path: Path) -> None:
    model, other = make_model(tmp_path / "m"), make_model(tmp_path / "o", hidden=128)
    backend = Embedded(weights=model, adapters={"p": make_adapter(tmp_path / "p", other, seed=1)})
    with pytest.raises(Unsupported, match="for 64 to"):
        await backend.complete(asked("hello", "p"))
    await backend.aclose()


def test_a_folder_without_an_adapter_is_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"adapter_config\.json"):
        Embedded(adapters={"poems": tmp_path})

"""Vectors by ``/v1/embeddings``: OpenAI's client, our own backend, and the model in this process."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from appl.backend import Sampling
from appl.prompt import Message, Messages
from appl.testing import Served
from appl_backends.embedded import Embedded
from appl_backends.openai import OpenAI
from tests.providers.asking import request

from .conftest import Client

TEXTS = ["a red box", "the blue lamp\n", "é漢🙂", "<s>", " ", "\x00", "word " * 6000]


@pytest.fixture
def sdk(shared: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=f"{shared.url}/v1", api_key=shared.api_key, max_retries=0, timeout=60
    ) as made:
        yield made


def asked(*texts: str, dimensions: int = 0) -> Any:
    made = request("", model="embedded")
    made.messages = Messages.of(Message("user", text) for text in texts)
    made.sampling = Sampling(dimensions=dimensions)
    return made


def floats(vector: bytes) -> list[float]:
    return list(struct.unpack(f"<{len(vector) // 4}f", vector))


@pytest.mark.parametrize("encoding", [{}, {"encoding_format": "float"}])
async def test_the_client_gets_the_vectors_of_this_process_in_order(
    sdk: openai.OpenAI, local: Embedded, encoding: Any
) -> None:
    here = await local.complete(asked(*TEXTS))
    found = sdk.embeddings.create(model="embedded", input=TEXTS, **encoding)
    assert here.vectors is not None
    assert [row.embedding for row in found.data] == [floats(each) for each in here.vectors]
    assert [row.index for row in found.data] == list(range(len(TEXTS)))
    assert found.usage.prompt_tokens == found.usage.total_tokens == here.usage.prompt_tokens
    assert (found.object, found.model) == ("list", "embedded")


def test_base64_holds_the_floats_that_the_list_shows(client: Client) -> None:
    body = {"input": "a red box", "model": "embedded"}
    listed = client.post("/v1/embeddings", body).json()["data"][0]["embedding"]
    packed = client.post("/v1/embeddings", {**body, "encoding_format": "base64"}).json()
    assert floats(base64.b64decode(packed["data"][0]["embedding"])) == listed


def test_a_text_alone_and_its_token_ids_have_the_same_vector(
    sdk: openai.OpenAI, client: Client
) -> None:
    text = "a red box"
    ids = client.post("/tokenize", {"prompt": text}).json()["tokens"]
    inputs: list[Any] = [text, ids, [text], [ids]]
    found = [sdk.embeddings.create(model="embedded", input=each) for each in inputs]
    assert len({tuple(each.data[0].embedding) for each in found}) == 1
    assert {each.usage.total_tokens for each in found} == {len(ids)}


def test_a_batch_has_the_vectors_that_its_texts_have_alone(sdk: openai.OpenAI) -> None:
    texts = [f"text number {number}" for number in range(2048)]
    found = sdk.embeddings.create(model="embedded", input=texts)
    for at in (0, 1, 1000, 2047):
        alone = sdk.embeddings.create(model="embedded", input=texts[at])
        assert alone.data[0].embedding == found.data[at].embedding
    assert len(found.data) == len(texts)


def test_the_own_length_may_be_asked_for_and_no_other(sdk: openai.OpenAI) -> None:
    found = sdk.embeddings.create(model="embedded", input="x", dimensions=256)
    assert len(found.data[0].embedding) == 256
    with pytest.raises(openai.BadRequestError, match="256 numbers, not 64") as refused:
        sdk.embeddings.create(model="embedded", input="x", dimensions=64)
    assert refused.value.param == "dimensions"


WRONG: dict[str, Any] = {
    "no input": {"input": None},
    "an empty text": {"input": ""},
    "an empty text among others": {"input": ["a", ""]},
    "no texts": {"input": []},
    "no ids": {"input": [[]]},
    "an id of another vocabulary": {"input": [99999]},
    "a negative id": {"input": [[-1]]},
    "true as an id": {"input": [[True]]},
    "a number": {"input": 7},
    "an object": {"input": {"text": "a"}},
    "too many texts": {"input": ["a"] * 2049},
    "another encoding": {"encoding_format": "int8"},
    "no encoding": {"encoding_format": 1},
    "no dimensions": {"dimensions": 0},
    "dimensions as text": {"dimensions": "256"},
}


@pytest.mark.parametrize("what", WRONG)
def test_what_has_no_vector_is_refused_by_its_field(client: Client, what: str) -> None:
    (field,) = WRONG[what]
    found = client.post("/v1/embeddings", {"model": "embedded", "input": "a", **WRONG[what]})
    assert found.status_code == 400
    assert found.json()["error"]["param"] == field
    assert field in found.json()["error"]["message"]


def test_another_model_is_not_there(sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        sdk.embeddings.create(model="text-embedding-3-small", input="a")
    assert missing.value.code == "model_not_found"


async def test_our_own_backend_gets_the_vectors_of_this_process(
    shared: Served, local: Embedded
) -> None:
    backend = OpenAI(base_url=f"{shared.url}/v1", api_key=shared.api_key)
    try:
        there = await backend.complete(asked(*TEXTS, dimensions=256))
    finally:
        await backend.aclose()
    here = await local.complete(asked(*TEXTS))
    assert there.vectors == here.vectors
    assert there.usage.prompt_tokens == here.usage.prompt_tokens

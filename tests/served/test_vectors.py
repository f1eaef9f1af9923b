"""Functions of texts that return vectors, as OpenAI's clients ask for embeddings."""

from __future__ import annotations

import base64
import struct
from array import array
from collections.abc import Sequence
from typing import Any

import httpx
import jsonschema
import openai
import pytest

from appl.parts.serving import served_function
from appl.runtime import Future
from appl.testing.vectors import bag_of_words

from .conftest import Served

TEXTS = ["a red box", "the blue lamp", "a red box", "dog"]


@pytest.fixture
def client(shared: Served) -> openai.OpenAI:
    return openai.OpenAI(
        base_url=f"{shared.url}/v1", api_key=shared.ready["api_key"], max_retries=0
    )


def rounded(numbers: Sequence[float]) -> list[float]:
    """*numbers* as 32-bit floats, by ``struct``."""
    return list(struct.unpack(f"{len(numbers)}f", struct.pack(f"{len(numbers)}f", *numbers)))


@pytest.mark.parametrize("encoding", [{}, {"encoding_format": "float"}])
def test_the_client_gets_the_backend_s_vectors(client: openai.OpenAI, encoding: Any) -> None:
    found = client.embeddings.create(model="vectors", input=TEXTS, **encoding)
    assert [row.embedding for row in found.data] == [rounded(bag_of_words(text)) for text in TEXTS]
    assert [row.index for row in found.data] == list(range(len(TEXTS)))
    assert (found.object, found.model) == ("list", "vectors")


def test_its_usage_is_that_of_its_run(shared: Served, client: openai.OpenAI) -> None:
    found = client.embeddings.with_raw_response.create(model="vectors", input=TEXTS)
    run = shared.run(found.headers["Appl-Run"])
    paid = sum(len(text.split()) for text in set(TEXTS))
    assert found.parse().usage.prompt_tokens == run["usage"]["prompt_tokens"] == paid
    assert run["function"] == "vectors" and run["usage"]["calls"] == 1


def test_one_text_and_a_function_of_one_s_own_numbers(client: openai.OpenAI) -> None:
    found = client.embeddings.create(model="halves", input="abc")
    assert [row.embedding for row in found.data] == [rounded([1.5, 0.1])]
    assert found.usage.total_tokens == 0


def test_dimensions_go_to_a_function_that_takes_them(client: openai.OpenAI) -> None:
    found = client.embeddings.create(model="vectors", input="a red box", dimensions=7)
    assert found.data[0].embedding == rounded(bag_of_words("a red box")[:7])
    with pytest.raises(openai.BadRequestError, match="halves has no parameter") as refused:
        client.embeddings.create(model="halves", input="a", dimensions=7)
    assert refused.value.param == "dimensions"


def test_as_json_it_returns_lists(shared: Served) -> None:
    found = shared.call("vectors", texts=["a red box"]).json()
    assert found["result"] == [rounded(bag_of_words("a red box"))]
    document = httpx.get(f"{shared.url}/openapi.json").json()
    whole = {"$ref": "#/components/schemas/vectors_run", "components": document["components"]}
    jsonschema.Draft202012Validator(whole).validate(found)
    assert "vectors" in str(document["paths"]["/v1/embeddings"])


def test_base64_is_of_32_bit_floats(shared: Served) -> None:
    body = {"model": "vectors", "input": "dog", "encoding_format": "base64"}
    found = shared.request("POST", "/v1/embeddings", json=body).json()
    packed = base64.b64decode(found["data"][0]["embedding"])
    assert packed == struct.pack(f"<{len(packed) // 4}f", *bag_of_words("dog"))


WRONG: dict[str, dict[str, Any]] = {
    "no input": {"input": None},
    "an empty text": {"input": ["a", ""]},
    "no texts": {"input": []},
    "token ids": {"input": [[1, 2]]},
    "too many": {"input": ["a"] * 2049},
    "another encoding": {"encoding_format": "int8"},
    "an object as encoding": {"encoding_format": {}},
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_field_is_named_before_a_run_begins(shared: Served, what: str) -> None:
    (field,) = WRONG[what]
    before = shared.home.runs()
    body = {"model": "vectors", "input": "a", **WRONG[what]}
    found = shared.request("POST", "/v1/embeddings", json=body)
    assert found.status_code == 400 and found.json()["error"]["param"] == field
    assert shared.home.runs() == before


def test_dimensions_of_another_type_do_not_fit(client: openai.OpenAI) -> None:
    with pytest.raises(openai.UnprocessableEntityError, match="dimensions"):
        client.embeddings.create(model="vectors", input="a", dimensions="x")  # type: ignore[arg-type]


def test_a_function_that_breaks_its_word_fails_the_request(client: openai.OpenAI) -> None:
    with pytest.raises(openai.InternalServerError, match="one vector for each text"):
        client.embeddings.create(model="too_few", input=["a", "b"])


def test_functions_of_vectors_are_models_for_embeddings_alone(client: openai.OpenAI) -> None:
    names = {model.id for model in client.models.list()}
    assert {"vectors", "halves", "ask"} <= names and "plan" not in names
    assert client.models.retrieve("vectors").id == "vectors"
    with pytest.raises(openai.NotFoundError, match="vectors are: vectors, halves"):
        client.embeddings.create(model="ask", input="a")
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="vectors", messages=[{"role": "user", "content": "a"}])


# -- which functions these are


def embeds(returned: Any, taken: Any = list[str]) -> str | None:
    def f(texts, more=1): ...  # type: ignore[no-untyped-def]

    f.__annotations__ = {"texts": taken, "return": returned}
    return served_function("f", f, "f.py").embeds


def test_a_function_is_known_by_its_types() -> None:
    vectors: list[Any] = [list[list[float]], Sequence[list[float]], list[array],  # type: ignore[type-arg]
                          Future[list[list[float]]], list[Sequence[float]]]  # fmt: skip
    others: list[Any] = [
        list[float],
        list[str],
        list[list[int]],
        list[Any],
        dict[str, float],
        str,
        float,
        Any,
        None,
    ]
    assert [embeds(each) for each in vectors] == ["texts"] * len(vectors)
    assert [embeds(each) for each in others] == [None] * len(others)
    for taken in (str, list, list[int], list[Any], Any):
        assert embeds(list[list[float]], taken) is None

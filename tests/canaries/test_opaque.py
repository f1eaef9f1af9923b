"""What a server wants back unchanged is masked only where it holds a known secret, or words."""

import base64
import json
import random
from typing import Any

import pytest

from appl.backend import Response, Sample
from appl.prompt import ProviderFields
from appl.tracing import Masker
from appl.tracing.format import codec, response_data, response_from, table

from .ordinary import alnum, b64, b64url
from .test_shapes import KEYS

SECRET = "known-secret-of-a-program"
DICE = random.Random(5)
SHAPE = f"hf_{alnum(DICE, 34)}"
SIGNATURE = f"{b64(DICE, 90).rstrip('=')}.{SHAPE}.{b64url(DICE, 300)}"
"""An opaque text, in which the shape of a key stands by chance."""


def recorded(text: str, extra: object) -> Any:
    """An answer with these as it is written, and the names of what was masked."""
    provided = ProviderFields.of({"extra": extra}, "it")
    response = Response((Sample(text, "stop", provider_fields=provided),))
    masker = Masker({"SECRET": SECRET})
    packed = codec.pack(("E", 1, 0, response_data(response), 0))
    (fields,) = codec.unpack(masker.filter([packed])[0])
    (sample,) = response_from(table.unwrapped(fields)[3]).samples
    more = json.loads(sample.provider_fields.fields)["extra"] if sample.provider_fields else None
    return sample.text, more, fields[1] if fields[0] == table.MASKED else []


@pytest.mark.parametrize("wrap", [
    lambda text: text, lambda text: [text], lambda text: {"thought_signature": text},
    lambda text: {"reasoning_details": [{"type": "reasoning.encrypted", "data": text}]},
])  # fmt: skip
def test_an_opaque_text_is_recorded_as_it_is(wrap: Any) -> None:
    for text in (SIGNATURE, *(b64url(DICE, 3000) for _ in range(20)), f"gAAAA{b64(DICE, 900)}"):
        assert recorded("an answer", wrap(text)) == ("an answer", wrap(text), [])


def test_elsewhere_the_same_text_is_masked() -> None:
    text, extra, names = recorded(SIGNATURE, SIGNATURE)
    assert SHAPE not in text and extra == SIGNATURE and names == ["Hugging Face token"]


@pytest.mark.parametrize("encode", [
    lambda s: s, lambda s: base64.b64encode(s.encode()).decode(), lambda s: s.encode().hex(),
])  # fmt: skip
def test_a_known_secret_in_an_opaque_text_is_masked(encode: Any) -> None:
    text = f"{b64url(DICE, 60)}{encode(SECRET)}{b64url(DICE, 60)}"
    _, extra, names = recorded("", {"data": [text]})
    assert encode(SECRET)[4:-4] not in str(extra) and names == ["SECRET"]


@pytest.mark.parametrize("name", ["GitHub", "JWT", "OpenAI", "Anthropic", "PEM in base64"])
def test_a_key_that_stands_alone_is_masked(name: str) -> None:
    _, extra, names = recorded("", {"key": KEYS[name]})
    assert KEYS[name][10:30] not in str(extra) and names


def test_words_are_masked_as_everywhere() -> None:
    said = f"The user's key is {KEYS['GitHub']}, and I think of it."
    _, extra, names = recorded("", {"reasoning_content": said})
    assert KEYS["GitHub"] not in str(extra) and names == ["GitHub token"]

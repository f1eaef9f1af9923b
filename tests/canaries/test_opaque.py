"""What a server wants back unchanged is masked only where it holds a known secret, or words."""

import base64
import random
from typing import Annotated, Any, Literal, NamedTuple

import pytest

from appl.tracing import Masker
from appl.tracing.format import codec, table

from .ordinary import alnum, b64, b64url
from .test_shapes import KEYS

SECRET = "known-secret-of-a-program"
DICE = random.Random(5)
SHAPE = f"hf_{alnum(DICE, 34)}"
SIGNATURE = f"{b64(DICE, 90).rstrip('=')}.{SHAPE}.{b64url(DICE, 300)}"
"""An opaque text, in which the shape of a key stands by chance."""


class Answer(NamedTuple):
    """A record with a field for what a server wants back."""

    tag: Literal["M"]
    text: Annotated[str, table.Content.TEXT]
    extra: Annotated[Any, table.Content.OPAQUE]


def recorded(text: object, extra: object) -> Any:
    """The record of these as it is written, and the names of what was masked."""
    places = table.places_of([Answer], table.Content.OPAQUE)
    masker = Masker({"SECRET": SECRET}, opaque=places)
    (fields,) = codec.unpack(masker.filter([codec.pack(("M", text, extra))])[0])
    return table.unwrapped(fields), fields[1] if fields[0] == table.MASKED else []


def test_the_places_of_opaque_fields_are_those_that_the_table_declares() -> None:
    assert table.places_of([Answer], table.Content.OPAQUE) == {"M": frozenset([2])}


@pytest.mark.parametrize("wrap", [
    lambda text: text, lambda text: [text], lambda text: {"thought_signature": text},
    lambda text: {"reasoning_details": [{"type": "reasoning.encrypted", "data": text}]},
])  # fmt: skip
def test_an_opaque_text_is_recorded_as_it_is(wrap: Any) -> None:
    for text in (SIGNATURE, *(b64url(DICE, 3000) for _ in range(20)), f"gAAAA{b64(DICE, 900)}"):
        assert recorded("an answer", wrap(text)) == (["M", "an answer", wrap(text)], [])


def test_elsewhere_the_same_text_is_masked() -> None:
    (_, text, extra), names = recorded(SIGNATURE, SIGNATURE)
    assert SHAPE not in text and extra == SIGNATURE and names == ["Hugging Face token"]


@pytest.mark.parametrize("encode", [
    lambda s: s, lambda s: base64.b64encode(s.encode()).decode(), lambda s: s.encode().hex(),
])  # fmt: skip
def test_a_known_secret_in_an_opaque_text_is_masked(encode: Any) -> None:
    text = f"{b64url(DICE, 60)}{encode(SECRET)}{b64url(DICE, 60)}"
    (_, _, extra), names = recorded("", {"data": [text]})
    assert encode(SECRET)[4:-4] not in str(extra) and names == ["SECRET"]


@pytest.mark.parametrize("name", ["GitHub", "JWT", "OpenAI", "Anthropic", "PEM in base64"])
def test_a_key_that_stands_alone_is_masked(name: str) -> None:
    (_, _, extra), names = recorded("", {"key": KEYS[name]})
    assert KEYS[name][10:30] not in str(extra) and names


def test_words_are_masked_as_everywhere() -> None:
    said = f"The user's key is {KEYS['GitHub']}, and I think of it."
    (_, _, extra), names = recorded("", {"reasoning_content": said})
    assert KEYS["GitHub"] not in str(extra) and names == ["GitHub token"]

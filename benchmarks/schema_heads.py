"""The share of an answer's tokens that a JSON schema fixes before its first free value.

Run: python benchmarks/schema_heads.py

The head of a schema, such as ``{"name": "``, could be said in the prompt, as that of a regular
expression is (``appl_backends/sglang/heads.py``): its tokens are then computed at once and not
decoded. Decoding takes a time that grows with the tokens, so the largest possible gain is the
tokens of the answer over those without the head. That is counted here, for answers as a model
should give them: JSON in one line, as SGLang writes it with
``--constrained-json-disable-any-whitespace``, and the token that ends it. All of the head's tokens
are taken to be saved, even one that goes on into the value, and what the server does besides
decoding takes no time: the true gain is smaller. Bar for building it: 1.3 times for extraction.

The tokenizers are those that come with the packages here: that of the embedded model, Claude's
(with LiteLLM, in the format of Hugging Face) and OpenAI's cl100k (with LiteLLM, for tiktoken).
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import statistics
import sys
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import tokenizers
from pydantic import BaseModel, Field, TypeAdapter

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks/peers")]

from data import RECORDS  # noqa: E402

from examples.extraction import Person  # noqa: E402

Tokens = Callable[[str], list[str]]
"""The texts of the tokens of a text."""


class Order(BaseModel):
    customer: str
    item: str
    quantity: int
    price: float


class Contact(BaseModel):
    """Short keys."""

    n: str
    e: str
    t: str | None


class Invoice(BaseModel):
    """Long keys."""

    invoice_reference_number: str
    total_amount_including_tax: float
    payment_due_date: str
    customer_full_legal_name: str
    is_paid_in_full: bool


class Address(BaseModel):
    street: str
    postal_code: str
    city: str
    country: str


class Customer(BaseModel):
    name: str
    email: str
    address: Address


class Shipment(BaseModel):
    """Nested from its first key on."""

    shipping_information: Customer
    carrier: Literal["post", "dhl", "ups"]
    items: list[str]


class Skill(BaseModel):
    name: str
    years: int


class Resume(BaseModel):
    full_name: str
    headline: str
    skills: list[Skill]
    languages: list[str]


class Paper(BaseModel):
    title: str
    authors: list[str]
    year: int
    abstract_summary: str


class Kind(StrEnum):
    bug = "bug"
    question = "question"
    request = "request"


class Ticket(BaseModel):
    """An enumeration first."""

    kind: Kind
    urgency: Annotated[int, Field(ge=1, le=5)]
    product: str
    summary: str


class Entity(BaseModel):
    text: str
    type: Literal["person", "place", "organization"]


class Entities(BaseModel):
    """A list alone."""

    entities: list[Entity]


class Event(BaseModel):
    """A constant first, as of tagged unions."""

    type: Literal["calendar_event"] = Field(default="calendar_event")
    title: str
    start_time: str
    end_time: str
    attendees: list[str]


class Reasoned(BaseModel):
    """Thoughts before the values."""

    reasoning: str
    diagnosis_code: str
    confidence: float


class Product(BaseModel):
    product_name: str
    price_in_euros: float
    features: list[str]
    in_stock: bool


EXTRACTION: dict[str, tuple[type[BaseModel], list[dict[str, Any]]]] = {
    "examples/extraction": (
        Person,
        [
            {"name": "Olaf Brand", "age": 34, "city": "Lund", "job": "pilot"},
            {"name": "Mira Holt", "age": 61, "city": "Tarn", "job": "teacher"},
            {"name": "Leo Marsh", "age": 44, "city": "Riga", "job": "baker"},
            {"name": "Anna Reed", "age": 29, "city": "Delft", "job": "tailor"},
        ],
    ),
    "benchmarks/peers": (Order, []),
    "short keys": (
        Contact,
        [
            {"n": "Ines Vega", "e": "ines.vega@example.org", "t": "+47 55 12 34 56"},
            {"n": "Hugo Lind", "e": "hugo@example.com", "t": None},
        ],
    ),
    "long keys": (
        Invoice,
        [
            {
                "invoice_reference_number": "2026-00417",
                "total_amount_including_tax": 1249.5,
                "payment_due_date": "2026-12-15",
                "customer_full_legal_name": "Marsh Bakery Ltd",
                "is_paid_in_full": False,
            }
        ],
    ),
    "nested": (
        Shipment,
        [
            {
                "shipping_information": {
                    "name": "Anna Reed",
                    "email": "anna@example.nl",
                    "address": {
                        "street": "Oude Delft 12",
                        "postal_code": "2611 CD",
                        "city": "Delft",
                        "country": "Netherlands",
                    },
                },
                "carrier": "dhl",
                "items": ["lamp", "kettle"],
            }
        ],
    ),
    "resume": (
        Resume,
        [
            {
                "full_name": "Mira Holt",
                "headline": "Teacher of mathematics with a liking for data",
                "skills": [{"name": "Python", "years": 6}, {"name": "statistics", "years": 12}],
                "languages": ["English", "German"],
            }
        ],
    ),
    "paper": (
        Paper,
        [
            {
                "title": "Efficient guided generation for large language models",
                "authors": ["Brandon Willard", "Remi Louf"],
                "year": 2023,
                "abstract_summary": "Regular expressions are compiled to indices over the "
                "vocabulary, so that each step costs constant time.",
            }
        ],
    ),
    "ticket": (
        Ticket,
        [
            {
                "kind": "bug",
                "urgency": 4,
                "product": "viewer",
                "summary": "The graph is empty after the window was made smaller.",
            }
        ],
    ),
    "entities": (
        Entities,
        [
            {
                "entities": [
                    {"text": "Jane Austen", "type": "person"},
                    {"text": "Hampshire", "type": "place"},
                ]
            }
        ],
    ),
    "event": (
        Event,
        [
            {
                "type": "calendar_event",
                "title": "Review of the budget",
                "start_time": "2026-12-01T10:00",
                "end_time": "2026-12-01T11:00",
                "attendees": ["Olaf", "Mira", "Leo"],
            }
        ],
    ),
    "thoughts first": (
        Reasoned,
        [
            {
                "reasoning": "The patient has a dry cough and no fever, and was abroad last week, "
                "so that a cold is more likely than influenza.",
                "diagnosis_code": "J00",
                "confidence": 0.7,
            }
        ],
    ),
    "product": (
        Product,
        [
            {
                "product_name": "Kettle K3",
                "price_in_euros": 39.9,
                "features": ["1.7 litres", "keeps warm", "steel"],
                "in_stock": True,
            }
        ],
    ),
}

ONE_FIELD: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "one choice": (
        {"properties": {"sentiment": {"enum": ["positive", "negative"]}}, "type": "object"},
        [{"sentiment": "positive"}, {"sentiment": "negative"}],
    ),
    "one number": (
        {"properties": {"final_answer": {"type": "integer"}}, "type": "object"},
        [{"final_answer": 1249}],
    ),
    "one sentence": (
        {"properties": {"answer": {"type": "string"}}, "type": "object"},
        [{"answer": "The kettle stands on the second shelf beside the window."}],
    ),
}


def orders() -> list[dict[str, Any]]:
    """What the records of the peers' extraction say, the first 100 of them."""
    found = []
    for record in RECORDS[:100]:
        _, _, rest = record.partition(": ")
        name, _, number, item, _, price, _ = rest.split()
        found.append(
            {"customer": name, "item": item, "quantity": int(number), "price": float(price)}
        )
    return found


def head(schema: Mapping[str, Any], whole: Mapping[str, Any]) -> tuple[str, bool]:
    """The text that begins every value of *schema*, and whether that is all of the value."""
    while "$ref" in schema:
        schema = whole["$defs"][schema["$ref"].rpartition("/")[2]]
    if "const" in schema or len(schema.get("enum", ())) == 1:
        return json.dumps(schema.get("const", schema.get("enum", [None])[0])), True
    if "enum" in schema:
        each = [json.dumps(value) for value in schema["enum"]]
        known = itertools.takewhile(lambda column: len(set(column)) == 1, zip(*each, strict=False))
        return "".join(column[0] for column in known), False
    kind = schema.get("type")
    if kind == "object" and schema.get("properties"):
        text = "{"
        for at, (name, part) in enumerate(schema["properties"].items()):
            more, is_whole = head(part, whole)
            text += ", " * (at > 0) + json.dumps(name) + ": " + more
            if not is_whole:
                return text, False
        return text + "}", True
    return {"string": '"', "array": "["}.get(str(kind), ""), False


def readers() -> dict[str, Tokens]:
    spec = importlib.util.find_spec("litellm")  # importing it asks the network for prices
    assert spec is not None and spec.origin is not None
    folder = Path(spec.origin).parent / "litellm_core_utils/tokenizers"
    os.environ["TIKTOKEN_CACHE_DIR"] = str(folder)
    import tiktoken

    def of_file(path: Path) -> Tokens:
        inner = tokenizers.Tokenizer.from_file(str(path))

        def tokens(text: str) -> list[str]:
            spans = inner.encode(text, add_special_tokens=False).offsets
            return [text[first:last] for first, last in spans]

        return tokens

    cl100k = tiktoken.get_encoding("cl100k_base")
    return {
        "embedded": of_file(ROOT / "backends/appl_backends/embedded/weights/tokenizer.json"),
        "claude": of_file(folder / "anthropic_tokenizer.json"),
        "cl100k": lambda text: [cl100k.decode([each]) for each in cl100k.encode(text)],
    }


def counted(tokens: Tokens, schema: Mapping[str, Any], answers: list[Any]) -> tuple[int, int]:
    """The tokens of *answers*, with those that end them, and those of their heads."""
    begin, _ = head(schema, schema)
    size = first = 0
    for answer in answers:
        text = json.dumps(answer, ensure_ascii=False)
        assert text.startswith(begin), (text, begin)
        parts, at = tokens(text), 0
        assert "".join(parts) == text
        for part in parts:
            first += at < len(begin)
            at += len(part)
        size += len(parts) + 1
    return size, first


def main() -> None:
    each = readers()
    rows: list[tuple[str, Mapping[str, Any], list[Any]]] = []
    for name, (kind, answers) in EXTRACTION.items():
        answers = answers or orders()
        for answer in answers:
            TypeAdapter(kind).validate_python(answer)
        rows.append((name, kind.model_json_schema(), answers))
    print(f"{'':20} " + " ".join(f"{name:>24}" for name in each))
    print(f"{'schema':20} " + " ".join(f"{'head of tokens, gain':>24}" for _ in each))
    gains: dict[str, list[float]] = {name: [] for name in each}

    def row(name: str, schema: Mapping[str, Any], answers: list[Any]) -> list[float]:
        found, line = [], f"{name:20} "
        for tokens in each.values():
            size, first = counted(tokens, schema, answers)
            found.append(size / (size - first))
            share = f"{first / len(answers):.1f} of {size / len(answers):.1f}, {found[-1]:.2f} x"
            line += f"{share:>24} "
        print(line.rstrip())
        return found

    for one in rows:
        for name, gain in zip(each, row(*one), strict=True):
            gains[name].append(gain)
    for word, of in (("median", statistics.median), ("largest", max)):
        print(f"{word:20} " + " ".join(f"{of(found):22.2f} x" for found in gains.values()))
    print("\none field (what choices, numbers and plain texts do without JSON), not extraction:")
    for name, (schema, answers) in ONE_FIELD.items():
        row(name, schema, answers)


if __name__ == "__main__":
    main()

"""Random requests with drafts of every kind, and what two backends answer to them.

The oracle is the backend that computes nothing in advance: one token a pass, each of them chosen.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import random
from collections.abc import Sequence
from typing import Any

from appl.backend import Chunk, Draft, Request, Response, Sample, Sampling
from appl.prompt import AIMessage, Message, Messages, UserMessage
from appl_backends.embedded import Embedded

QUESTIONS = [
    "Mia has {a} apples and buys {b} bags with 4 apples each. How many apples does Mia have now?",
    "Tom had {a} coins. He lost {b}, then found 7. How many are there? Think step by step.",
    "Ana reads {a} pages on Monday and {b} on Tuesday. How many pages? Show your steps.",
    "Olaf Brand is {a} years old and lives in Lund. Give name, age and city as JSON.",
    "Write an outline with {b} points about autumn.",
    "Is {a} larger than {b}? Answer yes or no, and say why.",
    "Où est le café {a}? Grüße 🙂 {b}",
]
SCHEMAS: list[dict[str, Any]] = [
    {"customer_full_name": {"type": "string", "maxLength": 12}, "age_in_years": {"type": "integer"}},
    {"answer": {"enum": ["yes", "no", "perhaps not"]}, "reason_for_answer": {"type": "boolean"}},
    {"items": {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3}},
    {"a": {"type": "string", "maxLength": 20}},
]  # fmt: skip
REGEXES = [r"\d{1,3} \* \d{1,3} = \d{1,4}", "(yes|no), because [a-z ]{3,12}\\.", "[a-z]{2,30}"]
GRAMMAR = 'root ::= "the answer is " [0-9]+ (" or " [0-9]+)? "."'
TOOLS = [
    {"name": "add_two_numbers", "description": "", "parameters": {"type": "object", "properties":
     {"first_number": {"type": "integer"}, "second_number": {"type": "integer"}},
     "required": ["first_number", "second_number"]}},
    {"name": "look_up", "description": "", "parameters": {"type": "object", "properties":
     {"query": {"type": "string", "maxLength": 10}}, "required": ["query"]}},
]  # fmt: skip


def strict(properties: dict[str, Any]) -> str:
    """The schema of an object with these *properties*, all required."""
    whole = {"type": "object", "properties": properties, "required": [*properties]}
    return json.dumps({**whole, "additionalProperties": False})


def a_request(rng: random.Random, most: int = 40) -> Request:
    """A request with random options."""
    said: list[Message] = [UserMessage(_question(rng))]
    options: dict[str, Any] = {"max_tokens": rng.randint(1, most), "seed": rng.randrange(1000)}
    options["temperature"] = rng.choice([0.0, 0.0, 0.0, 0.3, 0.8])
    form = rng.randrange(12)
    if form < 3:
        options["schema"] = strict(rng.choice(SCHEMAS))
    elif form == 3:
        options["regex"] = rng.choice(REGEXES)
    elif form == 4:
        options["grammar"] = GRAMMAR
    elif form == 5:
        options |= {"tools": tuple(json.dumps(tool) for tool in TOOLS)}
        options["tool_choice"] = rng.choice(["required", "auto", "look_up"])
    elif form == 6:
        options["choices"] = ("yes", "no", "perhaps")
    elif form == 7:
        said.append(AIMessage(rng.choice(["The answer is ", "Well,", "1 + ", "{"])))
    if rng.random() < 0.3:
        options["stop"] = tuple(rng.sample(["\n", "=", " 1", "e", "an", "swer"], 2))
    if rng.random() < 0.2 and form != 6:
        options["logprobs"] = rng.randrange(3)
    if rng.random() < 0.1 and form != 6:
        options["stop_tokens"] = tuple(rng.sample(range(8, 400), 30))
    n = rng.choice([1, 1, 1, 2, 3])
    line = rng.choice(["ask", f"ask{rng.randrange(10**6)}"])  # with what was learnt, and without
    address = f"/main.0/{line}.{rng.randrange(9)}/gen.{rng.randrange(3)}"
    return Request(address, 0, "", Messages.of(said), Sampling(**options), n, rng.randrange(3))


def _question(rng: random.Random) -> str:
    return rng.choice(QUESTIONS).format(a=rng.randint(2, 99), b=rng.randint(2, 9))


def a_draft(rng: random.Random, own: Response, others: Sequence[Response]) -> Draft | None:
    """A draft for the request that *own* answers: right, nearly right, damaged, or another's."""
    kind = rng.randrange(10)
    if kind == 0:
        return None
    if kind == 1:
        return Draft(rng.choice(others).samples, rng.random() < 0.5)
    if kind < 5:
        return Draft(own.samples, rng.random() < 0.8)
    return Draft(tuple(_changed(rng, each) for each in own.samples), rng.random() < 0.8)


def _changed(rng: random.Random, sample: Sample) -> Sample:
    text, kind = sample.text, rng.randrange(7)
    at, to = sorted(rng.randint(0, len(text)) for _ in range(2))
    changed = [
        text[:at],
        text + rng.choice(["", " and so on", text, "\n\n", "<|end|>", "}" * 5]),
        text[:at] + text[to:],
        text[:at] + rng.choice(["17", " the", "é", "\ud800", "\0", "<|call|>"]) + text[to:],
        text[:at] + "".join(chr(rng.randrange(1, 0x3000)) for _ in range(20)) + text[at:],
        text[:to] + text[at:],
        rng.choice(["", " ", "a" * 100_000, text * 50]),
    ][kind]
    return dataclasses.replace(
        sample, text=changed, tool_calls=sample.tool_calls[: rng.randrange(2)]
    )


async def answers(
    backend: Embedded, requests: Sequence[Request], streamed: bool
) -> list[tuple[Response, list[Chunk]]]:
    """What *backend* answers to *requests*, which come at once, and the pieces of each."""
    pieces: list[list[Chunk]] = [[] for _ in requests]
    emits = [each.append if streamed else None for each in pieces]
    pairs = zip(requests, emits, strict=True)
    found = await asyncio.gather(*(backend.complete(one, emit) for one, emit in pairs))
    return list(zip(found, pieces, strict=True))


def essence(answer: tuple[Response, list[Chunk]]) -> Any:
    """What must be the same in both answers: all but the last digits of log-probabilities."""
    response, pieces = answer
    likely = [[entry.token for entry in each.logprobs or ()] for each in response.samples]
    samples = [dataclasses.replace(each, logprobs=None) for each in response.samples]
    by_sample = [
        [p.text for p in pieces if p.sample == n] for n in sorted({p.sample for p in pieces})
    ]
    usage = response.usage.prompt_tokens, response.usage.completion_tokens
    return samples, likely, by_sample, usage, response.choice_method


def likelihoods(answer: tuple[Response, list[Chunk]]) -> list[float]:
    """Every log-probability of an answer."""
    response, _ = answer
    scores = list(response.scores or ())
    return scores + [entry.logprob for each in response.samples for entry in each.logprobs or ()]

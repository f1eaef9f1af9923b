"""Requests as the bytes that the native interface takes.

Invariant: what two requests have in common is written once: sampling parameters by their canonical
text, token ids by their place in the prompt chain.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from appl.backend import Request, Sampling, canonical
from appl.errors import InvalidOption, Unsupported
from appl.prompt import Messages
from appl_backends.sglang.tokens import clean
from appl_backends.sglang.tools import Offer

SAMPLED: Mapping[str, str] = {
    "frequency_penalty": "frequency_penalty",
    "ignore_eos": "ignore_eos",
    "logit_bias": "logit_bias",
    "min_p": "min_p",
    "min_tokens": "min_new_tokens",
    "presence_penalty": "presence_penalty",
    "repetition_penalty": "repetition_penalty",
    "stop_regex": "stop_regex",
    "structural_tag": "structural_tag",
    "top_k": "top_k",
}
"""Options of ``gen`` that are sampling parameters of the server, by their names there."""

ROUTED: Mapping[str, str] = {"lora": "lora_path", "routing_key": "routing_key"}
"""Options of ``gen`` that say under which name, and where, a request is served."""

APART = ("cache_salt", "extra_key")
"""Options of ``gen`` that keep requests apart in the cache. The server has one field for both; the
versions that have two on their native interface heed this one as well."""

OPTIONS = frozenset({*SAMPLED, *ROUTED, *APART})

_MOST = 1024


class Parameters:
    """The sampling parameters of requests as JSON.

    *defaults* are those of the model, *max_tokens* bounds what a request does not bound itself;
    seeds are sent to *seeded* servers.
    """

    def __init__(
        self, defaults: Mapping[str, Any], *, max_tokens: int | None = None, seeded: bool = False
    ) -> None:
        self._defaults = {"max_new_tokens": max_tokens, **defaults}
        self._seeded = seeded
        self._known: dict[str, tuple[bytes, bytes]] = {}

    def of(self, sampling: Sampling, offer: Offer | None = None) -> tuple[bytes, bytes]:
        """The members of ``sampling_params`` without brackets, and further members of the body.

        *offer* is what *sampling* offers under the template of the model.
        """
        key = sampling.canonical()
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MOST:
                self._known.clear()
            found = self._known[key] = self._made(sampling, offer)
        return found

    def chosen(self, sampling: Sampling) -> dict[str, Any]:
        """The parameters by which the tokens of answers to *sampling* are chosen and bounded."""
        given = dict(self._defaults)
        pairs = (("max_tokens", "max_new_tokens"), ("temperature",) * 2, ("top_p",) * 2)
        for here, there in pairs:
            if (value := getattr(sampling, here)) is not None:
                given[there] = value
        for name, value in sampling.extra:
            if name in SAMPLED:
                given[SAMPLED[name]] = _as_text(name, value)
        return given

    def _made(self, sampling: Sampling, offer: Offer | None) -> tuple[bytes, bytes]:
        given = self.chosen(sampling)
        if sampling.stop:
            given["stop"] = list(sampling.stop)
        if sampling.stop_tokens:
            given["stop_token_ids"] = list(sampling.stop_tokens)
        given |= _form(sampling)
        if offer is not None:
            given |= _demand(offer)
        if sampling.seed is not None and self._seeded:
            given["sampling_seed"] = sampling.seed
        around = routed(sampling)
        if sampling.logprobs is not None:
            around |= {"return_logprob": True, "return_text_in_logprobs": True}
            around["top_logprobs_num"] = sampling.logprobs
        if sampling.prompt_logprobs is not None:
            around |= {"return_logprob": True, "return_text_in_logprobs": True}
            around["logprob_start_len"] = 0
            most = max(sampling.prompt_logprobs, sampling.logprobs or 0)
            around["top_logprobs_num"] = most  # there is one number for prompt and answer
        return _members(given), _members(around)


def adapter_of(sampling: Sampling) -> str | None:
    """The name of the adapter that *sampling* asks for. Raises ``Unsupported``."""
    name = dict(sampling.extra).get("lora")
    if name is None or (isinstance(name, str) and name):
        return name
    raise Unsupported(f"gen(lora=...) takes the name of an adapter, got {name!r:.80}")


def routed(sampling: Sampling) -> dict[str, Any]:
    """The members of a body that say where and under which name it is served."""
    given = dict(sampling.extra)
    adapter_of(sampling)
    found = {there: given[here] for here, there in ROUTED.items() if here in given}
    apart = [str(given[name]) for name in APART if name in given]
    return {**found, "extra_key": "".join(apart)} if apart else found


def _form(sampling: Sampling) -> dict[str, Any]:
    """The constraint on the text; the server takes one."""
    pairs = (("regex", "regex"), ("grammar", "ebnf"), ("schema", "json_schema"))
    given = {there: getattr(sampling, here) for here, there in pairs}
    found = {name: value for name, value in given.items() if value is not None}
    if len(found) + any(name == "structural_tag" for name, _ in sampling.extra) > 1:
        raise Unsupported(
            "an answer has one form: regex, grammar, response_format or structural_tag"
        )
    return found


def _demand(offer: Offer) -> dict[str, Any]:
    """The parameters that make an answer a call, or show the token that begins one."""
    schema = offer.schema()
    if schema is not None:
        return {"json_schema": schema}
    return {} if offer.must else {"skip_special_tokens": False}


def _as_text(name: str, value: Any) -> Any:
    if name != "structural_tag" or isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return canonical(value)
    raise InvalidOption(f"gen(structural_tag=...) takes a dict or JSON text, got {value!r:.80}")


def _members(given: Mapping[str, Any]) -> bytes:
    return json.dumps(given, separators=(",", ":")).encode("ascii")[1:-1]


def ask(
    request: Request,
    prompt: Iterable[bytes],
    parameters: tuple[bytes, bytes],
    rid: str,
    more: bytes = b"",
) -> list[bytes]:
    """The pieces of the body that asks *request* under the name *rid*.

    *prompt* are those of the member that holds the prompt, *parameters* are those of
    ``Parameters.of``, *more* are further members, each with a comma before it.
    """
    inner, around = parameters
    several = b',"n":%d' % request.n if request.n > 1 else b""
    rest = b',"sampling_params":{%b%b},"rid":"%b"%b%b}'
    last = b"," + around if around else b""
    return [b"{", *prompt, rest % (inner, several, rid.encode("ascii"), more, last)]


def ask_each(
    request: Request,
    ids: bytes,
    parameters: tuple[bytes, bytes],
    rid: str,
    seed: int | None,
    more: bytes = b"",
) -> bytes:
    """The body that asks for every sample of *request* as an answer to a prompt of its own.

    Each has a seed of its own, from *seed* on, if there is one.
    """
    inner, around = parameters
    prompts = b",".join([b"[" + ids + b"]"] * request.n)
    if seed is None:
        given = b",".join([b"{" + inner + b"}"] * request.n)
    else:
        seeds = range(seed, seed + request.n)
        given = b",".join(b'{%b,"sampling_seed":%d}' % (inner, each) for each in seeds)
    return b"".join(
        [
            b'{"input_ids":[',
            prompts,
            b'],"sampling_params":[',
            given,
            b'],"rid":"',
            rid.encode("ascii"),
            b'"',
            more,
            b"," + around if around else b"",
            b"}",
        ]
    )


def of_images(text: str, messages: Messages) -> list[bytes]:
    """The members that hold a prompt with images: the server encodes the *text* around them."""
    images = [medium.as_url() for message in messages for _, medium in message.media]
    return [canonical({"text": clean(text), "image_data": images}).encode("ascii")[1:-1]]


def ask_scores(
    whole: Sequence[Sequence[int]], start: int, sampling: Sampling, rid: str, answer: int = 0
) -> bytes:
    """The body that asks for the log-probabilities of several texts from token *start* on.

    *answer* is the number of tokens to generate, which some servers want to be at least one.
    """
    return canonical(
        {
            **routed(sampling),
            "input_ids": [list(ids) for ids in whole],
            "rid": rid,
            "sampling_params": {"max_new_tokens": answer, "temperature": 0},
            "return_logprob": True,
            "logprob_start_len": max(0, start - 1),
        }
    ).encode("ascii")


def ask_nothing(ids: Sequence[int], sampling: Sampling, rid: str, answer: int = 0) -> bytes:
    """The body that has *ids* computed and kept, and *answer* tokens generated."""
    return canonical(
        {
            **routed(sampling),
            "input_ids": list(ids),
            "rid": rid,
            "sampling_params": {"max_new_tokens": answer, "temperature": 0},
        }
    ).encode("ascii")


def ask_to_stop(rid: str) -> bytes:
    """The body that aborts the request *rid*."""
    return b'{"rid":"%b"}' % rid.encode("ascii")

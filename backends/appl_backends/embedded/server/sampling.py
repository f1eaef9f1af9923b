"""The sampling parameters of a native request: SGLang's ``sampling_params``.

Invariant: what is accepted is done; a value that the engine would have to ignore is refused.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

from appl.errors import Unsupported
from appl.parts.web.refusals import Refusal
from appl_backends.ebnf import lark_of
from appl_backends.embedded.constraint import AnswerForm
from appl_backends.embedded.sampler import Draw, fresh_seed
from appl_backends.embedded.server.fields import Fields

DEFAULT_TOKENS = 128
MOST_SAMPLES = 128
MOST_STOPS = 32
MOST_PRIORITY = 1 << 31
SEEDS = 2**63 - 1
HOTTEST = 1000.0
_KNOWN = frozenset(
    {
        "max_new_tokens",
        "min_new_tokens",
        "stop",
        "stop_token_ids",
        "stop_regex",
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "frequency_penalty",
        "presence_penalty",
        "repetition_penalty",
        "n",
        "beam_width",
        "json_schema",
        "regex",
        "ebnf",
        "structural_tag",
        "ignore_eos",
        "skip_special_tokens",
        "spaces_between_special_tokens",
        "no_stop_trim",
        "stream_interval",
        "logit_bias",
        "sampling_seed",
        "custom_params",
    }
)
_NEUTRAL: dict[str, tuple[object, ...]] = {
    "top_k": (-1,),
    "min_p": (0,),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "repetition_penalty": (1,),
    "beam_width": (1,),
    "stop_regex": ([], ""),
    "structural_tag": ("",),
    "no_stop_trim": (False,),
    "logit_bias": ({},),
    "custom_params": ({},),
}


@dataclass(frozen=True, slots=True)
class Params:
    """One request's sampling; ``max_tokens`` is ``None`` for as many as fit."""

    max_tokens: int | None
    min_tokens: int
    stop: tuple[str, ...]
    stop_tokens: frozenset[int]
    temperature: float
    top_p: float
    n: int
    seed: int | None
    wanted: AnswerForm
    ignore_end: bool
    interval: int
    special: bool

    def draws(self) -> list[Draw]:
        """One for each sample; the seed is a fresh one where none was given."""
        seed = fresh_seed(os.urandom(8)) if self.seed is None else self.seed
        return [Draw(self.temperature, self.top_p, seed, sample) for sample in range(self.n)]


def params(given: Fields, vocab: int) -> Params:
    """The sampling that *given* asks for. Raises ``Refusal``."""
    unknown = sorted(set(given.names()) - _KNOWN)
    if unknown:
        raise Refusal(f"Unknown sampling parameter {unknown[0][:80]!r}.")
    for name, neutral in _NEUTRAL.items():
        given.only(name, *neutral)
    endless = given.has("max_new_tokens") and "max_new_tokens" not in given  # it is null
    return Params(
        max_tokens=None if endless else _most(given),
        min_tokens=_least(given),
        stop=given.texts("stop", MOST_STOPS),
        stop_tokens=frozenset(given.tokens("stop_token_ids", vocab)),
        temperature=given.number("temperature", 1.0, 0.0, HOTTEST),
        top_p=_top_p(given),
        n=given.whole("n", 1, 1, MOST_SAMPLES),
        seed=seed(given, "sampling_seed"),
        wanted=wanted(given),
        ignore_end=given.flag("ignore_eos"),
        special=not given.flag("skip_special_tokens", True),
        interval=given.whole("stream_interval", 1, 1, 1 << 30),
    )


def seed(given: Fields, name: str) -> int | None:
    """The seed in the field *name*, if there is one: 64 bits with a sign."""
    return given.whole(name, 0, -SEEDS - 1, SEEDS) if name in given else None


def wanted(given: Fields) -> AnswerForm:
    """The form of the answer that the fields ``regex``, ``ebnf`` and ``json_schema`` ask for."""
    texts = {name: given.text(name) or None for name in ("regex", "ebnf", "json_schema")}
    if sum(text is not None for text in texts.values()) > 1:
        raise Refusal("Only one of json_schema, regex, ebnf, or structural_tag can be set.")
    if texts["json_schema"] is not None:
        check_schema(texts["json_schema"])
    return AnswerForm(
        texts["regex"], texts["ebnf"] and grammar(texts["ebnf"]), texts["json_schema"]
    )


def grammar(text: str) -> str:
    """*text*, a grammar in EBNF. Raises ``Refusal`` when it cannot be read."""
    try:
        lark_of(text)
    except Unsupported as error:
        raise Refusal(f"the grammar cannot be read: {error}") from None
    return text


def check_schema(text: str) -> None:
    """Raise ``Refusal`` unless *text* is a JSON object."""
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError):
        schema = None
    if not isinstance(schema, dict):
        raise Refusal(f"json_schema must be a JSON object as text, got {text[:80]!r}")


def _most(given: Fields) -> int:
    return given.whole("max_new_tokens", DEFAULT_TOKENS, 0, 1 << 30)


def _least(given: Fields) -> int:
    least = given.whole("min_new_tokens", 0, 0, 1 << 30)
    most = _most(given)
    if least > most and "max_new_tokens" in given:
        raise Refusal(f"min_new_tokens must be in [0, max_new_tokens({most})], got {least}.")
    if least and wanted(given) != AnswerForm():
        raise Refusal("min_new_tokens cannot be combined with a constraint")
    return least


def _top_p(given: Fields) -> float:
    top_p = given.number("top_p", 1.0, 0.0, 1.0)
    if top_p == 0.0:
        raise given.wrong("top_p", "in (0, 1]")
    return top_p

"""Common parts of OpenAI's two routes: ids, usage, log-probabilities, unsupported fields."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from typing import Any

from appl.parts.web.refusals import Refusal
from appl_backends.embedded import MODEL
from appl_backends.embedded.probe import TokenEntry
from appl_backends.embedded.server.fields import Fields
from appl_backends.embedded.server.special_tokens import Words
from appl_backends.embedded.task import EngineTask, SequenceRun

_NAMES = ("", MODEL, "default")
_NEUTRAL: dict[str, tuple[object, ...]] = {
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "logit_bias": ({},),
    "top_k": (-1,),
    "min_p": (0,),
    "repetition_penalty": (1,),
    "best_of": (1,),
    "suffix": ("",),
    "echo": (False,),
    "stop_regex": ([], ""),
    "lora_path": ("",),
}


def check(given: Fields) -> None:
    """Refuse another model, and fields that would change the answer in ways unknown here."""
    model = given.text("model", "") or ""
    if model not in _NAMES:
        raise Refusal(
            f"The model `{model[:80]}` does not exist; this server has {MODEL!r}",
            404,
            param="model",
            code="model_not_found",
        )
    for name, neutral in _NEUTRAL.items():
        given.only(name, *neutral)


def wants_usage(given: Fields) -> bool:
    """True if a stream ends with the usage."""
    options = given.object("stream_options")
    return options is not None and options.flag("include_usage")


def head(kind: str, prefix: str) -> dict[str, Any]:
    """The fields before the choices."""
    return {
        "id": f"{prefix}-{uuid.uuid4().hex}",
        "object": kind,
        "created": int(time.time()),
        "model": MODEL,
    }


def usage(tasks: Sequence[EngineTask]) -> dict[str, Any]:
    """The tokens of *tasks* together."""
    prompt = sum(len(task.prompt) for task in tasks)
    completion = sum(run.generated for task in tasks for run in task.live)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": sum(task.cached or 0 for task in tasks)},
        "reasoning_tokens": 0,
    }


def told(tasks: Sequence[EngineTask]) -> dict[str, Any]:
    """The fields after the choices of a whole answer."""
    return {"usage": usage(tasks), "metadata": {"weight_version": "default"}}


def matched(run: SequenceRun, words: Words) -> int | str | None:
    """The stop string or the token that ended the answer."""
    return run.matched(words.end) if run.finish == "stop" else None


def said(run: SequenceRun, entries: Sequence[TokenEntry], words: Words) -> Sequence[TokenEntry]:
    """*entries* without that of a token that ended the answer."""
    return [entry for entry in entries if not run.ends_with(entry.token, words.end)]


def content(entries: Sequence[TokenEntry], words: Words) -> list[dict[str, Any]]:
    """Entries as chat completions show them."""
    return [
        {
            **_one(entry.token, entry.logprob, words),
            "top_logprobs": [_one(token, logprob, words) for logprob, token in entry.top],
        }
        for entry in entries
    ]


def _one(token: int, logprob: float, words: Words) -> dict[str, Any]:
    data = words.data(token)
    return {"token": data.decode("utf-8", "replace"), "logprob": logprob, "bytes": list(data)}

"""Reads a native request: the prompts of its body, and the options of each.

Invariant: a field may hold for all prompts of a batch or give each its own; either way every prompt
gets one value of the right type.
"""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass
from typing import Any

from appl.parts.web.refusals import Refusal
from appl_backends.embedded import Embedded
from appl_backends.embedded.constraint import AnswerForm
from appl_backends.embedded.probe import TokenProbe
from appl_backends.embedded.server.fields import Fields, are_tokens
from appl_backends.embedded.server.jobs import EngineJob
from appl_backends.embedded.server.sampling import MOST_PRIORITY, Params, params
from appl_backends.embedded.server.special_tokens import Words
from appl_backends.embedded.task import EngineTask

_UNSUPPORTED = (
    "input_embeds",
    "image_data",
    "video_data",
    "audio_data",
    "session_params",
    "lora_path",
    "custom_logit_processor",
)
_OWN: dict[str, Any] = {
    "sampling_params": {},
    "return_logprob": False,
    "logprob_start_len": -1,
    "top_logprobs_num": 0,
    "token_ids_logprob": [],
    "extra_key": "",
    "cache_salt": "",
}
_LONG = 4096  # characters that are encoded off the loop
_MOST_TOP = 1024


@dataclass(frozen=True, slots=True)
class PromptRequest:
    """One prompt of a request; ``texts`` adds texts to entries, ``echo`` the prompt's ids."""

    rid: str
    prompt: list[int]
    params: Params
    probe: TokenProbe | None
    space: str
    priority: int
    texts: bool
    echo: bool


@dataclass(frozen=True, slots=True)
class Batch:
    """The prompts of one request; ``listed``: its answer is a list. ``group`` names them all."""

    asked: list[PromptRequest]
    listed: bool
    group: str | None


class RequestReader:
    """Reads requests of at most *most* prompts for *backend*, whose texts *words* knows."""

    def __init__(self, backend: Embedded, words: Words, most: int) -> None:
        self._backend, self._words, self._most_prompts = backend, words, most

    async def read(self, given: Fields) -> Batch:
        """Every prompt of the request. Raises ``Refusal``."""
        for name in _UNSUPPORTED:
            given.only(name, "", [])
        prompts, single = await self._prompts(given)
        rids = _rids(given, len(prompts), single)
        own = {name: _each(given, name, len(prompts)) for name in _OWN}
        asked = [
            self._asked(given, Fields({name: own[name][at] for name in own}), rids[at], prompt)
            for at, prompt in enumerate(prompts)
        ]
        if len({one.params.n for one in asked}) > 1:
            raise Refusal("n must be the same for all prompts of a batch")
        group = None if single else given.raw("rid")
        listed = not single or asked[0].params.n > 1
        return Batch(asked, listed, group if isinstance(group, str) else None)

    async def jobs(self, batch: Batch, *, stream: bool) -> list[EngineJob]:
        """The engine's tasks for *batch*. Raises ``Refusal``, or the engine's own error."""
        return [
            EngineJob(one.rid, await self._task(one, stream), batch.group) for one in batch.asked
        ]

    def _asked(self, given: Fields, own: Fields, rid: str, prompt: list[int]) -> PromptRequest:
        sampling = own.object("sampling_params") or Fields({})
        keys = [own.text(name, "") or "" for name in ("extra_key", "cache_salt")]
        return PromptRequest(
            rid,
            prompt,
            params(sampling, self._words.vocab),
            self._probe(own, len(prompt)),
            "\0".join(keys) if any(keys) else "",
            given.whole("priority", 0, -MOST_PRIORITY, MOST_PRIORITY),
            given.flag("return_text_in_logprobs"),
            given.flag("return_prompt_token_ids"),
        )

    async def _prompts(self, given: Fields) -> tuple[list[list[int]], bool]:
        """The ids of each prompt, and whether there is one only."""
        for name in ("text", "input_ids"):
            self._check_number(given, name)
        if "text" in given:
            found, single = await self._of_texts(given), isinstance(given.raw("text"), str)
        elif "input_ids" in given:
            found, single = self._of_ids(given)
        else:
            raise Refusal("Either text, input_ids or input_embeds should be provided.")
        if not found or not all(found):
            raise Refusal("input_ids cannot be empty.")
        return found, single

    def _check_number(self, given: Fields, name: str) -> None:
        prompts = given.raw(name)
        several = isinstance(prompts, list) and not (prompts and isinstance(prompts[0], int))
        if several and len(prompts) > self._most_prompts:
            raise Refusal(f"{name} has {len(prompts)} prompts, more than {self._most_prompts}")

    async def _of_texts(self, given: Fields) -> list[list[int]]:
        text = given.raw("text")
        texts = [text] if isinstance(text, str) else text
        if not isinstance(texts, list) or not all(isinstance(one, str) for one in texts):
            raise given.wrong("text", "a string or a list of strings")
        return [await self._encoded(one) for one in texts]

    async def _encoded(self, text: str) -> list[int]:
        longest = self._backend.tokenizer.longest
        if len(text) > self._backend.engine.context * longest:
            raise self._too_long(len(text) // longest)
        if len(text) > _LONG:
            return await asyncio.to_thread(self._words.encode, text)
        return self._words.encode(text)

    def _of_ids(self, given: Fields) -> tuple[list[list[int]], bool]:
        ids, size = given.raw("input_ids"), self._words.vocab
        single = not (isinstance(ids, list) and ids and isinstance(ids[0], list))
        found = [ids] if single else ids
        if not all(are_tokens(one, size) for one in found):
            raise given.wrong("input_ids", f"a list of token ids below {size}, or such lists")
        return found, single

    def _probe(self, own: Fields, length: int) -> TokenProbe | None:
        start = own.whole("logprob_start_len", -1, -1, 1 << 30)
        top = own.whole("top_logprobs_num", 0, 0, _MOST_TOP)
        tokens = own.tokens("token_ids_logprob", self._words.vocab)
        if not own.flag("return_logprob"):
            return None
        if start > length:
            raise Refusal(f"logprob_start_len ({start}) is higher than the {length} input tokens")
        return TokenProbe(length if start < 0 else start, top, tokens)

    async def _task(self, asked: PromptRequest, stream: bool) -> EngineTask:
        wanted, constraint = asked.params, None
        most = self._most(wanted, len(asked.prompt))
        if wanted.wanted != AnswerForm():
            constraint = await asyncio.to_thread(self._backend.constraints.compile, wanted.wanted)
        return EngineTask(
            asked.prompt,
            wanted.draws(),
            most,
            stop=wanted.stop,
            constraint=constraint,
            stream=stream,
            priority=asked.priority,
            stop_tokens=wanted.stop_tokens,
            probe=asked.probe,
            each=stream,
            ignore_end=wanted.ignore_end,
            min_tokens=wanted.min_tokens,
            special=wanted.special,
            space=asked.space,
        )

    def _most(self, wanted: Params, size: int) -> int:
        """The number of tokens that may be generated after *size* of the prompt."""
        room = self._backend.engine.context
        if size >= room:
            raise self._too_long(size)
        most = room - size if wanted.max_tokens is None else wanted.max_tokens
        if size + most > room:
            raise Refusal(
                "Requested token count exceeds the model's maximum context length of "
                f"{room} tokens: {size} of the prompt and {most} new ones are {size + most}."
            )
        return most

    def _too_long(self, size: int) -> Refusal:
        room = self._backend.engine.context
        return Refusal(
            f"The input ({size} tokens) is longer than the model's context length ({room} tokens)."
        )


def _rids(given: Fields, size: int, single: bool) -> list[str]:
    rid = given.raw("rid")
    if rid is None:
        return [uuid.uuid4().hex for _ in range(size)]
    if isinstance(rid, str):
        return [rid] if single else [f"{rid}_{at}" for at in range(size)]
    fits = isinstance(rid, list) and len(rid) == size and not single
    if fits and all(isinstance(item, str) for item in rid):
        return list(rid)
    raise given.wrong("rid", "a string, or a string for each prompt")


def _each(given: Fields, name: str, size: int) -> list[Any]:
    """The field for each prompt: a list gives each its own, anything else holds for all."""
    value, default = given.raw(name), _OWN[name]
    value = default if value is None else value
    listed = isinstance(value, list)
    if listed and isinstance(default, list):  # a list by itself: each its own is a list of lists
        listed = bool(value) and isinstance(value[0], list)
    if not listed:
        return [value] * size
    if len(value) != size:
        raise given.wrong(name, f"one value, or a list of {size}")
    return [default if item is None else item for item in value]

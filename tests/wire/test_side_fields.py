"""An answer is its text: no other field of it, however wrong, loses the text or has it asked again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from appl_backends.embedded import WEIGHTS
from tests.faults.storm import CLIENTS
from tests.providers.asking import closing, request
from tests.servers.matrix import NATIVES, Case, Protocol, RawServer, http
from tests.servers.mutations import Path, paths, put, without, written
from tests.servers.right import LOGPROBS, NATIVE, USAGE, sse

WRONG: tuple[Any, ...] = (
    None, -1, 3.0, 0.5, "3", "", "x", [], {}, True, [{"x": 5}], {"x": 5}, 2**70, float("inf"),
)  # fmt: skip
MESSAGE = {"role": "assistant", "content": "ok", "refusal": None, "reasoning_content": "so",
           "annotations": [], "extra": {"a": 1}}  # fmt: skip
CHAT = {"id": "c1", "object": "chat.completion", "created": 5, "model": "m", "usage": USAGE,
        "system_fingerprint": "f", "service_tier": "default",
        "choices": [{"index": 0, "finish_reason": "stop", "logprobs": LOGPROBS, "message": MESSAGE}],
        }  # fmt: skip
EVENTS: tuple[Any, ...] = (
    {"id": "c1", "object": "chat.completion.chunk", "created": 5, "model": "m",
     "choices": [{"index": 0, "delta": MESSAGE, "logprobs": LOGPROBS, "finish_reason": None}]},
    {"id": "c1", "object": "chat.completion.chunk", "created": 5, "model": "m",
     "choices": [{"index": 0, "delta": {"content": "!"}, "finish_reason": "stop"}]},
    {"id": "c1", "object": "chat.completion.chunk", "created": 5, "model": "m", "choices": [],
     "usage": USAGE},
)  # fmt: skip

OF_TEXT = ("choices", 0, "message", "delta", "content", "text", "refusal", "error", "meta_info")


def side_paths(value: Any) -> Iterator[Path]:
    """The ways to all that is not the text itself, nor holds it."""
    for path in paths(value):
        if path and not all(step in OF_TEXT for step in path):
            yield path


def whole(answer: Any) -> Iterator[tuple[Path, Any, bytes]]:
    """*answer* with each side field wrong in each way, or missing."""
    for path in side_paths(answer):
        for wrong in WRONG:
            yield path, wrong, written(put(answer, path, wrong))
        yield path, "nothing", written(without(answer, path))


def streams(events: tuple[Any, ...]) -> Iterator[tuple[Path, Any, bytes]]:
    """The same for each of *events*."""
    right = [written(event) for event in events]
    for number, event in enumerate(events):
        for path, wrong, changed in whole(event):
            yield (number, *path), wrong, sse([*right[:number], changed, *right[number + 1 :]])


CHATTING = {
    False: (Protocol("chat", False, CHAT), list(whole(CHAT)), "ok"),
    True: (Protocol("chat stream", True, None), list(streams(EVENTS)), "ok!"),
}
GENERATING = {
    False: (Protocol("native", False, NATIVE), list(whole(NATIVE)), "ok"),
    True: (Protocol("native stream", True, None), list(streams(NATIVES)), "ok"),
}
ASKED = {"openai": CHATTING, "litellm": CHATTING, "sglang": GENERATING}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("client", ["openai", "litellm", "sglang"])
async def test_a_side_field_that_makes_no_sense_refuses_no_text(client: str, stream: bool) -> None:
    protocol, cases, text = ASKED[client][stream]
    raw = [Case(str(c[0]), http(c[2], protocol.kind, keep=True), "whole") for c in cases]
    model = "openai/fault" if client == "litellm" else "fault"
    emit = (lambda chunk: None) if stream else None
    lost = []
    with RawServer(raw, model_path=str(WEIGHTS)) as server:
        async with closing(CLIENTS[client](server)) as backend:
            for path, wrong, _ in cases:
                try:
                    found = await backend.complete(request("q", model=model), emit)
                except Exception as error:
                    lost.append((path, wrong, repr(error)[:300]))
                else:
                    if found.text != text:
                        lost.append((path, wrong, found.text))
    assert server.answered.total() == len(cases)
    assert not lost, f"{len(lost)} of {len(cases)} lost: {lost[:9]}"

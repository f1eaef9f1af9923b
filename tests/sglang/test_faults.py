from __future__ import annotations

from pathlib import Path

import pytest

from appl.backend import Request, Sampling
from appl.errors import BackendError
from appl.prompt import Message, Messages
from appl.testing.faults import FAULTS
from appl_backends.sglang import SGLang
from tests.wire.servers import FaultServer

WEIGHTS = Path(__file__).parents[2] / "backends" / "appl_backends" / "embedded" / "weights"
ENDING = [fault for fault in FAULTS if fault.ends != "hang"]


@pytest.mark.parametrize("stream", [False, True])
async def test_every_fault_is_typed_and_none_passes_for_an_answer(stream: bool) -> None:
    question = Request("/x", 0, "", Messages.of([Message("user", "Hi")]), Sampling(max_tokens=9))
    emit = (lambda chunk: None) if stream else None
    with FaultServer(ENDING) as server:
        backend = SGLang(url=server.url, tokenizer=WEIGHTS, advise=lambda line: None)
        for fault in ENDING:
            with pytest.raises(BackendError) as caught:
                await backend.complete(question, emit)
            assert caught.value.retriable, fault.name
            busy = fault.status in (429, 529) or "retry-after" in map(str.lower, fault.headers)
            assert (type(caught.value).__name__ == "BackendBusy") is busy, fault.name
        assert (await backend.complete(question, emit)).text
        await backend.aclose()

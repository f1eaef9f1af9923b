"""Large wrong answers, one after the other: an error keeps nothing of what caused it."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from appl.errors import MalformedResponse
from tests.servers.asked import found_in
from tests.servers.matrix import PROTOCOLS, Case, http
from tests.servers.test_hostile_servers import peak_mb


@pytest.mark.parametrize("client", ["openai", "sglang", "litellm"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_many_large_wrong_answers_leave_the_memory_as_it_was(client: str, stream: bool) -> None:
    protocol = PROTOCOLS[client][stream]
    large = Case("large", http(b'data: {"x": "' + b"x" * (4 << 20), protocol.kind))
    found_in(client, [large] * 2, stream)
    Path("/proc/self/clear_refs").write_text("5")
    idle = peak_mb()
    found = found_in(client, [large] * 40, stream)
    assert found.kinds == {"MalformedResponse": 40} and not found.wrong
    assert peak_mb() - idle < 100


@pytest.mark.parametrize("client", ["openai", "sglang", "litellm"])
def test_nothing_holds_the_error_of_an_answer_when_its_run_is_over(client: str) -> None:
    before = errors()
    for stream, protocol in PROTOCOLS[client].items():
        wrong = Case("wrong", http(b"{", protocol.kind))
        assert found_in(client, [wrong] * 5, stream).kinds == {"MalformedResponse": 5}
    gc.collect()
    assert [error for error in errors() if not any(error is other for other in before)] == []


def errors() -> list[object]:
    """The errors of wrong answers that are alive; tables of other tests hold some."""
    return [held for held in gc.get_objects() if type(held) is MalformedResponse]

"""One program, three ways to the same engine: in this process, SGLang's interface, OpenAI's.

Recorded over HTTP, it replays when there is no server any more.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from appl import AIRole, gen, ppl, record
from appl.session import replayed
from appl.testing import serving

TOPICS = ("Cats", "Rain", "Old books")


@ppl
def talk(topic: str) -> list[Any]:
    f"Hello. Tell me about {topic}."
    with AIRole():
        (first := gen(temperature=0, max_tokens=24))
    "And what else?"
    several = [gen(temperature=0, max_tokens=5 + i) for i in range(3)]
    number = gen(temperature=0, regex="[0-9]{3}")
    return [str(first), [str(each) for each in several], str(number)]


def talks() -> list[Any]:
    return [talk(topic) for topic in TOPICS]


@pytest.fixture(scope="module")
def expected() -> list[Any]:
    with record(backend="embedded", trace=False):
        return talks()


def sglang(url: str) -> dict[str, Any]:
    return {"url": url}


def openai(url: str) -> dict[str, Any]:
    return {"base_url": f"{url}/v1", "model": "embedded", "server": "sglang"}


@pytest.mark.parametrize("way", [sglang, openai], ids=lambda way: way.__name__)
def test_a_program_says_the_same_whichever_way_it_takes(
    way: Any, expected: list[Any], tmp_path: Path
) -> None:
    trace, name = tmp_path / "one.trace", way.__name__
    with serving("--api-key", "none", "--incremental-streaming-output") as server:  # noqa: SIM117
        with record(trace, backend=name, backends={name: way(server.url)}):
            assert talks() == expected
    with replayed(trace):
        assert talks() == expected

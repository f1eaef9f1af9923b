"""Few calls at once go to the server that speculates, as long as its drafts are right."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from appl.backend import Draft, DraftRun, Request, Sample, Sampling
from appl.errors import ConfigError, InvalidOption
from appl.prompt import Message, Messages
from appl.testing.embedded_server import Served
from appl_backends.sglang import SGLang
from appl_backends.sglang.drafting import FIRST, MOST, DraftingServer, break_even
from appl_backends.sglang.wire import Wire

from .conftest import client
from .twins import Twin, twin

NGRAM = {"speculative_algorithm": "NGRAM"}
RUN = DraftRun("a1b2", ("One answer.", "Another one."))
CORPORA = {
    "/list_external_corpora": {"success": True, "corpus_token_counts": {}, "message": ""},
    "/add_external_corpus": {
        "success": True, "corpus_id": "x", "message": "", "loaded_token_count": 7,
    },
    "/remove_external_corpus": {"success": True, "message": ""},
}  # fmt: skip


def ask(text: str = "What is a fox?", draft: Draft | None = None, **sampling: Any) -> Request:
    given = {"temperature": 0.0, "max_tokens": 8, **sampling}
    return Request(
        "/a", 0, "", Messages.of([Message("user", text)]), Sampling(**given), draft=draft
    )


def drafted(own: bool = True, run: DraftRun | None = None) -> Request:
    return ask(draft=Draft((Sample("A fox is an animal.", "stop"),), own, run))


def server() -> DraftingServer:
    """The choice alone; nothing is asked of the two servers."""
    wires = [Wire(f"http://127.0.0.1:{port}", None, None, 1, 1.0) for port in (1, 2)]
    return DraftingServer(*wires, lambda line: None)


def answer(tokens: int, steps: int) -> dict[str, Any]:
    """What SGLang 0.5.17 says of an answer with so many *tokens* after the first one."""
    return {"text": "x", "meta_info": {"completion_tokens": 1 + tokens, "spec_verify_ct": steps}}


def drafts(at: DraftingServer, request: Request) -> bool:
    return at.choose(request) is at.wire


def test_a_call_with_a_recorded_answer_goes_to_the_server_that_speculates() -> None:
    at = server()
    assert drafts(at, drafted())
    assert not drafts(at, drafted(own=False)) and not drafts(at, ask())


def test_where_many_calls_are_in_flight_it_stands_aside() -> None:
    at = server()
    at.answered(drafted(), answer(80, 10))
    found = []
    for at.in_flight in range(40):
        found.append(drafts(at, drafted()))
    assert found == [True] * MOST + [False] * (40 - MOST)


async def test_few_calls_find_out_what_drafts_are_worth() -> None:
    at, replies = server(), asyncio.Queue[Any]()

    def send(wire: Wire) -> Awaitable[Any]:
        return replies.get()

    calls = [asyncio.ensure_future(at.asked(drafted(), send)) for _ in range(10)]
    await asyncio.sleep(0)
    assert (at.there, at.in_flight) == (FIRST, 10)
    for _ in calls:
        replies.put_nowait(answer(80, 10))
    await asyncio.gather(*calls)
    assert (at.there, at.in_flight) == (0, 0) and at.recorded.length == 8.0
    at.there = FIRST
    assert drafts(at, drafted())


@pytest.mark.parametrize("in_flight", [0, 7, MOST - 1])
def test_what_a_step_gives_decides(in_flight: int) -> None:
    at = server()
    at.in_flight = in_flight
    at.answered(drafted(), answer(int(100 * break_even(in_flight + 1)) - 1, 100))
    assert not drafts(at, drafted())
    for _ in range(20):
        at.answered(drafted(), answer(800, 100))
    assert drafts(at, drafted())


def test_a_foreign_tape_is_left_after_the_answers_in_flight_and_tried_again_rarely() -> None:
    at = server()
    there = 0
    for _ in range(1000):
        if drafts(at, drafted()):
            there += 1
            at.answered(drafted(), answer(100, 95))
    assert there == 1 + 999 // 64


def test_calls_without_a_record_are_sent_there_once_the_server_remembers_their_answers() -> None:
    at = server()
    for _ in range(64):
        if drafts(at, ask()):
            at.answered(ask(), answer(64, 8))
    assert drafts(at, ask())


@pytest.mark.parametrize(
    "found",
    [None, [], {}, "text", {"meta_info": 3}, answer(3, 0), answer(2, 5), answer(0, 1),
     {"meta_info": {"completion_tokens": True, "spec_verify_ct": "4"}}],
)  # fmt: skip
def test_a_reply_without_counts_says_nothing(found: object) -> None:
    at = server()
    at.answered(drafted(), found)
    assert at.recorded.length == float("inf") and at.other.length == 1.0


# -- with servers


@pytest.fixture
def plain(served: Served) -> Iterator[Twin]:
    with twin(served) as found:
        yield found


@pytest.fixture
def speculating(served: Served) -> Iterator[Twin]:
    def counted(body: dict[str, Any], each: dict[str, Any]) -> dict[str, Any]:
        meta = each["meta_info"]
        return {**each, "meta_info": {**meta, "spec_verify_ct": 1}}

    with twin(served, facts=dict(NGRAM), replies=dict(CORPORA), changes=counted) as found:
        yield found


@pytest.fixture
def both(
    served: Served, open_client: Callable[..., SGLang], plain: Twin, speculating: Twin
) -> SGLang:
    return open_client(url=plain.url, drafting=speculating.url)


async def test_answers_are_those_of_the_plain_server(
    both: SGLang, open_client: Callable[..., SGLang], plain: Twin, speculating: Twin
) -> None:
    alone = open_client()
    chunks: list[Any] = []
    for request in (ask(), drafted(), drafted(run=RUN), ask(regex="[a-z]{3}", max_tokens=None)):
        expected = await alone.complete(request)
        assert (await both.complete(request)).text == expected.text
        assert (await both.complete(request, chunks.append)).text == expected.text
    assert len(speculating.bodies("/generate")) == 4 and len(plain.bodies("/generate")) >= 4
    drafting, whole = both._drafting, (await alone.complete(ask())).usage.completion_tokens
    assert drafting is not None and drafting.in_flight == 0
    assert whole is not None and drafting.recorded.length == whole - 1


async def test_the_answers_of_the_record_are_loaded_once_and_removed_in_the_end(
    both: SGLang, speculating: Twin
) -> None:
    await asyncio.gather(*(both.complete(drafted(run=RUN)) for _ in range(5)))
    drafting = both._drafting
    assert drafting is not None
    await asyncio.gather(*drafting._runs.values())
    await both.aclose()
    added = {"corpus_id": "appl-a1b2", "documents": list(RUN.texts)}
    assert speculating.bodies("/add_external_corpus") == [added]
    assert speculating.bodies("/remove_external_corpus") == [{"corpus_id": "appl-a1b2"}]


async def test_what_the_server_has_is_not_loaded_again_or_removed(
    both: SGLang, speculating: Twin
) -> None:
    known = {"success": True, "corpus_token_counts": {"appl-a1b2": 7}, "message": ""}
    speculating.replies["/list_external_corpora"] = known
    await both.complete(drafted(run=RUN))
    drafting = both._drafting
    assert drafting is not None
    await asyncio.gather(*drafting._runs.values())
    await both.aclose()
    assert not speculating.bodies("/add_external_corpus")
    assert not speculating.bodies("/remove_external_corpus")


async def test_a_server_that_fails_is_left_alone(both: SGLang, speculating: Twin) -> None:
    speculating.failing = 503
    with pytest.raises(Exception, match="it cannot"):
        await both.complete(drafted())
    assert (await both.complete(drafted())).text
    assert len(speculating.bodies("/generate")) == 1


async def test_a_server_that_is_not_there_stops_no_call(served: Served, plain: Twin) -> None:
    said: list[str] = []
    backend = client(served, url=plain.url, drafting="http://127.0.0.1:9", advise=said.append)
    assert (await backend.complete(drafted())).text
    await backend.aclose()
    assert any("speculates" in line for line in said)


async def test_a_server_that_does_not_speculate_is_refused(
    open_client: Callable[..., SGLang], plain: Twin
) -> None:
    backend = open_client(url=plain.url, drafting=plain.url)
    with pytest.raises(ConfigError, match="NGRAM"):
        await backend.complete(drafted())


async def test_another_model_is_refused(
    open_client: Callable[..., SGLang], plain: Twin, speculating: Twin
) -> None:
    speculating.facts["served_model_name"] = "other"
    backend = open_client(url=plain.url, drafting=speculating.url)
    with pytest.raises(ConfigError, match="different models"):
        await backend.complete(drafted())


def test_two_kinds_of_further_servers_do_not_go_together() -> None:
    with pytest.raises(InvalidOption, match="leave one of them out"):
        SGLang(url="http://a:1", drafting="http://b:1", prefill="http://c:1")


def test_only_a_client_that_can_use_drafts_asks_for_them() -> None:
    assert "drafts" not in SGLang(url="http://a:1").profile.features
    features = SGLang(url="http://a:1", drafting="http://b:1").profile.features
    assert {"drafts", "draft_runs"} <= features


def test_servers_of_the_environment_belong_to_its_address() -> None:
    code = (
        "from appl_backends.sglang import SGLang\n"
        "for each in SGLang(), SGLang(url='http://other:1'):\n"
        "    print(each._drafting.wire.url if each._drafting else None)"
    )
    names = {"SGLANG_URL": "http://mine:1", "SGLANG_DRAFTING_URL": "http://mine:2"}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **names}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["http://mine:2", "None"]


def test_a_client_without_a_further_server_loads_nothing_for_one() -> None:
    code = (
        "import sys\nfrom appl_backends.sglang import SGLang\nSGLang(url='http://other:1')\n"
        "print([name for name in sys.modules if name.endswith(('.drafting', '.prefill', '.pair'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

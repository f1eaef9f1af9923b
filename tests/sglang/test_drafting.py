"""Few calls at once go to the server that speculates, as long as its drafts are right."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from appl.backend import Draft, DraftRun, Request, Sample, Sampling
from appl.errors import BackendError, ConfigError, InvalidOption
from appl.prompt import Message, Messages
from appl.testing.embedded_server import Served
from appl_backends.sglang import SGLang
from appl_backends.sglang.drafting import MOST, Acceptance, DraftingServer, break_even, steps_with
from appl_backends.sglang.probe import ServerFacts
from appl_backends.sglang.request_bodies import Parameters
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
    found = DraftingServer(*wires, lambda line: None)
    found.server = ServerFacts()
    return found


def answer(tokens: int, steps: int) -> dict[str, Any]:
    """What SGLang 0.5.17 says of an answer with so many *tokens* after the first one."""
    return {"text": "x", "meta_info": {"completion_tokens": 1 + tokens, "spec_verify_ct": steps}}


def drafts(at: DraftingServer, request: Request) -> bool:
    return at.choose(request) is at.wire


def own() -> Draft:
    return drafted().draft or Draft(())


def liked(at: DraftingServer, tokens: int = 800, steps: int = 100) -> DraftingServer:
    """*at*, where recorded answers would have been worth so many tokens in so many steps."""
    at.likely[True].add(tokens, steps)
    return at


def test_a_call_goes_there_once_recorded_answers_were_like_those_given() -> None:
    at = server()
    at.encode = lambda text: list(text.encode())
    assert not drafts(at, drafted()) and not drafts(at, ask())
    at.answered(own(), {"text": "A fox is an animal."}, speculated=False)
    assert drafts(at, drafted())
    assert not drafts(at, drafted(own=False)) and not drafts(at, ask())


def test_a_call_stays_where_recorded_answers_were_unlike_those_given() -> None:
    at = server()
    at.encode = lambda text: list(text.encode())
    for _ in range(200):
        assert not drafts(at, drafted())
        at.answered(own(), {"text": "Foxes? They live in woods"}, speculated=False)


@pytest.mark.parametrize("length", [1, 100])
def test_a_text_that_the_model_writes_with_other_tokens_is_no_draft(length: int) -> None:
    at, text = server(), "A fox is an animal." * length
    at.encode = lambda part: [ord(letter) for letter in part]
    draft = Draft((Sample(text, "stop"),), True, None)
    pairs = [1000 + 30 * ord(a) + ord(b) for a, b in zip(text[::2], text[1::2], strict=False)]
    at.answered(draft, {"text": text, "output_ids": pairs}, speculated=False)
    assert at.likely[True].length == 1.0
    for ids in (list(map(ord, text)), [], None, "text", 7, [[1]], ["a"]):
        at.likely[True] = Acceptance()
        at.answered(draft, {"text": text, "output_ids": ids}, speculated=False)
        assert at.likely[True].length > 5


def test_where_many_calls_are_in_flight_it_stands_aside() -> None:
    at = liked(server())
    found = []
    for at.in_flight in range(40):
        found.append(drafts(at, drafted()))
    assert found == [True] * MOST + [False] * (40 - MOST)


def test_a_moment_with_few_calls_between_many_is_none_with_few_calls() -> None:
    at = liked(server())
    at.in_flight = 60
    drafts(at, drafted())
    at.in_flight = 2
    assert [drafts(at, drafted()) for _ in range(2 * MOST)] == [False] * (2 * MOST - 1) + [True]


@pytest.mark.parametrize("in_flight", [0, 7, MOST - 1])
def test_what_a_step_gives_decides(in_flight: int) -> None:
    at = liked(server())
    at.in_flight = in_flight
    few = int(100 * break_even(in_flight + 1)) - 1
    at.answered(own(), answer(few, 100), speculated=True)
    assert not drafts(at, drafted())
    for _ in range(20):
        at.answered(own(), answer(800, 100), speculated=True)
    assert drafts(at, drafted())
    at.likely[True] = Acceptance()
    at.likely[True].add(few, 100)
    assert not drafts(at, drafted())


def test_a_server_that_drafts_worse_than_expected_is_tried_again_rarely() -> None:
    at = liked(server())
    there = 0
    for _ in range(1000):
        if drafts(at, drafted()):
            there += 1
            at.answered(own(), answer(100, 95), speculated=True)
    assert there == 1 + 999 // 64


@pytest.mark.parametrize(
    "found",
    [None, [], {}, "text", {"meta_info": 3}, answer(3, 0), answer(2, 5), answer(0, 1),
     {"meta_info": {"completion_tokens": True, "spec_verify_ct": "4"}}, [None, {"text": 3}]],
)  # fmt: skip
def test_a_reply_without_counts_says_nothing(found: object) -> None:
    at = server()
    at.answered(own(), found, speculated=True)
    at.answered(own(), found, speculated=False)
    assert at.shown[True].length == at.likely[True].length == 0.0


def naive_steps(draft: list[int], answer: list[int], tokens: int) -> int:
    """The steps of a server that tries what follows the longest end of the answer in the draft."""
    done, steps = 1, 0
    while done < len(answer):
        best: list[int] = []
        for size in range(1, done + 1):
            end = answer[done - size : done]
            at = [k for k in range(size, len(draft)) if draft[k - size : k] == end]
            if not at:
                break
            best = draft[at[-1] : at[-1] + tokens]
        kept = 0
        while kept < len(best) and best[kept : kept + 1] == answer[done + kept : done + kept + 1]:
            kept += 1
        done, steps = done + kept + 1, steps + 1
    return steps


def test_the_steps_are_those_of_a_server_that_looks_the_text_up() -> None:
    dice = random.Random(7)
    for _ in range(300):
        draft = dice.choices(range(60), k=dice.randint(0, 80))
        answer = [token if dice.random() > 0.1 else dice.randrange(60) for token in draft]
        answer[dice.randint(0, len(answer)) :][:3] = []
        answer = answer or [1]
        got, naive = (each(draft, answer, 7) for each in (steps_with, naive_steps))
        assert abs(got - naive) <= 1 + 0.2 * naive, (draft, answer)
    same = dice.sample(range(200), 161)
    assert steps_with(same, same, 7) == naive_steps(same, same, 7) == 20
    assert steps_with([], same, 7) == 160 and steps_with(same, [5], 7) == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [("min_p", 0.1), ("min_tokens", 3), ("presence_penalty", 0.5), ("frequency_penalty", 0.5),
     ("repetition_penalty", 1.1)],
)  # fmt: skip
def test_what_is_drawn_otherwise_in_steps_of_several_tokens_stays(name: str, value: float) -> None:
    at = liked(server())
    at.chosen = Parameters({}).chosen
    assert not drafts(at, ask(draft=own(), extra=((name, value),)))
    neutral = 1.0 if name == "repetition_penalty" else 0
    assert drafts(at, ask(draft=own(), extra=((name, neutral),)))
    assert drafts(at, ask(draft=own(), extra=(("top_k", 5),)))
    at.chosen = Parameters({"repetition_penalty": 1.05}).chosen  # of the model
    assert not drafts(at, drafted())
    assert drafts(at, ask(draft=own(), extra=(("repetition_penalty", 1.0),)))


@pytest.mark.parametrize("deterministic", [False, True])
def test_a_seed_that_is_heeded_stays(deterministic: bool) -> None:
    at = liked(server())
    at._beside = ServerFacts(deterministic=deterministic)
    assert drafts(at, ask(draft=own(), seed=7)) is not deterministic
    assert drafts(at, drafted())


def test_what_was_thought_before_an_answer_is_a_draft_as_well() -> None:
    at = server()
    at.encode = lambda text: list(text.encode())
    said = "<think>A fox eats mice. Mice are animals.</think>Yes."
    draft = Draft((Sample("Yes.", "stop", reasoning="A fox eats mice. Mice are animals."),))
    at.answered(draft, {"text": said, "output_ids": list(said.encode())}, speculated=False)
    assert drafts(at, drafted())


def test_little_is_compared_of_an_answer_that_is_much_longer_than_the_recorded_one() -> None:
    at = server()
    at.encode = lambda text: list(text.encode())
    draft = Draft((Sample("", "stop"),), True, None)
    for found in ({"text": "x", "output_ids": list(range(10**6))}, {"text": "x" * 10**6}):
        at.likely[True] = Acceptance()
        at.answered(draft, found, speculated=False)
        assert at.likely[True]._tokens < 1000 and at.likely[True].length <= 1 + 8


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


async def there(backend: SGLang) -> DraftingServer:
    """What chooses the server of *backend*, which is connected; drafts have been worth it."""
    await backend.connect()
    assert backend._drafting is not None
    return liked(backend._drafting, 10**6, 10**5)


async def test_answers_are_those_of_the_plain_server(
    both: SGLang, open_client: Callable[..., SGLang], plain: Twin, speculating: Twin
) -> None:
    alone, drafting = open_client(), both._drafting
    assert drafting is not None
    liked(drafting, 10**6, 10**5)
    chunks: list[Any] = []
    for request in (ask(), drafted(), drafted(run=RUN), ask(regex="[a-z]{3}", max_tokens=None)):
        expected = await alone.complete(request)
        assert (await both.complete(request)).text == expected.text
        assert (await both.complete(request, chunks.append)).text == expected.text
    assert len(speculating.bodies("/generate")) == 4 and len(plain.bodies("/generate")) >= 4
    whole = (await alone.complete(drafted())).usage.completion_tokens
    assert drafting.in_flight == 0 and whole is not None
    assert drafting.shown[True].length == whole - 1


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


@pytest.mark.parametrize(("status", "times"), [(503, 1), (500, 1), (400, 2)])
async def test_what_the_server_fails_at_is_answered_by_the_plain_one(
    both: SGLang, open_client: Callable[..., SGLang], speculating: Twin, status: int, times: int
) -> None:
    speculating.failing = status
    await there(both)
    expected = (await open_client().complete(ask())).text
    assert [(await both.complete(drafted())).text for _ in range(2)] == [expected] * 2
    assert len(speculating.bodies("/generate")) == times
    assert both._drafting is not None and both._drafting.in_flight == 0


@pytest.mark.parametrize(
    "reply",
    [None, {}, [], "text", {"text": 7}, {"error": {"message": "no"}},
     {"text": "A", "meta_info": {"finish_reason": {"type": "abort", "message": "flushed"}}}],
)  # fmt: skip
async def test_a_reply_that_is_no_answer_is_not_taken_for_one(
    both: SGLang, open_client: Callable[..., SGLang], speculating: Twin, reply: Any
) -> None:
    speculating.changes = lambda body, each: reply
    await there(both)
    expected = (await open_client().complete(ask())).text
    assert [(await both.complete(drafted())).text for _ in range(2)] == [expected] * 2
    assert len(speculating.bodies("/generate")) == 1


@pytest.mark.parametrize("told", [0, 1])
async def test_a_stream_that_breaks_off_goes_on_elsewhere_if_nothing_was_told(
    both: SGLang, open_client: Callable[..., SGLang], speculating: Twin, told: int
) -> None:
    passed = iter(range(told))

    def broken(body: dict[str, Any], each: dict[str, Any]) -> dict[str, Any]:
        return each if next(passed, None) is not None else {"error": {"message": "it broke"}}

    speculating.changes = broken
    await there(both)
    chunks: list[Any] = []
    request = ask("Tell a story.", own())
    if told:
        with pytest.raises(BackendError, match="it broke"):
            await both.complete(request, chunks.append)
        assert len(chunks) == 1
    else:
        found = await both.complete(request, chunks.append)
        assert chunks and found.text.startswith("".join(each.text for each in chunks))
        assert found.text == (await open_client().complete(request)).text
    assert len(speculating.bodies("/generate")) == 1


async def test_each_server_streams_in_its_own_way(
    both: SGLang, open_client: Callable[..., SGLang], plain: Twin, speculating: Twin
) -> None:
    seen = [""]

    def added(body: dict[str, Any], each: dict[str, Any]) -> dict[str, Any]:
        seen.append(each["text"])
        return {**each, "text": seen[-1].removeprefix(seen[-2])}

    plain.facts["incremental_streaming_output"] = False
    speculating.facts["incremental_streaming_output"] = True
    speculating.changes = added
    await there(both)
    chunks: list[Any] = []
    request = ask("Tell a story.", own())
    expected = (await open_client().complete(request)).text
    assert (await both.complete(request, chunks.append)).text == expected
    assert chunks and expected.startswith("".join(each.text for each in chunks))
    assert len(seen) > 2


@pytest.mark.parametrize("what", ["stop", "token", "end"])
async def test_an_answer_that_goes_on_behind_its_end_is_that_of_the_plain_server(
    both: SGLang, open_client: Callable[..., SGLang], speculating: Twin, what: str
) -> None:
    await there(both)
    drafting = both._drafting
    assert drafting is not None and drafting.ends
    behind = 77 if what == "token" else min(drafting.ends)

    def longer(body: dict[str, Any], each: dict[str, Any]) -> dict[str, Any]:
        ids = [] if what == "stop" else [behind, 5]
        meta = each["meta_info"]
        if meta.get("finish_reason"):
            meta = {**meta, "finish_reason": {"type": "length", "length": 8}}
        return {"text": "one END two", "output_ids": [*each["output_ids"], *ids], "meta_info": meta}

    speculating.changes = longer
    given = {"stop": {"stop": ("END",)}, "token": {"stop_tokens": (77,)}, "end": {}}[what]
    request, chunks = ask(draft=own(), **given), list[Any]()
    found, expected = await both.complete(request), await open_client().complete(request)
    assert found.samples == expected.samples and len(speculating.bodies("/generate")) == 1
    if what == "end":  # and a part of it was told
        with pytest.raises(BackendError, match="behind the end"):
            await both.complete(request, chunks.append)
        assert chunks


async def test_a_server_with_less_room_gets_no_call_that_it_would_shorten(
    both: SGLang, open_client: Callable[..., SGLang], speculating: Twin
) -> None:
    speculating.facts["max_req_input_len"] = 60
    await there(both)
    requests = [
        ask(draft=own()), ask(draft=own(), max_tokens=100), ask(draft=own(), max_tokens=None),
        ask("What is a fox? " * 20, own()),
    ]  # fmt: skip
    for request in requests:
        expected = (await open_client().complete(request)).text
        assert (await both.complete(request)).text == expected
    assert len(speculating.bodies("/generate")) == 1


async def test_a_server_that_comes_back_is_asked_what_it_is(
    both: SGLang, plain: Twin, speculating: Twin
) -> None:
    drafting = await there(both)
    for model, times in (("", 1), ("other", 1)):
        drafting.unavailable()
        assert (await both.complete(drafted())).text
        assert drafting._checking is None or drafting._checking.done()
        drafting._away_until = 0.0
        if model:
            speculating.facts["served_model_name"] = model
        assert (await both.complete(drafted())).text  # not there yet
        assert drafting._checking is not None
        await drafting._checking
        assert (await both.complete(drafted())).text
        assert len(speculating.bodies("/generate")) == times
    assert drafting.server is None


async def test_another_server_that_comes_instead_is_told_of(
    served: Served, plain: Twin, speculating: Twin
) -> None:
    said: list[str] = []
    backend = client(served, url=plain.url, drafting=speculating.url, advise=said.append)
    drafting = await there(backend)
    drafting.unavailable()
    drafting._away_until, speculating.facts["speculative_algorithm"] = 0.0, None
    await backend.complete(drafted())
    assert drafting._checking is not None
    await drafting._checking
    assert any("any more" in line and "NGRAM" in line for line in said)
    await backend.complete(drafted())
    assert not speculating.bodies("/generate")
    await backend.aclose()


@pytest.mark.parametrize("failed", [False, True])
async def test_texts_that_are_being_loaded_are_removed_as_well(
    both: SGLang, speculating: Twin, failed: bool
) -> None:
    speculating.holds = "/add_external_corpus"
    speculating.released.clear()
    await both.complete(drafted(run=RUN))
    await asyncio.to_thread(speculating.arrived.acquire)
    drafting = both._drafting
    assert drafting is not None
    if failed:
        drafting.unavailable()
    closing = asyncio.ensure_future(both.aclose())
    await asyncio.to_thread(speculating.released.set)
    await closing
    paths = [path for path, _ in speculating.asked if "external_corpus" in path]
    assert paths == ["/add_external_corpus", "/remove_external_corpus"]


def test_a_client_may_be_closed_on_another_loop(
    served: Served, plain: Twin, speculating: Twin
) -> None:
    backend = client(served, url=plain.url, drafting=speculating.url)

    async def one(closes: bool) -> str:
        found = (await backend.complete(drafted(run=RUN))).text
        if closes:
            await backend.aclose()
        return found

    assert asyncio.run(one(False)) == asyncio.run(one(True))
    assert speculating.bodies("/remove_external_corpus") == [{"corpus_id": "appl-a1b2"}]


@pytest.mark.parametrize("patience", [0, 1000])
async def test_a_server_that_is_silent_gets_no_further_calls(
    both: SGLang, speculating: Twin, patience: float
) -> None:
    drafting = await there(both)
    drafting.patience = patience
    speculating.released.clear()
    task = asyncio.ensure_future(both.complete(drafted()))
    await asyncio.to_thread(speculating.arrived.acquire)
    task.cancel()  # as at a deadline
    with pytest.raises(asyncio.CancelledError):
        await task
    speculating.released.set()
    assert (await both.complete(drafted())).text
    assert len(speculating.bodies("/generate")) == (1 if patience == 0 else 2)
    assert drafting.in_flight == 0


async def test_behind_a_router_the_server_that_speculates_is_told_to_stop(
    both: SGLang, plain: Twin, speculating: Twin
) -> None:
    plain.facts["version"] = ""
    plain.replies["/workers"] = {"workers": [{"url": plain.url}]}
    await there(both)
    speculating.released.clear()
    task = asyncio.ensure_future(both.complete(drafted()))
    await asyncio.to_thread(speculating.arrived.acquire)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    speculating.released.set()
    await both.aclose()
    assert both._workers
    assert len(speculating.bodies("/abort_request")) == 1
    assert len(plain.bodies("/abort_request")) == 1


async def test_a_server_that_is_not_there_stops_no_call(served: Served, plain: Twin) -> None:
    said: list[str] = []
    backend = client(served, url=plain.url, drafting="http://127.0.0.1:9", advise=said.append)
    assert (await backend.complete(drafted())).text
    await backend.aclose()
    assert any("speculates" in line for line in said)


async def test_a_server_that_says_nothing_of_itself_is_not_waited_for(
    served: Served, plain: Twin, speculating: Twin
) -> None:
    said: list[str] = []
    backend = client(served, url=plain.url, drafting=speculating.url, advise=said.append)
    assert backend._drafting is not None
    backend._drafting.patience, speculating.holds = 0.0, "/server_info"
    speculating.released.clear()
    assert (await backend.complete(drafted())).text
    speculating.released.set()
    await backend.aclose()
    assert any("speculates" in line for line in said) and not speculating.bodies("/generate")


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

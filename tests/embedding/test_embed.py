"""Embeddings against servers over loopback: the numbers, the batches, and what is never asked twice."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import random
import struct
import subprocess
import sys
import threading
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import appl
from appl import embed, ppl
from appl.backend import Backend, Request, Response, Sample, Usage
from appl.cli import main
from appl.errors import (
    BackendRefused,
    BudgetExceeded,
    InvalidOption,
    MalformedResponse,
    TraceError,
    UnknownOption,
    Unsupported,
)
from appl.testing import (
    BackendEndpoint,
    Fake,
    Fault,
    Late,
    Limits,
    Model,
    Models,
    Policy,
    Retries,
    Run,
    VirtualClock,
    drawn,
    running,
)
from appl.testing.engine import Threads
from appl.testing.faults import FAULTS
from appl.testing.vectors import bag_of_words
from appl.tracing import (
    Predictor,
    Recorder,
    Replayer,
    Rerunner,
    Resumer,
    Trace,
    profile_data,
)
from appl.tracing.format import PieceRecord, block, chosen, codec
from appl_backends.anthropic import Anthropic
from appl_backends.embedded import Embedded
from appl_backends.litellm import LiteLLM
from appl_backends.openai import OpenAI
from appl_backends.sglang import SGLang
from tests.wire.servers import FaultServer

WORDS = "red blue green box lamp cat dog river tea bread".split()


class Server(FaultServer):
    """A server for embeddings, of which SGLang says that it generates nothing."""

    def _facts(self, path: str) -> Any:
        found = super()._facts(path)
        return {**found, "is_generation": False} if "model_info" in path else found


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        yield made


def texts(count: int, seed: int = 1) -> list[str]:
    """Different texts of common words."""
    dice = random.Random(seed)
    return [f"{' '.join(dice.choices(WORDS, k=5))} {number}" for number in range(count)]


def expected(text: str) -> array[float]:
    """The vector that the server makes, rounded to 32 bits by ``struct``."""
    numbers = bag_of_words(text)
    return array("f", struct.unpack(f"{len(numbers)}f", struct.pack(f"{len(numbers)}f", *numbers)))


def openai(at: FaultServer, **options: Any) -> OpenAI:
    return OpenAI(base_url=at.openai_url, model="m", **options)


def sizes(server: FaultServer) -> list[int]:
    """The number of texts of each request."""
    return [len(ask.data["input"]) for ask in server.asks]


def recorded(backend: Backend, path: Path, f: Any, world: Any = None, **options: Any) -> Any:
    """The value of *f*, recorded at *path*, in a world that an earlier trace may answer for."""
    recorder = Recorder(path, {"profile": profile_data(backend.profile)}, durability="process")
    watching = [recorder] if world is None else [world, recorder]
    try:
        with Run(backend, instruments=watching, world=world, **options):
            return f()
    finally:
        recorder.close()


# -- the numbers


@pytest.mark.parametrize("kind", ["openai", "vllm", "mistral", "llama.cpp", "gemini", "other"])
def test_vectors_are_those_of_the_server_in_the_order_of_the_texts(
    server: Server, kind: Any
) -> None:
    server.become(kind)
    asked = texts(20)
    with running(openai(server, server=kind)):
        assert list(embed(asked)) == [expected(text) for text in asked]


def test_sglang_and_litellm_give_the_same_vectors(server: Server) -> None:
    asked = texts(5)
    by_litellm = LiteLLM(model="openai/m", api_key="sk-123456", base_url=server.openai_url)
    for backend in (SGLang(url=server.url), by_litellm):
        with running(backend):
            assert list(embed(asked)) == [expected(text) for text in asked]


def test_one_text_has_one_vector(server: Server) -> None:
    with running(openai(server)):
        vector = embed("a red box").result()
    assert isinstance(vector, array) and vector == expected("a red box")


def test_a_coroutine_awaits_its_vectors(server: Server) -> None:
    async def main() -> Any:
        return await asyncio.gather(embed("one"), embed(["two", "three"]))

    with running(openai(server)):
        one, others = asyncio.run(main())
    assert one == expected("one") and others == [expected("two"), expected("three")]


def test_vectors_may_be_shorter(server: Server) -> None:
    with running(openai(server)):
        assert embed("a red box", dimensions=8).result() == expected("a red box")[:8]
    assert server.asks[0].data["dimensions"] == 8


def test_mistral_has_another_word_for_dimensions(server: Server) -> None:
    server.become("mistral")
    with running(openai(server, server="mistral")), pytest.raises(MalformedResponse):
        embed("a red box", dimensions=8).result()  # this server does not know that word
    assert server.asks[0].data["output_dimension"] == 8


def test_embedded_vectors_are_means_of_the_tokens_embeddings() -> None:
    np = pytest.importorskip("numpy")
    backend = Embedded()
    weights = backend.engine.model.embedding.astype("f8")
    asked = ["The red box is in the kitchen.", "Who plays the organ?"]
    with running(backend):
        alone, together = embed(asked[1]).result(), embed(asked).result()
    assert together[1] == alone
    for text, vector in zip(asked, together, strict=True):
        rows = [weights[token] for token in backend.tokenizer.encode(text)]
        mean = sum(rows) / len(rows)
        assert np.allclose(vector, mean / math.sqrt(mean @ mean), atol=1e-6)


# -- batches


def test_texts_that_wait_together_go_in_few_requests(server: Server) -> None:
    asked, all_wait = texts(1000), threading.Event()

    def vector(text: str) -> list[float]:
        all_wait.wait(60)  # the server answers nothing before
        return bag_of_words(text)

    server.vector = vector

    @ppl
    def main() -> Any:
        found = [embed(text) for text in asked]
        all_wait.set()
        return found

    with running(openai(server)):
        assert [list(vector) for vector in main()] == [list(expected(text)) for text in asked]
    assert sum(sizes(server)) == 1000 and max(sizes(server)) == 128 and len(server.asks) <= 16


def test_a_long_list_is_sent_in_parts_side_by_side(server: Server) -> None:
    asked = texts(300)
    with running(openai(server)):
        assert list(embed(asked)) == [expected(text) for text in asked]
    assert sorted(sizes(server)) == [44, 128, 128]


def test_a_text_is_asked_for_once_in_a_run(server: Server) -> None:
    with running(openai(server)):
        first = embed(["one", "two", "one"]).result()
        again = [embed("two"), embed(["three", "one"])]
        assert first[0] == first[2] == expected("one")
        assert again[0] == expected("two") and again[1] == [expected("three"), expected("one")]
    assert server.embedded == {"one": 1, "two": 1, "three": 1}


def test_other_dimensions_are_other_vectors(server: Server) -> None:
    with running(openai(server)):
        assert len(embed("one", dimensions=4)) == 4 and len(embed("one")) == 32
    assert server.embedded["one"] == 2


def test_calls_that_ask_for_a_text_at_once_share_it(server: Server) -> None:
    with running(openai(server)):
        found = [embed(["same", f"own {number}"]) for number in range(50)]
        assert all(pair[0] == expected("same") for pair in found)
    assert set(server.embedded.values()) == {1}


def test_a_cancelled_call_leaves_the_text_to_the_other(server: Server) -> None:
    with running(openai(server)):
        first, second = embed("same"), embed("same")
        first.cancel()
        assert second == expected("same")


def test_a_request_that_nobody_waits_for_is_aborted() -> None:
    hangs = Fault("hangs", share=0.0, ends="hang")
    with Server([hangs]) as server, running(openai(server)):
        lost = embed("lost")
        while not server.asks:
            pass
        lost.cancel()
        assert embed("found") == expected("found")


def test_a_refused_text_fails_its_own_call_alone() -> None:
    def refuse(ask: Any) -> Fault | None:
        body = b'{"error": {"message": "this text is too long"}}'
        return Fault("long", 400, {}, body) if "bad" in ask.data["input"] else None

    asked = texts(40)
    with Server(refuse) as server, running(openai(server)):
        good, bad = [embed(text) for text in asked], embed("bad")
        assert [list(vector) for vector in good] == [list(expected(text)) for text in asked]
        with pytest.raises(BackendRefused, match="too long"):
            bad.result()


def test_a_server_that_takes_fewer_texts_gets_fewer() -> None:
    def refuse(ask: Any) -> Fault | None:
        body = b'{"error": "batch size > maximum allowed batch size 32"}'
        return Fault("many", 422, {}, body) if len(ask.data["input"]) > 32 else None

    asked = texts(300)
    with Server(refuse) as server, running(openai(server)):
        assert list(embed(asked)) == [expected(text) for text in asked]
    assert set(server.embedded.values()) == {1}


def test_a_server_without_embeddings_is_not_asked_again_and_again() -> None:
    body = b'{"error": {"message": "this model has no embeddings"}}'
    with Server(lambda ask: Fault("none", 400, {}, body)) as server, running(openai(server)):
        with pytest.raises(BackendRefused, match="no embeddings"):
            embed(texts(128)).result()
        assert len(server.asks) <= 15


# -- failures


def test_failed_requests_are_made_again() -> None:
    policy = Policy(retries=Retries(attempts=20, base_s=0, spare=1000), circuit=None)
    faults = [fault for fault in FAULTS if fault.ends != "hang"]
    asked = texts(600)
    with Server(drawn(7, 0.4, faults)) as server, running(openai(server), policy=policy):
        found = [embed(asked[start : start + 3]) for start in range(0, 600, 3)]
        assert [list(one) for three in found for one in three] == [
            list(expected(text)) for text in asked
        ]
    assert set(server.embedded.values()) == {1} and server.injected


@pytest.mark.parametrize(
    "vectors",
    [
        [[1.0, 2.0]],
        [[1.0], [2.0, 3.0]],
        [[], []],
        [[1.0], [float("nan")]],
        [[1.0], [1e60]],
        [["1"], [2.0]],
        [[True], [2.0]],
        [None, [1.0]],
        ["%%%", [1.0]],
    ],
)
def test_vectors_that_are_none_are_refused(vectors: Any) -> None:
    data = [{"index": at, "embedding": vector} for at, vector in enumerate(vectors)]
    body = json.dumps({"object": "list", "data": data}).encode()
    policy = Policy(retries=Retries(attempts=1))
    odd = Server([Fault("odd", 200, {}, body)])
    refused = pytest.raises(MalformedResponse, match="no embeddings")
    with odd as server, running(openai(server), policy=policy), refused:
        embed(["one", "two"]).result()


def test_vectors_stand_where_their_index_says() -> None:
    data = [{"index": 1, "embedding": [1.0]}, {"index": 0, "embedding": [2.0]}]
    body = json.dumps({"object": "list", "data": data}).encode()
    with Server([Fault("turned", 200, {}, body)]) as server, running(openai(server)):
        assert list(embed(["one", "two"])) == [array("f", [2.0]), array("f", [1.0])]


# -- what is refused before anything is asked


def test_a_backend_without_embeddings_says_which_have_them() -> None:
    backend = Anthropic(api_key="k", base_url="http://127.0.0.1:9")
    with (
        running(backend),
        pytest.raises(Unsupported, match=r"openai.*litellm, sglang and embedded"),
    ):
        embed("one")


def test_an_unknown_option_is_an_error_with_the_known_ones(server: Server) -> None:
    unknown: Any = {"dimension": 3}
    with running(openai(server)), pytest.raises(UnknownOption, match="did you mean 'dimensions'"):
        embed("one", **unknown)


@pytest.mark.parametrize("wrong", ["", [], ["a", ""], [3], 7, b"bytes", None])
def test_what_is_no_text_is_refused(server: Server, wrong: Any) -> None:
    with running(openai(server)), pytest.raises(InvalidOption):
        embed(wrong)
    assert not server.asks


@pytest.mark.parametrize("wrong", [0, -1, 2.5, "8", True])
def test_dimensions_are_a_number(server: Server, wrong: Any) -> None:
    with running(openai(server)), pytest.raises(InvalidOption, match="dimensions"):
        embed("one", dimensions=wrong)


# -- budgets, prices, limits


def test_embeddings_are_priced_by_the_table_and_counted_once(tmp_path: Path) -> None:
    prices = {"m": {"prompt": 0.02, "answer": 0}}
    with Server() as server:
        backend = openai(server, prices=prices)
        recorded(backend, tmp_path / "a.trace", lambda: [embed(text) for text in texts(300)])
        tokens = sum(len(text.split()) for text in server.embedded)
        requests = len(server.asks)
    totals = Trace.open(tmp_path / "a.trace").totals()
    exact = tokens * 0.02  # of a million, in millionths
    assert totals.tokens["prompt_tokens"] == tokens and exact <= totals.cost <= exact + requests


def test_the_table_of_prices_has_embeddings() -> None:
    from appl.backend.price_table import row_of

    row = row_of("openai/text-embedding-3-small")
    assert row is not None and row.price.prompt == 0.02 and row.price.answer == 0


def test_a_budget_of_requests_is_exact(server: Server) -> None:
    with running(openai(server)), appl.budget(calls=1):
        assert len(embed(texts(100))) == 100
        with pytest.raises(BudgetExceeded):
            embed("one more").result()
        assert len(embed(texts(100)[3])) == 32  # that is known, and costs nothing
    assert len(server.asks) == 1


def test_a_budget_of_tokens_holds(server: Server) -> None:
    with running(openai(server)), appl.budget(tokens=20), pytest.raises(BudgetExceeded):
        embed(texts(100)).result()
    assert not server.asks


def test_no_more_requests_are_on_their_way_than_the_limit(server: Server) -> None:
    policy = Policy(limits=Limits(concurrency=1))
    with running(openai(server), policy=policy):
        assert len(embed(texts(700))) == 700
    assert server.connections == 1


def test_no_more_requests_are_begun_in_a_period_than_the_limit() -> None:
    clock, begun = VirtualClock(), list[float]()

    def answer(request: Request) -> Response:
        begun.append(clock.now())
        vectors = (b"\0\0\x80?",) * len(request.messages or ())
        return Response((Sample("", "stop"),), Usage(1, 0, 0), vectors=vectors)

    backend = Late(answer, clock, 0.5, features=frozenset({"embeddings"}))
    policy = Policy(clock=clock, limits=Limits(requests=2, period_s=60.0))
    with running(backend, policy=policy):
        assert len(embed(texts(600))) == 600
    assert len(begun) == 5 and begun[-1] < 121
    assert all(later - first >= 60 for first, later in zip(begun, begun[2:], strict=False))


def test_a_name_of_models_may_mean_another_backend(server: Server) -> None:
    there = openai(server)
    chat = Fake(lambda question: "yes")
    models = Models(
        chat.profile, names={"vectors": Model("there", "m")}, others={"there": there.profile}
    )
    with running(chat, models=models, places={"there": BackendEndpoint(there)}):
        assert list(embed(["one", "two"], "vectors")) == [expected("one"), expected("two")]


@ppl
def embedded_by_a_worker(word: str) -> Any:
    return [list(vector) for vector in embed([word, "the same"])]


def test_workers_ask_for_a_text_once_in_the_run_of_their_driver(server: Server) -> None:
    with running(openai(server)):
        found = appl.map(embedded_by_a_worker, WORDS, engine=Threads())
        assert [list(pair[0]) for pair in found] == [list(expected(word)) for word in WORDS]
    assert server.embedded == dict.fromkeys([*WORDS, "the same"], 1)


def test_the_naive_runtime_gives_the_same(server: Server) -> None:
    asked = texts(30)
    with running(openai(server), sequential=True):
        found = [embed(text) for text in asked]
        assert [list(vector) for vector in found] == [list(expected(text)) for text in asked]


# -- what is recorded


def both(asked: list[str]) -> Any:
    """A program that embeds *asked* as a list, and one of them alone."""

    @ppl
    def main() -> Any:
        vectors = embed(asked)
        return [list(vector) for vector in vectors] + [list(embed(asked[0]))]

    return lambda: list(main())


def test_a_replay_gives_the_vectors_and_asks_nobody(server: Server, tmp_path: Path) -> None:
    asked = texts(200)
    first = recorded(openai(server), tmp_path / "a.trace", both(asked))
    count = len(server.asks)
    replayer = Replayer(tmp_path / "a.trace")
    with Run(replayer.backend, instruments=[replayer], world=replayer):
        assert both(asked)() == first
    replayer.finish()
    assert len(server.asks) == count


def test_each_vector_is_stored_once_as_bytes(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    asked = texts(50)
    recorded(openai(server), path, lambda: [both(asked)(), both(asked)()])
    trace = Trace.open(path)
    vectors = {v for call in trace.calls for v in (call.response and call.response.vectors) or ()}
    assert vectors == {expected(text).tobytes() for text in asked}
    pieces = [piece.data for piece in chosen(_arrays(path), PieceRecord)]
    assert sorted(pieces) == sorted(vectors)


def _arrays(path: Path) -> Iterator[Any]:
    with path.open("rb") as file:
        for raw in block.scan(file, block.Scan()):
            yield from codec.unpack(raw)


def test_a_rerun_after_an_edit_asks_for_the_new_text_alone(server: Server, tmp_path: Path) -> None:
    asked = texts(40)
    recorded(openai(server), tmp_path / "a.trace", both(asked))
    server.embedded.clear()
    edited = [*asked[:10], "a new one", *asked[10:]]
    rerunner = Rerunner(tmp_path / "a.trace")
    found = recorded(openai(server), tmp_path / "b.trace", both(edited), rerunner)
    assert found[:-1] == [list(expected(text)) for text in edited]
    assert server.embedded == {"a new one": 1}


def test_what_is_named_anew_is_asked_again(server: Server, tmp_path: Path) -> None:
    asked = texts(4)
    recorded(openai(server), tmp_path / "a.trace", lambda: list(embed(asked)))
    rerunner = Rerunner(tmp_path / "a.trace", anew=["/embed.0"])
    recorded(openai(server), tmp_path / "b.trace", lambda: list(embed(asked)), rerunner)
    assert set(server.embedded.values()) == {2}


def test_a_resumed_run_asks_for_what_is_missing(server: Server, tmp_path: Path) -> None:
    asked, path = texts(40), tmp_path / "a.trace"

    def breaks() -> None:
        embed(asked).result()
        raise InterruptedError

    with pytest.raises(InterruptedError):
        recorded(openai(server), path, breaks)
    resumer = Resumer(path)
    with Run(openai(server), instruments=[resumer], world=resumer):
        assert list(embed(asked)) == [expected(text) for text in asked]
        assert embed(["later", asked[3]])[1] == expected(asked[3])
    assert set(server.embedded.values()) == {1}


def test_a_rehearsal_of_an_edited_program_has_vectors_for_new_texts(
    server: Server, tmp_path: Path
) -> None:
    asked = texts(10)
    recorded(openai(server), tmp_path / "a.trace", lambda: list(embed(asked)))
    predictor = Predictor(tmp_path / "a.trace", rehearsal=0)
    with Run(openai(server), instruments=[predictor], world=predictor):
        found = list(embed(["new", *asked]))
    assert found[1:] == [expected(text) for text in asked] and len(found[0]) == 32
    assert set(server.embedded.values()) == {1} and "new" not in server.embedded


def test_a_shared_trace_holds_no_vector(server: Server, tmp_path: Path) -> None:
    vector = expected("one two").tobytes()
    path = tmp_path / "a.trace"
    recorded(openai(server), path, lambda: list(embed("one two")))
    shared = tmp_path / "b.trace"
    with contextlib.suppress(SystemExit):
        main(["trace", "share", str(path), "--out", str(shared)])
    assert vector in _unpacked(path) and vector not in _unpacked(shared)


def _unpacked(path: Path) -> bytes:
    return b"".join(map(codec.pack, _arrays(path)))


KILLED = """
import os, sys
from appl import embed, ppl

@ppl
def main():
    first = embed([f"text {number}" for number in range(20)])
    len(first)
    if os.environ.get("WAITS"):
        sys.stdin.read()
    second = embed([f"text {number}" for number in range(25)])
    return sum(map(sum, second))
"""


def test_a_killed_process_is_gone_on_with_and_nothing_is_paid_twice(
    server: Server, tmp_path: Path
) -> None:
    (tmp_path / "prog.py").write_text(KILLED)
    environment = os.environ | {
        "OPENAI_BASE_URL": server.openai_url, "OPENAI_API_KEY": "k", "APPL_MODEL": "openai/m",
    }  # fmt: skip

    def begun(*words: str, **more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "appl", *words], cwd=tmp_path, env=environment | more,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    victim = begun("run", "prog.py:main", WAITS="1")
    while not _answered(tmp_path / ".appl" / "runs"):
        assert victim.poll() is None
    victim.kill()
    victim.communicate()
    assert server.embedded == {f"text {number}": 1 for number in range(20)}
    resumed, complaints = (heir := begun("trace", "resume")).communicate()
    assert heir.returncode == 0, complaints
    assert server.embedded == {f"text {number}": 1 for number in range(25)}
    wanted = sum(sum(expected(f"text {number}")) for number in range(25))
    assert float(resumed) == pytest.approx(wanted)
    replayed, _ = begun("trace", "replay").communicate()
    assert replayed == resumed and set(server.embedded.values()) == {1}


def _answered(folder: Path) -> bool:
    """True if the run in *folder* has an answer on the disk."""
    for path in folder.glob("*.trace"):
        with contextlib.suppress(TraceError):
            return any(call.response is not None for call in Trace.open(path).calls)
    return False


def test_secrets_in_texts_are_not_recorded(server: Server, tmp_path: Path) -> None:
    key = "sk-proj-Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4z"
    path = tmp_path / "a.trace"
    recorded(openai(server), path, lambda: embed(f"my key is {key}").result())
    (call,) = Trace.open(path).calls
    assert call.messages is not None and key not in call.messages.message.content
    assert list(server.embedded) == [f"my key is {key}"]

"""Thousands of faults: no call is lost, none is answered twice, no error is without a type."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from appl.errors import BackendError
from appl.session import replayed
from appl.testing import FAULTS, Deadlines, Fault, Policy, Retries, Run, drawn, on_backend_loop
from appl.tracing import Recorder, profile_data
from appl_backends.embedded import WEIGHTS
from appl_backends.openai import OpenAI
from tests.drawn import counts
from tests.faults.storm import CLIENTS, Counted, outcomes, several
from tests.wire.servers import FaultServer

PATIENT = Policy(
    retries=Retries(attempts=100, base_s=0.001, cap_s=0.01, share=1000.0, spare=1_000_000),
    adaptive=False,  # it would go on with one call at a time: every fourth answer is "busy"
    circuit=None,
)
IN_TIME = dataclasses.replace(PATIENT, deadlines=Deadlines(first_token_s=1, between_tokens_s=1))
CAREFUL = dataclasses.replace(IN_TIME, adaptive=True, circuit=True)
TYPED = {"BackendBusy", "BackendTimeout", "BackendUnavailable", "MalformedResponse"}
ENDING = [fault for fault in FAULTS if fault.ends != "hang"]
clients = pytest.mark.parametrize("client", ["openai", "sglang"])


@contextmanager
def storm(
    client: str,
    seed: int,
    share: float = 0.6,
    policy: Policy = PATIENT,
    faults: Iterable[Fault] = FAULTS,
    outages: Iterable[int] = (),
    **options: Any,
) -> Iterator[tuple[FaultServer, Counted]]:
    """A run on *client* against a server that injects *faults* into *share* of all requests."""
    script = drawn(seed, share, faults)
    with FaultServer(script, outages=outages, model_path=str(WEIGHTS)) as server:
        counted = Counted(CLIENTS[client](server))
        with Run(counted, policy=policy, concurrency=64, **options):
            yield server, counted
        on_backend_loop(counted.aclose)


@clients
@counts(400, 1100)
def test_every_call_is_answered_once_however_much_fails(client: str, count: int) -> None:
    with storm(client, 1, policy=IN_TIME, outages=(200, 700)) as (server, counted):
        answers = several(range(count))
    assert sum(server.injected.values()) >= 1.37 * count and len(server.injected) == len(FAULTS)
    assert server.deaths == 2
    assert len(answers) == count and set(answers) == {server.answer(q) for q in server.answered}
    assert set(counted.answered.values()) == {1} and len(counted.answered) == count
    assert counted.late == [] and set(counted.errors) <= TYPED | {"CancelledError"}


@clients
@counts(400, 900)
def test_what_the_server_has_answered_is_not_asked_again(client: str, count: int) -> None:
    with storm(client, 2, faults=ENDING) as (server, counted):
        answers = several(range(count))
    assert sum(server.injected.values()) >= 1.39 * count and len(server.injected) == len(ENDING)
    assert len(set(answers)) == count == len(server.answered)
    assert set(server.answered.values()) == set(counted.answered.values()) == {1}
    assert len(server.asks) == count + sum(server.injected.values())
    assert set(counted.errors) <= TYPED


@clients
@counts(200, 500)
def test_a_stream_ends_with_its_answer_or_with_a_typed_error(client: str, count: int) -> None:
    with storm(client, 3, 0.5, IN_TIME, outages=(300,)) as (server, counted):
        found = outcomes(range(count))
    answers = {each for each in found if isinstance(each, str)}
    assert answers <= {server.answer(question) for question in server.answered}
    assert all(isinstance(each, str | BackendError) for each in found), Counter(map(type, found))
    assert len(found) == count and len(answers) > count / 2 and counted.late == []


@clients
def test_a_policy_that_takes_care_of_the_server_gets_all_answers_too(client: str) -> None:
    with storm(client, 4, 0.3, CAREFUL, ENDING, outages=(100,)) as (server, counted):
        answers = several(range(200))
    assert len(set(answers)) == 200 and server.deaths == 1
    assert set(counted.answered.values()) == {1} and counted.late == []


@counts(60, 120)
def test_litellm_gets_through_as_well(count: int) -> None:
    with storm("litellm", 6, 0.5, faults=ENDING) as (server, counted):
        answers = several(range(count))
    assert len(set(answers)) == count and set(server.answered.values()) == {1}
    assert set(counted.answered.values()) == {1}
    assert set(counted.errors) <= TYPED and sum(server.injected.values()) >= 2 / 3 * count


def test_a_storm_is_recorded_and_replayed(tmp_path: Path) -> None:
    path = tmp_path / "storm.trace"
    profile = OpenAI(base_url="http://127.0.0.1/v1", model="fault").profile
    recorder = Recorder(path, {"model": "fault", "profile": profile_data(profile)})
    watching = {"instruments": [recorder], "gate": recorder.gate}
    with storm("openai", 5, policy=IN_TIME, **watching) as (server, _):
        answers = several(range(150))
    recorder.close("finished")
    asked = len(server.asks)
    assert asked > 200
    with replayed(path):
        assert several(range(150)) == answers
    assert len(server.asks) == asked


@pytest.mark.long
@clients
@pytest.mark.parametrize("seed", range(20, 30))
def test_other_seeds(client: str, seed: int) -> None:
    with storm(client, seed, faults=ENDING) as (server, counted):
        assert len(set(several(range(400)))) == 400 == len(server.answered)
    assert set(server.answered.values()) == {1} and set(counted.errors) <= TYPED
    injected = sum(server.injected.values())
    with storm(client, seed, policy=IN_TIME, outages=(100, 300)) as (server, counted):
        assert len(set(several(range(400)))) == 400
    assert set(counted.answered.values()) == {1} and counted.late == []
    injected += sum(server.injected.values())
    with storm(client, seed, 0.4, CAREFUL, ENDING, outages=(100,)) as (server, counted):
        assert len(set(several(range(150)))) == 150
    assert set(counted.answered.values()) == {1} and counted.late == []
    injected += sum(server.injected.values())
    print(f"{client}, seed {seed}: {injected} faults, 950 calls, each answered once")

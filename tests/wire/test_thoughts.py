"""What a model thought goes back to it after everything that a program may do, and to nobody else.

The twins of both providers refuse a thought that comes back changed, moved or to another model;
here they also refuse a conversation that lacks one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import appl
from appl import gen, ppl
from appl.backend import Backend
from appl.errors import BackendRefused
from appl.testing import BackendEndpoint, Fault, Model, Models, Policy, Retries, Run
from appl.tracing import Appender, Recorder, Replayer, Rerunner, Resumer, Trace, profile_data
from appl_backends.anthropic import Anthropic
from appl_backends.openai import OpenAI

from .servers import FaultServer
from .twins import claude, responses
from .twins.chat import JSON
from .twins.judging import closed
from .twins.rules import Asked

ONCE = Policy(retries=Retries(attempts=1))
GONE = Fault("gone", 400, JSON, b'{"error": {"message": "the network is down"}}')


class Watched:
    """A twin that takes part in one conversation, and knows which thoughts it must hold.

    ``wrong`` are the requests that lack one or hold another. The request number *lost* fails.
    """

    def __init__(self, kind: str, seed: int, lost: int = -1) -> None:
        self.kind, self.lost, self.number = kind, lost, 0
        self.twin: Any = TWINS[kind](seed, failing=0)
        self.had: list[str] = []
        self.wrong: list[str] = []

    def __call__(self, ask: Any) -> Fault:
        self.number += 1
        if self.number == self.lost:
            return GONE
        found = thoughts_in(self.kind, Asked(ask.data, ask.path, ask.headers))
        if found != self.had:
            self.wrong.append(f"request {self.number} holds {found}, not {self.had}")
        known = self._known()
        fault: Fault = self.twin(ask)
        self.had = [*self.had, *[each for each in self._known() if each not in known]]
        return fault

    def _known(self) -> list[str]:
        if self.kind == "anthropic":
            return list(self.twin.thoughts)
        outputs = {id(output): output for output in self.twin.outputs.values()}.values()
        return [i["encrypted_content"] for o in outputs for i in o if i["type"] == "reasoning"]

    def check(self) -> None:
        assert not self.wrong and not self.twin.refused
        assert self.had


TWINS: dict[str, Any] = {"responses": responses.Responses, "anthropic": claude.Preserved}
KINDS = pytest.mark.parametrize("kind", TWINS)
SEEDS = range(6)


def thoughts_in(kind: str, asked: Asked) -> list[str]:
    if kind == "responses":
        return [item["encrypted_content"] for item in responses.of_type(asked, "reasoning")]
    found = [block for message in asked.messages for block in claude.blocks(message)]
    return [claude.sign_of(block) for block in found if block["type"] in claude.THOUGHTS]


def backend(kind: str, server: FaultServer, model: str = "") -> Backend:
    if kind == "anthropic":
        return Anthropic(base_url=server.url, api_key="k", model=model or "claude-fable-5-1")
    return OpenAI(base_url=f"{server.url}/v1", interface="responses", server="openai",
                  model=model or "gpt-5-mini")  # fmt: skip


@appl.as_tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@ppl
def talk(*questions: str) -> list[str]:
    found = []
    for at, question in enumerate(questions):
        f"{question}"
        with appl.AIRole():
            (answer := gen(tools=[add], stream=at % 2 == 1))
            answer.run_tool_calls()
            while answer.tool_calls:
                (answer := gen(tools=[add]))
                answer.run_tool_calls()
        found.append(str(answer))
    return found


QUESTIONS = ("One? #p1q0#", "Two? #p1q1#", "Three? #p1q2#", "Four? #p1q3#")


def run(
    kind: str, server: FaultServer, program: Callable[[], Any], path: Path, world: Any = None
) -> Any:
    """What *program* gives, recorded at *path*."""
    asked = backend(kind, server)
    recorder = Recorder(path, {"program": "p", "profile": profile_data(asked.profile)})
    watching = [recorder] if world is None else [world, recorder]
    try:
        with Run(asked, instruments=watching, gate=recorder.gate, world=world, policy=ONCE):
            return program()
    finally:
        recorder.close()
        closed(asked)


@KINDS
@pytest.mark.parametrize("seed", SEEDS)
def test_a_growing_conversation_holds_every_thought_in_its_place(
    kind: str, seed: int, tmp_path: Path
) -> None:
    twin = Watched(kind, seed)
    with FaultServer(twin) as server:
        run(kind, server, lambda: talk(*QUESTIONS), tmp_path / "a.trace")
    twin.check()


@KINDS
@pytest.mark.parametrize("lost", [2, 3, 4])
def test_a_resumed_conversation_holds_the_thoughts_that_were_recorded(
    kind: str, lost: int, tmp_path: Path
) -> None:
    twin, path = Watched(kind, 1, lost), tmp_path / "a.trace"
    with FaultServer(twin) as server:
        with pytest.raises(BackendRefused):
            run(kind, server, lambda: talk(*QUESTIONS), path)
        resumer = Resumer(Trace.open(path))
        appender, asked = Appender(resumer), backend(kind, server)
        try:
            watching = [resumer, appender]
            with Run(asked, instruments=watching, gate=appender.gate, world=resumer):
                assert len(talk(*QUESTIONS)) == 4
        finally:
            appender.close()
            closed(asked)
    twin.check()
    replayer = Replayer(path)
    with Run(replayer.backend, instruments=[replayer], world=replayer):
        assert len(talk(*QUESTIONS)) == 4


@KINDS
def test_a_rerun_with_another_last_question_returns_all_earlier_thoughts(
    kind: str, tmp_path: Path
) -> None:
    twin = Watched(kind, 2)
    with FaultServer(twin) as server:
        run(kind, server, lambda: talk(*QUESTIONS[:3]), tmp_path / "a.trace")
        asked = twin.number
        twin.had = twin.had[: len(thoughts_before(kind, server, "#p1q2#"))]
        again = Rerunner(tmp_path / "a.trace")
        edited = (*QUESTIONS[:2], "Another three? #p2q2#")
        run(kind, server, lambda: talk(*edited), tmp_path / "b.trace", again)
    assert twin.number > asked
    twin.check()


def thoughts_before(kind: str, server: FaultServer, mark: str) -> list[str]:
    """The thoughts in the first request that holds *mark*."""
    first = next(ask for ask in server.asks if mark in str(ask.data))
    return thoughts_in(kind, Asked(first.data, first.path, first.headers))


@KINDS
def test_a_rerun_with_another_first_question_returns_no_thought_of_the_former_run(
    kind: str, tmp_path: Path
) -> None:
    twin = Watched(kind, 3)
    with FaultServer(twin) as server:
        run(kind, server, lambda: talk(*QUESTIONS[:3]), tmp_path / "a.trace")
        twin.had = []
        again = Rerunner(tmp_path / "a.trace")
        edited = ("Nothing? #p2q0#", "Two? #p2q1#", "Three? #p2q2#")
        run(kind, server, lambda: talk(*edited), tmp_path / "b.trace", again)
    twin.check()


@KINDS
def test_a_rerun_of_the_same_program_asks_nothing(kind: str, tmp_path: Path) -> None:
    twin = Watched(kind, 4)
    with FaultServer(twin) as server:
        found = run(kind, server, lambda: talk(*QUESTIONS[:2]), tmp_path / "a.trace")
        asked = twin.number
        again = Rerunner(tmp_path / "a.trace")
        assert run(kind, server, lambda: talk(*QUESTIONS[:2]), tmp_path / "b.trace", again) == found
    assert twin.number == asked


@ppl
def between(*models: str) -> list[str]:
    found = []
    for at, model in enumerate(models):
        f"Question {at} #p1q{at}#"
        with appl.AIRole():
            (answer := gen(model))
        found.append(str(answer))
    return found


OTHERS = {
    "responses": ("responses", "gpt-5"),
    "anthropic": ("anthropic", "claude-fable-5-2"),
    "another provider": ("anthropic", "claude-fable-5-2"),
}


@pytest.mark.parametrize("other", OTHERS)
def test_another_model_gets_no_thought_and_each_gets_its_own_back(
    other: str, tmp_path: Path
) -> None:
    kind = "responses" if other == "another provider" else other
    far_kind, far_model = OTHERS[other]
    one, two = Watched(kind, 5), Watched(far_kind, 6)
    with ExitStack() as stack:
        server = stack.enter_context(FaultServer(one))
        far = stack.enter_context(FaultServer(two))
        first, second = backend(kind, server), backend(far_kind, far, far_model)
        stack.callback(closed, first)
        stack.callback(closed, second)
        names = {"a": Model("", first.profile.default_model), "b": Model("far", far_model)}
        models = Models(first.profile, names=names, others={"far": second.profile})
        places = {"far": BackendEndpoint(second, ONCE)}
        recorder = Recorder(tmp_path / "a.trace", {"profile": profile_data(first.profile)})
        with Run(first, instruments=[recorder], gate=recorder.gate, models=models, places=places):
            between("a", "b", "a", "b", "b", "a")
        recorder.close()
    one.check()
    two.check()
    assert len(one.had) >= 3 and len(two.had) >= 3
    shed = [call.response.shed for call in Trace.open(tmp_path / "a.trace").calls]
    assert all(shed[1:])

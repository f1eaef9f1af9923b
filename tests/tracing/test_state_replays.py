"""State in all its forms: the same values from the naive runtime, every schedule and every replay."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from appl import (
    AIRole,
    PromptContext,
    StringFuture,
    call,
    convo,
    gen,
    need_ctx,
    ppl,
    records,
    reset_context,
    traceable,
)
from appl.backend import Profile
from appl.testing import Echo, Model, Models, Run, Seeded
from appl.tracing import Recorder, Replayer, Trace


class Agent:
    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    @ppl(ctx="resume")
    def tell(self, word: object) -> Any:
        f"{self.name} hears {word}"
        with AIRole():
            (answer := gen())
        return answer


@ppl(ctx="resume", model="cold")
def diary(line: object) -> str:
    f"{line}"
    return str(gen())


@ppl(auto_prime=True)
def bot(name: str) -> Any:
    f"You are {name}."
    reply = None
    while True:
        yield reply
        with AIRole():
            (reply := gen())


@ppl(ctx="same")
def write(word: object) -> None:
    f"{word}: {gen()}"


@ppl(ctx="same", new_ctx_func=PromptContext)
def look() -> str:
    return str(convo())


@traceable(metadata={"step": 1})
def joined(words: list[str]) -> StringFuture:
    return StringFuture(", ").join(gen(messages=word) for word in words)


@need_ctx
def by_hand(_ctx: PromptContext | None = None) -> Any:
    return gen(_ctx=_ctx.copy().grow("by hand")) if _ctx is not None else None


@ppl
def everything() -> list[str]:
    ann, bob = Agent("Ann"), Agent("Bob")
    told = [call(each.tell, word) for word in ("one", "two") for each in (ann, bob)]
    lines = [call(diary, answer) for answer in told]
    lazy = joined(["a", "b", "c"])
    f"So far: {lazy}"
    context = PromptContext().grow("shared")
    placed = [call(write, word, _ctx=context) for word in "xy"]
    first, second = bot("P"), bot("Q")
    said = first.send(second.send("hello"))
    late = by_hand()
    reset_context(ann.tell)
    anew = ann.tell("three")
    for each in placed:
        each.result()
    seen = [str(records()), look(_ctx=context), str(context.messages)]
    return [*map(str, [*told, *lines, lazy, said, late, anew, gen("cold")]), *seen]


async def in_a_loop() -> list[str]:
    @ppl(ctx="resume")
    async def note(word: str) -> str:
        f"{word}"
        return await gen()

    return [str(each) for each in await asyncio.gather(*(note(word) for word in "abc"))]


def program() -> list[str]:
    return [*everything(), *asyncio.run(in_a_loop())]


PROFILE: dict[str, Any] = {"models": ("a", "b"), "default_model": "a"}
COLD = Model(None, "b", {"temperature": 0.0})


def values(backend: Any, **options: Any) -> list[str]:
    models = Models(Profile("echo", **PROFILE), None, {"cold": COLD})
    with Run(backend, models=models, **options):
        return program()


def test_every_schedule_gives_what_the_naive_runtime_gives() -> None:
    naive = values(Echo(**PROFILE), sequential=True)
    assert len(set(naive)) > 12
    for seed in range(6):
        assert values(Seeded(seed, **PROFILE)) == naive


@pytest.mark.parametrize("seed", range(4))
def test_a_replay_gives_it_too_with_no_live_call(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "one.trace"
    recorder = Recorder(path, {"program": "state"}, durability="process")
    expected = values(Seeded(seed, **PROFILE), instruments=[recorder], gate=recorder.gate)
    recorder.close()
    for _ in range(2):
        replayer = Replayer(path)
        found = values(replayer.backend, instruments=[replayer], world=replayer)
        replayer.finish()
        assert found == expected
    trace = Trace.open(path)
    scope = next(each for each in trace.scopes if each.name == "joined")
    assert scope.metadata == {"step": 1} and scope.file == __file__
    assert {call.model for call in trace.calls} == {"a", "b"}
    assert trace.as_data()["scopes"]

"""What type checkers know of decorated functions; checked by mypy and pyright, never run."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Iterator
from typing import Any, assert_type

from appl import (
    Future,
    Generation,
    PromptContext,
    Text,
    call,
    gen,
    map as side_by_side,
    need_ctx,
    partial,
    ppl,
    reset_context,
    traceable,
    wraps,
)


@ppl
def bare(question: str, *, brief: bool = False) -> Generation:
    f"{question}"
    return gen()


@ppl(ctx="copy", model="small")
def called(question: str, times: int = 1) -> list[Generation]:
    f"{question}"
    return [gen() for _ in range(times)]


@ppl(parallel=True)
def beside(question: str) -> str:
    f"{question}"
    return gen()


@ppl()
def empty_parentheses() -> None:
    "x"


@ppl(ctx="copy")
async def awaited(question: str) -> Text:
    f"{question}"
    return await gen()


@ppl(auto_prime=True)
def chat(name: str) -> Generator[Generation | None, str, None]:
    reply = None
    while True:
        yield reply
        (reply := gen())


@ppl
def items(count: int) -> Iterator[Generation]:
    for _ in range(count):
        yield gen()


@ppl
async def stream(count: int) -> AsyncIterator[str]:
    for _ in range(count):
        yield str(await gen())


@ppl(auto_prime=True)
async def achat() -> AsyncGenerator[str, str]:
    said = yield ""
    f"{said}"
    yield await gen()


class Agent:
    """Methods of every kind."""

    @ppl(ctx="resume")
    def talk(self, word: str) -> Generation:
        f"{word}"
        return gen()

    @classmethod
    @ppl
    def made(cls, word: str) -> Generation:
        f"{word}"
        return gen()

    @staticmethod
    @ppl
    def free(word: str) -> Generation:
        f"{word}"
        return gen()

    @property
    @ppl
    def line(self) -> Generation:
        return gen()

    @ppl
    async def later(self, word: str) -> Text:
        f"{word}"
        return await gen()


def parameters() -> None:
    """Signatures are kept exactly."""
    assert_type(bare("x"), Generation)
    assert_type(bare("x", brief=True), Generation)
    assert_type(called("x", 2), list[Generation])
    assert_type(beside("x"), str)
    assert_type(empty_parentheses(), None)
    bare(3)  # type: ignore[arg-type]
    bare("x", True)  # type: ignore[call-arg]
    bare("x", short=True)  # type: ignore[call-arg]
    called()  # type: ignore[call-arg]
    ppl(ctx="other")  # type: ignore[call-overload]
    ppl(docstring_as="tool")  # type: ignore[call-overload]


def methods(agent: Agent) -> None:
    """So is what they are bound to."""
    assert_type(agent.talk("x"), Generation)
    assert_type(Agent.talk(agent, "x"), Generation)
    assert_type(Agent.made("x"), Generation)
    assert_type(Agent.free("x"), Generation)
    assert_type(agent.line, Generation)
    agent.talk()  # type: ignore[call-arg]
    reset_context(agent.talk)
    reset_context(Agent.talk)


async def coroutines(agent: Agent) -> None:
    """And coroutines stay coroutines."""
    waiting: Coroutine[Any, Any, Text] = awaited("x")
    assert_type(await waiting, Text)
    assert_type(await agent.later("x"), Text)
    async for word in stream(2):
        assert_type(word, str)
    assert_type(await achat().asend("x"), str)


def generators() -> None:
    """And generators generators."""
    bot = chat("Ann")
    assert_type(bot.send("hi"), Generation | None)
    for each in items(3):
        assert_type(each, Generation)


def futures(agent: Agent) -> None:
    """Functions that run beside the program give futures of what they return."""
    assert_type(call(bare, "x", brief=True), Future[Text])
    assert_type(call(agent.talk, "x"), Future[Text])
    assert_type(call(len, "abc").result(), int)
    texts: list[Text] = side_by_side(bare, ["a", "b"])
    assert_type(texts[0], Text)
    call(bare, 3)  # type: ignore[call-overload]


async def answers() -> None:
    """An answer is a text in every way, and its value a text that knows more."""
    answer = gen("small", temperature=0.5, stop=["\n"], max_tokens=10)
    assert_type(answer, Generation)
    assert_type(answer.result(), Text)
    assert_type(await answer, Text)
    assert_type(answer.upper(), str)
    assert_type(str(answer), str)
    assert_type(answer.done(), bool)
    text: str = answer
    assert_type(len(text), int)


@traceable
def plain(word: str, count: int = 1) -> list[str]:
    return [word] * count


@traceable("other name", metadata={"version": 1})
async def noted(word: str) -> str:
    return word


@need_ctx
def by_hand(word: str, _ctx: PromptContext | None = None) -> Generation:
    context = _ctx or PromptContext()
    return gen(messages=context.grow(word))


def logged(f: Callable[[str], Generation]) -> Callable[[str], Generation]:
    """A decorator of one's own goes above ``@ppl``."""

    @wraps(f)
    def wrapper(word: str) -> Generation:
        return f(word)

    return wrapper


@logged
@ppl
def decorated(word: str) -> Generation:
    f"{word}"
    return gen()


async def helpers() -> None:
    """Helpers keep signatures too."""
    assert_type(plain("x", 2), list[str])
    assert_type(await noted("x"), str)
    assert_type(by_hand("x"), Generation)
    assert_type(decorated("x"), Generation)
    assert_type(partial(bare, brief=True)("x"), Generation)
    assert_type(functools.partial(called, times=2)("x"), list[Generation])
    assert_type(PromptContext().grow("x").grow(["y"]), PromptContext)
    plain(3)  # type: ignore[arg-type]

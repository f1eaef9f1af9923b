"""Events made by hand, and traces made of them."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from appl.backend import Chunk, Emit, Request, Response, Sample, Sampling, Usage
from appl.prompt import Message, Messages
from appl.runtime.world import Moment
from appl.testing import CallDispatched, CallEnded, CallStarted, Delivered, Event, ScopeEntered
from appl.tracing import Recorder, Replayer, Trace, records
from appl.tracing.format import block, block_file, codec

now = time.monotonic_ns


def asked(address: str, *said: str, ordinal: int | None = None, **given: Any) -> Request:
    """A request whose messages are *said* by the user and the assistant in turn."""
    roles = ("user", "assistant")
    chain = Messages.of(Message(roles[i % 2], text) for i, text in enumerate(said))  # type: ignore[arg-type]
    number = int(address.rpartition(".")[2]) if ordinal is None else ordinal
    model = given.pop("model", "m")
    many = {name: given.pop(name) for name in ("n", "sample", "timeout") if name in given}
    return Request(address, number, model, chain, Sampling(**given), **many)


USAGE = Usage(10, 5, None)


def answer(*texts: str, usage: Usage = USAGE, **given: Any) -> Response:
    return Response(tuple(Sample(text, "stop") for text in texts), usage, "m", **given)


def start(recorder: Any, request: Request, edges: tuple[str, ...] = (), line: int = 7) -> None:
    recorder.on_event(CallStarted(request, "gen", edges, "program.py", line, now()))
    recorder.on_event(CallDispatched(request.address, 1, now()))


def end(
    recorder: Recorder, address: str, outcome: Response | BaseException, told: bool = True
) -> None:
    failed = isinstance(outcome, BaseException)
    event = CallEnded(address, None if failed else outcome, outcome if failed else None, now())  # type: ignore[arg-type]
    recorder.on_event(event)
    if told:
        recorder.on_event(Delivered(address, now()))


def call(recorder: Recorder, address: str, said: str, got: str = "an answer") -> None:
    """One call from start to delivery."""
    start(recorder, asked(address, said))
    end(recorder, address, answer(got))


def small_trace(path: Path, calls: int = 3, close: bool = True, **options: Any) -> Path:
    """A trace of some calls in one scope."""
    recorder = Recorder(path, {"program": "small"}, **options)
    recorder.on_event(ScopeEntered("/small.0", "", "small", "program.py", 1, now()))
    for i in range(calls):
        call(recorder, f"/small.0/gen.{i}", f"question {i}", f"answer {i}")
    if close:
        recorder.close()
    else:
        recorder.barrier()
        recorder.writer.abandon()  # as a process does that dies
    return path


def put_in_a_block_for_each_call(path: Path) -> list[int]:
    """Write the trace anew, as a quick machine groups calls that are told one by one: the ends of
    its blocks. A slow one puts a call into two.
    """
    encoder, data, group, ends = block_file.Encoder(key=bytes(32)), block.MAGIC, b"", list[int]()
    for record in records(path):
        group += codec.pack(record)
        if record[0] in "IVZ":  # a process, a delivery, the close
            data, group = data + encoder.block(group), b""
            ends.append(len(data))
    path.write_bytes(data)
    return ends


def read_back(path: Path, recorder: Recorder) -> Trace:
    recorder.close()
    return Trace.open(path)


class Alone:
    """Programs of which each waits for what it has asked."""

    amend: Any = None
    over = False
    rests = True

    def held_by(self, world: Any) -> None:
        pass

    def charged(self, call: object, response: object, requests: int) -> None:
        """No block has a budget."""

    def refusal(self, call: object) -> None:
        """No budget refuses a call."""

    def answered_by(self, world: Any, *, caches: bool = True) -> None:
        pass

    def report_to(self, instrument: Any) -> None:
        pass

    def emit(self, event: Event) -> None:
        pass

    def look_soon(self) -> None:
        pass

    def moved(self) -> None:
        pass

    def nobody_can_proceed(self, patience_s: float) -> bool:
        return True

    def idle_for(self, seconds: float) -> bool:
        return True

    def recalled(self, call: Any, response: Response, requests: int) -> None:
        pass


@dataclass(eq=False)
class Question:
    """What a world wants to know of a call."""

    request: Request
    emit: Emit | None = None
    outcome: object = None
    file: str | None = None
    line: int | None = None

    @property
    def address(self) -> str:
        return self.request.address

    def edges(self) -> tuple[str, ...]:
        return ()


async def answered(replayer: Replayer, request: Request, emit: Emit | None = None) -> Response:
    """What *request* gets in its turn; *emit* gets the pieces."""
    future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()

    def tell(told: Any) -> None:
        if isinstance(told, Chunk):
            assert emit is not None
            emit(told)
        elif isinstance(told, BaseException):
            future.set_exception(told)
        else:
            future.set_result(told)

    replayer.opens(Alone())
    question: Any = Question(request, emit)
    replayer.expect(Moment(request.address, "answer"), tell, _never, question)
    return await future


def _never() -> None:
    raise AssertionError("asked live")


async def replayed(replayer: Replayer, *requests: Request) -> list[str | BaseException]:
    """What each of *requests* gets, asked all at once; let go one by one while all wait."""
    order: list[str] = []

    async def one(request: Request) -> str:
        try:
            return (await answered(replayer, request)).text
        finally:
            order.append(request.address)

    tasks = [asyncio.ensure_future(one(request)) for request in requests]
    for _ in range(len(tasks) + 1):
        for _ in range(3):
            await asyncio.sleep(0)
        if not all(task.done() for task in tasks):
            replayer.idle()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    replayed.order = order  # type: ignore[attr-defined]
    return results

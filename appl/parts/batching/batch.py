"""One batch: it is recorded, sent, looked at until it has ended, read, and tidied.

Invariant: that it may be sent is on disk before it is, and it is sent once under its key. What is
read of it stays at the provider until the answers are on disk.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from appl.backend import Request
from appl.base.moments import moment_of
from appl.base.status_line import terminal
from appl.errors import Awaited, BackendError, BackendRefused, BackendUnavailable, InDoubtBatch
from appl.parts.batching.provider import (
    BatchItem,
    BatchPlan,
    BatchProvider,
    BatchStatus,
    Intent,
    Outcome,
)

if TYPE_CHECKING:
    from appl.parts.batching.gathering import AtOnce
    from appl.tracing.reading.batches import Item, RecordedBatch

_WORTH_S = 1800.0
"""Seconds after which it is worth to look again for a batch that a run has left."""
_REQUEST_S = 900.0
"""Seconds for one request to the provider, which may carry 200 MB."""


class Surroundings(Protocol):
    """The parts of a run that a batch needs."""

    plan: BatchPlan
    waits: bool

    def note(self, key: str, state: str, facts: dict[str, object], calls: Iterable[str]) -> None:
        """Record that the batch *key* has reached *state*."""

    async def committed(self) -> None:
        """Return when all that was noted is on disk. Raises ``TraceWriteError``."""

    def look_soon(self) -> None:
        """Look whether no program can go on."""

    def stays(self) -> None:
        """Look later whether the run may end as waiting for a batch that was just sent."""

    def say(self, line: str) -> None:
        """Show the user a line."""

    def fail(self, error: Exception) -> None:
        """End the run with *error*."""


class BatchQuestion:
    """One question that waits for its ``answer`` in a batch."""

    __slots__ = ("answer", "item", "place")

    def __init__(self, request: Request, item: BatchItem) -> None:
        self.item = item
        self.place: Item = request.address, request.sample, request.n
        self.answer: asyncio.Future[Outcome | AtOnce]
        self.answer = asyncio.get_running_loop().create_future()

    def end(self, outcome: Outcome | AtOnce) -> None:
        """Tell whoever waits."""
        if not self.answer.done():  # else its program has cancelled it
            self.answer.set_result(outcome)


class Batch:
    """A batch of questions of one kind to the *provider* of *backend*.

    It ``is_away`` until its answers were read, or nothing will come of it, ``is_read`` while files
    of it may still be at the provider, and ``is_tidied`` when they are being removed.
    """

    def __init__(
        self, key: str, kind: str, backend: str, provider: BatchProvider, around: Surroundings
    ) -> None:
        self.intent = Intent(key, kind, 0)
        self.backend, self._provider, self._around = backend, provider, around
        self.status: BatchStatus | None = None
        self.is_away, self.is_read, self.is_tidied = True, False, False
        self._places: dict[Item, str] = {}
        self._questions: dict[str, BatchQuestion] = {}
        self._outcomes: dict[str, Outcome] | None = None
        self._files: tuple[str, ...] = ()
        self._given_up = self._was_read = False
        self._shown = False
        self._known: str | None = None
        self._began = time.monotonic()
        self._sent_at: float | None = None

    @classmethod
    def recorded(
        cls,
        record: RecordedBatch,
        backend: str,
        provider: BatchProvider,
        around: Surroundings,
        others: frozenset[str],
    ) -> Batch:
        """The batch of *record*, made by an earlier process; *others* are known not to be it."""
        facts = record.facts
        batch = cls(record.key, str(facts.get("kind")), backend, provider, around)
        batch._places = {item: batch._name(at) for at, item in enumerate(record.items())}
        intent, file = batch.intent, facts.get("file")
        intent.count, intent.others = len(record.calls), others
        intent.wall = moment_of(facts.get("wall")) or 0.0
        intent.file = file if isinstance(file, str) else None
        batch._known, batch._was_read = record.id, record.state == "ended"
        files = [intent.file] if intent.file else []
        named = facts.get("files")
        files += named if isinstance(named, list) else []
        batch._files = tuple(
            dict.fromkeys(file_id for file_id in files if isinstance(file_id, str))
        )
        return batch

    def add(self, questions: Sequence[BatchQuestion]) -> None:
        """Take in *questions*, before it is sent."""
        for question in questions:
            name = self._places[question.place] = self._name(len(self._places))
            self._questions[name] = question
        self.intent.count = len(self._places)

    def _name(self, number: int) -> str:
        return f"{self.intent.key}-{number}"

    def join(self, question: BatchQuestion) -> None:
        """Have *question*, which is in it, answered by it."""
        name = self._places[question.place]
        if self._outcomes is not None:
            question.end(self._outcome(name))
        else:
            self._questions[name] = question

    def give_up(self) -> None:
        """Have the provider answer no more of it; what is answered by then counts."""
        self._given_up = True

    # -- its life, as a task each

    async def send(self) -> None:
        """Record that it is sent, send it, and have its questions answered."""
        try:
            await self._send()
        except BackendError as error:
            self._refused(error)
        except Exception as error:
            self._broken(error)

    async def go_on(self) -> None:
        """Go on with a batch that an earlier process has sent, or may have sent."""
        self._leaves()
        try:
            status = None
            if self._known is None:
                status = await self._found()
                self._note("sent", id=status.id)
            await self._read(status or await self._patient_look(self._known or ""))
        except BackendError as error:
            if self._was_read and isinstance(error, BackendRefused) and error.status == 404:
                self._gone()
            else:
                self._ended(error)
        except Exception as error:
            self._broken(error)

    async def _send(self) -> None:
        intent, provider = self.intent, self._provider
        items = {name: question.item for name, question in self._questions.items()}
        self._note("gathered", kind=intent.kind, backend=self.backend, **self._parts())
        await self._around.committed()
        async with asyncio.timeout(_REQUEST_S):
            intent.file = await provider.upload(intent, items)
        intent.wall = time.time()
        file = {} if intent.file is None else {"file": intent.file}
        self._note("sending", wall=intent.wall, **file)
        self._leaves()
        # From here on the provider may have it. A process that is killed before it is told so finds
        # this record, and looks for the batch instead of sending it once more.
        await self._around.committed()
        try:
            async with asyncio.timeout(_REQUEST_S):
                status = await provider.send(intent, items)
        except (BackendError, TimeoutError) as error:
            if isinstance(error, BackendError) and _was_refused(error):
                raise
            self._around.say(
                f"the batch {intent.key} may have been sent, or not ({error}); it is looked for"
            )
            status = await self._found()
        self._note("sent", id=status.id)
        calls = f"{intent.count} calls" if intent.count > 1 else "1 call"
        self._around.say(f"{calls} went to {self.backend} as the batch {status.id}")
        await self._read(status)

    def _leaves(self) -> None:
        self._sent_at = time.monotonic()
        self._around.stays()

    def _parts(self) -> dict[str, object]:
        """The fact that says which samples are asked for, unless it is the first one of each."""
        pairs = [(sample, n) for _, sample, n in self._places]
        if all(pair == (0, 1) for pair in pairs):
            return {}
        return {"parts": [number for pair in pairs for number in pair]}

    async def _found(self) -> BatchStatus:
        """The batch at the provider. Raises ``InDoubtBatch`` if it does not show up there."""
        plan, pause = self._around.plan, self._around.plan.first_s
        while True:
            try:
                async with asyncio.timeout(_REQUEST_S):
                    search = await self._provider.find(self.intent)
            except (BackendError, TimeoutError) as error:
                if isinstance(error, BackendError) and not error.retriable:
                    raise
            else:
                if search.status is not None:
                    return search.status
                if not search.candidates and time.time() >= self.intent.wall + plan.doubt_s:
                    raise self._in_doubt()
            await asyncio.sleep(pause)
            pause = min(2 * pause, plan.longest_s)

    def _in_doubt(self) -> InDoubtBatch:
        key = self.intent.key
        return InDoubtBatch(
            f"a batch of {self.intent.count} calls was being sent to {self.backend} when that was "
            f"broken off, and no batch with its key {key} is there: it may still come, and is not "
            "sent once more by itself\n  either, if you are sure that it is not there, send it "
            f"again: appl trace resume RUN --rerun {key}\n  or say which one it is: appl trace "
            f"resume RUN --assume {key}=ID_OF_THE_BATCH",
            key=key,
        )

    async def _patient_look(self, id: str) -> BatchStatus:
        """The state of the batch *id*, as soon as the provider tells it."""
        pause = self._around.plan.first_s
        while True:
            try:
                async with asyncio.timeout(_REQUEST_S):
                    return await self._provider.look(id)
            except (BackendError, TimeoutError) as error:
                if isinstance(error, BackendError) and not error.retriable:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, self._around.plan.longest_s)

    async def _read(self, status: BatchStatus) -> None:
        """Wait until it has ended, and hand out what has come of it."""
        plan, pause, is_cancelling = self._around.plan, self._around.plan.first_s, False
        self.show(status)
        while not status.ended:
            if self._given_up and not is_cancelling:
                await self._cancel(status.id)
                is_cancelling, pause = True, plan.first_s
            await self._pause(pause, is_cancelling)
            pause = min(1.5 * pause, plan.longest_s)
            status = self.status = await self._patient_look(status.id)
        self.status = status
        if status.error is not None:
            self._files = status.files
            self._note_end(status)
            self._ended(status.error)
            return
        outcomes = await self._patient_results(status)
        self._note_end(status)
        self._files, self._outcomes = status.files, outcomes
        self._over()
        for name, question in self._questions.items():
            question.end(self._outcome(name))

    def _note_end(self, status: BatchStatus) -> None:
        counts, files = [status.done, status.total], list(status.files)
        self._note("ended", counts=counts, word=status.word, files=files)

    async def _pause(self, seconds: float, is_cancelling: bool) -> None:
        """Wait, but not past the moment at which it is given up."""
        until = time.monotonic() + seconds
        while (remaining_s := until - time.monotonic()) > 0 and (
            is_cancelling or not self._given_up
        ):
            await asyncio.sleep(min(remaining_s, 1.0))

    async def _cancel(self, id: str) -> None:
        try:
            async with asyncio.timeout(_REQUEST_S):
                await self._provider.cancel(id)
        except (BackendError, TimeoutError) as error:  # it has ended meanwhile, or ends in time
            self._around.say(f"the batch {id} could not be cancelled: {error}")

    async def _patient_results(self, status: BatchStatus) -> dict[str, Outcome]:
        pause = self._around.plan.first_s
        while True:
            try:
                async with asyncio.timeout(_REQUEST_S):
                    return {name: it async for name, it in self._provider.results(status)}
            except (BackendError, TimeoutError) as error:
                if isinstance(error, BackendError) and not error.retriable:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, self._around.plan.longest_s)

    def _outcome(self, name: str) -> Outcome:
        assert self._outcomes is not None and self.status is not None
        outcome = self._outcomes.get(name)
        if outcome is not None:
            return outcome
        if self.status.missing is not None:
            return self.status.missing
        return BackendUnavailable(
            f"the batch {self.status.id} has no outcome of {name}", worked=False
        )

    # -- its ends

    def _refused(self, error: BackendError) -> None:
        """The provider has not taken it: nothing is paid, and its questions fail, or try again."""
        self._note("refused")
        self._files = () if self.intent.file is None else (self.intent.file,)
        self._ended(error)

    def _gone(self) -> None:
        """Its files were removed, so what was answered is recorded, and the rest was not paid."""
        assert self.status is not None
        self._outcomes, self.status = {}, replace(self.status, missing="expired")
        self._over()
        for name, question in self._questions.items():
            question.end(self._outcome(name))

    def _ended(self, error: BackendError) -> None:
        self._over()
        for question in self._questions.values():
            question.end(error)

    def _broken(self, error: Exception) -> None:
        """End the run: it is not known what became of the batch, or the trace cannot tell."""
        self.is_away = False
        self.hide()
        self._around.fail(error)

    def _over(self) -> None:
        self.is_away, self.is_read = False, True
        self.hide()
        self._around.look_soon()

    async def tidy(self) -> None:
        """Remove its files at the provider, once the answers are on disk."""
        try:
            await self._around.committed()
            async with asyncio.timeout(_REQUEST_S):
                await self._provider.remove(self.intent, self._files)
        except Exception as error:
            self._around.say(
                f"files of the batch {self.intent.key} are left at {self.backend} for 30 days, as "
                f"they could not be removed: {error}"
            )
        else:
            self._note("removed")

    def _note(self, state: str, **facts: object) -> None:
        calls = [address for address, *_ in self._places] if state == "gathered" else ()
        self._around.note(self.intent.key, state, facts, calls)

    @property
    def is_left(self) -> bool:
        """True if it has been away for so long that the run may end as waiting for it."""
        since = self._sent_at
        stays = self._around.plan.stay_s
        return self.is_away and since is not None and time.monotonic() - since >= stays

    def awaited(self) -> Iterator[Awaited]:
        """The waits for it, call by call."""
        status, now = self.status, time.time()
        name = self.intent.key if status is None else status.id
        text = f"batch {name} of {self.intent.count} calls at {self.backend}"
        if status is None:
            text += ", which may have been sent or not"
        due = max(self.intent.wall, now) + _WORTH_S
        for question in self._questions.values():
            if not question.answer.done():
                yield Awaited(question.place[0], "batch", text, due)

    # -- for who looks on

    def show(self, status: BatchStatus) -> None:
        """Show a line on the terminal while it is away."""
        self.status = status
        if not self._shown:
            self._shown = True
            terminal.show(self)

    def hide(self) -> None:
        """Show the line no more."""
        if self._shown:
            self._shown = False
            terminal.hide(self)

    def shown(self) -> object:
        """The line."""
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        status = self.status
        if status is None:
            return f"batch {self.intent.key}: {minutes}:{seconds:02}"
        done = f"{status.done} of {self.intent.count} done"
        return f"batch {status.id}: {status.word}, {done}, {minutes}:{seconds:02}"


def _was_refused(error: BackendError) -> bool:
    """True if the provider has certainly not taken what it was sent."""
    if error.worked is False:  # it was not sent
        return True
    status = error.status or 0
    return 400 <= status < 500 and status not in (408, 409, 425)

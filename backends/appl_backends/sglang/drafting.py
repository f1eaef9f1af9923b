"""A second server of the same model that speculates, and the calls that go there.

A server with ``--speculative-algorithm NGRAM`` looks up what it has answered before, or texts that
it was given, tries several of their tokens in one step and keeps those that the model would have
chosen anyway. That is faster as long as enough of them are kept. It loses otherwise, the more the
more calls are answered at once, and cannot be switched off for a call. Even one call there that
gains nothing costs the others, if both servers share a GPU: on an H200 the plain one halved its
speed meanwhile. So no call goes there to try it out: the answer that the plain server has given
shows what its recorded answer would have been worth as a draft, and calls are sent to the server
that speculates once that is enough. If drafts turn out worse there, few calls go on being sent.

Invariant: an answer is the same from either server; only its time differs. What the server that
speculates would answer otherwise, refuses or fails at is asked of the plain one.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from appl.backend import Draft, DraftRun, Request, Sampling, canonical
from appl.errors import (
    BackendError,
    BackendRefused,
    BackendUnavailable,
    ConfigError,
    PromptTooLong,
    Unsupported,
)
from appl_backends.sglang.answers import answers, ids_in
from appl_backends.sglang.model_folder import ends_of
from appl_backends.sglang.probe import ServerFacts, probe
from appl_backends.sglang.wire import Wire

if TYPE_CHECKING:
    from appl_backends.sglang.server_setup import Ready

MOST = 16
"""The most calls in flight at both servers with which a further one may go to the one that
speculates. On an H200, 64 of them gain nothing even if all tokens are kept."""
_LOAD_S = 120.0
_CLOSE_S = 10.0
_AWAY_S = 30.0
_SILENT_S = 10.0
_TRIED = 64
"""One of so many calls tries whether drafts have become better."""
_FORGOTTEN = 0.8
"""What an answer leaves of the weight of those before it."""
_COMPARED = 4000
"""The first so many characters of a recorded answer are compared with the answer."""
_BEHIND = 1000
"""So many tokens of an answer are compared more than those of a shorter recorded one."""
_NEUTRAL: Mapping[str, float] = {
    "frequency_penalty": 0,
    "min_new_tokens": 0,
    "min_p": 0,
    "presence_penalty": 0,
    "repetition_penalty": 1,
}
"""Parameters that SGLang applies once a step, or not at all, where it speculates; and the values
with which they change nothing."""
_MARGIN = 8
"""The server keeps a few tokens of its room."""
_NGRAMS = (3, 2, 1)
"""The lengths of the ends of a text that are looked up, the longest first."""


def break_even(running: int) -> float:
    """The tokens that a step must give with so many answers at once to take no longer than plain.

    Measured on an H200 with a model of the shape of Llama 8B: 1.6 to 1.9 for one answer, 2.1 to 2.6
    for eight, 5.8 to 6.7 for 64. The least favourable of these are met.
    """
    return 1.8 + 0.1 * running


def steps_with(draft: Sequence[int], answer: Sequence[int], tokens: int) -> int:
    """The steps in which *answer* comes from a server that looks drafts up in *draft*.

    A step tries the next *tokens* tokens of the draft, keeps those that are right, and adds one.
    Where the draft went astray, it goes on behind the place in it that ends like the answer does.
    """
    places: dict[tuple[int, ...], int] = {}
    for at in range(1, len(draft)):
        for size in _NGRAMS:
            if size <= at:
                places[tuple(draft[at - size : at])] = at
    done, steps, place = 1, 0, -1  # the first token comes with the prompt
    while done < len(answer):
        if place < 0 or draft[place - 1] != answer[done - 1]:
            ends = (tuple(answer[max(0, done - size) : done]) for size in _NGRAMS)
            place = next((places[end] for end in ends if end in places), -1)
        kept = 0
        if place > 0:
            while (
                kept < tokens
                and place + kept < len(draft)
                and done + kept < len(answer)
                and draft[place + kept] == answer[done + kept]
            ):
                kept += 1
            place = place + kept + 1 if place + kept < len(draft) else -1
        done += kept + 1
        steps += 1
    return steps


class Acceptance:
    """The tokens a step of the last answers; 0 while there are none."""

    def __init__(self) -> None:
        self._tokens = self._steps = 0.0

    def add(self, tokens: int, steps: int) -> None:
        """Note an answer of so many *tokens* in so many *steps*."""
        self._tokens = self._tokens * _FORGOTTEN + tokens
        self._steps = self._steps * _FORGOTTEN + steps

    @property
    def length(self) -> float:
        """The tokens that a step gives."""
        return self._tokens / self._steps if self._steps else 0.0


class DraftingServer:
    """Chooses between the server behind *plain* and the one behind *wire*, which speculates.

    A call with a recorded answer goes there once the answers before it were enough like their
    recorded ones, until the steps of the server say otherwise. ``likely`` is what recorded answers
    of the call itself (True) and of others like it (False) would have been worth, ``shown`` what
    they were worth. ``in_flight`` are the calls at both servers. ``encode`` makes tokens of a text,
    and is set when the tokenizer is known; a step tries ``tokens`` of them. ``chosen`` gives the
    parameters with which a call is sampled, ``ends`` are the tokens that end an answer. ``server``
    is what the server has said of itself, ``None`` while it is not known to be there. A server
    that says nothing of itself for ``patience`` seconds, or nothing to a call that is cancelled
    then, is left alone for a while. *advise* is told if it does not take what is given to it.
    """

    def __init__(self, wire: Wire, plain: Wire, advise: Callable[[str], None]) -> None:
        self.wire, self._plain, self._advise = wire, plain, advise
        self.server: ServerFacts | None = None
        self.chosen: Callable[[Sampling], Mapping[str, Any]] = lambda sampling: {}
        self.ends: frozenset[int] = frozenset()
        self._beside = ServerFacts()
        self.likely = {True: Acceptance(), False: Acceptance()}
        self.shown = {True: Acceptance(), False: Acceptance()}
        self.encode: Callable[[str], Sequence[int]] | None = None
        self.tokens, self.in_flight = 7, 0
        self.patience = _SILENT_S
        # Calls that end together leave room for others at once, and there are few for a moment.
        self._lately: deque[int] = deque(maxlen=2 * MOST)
        self._declined = 0
        self._away_until = float("-inf")
        self._checking: asyncio.Task[None] | None = None
        self._runs: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._given: list[str] = []

    async def connect(self, plain: ServerFacts) -> None:
        """See that both servers answer alike. Raises ``ConfigError`` if they do not.

        A server that cannot be asked is left alone for a while.
        """
        self._beside = plain
        if self.server is None and time.monotonic() < self._away_until:
            return
        try:
            await self._check()
        except BackendError as error:
            self._advise(f"nothing is sent to the server that speculates at present: {error}")
            self.unavailable()

    def knows(self, ready: Ready) -> None:
        """Use the tokenizer of the model, and what its files say."""
        self.encode, self.chosen = ready.prompts.tokenizer.encode, ready.parameters.chosen
        end = ready.prompts.template.tokens.get("eos_token", "")
        named = ready.prompts.tokenizer.special.get(end)
        self.ends = ends_of(ready.folder).union(() if named is None else (named,))

    async def _check(self) -> None:
        """Know the server as one that answers like the plain one.

        Raises ``ConfigError`` if it does not, ``BackendError`` if it cannot be asked.
        """
        self.server, plain = None, self._beside
        here = await self.wire.within(self.patience, probe(self.wire), "/server_info")
        self.wire.names(here.model)
        if here.model != plain.model:
            raise ConfigError(
                f"the servers at url= and drafting= have different models: {plain.model!r:.99} and "
                f"{here.model!r:.99}"
            )
        algorithm = here.facts.get("speculative_algorithm")
        if algorithm != "NGRAM":
            raise ConfigError(
                "drafting= of sglang is the url of a server with --speculative-algorithm NGRAM; "
                f"the one at {self.wire.url} has {algorithm!r:.40}"
            )
        tokens = here.facts.get("speculative_num_draft_tokens")
        if type(tokens) is int and tokens > 1:
            self.tokens = tokens - 1  # one is the token that is there already
        self.server = here

    async def _check_again(self) -> None:
        try:
            await self._check()
        except BackendError:
            self.unavailable()
        except ConfigError as error:  # another server has been started there
            self._advise(f"nothing is sent to the server that speculates any more: {error}")
            self._away_until = float("inf")

    def _is_there(self) -> bool:
        """True if the server is known; one that was away is asked again, for later calls."""
        if self.server is None and time.monotonic() >= self._away_until:
            self._away_until = time.monotonic() + _AWAY_S
            self._checking = self._started(self._check_again())
        return self.server is not None

    def _started(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def choose(self, request: Request, size: int = 0) -> Wire:
        """The server for *request*, whose prompt has *size* tokens, now."""
        self._lately.append(self.in_flight)
        draft = request.draft
        if draft is None or not self._is_there():
            return self._plain
        if draft.run is not None:
            self._offer(draft.run)
        if self._is_busy or not self._answers_alike(request, size):
            return self._plain
        least, shown = break_even(self.in_flight + 1), self.shown[draft.own].length
        if self.likely[draft.own].length < least:
            return self._plain
        if shown and shown < least:
            self._declined += 1
            if self._declined % _TRIED:
                return self._plain
        return self.wire

    def _answers_alike(self, request: Request, size: int) -> bool:
        """True if the server answers *request* as the plain one does."""
        if request.sampling.seed is not None and self._beside.deterministic:
            return False  # a seed gives other samples where several tokens are drawn at once
        chosen = self.chosen(request.sampling)
        if any(chosen.get(name) not in (None, neutral) for name, neutral in _NEUTRAL.items()):
            return False
        room = _room(self.server or ServerFacts())
        if room >= _room(self._beside):
            return True
        # A server shortens what it has no room for, and says nothing of that.
        most, messages = chosen.get("max_new_tokens"), request.messages
        if type(most) is not int or (messages is not None and messages.needs):
            return False
        return size + most <= room

    @property
    def _is_busy(self) -> bool:
        return max(self._lately, default=0) >= MOST

    async def asked(
        self,
        request: Request,
        size: int,
        send: Callable[[Wire], Awaitable[Any]],
        begun: Callable[[], bool] | None = None,
    ) -> Any:
        """The reply to *request* of the chosen server, to which *send* sends it.

        What the server that speculates fails at is sent to the plain one, unless the answer has
        *begun* to be told. *size* is the length of the prompt. Raises ``BackendError``.
        """
        wire, since = self.choose(request, size), time.monotonic()
        self.in_flight += 1
        try:
            if wire is self.wire:
                try:
                    found = answers(await send(wire), request.n, wire.who)
                    self._check_end(request.sampling, found)
                except asyncio.CancelledError:
                    waited = time.monotonic() - since
                    if waited >= self.patience and not (begun is not None and begun()):
                        self.unavailable()  # it may answer nobody, and the call may be asked again
                    raise
                except BackendError as error:
                    if not isinstance(error, _REFUSED):
                        self.unavailable()
                    if begun is not None and begun():
                        raise
                    wire = self._plain
            if wire is self._plain:
                found = await send(wire)
        finally:
            self.in_flight -= 1
        if request.draft is not None:
            self.answered(request.draft, found, speculated=wire is self.wire)
        return found

    def _check_end(self, sampling: Sampling, found: Sequence[Mapping[str, Any]]) -> None:
        """Refuse a reply that goes on behind its end. Raises ``BackendRefused``.

        SGLang looks at the length first: where the last step of an answer is longer than the
        tokens that were left, it overlooks what would have ended the answer in the middle of it.
        """
        ends = self.ends.union(sampling.stop_tokens)
        if dict(sampling.extra).get("ignore_eos"):
            ends = frozenset()
        for each in found:
            has_stop = any(stop in each["text"] for stop in sampling.stop)
            if has_stop or not ends.isdisjoint(each["output_ids"][:-1]):
                raise BackendRefused(
                    f"{self.wire.who} went on behind the end of its answer; ask again"
                )

    def answered(self, draft: Draft, found: Any, speculated: bool) -> None:
        """Note what *draft* was worth for *found*, the reply, or what it would have been worth."""
        for number, each in enumerate(found if isinstance(found, list) else [found]):
            if not isinstance(each, Mapping):
                continue
            meta, text = each.get("meta_info"), each.get("text")
            if speculated and isinstance(meta, Mapping):
                tokens, steps = meta.get("completion_tokens"), meta.get("spec_verify_ct")
                if type(tokens) is int and type(steps) is int and 0 < steps < tokens:
                    # The first token comes with the prompt, without a step. The server counts it in
                    # spec_accept_length, which is 2 for an answer of two tokens without a draft.
                    self.shown[draft.own].add(tokens - 1, steps)
            if self.encode and not self._is_busy and draft.samples and isinstance(text, str):
                sample = draft.samples[min(number, len(draft.samples) - 1)]
                recorded = (sample.reasoning or "") + sample.text
                theirs = self.encode(recorded[:_COMPARED])
                # The server encodes the texts that it is given. A model may have written the same
                # text with other tokens, which such a draft does not hit.
                ours = ids_in(each.get("output_ids")) or self.encode(text[: 2 * _COMPARED])
                behind = 0 if len(recorded) > _COMPARED else _BEHIND
                ours = ours[: len(theirs) + behind]
                if len(ours) > 1:
                    steps = steps_with(theirs, ours, self.tokens)
                    self.likely[draft.own].add(len(ours) - 1, steps)

    def unavailable(self) -> None:
        """Note that the server could not be asked: for a while nothing is sent there."""
        self.server, self._away_until = None, time.monotonic() + _AWAY_S
        self._runs.clear()  # it may come back with nothing in its memory

    # -- the texts that the server looks drafts up in

    def _offer(self, run: DraftRun) -> None:
        """Have the server load the texts of *run*, once; no call waits for that."""
        known = self._runs.get(run.name)
        if known is None or known.cancelled():
            self._runs[run.name] = self._started(self._load(run))

    async def _load(self, run: DraftRun) -> None:
        name, path = f"appl-{run.name}", "/add_external_corpus"
        body = canonical({"corpus_id": name, "documents": list(run.texts)}).encode("ascii")
        try:
            known = await self.wire.get("/list_external_corpora")
            counts = known.get("corpus_token_counts") if isinstance(known, Mapping) else None
            if not isinstance(counts, Mapping) or name not in counts:
                if name not in self._given:
                    self._given.append(name)  # it is loaded even if whoever asked has gone
                await self.wire.within(_LOAD_S, self.wire.post(path, body), path)
        except BackendError as error:
            self._advise(f"recorded answers were not loaded as drafts: {error}")
            if isinstance(error, BackendUnavailable):
                self.unavailable()

    async def aclose(self) -> None:
        """Have the server forget the texts that it was given, and close the connections."""
        await self._end_tasks()
        path = "/remove_external_corpus"
        for name in self._given:
            body = canonical({"corpus_id": name}).encode("ascii")
            try:
                await self.wire.within(_CLOSE_S, self.wire.post(path, body), path)
            except BackendRefused:
                continue  # this one it has not taken
            except BackendError:
                break  # a server that is gone has forgotten them as well
        await self.wire.aclose()

    async def _end_tasks(self) -> None:
        """Wait for texts that are being loaded, which a server cannot remove; end what is left."""
        here, mine = asyncio.get_running_loop(), set[asyncio.Task[None]]()
        for task in list(self._tasks):
            loop = task.get_loop()
            if loop is here:
                mine.add(task)
            elif not loop.is_closed():
                loop.call_soon_threadsafe(task.cancel)
        if self._checking is not None and self._checking in mine:
            self._checking.cancel()
        if mine:
            await asyncio.wait(mine, timeout=_CLOSE_S)
        for task in mine:
            task.cancel()
        await asyncio.gather(*mine, return_exceptions=True)


_REFUSED = (BackendRefused, PromptTooLong, Unsupported)
"""Errors of a server that is there, and does not take the one call."""


def _room(server: ServerFacts) -> float:
    """The tokens of prompt and answer together that *server* does not shorten, as far as known."""
    page, most = server.facts.get("page_size"), server.facts.get("max_total_num_tokens")
    rooms = [each for each in (server.context, server.longest) if each is not None]
    if type(most) is int:
        rooms.append(most - (page if type(page) is int else 1) - _MARGIN)
    return min(rooms, default=float("inf"))

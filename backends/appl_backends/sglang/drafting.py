"""A second server of the same model that speculates, and the calls that go there.

A server with ``--speculative-algorithm NGRAM`` looks up what it has answered before, or texts that
it was given, tries several of their tokens in one step and keeps those that the model would have
chosen anyway. That is faster as long as enough of them are kept. It loses otherwise, the more the
more calls are answered at once, and cannot be switched off for a call. So calls are sent there one
by one, as long as it pays.

Invariant: an answer is the same from either server; only its time differs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from appl.backend import DraftRun, Request, canonical
from appl.errors import BackendError, BackendUnavailable, ConfigError
from appl_backends.sglang.probe import ServerFacts, probe
from appl_backends.sglang.wire import Wire

MOST = 16
"""The most calls in flight at both servers with which a further one may go to the one that
speculates. On an H200, 64 of them gain nothing even if all tokens are kept."""
FIRST = 4
"""The most calls there while no answer has shown what drafts are worth."""
_LOAD_S = 120.0
_CLOSE_S = 10.0
_AWAY_S = 30.0
_TRIED = 64
"""One of so many calls tries whether drafts have become better."""
_FORGOTTEN = 0.8
"""What an answer leaves of the weight of those before it."""


def break_even(running: int) -> float:
    """The tokens that a step must give with so many answers at once to take no longer than plain.

    Measured on an H200 with a model of the shape of Llama 8B: 1.6 to 1.9 for one answer, 2.1 to 2.6
    for eight, 5.8 to 6.7 for 64. The least favourable of these are met.
    """
    return 1.8 + 0.1 * running


class Acceptance:
    """The tokens a step of the last answers of one kind; of *first* while there are none."""

    def __init__(self, first: float) -> None:
        self._first, self._tokens, self._steps = first, 0.0, 0.0

    def add(self, tokens: int, steps: int) -> None:
        """Note an answer of so many *tokens* in so many *steps*."""
        self._tokens = self._tokens * _FORGOTTEN + tokens
        self._steps = self._steps * _FORGOTTEN + steps

    @property
    def is_known(self) -> bool:
        """True if there was an answer."""
        return self._steps > 0

    @property
    def length(self) -> float:
        """The tokens that a step gives."""
        return self._tokens / self._steps if self._steps else self._first


class DraftingServer:
    """Chooses between the server behind *plain* and the one behind *wire*, which speculates.

    Calls with a recorded answer to the same call are expected to gain until answers show otherwise;
    others are not. ``in_flight`` are the calls at both servers, ``there`` those at the one that
    speculates. *advise* is told if the server does not take what is given to it.
    """

    def __init__(self, wire: Wire, plain: Wire, advise: Callable[[str], None]) -> None:
        self.wire, self._plain, self._advise = wire, plain, advise
        self.recorded, self.other = Acceptance(float("inf")), Acceptance(1.0)
        self.in_flight = self.there = 0
        self._declined = 0
        self._away_until = float("-inf")
        self._runs: dict[str, asyncio.Task[None]] = {}
        self._loaded: list[str] = []

    async def connect(self, plain: ServerFacts) -> None:
        """See that both servers answer alike. Raises ``ConfigError`` if they do not.

        A server that cannot be asked is left alone for a while.
        """
        try:
            here = await probe(self.wire)
        except BackendError as error:
            self._advise(f"nothing is sent to the server that speculates at present: {error}")
            self.unavailable()
            return
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

    def choose(self, request: Request) -> Wire:
        """The server for *request*, now."""
        draft = request.draft
        if draft is not None and draft.run is not None:
            self._offer(draft.run)
        if self.in_flight >= MOST or time.monotonic() < self._away_until:
            return self._plain
        acceptance = self._acceptance(request)
        if not acceptance.is_known and self.there >= FIRST:
            return self._plain
        if acceptance.length < break_even(self.in_flight + 1):
            self._declined += 1
            if self._declined % _TRIED:
                return self._plain
        return self.wire

    async def asked(self, request: Request, send: Callable[[Wire], Awaitable[Any]]) -> Any:
        """The reply to *request* of the chosen server, to which *send* sends it.

        Raises ``BackendError``; asked once more, a call goes to the plain server.
        """
        wire = self.choose(request)
        speculates = wire is self.wire
        self.in_flight += 1
        self.there += speculates
        try:
            found = await send(wire)
        except BackendUnavailable:
            if speculates:
                self.unavailable()
            raise
        finally:
            self.in_flight -= 1
            self.there -= speculates
        if speculates:
            self.answered(request, found)
        return found

    def answered(self, request: Request, found: Any) -> None:
        """Note how many tokens a step has given in *found*, the reply of the speculating server."""
        for each in found if isinstance(found, list) else [found]:
            meta = each.get("meta_info") if isinstance(each, Mapping) else None
            given = meta if isinstance(meta, Mapping) else {}
            tokens, steps = given.get("completion_tokens"), given.get("spec_verify_ct")
            if type(tokens) is int and type(steps) is int and 0 < steps < tokens:
                # The first token comes with the prompt, without a step. The server counts it in
                # spec_accept_length, which is 2 for an answer of two tokens without a draft.
                self._acceptance(request).add(tokens - 1, steps)

    def unavailable(self) -> None:
        """Note that the server could not be asked: for a while nothing is sent there."""
        self._away_until = time.monotonic() + _AWAY_S
        self._runs.clear()  # it may come back with nothing in its memory

    def _acceptance(self, request: Request) -> Acceptance:
        draft = request.draft
        return self.recorded if draft is not None and draft.own else self.other

    # -- the texts that the server looks drafts up in

    def _offer(self, run: DraftRun) -> None:
        """Have the server load the texts of *run*, once; no call waits for that."""
        if run.name not in self._runs:
            self._runs[run.name] = asyncio.ensure_future(self._load(run))

    async def _load(self, run: DraftRun) -> None:
        name, path = f"appl-{run.name}", "/add_external_corpus"
        body = canonical({"corpus_id": name, "documents": list(run.texts)}).encode("ascii")
        try:
            known = await self.wire.get("/list_external_corpora")
            counts = known.get("corpus_token_counts") if isinstance(known, Mapping) else None
            if not isinstance(counts, Mapping) or name not in counts:
                await self.wire.within(_LOAD_S, self.wire.post(path, body), path)
                self._loaded.append(name)
        except BackendError as error:
            self._advise(f"recorded answers were not loaded as drafts: {error}")

    async def aclose(self) -> None:
        """Have the server forget the texts that it was given, and close the connections."""
        for task in self._runs.values():
            task.cancel()
        await asyncio.gather(*self._runs.values(), return_exceptions=True)
        path = "/remove_external_corpus"
        for name in self._loaded:
            body = canonical({"corpus_id": name}).encode("ascii")
            try:
                await self.wire.within(_CLOSE_S, self.wire.post(path, body), path)
            except BackendError:
                break  # a server that is gone has forgotten them as well
        await self.wire.aclose()

"""Continuous batching, one verb per step: schedule → forward → sample → postprocess.

Invariant: memory is bounded (rows by ``row_tokens``, the cache by its blocks), and the tokens of a
sequence depend on its own task alone, never on what shares the batch.
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from appl.backend import TokenLogprob
from appl.errors import BackendError, Unsupported
from appl_backends.embedded.cache import PrefixCache
from appl_backends.embedded.model import F32, KvRows, Llama, Row, TokenSpan
from appl_backends.embedded.probe import entry
from appl_backends.embedded.radix import common
from appl_backends.embedded.sampler import Picked, best, log_softmax, pick
from appl_backends.embedded.task import (
    AnswerPiece,
    EngineTask,
    Failed,
    Finished,
    Outcome,
    SequenceRun,
)
from appl_backends.embedded.tokenizer import Tokenizer
from appl_backends.embedded.tools import CALLED, ToolOffer

if TYPE_CHECKING:
    from appl_backends.embedded.adapters import Adapter

CANONICAL_CHUNK = 256
HEADROOM = 64


@dataclass(slots=True)
class Counters:
    """Counters of the engine's work since it was made.

    ``abort_steps`` is the largest number of steps that ended between an abort and its effect.
    ``forced_tokens`` had no choice, and were not decoded. Of ``drafted_tokens``, which passes
    computed in advance, ``accepted_tokens`` were right.
    """

    steps: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    computed_tokens: int = 0
    decoded_tokens: int = 0
    preemptions: int = 0
    recomputed: int = 0
    aborts: int = 0
    abort_steps: int = 0
    forced_tokens: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0


class BatchEngine:
    """Runs tasks on one model; ``step`` is called by one thread, everything else is its state.

    ``jumps`` says whether a token that a constraint leaves no choice about is taken without being
    decoded. It saves time, and changes no answer.
    """

    def __init__(
        self,
        model: Llama,
        tokenizer: Tokenizer,
        cache: PrefixCache,
        *,
        max_batch: int = 32,
        chunk: int = 256,
        row_tokens: int = 16384,
        jumps: bool = True,
    ) -> None:
        self.model, self.tokenizer, self.cache = model, tokenizer, cache
        self.max_batch, self.chunk, self.jumps = max_batch, chunk, jumps
        self.rows = KvRows(model.shape, row_tokens)
        # Other threads change nothing but this: ``append`` and ``popleft`` of a deque are atomic.
        self.inbox: deque[tuple[EngineTask, int | None]] = deque()
        self.waiting: list[SequenceRun] = []
        self.running: list[SequenceRun] = []
        self.counters = Counters()
        self._out: list[Outcome] = []
        self._order = 0
        self._banned = _banned(tokenizer, model.shape.vocab)
        self._opening: dict[bytes, F32] = {}

    @property
    def context(self) -> int:
        """The longest sequence that fits, prompt and answer together."""
        return min(self.model.shape.context, self.rows.size)

    def submit(self, task: EngineTask) -> None:
        """Queue *task*; may be called from any thread."""
        self.inbox.append((task, None))

    def abort(self, task: EngineTask) -> None:
        """Drop *task* before the next step; may be called from any thread.

        It finishes with what it has; sequences that are cut off end with ``abort``.
        """
        self.inbox.append((task, self.counters.steps))

    def flush(self) -> bool:
        """Empty the cache if there is nothing to do; called by the thread that submits tasks."""
        if self.idle:
            self.cache.clear()
            return True
        return False

    @property
    def idle(self) -> bool:
        """True if there is nothing to do."""
        return not (self.inbox or self.waiting or self.running)

    def step(self) -> list[Outcome]:
        """Advance every running sequence, and say what came of it."""
        self._receive()
        spans, runs, ready = self._schedule()
        drafted: list[tuple[SequenceRun, F32]] = []
        if spans:
            self._read(runs, spans, self.model.forward(spans), ready, drafted)
            self.counters.steps += 1
        for run, token in self._sample(ready):
            self._postprocess(run, token)
        for run, logits in drafted:
            self._verify(run, logits)
        out, self._out = self._out, []
        return out

    def fail(self, reason: str) -> list[Outcome]:
        """Drop everything; each task that is not done fails with *reason*."""
        self._receive()
        tasks = list(dict.fromkeys(run.task for run in [*self.running, *self.waiting]))
        self._drop(tasks)
        out, self._out = self._out, []
        return [*out, *(Failed(task, BackendError(reason)) for task in tasks)]

    # -- schedule ------------------------------------------------------------------------------

    def _receive(self) -> None:
        dropped: dict[EngineTask, int] = {}
        while self.inbox:
            task, aborted = self.inbox.popleft()
            if aborted is not None:
                dropped.setdefault(task, aborted)
                continue
            self._order += 1
            task.order = self._order
            task.live = [
                SequenceRun(task, index) for index in range(len(task.options or task.draws))
            ]
            for run in task.live:
                self._queue(run)
        if dropped:
            self._drop(dropped)
            for task, step in dropped.items():
                self._cut_off(task, step)

    def _queue(self, run: SequenceRun) -> None:
        bisect.insort(self.waiting, run, key=_urgency)

    def _cut_off(self, task: EngineTask, step: int) -> None:
        """End *task*, which was aborted when *step* steps were done."""
        if len(task.done) == len(task.live):
            return
        self.counters.aborts += 1
        self.counters.abort_steps = max(self.counters.abort_steps, self.counters.steps - step)
        for run in task.live:
            if not run.finish:
                run.finish = "abort"
                task.done.append(run)
                self._pass_on(run)
        self._out.append(Finished(task, task.response()))

    def _drop(self, tasks: Collection[EngineTask]) -> None:
        self.waiting = [run for run in self.waiting if run.task not in tasks]
        for run in [run for run in self.running if run.task in tasks]:
            self._release(run)

    def _schedule(self) -> tuple[list[TokenSpan], list[SequenceRun], list[tuple[SequenceRun, F32]]]:
        """The spans of this step with their sequences, and who can sample without any."""
        for run in list(self.running):
            self._make_room(run)
        ready = self._admit()
        singles, longs, budget = [], [], self.chunk
        for run in self.running:
            if run.todo == 1:
                singles.append((run, 1))
            elif run.todo and not run.prefilling:  # one that decodes: no prompt keeps it waiting
                longs.append((run, min(1 + budget, run.todo)))
                budget -= longs[-1][1] - 1
        for run in self.running:
            if run.todo > 1 and run.prefilling and budget:
                longs.append((run, min(budget, run.todo)))
                budget -= longs[-1][1]
        self._draft([run for run, count in singles + longs if count == run.todo], budget)
        taken = [one for one in singles if not one[0].guess]
        taken += [one for one in singles if one[0].guess] + longs
        return [self._span(run, count) for run, count in taken], [run for run, _ in taken], ready

    def _draft(self, runs: Sequence[SequenceRun], budget: int) -> None:
        """Have *runs* guess what follows, *budget* tokens in all.

        Guesses take the room that is left: no row grows for them.
        """
        runs = [run for run in runs if run.draft is not None and run.may_guess]
        for at, run in enumerate(runs):
            assert run.draft is not None and run.row is not None, "it runs, and has a draft"
            room = min(run.row.capacity, self.context) - len(run.ids)
            useful = run.task.max_tokens - run.generated - 1
            run.guess = run.draft.next(max(0, min(budget // (len(runs) - at), room, useful)))
            if run.guess and run.constraint is not None:
                del run.guess[run.constraint.allowed(run.guess) :]
            budget -= len(run.guess)

    def _span(self, run: SequenceRun, count: int) -> TokenSpan:
        row, adapter = run.row, run.task.adapter
        assert row is not None, "only running sequences have spans"
        start, end = row.length, row.length + count
        known = len(run.task.prompt)
        self.counters.computed_tokens += max(0, min(end, known) - start)
        if run.task.options:
            scored = known + len(run.logprobs)
            return TokenSpan(row, run.ids[start:end], max(0, min(count, end - scored + 1)), adapter)
        if run.scores and run.task.to_score is not None:
            return TokenSpan(
                row, run.ids[start:end], max(0, end - max(start, run.task.to_score)), adapter
            )
        tokens = run.ids[start:end]
        if run.guess:
            return TokenSpan(row, tokens + run.guess, 1 + len(run.guess), adapter)
        return TokenSpan(row, tokens, int(end == len(run.ids)), adapter)

    def _admit(self) -> list[tuple[SequenceRun, F32]]:
        """Start waiting sequences while there is room; those whose prompt is there can sample."""
        ready: list[tuple[SequenceRun, F32]] = []
        left: list[SequenceRun] = []
        for at, run in enumerate(self.waiting):
            if len(self.running) >= self.max_batch:
                left += self.waiting[at:]
                break
            if self.cache.shares and self._should_wait(run):
                left.append(run)
                continue
            size = len(run.ids)
            row = self.rows.take(size + min(HEADROOM, run.task.max_tokens)) or self.rows.take(size)
            if row is None:
                left += self.waiting[at:]
                break
            first = self._start(run, row)
            if first is not None:
                ready.append((run, first))
        self.waiting = left
        return ready

    def _should_wait(self, run: SequenceRun) -> bool:
        """True if a running sequence is computing a prefix that *run* can then take from it."""
        task = run.task
        if task.first is None and any(other.task is task for other in self.running):
            return True
        if run.behind is not None:
            leader, length = run.behind
            if leader.hold and leader.prefilling and leader.hold.length < length:
                return True
            run.behind = None
        limit = self._reusable(run)
        length, coming = self._longest_coming(run, limit)
        if coming is not None and length > self.cache.match(run.tokens[:limit], task.space):
            run.behind = (coming, length)
            return True
        return False

    def _longest_coming(self, run: SequenceRun, limit: int) -> tuple[int, SequenceRun | None]:
        """The sequence still computing its prompt that shares the longest prefix with *run*."""
        length, found = 0, None
        for other in self.running:
            if other.hold is None or not other.prefilling or other.task.space != run.task.space:
                continue
            shared = common(run.tokens[:limit], other.tokens)
            if shared > max(length, other.hold.length):
                length, found = shared, other
        return length, found

    def _reusable(self, run: SequenceRun) -> int:
        """The number of ids of *run* that may come from the cache.

        All may, if the logits behind them are known or not needed.
        """
        known = len(run.task.prompt)
        if run.scores and run.task.to_score is not None:
            return run.task.to_score
        if run.forks:
            return known
        return known + len(run.logprobs) - 1 if run.task.options else len(run.ids) - 1

    def _start(self, run: SequenceRun, row: Row) -> F32 | None:
        """Fill *row* with what the cache has of *run*; logits when nothing is left to compute."""
        run.row, run.behind = row, None
        run.tokens = np.array(run.ids, np.int32)
        run.hold = self.cache.open(run.tokens[: self._reusable(run)], row, run.task.space)
        if run.cached is None:
            run.cached = min(run.hold.length, len(run.task.prompt) - 1)
        if run.task.cached is None:
            run.task.cached = run.hold.length
            self.counters.prompt_tokens += len(run.task.prompt)
            self.counters.cached_tokens += run.hold.length
        self.running.append(run)
        if run.scores:
            run.task.scorer = run
        self._begin(run, row)
        known = len(run.task.prompt)
        return run.task.first if run.forks and row.length == known else None

    def _begin(self, run: SequenceRun, row: Row) -> None:
        """Begin the answer with what must come first, which is computed with the prompt.

        Samples that share the logits behind their prompt choose their first tokens from these.
        """
        task = run.task
        if run.constraint is None or task.healed or task.offer or len(task.live) > 1:
            return
        if run.fresh and task.max_tokens:
            self._jump(run, row.capacity)

    def _make_room(self, run: SequenceRun) -> None:
        """Let the row of *run* hold what it will compute; if need be others start again later."""
        while run.row is not None and run.row.capacity < len(run.ids):
            roomy = min(len(run.ids) + 4 * HEADROOM, self.context)
            if not self.rows.grow(run.row, roomy) and not self.rows.grow(run.row, len(run.ids)):
                self._preempt(self.running[-1])

    def _preempt(self, run: SequenceRun) -> None:
        """Give up the row of *run*; what it computed is offered to the cache."""
        self._publish(run)
        self._release(run)
        self._queue(run)
        self.counters.preemptions += 1

    def _publish(self, run: SequenceRun) -> None:
        if run.hold is not None and run.row is not None and run.row.length > run.hold.length:
            run.tokens = np.array(run.ids, np.int32)
            self.cache.publish(run.hold, run.tokens, run.row)

    def _release(self, run: SequenceRun) -> None:
        assert run.row is not None and run.hold is not None, "only running sequences are released"
        self.rows.give(run.row)
        self.cache.close(run.hold)
        run.row = run.hold = None
        if run.task.scorer is run:
            run.task.scorer = None
        self.running.remove(run)

    # -- sample --------------------------------------------------------------------------------

    def _read(
        self,
        runs: Sequence[SequenceRun],
        spans: Sequence[TokenSpan],
        logits: F32,
        ready: list[tuple[SequenceRun, F32]],
        drafted: list[tuple[SequenceRun, F32]],
    ) -> None:
        """Add each row of logits with its sequence to those that are *ready*.

        All rows of one that guesses are *drafted*. Prompts that grew go to the cache.
        """
        at = 0
        for run, span in zip(runs, spans, strict=True):
            rows = logits[at : at + span.wanted]
            began = span.row.length - len(span.tokens)
            if run.guess:
                span.row.length -= len(run.guess)  # what is published is known to be right
                drafted.append((run, rows))
            else:
                ready += [(run, row) for row in rows]
            if began < len(run.task.prompt):
                self._publish(run)
            at += span.wanted

    def _sample(self, ready: Sequence[tuple[SequenceRun, F32]]) -> list[tuple[SequenceRun, int]]:
        """The next token of each sequence that generates; those that score take note."""
        runs: list[SequenceRun] = []
        raws: list[F32] = []
        for run, raw in ready:
            task = run.task
            if run.scores and task.probe is not None and task.to_score is not None:
                token = task.prompt[task.to_score + 1]
                task.scored.append(entry(raw, token, task.probe))
                continue
            if len(task.live) > 1 and task.first is None and run.fresh:
                task.first = raw.copy()
            if task.options:
                self._score(run, raw)
            elif task.max_tokens == 0:
                self._end(run, "length")
            else:
                runs.append(run)
                raws.append(raw)
        return list(zip(runs, self._choose(runs, np.array(raws)), strict=True)) if runs else []

    def _choose(self, runs: Sequence[SequenceRun], raw: F32) -> list[int]:
        """A token for each row."""
        picked = self._pick(runs, raw, [run.generated for run in runs])
        return [
            self._settle(run, row, choice)
            for run, row, choice in zip(runs, raw, picked, strict=True)
        ]

    def _settle(self, run: SequenceRun, raw: F32, choice: Picked) -> int:
        """The token of *choice*; chosen from scratch where rounding could decide it."""
        if choice.shaky:
            raw = self._canonical(run.ids, run.task.adapter)
            (choice,) = self._pick([run], raw[None], [run.generated])
        token, count = choice.token, run.task.logprobs
        if count is not None and not run.ends_with(token, self.tokenizer.end):
            run.logprobs.append(self._logprob(raw, token, count))
        if run.task.probe is not None:
            run.probed.append(entry(raw, token, run.task.probe))
        return token

    def _verify(self, run: SequenceRun, raw: F32) -> None:
        """Choose the tokens of a guess as if each had been computed alone, up to the first other.

        Row number i of *raw* follows i tokens of the guess. Each token is chosen by its own random
        number, and by the constraint as it is then.
        """
        guess, run.guess = run.guess, []
        row, draft, base, right = run.row, run.draft, len(run.ids), 0
        assert row is not None and draft is not None, "it runs, and has a draft"
        positions = range(run.generated, run.generated + len(raw))
        free = self._pick([run] * len(raw), raw, positions) if run.constraint is None else []
        while True:
            row.length = base + right  # the rest of the guess is not known to be right
            if run.constraint is None:
                choice = free[right]
            else:
                (choice,) = self._pick([run], raw[right, None], [run.generated])
            self._postprocess(run, self._settle(run, raw[right], choice))
            right, fresh = _alike(run.ids[base:], guess), len(run.ids) - base
            if run.finish or right < fresh:
                break
        if not run.finish:
            row.length = base + right
        self.counters.drafted_tokens += len(guess)
        self.counters.accepted_tokens += right
        if not run.finish or right < fresh or right == len(guess):
            draft.pace.judge(len(guess), right)

    def _pick(
        self, runs: Sequence[SequenceRun], raw: F32, positions: Sequence[int]
    ) -> list[Picked]:
        """Choose among what may come at these *positions* of answers; *raw* stays as it is."""
        logits = raw + self._banned
        for at, (run, position) in enumerate(zip(runs, positions, strict=True)):
            if run.task.special:
                logits[at, self.tokenizer.call] = raw[at, self.tokenizer.call]
            if run.task.healed and not position:
                logits[at] += self._starting_with(run.task.healed)
            if run.constraint is not None:
                logits[at, ~run.constraint.mask()] = -np.inf
            if run.task.offer is not None and not position:
                self._let_call(run.task.offer, logits[at], raw[at])
            if position < run.task.min_tokens:
                longer = logits[at].copy()
                longer[[self.tokenizer.end, *run.task.stop_tokens]] = -np.inf
                if longer.max() > -np.inf:  # else only an end may come
                    logits[at] = longer
        return pick(logits, [run.task.draws[run.index] for run in runs], positions)

    def _let_call(self, offer: ToolOffer, logits: F32, raw: F32) -> None:
        """The answer may begin as a tool call, or has to."""
        if offer.must:
            logits[:] = -np.inf
        logits[self.tokenizer.call] = raw[self.tokenizer.call]

    def _starting_with(self, opening: bytes) -> F32:
        if opening not in self._opening:
            allowed = [data.startswith(opening) for data in self.tokenizer.bytes]
            allowed[self.tokenizer.end] = True
            mask = np.full(self.model.shape.vocab, -np.inf, np.float32)
            mask[: len(allowed)][allowed] = 0.0
            self._opening[opening] = mask
        return self._opening[opening]

    def _canonical(self, ids: Sequence[int], adapter: Adapter | None = None) -> F32:
        """The logits after *ids*, computed alone and in fixed pieces.

        They are a function of *ids* and *adapter* only.
        """
        self.counters.recomputed += 1
        row = KvRows(self.model.shape, len(ids)).take(len(ids))
        assert row is not None, "the row was made for it"
        logits = np.zeros((1, 0), np.float32)
        for start in range(0, len(ids), CANONICAL_CHUNK):
            piece = ids[start : start + CANONICAL_CHUNK]
            logits = self.model.forward([TokenSpan(row, piece, 1, adapter)])
        last: F32 = logits[0]
        return last

    def _logprob(self, raw: F32, token: int, count: int) -> TokenLogprob:
        logprobs = log_softmax(raw)
        top = tuple((self._text(other), value) for other, value in best(logprobs, count))
        return TokenLogprob(self._text(token), float(logprobs[token]), top)

    def _text(self, token: int) -> str:
        return self.tokenizer.bytes[token].decode("utf-8", "replace")

    def _score(self, run: SequenceRun, raw: F32) -> None:
        """Add the log-probability of the option's next token, or of the end of the turn."""
        at = len(run.task.prompt) + len(run.logprobs)
        last = self.tokenizer.end if run.last is None else run.last
        token = run.ids[at] if at < len(run.ids) else last
        logprob = float(log_softmax(raw)[token])
        run.logprobs.append(TokenLogprob(self._text(token), logprob))
        run.score += logprob
        if at == len(run.ids):
            self._finish(run, "stop")

    # -- postprocess ---------------------------------------------------------------------------

    def _postprocess(self, run: SequenceRun, token: int) -> None:
        """Append *token*, and those that must follow it."""
        self.counters.decoded_tokens += 1
        self._append(run, token)
        if run.constraint is not None:
            self._jump(run, self.context)

    def _jump(self, run: SequenceRun, most: int) -> None:
        """Append the tokens that must come next, until it has *most* ids with its prompt."""
        while not run.finish and len(run.ids) < most:
            token = self._forced(run)
            if token is None:
                break
            self.counters.forced_tokens += 1
            self._append(run, token)

    def _append(self, run: SequenceRun, token: int) -> None:
        """Append *token*, pass on safe text, and finish the sequence if that was the last."""
        run.ids.append(token)
        if run.draft is not None:
            run.draft.see(token)
        finish = self._take(run, token)
        if finish:
            self._end(run, finish)
        else:
            self._pass_on(run)

    def _forced(self, run: SequenceRun) -> int | None:
        """The next token, if the constraint allows no other, and nobody asks how likely it is."""
        task, constraint = run.task, run.constraint
        if constraint is None or not self.jumps or task.logprobs is not None or task.probe:
            return None
        token = constraint.forced()
        if token is None or token in self.tokenizer.special or token in task.stop_tokens:
            return None
        return token

    def _end(self, run: SequenceRun, reason: str) -> None:
        """No token of *run* will come any more."""
        if run.constraint is not None and (why := run.constraint.failure):
            run.task.failure, reason = why, "abort"
        run.finish = reason
        run.writer.close(cut=reason == "length")
        self._pass_on(run)
        self._finish(run, reason)

    def _pass_on(self, run: SequenceRun) -> None:
        """Stream what is there and was not streamed before."""
        task, final = run.task, bool(run.finish)
        if task.stream:
            text = "" if run.called else run.writer.take(final=final)
            if text or task.each:
                self._out.append(AnswerPiece(task, run.index, text, run.generated, run.finish))

    def _take(self, run: SequenceRun, token: int) -> str:
        if run.ends_with(token, self.tokenizer.end):
            return "stop"
        calls = token == self.tokenizer.call and run.task.offer is not None
        if calls:
            run.begin_call()
        run.writer.add(self._written(run, token))
        if run.constraint is not None and not calls:
            run.constraint.accept(token)
        if run.writer.stopped or (run.constraint is not None and run.constraint.complete):
            return CALLED if run.called else "stop"
        return "length" if run.generated >= run.task.max_tokens else ""

    def _written(self, run: SequenceRun, token: int) -> bytes:
        if run.task.special and token in self.tokenizer.special:
            return self.tokenizer.names[token]
        return self.tokenizer.bytes[token]

    def _finish(self, run: SequenceRun, reason: str) -> None:
        run.finish = reason
        self._publish(run)
        self._release(run)
        run.task.done.append(run)
        if len(run.task.done) < len(run.task.live):
            return
        if why := run.task.failure:
            error = Unsupported(f"this constraint cannot be followed to its end: {why}")
            self._out.append(Failed(run.task, error))
        else:
            self._out.append(Finished(run.task, run.task.response()))


def _urgency(run: SequenceRun) -> tuple[int, int, int]:
    return -run.task.priority, run.task.order, run.index


def _alike(fresh: Sequence[int], guess: Sequence[int]) -> int:
    """The number of tokens with which both begin."""
    pairs = enumerate(zip(fresh, guess, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(fresh), len(guess)))


def _banned(tokenizer: Tokenizer, vocab: int) -> F32:
    """Minus infinity for what is never generated: special tokens but the end, and unused ids."""
    banned = np.zeros(vocab, np.float32)
    banned[[token for token in tokenizer.special if token != tokenizer.end]] = -np.inf
    banned[tokenizer.size :] = -np.inf
    return banned

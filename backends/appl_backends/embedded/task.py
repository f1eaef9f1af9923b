"""The engine's data: a task, its sequences, and their results; values without rules.

Invariant: a run has a row and a hold exactly while it is running.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from appl.backend import Response, Sample, TokenLogprob, Usage
from appl_backends.embedded.cache import Hold, Tokens
from appl_backends.embedded.constraint import Constraint
from appl_backends.embedded.model import F32, Row
from appl_backends.embedded.probe import TokenEntry, TokenProbe
from appl_backends.embedded.sampler import Draw
from appl_backends.embedded.tokenizer import TextWriter
from appl_backends.embedded.tools import CALLED, ToolOffer

if TYPE_CHECKING:
    from appl_backends.embedded.adapters import Adapter
    from appl_backends.embedded.drafts import DraftCursor


@dataclass(slots=True, eq=False)
class EngineTask:
    """One request inside the engine: a prompt, and the samples or options wanted of it.

    With no ``max_tokens``, the prompt is computed and nothing more. With ``each``, a stream has a
    piece for every token, whether or not it brings text. With ``special``, the answer may hold the
    token that begins a tool call, and special tokens are written out. With ``ends_turn``, the end
    of the turn is scored behind each option. Tasks of another ``space``
    share no computed prefix with it. ``drafts`` are what its samples are likely to be, in their
    order, as far as that is known. ``adapter`` changes the weights for it; each adapter has a
    ``space`` of its own. ``scored`` are the prompt's entries that
    ``probe`` asked for; ``scorer`` is the sequence that takes them. ``failure`` says why a sample's
    constraint could not be followed.
    """

    prompt: list[int]
    draws: list[Draw]
    max_tokens: int
    healed: bytes = b""
    stop: tuple[str, ...] = ()
    logprobs: int | None = None
    constraint: Constraint | None = None
    options: list[list[int]] | None = None
    stream: bool = False
    priority: int = 0
    stop_tokens: frozenset[int] = frozenset()
    offer: ToolOffer | None = None
    probe: TokenProbe | None = None
    each: bool = False
    ignore_end: bool = False
    min_tokens: int = 0
    ends_turn: bool = True
    special: bool = False
    space: str = ""
    drafts: list[DraftCursor] = field(default_factory=list)
    adapter: Adapter | None = None
    order: int = 0
    live: list[SequenceRun] = field(default_factory=list)
    done: list[SequenceRun] = field(default_factory=list)
    first: F32 | None = None
    cached: int | None = None
    failure: str = ""
    scored: list[TokenEntry] = field(default_factory=list)
    scorer: SequenceRun | None = None

    @property
    def to_score(self) -> int | None:
        """The position whose logits give the prompt's next entry; ``None`` without such."""
        if self.probe is None:
            return None
        at = self.probe.start + len(self.scored)
        return at if at < len(self.prompt) - 1 else None

    def response(self) -> Response:
        """The answer, once all runs are done: scores of the options, or samples."""
        if self.options:
            scores = tuple(run.score for run in self.live)
            usage = Usage(len(self.prompt), 0, self.cached)
            return Response((), usage, scores=scores, choice_method="logprob")
        completed = sum(run.generated for run in self.live)
        usage = Usage(len(self.prompt), completed, self.cached)
        return Response(tuple(run.sample() for run in self.live), usage)


class SequenceRun:
    """One sequence of a task: its ids, and while it runs its row and its place in the cache.

    ``last`` is the token of an option that is only scored; ``None`` means the end of the turn.
    ``draft`` is what it is likely to generate, ``guess`` the part of it that this step tries.
    """

    __slots__ = (
        "behind",
        "cached",
        "called",
        "constraint",
        "draft",
        "finish",
        "guess",
        "hold",
        "ids",
        "index",
        "last",
        "logprobs",
        "probed",
        "row",
        "score",
        "task",
        "tokens",
        "writer",
    )

    def __init__(self, task: EngineTask, index: int) -> None:
        self.task, self.index = task, index
        forced = task.options[index] if task.options else []
        self.last = None if task.ends_turn or not forced else forced[-1]
        forced = forced if self.last is None else forced[:-1]
        self.ids = [*task.prompt, *forced]
        self.tokens: Tokens = np.array(self.ids, np.int32)
        self.writer = TextWriter(task.stop, task.healed)
        self.constraint = task.constraint.fork() if task.constraint else None
        self.logprobs: list[TokenLogprob] = []
        self.probed: list[TokenEntry] = []
        self.cached: int | None = None
        self.score = 0.0
        self.row: Row | None = None
        self.hold: Hold | None = None
        self.behind: tuple[SequenceRun, int] | None = None
        self.finish = ""
        self.called = False
        self.draft = task.drafts[index] if index < len(task.drafts) else None
        self.guess: list[int] = []

    @property
    def todo(self) -> int:
        """The number of its ids that have no keys and values yet."""
        return len(self.ids) - (self.row.length if self.row else 0)

    @property
    def prefilling(self) -> bool:
        """True if it still computes what it started with."""
        return self.row is not None and self.row.length < len(self.tokens)

    @property
    def fresh(self) -> bool:
        """True if nothing of the answer is there yet."""
        return not self.generated and not self.logprobs

    @property
    def forks(self) -> bool:
        """True if the logits that follow the prompt are known from another run of the task."""
        return self.task.first is not None and self.fresh

    @property
    def scores(self) -> bool:
        """True if it takes the prompt's entries, or will take them."""
        return self.task.to_score is not None and self.task.scorer in (None, self)

    @property
    def may_guess(self) -> bool:
        """True if tokens may be tried that follow all its ids.

        The logits behind a prompt that several samples share belong to all of them.
        """
        return not self.scores and (self.generated > 0 or len(self.task.live) == 1)

    def ends_with(self, token: int, end: int) -> bool:
        """True if *token* ends the answer, and is not part of it; *end* is that of a turn."""
        return (token == end and not self.task.ignore_end) or token in self.task.stop_tokens

    def matched(self, end: int) -> int | str:
        """The stop string or the token that ended a finished answer.

        An answer that its constraint ended is ended by *end* as well, which it does not hold.
        """
        last = self.ids[-1]
        return self.writer.matched or (last if self.ends_with(last, end) else end)

    @property
    def generated(self) -> int:
        """The number of tokens that it has sampled."""
        return 0 if self.task.options else len(self.ids) - len(self.task.prompt)

    def sample(self) -> Sample:
        """Its answer, once it is finished."""
        logprobs = None if self.task.logprobs is None else tuple(self.logprobs)
        if not self.called:
            return Sample(self.writer.text, self.finish, logprobs)
        offer, number = self.task.offer, self.task.draws[self.index].sample
        assert offer is not None, "only what was offered is called"
        whole = self.finish == CALLED
        calls = (offer.call(self.writer.text, number),) if whole else ()
        return Sample("", self.finish, logprobs, calls)

    @property
    def entries(self) -> list[float]:
        """The log-probabilities of the tokens that were scored or generated."""
        return [entry.logprob for entry in self.logprobs]

    def begin_call(self) -> None:
        """Begins a tool call: no text follows."""
        assert self.task.offer is not None, "only what was offered is called"
        self.called, self.constraint = True, self.task.offer.calls.fork()
        self.writer = TextWriter()


@dataclass(frozen=True, slots=True)
class AnswerPiece:
    """More text of one sample of a streamed task.

    ``tokens`` is the number that the sample has by now, ``finish`` why it ends with this piece.
    """

    task: EngineTask
    sample: int
    text: str
    tokens: int
    finish: str


@dataclass(frozen=True, slots=True)
class Finished:
    """All of a task is there, or will be: one that was dropped ends with what it had."""

    task: EngineTask
    response: Response


@dataclass(frozen=True, slots=True)
class Failed:
    """A task cannot be finished."""

    task: EngineTask
    error: Exception


Outcome = AnswerPiece | Finished | Failed

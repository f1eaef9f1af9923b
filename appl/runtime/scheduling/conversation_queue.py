"""The conversation queue: one run's calls that wait for room in a server's cache.

It tells the policy (see ``Residency``) what its conversations do, and what is known of their turns:
the prompts that wait for answers already show how they go on, an activation that has ended asks no
more, and where room may be short, the graph of its function tells how many calls there will be.

Invariant: everything here runs on the I/O loop, but for the note that an activation has ended; a
prompt that was admitted is released once, at the latest when its run leaves.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast
from zlib import crc32

from appl.backend import PrefixCaching
from appl.runtime.concurrency.loop_thread import io_thread
from appl.runtime.concurrency.promise import Promise, on_finish
from appl.runtime.scheduling.arrivals import Arrivals, conversation_of
from appl.runtime.scheduling.cache_room import Room, RoomTurn
from appl.runtime.scheduling.order import program_of
from appl.runtime.scheduling.prefixes import EXPECTED_ANSWER, Footprint
from appl.runtime.scheduling.residency import CachedConversation, WaitingLine
from appl.runtime.scheduling.timers import Clock, LoopClock, Timer
from appl.runtime.scheduling.turn_forecast import UNTOLD, TurnBounds, TurnMemory

if TYPE_CHECKING:
    from appl.runtime.answers.call import Call, CallBody, CallFrame, CallsToCome

_MOST = 65_536
_FAR = 64


class _Coming(NamedTuple):
    """A prompt to come, of so many parts, some of which wait for answers.

    The other parts have ``letters`` letters, and the answers will have ``answers`` tokens.
    """

    parts: int
    letters: int
    answers: int
    address: str


_NOTHING = _Coming(0, 0, 0, "")


@dataclass(slots=True, eq=False)
class _AskingActivation:
    """An activation that asks: its conversation, its waiting calls, and its prompts to come.

    Shorter prompts to come are first; ``come`` is the longest of those that have come. Of its
    ``calls`` without an answer so many are ``underway``; ``shared`` tokens of it are not its own.
    ``body`` is its function. It has ``made`` so many calls, the latest in ``line`` of that function
    (``None``: elsewhere); the graph says that at most ``left`` follow.
    """

    address: str
    who: CachedConversation
    body: CallBody | None = None
    coming: list[_Coming] = field(default_factory=list)
    come: _Coming = _NOTHING
    waiting: deque[tuple[Call, Footprint]] = field(default_factory=deque)
    calls: int = 0
    underway: int = 0
    shared: int = 0
    watched: bool = False
    made: int = 0
    line: int | None = None
    left: int | None = None

    @property
    def over(self) -> bool:
        """True if nothing of it is to come: it has ended, or its graph has no further call."""
        return (self.who.last or self.left == 0) and not self.calls


class ConversationQueue:
    """The conversations of one run with the server of *room*, and the calls that wait for room.

    *go* is called when there may be room for a call that waits; it returns true if ``take`` will be
    called. *unseen* are the calls of the run whose prompts were not looked at yet; *memory* is that
    of earlier runs. ``admitted`` calls have room; while ``paused`` none is begun. ``calls`` have
    come, or will come, and are not over; each is there with its activation.
    """

    def __init__(
        self,
        room: Room,
        caching: PrefixCaching,
        clock: Clock | None,
        go: Callable[[], bool],
        foresees: bool,
        unseen: Arrivals,
        memory: TurnMemory | None = None,
    ) -> None:
        self._room, self._caching, self._go = room, caching, go
        self._clock, self._foresees, self._unseen = clock or LoopClock(), foresees, unseen
        self._memory = memory
        self._line = WaitingLine(room.residency)
        self.activations: OrderedDict[str, _AskingActivation] = OrderedDict()
        self._programs: OrderedDict[str, int] = OrderedDict()
        self._of: dict[CachedConversation, _AskingActivation] = {}
        self.calls: dict[Call, _AskingActivation] = {}
        self._gone: deque[Call] = deque()
        self._counts: dict[str, CallsToCome | None] | None = None
        self._letters = self._tokens = 0
        self._lapse: Timer | None = None
        self.admitted = 0
        self.paused = self._left = False

    def __len__(self) -> int:
        return len(self._line) + len(self._gone)

    def __iter__(self) -> Iterator[Call]:
        """The calls that wait for room."""
        for who in self._line:
            for call, _ in self._of[who].waiting:
                yield call

    # -- what will come

    def foresee(self, call: Call) -> None:
        """Note that *call*, which waits for a part of its prompt, will come."""
        node, answer = call.node, call.sampling.max_tokens or EXPECTED_ANSWER
        if node is None or not self._foresees:
            return
        activation, length = self._activation(call), node.length
        coming = activation.coming
        at = bisect_right(coming, length, key=_parts)
        before = coming[at - 1] if at else activation.come
        parts, letters, answers, _ = before if before.parts <= length else _NOTHING
        # Only the parts beyond the longest known prompt before it are counted: an agent of many
        # steps would otherwise count its whole chain at each of them.
        while node is not None and node.length > parts:
            if isinstance(node.part, str):
                letters += len(node.part)
            else:
                answers += answer
            node = node.parent
        coming.insert(at, _Coming(length, letters, answers, call.address))
        if activation.watched and at < _FAR:
            self._learn(activation)

    def _learn(self, activation: _AskingActivation) -> None:
        """Count what is known of *activation*, which has arrived before; others may go now."""
        self._room.residency.learn(activation.who, self._known(activation))
        if len(self):
            self._go()

    def take_back(self, call: Call) -> None:
        """Note that *call* will not come."""
        activation = self.calls.pop(call, None)
        if activation is not None:
            activation.calls -= 1
            self._has_come(activation, call)
        else:
            activation = self.activations.get(conversation_of(call))
        if activation is not None:
            self._end_if_over(activation)

    def _has_come(self, activation: _AskingActivation, call: Call) -> _Coming | None:
        """Remove *call* from those to come; ``None`` if it was not among them."""
        for at, each in enumerate(activation.coming):
            if each.address == call.address:
                return activation.coming.pop(at)
        return None

    def arrive(self, call: Call, each: Footprint) -> None:
        """Note that *call*, with the prompt *each*, has come."""
        activation = self._activation(call)
        who, tokens = activation.who, self._caching.cache_tokens
        come = self._has_come(activation, call)
        if come is not None and come.parts > activation.come.parts:
            activation.come = come
        if tokens is None:
            return
        if not activation.watched:
            self._watch(activation, call)
        own = self._room.cache.fresh(each)
        whole = len(each.ids) + each.answers
        activation.shared = whole - own
        who.known, who.priority = self._known(activation), call.priority
        self._note(activation, call)
        self._room.measure(tokens)
        self._room.residency.ask(who, own, whole, self._clock.now())

    def _note(self, activation: _AskingActivation, call: Call) -> None:
        """Note which of its calls *call* is."""
        body, frame = activation.body, call.frame()
        own = frame is not None and _body_of(frame) is body
        ordinal, file, line = call.identity[1:]
        activation.made = max(activation.made + 1, own * (ordinal + 1))
        activation.line = line if own and body is not None and file == body.file else None
        if self._counts is not None:
            self._tell_turns(activation, self._counts)

    def _look_at_graphs(self) -> None:
        """Ask from now on what graphs tell: so many turns may come that room is short."""
        if self._counts is not None or not self._foresees:
            return
        self._counts = {}
        for activation in self.activations.values():
            if activation.made:
                self._tell_turns(activation, self._counts)

    def _tell_turns(
        self, activation: _AskingActivation, known: dict[str, CallsToCome | None]
    ) -> None:
        """Tell the policy the turns of *activation*, where its graph knows its calls."""
        who, body = activation.who, activation.body
        if who.kind not in known:
            known[who.kind] = None
            with suppress(Exception):  # no graph can be made of it: it is not known, as others
                known[who.kind] = body.counts() if body is not None else None
        counts = known[who.kind]
        if counts is None:
            return
        least, most = counts.left(activation.made, activation.line)
        activation.left = most
        present = who.turn + (not who.running)
        if len(counts.models) > 1:
            least = 0  # other servers may be asked
        told = TurnBounds(present + least, UNTOLD.most if most is None else present + most)
        self._room.residency.tell(who, told)

    def _watch(self, activation: _AskingActivation, call: Call) -> None:
        """Measure its first prompt, and note it when the activation ends."""
        activation.watched = True
        link = call.request.messages if call.request is not None else None
        while link is not None:
            self._letters += link.size
            link = link.parent
        self._tokens += len(self._caching.prompt_tokens(call.request)) if call.request else 0
        frame = call.frame()
        if frame is None:
            activation.who.last = True
        else:
            frame.root_of_prompt().when_ended(partial(self._ended, activation))

    def _known(self, activation: _AskingActivation) -> list[float]:
        """The own sizes of *activation* at the turns that are known to come."""
        rate = self._tokens / max(1, self._letters)
        return [
            coming.answers + coming.letters * rate - activation.shared
            for coming in activation.coming[:_FAR]
            if coming.parts > activation.come.parts
        ]

    def _ended(self, activation: _AskingActivation) -> None:
        """Note that *activation* has ended; on its program's thread."""
        io_thread().send(partial(self._has_ended, activation))

    def _has_ended(self, activation: _AskingActivation) -> None:
        activation.who.last = True
        self._end_if_over(activation)

    def _end_if_over(self, activation: _AskingActivation) -> None:
        at = activation.address
        if not activation.over or self.activations.get(at) is not activation:
            return
        if not self._unseen.holds(at):
            self._forget(activation, finished=True)
            self._room.tell()

    # -- what goes

    def enters(self, call: Call, each: Footprint) -> bool:
        """Make room for *call*; where there is none it waits, and false is returned."""
        if each.admitted:
            return True
        if not len(self) and self._is_let_in(self._activation(call), call, each):
            return True
        if not len(self):
            self._room.wait(self)
        self.wait(call, each)
        return False

    def wait(self, call: Call, each: Footprint) -> None:
        """Have *call* wait behind the others."""
        activation = self._activation(call)
        activation.waiting.append((call, each))
        self._line.add(activation.who, self._clock.now())
        on_finish(call, self._has_no_need)

    def _has_no_need(self, call: Promise) -> None:
        """Hand out a call that has ended while it waited, so that nothing of it is counted."""
        activation = self.calls.get(cast("Call", call))
        if activation is None:
            return
        left = [(one, each) for one, each in activation.waiting if one is not call]
        if len(left) < len(activation.waiting):
            activation.waiting = deque(left)
            if not left:
                self._line.remove(activation.who)
            self._gone.append(cast("Call", call))
            self._go()

    def take(self) -> Call | None:
        """The next call that waited; ``None`` if there is none, or no room for it."""
        if self._gone:
            return self._gone.popleft()
        activation = self._next()
        if activation is None:
            return None
        call, each = activation.waiting[0]
        if call.outcome is None and not self._is_let_in(activation, call, each):
            self._room.wait(self)
            return None
        activation.waiting.popleft()
        self._line.remove(activation.who)
        if activation.waiting:
            self._line.add(activation.who, self._clock.now())
        return call

    def _next(self) -> _AskingActivation | None:
        who = self._line.next(self._clock.now())
        return self._of[who] if who is not None else None

    def _is_let_in(self, activation: _AskingActivation, call: Call, each: Footprint) -> bool:
        """True if there is room for *each*, which is taken; else ``go`` is called when there is."""
        room, who, now = self._room, activation.who, self._clock.now()
        room.release(who)  # first: it may need just the room that it kept
        if room.others_wait(self):
            turn = self.admitted > 0, -who.priority, self._line.place(who, now)
            if not room.is_turn(self, turn):
                return False
        own = room.cache.fresh(each)
        activation.shared = len(each.ids) + each.answers - own
        activation.who.known = self._known(activation)
        if not self._fits(who, each, own, now):
            return self._wait_for_lapse()
        self.let_in(call, each)
        return True

    def let_in(self, call: Call, each: Footprint) -> None:
        """Take room for *call*, which goes now."""
        activation, cache = self._activation(call), self._room.cache
        who = activation.who
        self._room.release(who)  # the prompt of its turn before: it would be kept for ever
        self.admitted += 1
        activation.underway += 1
        each.own = cache.fresh(each)
        cache.admit(each)
        if self._caching.cache_tokens is not None:
            size = each.own + (who.held if who.running else 0.0)
            self._room.residency.begin(who, size, self._clock.now())

    def _fits(self, who: CachedConversation, each: Footprint, own: float, now: float) -> bool:
        tokens, room = self._caching.cache_tokens, self._room
        if tokens is None:
            return True
        room.sweep(now)
        residency, used = room.residency, room.cache.used
        # While nothing is with the server, those that were let in are busy elsewhere: a newcomer
        # would be one too many when they come back. Kept room lapses, so that it waits in the end
        # for nobody.
        idle = not (self.admitted and not self.paused) and room.idle
        if who.rank is None and not (idle and residency.next_lapse() is None):
            if residency.held > 0 and (residency.held + own) * _FAR > residency.tokens:
                self._look_at_graphs()
            decisive = who in self._line and self._line.decisive(now) is who
            if not residency.admits(who, own, used, decisive):
                if self._memory is not None:
                    room.recall(self._memory)
                return False
        while not room.cache.fits(each, int(residency.tokens)):
            victim = residency.make_way(who, now)
            if victim is None:
                return room.idle  # nobody is served by its waiting
            room.release(victim)
        return True

    def _wait_for_lapse(self) -> bool:
        """Look again when kept room lapses: nothing else may happen. Returns false."""
        lapse = self._room.residency.next_lapse()
        if lapse is not None and self._lapse is None:
            self._lapse = self._clock.at(lapse, self._lapsed)
        return False

    def _lapsed(self) -> None:
        self._lapse = None
        self._go()

    def over(self, call: Call, each: Footprint, answered: bool) -> None:
        """Note that *call* has ended; its prompt is kept if its conversation goes on."""
        activation, room = self._activation(call), self._room
        del self.calls[call]
        activation.calls -= 1
        activation.who.last = activation.who.last or self._left
        if not each.admitted:
            self._end_if_over(activation)
            return
        self.admitted -= 1
        activation.underway = max(0, activation.underway - 1)  # it may be new, after the run left
        who, now = activation.who, self._clock.now()
        if self._caching.cache_tokens is None:
            room.cache.release(each)
            who.last = True  # nothing is kept: it may be forgotten
        elif activation.underway:
            room.cache.release(each)
            room.residency.shrink(who, each.own)
        elif answered and not (activation.over or self._left):
            room.keep(who, each, now)
        else:
            room.cache.release(each)
            room.residency.drop(who)
        self._end_if_over(activation)
        room.tell()

    # -- beside other runs

    def turn(self) -> RoomTurn | None:
        """The turn of its next call that had no room; ``None`` when there is none."""
        now = self._clock.now()
        who = self._line.next(now)
        if who is None:
            return None
        return self.admitted > 0, -who.priority, self._line.place(who, now)

    def look(self) -> bool:
        """Look soon for calls that may go; false when it cannot at present."""
        return self._go()

    def leave(self) -> None:
        """Give back all room, as the run is over."""
        for activation in list(self.activations.values()):
            activation.waiting.clear()
            self._forget(activation, finished=False)
        self._left = True
        self.calls.clear()
        self._gone.clear()
        self.admitted = 0
        if self._lapse is not None:
            self._lapse.cancel()
            self._lapse = None
        self._room.leave(self)

    # -- activations

    def _activation(self, call: Call) -> _AskingActivation:
        found = self.calls.get(call)
        if found is None:
            address = conversation_of(call)
            found = self.activations.get(address)
            if found is None:
                found = self.activations[address] = self._made(call, address)
                self._of[found.who] = found
            self.calls[call] = found
            found.calls += 1
        return found

    def _made(self, call: Call, address: str) -> _AskingActivation:
        """An activation not seen before: a newcomer, unless one around it was let in."""
        program, numbers = program_of(call), self._room.numbers
        if program not in self._programs:
            self._programs[program] = next(numbers)
            if len(self._programs) > _MOST:
                self._programs.popitem(last=False)
        age = self._programs[program], next(numbers)
        frame = call.frame()
        body = _body_of(frame and frame.root_of_prompt())
        file, function = (body.file, body.qualname) if body is not None else (call.file, "")
        kind = _kind_of(address, file, function)
        who = CachedConversation(kind, age, rank=self._rank(address))
        return _AskingActivation(address, who, body)

    def _rank(self, address: str) -> int | None:
        """The rank of the nearest conversation around *address* that was let in."""
        while address:
            address = address.rpartition("/")[0]
            around = self.activations.get(address)
            if around is not None and around.who.rank is not None:
                return around.who.rank
        return None

    def _forget(self, activation: _AskingActivation, finished: bool) -> None:
        self._line.remove(activation.who)
        self._room.release(activation.who)
        self._room.residency.end(activation.who, finished and activation.who.turn > 0)
        del self.activations[activation.address]
        del self._of[activation.who]


def _parts(coming: _Coming) -> int:
    return coming.parts


def _body_of(frame: CallFrame | None) -> CallBody | None:
    """The function whose activation *frame* is, while somebody holds it."""
    return frame.body() if frame is not None and frame.body is not None else None


def _kind_of(activation: str, file: str | None, function: str) -> str:
    """The kind of an activation: ``/main/agent#1b7f3a9c`` for ``/main.0/agent.7``.

    Behind it is a digest of the *function* and its *file*: others may have the same names.
    """
    names = "/".join(each.rpartition(".")[0] for each in activation.split("/"))
    return f"{names}#{crc32(f'{file}:{function}'.encode()):08x}"

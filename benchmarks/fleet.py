"""Fleets of agents on a simulated server whose cache is smaller than their conversations.

Run: python benchmarks/fleet.py [--seeds 3] [--loads "24 turns, 25%"] [--json FILE]
     python benchmarks/fleet.py --decisions [--agents 10000] [--servers 8]

The last tables compare with the better of the numbers of agents, chosen by hindsight for each load;
the second of them is of programs of many more turns than an unknown one is expected to take.
``--decisions`` measures the CPU time of the policy alone. ``--first`` is the first seed.

Agents take turns: a question, an answer, then a gap in which a tool runs. The server is modelled
after SGLang's: a step computes waiting prompts (up to 8,192 tokens, the longest cached beginning
first) or one token of every answer; the least recently used ends of conversations are dropped, and
an answer that finds no room is taken back. Its constants are those of an 8B model on one H200, and
give nine measured runs of fixed numbers of agents (contexts up to 30,000 tokens) within 6%.

``first`` is the client's own line (``prefix_order/room.py``) on a virtual clock, of a program of
which nothing is known; ``graph`` that of a program whose loop says its number of rounds, or their
most where agents differ.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple

from report import write

from appl import AIRole, gen, ppl
from appl.runtime.concurrency.loop_thread import io_thread
from appl.runtime.scheduling.prefix_order.room import (
    BLOCK,
    FIRST_TURNS,
    CachedConversation,
    Kind,
    Line,
    OrderedCall,
    Room,
)
from appl.testing import VirtualClock

CHUNK, ROWS = 8192, 64
STEP_S, ROW_S, TOKEN_S, LONGEST_S = 0.0034, 1e-5, 3e-8, 3e-7
BATCH_S, PREFILL, DEPTH_S = 0.028, 60_000, 2.3e-9
USUAL = 35_000
TRIP_S, SAID_S = 0.1, 1.5e-6


@dataclass(eq=False)
class Agent:
    """An agent: for each turn the tokens that it adds, its answer's, and the gap behind it."""

    turns: list[tuple[int, int, float]]
    begins: float = 0.0
    turn: int = 0
    size: int = 0
    ready: float = 0.0
    done: float = 0.0
    waits: list[float] = field(default_factory=list)


@dataclass(eq=False)
class Asked:
    """A request at the server; ``own`` tokens are its alone.

    ``cached`` of its prompt were in the cache when it was let in first.
    """

    agent: object
    prompt: int
    answer: int
    over: Callable[[int], None]
    cached: int = 0
    made: int = 0
    own: int = 0
    todo: int = 0

    @property
    def whole(self) -> int:
        """The tokens of its prompt, and of what was made of its answer."""
        return self.prompt + self.made


class Server:
    """One server with *room* tokens of cache, by *clock*; it computes *prefill* tokens a second."""

    def __init__(self, room: int, clock: VirtualClock, prefill: float = USUAL) -> None:
        self.room, self.clock, self._slower = room, clock, USUAL / prefill
        self._cached: OrderedDict[object, list[int]] = OrderedDict()
        self._tokens: dict[object, int] = {}
        self._locked: set[object] = set()
        self._evictable = self._held = 0
        self._waiting: list[Asked] = []
        self._running: list[Asked] = []
        self._partial: Asked | None = None
        self._reserve = 0.7
        self._depth = 0.0
        self._busy = False
        self._decoding: tuple[float, float, int, Any] | None = None
        self.computed = self.hits = 0

    def ask(self, agent: object, prompt: int, answer: int, over: Callable[[int], None]) -> None:
        """Send *prompt* tokens of *agent*; *over* is told its cached ones at the end."""
        asked = Asked(agent, prompt, answer, over)
        when = self.clock.now() + TRIP_S / 2 + SAID_S * prompt
        self.clock.at(when, lambda: self._arrive(asked))

    def _arrive(self, asked: Asked) -> None:
        self._waiting.append(asked)
        if not self._busy:
            self._busy = True
            self.clock.at(self.clock.now(), self._step)
        elif self._decoding is not None:  # what decodes goes on to the end of the present step
            began, step, steps, alarm = self._decoding
            left = max(1, -int(-(self.clock.now() - began) // step))
            if left < steps:
                alarm.cancel()
                self._decode_for(began, step, left)

    def _step(self) -> None:
        self._busy = self._prefill() or self._decode()

    # -- the cache

    def _hit(self, agent: object) -> int:
        return self._tokens.get(agent, 0)

    def _free(self) -> int:
        return self.room - self._held

    def _lock(self, agent: object) -> None:
        self._locked.add(agent)
        self._evictable -= self._hit(agent)

    def _unlock(self, agent: object) -> None:
        self._locked.discard(agent)
        self._evictable += self._hit(agent)
        if agent in self._cached:
            self._cached.move_to_end(agent)

    def _keep(self, agent: object, tokens: int) -> None:
        """Add *tokens* at the end of the conversation of *agent*, which is locked."""
        self._cached.setdefault(agent, []).append(tokens)
        self._tokens[agent] = self._hit(agent) + tokens

    def _drop_end(self, agent: object) -> None:
        tokens = self._cached[agent].pop()
        self._tokens[agent] -= tokens
        self._held -= tokens
        self._evictable -= tokens
        if not self._cached[agent]:
            del self._cached[agent], self._tokens[agent]

    def _make_room(self, tokens: int) -> bool:
        while self._free() < tokens:
            oldest = next((each for each in self._cached if each not in self._locked), None)
            if oldest is None:
                return False
            self._drop_end(oldest)
        return True

    # -- steps

    def _prefill(self) -> bool:
        budget, batch, self._depth = CHUNK, list[Asked](), 0.0
        if self._partial is not None:
            budget -= self._take(self._partial, budget)
            batch.append(self._partial)
        if self._partial is None or not self._partial.todo:
            self._partial = None
            for asked in sorted(self._waiting, key=lambda each: -self._hit(each.agent)):
                if budget <= 0 or len(self._running) + len(batch) >= ROWS:
                    break
                if not self._admit(asked, batch):
                    break
                budget -= self._take(asked, budget)
                batch.append(asked)
                if asked.todo:
                    self._partial = asked
                    break
        if not batch:
            return False
        seconds = BATCH_S + (CHUNK - budget) / PREFILL + DEPTH_S * self._depth
        self.clock.at(self.clock.now() + seconds * self._slower, lambda: self._computed(batch))
        return True

    def _take(self, asked: Asked, budget: int) -> int:
        taken = min(budget, asked.todo)
        self._depth += taken * (asked.whole - asked.todo + taken / 2)
        asked.todo -= taken
        self.computed += taken
        return taken

    def _admit(self, asked: Asked, batch: Sequence[Asked]) -> bool:
        agent = asked.agent
        fresh = asked.whole - self._hit(agent)
        self._lock(agent)
        spare = self._free() + self._evictable
        spare -= int(sum(each.answer - each.made for each in self._running) * self._reserve)
        spare -= sum(each.answer for each in batch)
        alone = not (self._running or batch)
        if (fresh + asked.answer - asked.made > spare and not alone) or not self._make_room(fresh):
            self._unlock(agent)
            return False
        self._waiting.remove(asked)
        asked.own = asked.todo = fresh
        self._held += fresh
        self.hits += asked.whole - fresh
        if not asked.made:
            asked.cached = asked.whole - fresh
        return True

    def _computed(self, batch: Sequence[Asked]) -> None:
        for asked in batch:
            if not asked.todo:
                self._begin(asked)
        self._step()

    def _begin(self, asked: Asked) -> None:
        """Its prompt is there: what was its own is in the cache now, and the answer begins."""
        self._keep(asked.agent, asked.own)
        asked.own = 1
        asked.made += 1
        self._held += 1
        self._running.append(asked)
        self._end_if_made(asked)

    def _decode(self) -> bool:
        if not self._running:
            return False
        rows = len(self._running)
        contexts = [each.whole for each in self._running]
        step = STEP_S + ROW_S * rows + TOKEN_S * sum(contexts) + LONGEST_S * max(contexts)
        steps = min(each.answer - each.made for each in self._running)
        steps = min(steps, (self._free() + self._evictable) // rows)
        if steps <= 0:
            self._take_back(min(self._running, key=lambda each: (each.made, -each.prompt)))
            return self._prefill() or self._decode()
        self._decode_for(self.clock.now(), step, steps)
        return True

    def _decode_for(self, began: float, step: float, steps: int) -> None:
        alarm = self.clock.at(began + step * steps, lambda: self._decoded(steps))
        self._decoding = began, step, steps, alarm

    def _decoded(self, steps: int) -> None:
        self._decoding = None
        self._make_room(steps * len(self._running))
        self._reserve = max(0.1, self._reserve - 0.001 * steps)
        for asked in list(self._running):
            asked.made += steps
            asked.own += steps
            self._held += steps
            self._end_if_made(asked)
        self._step()

    def _take_back(self, asked: Asked) -> None:
        self._running.remove(asked)
        self._held -= asked.own
        asked.own = 0
        self._reserve = 0.7
        self._unlock(asked.agent)
        self._waiting.append(asked)

    def _end_if_made(self, asked: Asked) -> None:
        if asked.made < asked.answer:
            return
        self._running.remove(asked)
        self._keep(asked.agent, asked.own)
        self._unlock(asked.agent)
        self.clock.at(self.clock.now() + TRIP_S / 2, lambda: asked.over(asked.cached))


# -- fixed numbers of agents


class Cap:
    """So many agents at a time, in the order of coming."""

    def __init__(self, most: int) -> None:
        self._free, self._queue = most, deque[Agent]()
        self.send: Callable[[Agent], None]

    def ready(self, agent: Agent) -> None:
        """The next turn of *agent* is ready."""
        if agent.turn:
            self.send(agent)
        elif self._free:
            self._free -= 1
            self.send(agent)
        else:
            self._queue.append(agent)

    def answered(self, agent: Agent, cached: int) -> None:
        """*agent* was answered."""

    def ended(self, agent: Agent) -> None:
        """*agent* has ended."""
        self._free += 1
        if self._queue:
            self._free -= 1
            self.send(self._queue.popleft())


def play(agents: list[Agent], server: Server, policy: Cap | Ours) -> None:
    """Have *policy* decide when the turns of *agents* are sent."""
    clock = server.clock

    def ready(agent: Agent) -> None:
        agent.ready = clock.now()
        policy.ready(agent)

    def send(agent: Agent) -> None:
        added, answer, _ = agent.turns[agent.turn]
        server.ask(agent, agent.size + added, answer, lambda cached: over(agent, cached))

    def over(agent: Agent, cached: int) -> None:
        agent.waits.append(clock.now() - agent.ready)
        added, answer, gap = agent.turns[agent.turn]
        policy.answered(agent, cached)
        agent.size += added + answer
        agent.turn += 1
        if agent.turn == len(agent.turns):
            agent.done = clock.now()
            policy.ended(agent)
        else:
            clock.at(clock.now() + gap, lambda: ready(agent))

    async def go() -> None:
        while clock.advance():
            await asyncio.sleep(0)  # the queue sends itself the ends of activations

    policy.send = send
    for agent in agents:
        clock.at(agent.begins, lambda agent=agent: ready(agent))
    asyncio.run_coroutine_threadsafe(go(), io_thread().loop).result()


def figures(agents: Sequence[Agent], server: Server) -> dict[str, float]:
    """The figures of one run, which is over."""
    later = sorted(wait for agent in agents for wait in agent.waits[1:])
    return {
        "makespan": max(agent.done for agent in agents),
        "mean": statistics.mean(agent.done - agent.begins for agent in agents),
        "p50": statistics.median(wait for agent in agents for wait in agent.waits),
        "p99": later[int(0.99 * len(later))],
        "longest": later[-1],
        "cached": server.hits / 1e6,
    }


# -- the client


def goes_on(agent: Agent) -> bool:
    """True if the agent has turns left."""
    return agent.turn < len(agent.turns)


@ppl(ctx="same")
def take_turn(agent: Agent) -> None:
    f"{agent.turn}"
    with AIRole():
        said = str(gen())
        f"{said}"


@ppl
def any_turns(agent: Agent) -> None:
    while goes_on(agent):
        take_turn(agent)


@ppl
def eight_turns(agent: Agent) -> None:
    for _ in range(8):
        take_turn(agent)


@ppl
def sixteen_turns(agent: Agent) -> None:
    for _ in range(16):
        take_turn(agent)


@ppl
def twenty_four_turns(agent: Agent) -> None:
    for _ in range(24):
        take_turn(agent)


@ppl
def up_to_twenty_turns(agent: Agent) -> None:
    for _ in range(20):
        take_turn(agent)
        if not goes_on(agent):
            break


@ppl
def up_to_thirty_turns(agent: Agent) -> None:
    for _ in range(30):
        take_turn(agent)
        if not goes_on(agent):
            break


SAYS_ITS_TURNS: dict[tuple[int, int], Callable[..., None]] = {
    (8, 8): eight_turns,
    (16, 16): sixteen_turns,
    (24, 24): twenty_four_turns,
    (2, 20): up_to_twenty_turns,
    (3, 30): up_to_thirty_turns,
}


class Told(NamedTuple):
    """A turn of *agent*, as the order sees a call."""

    agent: Agent
    outcome: None = None
    priority: int = 0


class Ours:
    """The client's order before *server*, for agents that are activations of *program*."""

    def __init__(self, server: Server, program: Any) -> None:
        self._clock, self._body = server.clock, program.__appl__
        self._room = Room(server.room)
        self._kind = self._room.kinds["agent"] = Kind()
        self._line = Line(self._room, self._look)
        self._conversations: dict[Agent, CachedConversation] = {}
        self._asks: dict[Agent, OrderedCall] = {}
        self._alarm: Any = None
        self._looks = False
        self.send: Callable[[Agent], None]

    def ready(self, agent: Agent) -> None:
        """The next turn of *agent* is ready."""
        number = len(self._conversations)
        who = self._conversations.setdefault(agent, CachedConversation("", self._kind))
        counts = self._body.counts()
        if counts is not None:
            least, most = counts.remaining(agent.turn + 1, None)
            who.least = agent.turn + 1 + least
            who.most = inf if most is None else agent.turn + 1 + most
            who.length = min(max(FIRST_TURNS, who.least), who.most)
        added, answer, _ = agent.turns[agent.turn]
        tokens, first = agent.size + added, (number if not agent.turn else 0) << 20
        if agent.turn:
            first = self._asks[agent].blocks[0]
        blocks = range(first, first + tokens // BLOCK)
        ask = OrderedCall(Told(agent), who, blocks, blocks, tokens + answer, self._clock.now())
        self._asks[agent] = ask
        self._line.add(ask)
        self._look()

    def _look(self) -> bool:
        if not self._looks:
            self._looks = True
            self._clock.at(self._clock.now(), self._take)
        return True

    def _take(self) -> None:
        self._looks = False
        while (ask := self._line.next(self._clock.now())) is not None:
            self.send(ask.call.agent)
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._line.size and (when := self._line.look_at()) < inf:
            self._alarm = self._clock.at(when, self._look)

    def answered(self, agent: Agent, cached: int) -> None:
        """*agent* was answered."""
        self._line.over(self._asks[agent], self._clock.now())
        self._room.tell()

    def ended(self, agent: Agent) -> None:
        """*agent* has ended."""
        self._room.end(self._conversations[agent])
        self._room.tell()


# -- loads


def fleet(
    seed: int,
    agents: int = 24,
    turns: tuple[int, int] = (8, 8),
    first: int = 3000,
    added: int = 1100,
    answer: int = 100,
    gap: tuple[float, float, float] = (-0.3, 0.8, 4.0),
    spread: float = 0.0,
    rate: float = 0.0,
) -> list[Agent]:
    """Agents with log-normal gaps; with *rate* so many come a second, else all at once."""
    dice, found, begins = random.Random(seed), list[Agent](), 0.0
    for _ in range(agents):
        scale = dice.lognormvariate(0, spread) if spread else 1.0
        those = [
            (
                int((added if turn else first) * scale),
                max(8, int(answer * (dice.lognormvariate(0, spread) if spread else 1.0))),
                min(gap[2], dice.lognormvariate(*gap[:2])),
            )
            for turn in range(dice.randint(*turns))
        ]
        found.append(Agent(those, begins))
        begins += dice.expovariate(rate) if rate else 0.0
    return found


def measured_load() -> list[Agent]:
    """24 agents of 8 turns, as they were measured on an H200."""
    dice = random.Random(5)
    gaps = {
        (at, turn): min(4.0, dice.lognormvariate(-0.3, 0.8))
        for at in range(24)
        for turn in range(8)
    }
    return [
        Agent([(1100 if turn else 3000, 100, gaps[at, turn]) for turn in range(8)])
        for at in range(24)
    ]


LOADS: dict[str, tuple[dict[str, Any], float]] = {
    "25%": ({}, 0.25),
    "40%": ({}, 0.4),
    "80%": ({}, 0.8),
    "150%": ({}, 1.5),
    "short gaps, 40%": ({"gap": (-1.8, 0.8, 4.0)}, 0.4),
    "long gaps, 40%": ({"gap": (1.2, 0.8, 20.0)}, 0.4),
    "small, 40%": ({"first": 1000, "added": 400}, 0.4),
    "uneven, 40%": ({"turns": (2, 20), "spread": 0.4}, 0.4),
    "uneven, 80%": ({"turns": (2, 20), "spread": 0.4}, 0.8),
    "open loop": ({"agents": 60, "rate": 0.7}, 0.19),
}
LONG: dict[str, tuple[dict[str, Any], float]] = {
    "16 turns, 25%": ({"turns": (16, 16)}, 0.25),
    "16 turns, 40%": ({"turns": (16, 16)}, 0.4),
    "24 turns, 25%": ({"turns": (24, 24)}, 0.25),
    "24 turns, 40%": ({"turns": (24, 24)}, 0.4),
    "10 of 24 turns, 41%": ({"agents": 10, "turns": (24, 24)}, 0.408),
    "3 to 30 turns, 40%": ({"turns": (3, 30), "spread": 0.3}, 0.4),
}
CAPS = (4, 8, 12, 16, 10**6)
OURS = ("graph", "first")


def room_for(agents: Sequence[Agent], share: float) -> int:
    """The size of a cache that holds *share* of the conversations of *agents*."""
    sizes = [sum(added + answer for added, answer, _ in each.turns) for each in agents]
    return int(max(share * sum(sizes), 1.1 * max(sizes)))


def means(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    """The geometric means of the figures of several runs."""
    return {key: statistics.geometric_mean([row[key] + 1e-6 for row in rows]) for key in rows[0]}


def measured(name: str, seeds: Sequence[int], only: Sequence[str]) -> dict[str, dict[str, float]]:
    """The figures of a load by who decides."""
    options, share = (LOADS | LONG)[name]

    def runs(act: Callable[[int, list[Agent], Server], None]) -> dict[str, float]:
        rows = []
        for seed in seeds:
            agents = fleet(seed, **options)
            server = Server(room_for(agents, share), VirtualClock())
            act(seed, agents, server)
            rows.append(figures(agents, server))
        return means(rows)

    says = SAYS_ITS_TURNS[options.get("turns", (8, 8))]
    arms: dict[str, Callable[[int, list[Agent], Server], None]] = {
        f"cap {cap}": lambda _, agents, server, cap=cap: play(agents, server, Cap(cap))
        for cap in CAPS
    }
    arms["graph"] = lambda _, agents, server: play(agents, server, Ours(server, says))
    arms["first"] = lambda _, agents, server: play(agents, server, Ours(server, any_turns))
    return {name: runs(act) for name, act in arms.items() if not only or name in only}


def compared(rows: dict[str, dict[str, float]], name: str) -> dict[str, float]:
    """The figures of *name* over those of the number of agents that was best for the load."""
    caps = [row for key, row in rows.items() if key.startswith("cap")]
    best = min(caps, key=lambda row: row["makespan"] * row["mean"])
    return {key: rows[name][key] / best[key] for key in ("makespan", "mean", "p99")}


def summary(found: dict[str, dict[str, dict[str, float]]]) -> dict[str, dict[str, list[float]]]:
    """Of each of ours the geometric mean over all loads, and the worst."""
    result: dict[str, dict[str, list[float]]] = {}
    for name in OURS:
        ratios = [compared(rows, name) for rows in found.values()]
        result[name] = {
            key: [
                round(statistics.geometric_mean([each[key] for each in ratios]), 3),
                round(max(each[key] for each in ratios), 2),
            ]
            for key in ratios[0]
        }
    return result


def decisions(agents: int, servers: int, calls: int = 20_000) -> float:
    """The CPU seconds for one call, of *agents* that take turns on *servers*."""
    lines = [Line(Room(agents // servers * 4000), lambda: False) for _ in range(servers)]
    kinds = [Kind() for _ in lines]
    running: list[deque[OrderedCall]] = [deque() for _ in lines]
    call = Told(Agent([]))

    def ask(at: int, first: int, who: CachedConversation, now: float) -> None:
        tokens = who.size + 1200 if who.turn else 3000
        blocks = range(first, first + tokens // BLOCK)
        lines[at].add(OrderedCall(call, who, blocks, blocks, tokens, now))

    for number in range(agents):
        ask(number % servers, number << 20, CachedConversation("", kinds[number % servers]), 0.0)
    now, began = 0.0, time.process_time()
    for each in range(calls):
        at = each % servers
        line = lines[at]
        if running[at]:
            over = running[at].popleft()
            line.over(over, now)
            if over.conversation.turn >= 8:
                line.room.end(over.conversation)
            else:
                ask(at, over.blocks[0], over.conversation, now)
        while (sent := line.next(now)) is not None:
            running[at].append(sent)
        now += 0.0005
    return (time.process_time() - began) / calls


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=10)
    parser.add_argument("--loads", default="", help="their names, with ; between them")
    parser.add_argument("--arms", default="", help="'first,graph', say: only these")
    parser.add_argument("--decisions", action="store_true")
    parser.add_argument("--agents", type=int, default=10_000)
    parser.add_argument("--servers", type=int, default=8)
    parser.add_argument("--json")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.seeds)
    if options.decisions:
        for servers in sorted({1, options.servers}):
            seconds = decisions(options.agents, servers)
            print(f"{options.agents} agents, {servers} servers: {seconds * 1e6:.0f} us a call")
        return
    found, only = {}, options.arms.split(",") if options.arms else []
    for name in LOADS | LONG:
        if options.loads and name not in options.loads.split(";"):
            continue
        found[name] = measured(name, seeds, only)
        print(name)
        for who, row in found[name].items():
            figures = "  ".join(f"{key} {value:7.2f}" for key, value in row.items())
            print(f"    {who:12} {figures}", flush=True)
    for title, loads in ("each load", LOADS), ("each load of many turns", LONG):
        print(f"geometric mean over the best number of agents of {title}, and the worst")
        rows = {load: found[load] for load in loads if load in found}
        for name, ratios in (summary(rows) if rows and not options.arms else {}).items():
            print(f"    {name:12} " + "  ".join(f"{key} {value}" for key, value in ratios.items()))
    write(options.json, "python benchmarks/fleet.py", found)


if __name__ == "__main__":
    main()

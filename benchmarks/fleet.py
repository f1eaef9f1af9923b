"""Fleets of agents on a simulated server whose cache is smaller than their conversations.

Run: python benchmarks/fleet.py [--seeds 3] [--json FILE]
     python benchmarks/fleet.py --decisions [--agents 10000] [--servers 8]

The last tables compare with the better of the numbers of agents, chosen by hindsight for each load;
the second of them is of programs of many more turns than an unknown one is expected to take.
``--decisions`` measures the CPU time of the policy alone.

Agents take turns: a question, an answer, then a gap in which a tool runs. The server is modelled
after SGLang's: a step computes waiting prompts (up to 8,192 tokens, the longest cached beginning
first) or one token of every answer; the least recently used ends of conversations are dropped, and
an answer that finds no room is taken back. Its constants are those of an 8B model on one H200, and
give nine measured runs of fixed numbers of agents (contexts up to 30,000 tokens) within 6%. It is
driven by the scheduler's own policy (``appl.runtime.scheduling.residency``), with the turns
known, recorded, or on the first run, and by fixed numbers of agents at a time.
"""

from __future__ import annotations

import argparse
import heapq
import random
import statistics
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from report import write

from appl.runtime.scheduling.residency import CachedConversation, Residency, WaitingLine
from appl.runtime.scheduling.turn_forecast import KindHistory

CHUNK, ROWS = 8192, 64
STEP_S, ROW_S, TOKEN_S, LONGEST_S = 0.0034, 1e-5, 3e-8, 3e-7
BATCH_S, PREFILL, DEPTH_S = 0.028, 60_000, 2.3e-9
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
    seen: Any = None

    @property
    def adds(self) -> int:
        """The tokens that its current turn adds to its conversation."""
        added, answer, _ = self.turns[self.turn]
        return added + answer


@dataclass(eq=False)
class Asked:
    """A request at the server; ``own`` tokens are its alone."""

    agent: Agent
    answer: int
    over: Callable[[], None]
    made: int = 0
    own: int = 0
    todo: int = 0

    @property
    def whole(self) -> int:
        """The tokens of its prompt, and of what was made of its answer."""
        return self.agent.size + self.agent.turns[self.agent.turn][0] + self.made


class Server:
    """One server with *room* tokens of cache, and the events of the whole simulation."""

    def __init__(self, room: int) -> None:
        self.room, self.now = room, 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._cached: OrderedDict[Agent, list[int]] = OrderedDict()
        self._tokens: dict[Agent, int] = {}
        self._locked: set[Agent] = set()
        self._evictable = self._held = 0
        self._waiting: list[Asked] = []
        self._running: list[Asked] = []
        self._partial: Asked | None = None
        self._reserve = 0.7
        self._depth = 0.0
        self.computed = self.hits = 0

    def at(self, when: float, act: Callable[[], None]) -> None:
        """Have *act* called at *when*."""
        heapq.heappush(self._events, (when, next(self._numbers), act))

    def ask(self, agent: Agent, over: Callable[[], None]) -> None:
        """Send the current turn of *agent*; *over* is called when its answer has come."""
        added, answer, _ = agent.turns[agent.turn]
        asked = Asked(agent, answer, over)
        self.at(
            self.now + TRIP_S / 2 + SAID_S * (agent.size + added),
            lambda: self._waiting.append(asked),
        )

    def play(self) -> None:
        """Go on until nothing happens any more."""
        while True:
            while self._events and self._events[0][0] <= self.now + 1e-12:
                heapq.heappop(self._events)[2]()
            if self._prefill() or self._decode():
                continue
            if not self._events:
                assert not (self._waiting or self._running)
                return
            self.now = max(self.now, self._events[0][0])

    def close(self, agent: Agent) -> None:
        """Drop the conversation of *agent*, which has ended."""
        while agent in self._cached:
            self._drop_end(agent)

    # -- the cache

    def _hit(self, agent: Agent) -> int:
        return self._tokens.get(agent, 0)

    def _free(self) -> int:
        return self.room - self._held

    def _lock(self, agent: Agent) -> None:
        self._locked.add(agent)
        self._evictable -= self._hit(agent)

    def _unlock(self, agent: Agent) -> None:
        self._locked.discard(agent)
        self._evictable += self._hit(agent)
        if agent in self._cached:
            self._cached.move_to_end(agent)

    def _keep(self, agent: Agent, tokens: int) -> None:
        """Add *tokens* at the end of the conversation of *agent*, which is locked."""
        self._cached.setdefault(agent, []).append(tokens)
        self._tokens[agent] = self._hit(agent) + tokens

    def _drop_end(self, agent: Agent) -> None:
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
        self.now += BATCH_S + (CHUNK - budget) / PREFILL + DEPTH_S * self._depth
        for asked in batch:
            if not asked.todo:
                self._computed(asked)
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
        return True

    def _computed(self, asked: Asked) -> None:
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
        if self._events:
            steps = min(steps, max(1, -int(-(self._events[0][0] - self.now) // step)))
        steps = min(steps, (self._free() + self._evictable) // rows)
        if steps <= 0:
            self._take_back(min(self._running, key=lambda each: (each.made, -each.agent.size)))
            return True
        self._make_room(steps * rows)
        self._reserve = max(0.1, self._reserve - 0.001 * steps)
        self.now += steps * step
        for asked in list(self._running):
            asked.made += steps
            asked.own += steps
            self._held += steps
            self._end_if_made(asked)
        return True

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
        self.at(self.now + TRIP_S / 2, asked.over)


# -- who decides when a turn is sent


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

    def answered(self, agent: Agent) -> None:
        """*agent* was answered, and goes on."""

    def ended(self, agent: Agent) -> None:
        """*agent* has ended."""
        self._free += 1
        if self._queue:
            self._free -= 1
            self.send(self._queue.popleft())


class Ours:
    """The scheduler's policy on *server*; *known* turns, or the *recorded* history."""

    def __init__(
        self, server: Server, known: bool, recorded: KindHistory | None, closes: bool = True
    ) -> None:
        self._server, self._known, self._closes = server, known, closes
        self._residency = Residency(server.room)
        self._line = WaitingLine(self._residency)
        if recorded is not None:
            self._residency.kind("agent").add(recorded.record())
        self._ages = count()
        self._agents: dict[CachedConversation, Agent] = {}
        self.send: Callable[[Agent], None]

    def ready(self, agent: Agent) -> None:
        """The next turn of *agent* is ready."""
        now = self._server.now
        if agent.seen is None:
            agent.seen = CachedConversation("agent", (next(self._ages),))
            self._agents[agent.seen] = agent
        self._know(agent, 1)
        size = agent.size + agent.adds
        self._residency.ask(agent.seen, size, size, now)
        self._line.add(agent.seen, now)
        self._go()

    def answered(self, agent: Agent) -> None:
        """*agent* was answered, and goes on."""
        self._know(agent, 0)
        self._residency.rest(agent.seen, agent.size, self._server.now)
        lapse = self._residency.next_lapse()
        if lapse is not None:
            self._server.at(lapse, self._go)
        self._go()

    def ended(self, agent: Agent) -> None:
        """*agent* has ended."""
        self._residency.end(agent.seen)
        if self._closes:
            self._server.close(agent)
        self._go()

    def _know(self, agent: Agent, coming: int) -> None:
        if self._known:
            agent.seen.known = known_ahead(agent, coming)
            agent.seen.last = True

    def _go(self) -> None:
        """Send all that may go."""
        now, policy, line = self._server.now, self._residency, self._line
        for _ in policy.lapsed(now):
            pass
        while (who := line.next(now)) is not None and self._fits(who):
            agent = self._agents[who]
            line.remove(who)
            policy.begin(who, agent.size + agent.adds, now)
            self.send(agent)

    def _fits(self, who: CachedConversation) -> bool:
        policy, agent, now = self._residency, self._agents[who], self._server.now
        size = agent.size + agent.adds
        if who.rank is None:
            decisive = who is self._line.decisive(now)
            if not policy.admits(who, size, policy.held, decisive):
                return False
            if policy.running:
                return True
        while policy.held - who.held + size > self._server.room:
            victim = policy.make_way(who, now)
            if victim is None:
                return not policy.running
            policy.drop(victim)
        return True


def known_ahead(agent: Agent, coming: int) -> list[float]:
    """The certain sizes of *agent* at its coming turns, from number *coming* from now on."""
    size, found = float(agent.size), list[float]()
    for added, answer, _ in agent.turns[agent.turn :]:
        size += added + answer
        found.append(size)
    return found[coming:]


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


def history(fleets: Sequence[Sequence[Agent]]) -> KindHistory:
    """The history that recorded runs of *fleets* leave."""
    found = KindHistory()
    for agent in (each for those in fleets for each in those):
        for turn, (added, answer, gap) in enumerate(agent.turns):
            found.begin(turn, added + answer)
            found.paused(gap)
        found.end(len(agent.turns))
    return found


def play(agents: list[Agent], server: Server, policy: Any) -> dict[str, float]:
    """The figures of one run."""

    def ready(agent: Agent) -> None:
        agent.ready = server.now
        policy.ready(agent)

    def over(agent: Agent) -> None:
        agent.waits.append(server.now - agent.ready)
        added, answer, gap = agent.turns[agent.turn]
        agent.size += added + answer
        agent.turn += 1
        if agent.turn == len(agent.turns):
            agent.done = server.now
            policy.ended(agent)
        else:
            policy.answered(agent)
            server.at(server.now + gap, lambda: ready(agent))

    policy.send = lambda agent: server.ask(agent, lambda: over(agent))
    for agent in agents:
        server.at(agent.begins, lambda agent=agent: ready(agent))
    server.play()
    later = sorted(wait for agent in agents for wait in agent.waits[1:])
    return {
        "makespan": max(agent.done for agent in agents),
        "mean": statistics.mean(agent.done - agent.begins for agent in agents),
        "p50": statistics.median(wait for agent in agents for wait in agent.waits),
        "p99": later[int(0.99 * len(later))],
        "longest": later[-1],
        "cached": server.hits / 1e6,
    }


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
Kind = tuple[bool, bool]
OURS: dict[str, Kind] = {"known": (True, False), "recorded": (False, True), "first": (False, False)}


def room_for(agents: Sequence[Agent], share: float) -> int:
    """The size of a cache that holds *share* of the conversations of *agents*."""
    sizes = [sum(added + answer for added, answer, _ in each.turns) for each in agents]
    return int(max(share * sum(sizes), 1.1 * max(sizes)))


def means(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    """The geometric means of the figures of several runs."""
    return {key: statistics.geometric_mean([row[key] + 1e-6 for row in rows]) for key in rows[0]}


def measured(name: str, seeds: Sequence[int]) -> dict[str, dict[str, float]]:
    """The figures of a load by who decides."""
    options, share = (LOADS | LONG)[name]

    def runs(policy: Callable[[int, Server], Any]) -> dict[str, float]:
        rows = []
        for seed in seeds:
            agents = fleet(seed, **options)
            server = Server(room_for(agents, share))
            rows.append(play(agents, server, policy(seed, server)))
        return means(rows)

    def ours(kind: Kind) -> Callable[[int, Server], Any]:
        def made(seed: int, server: Server) -> Ours:
            told = [fleet(1000 + seed, **options), fleet(2000 + seed, **options)]
            return Ours(server, kind[0], history(told) if kind[1] else None)

        return made

    found = {f"cap {cap}": runs(lambda _, __, cap=cap: Cap(cap)) for cap in CAPS}
    return found | {name: runs(ours(kind)) for name, kind in OURS.items()}


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
    dice = random.Random(0)
    lines = [WaitingLine(Residency(agents // servers * 4000)) for _ in range(servers)]
    waiting: list[deque[CachedConversation]] = [deque() for _ in range(servers)]
    inside: list[deque[CachedConversation]] = [deque() for _ in range(servers)]
    for number in range(agents):
        waiting[number % servers].append(CachedConversation("agent", (number,)))
    for at, those in enumerate(waiting):
        for who in those:
            lines[at].residency.ask(who, 3000, 3000, 0.0)
            lines[at].add(who, 0.0)
    now, began = 0.0, time.process_time()
    for call in range(calls):
        at = call % servers
        _decide(lines[at], inside[at], now, dice)
        now += 0.0005
    return (time.process_time() - began) / calls


def _decide(
    line: WaitingLine, inside: deque[CachedConversation], now: float, dice: random.Random
) -> None:
    """One answer, one later turn, and as many newcomers as fit."""
    residency = line.residency
    if inside:
        who = inside.popleft()
        residency.rest(who, who.size, now)
        if who.turn >= 8:
            residency.end(who)
        else:
            size = who.size + 1200
            residency.ask(who, size, size, now + dice.random())
            line.add(who, now)
    for _ in residency.lapsed(now):
        pass
    while (first := line.next(now)) is not None:
        if first.rank is None and not residency.admits(first, first.whole, residency.held):
            return
        line.remove(first)
        residency.begin(first, first.whole, now)
        inside.append(first)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--decisions", action="store_true")
    parser.add_argument("--agents", type=int, default=10_000)
    parser.add_argument("--servers", type=int, default=8)
    parser.add_argument("--json")
    options = parser.parse_args()
    if options.decisions:
        for servers in sorted({1, options.servers}):
            seconds = decisions(options.agents, servers)
            print(f"{options.agents} agents, {servers} servers: {seconds * 1e6:.0f} us a call")
        return
    found = {}
    for name in LOADS | LONG:
        found[name] = measured(name, range(10, 10 + options.seeds))
        print(name)
        for who, row in found[name].items():
            figures = "  ".join(f"{key} {value:7.2f}" for key, value in row.items())
            print(f"    {who:12} {figures}", flush=True)
    for title, loads in (("each load", LOADS), ("each load of many turns", LONG)):
        print(f"geometric mean over the best number of agents of {title}, and the worst")
        for name, ratios in summary({load: found[load] for load in loads}).items():
            print(f"    {name:12} " + "  ".join(f"{key} {value}" for key, value in ratios.items()))
    write(options.json, "python benchmarks/fleet.py", found)


if __name__ == "__main__":
    main()

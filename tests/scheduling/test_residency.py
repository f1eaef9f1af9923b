"""The policy of residency: its account agrees with sums made anew, and nobody starves."""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import sqrt

import pytest

from appl.runtime.scheduling.context_profile import DEVIATIONS, Ahead, ContextProfile
from appl.runtime.scheduling.residency import (
    PATIENCE,
    QUICKEST_S,
    CachedConversation,
    Residency,
    WaitingLine,
)
from appl.runtime.scheduling.server_times import ServerTimes
from appl.runtime.scheduling.turn_forecast import LINGER, KindHistory, TurnBounds, best_stop


def contexts(dice: random.Random) -> list[Ahead]:
    return [
        [(dice.uniform(10, 5000), dice.random()) for _ in range(dice.randint(1, 12))]
        for _ in range(dice.randint(1, 20))
    ]


def peak(those: Sequence[Ahead]) -> float:
    """The naive twin: all contexts are summed up anew, turn by turn."""
    highest = 0.0
    for turn in range(max(map(len, those), default=0)):
        there = [each[turn] for each in those if turn < len(each)]
        mean = sum(size * chance for size, chance in there)
        variance = sum(size * size * chance * (1 - chance) for size, chance in there)
        highest = max(highest, mean + DEVIATIONS * sqrt(variance))
    return highest


def agrees(profile: ContextProfile, more: Ahead, those: Sequence[Ahead]) -> None:
    """*more* fits beside *profile* exactly if there is room for the peak of *those*."""
    highest = peak(those)
    assert profile.fits(more, 1.000001 * highest + 0.001)
    assert not profile.fits(more, 0.999999 * highest - 0.001)


@pytest.mark.parametrize("seed", range(20))
def test_the_profile_agrees_with_sums_made_anew(seed: int) -> None:
    dice = random.Random(seed)
    those, profile = contexts(dice), ContextProfile()
    for each in those:
        profile.add(each)
    while len(those) > 1:
        out = those.pop(dice.randrange(len(those)))
        agrees(profile, (), [*those, out])
        profile.add(out, -1)
        agrees(profile, out, [*those, out])
        agrees(profile, (), those)
        sums = sum(size * chance for each in those for size, chance in each)
        assert profile.total == pytest.approx(sums)


def test_the_delay_is_the_first_turn_at_which_another_fits() -> None:
    profile = ContextProfile()
    profile.add([(90.0, 1.0), (95.0, 1.0), (40.0, 1.0)])
    assert profile.delay([(20.0, 1.0)], 100.0) == 2
    assert profile.overflow([(20.0, 1.0), (20.0, 1.0)], 100.0) == 25.0


def test_those_that_end_keep_their_room_for_a_while() -> None:
    residency = Residency(10_000)
    who = CachedConversation("agent")
    who.known = [20.0]
    assert residency.ahead(who, 10.0) == [(10.0, 1.0), (20.0, 1.0), (20.0, LINGER)]


def test_a_course_sums_up_the_survival_and_those_that_linger() -> None:
    history = KindHistory()
    for turns in (1, 2, 2, 5):
        for turn in range(turns):
            history.begin(turn, 100)
        history.end(turns)
    course, chances = history.course(0), [*history.survival(0), 0.0]
    left = [1.0, *chances]
    there = [chance + LINGER * (left[at] - chance) for at, chance in enumerate(chances)]
    assert [chance for _, chance in course.turns] == pytest.approx(there)
    assert course.chances == pytest.approx(sum(there))
    assert course.growths == pytest.approx(sum(at * chance for at, chance in course.turns))


@pytest.mark.parametrize("seed", range(5))
def test_a_history_agrees_with_one_that_is_made_anew(seed: int) -> None:
    dice, history = random.Random(seed), KindHistory()
    for _ in range(300):
        turns = dice.randint(1, 12)
        for turn in range(turns):
            history.begin(turn, dice.uniform(50, 150))
            history.paused(dice.random())
        history.end(turns)
    anew = KindHistory()
    anew.add(history.record())
    assert anew.mean_gap_s() == pytest.approx(history.mean_gap_s(), rel=1e-3)
    assert anew.survival(0) == history.survival(0)
    kept, fresh = history.course(0), anew.course(0)
    assert kept.chances == pytest.approx(fresh.chances, rel=0.05)


def test_only_those_that_have_decided_tell_how_many_go_on() -> None:
    history = KindHistory()
    for _ in range(40):
        history.begin(0, 0)
    for _ in range(20):
        history.end(1)
    assert history.survival(0)[1] < 0.05  # of the twenty that have decided nobody goes on
    for _ in range(20):
        history.begin(1, 100)
    assert history.survival(0)[1] == pytest.approx(0.5, abs=0.05)


def test_what_the_graph_is_sure_of_is_kept_to() -> None:
    history = KindHistory()
    assert history.survival(0, TurnBounds(24, 24)) == [1.0] * 24
    assert history.survival(20, TurnBounds(24, 24)) == [1.0] * 4
    assert (
        len(history.survival(0, TurnBounds(2, 5))) == 5
    )  # nine are expected of an unknown program
    assert len(history.survival(0, TurnBounds(40, 10**9))) == 40
    for _ in range(40):  # others of the kind have ended after two turns
        history.begin(0, 100)
        history.begin(1, 100)
        history.end(2)
    assert history.survival(0, TurnBounds(24, 24)) == [1.0] * 24
    assert len(history.survival(0)) == 2
    assert history.survival(0, TurnBounds(4, 10**9))[:4] == [1.0] * 4
    assert len(history.survival(0, TurnBounds(1, 1))) == 1


def test_a_conversation_is_counted_on_by_what_its_graph_tells() -> None:
    residency = Residency(100_000)
    who = CachedConversation("agent", told=TurnBounds(3, 3))
    residency.ask(who, 1000, 1000, 0.0)
    assert [size for size, _ in residency.ahead(who, 1000)] == [1000, 2000, 3000, 3000]
    residency.begin(who, 1000, 0.0)
    before = residency.profile.total
    residency.tell(who, TurnBounds(6, 6))
    assert residency.profile.total > before


def test_nobody_is_expected_to_end_before_somebody_has() -> None:
    history = KindHistory()
    for turn in range(10):
        history.begin(turn, 100)
    assert history.survival(9) == [1.0] * 11


def test_a_record_adds_to_what_is_known() -> None:
    one, other = KindHistory(), KindHistory()
    for history in (one, other):
        history.begin(0, 0)
        history.paused(0.5)
        history.begin(1, 70)
        history.end(2)
    one.add(other.record())
    assert (one.began, one.ended, one.growth, list(one.gaps)) == ([2, 2], [0, 2], 70, [0.5, 0.5])


@pytest.mark.parametrize("seed", range(10))
def test_no_other_stop_is_cheaper(seed: int) -> None:
    dice = random.Random(seed)
    gaps = sorted(dice.lognormvariate(0, 1) for _ in range(50))

    def cost(stop: float) -> float:
        return sum(gap if gap <= stop else stop + 3.0 for gap in gaps)

    stops = [0.0, *gaps, 3.0]
    best = min(cost(stop) for stop in stops if stop <= 3.0)
    assert cost(best_stop(gaps, 3.0)) <= 1.05 * best


def let_in(residency: Residency, line: WaitingLine, now: float) -> list[CachedConversation]:
    found = []
    while (who := line.next(now)) is not None:
        if who.rank is None and not residency.admits(who, who.size, residency.held):
            break
        line.remove(who)
        residency.begin(who, who.whole, now)
        found.append(who)
    return found


def arrive(
    residency: Residency, line: WaitingLine, who: CachedConversation, size: float, now: float
) -> None:
    residency.ask(who, size, size, now)
    line.add(who, now)


def test_no_more_are_let_in_than_will_fit_at_any_turn() -> None:
    residency = Residency(10_000)
    line = WaitingLine(residency)
    for number in range(20):
        who = CachedConversation("agent", (number,))
        who.known, who.last = [2000.0], True
        arrive(residency, line, who, 500, 0.0)
    assert len(let_in(residency, line, 1.0)) == 4
    naive = Residency(10_000, foresees=False)
    line = WaitingLine(naive)
    for number in range(20):
        arrive(naive, line, CachedConversation("agent", (number,)), 500, 0.0)
    assert len(let_in(naive, line, 1.0)) == 19


def test_newcomers_are_let_in_by_what_is_expected_also_while_nobody_is_served() -> None:
    residency = Residency(10_000)
    line = WaitingLine(residency)
    those = [CachedConversation("agent", (number,)) for number in range(20)]
    for who in those:
        who.known, who.last = [2000.0], True
        arrive(residency, line, who, 500, 0.0)
    inside = let_in(residency, line, 1.0)
    for who in inside:
        residency.rest(who, 500, 2.0)  # all are busy elsewhere, and will come back
    assert len(let_in(residency, line, 2.0)) == 1  # one more fits into what a server at rest offers
    for who in list(residency.lapsed(100.0)):
        assert who in inside
    assert len(let_in(residency, line, 100.0)) == 3


def test_those_that_were_let_in_go_before_newcomers_and_the_late_first() -> None:
    residency = Residency(10_000)
    line = WaitingLine(residency)
    first, second, new = (CachedConversation("agent", (number,)) for number in range(3))
    for who in (first, second):
        arrive(residency, line, who, 100, 0.0)
    assert let_in(residency, line, 0.0) == [first, second]
    for who in (first, second):
        residency.rest(who, 100, 1.0)
    arrive(residency, line, new, 100, 1.0)
    arrive(residency, line, second, 200, 1.5)
    arrive(residency, line, first, 200, 20.0)
    assert line.next(2.0) is first
    assert line.next(1.5 + 9 * residency.recompute_s) is second


def test_a_large_newcomer_is_passed_for_a_while_only() -> None:
    residency = Residency(10_000)
    line = WaitingLine(residency)
    large = CachedConversation("large", (0,))
    arrive(residency, line, large, 4000, 0.0)
    for number in range(1, 1000):
        small = CachedConversation("small", (number,))
        arrive(residency, line, small, 100, number - 0.5)
        who = line.next(float(number))
        assert who is not None
        line.remove(who)
        if who is large:
            return
    pytest.fail("it starves")


def test_the_worst_ranked_gives_way_and_what_lapses_is_dropped() -> None:
    residency = Residency(10_000)
    line = WaitingLine(residency)
    those = [CachedConversation("agent", (number,)) for number in range(3)]
    for who in those:
        arrive(residency, line, who, 100, 0.0)
    let_in(residency, line, 0.0)
    for who in those[1:]:
        residency.rest(who, 100, 1.0)
    assert residency.make_way(those[0], 1.0) is those[2]
    residency.drop(those[2])
    assert residency.make_way(those[0], 1.0) is those[1]
    assert residency.next_lapse() == pytest.approx(1.0 + residency.recompute_s)
    assert list(residency.lapsed(100.0)) == [those[1]]
    assert residency.held == 100 and residency.next_lapse() is None


def test_those_who_are_away_count_before_they_come_back() -> None:
    residency = Residency(35_000)
    those = [CachedConversation("agent", (at,)) for at in range(20)]
    for who in those:
        residency.ask(who, 100, 100, 0.0)
        residency.begin(who, 100, 0.0)
        residency.rest(who, 100, 0.0)
    for who in those[:8]:  # the quick ones alone would have prompts kept for half a second
        residency.ask(who, 200, 200, 0.5)
    kind, cache_s = residency.kind("agent"), residency.recompute_s
    assert 0.5 <= kind.keep_s(cache_s) < 0.6
    assert those[8:] == [who for who in residency.lapsed(2.0) if who.away] and kind.away == 12
    later = CachedConversation("agent", (20,))
    residency.ask(later, 100, 100, 2.0)
    residency.begin(later, 100, 2.0)
    residency.rest(later, 100, 2.0)
    assert later.kept == pytest.approx(2.0 + 0.02 * cache_s)
    for who in those[8:15]:
        residency.ask(who, 200, 200, 9.0)
    for who in those[15:]:
        residency.end(who)
    assert kind.away == 0


@pytest.mark.parametrize("speed", [1000, 35_000, 10**6])
def test_prompts_are_kept_as_long_as_the_server_needs_to_compute_them(speed: int) -> None:
    residency = Residency(10_000, times=ServerTimes(prompt_s=1 / speed))
    who = CachedConversation("agent", (0,))
    arrive(residency, WaitingLine(residency), who, 100, 0.0)
    residency.begin(who, 100, 0.0)
    residency.rest(who, 100, 1.0)
    assert residency.next_lapse() == pytest.approx(1.0 + 10_000 * max(1 / speed, QUICKEST_S))


def test_one_that_has_waited_for_too_long_takes_the_place_of_the_one_that_gives_way() -> None:
    residency = Residency(10_000)
    line = WaitingLine(residency)
    those = [CachedConversation("agent", (number,)) for number in range(3)]
    for who in those:
        arrive(residency, line, who, 100, 0.0)
    let_in(residency, line, 0.0)
    better, late = those[0], those[2]
    residency.rest(late, 100, 1.0)
    residency.drop(late)
    residency.rest(better, 100, 1.0)
    arrive(residency, line, late, 200, 2.0)
    assert residency.make_way(late, 2.0) is None
    assert residency.make_way(late, 2.1 + PATIENCE * residency.recompute_s) is better
    assert (late.rank, better.rank) == (0, 2)


@pytest.mark.parametrize("seed", range(5))
def test_an_account_is_empty_when_all_have_ended(seed: int) -> None:
    dice, residency = random.Random(seed), Residency(20_000)
    line, now = WaitingLine(residency), 0.0
    those = [CachedConversation(dice.choice("ab"), (number,)) for number in range(30)]
    for who in those:
        arrive(residency, line, who, dice.randint(50, 3000), now)
    running: list[CachedConversation] = []
    while running or len(line):
        now += dice.random()
        list(residency.lapsed(now))
        running += let_in(residency, line, now)
        assert running
        who = running.pop(dice.randrange(len(running)))
        residency.rest(who, who.size, now)
        if dice.random() < 0.3:
            residency.end(who, finished=dice.random() < 0.5)
        else:
            arrive(residency, line, who, who.size + dice.randint(1, 400), now)
    assert residency.held == 0 and residency.running == 0 and residency.next_lapse() is None
    assert residency.profile.total == pytest.approx(0, abs=1e-3)

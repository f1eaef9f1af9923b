"""A worker that dies: what it had told is kept, what it was working on is worked on again."""

from __future__ import annotations

import pytest

import appl
from appl import call, gen, gen_with_tools, map as appl_map, ppl
from appl.errors import WorkerLost
from appl.testing import CallEnded, calling
from appl.testing.engine import Threads
from appl.tracing import Trace
from tests.engine.worlds import NeverSlow, World, calls, replay, words


@ppl
def chain(word):
    f"{word} 0"
    for step in range(1, 4):
        answer = gen()
        f"{answer} {step}"
    return str(gen())


class Deadly(World):
    """A world in which the one worker dies once, when the call at *address* is with the model.

    What it had asked before came with that question, and so did all that had happened.
    """

    def __init__(self, answer, address, **options):
        super().__init__(self._asked, **options)
        self._says, self._address, self._lives = answer, address, True
        self.engine = None

    def _asked(self, request):
        if request.address == self._address and self._lives:
            self._lives = False
            self.engine.hired[-1].kill()
        return self._says(request)

    def map(self, f, items, **options):
        self.engine = Threads(workers=1, **options)
        return appl_map(f, items, on_error="collect", engine=self.engine)


def test_what_was_recorded_is_not_paid_again(tmp_path):
    world = Deadly(words, "/chain.1/gen.2")
    with world.run(tmp_path / "trace"):
        values = world.map(chain, "abcdef", at_once=2)
    engine = world.engine
    assert len(engine.hired) == 2
    ended = [event.address for event in world.log.of(CallEnded) if event.source is None]
    assert len(ended) == len(set(ended)) == 24
    assert Trace.open(tmp_path / "trace").totals().answered == 24
    assert len(world.asked) == len(set(world.asked)), "also what was on its way is paid once"
    with World(words).run(tmp_path / "here"):
        assert appl_map(chain, "abcdef") == values
    assert calls(tmp_path / "here") == calls(tmp_path / "trace")
    assert replay(tmp_path / "trace", lambda: appl_map(chain, "abcdef", engine=engine)) == values


@pytest.mark.parametrize("items", ["abcdef", "abcdefghijkl"])
def test_items_go_on_elsewhere_while_their_workers_do_not_start(tmp_path, items):
    """A cluster may still count the places of a node that is gone."""
    engine = Threads(workers=3, at_once=2, room=1)
    with World(words).run(tmp_path / "trace"):
        values = appl_map(chain, items, engine=engine)
    assert (
        len(engine.hired) == 3 and [worker.sent > 0 for worker in engine.hired][1:] == [False] * 2
    )
    with World(words).run(tmp_path / "here"):
        assert appl_map(chain, items) == values
    assert calls(tmp_path / "here") == calls(tmp_path / "trace")


def test_an_item_that_kills_its_workers_fails_alone(tmp_path):
    engine = Threads(workers=1, at_once=4, tries=3)

    def deadly(word):
        if word == "b" and engine.hired:
            engine.hired[-1].kill()
        return chain(word)

    with World(words).run(tmp_path / "trace"):
        found = appl_map(deadly, "abcdef", on_error="collect", engine=engine)
    assert isinstance(found[1], WorkerLost)
    assert "/deadly.1: 3 workers were lost over it" in str(found[1])
    assert all(isinstance(each, str) for i, each in enumerate(found) if i != 1)
    again = replay(
        tmp_path / "trace",
        lambda: appl_map(deadly, "abcdef", on_error="collect", engine=engine),
    )
    assert list(map(str, again)) == list(map(str, found)) and type(again[1]) is WorkerLost


@ppl
def within_means(word):
    with appl.budget(calls=2) as inside:
        f"{word}"
        first = str(gen())
        f"{first} again"
        second = str(gen())
    return first, second, inside.spent.calls


def test_the_budget_of_an_item_begins_anew_with_it(tmp_path):
    world = Deadly(words, "/within_means.1/gen.1")
    with world.run(tmp_path / "trace"), appl.budget(calls=6) as around:
        values = world.map(within_means, "abc", at_once=3)
    assert [value[:2] for value in values] == [(w, f"{w}\n{w} AGAIN") for w in "ABC"]
    assert around.spent.calls == len(world.asked) == 6


def test_a_call_that_goes_on_for_another_worker_can_be_cancelled_there(tmp_path):
    def impatient(word):
        slow = call(chain, f"slow {word}")
        answer = str(gen(messages=f"fast {word}"))
        slow.cancel()
        return answer

    world = Deadly(words, "/impatient.0/chain.0/gen.0")
    backend = NeverSlow(world._asked)
    world.backend = lambda: backend
    with world.run(tmp_path / "trace"):
        assert world.map(impatient, ["x"]) == ["FAST X"]
    assert len(world.engine.hired) == 2 and backend.aborted == ["/impatient.0/chain.0/gen.0"]
    again = replay(tmp_path / "trace", lambda: appl_map(impatient, ["x"], engine=world.engine))
    assert again == ["FAST X"]


ran = []


def pay(amount: int) -> str:
    """Pay.

    Args:
        amount: how much
    """
    ran.append(amount)
    return f"paid {amount}"


@ppl
def paying(word):
    f"pay for {word}"
    first = gen(tools=[pay])
    results = first.run_tool_calls()
    [results]
    return str(gen())


def spender(request):
    if any(message.role == "tool" for message in request.messages):
        return words(request)
    return calling(("pay", {"amount": 3}))


def test_a_tool_that_has_run_does_not_run_again(tmp_path):
    ran.clear()
    world = Deadly(spender, "/paying.0/gen.1")
    with world.run(tmp_path / "trace"):
        values = world.map(paying, ["x"])
    assert len(world.engine.hired) == 2 and ran == [3]
    again = replay(tmp_path / "trace", lambda: appl_map(paying, ["x"], engine=world.engine))
    assert again == values


def test_a_tool_that_may_have_had_its_effect_stops_its_item():
    hands = []

    def fatal(amount: int) -> str:
        """Pay.

        Args:
            amount: how much
        """
        hands[-1].hired[-1].kill()
        return "too late"

    @ppl
    def doomed(word):
        f"{word}"
        return str(gen_with_tools(tools=[fatal]))

    hands.append(Threads(workers=1))
    world = World(lambda request: calling(("fatal", {"amount": 3})))
    with world.run(), pytest.raises(WorkerLost, match="while the tool fatal ran"):
        appl_map(doomed, ["x"], engine=hands[-1])


def test_items_go_to_the_workers_that_are_left_and_do_not_wait_for_new_ones(tmp_path):
    engine = Threads(workers=2, room=2)
    world = Deadly(words, "/chain.1/gen.2")
    world.engine = engine
    with world.run(tmp_path / "trace"):
        values = appl_map(chain, "abcdef", engine=engine)
    assert [worker.starts for worker in engine.hired] == [True, True, False]
    with World(words).run():
        assert appl_map(chain, "abcdef") == values
    assert replay(tmp_path / "trace", lambda: appl_map(chain, "abcdef", engine=engine)) == values


def test_items_without_a_worker_are_lost_when_no_new_one_starts(tmp_path, capsys):
    world = Deadly(words, "/chain.1/gen.2")
    with world.run(tmp_path / "trace"):
        found = world.map(chain, "abcdef", at_once=2, room=1)
    assert isinstance(found[1], WorkerLost) and isinstance(found[5], WorkerLost)
    assert "/chain.1: no worker is left to work on it; the last one: it did not" in str(found[1])
    assert len(world.engine.hired) == 4
    told = "appl: chain(): a worker is lost (worker 0 died); its items go to another one\n"
    assert capsys.readouterr().err == told
    again = replay(
        tmp_path / "trace",
        lambda: appl_map(chain, "abcdef", on_error="collect", engine=world.engine),
    )
    assert list(map(str, again)) == list(map(str, found))


def test_a_map_that_raises_ends_with_the_first_item_that_has_no_worker():
    engine = Threads(workers=1, at_once=2, room=0)
    with World(words).run(), pytest.raises(WorkerLost, match=r"/chain\.0: no worker is left"):
        appl_map(chain, "abcdef", engine=engine)

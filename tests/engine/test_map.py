"""``map(engine=…)``: one run, whoever works on the items."""

from __future__ import annotations

import asyncio
import itertools
import pickle
import random

import pytest

import appl
from appl import call, gen, map as appl_map, ppl, records
from appl.errors import BackendError, CallCancelled, InvalidOption, ModelNotFound, RunError
from appl.parts.engine.worker_process import WorkerSetup
from appl.testing import CallEnded, Delivered, Fake, ScopeEntered, Streamed, running
from appl.testing.engine import Threads
from appl.tracing import Trace
from tests.engine.worlds import NeverSlow, World, calls, replay, words


@ppl
def twice(word):
    f"first {word}"
    first = gen()
    f"then {first}"
    return f"{first} {gen()}"


@ppl
def plain_of(word):
    return [str(one) for one in (twice(word), twice(word + "!"))]


def ordinary(word):
    return twice(word).upper() + str(appl.env("HOME"))


def drawing(word):
    return f"{word} {appl.random()} {appl.now()}"


async def awaited(word):
    return str(await gen(messages=f"say {word}"))


@ppl("copy")
def seeing(word):
    f"now {word}"
    return str(gen())


@pytest.mark.parametrize("f", [twice, plain_of, ordinary, awaited])
def test_the_run_is_what_it_would_be_in_one_process(f, tmp_path):
    items = [f"w{i}" for i in range(9)]

    def program(engine):
        before = str(twice("before"))
        return before, appl_map(f, items, engine=engine), str(twice("after"))

    values = []
    for name, engine in (("here", None), ("there", Threads())):
        with World(words).run(tmp_path / name):
            values.append(program(engine))
    assert values[0] == values[1]
    assert calls(tmp_path / "here") == calls(tmp_path / "there")
    for engine in (None, Threads()):
        assert replay(tmp_path / "there", lambda: program(engine)) == values[0]  # noqa: B023


def test_what_an_item_sees_of_the_world_is_recorded(tmp_path):
    def program():
        return appl_map(drawing, "abc", engine=Threads())

    with World(words).run(tmp_path / "trace"):
        seen = program()
    assert replay(tmp_path / "trace", program) == seen


def test_scopes_and_deliveries_are_those_of_one_process(tmp_path):
    logs = []
    for engine in (None, Threads()):
        world = World(words)
        with world.run():
            appl_map(twice, "abcdef", engine=engine)
        logs.append(world.log)
    for kind in (ScopeEntered, Delivered, CallEnded):
        here, there = (sorted(each.address for each in log.of(kind)) for log in logs)
        assert here == there


def test_items_see_the_callers_prompt(tmp_path):
    @ppl
    def caller(engine):
        "Known: 17."
        answer = gen()
        f"So {answer} it is."
        with appl.AIRole():
            "Yes."
        return appl_map(seeing, ["x", "y"], engine=engine)

    world, plain = World(words), World(words)
    with world.run(tmp_path / "there"):
        there = caller(Threads())
    with plain.run(tmp_path / "here"):
        assert caller(None) == there
    assert calls(tmp_path / "here") == calls(tmp_path / "there")
    assert replay(tmp_path / "there", lambda: caller(Threads())) == there


def test_a_function_that_writes_the_callers_prompt_is_refused():
    @ppl("same")
    def writes(word):
        f"{word}"

    with World(words).run(), pytest.raises(InvalidOption, match="cannot be written from another"):
        appl_map(writes, "ab", engine=Threads())


def test_an_item_may_return_answers_records_and_data():
    @ppl
    def told(word):
        f"{word}"
        return {"answer": gen(), "n": 3, "said": str(records())}

    with World(words).run():
        assert appl_map(told, "ab", engine=Threads()) == [
            {"answer": word.upper(), "n": 3, "said": word} for word in "ab"
        ]


def failing(request):
    word = words(request)
    return BackendError(f"no {word}") if word.startswith("BAD") else word


@ppl
def ask(word):
    f"{word}"
    return str(gen())


def test_the_first_failure_in_order_is_raised_and_replays(tmp_path):
    items = ["a", "b", "bad c", "d", "bad e", *"fghijklmnop"]

    def program():
        with pytest.raises(BackendError, match="no BAD C") as raised:
            appl_map(ask, items, engine=Threads(at_once=3))
        assert any("/ask.2" in note for note in raised.value.__notes__)
        return ask("after")

    with World(failing).run(tmp_path / "trace"):
        assert program() == "AFTER"
    assert "/ask.16/gen.0" in calls(tmp_path / "trace")  # the rest have kept their addresses
    assert replay(tmp_path / "trace", program) == "AFTER"


def test_failures_are_collected_in_their_places(tmp_path):
    def program():
        found = appl_map(ask, ["a", "bad", "c"], on_error="collect", engine=Threads())
        return [str(each) for each in found]

    with World(failing).run(tmp_path / "trace"):
        assert program() == ["A", "no BAD", "C"]
    assert replay(tmp_path / "trace", program) == ["A", "no BAD", "C"]


def test_an_error_of_the_users_own_comes_back_as_itself():
    class Own(Exception):
        pass

    def bad(word):
        raise Own(word)

    with World(words).run(), pytest.raises(Own, match="x") as raised:
        appl_map(bad, "x", engine=Threads())
    assert "on a worker" in raised.value.__notes__[-1]


def test_a_coroutine_awaits_it(tmp_path):
    async def program():
        return await appl_map(awaited, "abc", engine=Threads())

    with World(words).run(tmp_path / "trace"):
        assert asyncio.run(program()) == ["SAY A", "SAY B", "SAY C"]
    assert replay(tmp_path / "trace", lambda: asyncio.run(program())) == ["SAY A", "SAY B", "SAY C"]


def test_items_are_taken_as_there_is_room():
    taken = itertools.count()
    most = []

    def items():
        for _ in range(200):
            yield next(taken)

    def f(number):
        most.append(number)
        return number * 2

    with World(words).run():
        found = appl_map(f, items(), engine=Threads(at_once=3))
    assert found == [2 * i for i in range(200)]
    assert all(number <= place + 6 for place, number in enumerate(most))


def test_at_most_so_many_at_once_are_given_out():
    engine = Threads(workers=3, at_once=8)
    present, most = [], []

    def f(number):
        present.append(number)
        most.append(len(present))
        value = str(gen(messages=f"{number}"))
        present.remove(number)
        return value

    with World(words).run():
        appl_map(f, range(20), concurrency=2, engine=engine)
    assert max(most) <= 2


def test_what_an_item_leaves_running_is_waited_for_and_its_failure_is_heard(tmp_path):
    @ppl
    def leaves(word):
        call(ask, f"bad {word}")
        return word

    with World(failing).run(tmp_path / "trace"), pytest.raises(BackendError, match="no BAD"):
        appl_map(leaves, "ab", engine=Threads())
    assert sum(c[2] == "failed" for c in calls(tmp_path / "trace").values()) == 2


class Open:
    def __reduce__(self):
        raise TypeError("cannot pickle an open file")


class Strict(Threads):
    """An engine that sends only what any process could read."""

    @staticmethod
    def dumps(value):
        return pickle.dumps(value) if not isinstance(value, WorkerSetup) else Threads.dumps(value)


def test_what_cannot_be_sent_is_refused_with_what_to_do():
    def inner(word):
        return word

    with (
        World(words).run(),
        pytest.raises(InvalidOption, match=r"item 1 cannot be sent .*open file"),
    ):
        appl_map(str, ["a", Open()], engine=Strict())
    with (
        World(words).run(),
        pytest.raises(InvalidOption, match=r"function inner\(\) cannot be sent"),
    ):
        appl_map(inner, ["a"], engine=Strict())
    with World(words).run(), pytest.raises(RunError, match=r"returned what cannot be sent"):
        appl_map(opened, ["a"], engine=Strict())


def opened(word):
    return [Open()]


def test_a_run_made_by_hand_has_workers_too():
    with running(Fake(words)):
        assert appl_map(ask, "ab", engine=Threads()) == ["A", "B"]


def test_a_worker_asks_the_calling_process_what_a_model_is_and_opens_no_cache(tmp_path):
    store = tmp_path / "answers.db"

    @ppl
    def named(word, cache):
        f"{word}"
        return str(gen("large", cache=cache)), str(gen("large", cache=cache))

    def of_cache(word):
        return named(word, store)

    world = World(words)
    with world.run():
        assert appl_map(of_cache, "aa", engine=Threads()) == [("A", "A")] * 2
    assert len(world.asked) == 1 and store.exists()
    with running(Fake(words, models=("fox", "owl"))), pytest.raises(ModelNotFound, match="'fxo'"):
        appl_map(lambda word: str(gen("fxo", messages=word)), "a", engine=Threads())


def test_a_call_that_a_program_cancels_on_a_worker_is_aborted_and_replays(tmp_path):
    def impatient(word):
        slow = call(ask, f"slow {word}")
        answer = ask(word)
        slow.cancel()
        with pytest.raises(CallCancelled):
            str(slow)
        return answer

    def program():
        return appl_map(impatient, "ab", engine=Threads())

    world, backend = World(words), NeverSlow(words)
    world.backend = lambda: backend
    with world.run(tmp_path / "trace"):
        assert program() == ["A", "B"]
    assert sorted(backend.aborted) == ["/impatient.0/ask.0/gen.0", "/impatient.1/ask.0/gen.0"]
    outcomes = [facts[2] for facts in calls(tmp_path / "trace").values()]
    assert sorted(outcomes) == ["answered", "answered", "cancelled", "cancelled"]
    assert replay(tmp_path / "trace", program) == ["A", "B"]


def test_an_engine_is_named_or_given():
    with World(words).run(), pytest.raises(InvalidOption, match="it is 'ray'"):
        appl_map(ask, "ab", engine="spark")


def test_streams_come_over_as_they_were_cut(tmp_path):
    @ppl
    def streaming(word):
        f"{word}"
        return "|".join(gen(stream=True).text_stream)

    def program():
        return appl_map(streaming, ["abcdef", "xyz"], engine=Threads())

    with World(lambda r: Streamed(tuple(words(r)))).run(tmp_path / "trace"):
        seen = program()
    assert [text.replace("|", "") for text in seen] == ["ABCDEF", "XYZ"]
    assert replay(tmp_path / "trace", program) == seen
    told = Trace.open(tmp_path / "trace").by_address
    lengths = [len(list(told[f"/streaming.{i}/gen.0"].chunks())) for i in range(2)]
    assert lengths == [6, 3]


@pytest.mark.parametrize("seed", range(8))
def test_losing_workers_at_random_changes_nothing(seed, tmp_path):
    dice = random.Random(seed)
    engine = Threads(workers=3, at_once=4, tries=50, lose=lambda _: dice.random() < 0.05)

    def program(engine):
        return appl_map(ordinary, [f"w{i}" for i in range(25)], engine=engine)

    world = World(words)
    with world.run(tmp_path / "there"):
        there = program(engine)
    with World(words).run(tmp_path / "here"):
        assert program(None) == there
    assert calls(tmp_path / "here") == calls(tmp_path / "there")
    assert replay(tmp_path / "there", lambda: program(engine)) == there
    trace = Trace.open(tmp_path / "there")
    assert len(trace.by_address) == len(trace.calls) == 50

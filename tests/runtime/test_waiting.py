"""Futures behave as their values; what waits and what does not."""

from __future__ import annotations

import collections
import copy
import dataclasses
import json
import pickle
import queue
import types

import pytest

from appl import Generation, Text, call, gen, ppl
from appl.errors import BackendError
from appl.testing import Held, Scripted, running


@ppl
def twice():
    return gen(), gen()


def texts(*answers):
    return running(Scripted(answers))


def test_a_generation_behaves_as_its_text():
    with texts("abc"):
        g = gen(messages="x")
        assert g == "abc" and g != "x" and g < "b" and "b" in g
        assert g + "d" == "abcd" and "z" + g == "zabc" and g * 2 == "abcabc"
        assert len(g) == 3 and g[0] == "a" and list(g) == ["a", "b", "c"] and bool(g)
        assert g.upper() == "ABC" and f"{g:>5}" == "  abc" and repr(g) == "'abc'"
        assert {g: 1}["abc"] == 1 and "".join([str(g)]) == "abc"
        assert type(str(g)) is Text and isinstance(str(g), str)
        assert copy.deepcopy(g) is g and pickle.loads(pickle.dumps(g)) == "abc"


def test_an_answer_knows_how_it_came_about():
    with texts("abc def"):
        g = gen(messages="x y")
        assert (g.usage.prompt_tokens, g.usage.completion_tokens, g.usage.cached_tokens) == (
            2,
            2,
            None,
        )
        assert g.cost is None and g.finish_reason == "stop" and g.logprobs is None
        assert g.message.content == "abc def" and g.call_id == "/gen.0"
        assert str(g).usage == g.usage and type(g.result()) is Text
        assert str(g).call_id == g.call_id and g.samples[0].call_id == g.call_id


def test_ordinary_callees_receive_finished_values():
    @ppl
    def body():
        a, b = twice()
        return (
            json.loads(a),
            ",".join([a, b]),
            collections.Counter([b]),
            json.dumps({"k": [a, (b,)]}),
            sorted({a, b}),
        )

    with texts("1", "2"):
        assert body() == (1, "1,2", {"2": 1}, '{"k": ["1", ["2"]]}', ["1", "2"])


def test_lists_and_dicts_are_resolved_in_place_and_tuples_as_copies():
    @ppl
    def body():
        a, b = twice()
        inner, pair, table = [a], (a, b), {"k": b}
        repr((inner, pair, table))
        return type(inner[0]), type(pair[0]), type(table["k"])

    with texts("1", "2"):
        assert body() == (Text, Generation, Text)


def test_a_failure_leaves_containers_as_they_were():
    @ppl
    def body():
        a, b = twice()
        values = [a, b]
        try:
            json.dumps(values)
        except BackendError:
            failed = True
        assert failed
        return type(values[0])

    with texts("1", BackendError("no")):
        assert body() is Generation


@dataclasses.dataclass
class Point:
    x: object
    y: object = 0


class Pair(collections.namedtuple("Pair", "a b")):
    pass


Plain = collections.namedtuple("Plain", "a b")


def test_what_does_not_wait():
    @ppl
    def body():
        g = gen()
        stores = []
        stores.append(g)
        stores.extend([g])
        stores.insert(0, g)
        table = dict(a=g)
        table.update(b=g)
        table.setdefault("c", g)
        deque = collections.deque()
        deque.appendleft(g)
        waiting = queue.Queue()
        waiting.put(g)
        space = types.SimpleNamespace(g=g)
        space.other = g
        return (
            stores, table, list(deque), [waiting.get()], space, Point(g), Plain(g, g), (g, [g]),
            len([g]), list(zip([g], [g], strict=True)), list(enumerate([g])), isinstance(g, str), type(g),
        )  # fmt: skip

    backend = Held()
    with running(backend):
        result = body()
        assert result[0][0] is result[1]["a"]
        assert type(result[5].x) is Generation and type(result[6].a) is Generation
        assert result[11] is False and result[12] is Generation
        held = result[0][0]
        held.cancel()
        assert not backend.requests or backend.aborted is not None


def test_set_members_and_keys_are_finished_values():
    @ppl
    def body():
        g = gen()
        return (
            {type(each) for each in {g}},
            [type(k) for k in {g: 1}],
            [type(k) for k in {g for _ in "x"}],
        )

    with texts("1"):
        assert body() == ({Text}, [Text], [Text])


def test_a_failed_call_raises_where_its_value_is_needed():
    @ppl
    def body():
        g = gen()
        kept = [g]
        return kept

    with running(Scripted([BackendError("no luck")])):
        (g,) = body()
        with pytest.raises(BackendError, match="no luck") as caught:
            str(g)
        assert "/body.0/gen.0" in caught.value.__notes__[0]
        assert "test_waiting.py" in caught.value.__notes__[0]
        frames = len(caught.traceback)
        with pytest.raises(BackendError) as again:
            g + ""
        assert len(again.traceback) <= frames + 2 and len(again.value.__notes__) == 1


def test_a_failed_part_fails_the_calls_after_it():
    @ppl
    def body():
        f"{gen()}"
        return gen()

    with running(Scripted([BackendError("first")])) as seen:
        g = body()
        with pytest.raises(BackendError, match="first"):
            str(g)
    assert len(seen.requests) == 1


def test_a_failure_that_nobody_looked_at_is_raised_at_the_end():
    with pytest.raises(BackendError, match="unseen"), running(Scripted([BackendError("unseen")])):
        gen(messages="x")


def test_match_and_in_see_finished_values():
    @ppl
    def body():
        g = gen()
        match g:
            case "yes":
                found = g in "yes or no"
            case _:
                found = None
        return found

    with texts("yes"):
        assert body() is True


def test_a_future_of_a_function_behaves_as_its_value():
    def table():
        return {"a": [1, 2]}

    with texts():
        f = call(table)
        assert f["a"][0] == 1 and len(f) == 1 and "a" in f and f == {"a": [1, 2]}
        f["b"] = 3
        assert f.result() == {"a": [1, 2], "b": 3}


def test_lambdas_and_keys_may_wait():
    @ppl
    def body():
        first, second = twice()
        return sorted([first, second], key=lambda g: g.lower()), [*map(str.upper, [first])]

    with texts("b", "A"):
        assert body() == (["A", "b"], ["B"])


def test_ten_thousand_calls_in_one_chain():
    @ppl
    def chain(n):
        for _ in range(n):
            f"{gen()}"

    with running(Scripted(lambda r: "x")) as seen:
        chain(3000)
    assert len(seen.requests) == 3000


def test_a_long_failing_chain_does_not_overflow():
    @ppl
    def chain(n):
        for _ in range(n):
            f"{(last := gen())}"
        return last

    first = pytest.raises(BackendError, match="first")
    with running(Scripted(lambda r: BackendError("first"))) as seen, first:
        str(chain(3000))
    assert len(seen.requests) == 1

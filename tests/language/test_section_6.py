"""Waiting: where a value is needed, and where it is not."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import json
import operator
import queue
import types
from functools import reduce

import pytest

from appl import Generation, Text, call, gen, ppl
from appl.errors import BackendError
from appl.testing import Held, Scripted, running


def seven():
    return running(Scripted(lambda request: "7"))


def kinds(*args, **kwargs):
    return [type(each) for each in (*args, *kwargs.values())]


def test_conditions_and_operators_see_the_value():
    @ppl
    def program():
        g = gen()
        first, *rest = g + "89"
        assert g
        return (
            "yes" if g == "7" else "no", not g, "1" + g, "%s" % g, g > "6", g in ("7",),  # noqa: UP031
            g[0], list(g), first, rest, len(g), int(g),
        )  # fmt: skip

    with seven():
        assert program() == (
            "yes", False, "17", "7", True, True, "7", ["7"], "7", ["8", "9"], 1, 7,
        )  # fmt: skip


def test_ordinary_callees_get_finished_values():
    @ppl
    def program():
        g = gen()
        return (
            reduce(operator.add, [g, g]), list(itertools.chain([g], (g,))), "a-b".replace("-", g),
            {**{"k": g}}["k"].upper(), json.dumps([g, (g,), {"k": g}]), eval(g),
        )  # fmt: skip

    with seven():
        assert program() == ("77", ["7", "7"], "a7b", "7", '["7", ["7"], {"k": "7"}]', 7)


def test_unpacked_arguments_are_finished_too():
    @ppl
    def program():
        g = gen()
        return kinds(*[g], **{"k": g}), kinds(*(each for each in [g]))

    with seven():
        assert program() == ([Text, Text], [Text])


def test_a_generator_expression_starts_calls_as_it_is_read():
    @ppl
    def program():
        return "".join(gen() for _ in "ab"), sum(int(gen()) for _ in "ab"), max(gen() for _ in "ab")

    with seven():
        assert program() == ("77", 14, "7")


@pytest.mark.parametrize(
    "iterable",
    [
        lambda ask: map(ask, "ab"),
        lambda ask: {each: ask(each) for each in "ab"}.values(),
        lambda ask: reversed([ask("b"), ask("a")]),
        lambda ask: collections.deque([ask("a"), ask("b")]),
        lambda ask: _plain_generator(ask),
        lambda ask: itertools.chain([ask("a")], [ask("b")]),
    ],
)
def test_what_takes_every_element_of_an_iterator_gets_finished_values(iterable):
    @ppl
    def ask(word):
        f"{word}"
        return gen()

    @ppl
    def program():
        return ", ".join(iterable(ask)), sorted(iterable(ask)), max(iterable(ask))

    with running(Scripted(lambda request: list(request.messages)[-1].content.upper())):
        assert program() == ("A, B", ["A", "B"], "B")


def _plain_generator(ask):
    for word in "ab":
        yield ask(word)


def test_the_methods_that_python_converts_by_give_values():
    class Topic:
        @ppl
        def __str__(self):
            "Name a topic."
            return gen()

    @ppl
    def program():
        return str(Topic()) + f"{Topic()!s}"

    with running(Scripted(["rain", "snow"])):
        assert program() == "rainsnow"


def test_a_list_that_holds_itself_is_resolved():
    @ppl
    def program():
        values = [gen()]
        values.append(values)
        return repr(values)

    with seven():
        assert program() == "['7', [...]]"


def test_subclasses_and_fields_are_not_searched():
    class Mine(list):
        pass

    @ppl
    def program():
        mine, space = Mine(), types.SimpleNamespace()
        mine[:] = [gen()]
        space.field = gen()
        repr_free = kinds(mine, space)
        return repr_free, type(list.__getitem__(mine, 0)), type(space.field)

    with seven():
        assert program() == ([Mine, types.SimpleNamespace], Generation, Generation)


@dataclasses.dataclass
class Stored:
    value: object


@dataclasses.dataclass
class Looked:
    value: object

    def __post_init__(self):
        self.kind = type(self.value)


def test_a_constructor_with_code_of_its_own_gets_the_value():
    @ppl
    def program():
        g = gen()
        return type(Stored(g).value), Looked(g).kind

    with seven():
        assert program() == (Generation, Text)


def test_storing_slicing_and_copying_do_not_wait():
    @ppl
    def program():
        g = gen(messages="x")
        values, table, line = [g], {"a": g}, queue.Queue()
        values += [g]
        values[0] = g
        table["b"] = g
        table |= {"c": g}
        line.put(g)
        deque = collections.deque([1], maxlen=9)
        deque.extend([g])
        copies = [*values, *values[1:], *(values * 2), *reversed(values), *table.values()]
        kept = [each for each in copies if each is not None], {k: v for k, v in table.items()}
        later = lambda: g  # noqa: E731
        return g if True else None, kept, later(), table.get("a"), table.pop("b"), line.get()

    backend = Held()
    with running(backend):
        g, *_ = program()
        assert g._pending.outcome is None
        g.cancel()


def test_saying_returning_and_passing_on_do_not_wait():
    @ppl
    def inner(value):
        f"{value}"
        return value

    @ppl
    def program():
        g = gen(messages="x")
        f"{g}"
        [g, (g,)]
        return inner(g), gen(messages=[{"role": "user", "content": g}])

    backend = Held()
    with running(backend):
        g, after = program()
        assert g._pending.outcome is None
        after.cancel()
        g.cancel()


def test_patterns_see_finished_values():
    @ppl
    def program():
        g = gen()
        match {"k": [g]}:
            case {"k": ["7"]}:
                inside = True
            case _:
                inside = False
        match g:
            case str():
                return inside, "str"
            case _:
                return inside, "other"

    with seven():
        assert program() == (True, "str")


def test_the_original_exception_is_raised_with_its_place():
    class Odd(Exception):
        pass

    @ppl
    def program():
        g = gen()
        return g.upper()

    odd = Odd("x", 1)
    with running(Scripted([odd])), pytest.raises(Odd) as caught:
        program()
    assert caught.value is odd and "/program.0/gen.0, " in odd.__notes__[0]


def test_a_failure_is_raised_each_time_it_is_looked_at_and_not_at_the_end():
    with running(Scripted([BackendError("no")])):
        g = gen(messages="x")
        for _ in range(2):
            with pytest.raises(BackendError, match="no"):
                str(g)


def test_asking_whether_it_is_done_is_not_looking():
    with pytest.raises(BackendError, match="no"), running(Scripted([BackendError("no")])):
        g = gen(messages="x")
        while not g.done():
            pass


def test_a_plain_function_that_fails_beside_is_raised_at_the_end():
    def failing():
        raise ValueError("beside")

    with pytest.raises(ValueError, match="beside"), running(Scripted([])):
        call(failing)


def test_a_list_of_calls_in_plain_python_is_parallel():
    @ppl
    def ask(word):
        f"{word}"
        return gen()

    most = []

    class Together(Held):
        def on_idle(self, final=True):
            most.append(len(self.waiting))
            self.release()
            return bool(most[-1])

    with running(Together()):
        [str(each) for each in [ask(word) for word in "abc"]]
    assert most[0] == 3

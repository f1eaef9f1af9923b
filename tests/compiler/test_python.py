"""It is Python: what decoration must not break."""

from __future__ import annotations

import abc
import asyncio
import contextlib
import dataclasses
import functools
import gc
import inspect
import sys
import weakref
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from .support import define, lowered, module, ppl, said


def test_a_cell_that_is_bound_again_later_is_seen() -> None:
    word = "old"

    @ppl
    def f() -> str:
        return word

    word = "new"
    assert f() == "new"


def test_closure_and_free_variables_are_the_users_own() -> None:
    word = "x"

    def f() -> str:
        return word

    compiled = ppl(f)
    assert compiled.__closure__ == f.__closure__
    assert compiled.__code__.co_freevars == f.__code__.co_freevars


def test_nonlocal_writes_through() -> None:
    count = 0

    @ppl
    def f() -> None:
        nonlocal count
        count += 1

    f()
    f()
    assert count == 2


def test_nonlocal_of_a_function_inside_writes_through() -> None:
    count = 0

    @ppl
    def f() -> int:
        def inner() -> None:
            nonlocal count
            count += 1

        inner()
        return count

    assert f() == 1


@ppl
def factorial(n: int) -> int:
    return 1 if n < 2 else n * factorial(n - 1)


def test_recursion_of_a_global_function() -> None:
    assert factorial(5) == 120


def test_recursion_of_a_local_function() -> None:
    @ppl
    def fib(n: int) -> int:
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    assert fib(10) == 55


def test_a_global_that_is_rebound_is_seen() -> None:
    space = module("""
        @ppl
        def f():
            return f if word is None else word
        word = None
    """)
    f = space["f"]
    assert f() is f
    space["word"] = 3
    assert f() == 3


def test_a_factory_makes_independent_functions() -> None:
    def make(word: str) -> Any:
        @ppl
        def f() -> str:
            return word

        return f

    one, two = make("1"), make("2")
    assert (one(), two(), one()) == ("1", "2", "1")
    assert one.__code__ is two.__code__


def test_defaults_are_evaluated_once_and_kept_by_identity() -> None:
    made: list[list[int]] = []

    def make() -> list[int]:
        made.append([])
        return made[-1]

    @ppl
    def f(a: list[int] = make(), *, b: list[int] = make()) -> Any:  # noqa: B008
        return a, b

    assert f()[0] is made[0] and f()[1] is made[1] and len(made) == 2


def test_nothing_is_added_to_globals_or_locals() -> None:
    space = module("""
        @ppl
        def f(a):
            b = [c for c in a]
            "text"
            return locals(), dir(), vars()
    """)
    before = set(space)
    names, listed, variables = space["f"]("x")
    assert set(space) == before
    assert sorted(names) == listed == sorted(variables) == ["a", "b"]


def test_eval_and_exec_see_the_frame_of_the_function() -> None:
    f = define("def f(a, code):\n    b = 2\n    return eval(code), eval('a + b')")
    assert ppl(f)(1, "a - b") == (-1, 3)


class Base:
    def name(self) -> str:
        return "base"

    @classmethod
    def made(cls) -> str:
        return cls.__name__


class Child(Base):
    __secret = "mangled"

    @ppl
    def name(self) -> str:
        return "child of " + super().name()

    @ppl
    def owner(self) -> Any:
        return __class__, self.__secret, Child  # type: ignore[name-defined]

    @ppl
    def hidden(self) -> Any:
        __local = {"_Child__local": 1}

        def inner(__x: int) -> Any:
            return __local, __x

        return inner(2)

    @classmethod
    @ppl
    def made(cls) -> str:
        return "made " + super().made()

    @staticmethod
    @ppl
    def static(a: int) -> int:
        return a + 1

    @property
    @ppl
    def value(self) -> str:
        "text"
        return self.__secret

    @ppl
    def __private(self) -> str:
        return "private"

    @ppl
    def calls_private(self) -> str:
        return self.__private()

    @ppl
    def explicit(self) -> str:
        return super(Child, self).name()  # noqa: UP008


class Grandchild(Child):
    pass


def test_super_without_arguments() -> None:
    assert Child().name() == "child of base"
    assert Grandchild().name() == "child of base"
    assert Child().explicit() == "base"


def test_class_cell_and_name_mangling() -> None:
    assert Grandchild().owner() == (Child, "mangled", Child)
    assert Child().hidden() == ({"_Child__local": 1}, 2)
    assert Child().calls_private() == "private"


def test_class_and_static_methods_and_properties() -> None:
    assert Grandchild.made() == "made Grandchild"
    assert Child.static(1) == Child().static(1) == 2
    assert Child().value == "mangled"


def test_abstract_methods_stay_abstract() -> None:
    class Shape(abc.ABC):
        @ppl
        @abc.abstractmethod
        def above(self) -> None:
            "above"

        @abc.abstractmethod
        @ppl
        def below(self) -> None:
            "below"

    assert Shape.__abstractmethods__ == {"above", "below"}


def test_methods_of_dataclasses() -> None:
    @dataclasses.dataclass(frozen=True)
    class Point:
        x: int

        @ppl
        def moved(self, by: int) -> Point:
            f"{self.x}"
            return dataclasses.replace(self, x=self.x + by)

    assert Point(1).moved(2) == Point(3)
    assert said(Point(1).moved, 1) == [("begin",), ("hole", 1, "", "")]


def test_a_method_may_have_the_name_of_its_class() -> None:
    space = module("""
        class f:
            @ppl
            def f(self):
                return f
    """)
    assert space["f"]().f() is space["f"]


def test_a_class_in_a_function() -> None:
    def make(word: str) -> Any:
        class Local:
            @ppl
            def m(self) -> Any:
                return word, Local, __class__  # type: ignore[name-defined]

        return Local

    kind = make("w")
    assert kind().m() == ("w", kind, kind)


def test_a_function_inside_a_method_sees_the_class() -> None:
    class Thing:
        __x = 1

        def m(self) -> Any:
            @ppl
            def inner() -> Any:
                return self.__x, __class__  # type: ignore[name-defined]

            return inner()

    assert Thing().m() == (1, Thing)


def test_other_decorators_above_and_of_functions_inside() -> None:
    def twice(f: Any) -> Any:
        @functools.wraps(f)
        def wrapper(*args: Any) -> Any:
            return f(*args), f(*args)

        return wrapper

    @twice
    @ppl
    def f(n: int) -> Any:
        @functools.lru_cache(maxsize=8)
        def inner(k: int) -> object:
            return object()

        return inner(n) is inner(n)

    assert f(1) == (True, True)
    assert f.__name__ == "f"


def test_a_prompt_function_inside_another() -> None:
    @ppl
    def outer(word: str) -> Any:
        "outer"

        @ppl
        def inner(n: int) -> Any:
            f"{word}{n}"
            return inner

        _ = inner(1)
        return inner(2)

    log = said(outer, "w")
    assert log == [
        ("text", "outer"),
        ("begin",),
        ("hole", "w", "", ""),
        ("hole", 1, "", ""),
        ("begin",),
        ("hole", "w", "", ""),
        ("hole", 2, "", ""),
    ]
    first, second = outer("a"), outer("b")
    assert first is not second and first.__code__ is second.__code__


def test_three_levels_of_prompt_functions() -> None:
    @ppl
    def one() -> Any:
        @ppl
        def two() -> Any:
            @ppl
            def three() -> str:
                "deep"
                return "3"

            return three()

        return two()

    assert said(one) == [("text", "deep")]
    assert one() == "3"


def test_classes_inside_stay_plain_python() -> None:
    @ppl
    def f() -> Any:
        class Inner:
            """Documentation."""

            "just a string"

            def m(self) -> str:
                "not said either"
                return "m"

            @ppl
            def p(self) -> str:
                "said"
                return "p"

        return Inner().m(), Inner().p(), Inner.__doc__

    assert said(f) == [("text", "said")]
    assert f() == ("m", "p", "Documentation.")


def test_names_signature_and_annotations_stay() -> None:
    def f(a: int, /, b: str = "x", *c: int, d: float, **e: Any) -> list[int]:
        """Documentation."""
        return []

    f.extra = 1  # type: ignore[attr-defined]
    compiled = ppl(f)
    assert inspect.signature(compiled) == inspect.signature(f)
    for name in ("__name__", "__qualname__", "__module__", "__doc__", "__annotations__", "extra"):
        assert getattr(compiled, name) == getattr(f, name)
    old, new = f.__code__, compiled.__code__
    for name in (
        "co_name",
        "co_qualname",
        "co_firstlineno",
        "co_filename",
        "co_flags",
        "co_varnames",
    ):
        assert getattr(new, name) == getattr(old, name)


def test_qualified_names_inside() -> None:
    @ppl
    def f() -> Any:
        def g() -> Any:
            return [(lambda: x) for x in "a"]  # noqa: B023

        return g, g()[0], (i for i in "b")

    prefix = "test_qualified_names_inside.<locals>.f.<locals>."
    names = [each.__qualname__ for each in f()]
    wanted = ["g", "g.<locals>.<listcomp>.<lambda>", "<genexpr>"]
    if sys.version_info >= (3, 12):
        wanted[1] = "g.<locals>.<lambda>"
    assert names == [prefix + each for each in wanted]


def test_generators() -> None:
    @ppl
    def f(n: int) -> Iterator[int]:
        for i in range(n):
            yield i * 2 // 2
        got = yield from g()
        return got

    def g() -> Iterator[int]:
        yield 7
        return 8  # type: ignore[return-value]

    it = f(2)
    assert [next(it), next(it), next(it)] == [0, 1, 7]
    with pytest.raises(StopIteration) as stop:
        next(it)
    assert stop.value.value == 8


def test_a_bare_yield_says_what_is_sent_in() -> None:
    @ppl
    def chat() -> Any:
        while True:
            yield "question"

    it = chat()
    assert said(lambda: (next(it), it.send("hello"))) == [("say", "hello")]
    it.close()


def test_async_functions_and_generators() -> None:
    @ppl
    async def numbers(n: int) -> AsyncIterator[int]:
        for i in range(n):
            await asyncio.sleep(0)
            yield i

    @ppl
    async def f(n: int) -> Any:
        "async text"
        total = 0
        async for i in numbers(n):
            total += i
        async with contextlib.AsyncExitStack() as stack:
            stack.callback(lambda: None)
        with contextlib.suppress(ValueError):
            raise ValueError
        squares = [i * i async for i in numbers(n)]
        pairs = {i: [j for j in range(i)] for i in squares}
        return total, squares, pairs, await asyncio.gather(g(1), g(2))

    async def g(x: int) -> int:
        return x

    assert asyncio.run(f(3)) == (3, [0, 1, 4], {0: [], 1: [0], 4: [0, 1, 2, 3]}, [1, 2])
    assert inspect.iscoroutinefunction(f) and inspect.isasyncgenfunction(numbers)


def test_control_flow_through_try_with_and_match() -> None:
    @ppl
    def f(kind: Any) -> Any:
        log = []
        for _ in range(2):
            try:
                match kind:
                    case "break":
                        break
                    case "continue":
                        continue
                    case ["return", value]:
                        return log, value
                    case {"raise": error}:
                        raise error
            except ValueError as error:
                log.append(str(error))
            else:
                log.append("else")
            finally:
                log.append("finally")
        return log

    assert f("break") == ["finally"]
    assert f("continue") == ["finally", "finally"]
    assert f(["return", 1]) == (["finally"], 1)
    assert f({"raise": ValueError("v")}) == ["v", "finally"] * 2
    assert f(0) == ["else", "finally"] * 2


def test_a_region_is_left_before_the_handlers_run() -> None:
    @ppl
    def f() -> None:
        try:
            "body"
            raise ValueError
        except ValueError:
            "handler"
        finally:
            "finally"

    assert said(f) == [
        ("region", "in"),
        ("text", "body"),
        ("region", "out"),
        ("text", "handler"),
        ("text", "finally"),
    ]


def test_walrus_and_comprehension_scopes() -> None:
    @ppl
    def f(xs: list[int]) -> Any:
        found = [y := x + 1 for x in xs]
        x = "outer"
        return found, y, x, {x for x in xs}, sum(x for x in xs), x

    assert f([1, 2]) == ([2, 3], 3, "outer", {1, 2}, 3, "outer")


def test_statements_inside_lambdas_and_nested_functions_belong_to_the_caller() -> None:
    @ppl
    def f() -> None:
        def helper(x: int) -> None:
            f"item {x}"

        list(map(helper, [1, 2]))

    assert [part[1] for part in said(f) if part[0] == "hole"] == [1, 2]


def test_keyword_arguments_may_have_any_name() -> None:
    @ppl
    def f(x: Any) -> Any:
        return dict(f=x, self=x, args=x, value=x)

    assert f(1) == {"f": 1, "self": 1, "args": 1, "value": 1}


def test_arguments_are_evaluated_once_and_in_order() -> None:
    order: list[int] = []

    def note(n: int) -> int:
        order.append(n)
        return n

    @ppl
    def f(target: Any) -> Any:
        return target(note(1), *[note(2), note(3)], k=note(4), **{"z": note(5)})

    assert f(lambda *a, **k: (a, k)) == ((1, 2, 3), {"k": 4, "z": 5})
    assert order == [1, 2, 3, 4, 5]


def test_a_caller_sees_its_own_frame() -> None:
    @ppl
    def f(depth: int) -> Any:
        return sys._getframe(depth).f_code.co_name, caller(depth)

    def caller(_: int) -> str:
        return sys._getframe(1).f_code.co_name

    assert f(0) == ("f", "f")


def test_future_imports_are_kept() -> None:
    space = module("""
        @ppl
        def f():
            def inner(a: undefined_name) -> None: ...
            return inner.__annotations__
    """)
    with pytest.raises(NameError):
        space["f"]()
    space = module("""
        from __future__ import annotations
        @ppl
        def f():
            def inner(a: undefined_name) -> None: ...
            return inner.__annotations__
    """)
    assert space["f"]() == {"a": "undefined_name", "return": "None"}


def test_this_modules_future_imports_do_not_leak() -> None:
    f = define("def f():\n    def g(a: int): ...\n    return g.__annotations__")
    assert ppl(f)() == {"a": int}


def test_a_mangled_name_of_an_outer_function() -> None:
    class Thing:
        def m(self) -> Any:
            __word = "mangled"

            @ppl
            def inner() -> Any:
                nonlocal __word
                __word += "!"
                return __word

            return inner(), __word

    assert Thing().m() == ("mangled!", "mangled!")


def test_defaults_of_a_prompt_function_inside_are_lowered_with_the_outer_one() -> None:
    f = define("""
        def f(a, g):
            @ppl(ctx="copy")
            def inner(x=g(a)):
                "not lowered here"
            return inner
    """)
    assert lowered(f) == (
        "def f(a, g):\n\n    @ppl(ctx='copy')\n    def inner(x=@appl.prep(g, a)()):\n"
        '        """not lowered here"""\n    return inner'
    )


def test_assertions_that_pytest_rewrites() -> None:
    @ppl
    def f(a: int) -> str:
        "text"
        assert a == 1, f"{a} is wrong"
        assert [each for each in (a, 2)] != [a]
        return "fine"

    assert f(1) == "fine"
    with pytest.raises(AssertionError, match="2 is wrong"):
        f(2)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="new syntax of Python 3.12")
def test_type_parameters() -> None:
    f = define("""
        def f[T: int, *Ts, **P](a: T) -> list[T]:
            "text"
            def inner[U](x: U, y: T) -> U:
                type Pair[V] = tuple[T, U, V]
                return x
            return T, inner(a, a), inner.__type_params__[0].__name__
    """)
    compiled = ppl(f)
    t, inner, name = compiled(1)
    assert t is f.__type_params__[0] and (inner, name) == (1, "U")
    assert compiled.__type_params__ == f.__type_params__
    assert compiled.__annotations__ == f.__annotations__


@pytest.mark.skipif(sys.version_info < (3, 12), reason="new syntax of Python 3.12")
def test_nested_quotes_in_f_strings() -> None:
    f = define("""
        def f(a):
            pass
            f"{f"{a["k"]}"} and {
                a["k"]  # a comment
            !r}"
    """)
    assert said(ppl(f), {"k": 1}) == [
        ("begin",),
        ("hole", "1", "", ""),
        ("piece", " and "),
        ("hole", 1, "r", ""),
    ]


def test_functions_made_in_a_loop_share_the_loops_cell() -> None:
    fs = []
    for n in range(3):

        @ppl
        def f(k: int = n) -> Any:
            return k, n  # noqa: B023

        fs.append(f)
    assert [f() for f in fs] == [(0, 2), (1, 2), (2, 2)]


def test_compiling_keeps_nothing_of_a_closure_alive() -> None:
    class Held:
        pass

    def make() -> tuple[Any, weakref.ref[Held]]:
        held = Held()

        @ppl
        def f() -> Any:
            return held, f

        return f, weakref.ref(held)

    _, first = make()
    kept, second = make()
    del _
    gc.collect()
    assert first() is None
    assert kept()[0] is second()


def test_compiling_keeps_no_module_alive() -> None:
    class Held:
        pass

    held = Held()
    space = module("@ppl\ndef f(): 'text'", held=held)
    gone = weakref.ref(held)
    space["f"]()
    del space, held
    gc.collect()
    assert gone() is None

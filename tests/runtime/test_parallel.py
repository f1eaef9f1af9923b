"""What runs beside what: call, map, parallel functions, fibers and threads."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import threading

import pytest

from appl import Future, Lock, as_completed, call, gen, map as appl_map, ppl
from appl.errors import BackendError, CallCancelled, DeadlockError, InvalidOption
from appl.testing import (
    CallStarted,
    Delivered,
    Echo,
    Held,
    Log,
    RunEnded,
    ScopeEntered,
    Scripted,
    Seeded,
    running,
)


@ppl
def ask(word):
    f"{word}"
    return str(gen())


@ppl(parallel=True)
def side(word):
    f"{word}"
    return str(gen())


def addresses(seen):
    return sorted(r.address for r in seen.requests)


def test_parallel_functions_wait_side_by_side():
    most = []

    @ppl
    def both():
        first, second = side("a"), side("b")
        return first + second

    class Together(Held):
        def on_idle(self, final=True):
            most.append(sorted(self.waiting))
            self.release()
            return bool(most[-1])

    with running(Together(lambda r: next(iter(r.messages)).content.upper())):
        assert both() == "AB"
    assert most[0] == ["/both.0/side.0/gen.0", "/both.0/side.1/gen.0"]


def test_from_plain_python_parallel_functions_wait_side_by_side():
    def helper():
        return [side("a"), side("b")]

    most = []

    class Together(Held):
        def on_idle(self, final=True):
            most.append(sorted(self.waiting))
            self.release()
            return bool(most[-1])

    for plain in (helper, lambda: list(builtins.map(side, ["a", "b"]))):
        with running(Together(lambda r: next(iter(r.messages)).content.upper())):
            first, second = plain()
            assert isinstance(first, Future) and first + second == "AB"
            assert first.result() == "A" and type(first.result()).__name__ == "Text"
    assert most[0] == ["/side.0/gen.0", "/side.1/gen.0"]


def test_a_failure_of_a_parallel_function_is_raised_where_its_value_is_needed():
    @ppl(parallel=True)
    def fails():
        str(gen())
        raise ValueError("no")

    with running(Echo()):
        started = fails()
        with pytest.raises(ValueError, match="no"):
            str(started)


def test_call_starts_a_program_beside_the_caller():
    order = []

    @ppl
    def worker(name):
        order.append(f"{name} starts")
        str(gen())
        order.append(f"{name} ends")

    with running(Seeded(0)):
        futures = [call(worker, name) for name in "ab"]
        order.append("both run")
        [future.result() for future in futures]
    assert order[:3] == ["a starts", "b starts", "both run"] and len(order) == 5


def test_plain_functions_run_on_worker_threads():
    def where():
        return threading.current_thread().name, str(gen(messages="x"))

    with running(Echo()) as seen:
        name, text = call(where).result()
    assert name == "appl-worker" and text and addresses(seen) == ["/where.0/gen.0"]


def test_arguments_of_plain_functions_are_finished():
    with running(Scripted(["abc"])):
        assert call(str.upper, gen(messages="x")) == "ABC"


def test_map_keeps_the_order():
    with running(Seeded(3, lambda r: next(iter(r.messages)).content.upper())):
        assert appl_map(ask, "abcdef") == list("ABCDEF")
        assert appl_map(ask, ["x", "y"], concurrency=1) == ["X", "Y"]


def test_map_raises_the_first_failure_and_cancels_the_rest():
    def answer(request):
        word = next(iter(request.messages)).content
        return BackendError(word) if word in "bc" else word

    with running(Scripted(answer)), pytest.raises(BackendError, match="b"):
        appl_map(ask, "abcd")


@pytest.mark.parametrize("way", [appl_map, as_completed])
def test_who_caught_the_first_failure_of_many_hears_of_no_other(way):
    backend = Scripted(lambda request: BackendError("all fail"))
    with running(backend), contextlib.suppress(BackendError):
        list(way(ask, "abcd"))


def test_map_can_collect_failures():
    def answer(request):
        word = next(iter(request.messages)).content
        return BackendError(word) if word == "b" else word

    with running(Scripted(answer)):
        a, b, c = appl_map(ask, "abc", on_error="collect")
    assert (a, c) == ("a", "c") and isinstance(b, BackendError)


def test_a_failed_sibling_cancels_the_rest():
    @ppl(parallel=True)
    def bad():
        return str(gen())

    @ppl
    def team():
        slow = side("slow")
        failing = bad()
        return str(failing), str(slow)

    class Releasing(Held):
        def on_idle(self, final=True):
            bad_ones = [a for a in self.waiting if "bad" in a]
            self.release(*bad_ones) if bad_ones else None
            return bool(bad_ones)

    backend = Releasing(lambda r: BackendError("broken"))
    with pytest.raises(BackendError, match="broken"), running(backend):
        team()
    assert backend.aborted == ["/team.0/side.0/gen.0"]


def test_the_run_waits_for_what_nobody_waited_for():
    log = Log()

    @ppl
    def forgetful():
        gen()
        call(ask, "later")

    with running(Seeded(0), instruments=[log]):
        forgetful()
    assert len(log.of(CallStarted)) == 2 and log.of(RunEnded)[0].reason == "finished"
    assert len(log.of(Delivered)) == 2


def test_addresses_say_where_in_the_program():
    log = Log()

    @ppl
    def inner():
        return str(gen())

    def helper():
        return inner(), inner()

    @ppl
    def outer():
        helper()
        call(inner).result()
        gen()
        gen()

    with running(Echo(), instruments=[log]):
        outer()
        outer()
    scopes = [each.address for each in log.of(ScopeEntered)]
    assert scopes == [
        "/outer.0", "/outer.0/inner.0", "/outer.0/inner.1", "/outer.0/inner.2",
        "/outer.1", "/outer.1/inner.0", "/outer.1/inner.1", "/outer.1/inner.2",
    ]  # fmt: skip
    gens = [e.request.address for e in log.of(CallStarted) if "inner" not in e.request.address]
    assert gens == ["/outer.0/gen.0", "/outer.0/gen.1", "/outer.1/gen.0", "/outer.1/gen.1"]


def test_edges_name_the_nearest_answers():
    log = Log()

    @ppl
    def chain():
        f"{gen()}"
        f"{gen()}"
        gen()

    with running(Echo(), instruments=[log]):
        chain()
    assert {e.request.address[-5:]: e.edges for e in log.of(CallStarted)} == {
        "gen.0": (),
        "gen.1": ("/chain.0/gen.0",),
        "gen.2": ("/chain.0/gen.1",),
    }


def test_a_thread_of_the_user_has_a_scope_named_by_its_content():
    with running(Echo()) as seen:
        threads = [threading.Thread(target=ask, args=(word,)) for word in "ab"]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    first, second = addresses(seen)
    assert first.startswith("/~") and first.endswith("/ask.0/gen.0") and first != second


def test_thousands_of_programs_wait_at_once():
    class All(Held):
        def on_idle(self, final=True):
            count = len(self.waiting)
            self.most = max(getattr(self, "most", 0), count)
            self.release()
            return bool(count)

    backend = All(lambda r: "x")
    with running(backend):
        assert appl_map(ask, range(2000)) == ["x"] * 2000
    assert backend.most == 2000


def test_deep_recursion_of_parallel_functions_does_not_overflow():
    @ppl(parallel=True)
    def down(n):
        return 0 if n == 0 else 1 + down(n - 1)

    @ppl
    def top():
        return down(300) + 0

    with running(Echo()):
        assert top() == 300


def test_programs_that_wait_for_each_other_are_told():
    box = {}

    @ppl(parallel=True)
    def first():
        str(gen())
        return str(box["second"])

    @ppl(parallel=True)
    def second():
        str(gen())
        return str(box["first"])

    @ppl
    def both():
        box["first"], box["second"] = first(), second()
        return str(box["first"])

    with pytest.raises(DeadlockError, match=r"/both.0/second.0"), running(Echo()):
        both()


def test_a_lock_is_held_over_a_wait():
    lock, active, most = Lock(), [], []

    @ppl
    def guarded(n):
        with lock:
            active.append(n)
            most.append(len(active))
            str(gen())
            active.remove(n)

    with running(Seeded(2)):
        appl_map(guarded, range(5))
    assert most == [1] * 5


def test_cancelling_a_future_aborts_what_is_below():
    backend = Held()
    with running(backend):
        future = call(ask, "x")
        future.cancel()
        with pytest.raises(CallCancelled):
            future.result()
    assert backend.waiting == {}


def test_sequential_runs_wait_where_the_call_stands():
    @ppl
    def both():
        return side("a"), side("b"), gen()

    with running(Echo(), sequential=True) as seen:
        both()
        assert [r.address for r in seen.requests] == [
            "/both.0/side.0/gen.0", "/both.0/side.1/gen.0", "/both.0/gen.0",
        ]  # fmt: skip


def test_coroutine_functions_can_be_called_from_sync_code():
    async def plain(x):
        await asyncio.sleep(0)
        return x + 1

    with running(Echo()):
        assert call(plain, 1) == 2


def test_map_keeps_as_many_running_as_it_may():
    most = []

    class Newest(Held):
        def on_idle(self, final=True):
            waiting = sorted(self.waiting)
            most.append(len(waiting))
            self.release(*waiting[-1:])
            return bool(waiting)

    with running(Newest(lambda r: "x")):
        assert appl_map(ask, range(8), concurrency=3) == ["x"] * 8
    assert [n for n in most if n][:6] == [3] * 6


def test_call_of_a_same_function_keeps_its_place_in_the_prompt():
    @ppl(ctx="same")
    def more(word):
        f"{word}:"
        f"{gen()}"

    @ppl
    def outer():
        "before"
        first = call(more, "one")
        second = call(more, "two")
        "after"
        return gen(), first, second

    for seed in range(4):
        with running(Seeded(seed, lambda r: r.address[-14:-6])) as seen:
            outer()
        assert seen.prompts["/outer.0/gen.0"] == (
            "user: before\none:\n0/more.0\ntwo:\n0/more.1\nafter"
        )
        assert seen.prompts["/outer.0/more.1/gen.0"] == "user: before\none:\n0/more.0\ntwo:"


def test_a_program_started_by_a_statement_says_what_it_returns_without_waiting():
    log = Log()

    @ppl
    def note(word):
        f"{word}"
        return gen()

    @ppl
    def outer():
        call(note, "a")
        call(len, "nothing to say")
        side("b")
        gen()

    with running(
        Seeded(1, lambda r: next(iter(r.messages)).content.upper()), instruments=[log]
    ) as seen:
        outer()
    assert seen.prompts["/outer.0/gen.0"] == "user: A\nB"
    edges = {e.request.address: e.edges for e in log.of(CallStarted)}
    assert edges["/outer.0/gen.0"][-1] == "/outer.0/note.0/gen.0"


def test_what_is_no_function_is_refused_with_what_to_write():
    with running(Echo()):
        answer = gen(messages="x")
        for start in (lambda: call(answer), lambda: call(5), lambda: appl_map(5, [1])):
            with pytest.raises(InvalidOption, match=r"write call\(f, x\)"):
                start()

"""Ctrl-C, deadlocks, time-outs, the end of a run, and what a run tells."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import appl
from appl import (
    call,
    gen,
    map as appl_map,
    now,
    ppl,
    random as appl_random,
    sleep as appl_sleep,
    timeout,
    uuid,
)
from appl.errors import BackendError, BackendTimeout, CallCancelled, DeadlockError, RunError
from appl.runtime import Strand
from appl.runtime.activation import heir
from appl.runtime.entry import asynchronously
from appl.runtime.world import Live
from appl.testing import (
    CallEnded,
    Echo,
    Held,
    Instant,
    Log,
    Observed,
    Run,
    RunEnded,
    Scripted,
    Seeded,
    Warned,
    running,
)

OURS = str(Path(appl.__file__).parent)
MAIN = threading.main_thread().ident


class Interrupting(Held):
    """Sends Ctrl-C when every program waits."""

    def on_idle(self, final=True):
        if self.waiting and not getattr(self, "sent", False):
            self.sent = True
            signal.pthread_kill(MAIN, signal.SIGINT)
        return False


@ppl
def ask(word):
    f"{word}"
    return str(gen())


def test_ctrl_c_reaches_the_outermost_program_and_cancels_what_is_below():
    backend, log, unwound = Interrupting(), Log(), []

    @ppl
    def worker(word):
        try:
            return ask(word)
        finally:
            unwound.append(word)

    @ppl
    def program():
        return appl_map(worker, "abc")

    with pytest.raises(KeyboardInterrupt), running(backend, instruments=[log]):
        program()
    assert sorted(unwound) == ["a", "b", "c"] and len(backend.aborted) == 3
    assert log.of(RunEnded)[0].reason == "interrupted"
    assert all(isinstance(e.error, CallCancelled) for e in log.of(CallEnded))


def test_ctrl_c_inside_a_fiber_is_raised_in_the_outermost_program():
    @ppl
    def worker():
        str(gen())
        raise KeyboardInterrupt

    @ppl
    def program():
        return str(call(worker))

    with pytest.raises(KeyboardInterrupt), running(Seeded(0)):
        program()


def interrupted_at(step, program, after):
    """The events of *program* with Ctrl-C that many steps *after* a function.

    Comes with false if the program waits, where Ctrl-C comes at the latest, or ends before.
    """
    log, passed = Log(), None

    def watch(frame, what, value):
        # Python runs handlers of signals where functions begin, and after calls. What they raise in
        # a finalizer is lost, whosever it is: so none is collected meanwhile.
        nonlocal passed
        if frame.f_code is after.__code__ and what == "return" and passed is None:
            passed = 0
        elif frame.f_code is Strand.park.__code__:
            raise KeyboardInterrupt
        elif passed is not None and what != "c_call" and frame.f_code.co_filename.startswith(OURS):
            passed += 1
            if passed == step:
                raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt, ValueError), running(Held(), instruments=[log]):
        gc.disable()
        sys.setprofile(watch)
        try:
            program()
        finally:
            sys.setprofile(None)
            gc.enable()
    return log, passed == step


@pytest.mark.parametrize(("fails", "after"), [(False, Run.submit), (True, heir)])
def test_ctrl_c_at_any_step_after_a_call_was_sent_ends_the_call(fails, after):
    @ppl
    def program():
        "x"
        answer = gen()
        if fails:
            raise ValueError("x")
        return answer

    step, came = 0, True
    while came:
        step += 1
        log, came = interrupted_at(step, lambda: str(program()), after)
        assert len(log.of(CallEnded)) == len(log.of(RunEnded)) == 1, step
    assert step > 20


def test_ctrl_c_in_an_asyncio_program():
    backend = Interrupting()

    @ppl
    async def program():
        return await gen()

    async def main():
        async with Run(backend):
            await program()

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert backend.aborted


def test_ctrl_c_in_a_sync_wait_under_a_running_loop():
    backend = Interrupting()

    async def main():
        with running(backend):
            return ask("x")

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert backend.aborted


def test_a_worker_threads_program_is_cancelled_too():
    backend = Interrupting()

    def plain():
        return ask("x")

    with pytest.raises(KeyboardInterrupt), running(backend):
        call(plain).result()
    assert backend.aborted


def test_a_sync_wait_for_what_this_loop_must_finish_is_a_deadlock():
    @ppl
    async def later():
        return await gen()

    async def main():
        async with Run(Echo()):
            future = call(later)
            with pytest.raises(DeadlockError, match=r"await"):
                str(future)
            await future

    asyncio.run(main())


def test_a_program_that_waits_for_itself():
    box = {}

    @ppl
    def program():
        return str(box["me"])

    @ppl
    def starter():
        def start():
            box["me"] = call(later)

        start()
        return str(box["me"])

    @ppl
    def later():
        str(gen())
        return str(box["me"])

    with pytest.raises(DeadlockError, match="later"), running(Seeded(0)):
        starter()


def test_a_time_limit_of_a_call():
    with running(Held()):
        g = gen(messages="x", timeout=0.01)
        with pytest.raises(BackendTimeout, match=r"0.01 s"):
            str(g)


def test_result_with_a_timeout():
    log, backend = Log(), Held(lambda r: "late")
    with running(backend, instruments=[log]):
        g = gen(messages="x")
        with pytest.raises(TimeoutError):
            g.result(timeout=0.01)
        assert not g.done()
        g.cancel()
    assert [(e.kind, e.ordinal, e.value) for e in log.of(Observed)] == [
        ("timeout", 0, True), ("done", 1, False),
    ]  # fmt: skip


def test_a_block_with_a_timeout():
    @ppl
    def program():
        with timeout(0.01):
            str(gen())

    with running(Held()), pytest.raises(TimeoutError):
        program()


async def test_a_block_of_a_coroutine_with_a_timeout():
    backend, log = Held(), Log()

    @ppl
    async def program():
        async with timeout(1.0):  # in which the call reaches the backend, on a busy machine too
            await gen()

    async with Run(backend, instruments=[log]):
        with pytest.raises(TimeoutError, match=r"not done within 1\.0 s"):
            await program()
        assert not asyncio.current_task().cancelling()
    assert backend.aborted == ["/program.0/gen.0"]
    assert [(e.address, e.kind) for e in log.of(Observed)] == [("/program.0", "deadline")]


async def test_a_block_of_a_coroutine_that_is_done_in_time():
    async with Run(Echo()):
        async with timeout(60):
            first = await gen(messages="x")
        with pytest.raises(RunError, match="async with timeout"), timeout(60):
            pass
        with pytest.raises(BackendError, match="mine"):
            async with timeout(60):
                raise BackendError("mine")
        assert first == await gen(messages="x")


async def test_who_cancels_a_block_with_a_timeout_cancels_what_is_around_it():
    @ppl
    async def program():
        async with timeout(60):
            await gen()

    async with Run(Held()):
        task = asyncio.ensure_future(program())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def test_the_program_sees_what_its_world_shows():
    log = Log()

    class Told(Live):
        def see(self, moment, live):
            return {"now": 0, "random": 0.5, "uuid": "0" * 32}[moment.kind]

    @ppl
    def program():
        return now().year, appl_random(), uuid().int

    with running(Echo(), world=Told()):
        assert program() == (1970, 0.5, 0)
    with running(Echo(), instruments=[log]):
        program()
        appl_sleep(0.001)
    assert [(e.address, e.ordinal, e.kind) for e in log.of(Observed)] == [
        ("/program.0", 0, "now"), ("/program.0", 1, "random"), ("/program.0", 2, "uuid"),
        ("", 0, "sleep"),
    ]  # fmt: skip


def test_a_broken_instrument_is_dropped_with_a_warning(capsys):
    log = Log()

    class Broken:
        def on_event(self, event):
            raise ValueError("broken")

    with running(Echo(), instruments=[Broken(), log]):
        ask("a")
    assert "Broken" in log.of(Warned)[0].message and "Broken" in capsys.readouterr().err


def test_a_gate_that_refuses_stops_calls_before_the_backend():
    def gate():
        raise OSError("disk full")

    with running(Echo(), gate=gate) as seen, pytest.raises(OSError, match="disk full"):
        ask("a")
    assert seen.requests == []


def test_a_failing_run_cancels_what_still_runs():
    backend = Held()
    with pytest.raises(ValueError), running(backend):
        call(ask, "x")
        raise ValueError
    assert not backend.waiting


def test_a_backend_error_keeps_its_type_and_gets_a_note():
    with running(Scripted([BackendError("odd")])), pytest.raises(BackendError) as caught:
        ask("a")
    assert any("/ask.0/gen.0" in note for note in caught.value.__notes__)


def test_runs_in_one_process_do_not_mix():
    async def one(word):
        async with Run(backend := Echo()):
            await asynchronously(ask, word)
        return backend.prompts

    async def main():
        return await asyncio.gather(one("a"), one("b"))

    first, second = asyncio.run(main())
    assert first == {"/ask.0/gen.0": "user: a"} and second == {"/ask.0/gen.0": "user: b"}


def test_a_fork_can_start_its_own_calls():
    if not hasattr(os, "fork"):
        pytest.skip("no fork here")
    with running(Instant()):
        ask("a")
    child = os.fork()
    if child == 0:
        with running(Instant()):
            os._exit(0 if ask("a") == "ok" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_importing_is_light():
    code = (
        "import sys; from appl import ppl, gen, call, AIRole; "
        "heavy = {'numpy', 'litellm', 'openai', 'httpx', 'aiohttp', 'pydantic', 'rich'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, cwd=Path(__file__).parents[2]
    )
    assert out.stdout.strip() == b"[]"

"""Reruns after an edit with a second server that speculates (NGRAM), against the plain one alone.

Run: python benchmarks/gpu/ngram.py PLAIN_URL NGRAM_URL --tokenizer FOLDER [--rounds 3]

A program of many calls is recorded on the plain server. Then the beginning of all its prompts is
edited, so that a rerun asks each call anew, with the record at hand: on the plain server alone, and
with ``drafting=`` the other one, whose memory was emptied as by a restart (the recorded answers are
loaded then), and which has just answered the same. The same with the record of another program in
place of its own. All is greedy and of one length, 8 calls in flight and 64.

Both servers may share a GPU: start each with half of its memory, the second one with
``--speculative-algorithm NGRAM --speculative-num-draft-tokens 8
--speculative-ngram-external-sam-budget 7 --max-running-requests 64``. With random weights an answer
hardly depends on the edit, so that what is accepted is an upper bound.
Bars: own record at most 8 in flight >= 2.0 times the tokens a second; 64 in flight >= 0.97 times.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "backends"), str(ROOT / "benchmarks")]

from loads import Server, Texts  # noqa: E402
from report import write  # noqa: E402

import appl  # noqa: E402
from appl import gen, ppl  # noqa: E402
from appl.runtime.concurrency.loop_thread import io_thread  # noqa: E402
from appl.runtime.run import Run  # noqa: E402
from appl.tracing import Recorder, Rerunner, profile_data  # noqa: E402
from appl_backends.sglang import SGLang  # noqa: E402

BEFORE, AFTER = "Say what follows.", "Say in short what follows."
Program = Callable[[], list[str]]


@ppl
def ask(wanted: str, text: str, tokens: int) -> object:
    f"{wanted} {text}"
    return gen(max_tokens=tokens, temperature=0, ignore_eos=True)


def program(wanted: str, texts: list[str], tokens: int, at_once: int) -> Program:
    def run() -> list[str]:
        found = appl.map(
            lambda text: str(ask(wanted, text, tokens)), texts, concurrency=at_once, progress=False
        )
        return list(found)

    return run


def recorded(path: Path, run: Program, backend: SGLang, tape: Path | None = None) -> list[str]:
    """What *run* gives, recorded in *path*; a rerun of *tape* if there is one."""
    recorder = Recorder(path, {"profile": profile_data(backend.profile)})
    world = None if tape is None else Rerunner(tape, anew=["**"])
    more: dict[str, Any] = {} if world is None else {"world": world}
    watching = [recorder] if world is None else [world, recorder]
    try:
        with Run(
            backend, instruments=watching, gate=recorder.gate, barrier=recorder.barrier, **more
        ):
            return run()
    finally:
        recorder.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("plain")
    parser.add_argument("ngram")
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--template", help="the model's own, or 'plain'")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prompt", type=int, default=400)
    parser.add_argument("--answer", type=int, default=200)
    parser.add_argument("--at-once", default="8,64")
    parser.add_argument("--calls", type=int, default=8, help="times those at once")
    parser.add_argument("--json")
    options = parser.parse_args()
    texts, ngram = Texts(options.tokenizer), Server(options.ngram)
    folder = Path(tempfile.mkdtemp())
    numbers = iter(range(10**6))

    def new(drafting: bool) -> SGLang:
        return SGLang(
            url=options.plain,
            tokenizer=options.tokenizer,
            template=options.template,
            drafting=options.ngram if drafting else None,
            advise=lambda line: None,
        )

    def act(run: Program, drafting: bool, tape: Path | None) -> tuple[float, list[str], str]:
        backend, at = new(drafting), folder / f"{next(numbers)}.trace"
        on_loop = io_thread().loop
        asyncio.run_coroutine_threadsafe(backend.connect(), on_loop).result()
        began = time.perf_counter()
        found = recorded(at, run, backend, tape)
        took = time.perf_counter() - began
        said = ""
        if backend._drafting is not None:
            there = backend._drafting.shown[True].length
            said = f"{there:.1f} tokens a step there" if there else "none there"
        asyncio.run_coroutine_threadsafe(backend.aclose(), on_loop).result()
        return took, found, said

    results: dict[str, dict[str, list[float]]] = {}
    for at_once in map(int, options.at_once.split(",")):
        size = at_once * options.calls
        own = [texts.of(options.prompt, f"{at_once} own {at}") for at in range(size)]
        other = [texts.of(options.prompt, f"{at_once} other {at}") for at in range(size)]
        tapes = {}
        for name, each in (("own", own), ("foreign", other)):
            tapes[name] = folder / f"{at_once}-{name}.trace"
            backend = new(drafting=False)
            recorded(tapes[name], program(BEFORE, each, options.answer, at_once), backend)
            asyncio.run_coroutine_threadsafe(backend.aclose(), io_thread().loop).result()
        run = program(AFTER, own, options.answer, at_once)
        act(run, False, tapes["own"])  # the prompts are in the cache of the plain server from here
        found: dict[str, list[float]] = {}
        for _ in range(options.rounds):
            took, plain, _ = act(run, False, tapes["own"])
            found.setdefault("plain", []).append(took)
            for name, tape, forget in (
                ("own record, after a restart", tapes["own"], True),
                ("own record, answered before", tapes["own"], False),
                ("foreign record", tapes["foreign"], True),
            ):
                if forget:
                    ngram.flush()
                took, mine, said = act(run, True, tape)
                found.setdefault(name, []).append(took)
                same = sum(map(str.__eq__, mine, plain))
                print(
                    f"  {at_once} {name}: {took:.1f} s, {same} of {size} equal, {said}", flush=True
                )
        results[str(at_once)] = found
        base, tokens = statistics.median(found["plain"]), size * options.answer
        print(f"{at_once} in flight, {size} calls of {options.answer} tokens")
        for name, seconds in found.items():
            middle = statistics.median(seconds)
            print(f"  {name:28} {tokens / middle:7.0f} tokens/s, {base / middle:.2f} times plain")
    write(options.json, f"python {' '.join(sys.argv)}", {"seconds": results})


if __name__ == "__main__":
    main()

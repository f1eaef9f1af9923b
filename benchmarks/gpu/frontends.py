"""Eight programs on one SGLang server: appl, SGLang's own frontend, asyncio with the openai SDK.

Run: python benchmarks/gpu/frontends.py URL --tokenizer FOLDER --model NAME [--rounds 3]
     [--sides appl,sglang,openai,appl-never,appl-always] [--sglang-python PYTHON] [--scale 1]
     [--template plain] [--json FILE]

Each side is a process of its own that writes the programs as its users do and runs all instances
of one at once; sides take turns, on a flushed cache, in rotating order. Every answer has a fixed
number of tokens, so that all sides have the same work. SGLang's frontend writes no chat template
around its texts, and so does appl with the template ``plain``; with ``model`` it uses the model's,
as the server does for the SDK. ``appl-never`` and ``appl-always`` send shared beginnings ahead
never, and always. Figures are programs per second.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SIDES = ("appl", "sglang", "openai", "appl-never", "appl-always")
PROGRAMS = {
    "self-consistency": 24, "tree of thoughts": 16, "agents": 48, "two-agent chat": 24,
    "skeleton": 24, "extraction": 128, "small beginnings": 64, "judge": 48,
}  # fmt: skip
LETTERS = random.Random(7)
WORDS = ["".join(LETTERS.choice("abdegiklmnoprstu") for _ in range(4)) for _ in range(800)]
SHAPE = r'\{"name": "[a-z]{4,9}", "age": [0-9]{2}\}'


def text(words: int, seed: str) -> str:
    """*words* words drawn from *seed*."""
    dice = random.Random(seed)
    return " ".join(dice.choice(WORDS) for _ in range(words))


SHOTS = text(500, "shots")
TEMPLATES = [text(80, f"template {step}") for step in range(6)]
WARM: dict[str, Any] = {"appl": True, "appl-never": False, "appl-always": "always"}


def appl_side(
    url: str, tokenizer: Path, warm: Any, template: str | None
) -> Callable[[str, int], None]:
    """The programs in appl."""
    sys.path[:0] = [str(ROOT), str(ROOT / "backends")]
    import appl
    from appl import AIRole, gen, ppl
    from appl.runtime.run import Run
    from appl.testing import Policy
    from appl_backends.sglang import SGLang

    exact = {"ignore_eos": True}

    @ppl
    def self_consistency(i: int) -> Any:
        f"{text(800, f'q{i}')}"
        "What follows?"
        return [gen(max_tokens=48, temperature=0.7, **exact) for _ in range(8)]

    @ppl(ctx="copy")
    def score(thought: Any) -> Any:
        with AIRole():
            f"{thought}"
        "How good is it?"
        return gen(max_tokens=8, temperature=0, **exact)

    @ppl(ctx="copy")
    def deeper(thought: Any) -> Any:
        with AIRole():
            f"{thought}"
        thoughts = [gen(max_tokens=48, temperature=0.7, **exact) for _ in range(3)]
        return [score(each) for each in thoughts]

    @ppl
    def tree(i: int) -> Any:
        f"{text(600, f't{i}')}"
        thoughts = [gen(max_tokens=48, temperature=0.7, **exact) for _ in range(4)]
        return [deeper(each) for each in thoughts]

    @ppl
    def agent(i: int) -> Any:
        f"{SHOTS}"
        f"Task: {text(40, f'a{i}')}"
        for step in range(8):
            "Thought and action:"
            with AIRole():
                gen(max_tokens=16, temperature=0, **exact)
            f"Observation: {text(150, f'o{i}.{step}')}"
        return gen(max_tokens=48, temperature=0, **exact)

    @ppl
    def chat(i: int) -> Any:
        return talk(speaker(f"s{i}a"), speaker(f"s{i}b"), text(12, f"c{i}"))

    @ppl(auto_prime=True)
    def speaker(seed: str) -> Any:
        f"You are {text(400, seed)}"
        said = yield
        while True:
            f"{said}"
            with AIRole():
                answer = gen(max_tokens=32, temperature=0, **exact)
                f"{answer}"
            said = yield answer

    def talk(one: Any, two: Any, said: Any) -> Any:
        for _ in range(5):
            said = two.send(one.send(said))
        return said

    @ppl(ctx="copy")
    def expand(outline: Any, point: int) -> Any:
        with AIRole():
            f"{outline}"
        f"Write out point {point}."
        return gen(max_tokens=64, temperature=0, **exact)

    @ppl
    def skeleton(i: int) -> Any:
        f"{text(500, f'k{i}')}"
        "Write an outline."
        outline = gen(max_tokens=64, temperature=0, **exact)
        return [expand(outline, point) for point in range(6)]

    @ppl
    def extraction(i: int) -> Any:
        f"{SHOTS}"
        f"{text(200, f'd{i}')} Name and age as JSON:"
        return gen(max_tokens=48, temperature=0, regex=SHAPE)

    @ppl
    def step(number: int, said: Any) -> Any:
        f"{TEMPLATES[number]}"
        f"{said}"
        return gen(max_tokens=32, temperature=0, **exact)

    @ppl
    def chain(i: int) -> Any:
        said: Any = text(12, f"b{i}")
        for number in range(len(TEMPLATES)):
            said = step(number, said)
        return said

    @ppl(ctx="copy")
    def view(way: int) -> Any:
        f"Judge it in way {way}."
        return gen(max_tokens=32, temperature=0, **exact)

    @ppl
    def judge(i: int) -> Any:
        f"{text(400, f'j{i}')}"
        for each in [view(way) for way in range(5)]:
            f"View: {each}"
        "Overall:"
        return gen(max_tokens=48, temperature=0, **exact)

    programs = {
        "self-consistency": self_consistency, "tree of thoughts": tree, "agents": agent,
        "two-agent chat": chat, "skeleton": skeleton, "extraction": extraction,
        "small beginnings": chain, "judge": judge,
    }  # fmt: skip
    backend = SGLang(url=url, tokenizer=tokenizer, template=template, advise=lambda _: None)

    def run(name: str, number: int) -> None:
        with Run(backend, policy=Policy(warm=warm)):
            list(appl.map(programs[name], range(number), progress=False))

    return run


def sglang_side(url: str, tokenizer: Path, model: str) -> Callable[[str, int], None]:
    """The programs in SGLang's frontend language."""
    import sglang as sgl

    sgl.set_default_backend(sgl.RuntimeEndpoint(url))
    exact = {"ignore_eos": True}

    @sgl.function
    def self_consistency(s: Any, i: int) -> None:
        s += f"{text(800, f'q{i}')}\nWhat follows?\n"
        forks = s.fork(8)
        forks += sgl.gen("answer", max_tokens=48, temperature=0.7, **exact)
        s["answers"] = [fork["answer"] for fork in forks]

    @sgl.function
    def tree(s: Any, i: int) -> None:
        s += f"{text(600, f't{i}')}\n"
        found = []
        first = s.fork(4)
        first += sgl.gen("thought", max_tokens=48, temperature=0.7, **exact)
        seconds = [one.fork(3) for one in first]
        for two in (two for second in seconds for two in second):
            two += sgl.gen("thought2", max_tokens=48, temperature=0.7, **exact)
            two += "\nHow good is it?\n"
            two += sgl.gen("score", max_tokens=8, temperature=0, **exact)
        for second in seconds:
            found += [two["score"] for two in second]
        s["scores"] = found

    @sgl.function
    def agent(s: Any, i: int) -> None:
        s += f"{SHOTS}\nTask: {text(40, f'a{i}')}\n"
        for step in range(8):
            s += "Thought and action:\n"
            s += sgl.gen(f"action{step}", max_tokens=16, temperature=0, **exact)
            s += f"\nObservation: {text(150, f'o{i}.{step}')}\n"
        s += sgl.gen("answer", max_tokens=48, temperature=0, **exact)

    @sgl.function
    def chat(s: Any, i: int) -> None:
        speakers = s.fork(2)
        speakers[0] += f"You are {text(400, f's{i}a')}\n"
        speakers[1] += f"You are {text(400, f's{i}b')}\n"
        said = text(12, f"c{i}")
        for turn in range(10):
            who = speakers[turn % 2]
            who += said + "\n"
            who += sgl.gen(f"t{turn}", max_tokens=32, temperature=0, **exact)
            who += "\n"
            said = who[f"t{turn}"]
        s["said"] = said

    @sgl.function
    def skeleton(s: Any, i: int) -> None:
        s += f"{text(500, f'k{i}')}\nWrite an outline.\n"
        s += sgl.gen("outline", max_tokens=64, temperature=0, **exact)
        forks = s.fork(6)
        for point, fork in enumerate(forks):
            fork += f"\nWrite out point {point}.\n"
            fork += sgl.gen("text", max_tokens=64, temperature=0, **exact)
        s["texts"] = [fork["text"] for fork in forks]

    @sgl.function
    def extraction(s: Any, i: int) -> None:
        s += f"{SHOTS}\n{text(200, f'd{i}')} Name and age as JSON:\n"
        s += sgl.gen("json", max_tokens=48, temperature=0, regex=SHAPE)

    @sgl.function
    def chain(s: Any, i: int) -> None:
        said = text(12, f"b{i}")
        for template in TEMPLATES:
            one = s.fork(1)[0]
            one += f"{template}\n{said}\n"
            one += sgl.gen("said", max_tokens=32, temperature=0, **exact)
            said = one["said"]
        s["said"] = said

    @sgl.function
    def judge(s: Any, i: int) -> None:
        s += f"{text(400, f'j{i}')}\n"
        views = s.fork(5)
        for way, each in enumerate(views):
            each += f"Judge it in way {way}.\n"
            each += sgl.gen("view", max_tokens=32, temperature=0, **exact)
        for each in views:
            s += f"View: {each['view']}\n"
        s += "Overall:\n"
        s += sgl.gen("answer", max_tokens=48, temperature=0, **exact)

    programs = {
        "self-consistency": self_consistency, "tree of thoughts": tree, "agents": agent,
        "two-agent chat": chat, "skeleton": skeleton, "extraction": extraction,
        "small beginnings": chain, "judge": judge,
    }  # fmt: skip

    def run(name: str, number: int) -> None:
        states = programs[name].run_batch([{"i": i} for i in range(number)], num_threads="auto")
        for state in states:
            state.sync()
            if state.error() is not None:
                raise state.error()

    return run


def openai_side(url: str, tokenizer: Path, model: str) -> Callable[[str, int], None]:
    """The programs as coroutines with the openai SDK."""
    import asyncio

    from openai import AsyncOpenAI

    more = {"ignore_eos": True}

    async def ask(client: Any, messages: list[Any], tokens: int, heat: float, **form: Any) -> str:
        extra = form or more
        answer = await client.chat.completions.create(
            model=model, messages=messages, max_tokens=tokens, temperature=heat, extra_body=extra
        )
        return str(answer.choices[0].message.content)

    def user(content: str) -> dict[str, str]:
        return {"role": "user", "content": content}

    def said(content: str) -> dict[str, str]:
        return {"role": "assistant", "content": content}

    async def self_consistency(client: Any, i: int) -> None:
        messages = [user(f"{text(800, f'q{i}')}\nWhat follows?")]
        await asyncio.gather(*(ask(client, messages, 48, 0.7) for _ in range(8)))

    async def tree(client: Any, i: int) -> None:
        start = text(600, f"t{i}")

        async def leaf(begun: str) -> None:
            thought = await ask(client, [user(begun)], 48, 0.7)
            await ask(client, [user(f"{begun}\n{thought}\nHow good is it?")], 8, 0)

        async def deeper() -> None:
            thought = await ask(client, [user(start)], 48, 0.7)
            await asyncio.gather(*(leaf(f"{start}\n{thought}") for _ in range(3)))

        await asyncio.gather(*(deeper() for _ in range(4)))

    async def agent(client: Any, i: int) -> None:
        talk = f"{SHOTS}\nTask: {text(40, f'a{i}')}"
        for step in range(8):
            talk += "\nThought and action:"
            talk += "\n" + await ask(client, [user(talk)], 16, 0)
            talk += f"\nObservation: {text(150, f'o{i}.{step}')}"
        await ask(client, [user(talk)], 48, 0)

    async def chat(client: Any, i: int) -> None:
        speakers = [[user(f"You are {text(400, f's{i}{who}')}")] for who in "ab"]
        answer = text(12, f"c{i}")
        for turn in range(10):
            messages = speakers[turn % 2]
            messages.append(user(answer))
            answer = await ask(client, messages, 32, 0)
            messages.append(said(answer))

    async def skeleton(client: Any, i: int) -> None:
        messages = [user(f"{text(500, f'k{i}')}\nWrite an outline.")]
        outline = await ask(client, messages, 64, 0)
        messages.append(said(outline))
        points = [[*messages, user(f"Write out point {point}.")] for point in range(6)]
        await asyncio.gather(*(ask(client, each, 64, 0) for each in points))

    async def extraction(client: Any, i: int) -> None:
        content = f"{SHOTS}\n{text(200, f'd{i}')} Name and age as JSON:"
        await ask(client, [user(content)], 48, 0, regex=SHAPE)

    async def chain(client: Any, i: int) -> None:
        answer = text(12, f"b{i}")
        for template in TEMPLATES:
            answer = await ask(client, [user(f"{template}\n{answer}")], 32, 0)

    async def judge(client: Any, i: int) -> None:
        essay = text(400, f"j{i}")
        asked = [user(f"{essay}\nJudge it in way {way}.") for way in range(5)]
        views = await asyncio.gather(*(ask(client, [each], 32, 0) for each in asked))
        shown = "\n".join(f"View: {each}" for each in views)
        await ask(client, [user(f"{essay}\n{shown}\nOverall:")], 48, 0)

    programs = {
        "self-consistency": self_consistency, "tree of thoughts": tree, "agents": agent,
        "two-agent chat": chat, "skeleton": skeleton, "extraction": extraction,
        "small beginnings": chain, "judge": judge,
    }  # fmt: skip

    def run(name: str, number: int) -> None:
        async def go() -> None:
            async with AsyncOpenAI(
                base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=600
            ) as client:
                await asyncio.gather(*(programs[name](client, i) for i in range(number)))

        asyncio.run(go())

    return run


def serve_side(who: str, url: str, tokenizer: Path, model: str, template: str) -> None:
    """Obey lines ``NAME NUMBER`` on stdin; say how many seconds each took."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is not an answer
    if who in WARM:
        run = appl_side(url, tokenizer, WARM[who], None if template == "model" else template)
    else:
        run = {"sglang": sglang_side, "openai": openai_side}[who](url, tokenizer, model)
    print("ready", file=out, flush=True)
    for line in sys.stdin:
        name, number = json.loads(line)
        began = time.perf_counter()
        run(name, number)
        print(time.perf_counter() - began, file=out, flush=True)


class Side:
    """A process that runs programs in one way."""

    def __init__(self, who: str, python: str, arguments: list[str]) -> None:
        self._process = subprocess.Popen(
            [python, __file__, *arguments, "--side", who],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def answer(self) -> str:
        """The next line that it says; the first one is that it is ready."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            os._exit(1)  # that side has said why; the others are not waited for
        return line.strip()

    def run(self, name: str, number: int) -> float:
        """Run *number* instances of a program at once; how many seconds they took."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([name, number]) + "\n")
        self._process.stdin.flush()
        return float(self.answer())

    def end(self) -> None:
        """No more programs."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)


def flush(url: str) -> None:
    """Empty the server's cache."""
    for _ in range(50):
        try:
            request = urllib.request.Request(f"{url}/flush_cache", method="POST")
            urllib.request.urlopen(request, timeout=60).close()
        except OSError:
            time.sleep(0.2)
        else:
            time.sleep(0.2)
            return
    raise SystemExit("the server's cache cannot be flushed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--model", default="default")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--programs", help="only these, as in 'agents,extraction'")
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of programs")
    parser.add_argument("--sides", default="appl,sglang,openai", help="appl must be among them")
    parser.add_argument("--template", default="plain", help="of appl: plain or model")
    parser.add_argument("--sglang-python", default=sys.executable)
    parser.add_argument("--side", choices=SIDES)
    parser.add_argument("--json")
    options = parser.parse_args()
    if options.side:
        serve_side(options.side, options.url, options.tokenizer, options.model, options.template)
        return
    arguments = [options.url, "--tokenizer", str(options.tokenizer), "--model", options.model,
                 "--template", options.template]  # fmt: skip
    pythons = {"sglang": options.sglang_python}
    sides = {
        who: Side(who, pythons.get(who, sys.executable), arguments)
        for who in options.sides.split(",")
    }
    for side in sides.values():
        side.answer()
    order = list(sides)
    found: dict[str, Any] = {}
    wanted = options.programs.split(",") if options.programs else list(PROGRAMS)
    for name, most in ((each, PROGRAMS[each]) for each in wanted):
        number = max(2, int(most * options.scale))
        seconds: dict[str, list[float]] = {who: [] for who in order}
        for turn in range(options.rounds):
            for at in range(len(order)):
                who = order[(at + turn) % len(order)]
                flush(options.url)
                seconds[who].append(sides[who].run(name, number))
        rates = {who: number / statistics.median(times) for who, times in seconds.items()}
        ratios = {
            who: statistics.median(b / a for a, b in zip(seconds["appl"], times, strict=True))
            for who, times in seconds.items()
            if who != "appl"
        }
        found[name] = {"programs": number, "seconds": seconds, "per_second": rates, "ratio": ratios}
        row = "   ".join(f"{who} {rate:7.2f}" for who, rate in rates.items())
        more = ", ".join(f"{ratio:.2f} × {who}" for who, ratio in ratios.items())
        print(f"{name:18} {row}   appl is {more}", flush=True)
    for side in sides.values():
        side.end()
    sys.path.insert(0, str(HERE.parent))
    from report import write

    write(options.json, f"python {' '.join(sys.argv)}", found)


if __name__ == "__main__":
    main()

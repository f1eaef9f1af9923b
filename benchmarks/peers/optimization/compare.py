"""Optimisation by appl and by dspy.GEPA: the same model, cases, texts, proposals and server.

    python -m venv benchmarks/peers/.venv
    benchmarks/peers/.venv/bin/pip install dspy
    python benchmarks/peers/optimization/compare.py --python benchmarks/peers/.venv/bin/python

Each program runs in a process of its own, in an empty folder with empty caches, and ends when all
proposals were made or all cases to learn from are right. The server counts what it is asked, with
the evaluations on the cases held out, before and after. `dspy.GEPA` keeps answers in the cache of
dspy's LM, as it does by default; `auto=light` ends as it does by itself, with its own size of a
batch; `cache=False` is without that cache, as gepa is with other models than dspy's. These two run
with the first seed only. What appl has learned is of the cases that it answered, which are all only
where a decision needed them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from tasks import CASES, LEARN, TEXTS, proposals  # noqa: E402


def run(task: str, command: list[str]) -> tuple[dict[str, float], dict[str, int]]:
    """What a program found, and what the server was asked."""
    words = [sys.executable, str(HERE / "server.py"), task]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    server = subprocess.Popen(words, **pipes)
    assert server.stdout is not None
    url = f"http://127.0.0.1:{server.stdout.readline().strip()}/v1"
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            "PATH": os.environ["PATH"], "PYTHONPATH": str(HERE), "OPENAI_BASE_URL": url,
            "OPENAI_API_KEY": "sk-none", "APPL_MODEL": "openai/m", "HOME": folder,
            "DSPY_CACHEDIR": f"{folder}/cache", "NO_PROXY": "127.0.0.1",
        }  # fmt: skip
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
    asked, _ = server.communicate("")
    if done.returncode:
        raise SystemExit(f"{command}: {done.stderr[-3000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1]), json.loads(asked)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", required=True, help="one with dspy")
    parser.add_argument("--batch", type=int, default=4, help="cases of a reflection")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    asks = "import importlib.metadata as m; print(*(f'{n} {m.version(n)}' for n in"
    names = "('dspy', 'gepa', 'litellm')), sep=', ')"
    versions = subprocess.run(
        [given.python, "-c", f"{asks} {names}"], capture_output=True, text=True, check=True
    )
    out = [f"$ python {' '.join(sys.argv)}", f"{versions.stdout.strip()}; batch {given.batch}"]
    out.append("learned: of all cases to learn from; by appl, of those that a decision needed")
    batch = str(given.batch)
    for task, texts in TEXTS.items():
        held = len(CASES[task]) - LEARN
        out.append(
            f"{task}: {len(texts)} prompts, {LEARN} cases to learn from, {held} held out, at most "
            f"{proposals(task)} proposals"
        )
        appl = [sys.executable, "-m", "appl", "run", "--quiet", f"{HERE / 'appl_.py'}:main"]
        peer = [given.python, str(HERE / "dspy_.py"), task]
        commands = {
            "appl": [*appl, "--task", task, "--batch", batch, "--seed"],
            "dspy.GEPA": [*peer, "cache", batch],
            "dspy.GEPA, auto=light": [*peer, "shipped", batch],
            "dspy.GEPA, cache=False": [*peer, "anew", batch],
        }
        others = [name for name in commands if "," in name]
        parts: dict[str, list[float]] = {name: [] for name in commands}
        for seed in given.seeds:
            mine = 0
            for name, command in commands.items():
                if name in others and seed != given.seeds[0]:
                    continue
                found, asked = run(task, [*command, str(seed)])
                tokens = asked["model tokens"] + asked["proposer tokens"]
                mine = mine or tokens
                parts[name].append(mine / tokens)
                out.append(
                    f"  seed {seed} {name:<23} held out {found['before']:.3f} to "
                    f"{found['after']:.3f}, learned {found['train']:.3f}; "
                    f"{asked['proposer calls']:>2} proposals; model {asked['model calls']:>4} "
                    f"calls {asked['model tokens']:>6} tokens, proposer "
                    f"{asked['proposer tokens']:>5} tokens; {tokens:>6} in all, appl's are "
                    f"{mine / tokens:.0%}"
                )
                print(out[-1], flush=True)
        mean = sum(parts["dspy.GEPA"]) / len(parts["dspy.GEPA"])
        out.append(
            f"  appl's tokens are {mean:.0%} of those of dspy.GEPA, in the mean of the seeds"
        )
    text = "\n".join(out) + "\n"
    print(text, end="")
    if given.out is not None:
        given.out.write_text(text, "utf-8")


if __name__ == "__main__":
    main()

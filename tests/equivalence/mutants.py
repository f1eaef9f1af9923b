"""Bugs seeded on purpose: each is a change of one place in a copy of the package.

``hunt`` runs random programs against the copy, in a process of its own, until one disagrees.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Mutant:
    """Replaces the one place in *file* that reads *old*."""

    name: str
    file: str
    old: str
    new: str


MUTANTS = (
    Mutant(
        "an f-string statement is evaluated as a whole",
        "compiler/lower.py",
        "            return self._parts(value)\n",
        "            return [self._tell('say', value, self.visit(value))]\n",
    ),
    Mutant(
        "the body of a try is no region",
        "compiler/lower.py",
        "body=[at(node, form(items=[item], body=self._body(node.body)))]",
        "body=self._body(node.body)",
    ),
    Mutant(
        "a conversion in a hole is forgotten",
        "compiler/lower.py",
        'conversion = constant("" if node.conversion < 0 else chr(node.conversion), node.value)',
        'conversion = constant("", node.value)',
    ),
    Mutant(
        "statements of nested functions are not said",
        "compiler/lower.py",
        "return copied(node, decorator_list=decorators, args=args, body=body)",
        "return copied(node, decorator_list=decorators, args=args)",
    ),
    Mutant(
        "C code is given futures in containers",
        "runtime/resolve.py",
        "    elif isinstance(value, Proxy):\n        found.append(value)",
        "    elif isinstance(value, Proxy) and not seen:\n        found.append(value)",
    ),
    Mutant(
        "a copied prompt is the caller's own",
        "runtime/activation.py",
        'return around.prompt.copy() if ctx in ("copy", "same") else Prompt()',
        'return around.prompt if ctx in ("copy", "same") else Prompt()',
    ),
    Mutant(
        "all objects share the state of a resume method",
        "runtime/state.py",
        "place = id(function), id(owner)",
        "place = id(function), 0",
    ),
    Mutant(
        "an address counts the calls of the whole run",
        "runtime/frame.py",
        "        count = self.counts.get(name, 0)\n        self.counts[name] = count + 1",
        "        counts = self.run.root.counts\n        count = counts.get(name, 0)\n"
        "        counts[name] = count + 1",
    ),
    Mutant(
        "a region raises the failure that is last in program order",
        "runtime/region.py",
        "if failures and first is None:",
        "if failures:",
    ),
    Mutant(
        "a failed answer stays in the prompt",
        "runtime/region.py",
        "        self._frame.prompt.tip = self._tips[first]\n",
        "",
    ),
    Mutant(
        "a generator speaks in the frame of whoever resumes it",
        "runtime/body.py",
        "                        self.begun(frame)\n                    out = step()\n",
        "                        self.begun(frame)\n"
        "                    elif frame.parent is not None:\n"
        "                        FRAME.set(frame.parent)\n"
        "                    out = step()\n",
    ),
    Mutant(
        "a role outlives its block",
        "runtime/roles.py",
        "        scribe.voice = entered[scribe].pop()\n",
        "        entered[scribe].pop()\n",
    ),
    Mutant(
        "a call goes out when one of its missing parts is there",
        "runtime/scheduler.py",
        "lambda _: self.admit(call)",
        "lambda _: self._start(call)",
    ),
    Mutant(
        "an edge names only the nearest answer",
        "runtime/call.py",
        "        yield source\n        before",
        "        yield source\n        return\n        before",
    ),
    Mutant(
        "records() leave out what comes from answers",
        "runtime/context.py",
        "return moved(tip.since(self._frame.origin), self._frame.base, USER)",
        "said = [n for n in tip.since(self._frame.origin) if isinstance(n.part, str)]\n"
        "        return moved(said, self._frame.base, USER)",
    ),
    Mutant(
        "a failure that was handled is raised again when the run ends",
        "runtime/pending.py",
        "        self.outcome.looked = True\n        return self.outcome.raised()",
        "        return self.outcome.raised()",
    ),
)


def hunt(mutant: Mutant, folder: Path, seeds: int = 400, limit: float = 60) -> int | None:
    """How many programs it took to find *mutant*; ``None`` when none of *seeds* disagrees."""
    copy = mutated(mutant, folder)
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "tests.equivalence", "--quick", "1", str(seeds)]
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, timeout=limit
        )
    except subprocess.TimeoutExpired:
        raise AssertionError(f"{mutant.name}: no verdict within {limit} s") from None
    word, _, number = done.stdout.strip().rpartition(" ")
    if word == "disagrees:" and done.returncode == 1:
        return int(number)
    assert done.returncode == 0, f"{mutant.name}: {done.stdout}{done.stderr}"
    return None


def mutated(mutant: Mutant, folder: Path) -> Path:
    """A copy of the package and of this suite with the bug in it."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "appl", folder / "appl", ignore=ignored)
    shutil.copytree(ROOT / "tests/equivalence", folder / "tests/equivalence", ignore=ignored)
    path = folder / "appl" / mutant.file
    text = path.read_text()
    assert text.count(mutant.old) == 1, f"{mutant.name}: its place in {mutant.file} has changed"
    path.write_text(text.replace(mutant.old, mutant.new))
    return folder


UNHURT = Mutant("no bug", "__init__.py", "from __future__", "from __future__")

"""Programs are run against a twin, and what they saw is compared with what it said."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from appl.backend import Backend
from appl.testing import BackendEndpoint, Model, Models, Policy, Retries, Run, on_backend_loop
from tests.wire.servers import FaultServer

from . import programs
from .chat import Key, Twin
from .model import Said
from .programs import Answer, Program, Words, Writer

POLICY = Policy(retries=Retries(attempts=4, base_s=1e-6, cap_s=1e-5, spare=10**6), circuit=None)


@dataclass
class Findings:
    """What came of programs: requests that were refused, texts that were lost, and other faults."""

    programs: int = 0
    requests: int = 0
    failures: int = 0
    refused: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.programs} programs, {self.requests} requests, {self.failures} failures injected, "
            f"{len(self.refused)} refused, {len(self.lost)} texts lost"
        )


def written(
    seeds: range, backends: tuple[Backend, Backend], takes: frozenset[str]
) -> list[Program]:
    """The programs of *seeds* for the first of *backends*; every other one asks the second, too."""
    first, second = (backend.profile.features for backend in backends)
    return [
        Writer(seed, first & second if seed % 2 == 0 else first, takes, seed % 2 == 0).write()
        for seed in seeds
    ]


@contextmanager
def loaded(folder: Path, found: list[Program]) -> Iterator[Any]:
    """The module that holds the programs *found*."""
    path = folder / "twin_programs.py"
    path.write_text(programs.module(found))
    spec = importlib.util.spec_from_file_location("twin_programs", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["twin_programs"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["twin_programs"]


class Judge:
    """Runs programs on *backend*, which asks *twin*, and on the backend that asks *other*."""

    def __init__(
        self,
        twin: Twin,
        backend: Backend,
        other: tuple[Twin, Backend] | None = None,
        servers: tuple[FaultServer, ...] = (),
    ) -> None:
        self.twin, self.backend, self.other, self.servers = twin, backend, other, servers
        self.findings = Findings()
        self.twins = [twin, *([other[0]] if other else [])]

    def run(self, program: Program, module: Any) -> None:
        """Run *program*, and note what is wrong."""
        for twin in self.twins:
            twin.forget()
        wrong = list[str]()
        try:
            with self._running():
                values = getattr(module, program.name)()
            wrong += self._unseen(program, values)
            wrong += self._unheard(program)
            wrong += self._too_often(program)
        except Exception as error:  # whatever it is, the program did not end as it should
            wrong.append(f"{type(error).__name__}: {str(error)[:400]}")
        refused = [(twin, each) for twin in self.twins for each in twin.refused]
        found = self.findings
        found.programs += 1
        found.requests += sum(sum(twin.asked.values()) for twin in self.twins) + len(refused)
        found.failures += sum(sum(twin.failed.values()) for twin in self.twins)
        name = f"{' and '.join(twin.name for twin in self.twins)}, program {program.seed}"
        found.refused += [f"{name}: {twin.name} {each.rule.name}: {each.message}" for twin, (each, _) in refused]  # fmt: skip
        found.refused += [f"{name}: {each}" for server in self.servers for each in server.refusals]
        for each in (*[twin.refused for twin in self.twins], *[s.refusals for s in self.servers]):
            each.clear()
        if not refused:
            found.lost += [f"{name}: {each}" for each in wrong]

    def _running(self) -> Run:
        if self.other is None:
            return Run(self.backend, policy=POLICY)
        _, backend = self.other
        model = Model("other", backend.profile.default_model)
        models = Models(
            self.backend.profile, names={"other": model}, others={"other": backend.profile}
        )
        place = BackendEndpoint(backend, POLICY)
        return Run(self.backend, policy=POLICY, models=models, places={"other": place})

    # -- what the twins know

    def said(self, key: Key) -> list[Said]:
        for twin in self.twins:
            if key in twin.said:
                return twin.said[key]
        return []

    def last(self, mark: str) -> int:
        """The number of the last answer to *mark*."""
        steps = [step for twin in self.twins for known, step in twin.said if known == mark]
        return max(steps, default=0)

    # -- what is compared

    def _unseen(self, program: Program, values: list[Any]) -> Iterator[str]:
        """Answers that the program did not see as they were given."""
        for (mark, step, form), value in zip(program.sees, values, strict=True):
            step = self.last(mark) if step < 0 else step
            said = self.said((mark, step))
            if form == "text after calls" and not self.said((mark, 0))[0].calls:
                continue
            if not said:
                yield f"{mark} was never answered"
            elif not is_seen(form, value, said):
                yield f"{mark}, answer {step}, as {form}: saw {value!r:.200}, said {said!r:.200}"

    def _unheard(self, program: Program) -> Iterator[str]:
        """Texts that a question lacks, and pictures."""
        for twin in self.twins:
            for (mark, step), heard in twin.heard.items():
                text, at = "\n".join(heard.texts), 0
                for item in filter(str.strip, self._expected(program, mark, step)):
                    found = text.find(item, at)
                    if found < 0:
                        yield f"{mark}/{step}: the question lacks {item!r:.80} behind {text[:at][-40:]!r}"
                        break
                    at = found + len(item)
                if heard.images != program.pictures[mark]:
                    yield f"{mark}/{step}: {heard.images} pictures, not {program.pictures[mark]}"

    def _expected(self, program: Program, mark: str, step: int) -> Iterator[str]:
        items = list(program.holds[mark])
        items += [Answer(mark, each, results=True) for each in range(step)]
        for item in items:
            if isinstance(item, Words):
                yield item.text
                continue
            for said in self.said((item.mark, item.step))[:1]:
                yield said.text
                if item.results:
                    yield from results_of(said)

    def _too_often(self, program: Program) -> Iterator[str]:
        """Questions that were asked more often than once."""
        for twin in self.twins:
            for key, count in twin.asked.items():
                wanted = program.calls[key[0]]
                once = 1 if len(twin.said.get(key, ())) == wanted else wanted
                if count != once + twin.failed[key]:
                    yield f"{key} was asked {count} times, with {twin.failed[key]} failures"


def is_seen(form: str, value: Any, said: list[Said]) -> bool:
    """True if *value* is what the model *said*."""
    first = said[0]
    if form in ("text", "text after calls", "choice"):
        return chosen(first.text, str(value)) if form == "choice" else str(value) == first.text
    if form == "pieces":
        return "".join(value) == first.text
    if form == "samples":
        texts = [each.text for each in said]
        return list(value) == (texts if len(texts) == len(value) else texts * len(value))
    if form == "calls":
        return [(c.name, arguments_of(c.arguments)) for c in value] == [
            (c.name, c.arguments) for c in first.calls
        ]
    seen, kind = value
    return bool(json.loads(TypeAdapter(kind).dump_json(seen)) == plain(first.text))


def chosen(text: str, value: str) -> bool:
    """True if *text* says the choice *value*: as it is, in JSON, or by its number."""
    options = ["left", "right (now)", "up"]
    said = plain(text)
    return said == value or (isinstance(said, int) and options[said - 1] == value)


def plain(text: str) -> Any:
    """The value that *text* says; some interfaces take an object only, which has it as ``value``."""
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return found["value"] if isinstance(found, dict) and found.keys() == {"value"} else found


def arguments_of(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def results_of(said: Said) -> Iterator[str]:
    """What the tools' messages must hold for the calls of an answer."""
    for call in said.calls:
        given = call.arguments
        if not isinstance(given, dict) or "unknown" in given:
            continue
        if call.name == "weather":
            yield f"12 {given.get('unit', 'C')} in {given['city']}"
        elif call.name == "add":
            yield str(given["a"] + given["b"])
        elif call.name == "now":
            yield "it is noon"
        elif call.name == "broken":
            yield f"cannot {given['reason']}"
        elif call.name == "order":
            item = given["item"]
            yield f"{item['count']} of {item['name']}, {len(given['tags'])} tags"


def closed(backend: Backend) -> None:
    on_backend_loop(backend.aclose)


__all__ = ["Counter", "FaultServer", "Findings", "Judge", "closed", "loaded", "written"]

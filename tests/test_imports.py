"""Who may import whom, what an import may load, and how long it may take."""

from __future__ import annotations

import ast
import builtins
import os
import pkgutil
import resource
import statistics
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from types import ModuleType
from typing import Literal

import anyio
import hypothesis
import pytest

import appl

ROOT = Path(__file__).parents[1]
MAY = {
    "errors": [],
    "base": ["errors"],
    "parts": ["errors"],
    "prompt": ["errors", "base"],
    "backend": ["prompt", "base", "errors"],
    "backend.check": ["prompt", "backend", "errors"],
    "backend.http": ["prompt", "backend.check", "errors"],
    "backend.price": ["prompt", "backend", "errors"],
    "backend.price_table": ["backend.price", "backend.http"],
    "compiler": ["errors", "base"],
    "runtime.event": ["prompt", "backend"],
    "runtime.world": ["runtime.event", "backend", "errors"],
    "runtime.scheduling": [
        "runtime.answers",
        "runtime.concurrency",
        "runtime.event",
        "prompt",
        "backend",
        "backend.check",
        "backend.price",
        "errors",
        "base",
    ],
    "runtime.scheduling.prefix_order": [
        "runtime.scheduling",
        "runtime.answers",
        "runtime.concurrency",
        "backend",
    ],
    "runtime.concurrency": [
        "base",
        "runtime",
        "runtime.answers",
        "runtime.event",
        "runtime.world",
        "compiler",
        "prompt",
        "errors",
    ],
    "runtime.prompts": [
        "base",
        "runtime",
        "runtime.answers",
        "runtime.concurrency",
        "compiler",
        "prompt",
        "errors",
    ],
    "runtime.tools": [
        "runtime",
        "runtime.answers",
        "runtime.concurrency",
        "runtime.event",
        "runtime.prompts",
        "runtime.world",
        "compiler",
        "prompt",
        "base",
        "errors",
    ],
    "runtime.waiting": [
        "runtime",
        "runtime.answers",
        "runtime.concurrency",
        "runtime.event",
        "runtime.tools",
        "runtime.world",
        "prompt",
        "base",
        "errors",
    ],
    "runtime.answers": [
        "base",
        "runtime",
        "runtime.concurrency",
        "runtime.event",
        "runtime.prompts",
        "runtime.tools",
        "runtime.world",
        "prompt",
        "backend",
        "backend.check",
        "errors",
    ],
    "runtime.embedding": [
        "runtime",
        "runtime.answers",
        "runtime.concurrency",
        "runtime.scheduling",
        "prompt",
        "backend",
        "backend.price",
        "errors",
    ],
    "runtime": [
        "base",
        "runtime.answers",
        "runtime.concurrency",
        "runtime.embedding",
        "runtime.event",
        "runtime.prompts",
        "runtime.scheduling",
        "runtime.tools",
        "runtime.world",
        "compiler",
        "prompt",
        "backend",
        "errors",
    ],
    "tracing.format": ["prompt", "backend", "errors", "base"],
    "tracing.recording": ["runtime.event", "tracing.format", "prompt", "backend", "errors", "base"],
    "tracing.reading": ["base", "tracing.format", "prompt", "backend", "errors"],
    "tracing.replaying": [
        "runtime.event",
        "runtime.world",
        "tracing",
        "tracing.format",
        "tracing.reading",
        "tracing.recording",
        "prompt",
        "backend",
        "backend.price",
        "errors",
        "base",
    ],
    "tracing.explaining": [
        "runtime.event",
        "tracing",
        "tracing.format",
        "tracing.reading",
        "tracing.replaying",
        "prompt",
        "backend",
        "backend.price",
        "errors",
        "base",
    ],
    "tracing.exporting": [
        "tracing",
        "tracing.explaining",
        "tracing.format",
        "tracing.keeping",
        "tracing.reading",
        "tracing.recording",
        "prompt",
        "backend",
        "backend.check",
        "backend.http",
        "errors",
        "base",
    ],
    "tracing.keeping": [
        "tracing.explaining",
        "tracing.format",
        "tracing.reading",
        "tracing.recording",
        "prompt",
        "errors",
        "base",
    ],
    "tracing.tape": ["tracing.format", "tracing.reading", "prompt", "backend", "errors"],
    "tracing.viewer": [
        "tracing.explaining",
        "tracing.format",
        "tracing.keeping",
        "tracing.reading",
        "tracing.recording",
        "prompt",
        "backend",
        "base",
        "errors",
    ],
    "tracing": [
        "base",
        "tracing.format",
        "tracing.reading",
        "tracing.recording",
        "tracing.replaying",
    ],
    "parts.control": [
        "runtime",
        "runtime.concurrency",
        "runtime.scheduling",
        "runtime.world",
        "tracing.recording",
        "errors",
        "base",
    ],
    "parts.evaluation": [
        "base",
        "runtime",
        "runtime.concurrency",
        "runtime.event",
        "tracing.reading",
        "prompt",
        "backend.price",
        "errors",
    ],
    "parts.optimization": [
        "parts.evaluation",
        "runtime",
        "runtime.answers",
        "runtime.concurrency",
        "runtime.event",
        "runtime.function",
        "runtime.scheduling",
        "compiler",
        "prompt",
        "backend.price",
        "base",
        "errors",
    ],
    "parts.search": ["runtime.concurrency", "runtime.prompts", "prompt", "errors"],
    "parts.sandbox": ["base", "runtime.tools", "errors"],
    "parts.conversations": ["tracing.recording", "prompt", "errors"],
    "mcp": [
        "runtime",
        "runtime.answers",
        "runtime.concurrency",
        "runtime.tools",
        "prompt",
        "backend.check",
        "backend.http",
        "errors",
        "base",
    ],
    "config": [
        "backend",
        "prompt.secret",
        "prompt.secret_headers",
        "prompt.key_masking",
        "base",
        "errors",
    ],
    "parts.batching.provider": ["backend", "errors"],
    "parts.batching": [
        "parts.batching.provider",
        "runtime.concurrency",
        "runtime.event",
        "backend",
        "backend.check",
        "base",
        "errors",
    ],
    "parts.web": ["errors", "base"],
    "appl_backends": [
        "parts.batching.provider",
        "parts.web",
        "backend",
        "backend.check",
        "backend.http",
        "prompt",
        "backend.price",
        "backend.price_table",
        "base",
        "errors",
    ],
    "runtime.function": [
        "compiler",
        "runtime",
        "runtime.concurrency",
        "runtime.prompts",
        "prompt",
        "base",
        "errors",
    ],
}
ALL = [
    "session",
    "cli",
    "parts.pytest_plugin",
    "testing",
    "parts.engine",
    "parts.serving",
    "appl",
    "__main__",
    "parts.compat",
]
Kind = Literal["import", "type", "late"]
MAY_TYPE = {
    "runtime.tools": ["runtime.waiting"],
    "appl_backends": ["runtime.scheduling.order"],
    "backend": ["backend.price"],
    "parts.batching": ["runtime.world", "tracing.reading"],
    "runtime.world": ["runtime.answers.call", "runtime.scheduling.call_status"],
    "runtime.answers": ["runtime.scheduling.accounts"],
    "runtime.concurrency": ["backend"],
    "tracing.recording": ["tracing.reading.trace"],
    "tracing.replaying": ["runtime.answers.call", "runtime.scheduling.call_status"],
}
"""What a room may import besides, for type checkers only."""

MAY_LATE = {
    "runtime": ["runtime.waiting"],
    "runtime.tools": ["runtime.waiting"],
    "appl_backends": ["runtime.scheduling.prefix_order", "runtime.scheduling.prompt_reuse"],
    "runtime.concurrency": ["base"],
    "base": ["compiler.late_failure"],
    "session": [
        *("backend.price", "config", "parts.control", "runtime.answers", "runtime.nested"),
        *("tracing", "tracing.format", "tracing.keeping", "tracing.reading"),
        *("tracing.recording.secret", "tracing.replaying"),
    ],
    "tracing.reading": ["tracing.tape.reading"],
    "tracing.viewer": ["parts.evaluation"],
}
"""What a room may import besides, late."""

NEVER = {
    "prompt": ["runtime"],
    "compiler": ["runtime"],
    "runtime": ["session", "parts.engine", "tracing", "config"],
    "session": ["cli"],
    "parts.engine": ["cli"],
    "parts.control": ["session", "cli"],
    "tracing": ["session", "cli"],
    "tracing.format": ["tracing.reading", "tracing.recording", "tracing.keeping"],
    "tracing.reading": [
        "tracing.explaining",
        "tracing.keeping",
        "tracing.recording",
        "tracing.replaying",
    ],
    "tracing.replaying": ["tracing.explaining", "tracing.keeping", "tracing.tape"],
    "tracing.recording": ["tracing.keeping", "tracing.replaying"],
}
"""Rooms that know nothing of others, not even for type checkers or late."""

CIRCLE = 5
"""The most modules that know each other, types and late imports counted."""

DEPTH = 15
"""The most imports in a chain of modules, each of which imports the next when it is loaded."""

BY_NAME = {
    *("appl/__init__.py", "appl/parts/compat/__init__.py"),  # the names that they publish
    *("appl/cli/commands.py", "appl/cli/trace/export.py"),  # a table of commands, or of forms
    *(
        "appl/backend/__init__.py",
        "appl/base/packages.py",
        "appl/cli/target.py",
        "appl/session/redacting.py",
    ),  # the user's code
    *("appl/base/extras.py", "appl/base/lazy_names.py"),  # libraries of extras, and public names
    *("backends/appl_backends/litellm.py", "backends/appl_backends/openai/account.py"),
    "backends/appl_backends/openai/__init__.py",  # the interface that most servers do not have
    "backends/appl_backends/http/route.py",  # certifi, which may be missing
    *("backends/appl_backends/ebnf.py", "backends/appl_backends/openai/answer.py"),  # for grammars
}
"""Files that import a module by its name."""

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
IMPORTING = (ast.Module, ast.Call, ast.If, ast.Import, ast.ImportFrom, *FUNCTIONS)

USED_BY_FEW = frozenset(
    """
    appl.cli.completion appl.cli.display appl.cli.failure appl.cli.replayable appl.cli.words
    appl.parts.compat.names appl.parts.compat.settings appl.compiler.late_failure appl.parts.control.client
    appl.parts.control.requests appl.parts.control.view appl.parts.control.words appl.parts.engine
    appl.parts.engine.cluster appl.parts.pytest_plugin.running appl.parts.pytest_plugin.thresholds appl.runtime.concurrency.typed_input
    appl.session appl.session.control_server appl.session.notebook appl.session.span_export
    appl.base.status_line appl.tracing.exporting.checkpoint appl.tracing.exporting.collector
    appl.tracing.exporting.delivery appl.tracing.exporting.live appl.tracing.exporting.otlp
    appl.tracing.exporting.spans appl.tracing.keeping.automatic_removal
    appl.tracing.recording.cache appl.tracing.tape appl.tracing.tape.reading
    appl.tracing.viewer appl_backends.sglang.launch ctypes docstring_parser
    importlib.metadata jsonschema opentelemetry.proto.collector.trace.v1.trace_service_pb2
    pydantic pydantic.errors pydantic_core ray.cloudpickle referencing rich.console
    rich.live rich.markup rich.panel rich.progress rich.syntax rich.table rich.text sqlite3 tiktoken
    typing_extensions yaml
    """.split()
)
"""Modules that functions import where they need them: each costs a millisecond or more."""

HEAVY = {"numpy", "litellm", "openai", "httpx", "aiohttp", "pydantic", "rich", "torch", "PIL"}


@cache
def sources() -> list[Path]:
    return [*(ROOT / "appl").rglob("*.py"), *(ROOT / "backends" / "appl_backends").rglob("*.py")]


def _module(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    name = ".".join(parts[1:] if parts[0] == "backends" else parts)
    return name.removesuffix(".__init__")


MODULES = frozenset(map(_module, sources()))


def imported(file: Path, kind: Kind = "import") -> frozenset[str]:
    """The modules of appl that *file* imports: when it is loaded, for type checkers, or late."""
    return _all_imported(file)[kind]


@cache
def _all_imported(file: Path) -> dict[Kind, frozenset[str]]:
    found: dict[Kind, set[str]] = {"import": set(), "type": set(), "late": set()}
    checking, late = set[int](), set[int]()
    for node in _nodes(file):  # a block comes before what is in it
        if isinstance(node, ast.Call):
            found["late"] |= {_by_name(node) or ""}
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            checking |= set(map(id, ast.walk(node)))
        elif isinstance(node, FUNCTIONS):
            late |= set(map(id, ast.walk(node)))
        else:
            kind: Kind = (
                "type" if id(node) in checking else "late" if id(node) in late else "import"
            )
            found[kind] |= _imported(node)
    return {kind: frozenset(filter(_is_ours, names)) for kind, names in found.items()}


@cache
def _nodes(file: Path) -> list[ast.AST]:
    """The file's tree, and of all below it what imports, in order of their depth."""
    tree = ast.parse(file.read_text("utf-8"))
    return [n for n in ast.walk(tree) if isinstance(n, IMPORTING)]


def _is_ours(name: str) -> bool:
    return name.split(".")[0] in ("appl", "appl_backends")


def _imported(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    if not isinstance(node, ast.ImportFrom) or node.level or not node.module:
        return set()
    inside = {f"{node.module}.{alias.name}" for alias in node.names}
    return inside & MODULES or {node.module}


def _by_name(node: ast.Call) -> str | None:
    """The module that a call of ``import_module`` with a name loads."""
    called = getattr(node.func, "id", getattr(node.func, "attr", ""))
    if not called.endswith("import_module"):
        return None
    name = node.args[0]
    return str(name.value) if isinstance(name, ast.Constant) else None


def layer(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return "appl_backends" if parts[0] == "backends" else parts[1]


def room_of(name: str) -> str:
    """The room of the module *name*: the innermost that has a row."""
    parts = name.removeprefix("appl.").split(".")
    rooms = (".".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((room for room in rooms if room in MAY or room in ALL), parts[0])


def allowed(name: str, rooms: list[str]) -> bool:
    """True if the module *name* is of one of the *rooms*, or one of the modules that they name."""
    return room_of(name) in rooms or any(
        f"{name}.".startswith(f"appl.{ok}.") for ok in rooms if ok not in MAY
    )


def test_the_ground_floor_has_few_entries() -> None:
    entries = sorted(each.name for each in (ROOT / "appl").iterdir() if each.name != "__pycache__")
    assert len(entries) <= 16, entries


@pytest.mark.parametrize("kind", ["import", "type", "late"])
def test_imports_go_one_way(kind: Kind) -> None:
    breaches = {str(file.relative_to(ROOT)): must_not(file, kind) for file in sources()}
    assert not {file: wrong for file, wrong in breaches.items() if wrong}


def must_not(file: Path, kind: Kind) -> list[str]:
    """What *file* imports and must not."""
    own = room_of(_module(file))
    if own in ALL and (kind != "late" or own not in MAY_LATE):
        return []
    more = {"import": {}, "type": MAY_TYPE, "late": MAY_LATE}[kind].get(own, [])
    rooms = [own, *MAY.get(own, ()), *more]
    return [name for name in imported(file, kind) if not allowed(name, rooms)]


def import_graph(*kinds: Kind) -> dict[str, set[str]]:
    """The modules of appl that each one imports, in one of the ways *kinds*."""
    graph: dict[str, set[str]] = {name: set() for name in MODULES}
    for file in sources():
        for kind in kinds:
            graph[_module(file)] |= imported(file, kind) & MODULES - {_module(file)}
    return graph


def reached(graph: dict[str, set[str]], start: str) -> set[str]:
    """The modules that *start* imports, and those that they import."""
    found, new = set[str](), {start}
    while new:
        new = set[str]().union(*(graph[name] for name in new)) - found
        found |= new
    return found


def depth(graph: dict[str, set[str]]) -> int:
    """The number of imports in the longest chain of a *graph* without circles."""
    depths: dict[str, int] = {}
    for name in TopologicalSorter(graph).static_order():
        depths[name] = max((1 + depths[other] for other in graph[name]), default=0)
    return max(depths.values())


def test_modules_that_know_each_other_are_few() -> None:
    graph = import_graph("import", "type", "late")
    known = {name: reached(graph, name) for name in graph}
    circles = [{a, *(b for b in known[a] if a in known[b])} for a in graph]
    assert max(map(len, circles)) <= CIRCLE, max(circles, key=len)


def test_chains_of_imports_are_short() -> None:
    assert depth(import_graph("import")) <= DEPTH


@pytest.mark.parametrize("room", NEVER)
def test_some_rooms_never_know_others(room: str) -> None:
    inside = [file for file in sources() if f"{_module(file)}.".startswith(f"appl.{room}.")]
    assert inside
    kinds: list[Kind] = ["import", "type", "late"]
    known = {name for file in inside for kind in kinds for name in imported(file, kind)}
    never = tuple(f"appl.{other}." for other in NEVER[room])
    assert not {name for name in known if f"{name}.".startswith(never)}


def test_modules_are_imported_by_name_only_where_a_table_or_the_user_names_them() -> None:
    found = {
        str(file.relative_to(ROOT))
        for file in sources()
        if "import_module(" in file.read_text("utf-8")
    }
    assert found == BY_NAME


def test_what_is_imported_where_it_is_used_is_not_loaded_by_importing_the_public_names() -> None:
    assert not USED_BY_FEW & loaded(PROGRAM)


def test_only_the_front_door_knows_the_names_of_appl_0_2() -> None:
    door = {"__init__", "parts"}
    rooms = {layer(file) for file in sources() if '"appl.parts.compat' in file.read_text("utf-8")}
    rooms |= {
        layer(file)
        for file in sources()
        if any(name.startswith("appl.parts.compat") for name in imported(file))
    }
    assert rooms == door


def test_every_source_has_a_docstring_and_no_relative_import() -> None:
    for file in sources():
        module, *nodes = _nodes(file)
        assert isinstance(module, ast.Module) and ast.get_docstring(module), file
        assert not any(isinstance(each, ast.ImportFrom) and each.level for each in nodes), file


PROGRAM = "import appl; from appl import ppl, gen, select, call, map, AIRole, records, run"


def python(code: str, env: dict[str, str] | None = None) -> str:
    words = [sys.executable, "-c", code]
    return subprocess.run(words, capture_output=True, text=True, check=True, env=env).stdout


@cache
def loaded(code: str) -> frozenset[str]:
    """The modules that are loaded in a process that has run *code*."""
    return frozenset(python(f"{code}; import sys; print(*sys.modules)").splitlines()[-1].split())


def test_a_star_import_leaves_the_names_of_others_alone() -> None:
    theirs = {*dir(builtins), *sys.stdlib_module_names, "mcp"} - {"select"}
    assert not theirs & set(appl.__all__)
    assert {"iter", "map", "input", "random", "uuid"} <= set(dir(appl))


def test_importing_the_public_names_loads_nothing_heavy() -> None:
    assert not (HEAVY | {"click"}) & loaded(PROGRAM)


def test_importing_has_no_effects() -> None:
    code = (
        "import threading, logging, sys, os\n"
        "before = (threading.active_count(), list(logging.root.handlers), sys.excepthook, set(os.environ))\n"
        f"{PROGRAM}\n"
        "after = (threading.active_count(), list(logging.root.handlers), sys.excepthook, set(os.environ))\n"
        "print(before == after)"
    )
    assert python(code).strip() == "True"


@pytest.mark.parametrize("package", [anyio, appl, hypothesis], ids=lambda module: module.__name__)
def test_no_test_has_an_import_rewritten_in_its_midst(package: ModuleType) -> None:
    """pytest rewrites what brings it plugins: ``tests/conftest.py`` has imported all of it."""
    below = {each.name for each in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")}
    assert below - {"hypothesis.extra"} <= set(sys.modules)


def test_what_the_suite_imports_beforehand_loads_no_client_and_no_cluster() -> None:
    code = "import tests.conftest as all_tests; all_tests.pytest_sessionstart()"
    found = loaded(code)
    assert not (HEAVY | {"ray"}) & found and "hypothesis.internal.conjecture.engine" in found


def test_the_command_line_needs_neither_numpy_nor_rich_to_start() -> None:
    assert not HEAVY & loaded("import appl.cli")


def test_a_command_that_lists_runs_loads_no_runtime_and_no_replay() -> None:
    found = loaded("import appl.cli.trace.ls")
    assert "appl.tracing.keeping.index" in found
    assert not found & {"appl.session.session", "appl.runtime.run", "appl.tracing.replaying"}


@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], ["trace", "--help"], ["trace", "shwo"]]
)
def test_help_imports_the_module_of_no_command(words: list[str]) -> None:
    found = loaded(f"from appl.cli import main; main({words})")
    assert {name for name in found if name.startswith("appl.cli.")} <= {
        f"appl.cli.{name}" for name in ("commands", "exits", "terminal", "trace")
    }
    assert not {"appl.session", "appl.runtime", "appl.tracing"} & found


def test_a_run_imports_no_other_command(tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text("def main(): return 1\n")
    words = ["run", "--no-trace", str(tmp_path / "p.py")]
    found = loaded(f"from appl.cli import main; main({words})")
    others = ("check", "ctl", "graph", "plan", "render", "serve", "settings", "trace")
    assert not {f"appl.cli.{name}" for name in others} & found


@pytest.mark.long
def test_import_takes_at_most_150_ms(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # as for a user: the byte code is there

    def seconds(code: str) -> float:  # of CPU: the clock measures the neighbours too
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        python(code, env)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    python(PROGRAM, env)
    costs = [seconds(PROGRAM) - seconds("pass") for _ in range(7)]
    print(f"import: {1000 * statistics.median(costs):.0f} ms of CPU")
    assert statistics.median(costs) <= 0.150


def test_an_import_loads_no_event_loop() -> None:
    found = loaded("from appl import gen, ppl")
    assert not found & {"asyncio", "difflib", "logging", "ssl", "subprocess", "sysconfig"}


def test_a_recorded_run_of_one_call_loads_no_reader_and_no_slow_library(tmp_path: Path) -> None:
    """Two runs: the second finds that of the first, which has finished."""
    (tmp_path / "p.py").write_text(
        "from appl import gen, ppl\n@ppl\ndef main():\n    'Hello'\n    return str(gen())\n"
    )
    words = ["run", str(tmp_path / "p.py"), "--backend", "appl.testing:Echo", "--quiet"]
    code = (
        f"import os; os.environ['APPL_HOME'] = {str(tmp_path)!r}\n"
        "from appl.cli import main\n"
        f"assert main({words}) == 0 == main({words})"
    )
    found = loaded(code)
    assert "appl.tracing.recording.recorder" in found
    assert not found & {"email", "html", "importlib.metadata", "pydantic_core", "zipfile"}
    assert not found & {"appl.tracing.reading.trace", "appl.tracing.replaying", "appl.parts.compat"}

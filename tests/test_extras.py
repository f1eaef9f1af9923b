"""Every missing extra, from every way of reaching it, says what to install.

Each way runs in a process of its own, in which the modules of the extra's requirements are not and
cannot be imported. The extras are those of ``pyproject.toml``: a new one fails here until it has its ways.
"""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest

from appl.base.extras import EXTRAS

PROJECT: dict[str, Any] = tomllib.loads(
    (Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8")
)["project"]
FOR_BUILDERS = {"dev", "docs"}
FOR_PROGRAMS = {"retrieval"}
"""Extras with libraries that programs use beside this package, which imports none of them."""
REQUIRED = {
    name: [re.split(r"[\[<>=!;~ ]", each)[0] for each in requirements]
    for name, requirements in PROJECT["optional-dependencies"].items()
    if name not in FOR_BUILDERS | FOR_PROGRAMS
}
BACKENDS = PROJECT["entry-points"]["appl.backends"]

BLOCK = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
assert not [name for name in [*sys.modules] if name.partition(".")[0] in ABSENT]
"""
COMMAND = "from appl.cli import main; sys.exit(main({!r}))"
RUN = "import appl; str(appl.gen({model}messages='Hello', max_tokens=2))"
PROGRAM = "import appl\n\ndef main():\n    return str(appl.gen(messages='Hello', max_tokens=2))\n"
OWN_WAYS: dict[str, dict[str, str]] = {
    "mcp": {"a tool server": "import appl.mcp; appl.mcp.stdio('true').__enter__()"},
    "otel": {
        "a collector that takes protobuf only": """
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
class Collector(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(415); self.end_headers()
server = HTTPServer(("127.0.0.1", 0), Collector)
threading.Thread(target=server.serve_forever, daemon=True).start()
from appl.cli import main
assert main(["run", "prog.py", "--quiet"]) == 0
sys.exit(main(["trace", "export", "--otel", f"http://127.0.0.1:{server.server_port}"]))
"""
    },
    "privacy": {
        "the command line": COMMAND.format(["run", "prog.py", "--privacy", "redacted"]),
        "the program": f"import appl; appl.init(privacy='redacted'); {RUN.format(model='')}",
    },
    "ray": {"an engine": "import appl; print(appl.map(len, ['a'], engine='ray'))"},
    "serve": {
        "the command": COMMAND.format(["serve"]),
        "an import": "from appl_backends.embedded.server import Server",
    },
    "sglang-server": {"the command": COMMAND.format(["serve", "sglang", "--model", "x"])},
    "yaml": {
        "a settings file": "open('appl.yaml', 'w').write('seed: 1'); " + RUN.format(model=""),
        "the command line": "open('appl.yaml', 'w').write('seed: 1'); "
        + COMMAND.format(["run", "prog.py"]),
    },
}


def ways_to_a_backend(name: str) -> dict[str, str]:
    settings = f'model = "{name}/x"'
    module, _, attribute = BACKENDS[name].partition(":")
    asks = "import asyncio; asyncio.run(made.connect())"
    return {
        "a model on the command line": COMMAND.format(["run", "prog.py", "--model", f"{name}/x"]),
        "a backend on the command line": COMMAND.format(["run", "prog.py", "--backend", name]),
        "a settings file": f"open('appl.toml', 'w').write('{settings}'); {RUN.format(model='')}",
        "a variable": f"import os; os.environ['APPL_MODEL'] = '{name}/x'; {RUN.format(model='')}",
        "gen": RUN.format(model=f"'{name}/x', "),
        "init": f"import appl; appl.init(model='{name}/x'); {RUN.format(model='')}",
        "the class": f"from {module} import {attribute}; made = {attribute}(model='x'); {asks}",
    }


WAYS = [
    pytest.param(extra, code, id=f"{extra}: {way}")
    for extra in REQUIRED
    for way, code in (
        OWN_WAYS.get(extra) or (ways_to_a_backend(extra) if extra in BACKENDS else {"": ""})
    ).items()
]


installed = cache(packages_distributions)  # it reads the files of all that is installed


def modules(extra: str) -> set[str]:
    """The modules that the requirements of *extra* install, as their own metadata says."""
    return {
        module
        for module, distributions in installed().items()
        if {each.lower() for each in distributions} & {each.lower() for each in REQUIRED[extra]}
    } - {"appl", "appl_backends"}


@pytest.mark.parametrize(("extra", "code"), WAYS)
def test_a_missing_extra_says_what_to_install(
    extra: str, code: str, tmp_path: Path, warm: Path
) -> None:
    assert code, f"add the ways of reaching the extra {extra!r} to this test"
    (tmp_path / "prog.py").write_text(PROGRAM)
    whole = f"ABSENT = {modules(extra)!r}{BLOCK}{code}"
    keys = {"OPENAI_API_KEY": "sk-none-at-all", "HOME": str(tmp_path)}
    done = subprocess.run(
        [warm / "python", "-c", whole], capture_output=True, text=True, cwd=tmp_path,
        env={**os.environ, **keys}, check=False, timeout=120,
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert done.returncode != 0, said
    assert f"pip install 'appl[{extra}]'" in said, said
    assert re.search(rf"\bneeds ({'|'.join(m.partition('.')[0] for m in EXTRAS[extra])})\b", said)
    assert "ModuleNotFoundError" not in said, said


def test_the_table_of_extras_is_that_of_the_package() -> None:
    assert EXTRAS.keys() == REQUIRED.keys()
    for extra, names in EXTRAS.items():
        if extra != "sglang-server":  # it is not installed where this runs
            assert {name.partition(".")[0] for name in names} <= {*modules(extra), "aiohttp"}

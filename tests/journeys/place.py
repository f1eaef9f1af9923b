"""An empty folder to start in, and the built wheel to work with."""

from __future__ import annotations

import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

from appl.tracing import Trace

ROOT = Path(__file__).parents[2]
MODEL, KEY = "gpt-5-mini", "sk-of-a-newcomer-4711"
MOST_COMMANDS = 3
BUILD = "from hatchling.build import build_wheel; import sys; print(build_wheel(sys.argv[1]))"
SCRIPTS = {"pytest": "pytest:console_main", "jupyter-execute": "nbclient.cli:main"}
SCRIPT = "#!{python}\nimport sys\nfrom {module} import {name}\nsys.exit({name}())\n"
WHERE = "import appl, sys; print(appl.__file__); print(sys.prefix)"


def installed(folder: Path) -> Path:
    """The programs of an environment that holds the wheel, and not its sources."""
    if sees_wheel(Path(sys.executable)):
        return Path(sys.executable).parent
    subprocess.run([sys.executable, "-c", BUILD, folder], check=True, cwd=ROOT, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    python = folder / "venv" / "bin" / "python"
    borrow(python)
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    subprocess.run([*pip, "--no-deps", "--no-index", "--no-compile", str(wheel)], check=True)
    assert sees_wheel(python)
    return python.parent


def borrow(python: Path) -> None:
    """Give the environment of *python* the libraries and tools that the tests themselves use."""
    paths = sysconfig.get_paths(vars={"base": str(python.parents[1])})
    site = Path(paths["purelib"]) / "borrowed.pth"
    site.write_text(sysconfig.get_path("purelib") + "\n")  # not followed: the .pth files therein
    for program, at in SCRIPTS.items():
        module, name = at.split(":")
        script = python.with_name(program)
        script.write_text(SCRIPT.format(python=python, module=module, name=name))
        script.chmod(0o755)


def sees_wheel(python: Path) -> bool:
    """Whether *python* imports ``appl`` from its own environment."""
    found = subprocess.run(
        [python, "-c", WHERE], cwd="/", env={}, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return found[0].startswith(found[1])


class Newcomer:
    """Someone in an empty folder, who types commands and sees what they print."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder = folder
        self.env = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(folder), "COLUMNS": "200"}
        self.commands: list[str] = []
        self.process: subprocess.Popen[str] | None = None

    def writes(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, "utf-8")

    def types(self, command: str, says: str = "", code: int = 0) -> tuple[str, str]:
        """What *command* prints on stdout and stderr, having ended with *code*."""
        self.commands.append(command)
        assert len(self.commands) <= MOST_COMMANDS, self.commands
        program, *words = shlex.split(command)
        self.process = subprocess.Popen(
            [Path(self.env["PATH"].split(":")[0]) / program, *words], cwd=self.folder,
            env=self.env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        out, err = self.process.communicate(says, timeout=120)
        assert self.process.returncode == code, out + err
        return out, err

    def has_key_of(self, openai_url: str, key: str = KEY) -> None:
        self.env |= {"OPENAI_BASE_URL": openai_url, "OPENAI_API_KEY": key}

    def answered(self) -> int:
        """The calls of the newest run whose answers are written."""
        newest = max((self.folder / ".appl" / "runs").glob("*.trace"))
        return sum(call.response is not None for call in Trace.open(newest).calls)

    def files(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())

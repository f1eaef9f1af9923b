"""``run_code`` as programs use it: its result is recorded, its limits and options are checked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import appl
from appl import CodeResult, SandboxLimits, run_code
from appl.errors import InDoubtEffect, InvalidOption, SandboxUnavailable
from appl.session import replayed, resumed
from appl.testing import Scripted, calling, running
from appl.tracing import Trace

ECHO = "appl.testing:Echo"
CHANCE = "import os; print(os.urandom(8).hex())"


def test_what_code_writes_and_how_it_ends_comes_back() -> None:
    code = "import sys; print(input()); print('a\\xe4', file=sys.stderr); sys.exit(3)"
    result = run_code(code, stdin="one\ntwo")
    assert result == CodeResult("one\n", "aä\n", 3, "exit") and not result.ok


def test_code_that_a_signal_ends_has_its_number() -> None:
    result = run_code("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert (result.ended, result.exit_code) == ("signal", -9)


def test_files_lie_in_the_work_folder_with_the_code() -> None:
    files = {"data/a.json": '{"n": 7}', "helper.py": "def double(n): return 2 * n"}
    code = "import json, helper; print(helper.double(json.load(open('data/a.json'))['n']))"
    assert run_code(code, files=files).stdout == "14\n"


def test_what_is_named_may_be_read_and_not_written(tmp_path: Path) -> None:
    (tmp_path / "shown").write_text("read me")
    (tmp_path / "hidden").write_text("not me")
    shown = tmp_path / "shown"
    code = f"import os; print(open({str(shown)!r}).read(), os.listdir({str(tmp_path)!r})); "
    result = run_code(code + f"open({str(shown)!r}, 'w')", readable=[shown])
    assert result.stdout == "read me ['shown']\n" and "Read-only file system" in result.stderr


def test_packages_of_this_environment_are_there_when_asked_for() -> None:
    code = "import pytest; print(pytest.__version__)"
    assert run_code(code, packages=True).stdout == f"{pytest.__version__}\n"
    assert "ModuleNotFoundError" in run_code(code.replace("pytest", "anyio"), packages=False).stderr


def test_threads_and_processes_work_within_the_limit() -> None:
    code = """
import concurrent.futures, subprocess, sys
with concurrent.futures.ThreadPoolExecutor(4) as pool: print(sum(pool.map(abs, range(-4, 0))))
print(subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True, text=True).stdout)
"""
    assert run_code(code).stdout == "10\n1\n\n"


def test_a_replay_gives_the_recorded_result(tmp_path: Path) -> None:
    path = tmp_path / "one.trace"
    with appl.record(path, backend=ECHO):
        first = run_code(CHANCE)
    with replayed(path):
        assert run_code(CHANCE) == first
    assert run_code(CHANCE) != first
    tool = Trace.open(path).tools["/run_code.0"]
    assert tool.effect == "observed" and json.loads(tool.arguments)["code"] == CHANCE


def test_a_model_may_have_it_as_a_tool() -> None:
    def python(code: str) -> str:
        """Run Python code, and return what it prints."""
        result = run_code(code)
        return result.stdout + result.stderr

    @appl.ppl
    def agent(question: str) -> appl.Generation:
        f"{question}"
        return appl.gen_with_tools(tools=[python])

    backend = Scripted([calling(("python", {"code": "print(6 * 7)"})), "It is 42."])
    with running(backend):
        assert agent("How much is 6 times 7?") == "It is 42."
    assert "42" in backend.prompts["/agent.0/gen_with_tools.0/gen.1"]


KILLED = """
import os, sys
import appl
with appl.record(sys.argv[1], backend="appl.testing:Echo"):
    code = f"import os; os.kill({os.getpid()}, 9)"
    print(appl.run_code(code, isolation="limits_only"))
"""


def test_code_with_limits_only_is_in_doubt_after_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "one.trace"
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], cwd=tmp_path, text=True)
    assert done.returncode == -9
    with pytest.raises(InDoubtEffect, match="run_code"), resumed(path, backend=ECHO):
        code = json.loads(Trace.open(path).tools["/run_code.0"].arguments)["code"]
        run_code(code, isolation="limits_only")


def test_where_no_namespace_can_be_made_nothing_runs() -> None:
    """Limits only refuse namespaces to their code, so it stands where a machine has none."""
    code = """
from appl.parts.sandbox import process
from appl import SandboxUnavailable
limits = {"seconds": 5, "memory_mb": 512, "processes": 16, "disk_mb": 8, "output_kb": 8, "open_files": 64}
try: print(process.run_code("print('ran')", "", {}, [], False, limits, "namespaces"))
except SandboxUnavailable as error: print(error)
"""
    result = run_code(code, isolation="limits_only", packages=True)
    assert "this machine allows no sandbox (unshare: Operation not permitted)" in result.stdout
    assert "isolation='limits_only'" in result.stdout and "ran" not in result.stdout.split()


def test_limits_only_have_no_network_and_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "secret")
    code = "import os, socket; print('MY_KEY' in os.environ); socket.socket()"
    result = run_code(code, isolation="limits_only")
    assert result.stdout == "False\n" and "PermissionError" in result.stderr


@pytest.mark.parametrize(
    "options",
    [
        {"isolation": "none"},
        {"files": {"/etc/passwd": ""}},
        {"files": {"../a": ""}},
        {"files": {"main.py": ""}},
        {"files": {"a": b"bytes"}},
        {"readable": ["/"]},
        {"readable": ["/there/is/no/such/file"]},
    ],
)
def test_an_option_without_a_meaning_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(InvalidOption, match="run_code"):
        run_code("print(1)", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "10", 2**31])
def test_a_value_that_is_no_limit_is_refused(value: object) -> None:
    with pytest.raises(InvalidOption, match="memory_mb"):
        SandboxLimits(memory_mb=value)  # type: ignore[arg-type]


def test_the_error_of_a_machine_without_a_sandbox_is_one_of_the_system() -> None:
    assert issubclass(SandboxUnavailable, OSError)

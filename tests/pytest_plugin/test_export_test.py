"""``appl trace export-test``: what it writes passes at once, and fails when the program changes."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from appl import cli
from appl.parts.pytest_plugin import running  # noqa: F401 - loaded once, as in test_plugin

pytest_plugins = "pytester"

PROGRAM = """
from appl import gen, ppl

@ppl
def ask(question):
    f"{question}"
    return gen()

@ppl
def main(name: str = "Ada", times: int = 3):
    return [ask(f"{number} {name}?") for number in range(times)]

async def wonder(name: str):
    return {"said": str(await ask(f"{name}?"))}

class Odd:
    pass

def odd():
    str(ask("odd?"))
    return Odd()
"""
ANSWERS = """
from appl.testing import Scripted

class Answers(Scripted):
    def __init__(self):
        super().__init__(lambda request: f"about {request.messages.message.content}")
"""


@dataclass
class Command:
    """The command line in a process of its own, which imports a program anew."""

    folder: pytest.Pytester
    programs: Path

    def __call__(self, *words: str) -> pytest.RunResult:
        return self.folder.run(self.programs / "appl", *words)


@pytest.fixture
def appl(folder: pytest.Pytester, warm: Path) -> Command:
    return Command(folder, warm)


@pytest.fixture
def folder(pytester: pytest.Pytester) -> pytest.Pytester:
    for name in ("program", "script", "answers"):  # of other tests in this process
        sys.modules.pop(name, None)
    pytester.makepyfile(
        program=PROGRAM, answers=ANSWERS,
        script="from program import main\nprint([str(x) for x in main('Bob', 2)])\n",
    )  # fmt: skip
    pytester.path.joinpath("appl.toml").write_text('backend = "answers:Answers"\n')
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    pytester.syspathinsert()
    return pytester


def outcome(folder: pytest.Pytester) -> pytest.RunResult:
    plugins = ("appl.parts.pytest_plugin", "no:cacheprovider", "no:hypothesispytest", "no:anyio")
    return folder.runpytest_inprocess(*(f"-p{each}" for each in plugins))


def test_the_test_of_a_function_passes_at_once_and_fails_when_the_program_changes(
    folder: pytest.Pytester, appl: Command
) -> None:
    appl("run", "program.py", "--name", "O'Neil", "--times", "2")
    done = appl("trace", "export-test")
    assert done.ret == 0, done.stderr.str()
    text = folder.path.joinpath("test_program.py").read_text()
    assert text.splitlines()[2:] == [
        "import pytest",
        "from program import main",
        "",
        "",
        "@pytest.mark.appl",
        "def test_program(appl_run):",
        '    value = appl_run.value(main(name="O\'Neil", times=2))',
        '    assert value == ["about 0 O\'Neil?", "about 1 O\'Neil?"]',
    ]
    outcome(folder).assert_outcomes(passed=1)
    folder.makepyfile(program=PROGRAM.replace("{name}?", "{name}!"))
    result = outcome(folder)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*+ 0 O'Neil!*"])


def test_tests_of_coroutines_scripts_and_programs_elsewhere_pass_at_once(
    folder: pytest.Pytester, appl: Command
) -> None:
    appl("run", "program.py:wonder", "--name", "Eve")
    assert appl("trace", "export-test", "-o", "test_wonder.py").ret == 0
    assert '"said"' in folder.path.joinpath("test_wonder.py").read_text().replace("'", '"')
    folder.run(appl.programs / "python", "script.py")
    folder.mkdir("checks")
    done = appl("trace", "export-test", "-o", "checks/test_script.py")
    assert done.ret == 0, done.stderr.str()
    appl("run", "program.py:odd")
    assert appl("trace", "export-test", "-o", "checks/test_odd.py").ret == 0
    assert "assert" not in folder.path.joinpath("checks/test_odd.py").read_text()
    outcome(folder).assert_outcomes(passed=3)


def test_nothing_is_written_over_and_what_was_written_can_be_had_as_json(
    folder: pytest.Pytester, appl: Command
) -> None:
    appl("run", "program.py")
    assert appl("trace", "export-test").ret == 0
    again = appl("trace", "export-test")
    assert again.ret == 2
    again.stderr.fnmatch_lines(["*test_program.py is there already; give -o another name*"])
    forced = appl("trace", "export-test", "--force", "--json")
    told = json.loads(forced.stdout.str())
    assert told == {
        "test": "test_program.py", "tape": "tapes/test_program/test_program.jsonl", "calls": 3,
    }  # fmt: skip


def test_a_run_of_a_block_cannot_be_started_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from appl.tracing import Recorder

    recorder = Recorder(tmp_path / "a.trace", {"entry": {"kind": "api", "file": "x.py"}})
    recorder.close()
    test, run = str(tmp_path / "test_x.py"), str(tmp_path / "a.trace")
    words = ["trace", "export-test", run, "--trust", "-o", test]
    assert cli.main(words) == 2
    assert "records a `with appl.record():` block" in capsys.readouterr().err
    assert not (tmp_path / "test_x.py").exists()

"""The first commands of a newcomer: init, ask, chat and models; each from an empty folder."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from appl.session.naming import PROVIDERS

from .conftest import Project

ECHO = ("--backend", "appl.testing:Echo")


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for provider in PROVIDERS:
        for name in provider.variables:
            monkeypatch.delenv(name, raising=False)


@pytest.fixture
def empty(project: Project) -> Project:
    (project.folder / "prog.py").unlink()
    return project


def spoken(project: Project, text: str, *words: str) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, with *text* on its standard input."""
    command = [project.programs / "appl", *words]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)


# -- ask


def test_the_answer_stands_alone_on_stdout_and_the_run_on_stderr(empty: Project) -> None:
    done = empty.appl("ask", "Why?", *ECHO)
    assert done.code == 0 and done.out.strip() and len(done.out.splitlines()) == 1
    name = empty.traces[0].name
    assert f"recording in .appl/runs/{name}" in done.err and "1 done" in done.err
    assert "Why?" in empty.appl("trace", "show", "last", "/ask.0/gen.0").out


def test_an_answer_has_the_system_message_before_its_question(empty: Project) -> None:
    assert empty.appl("ask", "Why?", "--system", "Be short.", *ECHO).code == 0
    shown = empty.appl("trace", "show", "last", "/ask.0/gen.0").out
    assert shown.index("Be short.") < shown.index("Why?")


def test_the_line_of_a_question_is_one_of_its_program(empty: Project) -> None:
    assert empty.appl("ask", "Why?", *ECHO).code == 0
    shown = empty.appl("trace", "show").out
    assert "questions.py:" in shown and "click" not in shown


def test_a_question_replays_for_nothing(empty: Project) -> None:
    first = empty.appl("ask", "Why?", *ECHO)
    again = empty.appl("trace", "replay", "last")
    assert (again.code, again.out) == (0, first.out)


def test_a_question_may_look_like_an_option_after_two_dashes(empty: Project) -> None:
    assert empty.appl("ask", *ECHO, "--", "--why", "not?").code == 0
    assert "--why" in empty.appl("trace", "show", "last", "/ask.0/gen.0").out


def test_json_has_the_answer_and_the_run(empty: Project) -> None:
    data = empty.appl("ask", "Why?", "--json", *ECHO).data
    assert data["value"] and data["run"]["calls"] == 1 and data["run"]["trace"]


@pytest.mark.parametrize("words", [(), ("-",)])
def test_the_question_may_come_on_standard_input(empty: Project, words: tuple[str, ...]) -> None:
    done = spoken(empty, "Why is it\nso?\n", "ask", *words, *ECHO)
    assert done.returncode == 0 and done.stdout.strip()
    assert "Why is it" in empty.appl("trace", "show", "last", "/ask.0/gen.0").out


def test_standard_input_follows_what_is_asked_about_it(empty: Project) -> None:
    assert spoken(empty, "the report", "ask", "Summarise:", "-", *ECHO).returncode == 0
    shown = empty.appl("trace", "show", "last", "/ask.0/gen.0", "--plain").out
    assert "Summarise:\n\nthe report" in shown


def test_an_empty_question_is_wrong_usage(empty: Project) -> None:
    done = spoken(empty, " \n", "ask", *ECHO)
    assert done.returncode == 2 and "the question is empty" in done.stderr


def test_a_model_without_its_key_is_answered_with_the_line_to_type(empty: Project) -> None:
    done = empty.appl("ask", "Why?", "--model", "claude-sonnet-4-5")
    assert done.code == 2 and "export ANTHROPIC_API_KEY" in done.err and not done.out


# -- chat


def test_each_line_of_a_chat_is_a_turn_of_one_run(empty: Project) -> None:
    done = spoken(empty, "hello\n\nand then?\n", "chat", "--system", "Be kind.", *ECHO)
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 2
    assert len(empty.traces) == 1
    second = empty.appl("trace", "show", "last", "/chat.0/gen.1", "--plain").out
    for text in ("Be kind.", "hello", done.stdout.splitlines()[0], "and then?"):
        assert text in second


def test_a_chat_ends_at_quit(empty: Project) -> None:
    done = spoken(empty, "hello\n/quit\nnever said\n", "chat", *ECHO)
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 1


def test_a_chat_replays_with_its_end_of_input(empty: Project) -> None:
    done = spoken(empty, "hello\nbye\n", "chat", *ECHO)
    again = empty.appl("trace", "replay", "last")
    assert (again.code, again.out) == (0, done.stdout), again.err


def test_a_chat_that_says_nothing_asks_nobody(empty: Project) -> None:
    done = spoken(empty, "", "chat", *ECHO)
    assert (done.returncode, done.stdout) == (0, "") and not empty.traces


# -- init


def test_what_init_wrote_runs_and_is_tested_at_once(empty: Project) -> None:
    made = spoken(empty, "", "init", "demo")
    assert made.returncode == 0, made.stderr
    folder = empty.folder / "demo"
    files = {path.name for path in folder.iterdir()}
    assert files >= {"appl.toml", "hello.py", "test_hello.py", "tapes", ".gitignore", ".appl"}
    assert "\n  appl run hello.py" in made.stderr and "\n  pytest" in made.stderr
    run = subprocess.run(
        [empty.programs / "appl", "run", "hello.py"],
        cwd=folder, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (run.returncode, run.stdout) == (0, "Mira Holt\n"), run.stderr
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=folder, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert "1 answered from tapes" in tested.stdout and "1 passed" in tested.stdout


@pytest.mark.parametrize("words", [("init", "demo"), ("trace", "export-test", "-o", "test_a.py")])
def test_where_pytest_is_missing_the_command_to_install_it_is_told(
    empty: Project, words: tuple[str, ...]
) -> None:
    (empty.folder / "a.py").write_text(
        "from appl import gen\ndef main(): return str(gen(messages='x'))\n"
    )
    assert empty.appl("run", "a.py", "--backend", "appl.testing:Echo").code == 0
    without = (
        "import sys; sys.modules['pytest'] = None; from appl.cli import main; sys.exit(main({}))"
    )
    done = empty.python("-c", without.format(list(words)), cold=True)
    assert done.code == 0 and "pip install pytest" in done.err


def test_init_names_a_model_of_the_provider_whose_key_is_there(
    empty: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "not-a-real-key")
    made = spoken(empty, "", "init", "--json", "demo")
    data = json.loads(made.stdout)
    assert data["model"].startswith("anthropic/")
    written = Path("demo/appl.toml").read_text()
    assert data["model"] in written and "not-a-real-key" not in written
    assert "Mira Holt" in Path("demo/test_hello.py").read_text()  # and no provider was asked


@pytest.mark.parametrize("name", ["appl.toml", "hello.py", "test_hello.py"])
def test_init_writes_over_nothing(empty: Project, name: str) -> None:
    empty.write(name, "mine")
    done = empty.appl("init")
    assert done.code == 2 and f"{name} exists already, and nothing was written" in done.err
    assert [path.name for path in empty.folder.iterdir()] == [name]
    assert (empty.folder / name).read_text() == "mine"


def test_init_leaves_a_gitignore_as_it_is(empty: Project) -> None:
    empty.write(".gitignore", "mine\n")
    assert empty.appl("init").code == 0
    assert (empty.folder / ".gitignore").read_text() == "mine\n"


# -- models


def test_models_say_what_is_missing_and_what_they_cost(empty: Project) -> None:
    rows = {each["name"]: each for each in empty.appl("models", "--json").data}
    mini = rows["gpt-5-mini"]
    assert mini["missing_key"] == ["OPENAI_API_KEY"] and mini["context"] > 100_000
    assert "export OPENAI_API_KEY=YOUR_KEY" in mini["type"]
    assert mini["price"]["answer"] > mini["price"]["prompt"] > 0
    assert rows["embedded/embedded"]["type"] == []
    shown = empty.appl("models").out
    assert "export ANTHROPIC_API_KEY=YOUR_KEY" in shown


def test_models_with_a_key_miss_none(empty: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-real-key")
    done = empty.appl("models", "gpt-5-mini", "--json")
    assert all(each["missing_key"] == [] for each in done.data)
    assert "not-a-real-key" not in done.out


def test_a_text_narrows_the_models_and_finds_those_with_a_price(empty: Project) -> None:
    names = [each["name"] for each in empty.appl("models", "haiku", "--json").data]
    assert names and all("haiku" in name for name in names)
    done = empty.appl("models", "no-such-model")
    assert done.code == 2 and "BACKEND/MODEL" in done.err


# -- git


def test_git_add_takes_no_recorded_prompt(empty: Project) -> None:
    def git(*words: str) -> str:
        return subprocess.run(
            ["git", *words], capture_output=True, text=True, check=True, timeout=60
        ).stdout

    git("init", "-q")
    empty.write("own.txt", "mine")
    assert empty.appl("ask", "Why?", *ECHO).code == 0 and empty.traces
    git("add", ".")
    assert git("diff", "--cached", "--name-only").split() == ["own.txt"]


def test_a_gitignore_that_was_changed_or_removed_stays_so(empty: Project) -> None:
    ignored = empty.folder / ".appl" / ".gitignore"
    assert empty.appl("ask", "Why?", *ECHO).code == 0 and ignored.read_text().endswith("\n*\n")
    ignored.write_text("keys/\n")
    assert empty.appl("ask", "How?", *ECHO).code == 0 and ignored.read_text() == "keys/\n"
    ignored.unlink()
    assert empty.appl("ask", "When?", *ECHO).code == 0 and not ignored.exists()


def test_a_folder_of_another_name_is_left_as_it_is(
    empty: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("APPL_HOME", str(empty.folder / "shared"))
    assert empty.appl("ask", "Why?", *ECHO).code == 0
    assert [path.name for path in (empty.folder / "shared").glob("*ignore")] == []

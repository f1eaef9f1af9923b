"""Runs that are not one's own: no command starts their program or uses their answers unasked.

The commands are those of the command line's own tables, so that a new one is tested by itself.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import click
import pytest

import appl
from appl.cli import app
from appl.config.state import read_private, write_private
from appl.errors import UntrustedTrace
from appl.session import predicted, replayed, rerun, resumed
from appl.session.ownership import is_own, new_owner
from appl.tracing import Trace
from tests.cli.conftest import Project, project as _project
from tests.drawn import counts
from tests.trust import forging

empty = _project

PROGRAM = """\
from pathlib import Path
from appl import gen, ppl

@ppl
def ask(question):
    f"{question}"
    return gen()

def main(n: int = 3):
    Path(r"FOLDER/started").touch()
    said = []
    for i in range(n):
        said.append(str(ask(f"question {i}")))
        if i == 1 and Path(__file__).with_name("stop").exists():
            raise KeyboardInterrupt
    return said
"""
NAMES = ("replay", "rerun", "resume", "fuzz", "export-test")
STARTERS = {("trace", name) for name in NAMES}
"""The commands that start the program of a run: the first test finds them by what they do."""
MORE = {
    "diff": ["other.trace"],
    "export": ["--jsonl", "out.jsonl"],
    "fuzz": ["--seeds", "1"],
    "rm": ["--yes"],
    "view": ["--html", "out.html"],
}
"""What a command needs besides a run."""


def commands(group: click.Group, *above: str) -> Iterator[tuple[str, ...]]:
    """The words of each command of *group* that may take a recorded run."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, *above, name)
        elif command is not None and ("trace" in above or _takes_run(command)):
            yield (*above, name)


def _takes_run(command: click.Command) -> bool:
    return any("RUN" in str(parameter.metavar) for parameter in command.params)


def words_of(command: tuple[str, ...], run: Path) -> list[str]:
    """The command line for *run*."""
    context = click.Context(app)  # type: ignore[arg-type]
    found: click.Command | None = app  # type: ignore[assignment]
    for word in command:
        assert isinstance(found, click.Group)
        found = found.get_command(context, word)
    assert found is not None
    takes = any(isinstance(parameter, click.Argument) for parameter in found.params)
    return [*command, *([str(run)] if takes else []), *MORE.get(command[-1], [])]


COMMANDS = list(commands(app))  # type: ignore[arg-type]


@pytest.fixture
def project(empty: Project) -> Project:
    """A repository with two commits, and a run of its program."""
    empty.write("prog.py", PROGRAM.replace("FOLDER", str(empty.folder)))
    empty.write(".gitignore", "*\n!prog.py\n!.gitignore\n")
    for line in ("init", "add .", "commit -m one", "commit --allow-empty -m two"):
        identity = ["-c", "user.email=a@example.org", "-c", "user.name=A"]
        subprocess.run(["git", *identity, *line.split()], check=True, capture_output=True)
    assert empty.run("main").code == 0
    (path,) = empty.traces
    path.write_bytes(forging.regrouped(path, new_owner()))
    (empty.folder / "other.trace").write_bytes(path.read_bytes())
    return empty


def started(project: Project) -> bool:
    """Whether the program was started since the last time."""
    mark = project.folder / "started"
    there = mark.exists()
    mark.unlink(missing_ok=True)
    return there


def forgeries(path: Path, other: Path) -> dict[str, bytes]:
    """One of each way to make a run that the user did not record so."""

    def longer(raw: bytes) -> bytes:
        return raw.replace(b"question 1", b"question 9")

    def middle(found: Iterator[bytes]) -> bytes:
        every = list(found)
        return every[len(every) // 2]

    return {
        "unsigned": forging.unsigned(path),
        "of another user": forging.strangers(path),
        "a bit flipped": middle(forging.flipped(path)),
        "a record replaced": middle(forging.replaced(path, longer)),
        "a block left out": middle(forging.dropped(path)),
        "blocks swapped": middle(forging.reordered(path)),
        "blocks of another run": middle(forging.spliced(path, other)),
        "cut after a block": list(forging.cut(path))[-3],
        "cut within a block": list(forging.cut(path))[-1],
    }


KINDS = (
    "unsigned",
    "of another user",
    "a bit flipped",
    "a record replaced",
    "a block left out",
    "blocks swapped",
    "blocks of another run",
    "cut after a block",
    "cut within a block",
)


@pytest.fixture
def forged(project: Project) -> Callable[[str], Path]:
    """Makes a forged run of a kind, which lies among one's own."""
    (own,) = project.traces
    project.run("main", "--n", "4")
    second = project.traces[-1]
    second.write_bytes(forging.regrouped(second, new_owner()))
    made = forgeries(own, second)
    assert tuple(made) == KINDS
    second.unlink()
    started(project)

    def forge(kind: str) -> Path:
        path = own.with_name("20990101T000000.000Z-main-f000.trace")
        path.write_bytes(made[kind])
        return path

    return forge


def test_only_these_commands_start_the_program_of_a_run(project: Project) -> None:
    (own,) = project.traces
    assert len(COMMANDS) >= 25
    data, starters = own.read_bytes(), set[tuple[str, ...]]()
    assert started(project)
    for command in COMMANDS:
        own.write_bytes(data)
        project.appl(*words_of(command, own))
        if started(project):
            starters.add(command)
    assert starters == STARTERS


@pytest.mark.parametrize("kind", KINDS)
def test_no_command_starts_the_program_of_a_forged_run(
    kind: str, project: Project, forged: Callable[[str], Path]
) -> None:
    for command in COMMANDS:
        if kind != KINDS[0] and command not in STARTERS:
            continue
        path = forged(kind)
        done = project.appl(*words_of(command, path))
        assert not started(project), command
        assert not (project.folder / "test_prog.py").exists(), command
        if command in STARTERS:
            assert done.code in (2, 4), (command, done.err)
            if done.code == 2:
                assert f"`appl {' '.join(command)} {path} --trust`" in done.err


@pytest.mark.parametrize("command", NAMES)
def test_trust_lets_it_be_started(
    command: str, project: Project, forged: Callable[[str], Path]
) -> None:
    path = forged("of another user")
    words = words_of(("trace", command), path)
    done = project.appl(*words, "--trust")
    assert started(project), done.err


def test_a_dry_run_starts_nothing(project: Project, forged: Callable[[str], Path]) -> None:
    done = project.appl("trace", "rerun", str(forged("unsigned")), "--dry-run")
    assert done.code == 2 and not started(project)
    assert project.appl("trace", "rerun", str(forged("unsigned")), "--dry-run", "--trust").code == 0


def test_a_forged_run_is_read_shown_and_compared(
    project: Project, forged: Callable[[str], Path]
) -> None:
    path = str(forged("of another user"))
    for words in (["show", path], ["diff", path, "other.trace"], ["export", path, "--jsonl", "-"]):
        assert project.appl("trace", *words).code == 0, words


@pytest.fixture
def stopped(project: Project) -> Path:
    """The newest run of the project, which a Ctrl-C has ended."""
    project.write("stop", "")
    assert project.run("main").code == 130
    (project.folder / "stop").unlink()
    path = project.traces[-1]
    path.write_bytes(forging.regrouped(path, new_owner()))
    return path


def test_the_same_command_goes_on_with_a_run_of_its_own(project: Project, stopped: Path) -> None:
    done = project.run("main")
    assert done.code == 0 and "going on with" in done.err
    assert is_own(stopped) and project.traces[-1] == stopped


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_command_goes_on_with_no_forged_run(
    kind: str, project: Project, stopped: Path
) -> None:
    stopped.write_bytes(forgeries(stopped, project.traces[0])[kind])
    before = stopped.read_bytes()
    done = project.run("main")
    assert done.code == 0 and "going on with" not in done.err
    assert stopped.read_bytes() == before and len(project.traces) == 3
    if kind in ("unsigned", "of another user", "cut after a block"):
        assert f"`appl trace resume {stopped.stem} --trust` goes on with it" in done.err


def test_a_script_resumes_no_forged_run(project: Project) -> None:
    text = (project.folder / "prog.py").read_text("utf-8")
    script = project.write("script.py", f"{text}\nmain()\n")
    environment = {"APPL_BACKEND": "appl.testing:Echo"}
    assert project.python(str(script), **environment).code == 0
    path = project.traces[-1]
    path.write_bytes(forging.regrouped(path, new_owner()))
    going_on = environment | {"APPL_RESUME": str(path)}
    assert "going on with" in project.python(str(script), **going_on).err
    made = forgeries(path, project.traces[0])
    for kind in ("of another user", "cut after a block"):
        path.write_bytes(made[kind])
        refused = project.python(str(script), **going_on)
        assert refused.code != 0 and "UntrustedTrace" in refused.err
        assert f"`appl trace resume {path} --trust`" in refused.err
        assert path.read_bytes() == made[kind]


def test_a_program_that_opens_a_forged_run_says_that_it_trusts_it(tmp_path: Path) -> None:
    own, theirs = tmp_path / "own.trace", tmp_path / "theirs.trace"

    @appl.ppl
    def ask() -> object:
        "What?"
        return appl.gen()

    with appl.record(own, backend="appl.testing:Echo"):
        answer = str(ask())
    forging.make_strangers(own, theirs)
    before = theirs.read_bytes()
    for block in (resumed, rerun):
        with pytest.raises(UntrustedTrace, match="trust=True"), block(theirs):
            ask()
        with pytest.raises(UntrustedTrace, match="trust=True"), block(Trace.open(theirs)):
            ask()
    assert theirs.read_bytes() == before
    with replayed(theirs):
        assert str(ask()) == answer
    assert predicted(theirs, lambda: str(ask())).live == (0, 0)
    with resumed(theirs, trust=True):
        assert str(ask()) == answer
    with rerun(theirs, trust=True, into=tmp_path / "again.trace"):
        assert str(ask()) == answer
    assert not is_own(theirs)


@counts(7, 1, "step")
def test_every_change_of_a_byte_is_seen(project: Project, step: int) -> None:
    (own,) = project.traces
    assert is_own(own)
    copy, seen = own.with_name("copy.trace"), 0
    for data in islice(forging.flipped(own), 0, None, step):
        copy.write_bytes(data)
        assert not is_own(copy)
        seen += 1
    assert seen > 1000 / step


def test_every_change_of_the_order_of_blocks_is_seen(project: Project) -> None:
    (own,) = project.traces
    project.run("main")
    other = project.traces[-1]
    other.write_bytes(forging.regrouped(other, new_owner()))
    copy, seen = own.with_name("copy.trace"), 0
    for way in (forging.reordered, forging.dropped, lambda path: forging.spliced(path, other)):
        for data in way(own):
            copy.write_bytes(data)
            assert not is_own(copy)
            seen += 1
    assert seen > 50


def test_a_run_that_had_ended_is_not_cut_unseen(project: Project) -> None:
    (own,) = project.traces
    copy, seen = own.with_name("copy.trace"), 0
    for data in forging.cut(own):
        copy.write_bytes(data)
        assert not is_own(copy)
        seen += 1
    assert seen > 20


def test_a_run_that_goes_on_after_its_end_stays_ones_own(project: Project, stopped: Path) -> None:
    assert project.run("main").code == 0
    assert is_own(stopped)
    assert project.appl("trace", "replay").code == 0


def test_another_key_makes_all_runs_so_far_a_strangers(project: Project) -> None:
    (own,) = project.traces
    key = read_private("signing.key")
    assert key is not None
    try:
        write_private("signing.key", bytes(32))
        assert not is_own(own)
    finally:
        write_private("signing.key", key)
    assert is_own(own)


def test_a_run_that_is_copied_or_renamed_stays_ones_own_and_starts_its_own_program(
    project: Project,
) -> None:
    (own,) = project.traces
    elsewhere = project.folder / "elsewhere" / ".appl" / "runs"
    elsewhere.mkdir(parents=True)
    (elsewhere / own.name).write_bytes(own.read_bytes())
    project.write("elsewhere/prog.py", 'open("evil", "w")\n')
    started(project)
    code = "import os; os.chdir('elsewhere'); from appl.cli import main; exit(main())"
    assert project.python("-c", code, "trace", "replay").code == 0
    assert started(project) and not list(project.folder.rglob("evil"))


def test_a_module_is_not_started_from_another_folder(project: Project) -> None:
    words = ["run", "prog:main", "--backend", "appl.testing:Echo"]
    assert project.appl(*words).code == 0
    path = project.traces[-1]
    project.write("elsewhere/prog.py", 'open("evil", "w")\n')
    code = "import os; os.chdir('elsewhere'); from appl.cli import main; exit(main())"
    refused = project.python("-c", code, "trace", "replay", str(path))
    assert refused.code == 2 and "is the module prog" in refused.err
    assert not list(project.folder.rglob("evil"))
    assert project.appl("trace", "replay", str(path)).code == 0


def test_a_tape_is_replayed_with_trust_only(project: Project) -> None:
    tape = project.folder / "run.jsonl"
    assert project.appl("trace", "export", "--jsonl", str(tape)).code == 0
    started(project)
    refused = project.appl("trace", "replay", str(tape))
    assert refused.code == 2 and "it is not signed" in refused.err and not started(project)
    assert project.appl("trace", "replay", str(tape), "--trust").code == 0 and started(project)


def test_verify_says_who_signed_a_run(project: Project) -> None:
    (own,) = project.traces
    theirs = forging.make_strangers(own, own.with_name("theirs.trace"))
    for path, mine, words in ((own, True, "by you"), (theirs, False, "not by you; what uses it")):
        assert project.appl("trace", "verify", str(path), "--json").data[0]["own"] is mine
        assert f"signed   {words}" in project.appl("trace", "verify", str(path)).out


def test_a_link_is_not_a_run_of_ones_own(project: Project) -> None:
    (own,) = project.traces
    link = own.with_name("20990101T000000.000Z-main-0000.trace")
    link.symlink_to(own)
    started(project)
    assert project.appl("trace", "replay", str(link)).code == 2
    assert not started(project)


def test_import_with_trust_signs_a_copy(project: Project, forged: Callable[[str], Path]) -> None:
    theirs = forged("of another user")
    (copy,) = project.appl("trace", "import", str(theirs), "--json").data["imported"]
    assert not is_own(Path(copy))
    words = ["trace", "import", str(theirs), "--trust", "--json"]
    (copy,) = project.appl(*words).data["imported"]
    assert is_own(Path(copy)) and not is_own(theirs)
    assert project.appl("trace", "replay", copy).code == 0 and started(project)


def test_what_is_salvaged_of_ones_own_run_stays_ones_own(project: Project) -> None:
    (own,) = project.traces
    broken = own.with_name("broken.trace")
    data = bytearray(own.read_bytes())
    data[len(data) // 2] ^= 1
    for source, wanted in ((bytes(data), True), (forging.strangers(own), False)):
        broken.write_bytes(source)
        target = own.with_name(f"salvaged-{wanted}.trace")
        assert project.appl("trace", "salvage", str(broken), "-o", str(target)).code == 0
        assert is_own(target) is wanted

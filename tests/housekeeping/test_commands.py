"""ls, rm, import, verify and salvage from the outside."""

from __future__ import annotations

from pathlib import Path

from appl.session.ownership import is_own
from appl.tracing import Recorder, Trace
from appl.tracing.format import codec
from tests.trust.forging import make_strangers

from .conftest import Project, made


def names(project: Project, *words: str) -> list[str]:
    done = project.appl("trace", "ls", "--json", "-n", "0", *words)
    assert done.code == 0, done.err
    return [run["program"] for run in done.data]


def test_ls_filters_and_sorts(project: Project) -> None:
    home = project.folder / ".appl"
    made(home, 1, program="cheap", cost=10, calls=1)
    made(home, 2, program="dear", cost=3_000_000, calls=2, model="large-9")
    made(home, 3, program="broken", failing=1)
    made(home, 4, program="dead", ended=False)
    assert names(project) == ["dead", "broken", "dear", "cheap"]
    assert names(project, "--reverse")[0] == "cheap"
    assert names(project, "--min-cost", "1") == ["dear"]
    assert names(project, "--model", "large") == ["dear"]
    assert names(project, "--failed") == ["dead", "broken"]
    assert names(project, "--state", "crashed") == ["dead"]
    assert names(project, "--program", "d*") == ["dead", "dear"]
    assert names(project, "--min-calls", "2") == ["broken", "dear"]
    assert names(project, "--sort", "cost")[0] == "dear"
    assert names(project, "dea") == ["dead", "dear"]
    assert names(project, "dea", "LARGE") == ["dear"]
    assert names(project, "--until", "2000-01-01") == []
    assert names(project, "--since", "1h") == ["dead", "broken", "dear", "cheap"]
    assert "COST" in project.appl("trace", "ls").out
    assert "none of 4 runs" in project.appl("trace", "ls", "nowhere").err
    assert project.appl("trace", "ls", "--since", "soon").code == 2


def test_rm_asks_and_leaves_what_is_running_or_no_trace(project: Project) -> None:
    home = project.folder / ".appl"
    path = made(home, 1)
    asked = project.appl("trace", "rm", path.stem)
    assert (asked.code, path.exists()) == (2, True)
    assert "--yes" in asked.err
    live = Recorder(home / "runs" / "20260301T000000.000Z-live-0001.trace", {"program": "live"})
    try:
        assert project.appl("trace", "rm", "--yes", "last").code == 4
        assert live.path.exists()
    finally:
        live.close()
    notes = project.write("notes.txt", "mine")
    refused = project.appl("trace", "rm", "--yes", str(notes))
    assert (refused.code, notes.read_text()) == (4, "mine")
    assert "is not a trace" in refused.err
    done = project.appl("trace", "rm", "--yes", "--json", path.stem)
    assert (done.code, path.exists(), done.data["done"]) == (
        0,
        False,
        [str(path.relative_to(project.folder))],
    )


def test_rm_does_not_follow_links(project: Project) -> None:
    path = made(project.folder / ".appl", 1)
    link = project.folder / "link.trace"
    link.symlink_to(path)
    assert project.appl("trace", "rm", "--yes", str(link)).code == 4
    assert path.exists()


def test_an_imported_trace_is_read_and_not_trusted(project: Project) -> None:
    home = project.folder / ".appl"
    theirs = made(project.folder / "their", 1, program="../../evil")
    foreign = project.folder / "got.trace"
    foreign.write_bytes(theirs.read_bytes())
    done = project.appl("trace", "import", "got.trace", "--json")
    (copy,) = map(Path, done.data["imported"])
    assert copy.parent.resolve() == (home / "imported").resolve()
    assert copy.stat().st_mode & 0o777 == 0o600
    assert not is_own(copy)
    assert not is_own(foreign)
    assert project.appl("trace", "show", copy.stem).code == 0
    assert project.appl("trace", "ls", "--json").data[0]["imported"] is True
    assert project.appl("trace", "show", "last").code == 4  # it is nobody's last run
    own = project.appl("trace", "import", "got.trace", "--trust", "--json").data["imported"][0]
    assert is_own(Path(own))


def test_what_is_no_whole_trace_is_not_imported(project: Project) -> None:
    project.write("no.trace", "nothing")
    assert project.appl("trace", "import", "no.trace").code == 4
    path = made(project.folder / ".appl", 1, calls=3)
    data = bytearray(path.read_bytes())
    data[40] ^= 255
    bad = project.folder / "bad.trace"
    bad.write_bytes(bytes(data) + path.read_bytes()[8:])
    assert project.appl("trace", "import", "bad.trace").code == 4
    assert not (project.folder / ".appl" / "imported").exists()


def broken(path: Path) -> Path:
    """A copy whose second block is damaged and followed by good ones."""
    recorder = Recorder(path, {"program": "long"}, durability="process")
    for _ in range(3):
        recorder.barrier()
        recorder.writer.append(codec.pack(("W", "/a", "a warning", 1)))
    recorder.close()
    data = bytearray(path.read_bytes())
    first = 8 + 17 + int.from_bytes(data[8:12], "little")
    data[first + 20] ^= 255
    path.write_bytes(bytes(data))
    return path


def test_verify_tells_good_torn_and_damaged_apart(project: Project) -> None:
    home = project.folder / ".appl"
    good = made(home, 1, calls=3)
    verdict = project.appl("trace", "verify", good.stem, "--json")
    assert verdict.code == 0
    assert verdict.data[0]["digests"] == 3
    assert verdict.data[0]["replay"] == "whole"
    crashed = made(home, 2, ended=False)
    with crashed.open("ab") as file:
        file.write(b"torn")
    torn = project.appl("trace", "verify", crashed.stem, "--json")
    assert (torn.code, torn.data[0]["torn"], torn.data[0]["replay"]) == (0, 4, "prefix")
    bad = broken(home / "runs" / "20260301T000000.000Z-bad-0001.trace")
    wrong = project.appl("trace", "verify", str(bad), good.stem)
    assert wrong.code == 4
    assert "DAMAGED" in wrong.out
    assert "good" in wrong.out


def test_salvage_copies_what_is_before_the_damage(project: Project) -> None:
    bad = broken(project.folder / ".appl" / "runs" / "20260301T000000.000Z-bad-0001.trace")
    done = project.appl("trace", "salvage", str(bad), "--out", "saved.trace", "--json")
    assert done.code == 0, done.err
    assert done.data["lost_bytes"] > 0
    assert Trace.open(project.folder / "saved.trace").header["program"] == "long"
    assert project.appl("trace", "salvage", str(bad), "--out", "saved.trace").code == 2


def test_an_escape_in_a_name_does_not_reach_the_terminal(project: Project) -> None:
    made(project.folder / ".appl", 1, program="evil\x1b]0;x", model="m\x1b[2J")
    for words in (("ls",), ("verify",), ("gc", "--runs", "0", "--dry-run"), ("show",)):
        done = project.appl("trace", *words)
        assert "\x1b" not in done.out + done.err


def test_what_was_removed_is_forgotten_by_the_index_too(project: Project) -> None:
    home = project.folder / ".appl"
    made(home, 1, program="precious")
    assert names(project) == ["precious"]
    assert b"precious" in (home / "runs.db").read_bytes()
    project.appl("trace", "rm", "--yes", "last")
    assert b"precious" not in (home / "runs.db").read_bytes()


def test_a_tape_is_verified_by_what_it_says(project: Project) -> None:
    made(project.folder / ".appl", 1, calls=2)
    project.appl("trace", "export", "--jsonl", "run.jsonl")
    good = project.appl("trace", "verify", "run.jsonl", "--json")
    assert (good.code, good.data[0]["digests"]) == (0, 2)
    text = (project.folder / "run.jsonl").read_text()
    (project.folder / "bad.jsonl").write_text(text.replace("}", "", 1))
    assert project.appl("trace", "verify", "bad.jsonl").code == 4


def test_nothing_is_started_because_of_an_imported_trace(project: Project) -> None:
    project.run("ask")
    own = project.traces[0]
    make_strangers(own, project.folder / "got.trace")
    (copy,) = project.appl("trace", "import", "got.trace", "--json").data["imported"]
    for command in ("resume", "rerun"):
        for run in (Path(copy).stem, "got.trace"):
            refused = project.appl("trace", command, run)
            assert refused.code == 2, command
            assert "--trust" in refused.err
    assert len(project.traces) == 1
    assert project.appl("trace", "diff", Path(copy).stem, own.stem).code == 0
    assert project.appl("trace", "rerun", Path(copy).stem, "--trust").code == 0

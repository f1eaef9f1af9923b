"""What each mode promises: redacted replays with trace and key and is read without; digests verify."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import Any

import pytest
from rehearsal import record, replay

from appl.errors import SecretInRecord, TraceCorrupt, TraceWriteError
from appl.prompt import Message
from appl.testing import Run
from appl.tracing import Recorder, Replayer, Trace
from appl.tracing.keeping import verify
from tests.traces.make import plain, recorded
from tests.traces.programs import PROGRAMS

from .conftest import Project, holds, raw

SAID = {
    "tree": ["What is one?", "answer ", "patient teacher", "漢字", "Say three"],
    "observed": ["And?"],
    "failing": ["REFUSE ONCE", "Who needs", "the server is"],
    "streamed": ["Count to ten", "and then"],
    "tools": ["What is the weather", "Oslo", "12 degrees", "no data for", "Let me look"],
    "media": ["Look at", "example.com"],
    "growing": ["Once upon a time", "It is a long document", "Number 2"],
    "masked": ["My key is"],
    "tasks": ["Task 3"],
    "dialogues": ["AT LENGTH", "follows from another", "chapter"],
    "refused": ["Is it", "answer "],
}


def replayed(name: str, trace: Path | Trace) -> Any:
    replayer = Replayer(trace)
    with Run(replayer.backend, instruments=[replayer], world=replayer, seed=7) as run:
        run.reporter.tell = lambda line: None
        value = PROGRAMS[name]()
    replayer.finish()
    return plain(value)


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "masked"])
def test_a_redacted_trace_replays_with_its_key_and_holds_no_text(here: Path, name: str) -> None:
    path = here / "one.trace"
    value = recorded(name, path, privacy="redacted")
    for said in SAID[name]:
        assert not holds(path, said), said
    assert bytes(range(200, 256)) not in raw(path)  # of an image
    assert replayed(name, path) == value
    assert verify(path, here / ".appl").replay == "whole"


@pytest.mark.parametrize("name", list(PROGRAMS))
@pytest.mark.parametrize("mode", ["redacted", "digests"])
def test_without_its_key_it_is_read_and_not_replayed(here: Path, name: str, mode: str) -> None:
    path = here / "one.trace"
    recorded(name, path, privacy=mode)
    for said in SAID[name]:
        assert not holds(path, said), said
    (key,) = (here / ".appl" / "keys").iterdir()
    key.rename(here / "elsewhere")
    trace = Trace.open(path, home=here / ".appl")
    assert trace.calls
    assert all(call.masked or call.outcome is None or call.response is None for call in trace.calls)
    json.dumps(trace.as_data())
    with pytest.raises(SecretInRecord, match=r"private|digests"):
        replayed(name, trace)
    assert verify(path).good


def test_digests_are_never_replayed_even_with_the_key(here: Path) -> None:
    recorded("tree", here / "one.trace", privacy="digests")
    with pytest.raises(SecretInRecord, match="nothing replays it"):
        replayed("tree", here / "one.trace")


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_replay_from_redacted_traces(here: Path, seed: int) -> None:
    values, live = record(seed, here / "one.trace", privacy="redacted")
    for request in live.requests:
        for message in request.messages or ():
            if len(message.content) > 12:
                assert not holds(here / "one.trace", message.content)
    found, _ = replay(seed, here / "one.trace", schedule=seed)
    assert found == values


def test_the_content_digests_cannot_be_tried_against_texts(here: Path) -> None:
    recorded("tree", here / "plain.trace")
    recorded("tree", here / "private.trace", privacy="redacted")
    plain_, private = Trace.open("plain.trace"), Trace.open("private.trace")
    theirs = {call.content for call in plain_.calls}
    assert not theirs & {call.content for call in private.calls}
    for digest in theirs:
        assert digest not in raw(here / "private.trace")


def test_files_of_keys_are_private_and_not_in_the_trace(here: Path) -> None:
    recorded("observed", here / "one.trace", privacy="redacted")
    (key,) = (here / ".appl" / "keys").iterdir()
    assert key.stat().st_mode & 0o777 == 0o600
    assert key.parent.stat().st_mode & 0o777 == 0o700
    assert key.read_bytes() not in raw(here / "one.trace")


def test_a_sealed_record_that_was_changed_or_moved_does_not_open(here: Path) -> None:
    recorded("tree", here / "one.trace", privacy="redacted")
    other = here / "two.trace"
    recorded("tree", other, privacy="redacted")
    keys = sorted((here / ".appl" / "keys").iterdir())
    one, two = (path.read_bytes() for path in keys)
    keys[0].write_bytes(two)
    keys[1].write_bytes(one)
    # a key under another's name is no key
    assert Trace.open("one.trace", home=here / ".appl").key is None
    keys[0].write_bytes(one)
    keys[1].write_bytes(two)
    assert Trace.open("one.trace", home=here / ".appl").opened
    from appl.tracing.format import RunKey, Sealer

    sealer = Sealer(RunKey(one))
    sealed = sealer.seal(b"record", b"shown")
    assert sealer.open(sealed, b"shown") == b"record"
    changed = sealed[:-1] + bytes([sealed[-1] ^ 1])
    for wrong, shown in ((changed, b"shown"), (sealed, b"other"), (b"", b"shown")):
        with pytest.raises(TraceCorrupt, match="does not open"):
            sealer.open(wrong, shown)


def no_names(message: Message) -> Message:
    return Message(message.role, message.content.replace("Alice", "A."))


def test_a_hook_decides_what_is_shown_and_the_replay_is_exact(here: Path) -> None:
    from made import answer, asked, call, end, start

    recorder = Recorder(here / "one.trace", {"program": "x"}, redact=no_names, privacy="redacted")
    start(recorder, asked("/a.0/gen.0", "Who is Alice?"))
    end(recorder, "/a.0/gen.0", answer("Alice is a name."))
    call(recorder, "/a.0/gen.1", "Who else?", "Nobody.")
    recorder.close()
    assert not holds(here / "one.trace", "Alice")
    shown = Trace.open("one.trace")
    assert [m.content for m in shown.calls[0].messages or ()] == ["Who is A.?"]
    assert shown.calls[0].response is not None
    assert shown.calls[0].response.text == "A. is a name."
    assert not shown.calls[1].masked
    opened = Trace.open("one.trace", home=here / ".appl")
    assert opened.calls[0].response is not None
    assert opened.calls[0].response.text == "Alice is a name."
    assert not opened.calls[0].masked


def test_a_hook_that_fails_shows_nothing(here: Path) -> None:
    from made import call

    def broken(message: Message) -> Message:
        raise ValueError("no")

    recorder = Recorder(here / "one.trace", {}, redact=broken, privacy="redacted")
    call(recorder, "/a.0/gen.0", "precious question", "precious answer")
    recorder.close()
    assert not holds(here / "one.trace", "precious")
    assert holds(here / "one.trace", "redaction failed")


def test_a_trace_that_goes_on_stays_private_and_needs_its_key(here: Path) -> None:
    recorded("growing", here / "one.trace", privacy="redacted", close=False)
    recorded("growing", here / "one.trace", append=True)
    for said in SAID["growing"]:
        assert not holds(here / "one.trace", said)
    assert len(list((here / ".appl" / "keys").iterdir())) == 1
    next((here / ".appl" / "keys").iterdir()).unlink()
    with pytest.raises(TraceWriteError, match="is private"):
        Recorder(here / "one.trace", append=True)


def test_secrets_are_masked_before_they_are_sealed(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOLDEN_API_KEY", "sk-golden-0123456789abcdef")
    recorded("masked", here / "one.trace", privacy="redacted")
    opened = Trace.open("one.trace", home=here / ".appl")
    assert "sk-golden" not in json.dumps(opened.as_data())


def test_modes_on_the_command_line(project: Project) -> None:
    canary = "a-very-personal-question"
    first = project.run("ask", "--question", canary, "--privacy", "redacted")
    assert first.code == 0, first.err
    (path,) = project.traces
    assert not holds(path, canary)
    shown = project.appl("trace", "show", "last")
    assert shown.code == 0
    assert canary not in shown.out
    again = project.appl("trace", "replay")
    assert (again.code, again.out) == (0, first.out), again.err
    assert "replays to its end" in project.appl("trace", "verify").out
    (key,) = (project.folder / ".appl" / "keys").iterdir()
    project.appl("trace", "rm", "--yes", "last")
    assert not key.exists()


def test_a_trace_that_is_being_read_keeps_its_key(project: Project) -> None:
    project.run("ask", "--privacy", "redacted")
    (path,) = project.traces
    (key,) = (project.folder / ".appl" / "keys").iterdir()
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        done = project.appl("trace", "rm", "--yes", "last")
    assert done.code == 4 and key.exists(), done.err
    assert project.appl("trace", "replay").code == 0


def test_a_lost_key_is_explained(project: Project) -> None:
    project.run("ask", "--privacy", "redacted")
    next((project.folder / ".appl" / "keys").iterdir()).unlink()
    refused = project.appl("trace", "replay")
    assert refused.code == 3
    assert "needs its key" in refused.err


def test_digests_check_another_run(project: Project) -> None:
    project.run("many", "--privacy", "digests")
    project.run("many")
    digests, plain_ = project.traces
    same = project.appl("trace", "verify", digests.stem, "--against", plain_.stem, "--json")
    assert same.code == 0, same.err
    assert same.data[0]["against"] == {"calls": 3, "contents": 3, "answers": 3, "differs": []}
    project.run("many", "--n", "4")
    other = project.appl("trace", "verify", digests.stem, "--against", "last")
    assert other.code == 1
    assert "4 calls" in other.out


def test_the_hook_of_the_settings(project: Project) -> None:
    project.write(
        "hooks.py",
        "from appl import records\nfrom dataclasses import replace\n"
        "def mask(message):\n    return replace(message, content='[gone]')\n",
    )
    project.write("appl.toml", 'redact = "hooks:mask"\n')
    assert project.run("ask", "--question", "precious").code == 0
    (path,) = project.traces
    assert not holds(path, "precious")
    assert "[gone]" in project.appl("trace", "show", "last", "/ask.0/gen.0").out
    project.write("appl.toml", 'redact = "hooks:missing"\n')
    refused = project.run("ask")
    assert refused.code == 2
    assert "hooks:missing" in refused.err


def test_record_takes_a_hook(here: Path) -> None:
    import appl
    from appl import gen, ppl

    @ppl
    def ask(question: str):  # type: ignore[no-untyped-def]
        f"{question}"
        return gen()

    with appl.record("one.trace", redact=no_names, backend="appl.testing:Echo") as session:
        str(ask("Who is Alice?"))
    assert session.path is not None
    assert not holds(session.path, "Alice")


def test_without_the_library_nothing_is_recorded_in_the_clear(project: Project) -> None:
    code = (
        "import sys; sys.modules['cryptography'] = None\n"
        "import appl; from appl import gen, ppl\n"
        "@ppl\ndef ask():\n    'precious'\n    return gen()\n"
        "with appl.record('one.trace', privacy='redacted', backend='appl.testing:Echo'):\n"
        "    print(ask())\n"
    )
    project.write("run.py", code)
    done = project.python("run.py")
    assert done.code != 0
    assert "pip install 'appl[privacy]'" in done.err
    assert not (project.folder / "one.trace").exists()


def test_names_of_speakers_pass_the_hook_too(here: Path) -> None:
    from made import asked, start

    from appl.prompt import Messages

    for mode, hook, left in (
        ("redacted", None, [None]),
        ("digests", None, [None]),
        ("redacted", lambda m: Message(m.role, "", name="A."), ["A."]),
    ):
        path = here / f"{mode}-{hook is None}.trace"
        recorder = Recorder(path, {}, privacy=mode, redact=hook)  # type: ignore[arg-type]
        request = asked("/a.0/gen.0", "x")
        request.messages = Messages.of([Message("user", "Hello", name="Alice")])
        start(recorder, request)
        recorder.close()
        assert not holds(path, "Alice")
        assert [m.name for m in Trace.open(path).calls[0].messages or ()] == left

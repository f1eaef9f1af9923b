"""A shared file holds nothing that would tell a stranger more than what kind of run it was."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import strategies as st

from appl.backend import Response, Sample, TokenLogprob, Usage
from appl.errors import BackendUnavailable, TraceError
from appl.prompt import Message, Messages, ToolCall
from appl.testing import (
    AttemptFailed,
    Observed,
    RunEnded,
    ScopeEntered,
    ToolEnded,
    ToolStarted,
    Warned,
)
from appl.tracing import Recorder, Trace
from appl.tracing.format import block, block_file, codec
from appl.tracing.keeping import share
from tests.drawn import examples
from tests.privacy.conftest import raw
from tests.traces.make import recorded
from tests.traces.programs import PROGRAMS
from tests.tracing.made import asked, end, now, start

from .conftest import Project, made

CANARY = "canary-7f3a9c"
PLACES = (
    "prompt", "answer", "reasoning", "token", "call", "argument", "result", "error", "attempt",
    "environment", "read", "warning", "metadata", "path", "argv", "directory", "setting",
    "schema", "stop", "git", "program file", "long", "end", "speaker", "called name", "call id",
)  # fmt: skip


def told(places: set[str], name: str, plain: str = "x") -> str:
    return f"{plain} {CANARY} {plain}" if name in places else plain


def with_canaries(path: Path, places: set[str], **options: Any) -> Path:
    """A trace that has the canary in *places*."""

    def at(name: str) -> str:
        return told(places, name)

    header = {
        "program": "p", "model": "m", "git": at("git"), "programs": {at("program file"): "b2:00"},
        "entry": {"kind": "cli", "file": f"/home/{at('path')}/p.py", "function": "f",
                  "argv": ["--q", at("argv")], "directory": at("directory")},
        "settings": {"home": at("setting"), "temperature": 0.5},
    }  # fmt: skip
    recorder = Recorder(path, header, durability="process", **options)
    about = {"note": at("metadata")}
    recorder.on_event(ScopeEntered("/p.0", "", "p", f"/home/{at('path')}/p.py", 1, now(), about))
    long = (at("long") + " ") * (200_000 if "long" in places else 1)
    request = asked("/p.0/gen.0", at("prompt"), long, schema=at("schema"), stop=(at("stop"),))
    start(recorder, request)
    lost = BackendUnavailable(at("attempt"))
    recorder.on_event(AttemptFailed("/p.0/gen.0", 1, lost, now(), 0.1))
    tokens = (TokenLogprob(at("token"), -0.1, ((at("token"), -0.1),)),)
    call = ToolCall(
        told(places, "call id", "c1"),
        told(places, "called name", "look"),
        f'{{"q": "{at("call")}"}}',
    )
    sample = Sample(at("answer"), "stop", tokens, (call,), at("reasoning"))
    end(recorder, "/p.0/gen.0", Response((sample,), Usage(1, 2, 3), "m", cost=5))
    recorder.on_event(
        ToolStarted(
            "/p.0/look.0", "look", at("argument"), "effect", f"/{at('path')}/t.py", 3, now()
        )
    )
    recorder.on_event(ToolEnded("/p.0/look.0", Message("tool", at("result")), None, now()))
    again = asked("/p.0/gen.1", "again")
    again.messages = Messages.of([Message("user", "again", name=at("speaker"))])
    start(recorder, again)
    end(recorder, "/p.0/gen.1", BackendUnavailable(at("error"), at("error")))
    recorder.on_event(Observed("/p.0", 0, "env", at("environment"), now()))
    recorder.on_event(Observed("/p.0", 1, "read", {"k": [at("read")]}, now()))
    recorder.on_event(Warned("/p.0", at("warning"), now()))
    recorder.on_event(RunEnded("failed", ValueError(at("end")), now()))
    recorder.close()
    return path


@examples(20, 60, st.sets(st.sampled_from(PLACES), min_size=1), st.booleans())
def test_no_canary_is_in_a_shared_file(places: set[str], private: bool) -> None:
    with TemporaryDirectory() as folder:
        _no_canary_is_shared(Path(folder), places, private)


def _no_canary_is_shared(folder: Path, places: set[str], private: bool) -> None:
    options: dict[str, Any] = {"privacy": "redacted", "home": folder} if private else {}
    source = with_canaries(folder / "one.trace", places, **options)
    if not private:
        assert CANARY.encode() in raw(source)
    count = share(source, folder / "two.trace")
    shared = Trace.open(folder / "two.trace")
    assert count == len(shared.calls)
    assert CANARY.encode() not in raw(folder / "two.trace")
    assert [call.outcome for call in shared.calls] == ["answered", "failed"]
    assert shared.calls[0].response is not None
    assert (shared.calls[0].response.usage, shared.calls[0].response.cost) == (Usage(1, 2, 3), 5)


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_every_kind_of_run_can_be_shared_and_read(tmp_path: Path, name: str) -> None:
    recorded(name, tmp_path / "one.trace")
    share(tmp_path / "one.trace", tmp_path / "two.trace")
    source, shared = (Trace.open(tmp_path / f"{each}.trace") for each in ("one", "two"))
    assert [call.address for call in shared.calls] == [call.address for call in source.calls]
    theirs = {call.content for call in source.calls}
    assert not theirs & {call.content for call in shared.calls}
    first = next(iter(source.calls[0].messages or ()))
    assert first.content.encode("utf-8", "surrogatepass") not in raw(tmp_path / "two.trace")


def test_of_a_damaged_run_nothing_is_shared(tmp_path: Path) -> None:
    source = with_canaries(tmp_path / "one.trace", {"prompt"})
    encoder = block_file.Encoder()
    good = encoder.block(codec.pack(["H", {"format": 1}]))
    wrong = encoder.block(codec.pack(["M", 1, "user"]))  # without a text
    for data in (block.MAGIC + good + wrong, source.read_bytes()[:60] + b"?" + source.read_bytes()):
        source.write_bytes(data)
        with pytest.raises(TraceError):
            share(source, tmp_path / "two.trace")
        assert not (tmp_path / "two.trace").exists()


def test_with_content_known_secrets_and_keys_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = with_canaries(tmp_path / "one.trace", {"prompt", "answer", "environment", "path"})
    monkeypatch.setenv("SOME_API_KEY", CANARY)  # known only to who shares
    share(source, tmp_path / "two.trace", content=True)
    shown = raw(tmp_path / "two.trace")
    assert CANARY.encode() not in shown
    assert b"[secret SOME_API_KEY]" in shown


@pytest.mark.parametrize(
    "key",
    [
        "sk-proj-abcdefghijklmnop", "ghp_abcdefghijklmnop1234", "AKIAABCDEFGHIJKLMNOP",
        "eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.sig", "Bearer abcdefghijkl", "https://me:pass@host/",
    ],
)  # fmt: skip
def test_what_looks_like_a_key_is_left_out_of_content(tmp_path: Path, key: str) -> None:
    made_at = made(tmp_path, 1, text=f"use {key} now")
    share(made_at, tmp_path / "two.trace", content=True)
    assert key.encode() not in raw(tmp_path / "two.trace")
    assert b"use " in raw(tmp_path / "two.trace")


def test_the_command_writes_a_private_file_and_no_text(project: Project) -> None:
    project.run("ask", "--question", CANARY)
    done = project.appl("trace", "share", "--out", "for-you.trace", "--json")
    assert done.code == 0, done.err
    file = project.folder / "for-you.trace"
    assert file.stat().st_mode & 0o777 == 0o600
    for words in (
        ("show", "for-you.trace"),
        ("verify", "for-you.trace"),
        ("import", "for-you.trace"),
    ):
        assert project.appl("trace", *words).code == 0
    assert CANARY.encode() not in raw(file)
    assert str(project.folder).encode() not in raw(file)
    assert project.appl("trace", "share", "--out", "for-you.trace").code == 2
    open_ = project.appl("trace", "share", "--content", "--out", "open.trace")
    assert "with prompts and answers" in open_.err
    assert CANARY.encode() in raw(project.folder / "open.trace")

"""A long message that goes on is recorded by what is added to it, and read back whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from made import answer, end, replayed, start

from appl.backend import Request, Sampling
from appl.errors import TraceCorrupt
from appl.prompt import USER, VOICES, Image, Message, Messages, Prompt
from appl.tracing import Recorder, Replayer, Trace, records
from appl.tracing.format import codec

SECRET = "sk-canary-0123456789"
DOCUMENT = "Long ago. " * 2000


@pytest.fixture(autouse=True)
def environment() -> Iterator[None]:
    before = dict(os.environ)
    os.environ["MY_API_KEY"] = SECRET
    yield
    os.environ.clear()
    os.environ.update(before)


def chains(*texts: str | Image, branch: bool = False) -> list[Messages]:
    """The prompt after each of *texts* but the first; with *branch*, each goes on from the first."""
    prompt, found = Prompt(), list[Messages]()
    prompt.say(USER, texts[0])
    for text in texts[1:]:
        grown = prompt.copy() if branch else prompt
        grown.say(USER, text)
        assert grown.tip is not None
        link = grown.tip.messages()
        assert link is not None
        found.append(link)
    return found


def requests(links: list[Messages]) -> list[Request]:
    return [Request(f"/p.{i}/gen.0", 0, "m", link, Sampling()) for i, link in enumerate(links)]


def recorded(path: Path, links: list[Messages], **options: object) -> Trace:
    recorder = Recorder(path, **options)  # type: ignore[arg-type]
    for request in requests(links):
        start(recorder, request)
        end(recorder, request.address, answer("a"))
    recorder.close()
    return Trace.open(path)


def kinds(path: Path) -> str:
    return "".join(each[0] if each[0] != "!" else each[2][0] for each in records(path))


@pytest.mark.parametrize("branch", [False, True])
async def test_only_what_is_added_is_written(branch: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.trace"
    picture = Image("https://example.com/cat.png")
    links = chains(DOCUMENT, "one", picture, "", "two\ud800", "x" * 2_000_000, branch=branch)
    trace = recorded(path, links)
    assert [list(call.messages or ()) for call in trace.calls] == [list(link) for link in links]
    assert [call.messages.digest for call in trace.calls] == [link.digest for link in links]  # type: ignore[union-attr]
    written = [each for each in records(path) if each[0] in "ML"]
    assert "".join(each[0] for each in written) == ("MLLLLL" if branch else "MLLL")
    assert sum(len(str(each)) for each in written) < len(DOCUMENT) + 1000
    assert await replayed(Replayer(trace), *requests(links)) == ["a"] * len(links)


def test_a_message_that_goes_on_after_the_first_is_written_too(tmp_path: Path) -> None:
    prompt = Prompt()
    for role, text in [("system", "s"), ("user", DOCUMENT), ("user", "q"), ("assistant", "a")]:
        prompt.say(VOICES[role], text)  # type: ignore[index]
        assert prompt.tip is not None
        prompt.tip.messages()
    assert prompt.tip is not None
    link = prompt.tip.messages()
    assert link is not None
    (call,) = recorded(tmp_path / "a.trace", [link]).calls
    assert list(call.messages or ()) == list(link)


SEAMS = {
    "known": (SECRET, range(1, len(SECRET))),
    "of a shape": ("ghp_" + "0123456789abcdefghij", range(1, 24)),
    "after a word": ("password: a8f5f167f44f4964e6c9", range(1, 25)),
}


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", SEAMS)
async def test_a_secret_across_a_seam_is_masked(tmp_path: Path, kind: str, step: int) -> None:
    secret, cuts = SEAMS[kind]
    for cut in {*cuts[::step], cuts[-1]}:
        path = tmp_path / f"{cut}.trace"
        prompt, links = Prompt(), []
        pieces = [DOCUMENT + secret[:cut], *secret[cut:-1], secret[-1] + " and so on", "later"]
        for i, text in enumerate(pieces):
            prompt.say(USER, text, starts=i == 0)
            assert prompt.tip is not None
            links.append(prompt.tip.messages())
        trace = recorded(path, [link for link in links if link is not None])
        assert not any(secret in m.content for call in trace.calls for m in call.messages or ())
        assert trace.calls[-1].masked and trace.calls[-2].masked
        assert not trace.calls[0].masked
        (got,) = await replayed(Replayer(trace), requests(links)[-1])  # type: ignore[arg-type]
        assert got == "a"


def test_a_private_key_that_comes_line_by_line_is_masked(tmp_path: Path) -> None:
    lines = [f"{number:02}{'MIIEpAIBAAKCAQEA' * 20}abcdefghijklm4\n" for number in range(9)]
    head, foot = "-----BEGIN PRIVATE KEY-----\n", "-----END PRIVATE KEY-----\n"
    links = chains(DOCUMENT + head, *lines, foot, "and so on, as it was before")
    trace = recorded(tmp_path / "one.trace", links)
    for call in trace.calls:
        assert not any("MIIE" in message.content for message in call.messages or ())
    assert trace.calls[-1].messages is not None
    assert trace.calls[-1].messages.message.content.endswith("as it was before")


def test_a_redaction_sees_the_whole_text(tmp_path: Path) -> None:
    seen: list[str] = []

    def redact(message: Message) -> Message:
        seen.append(message.content)
        return message

    links = chains(DOCUMENT, "one", "two")
    recorded(tmp_path / "a.trace", links, redact=redact)
    assert [link.message.content for link in links] == [text for text in seen if text != "a"]
    assert "L" not in kinds(tmp_path / "a.trace")


@pytest.mark.parametrize(
    "fields",
    [
        ("L", 9, 99, "x"),
        ("L", 9, 8, 5),
        ("L", 9, 8, "x", {"media": [[0, 99]]}),
        ("L", 9, 9, "x"),
        ("L", 9, [8], "x"),
    ],
)
def test_a_damaged_record_is_a_trace_error(fields: tuple[object, ...], tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "a.trace")
    recorder.writer.append(codec.pack(("M", 8, "user", "x")))
    recorder.writer.append(codec.pack(fields))
    recorder.close()
    with pytest.raises(TraceCorrupt, match="is not valid"):
        Trace.open(tmp_path / "a.trace", check=True)


def test_very_many_lengths_of_a_long_text_do_not_take_its_room_each(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "a.trace")
    recorder.writer.append(codec.pack(("M", 1, "user", "x" * 1_000_000)))
    for number in range(2, 20_002):
        recorder.writer.append(codec.pack(("L", number, number - 1, "y")))
        recorder.writer.append(codec.pack(("N", number + 50_000, None, number, bytes(16))))
    recorder.close()
    assert Trace.open(tmp_path / "a.trace").records > 40_000

"""The file of answers that processes share."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from appl.backend import Response, Sample, TokenLogprob
from appl.errors import InvalidOption
from appl.prompt import ToolCall
from appl.tracing.recording import CacheFile


def answer(text: str) -> Response:
    return Response((Sample(text, "stop"),))


def test_what_was_saved_is_loaded_as_far_as_there_is_no_gap(tmp_path: Path) -> None:
    cache = CacheFile(tmp_path / "c")
    one, two, four = map(answer, ("1", "2", "4"))
    assert cache.save(b"x", 0, [one, two]) == [one, two]
    cache.save(b"x", 3, [four])
    assert cache.load(b"x", 9) == [one, two] and cache.load(b"x", 1) == [one]
    assert cache.load(b"y", 9) == []
    cache.close()


def test_an_answer_is_kept_with_all_that_it_holds(tmp_path: Path) -> None:
    sample = Sample(
        "a\ud800\x00", "tool_calls", (TokenLogprob("a", -0.5, (("b", -1.0),)),),
        (ToolCall("1", "f", "{}"),), "because",
    )  # fmt: skip
    full = Response((sample,), model="m", scores=(-0.1, -0.2), choice_method="logprob")
    cache = CacheFile(tmp_path / "c")
    cache.save(b"x", 0, [full])
    assert cache.load(b"x", 1) == [full]
    cache.close()


@given(st.lists(st.text(), unique=True, max_size=20))
@settings(max_examples=10, deadline=None)
def test_any_text_survives(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    cache = CacheFile(tmp_path_factory.mktemp("c") / "c")
    answers = [answer(text) for text in texts]
    assert cache.save(b"x", 0, answers) == answers
    assert cache.load(b"x", len(texts)) == answers
    cache.close()


def test_of_two_that_save_the_same_number_the_first_stays(tmp_path: Path) -> None:
    one, other = CacheFile(tmp_path / "c"), CacheFile(tmp_path / "c")
    one.save(b"x", 0, [answer("first")])
    assert other.save(b"x", 0, [answer("late"), answer("new")]) == [answer("first"), answer("new")]
    assert one.load(b"x", 2) == [answer("first"), answer("new")]
    one.close()
    assert other.load(b"x", 1) == [answer("first")]
    other.close()


WRITER = """
import sys
from pathlib import Path
from appl.backend import Response, Sample
from appl.tracing.recording import CacheFile
path, name = sys.argv[1:]
for number in range(20):
    cache = CacheFile(Path(path))
    (kept,) = cache.save(b"%d" % (number % 10), 0, [Response((Sample(name, "stop"),))])
    print(kept.samples[0].text)
    cache.close()
"""


def test_processes_share_a_file(tmp_path: Path) -> None:
    started = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path / "c"), name],
            stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        for name in "abc"
    ]  # fmt: skip
    said = [process.communicate(timeout=60)[0].split() for process in started]
    assert all(process.returncode == 0 for process in started)
    cache = CacheFile(tmp_path / "c")
    kept = [cache.load(b"%d" % number, 1)[0].samples[0].text for number in range(10)]
    cache.close()
    assert all(lines == kept * 2 for lines in said)


def test_it_is_for_its_user_alone_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    cache = CacheFile(tmp_path / "folder" / "c")
    cache.save(b"x", 0, [answer("a")])
    cache.close()
    assert stat.S_IMODE((tmp_path / "folder").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "folder" / "c").stat().st_mode) == 0o600
    assert [file.name for file in (tmp_path / "folder").iterdir()] == ["c"]


def test_an_answer_with_a_secret_is_not_kept_nor_what_follows_it(tmp_path: Path) -> None:
    cache = CacheFile(tmp_path / "c", secrets=["s3cr3t-and-long"])
    answers = [answer("fine"), answer("it is s3cr3t-and-long!"), answer("fine too")]
    assert cache.save(b"x", 0, answers) == answers
    assert cache.load(b"x", 3) == answers[:1]
    cache.close()
    assert b"s3cr3t" not in (tmp_path / "c").read_bytes()


def test_the_question_is_not_in_it(tmp_path: Path) -> None:
    from appl import gen
    from appl.testing import Scripted, running

    with running(Scripted(["answer"])):
        gen(messages="a very private question", cache=tmp_path / "c").result()
    data = (tmp_path / "c").read_bytes()
    assert b"private" not in data and b"answer" in data


@pytest.mark.parametrize("row", [b"\xc1", b"\x01", b"\x93\x01\x02\x03", "text", b"\xdc\xff\xff"])
def test_a_row_that_nobody_of_us_wrote_is_as_if_it_were_not_there(
    tmp_path: Path, row: object
) -> None:
    CacheFile(tmp_path / "c").close()
    with sqlite3.connect(tmp_path / "c") as connection:
        connection.execute("INSERT INTO answers VALUES (?, 0, ?)", (b"x", row))
    connection.close()
    cache = CacheFile(tmp_path / "c")
    assert cache.load(b"x", 1) == []
    assert cache.save(b"x", 0, [answer("a")]) == [answer("a")]
    cache.close()


def test_other_databases_are_refused_and_stay_as_they_are(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    before = (tmp_path / "other.db").read_bytes()
    with pytest.raises(InvalidOption, match="another program's"):
        CacheFile(tmp_path / "other.db")
    assert (tmp_path / "other.db").read_bytes() == before

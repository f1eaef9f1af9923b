"""``appl trace view`` as a command."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from made import small_trace

from appl.cli import main


def test_one_html_file_is_written(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "run.html"
    assert main(["trace", "view", str(small_trace(path)), "--html", str(target), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {"html": str(target), "bytes": target.stat().st_size}


def test_a_file_that_is_there_already_is_left_as_it_is(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target, link = tmp_path / "run.html", tmp_path / "link.html"
    target.write_text("something else")
    link.symlink_to(tmp_path / "nowhere.html")
    run = str(small_trace(path))
    for name in (target, link):
        assert main(["trace", "view", run, "--html", str(name)]) == 2
        assert f"{name} exists already; give another name" in capsys.readouterr().err
    assert target.read_text() == "something else" and link.is_symlink()


def test_two_runs_go_into_one_file(path: Path, tmp_path: Path) -> None:
    other = small_trace(tmp_path / "other.trace", calls=5)
    target = tmp_path / "run.html"
    assert (
        main(["trace", "view", str(small_trace(path)), "--diff", str(other), "--html", str(target)])
        == 0
    )
    assert 'data-name="diff"' in target.read_text("utf-8")


def test_a_run_that_is_not_there_is_an_error_of_traces(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", "view", "nothing-like-it", "--html", str(tmp_path / "x.html")]) == 4
    assert "there is no run" in capsys.readouterr().err


def test_a_port_that_is_taken_is_told(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        number = str(other.getsockname()[1])
        assert main(["trace", "view", str(small_trace(path)), "--no-open", "--port", number]) == 2
    assert f"port {number} cannot be used" in capsys.readouterr().err


def test_a_port_that_there_is_not_is_refused(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", "view", str(small_trace(path)), "--no-open", "--port", "70000"]) == 2
    assert "--port is a number from 0 to 65535, got 70000" in capsys.readouterr().err


@pytest.mark.parametrize("way", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_interrupted(path: Path, way: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "appl", "trace", "view", str(small_trace(path)), "--no-open", "--json"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        line = json.loads(process.stdout.readline())
        assert line["ready"] is True
        with urllib.request.urlopen(line["url"] + "data/a/run", timeout=60) as answer:
            assert json.load(answer)["name"] == "some"
        process.send_signal(way)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()


def test_the_browser_gets_the_address_from_a_file_that_is_gone_later(
    path: Path, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    os.mkfifo(told)
    browser = tmp_path / "browser"
    browser.write_text(
        "#!/bin/sh\n"
        'file="${1#file://}"\n'
        f'{{ stat -c %a "$(dirname "$file")"; cat "$file"; echo; echo "$1"; }} > {told}\n'
    )
    browser.chmod(0o755)
    process = subprocess.Popen(
        [sys.executable, "-m", "appl", "trace", "view", str(small_trace(path)), "--json"],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "BROWSER": str(browser)},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        mode, door, argument = told.read_text().splitlines()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
    assert mode == "700"
    assert url in door
    assert "no-referrer" in door
    assert url not in argument
    assert not Path(argument.removeprefix("file://")).exists()

"""Many runs on one page: what is listed, found and opened, and who may ask."""

from __future__ import annotations

import http.client
import json
import random
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from browser import Listed
from folders import a_run, many_runs
from made import small_trace

from appl.tracing.keeping import index
from appl.tracing.viewer import ViewerServer


def ask(server: ViewerServer, name: str, method: str = "GET", **given: Any) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    with closing(connection):
        connection.request(method, f"/{server.token}/{name}", **given)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def data(server: ViewerServer, name: str) -> Any:
    status, body = ask(server, f"data/{name}")
    assert status == 200, body
    return json.loads(body)


def read(server: ViewerServer) -> Any:
    """The list when the texts of all runs were read."""
    end = time.monotonic() + 60
    while (found := data(server, "list"))["read"] < found["of"] and time.monotonic() < end:
        pass
    return found


def test_all_runs_are_listed_newest_first_as_on_the_command_line(
    tmp_path: Path, listed: Listed
) -> None:
    names = many_runs(tmp_path, 40)
    runs = data(listed(tmp_path), "list")["runs"]
    rows = index.rows(tmp_path)
    assert [run["name"] for run in runs] == names[::-1] == [row.name for row in rows]
    for field in ("program", "state", "began", "calls", "failed", "tokens", "cost"):
        assert [run[field] for run in runs] == [getattr(row, field) for row in rows]
    assert {run["state"] for run in runs} == {"finished", "failed"}


def test_a_list_that_is_known_is_not_sent_again_until_there_is_something_new(
    tmp_path: Path, listed: Listed
) -> None:
    many_runs(tmp_path, 3)
    server = listed(tmp_path)
    found = read(server)
    assert data(server, f"list?version={found['version']}") == {"version": found["version"]}
    a_run(tmp_path / "runs" / "new.trace", "new", 4, random.Random(), failed=False)
    end = time.monotonic() + 60
    again = {"version": found["version"]}
    while "runs" not in again and time.monotonic() < end:
        again = data(server, f"list?version={found['version']}")
    assert "new" in {run["name"] for run in again["runs"]}


def test_runs_are_found_by_the_text_of_their_prompts_and_answers(
    tmp_path: Path, listed: Listed
) -> None:
    names = many_runs(tmp_path, 20)
    server = listed(tmp_path)
    (run,) = [run for run in read(server)["runs"] if run["name"] == names[7]]
    assert run["question"] == "Where is order 7, part 0?"
    assert run["answer"] == "Order 7 is on its way."
    assert data(server, "found?text=ORDER+7+is") == [names[7]]
    assert data(server, "found?text=zebra") == []


def test_a_run_of_the_list_has_its_page_and_its_data(tmp_path: Path, listed: Listed) -> None:
    names = many_runs(tmp_path, 12)
    server = listed(tmp_path)
    assert 'data-page="runs"' in ask(server, "")[1]
    for name in names:  # more than are kept open
        assert 'data-page="runs"' not in ask(server, f"run/{name}/")[1]
        assert data_of(server, name)["name"] == name


def data_of(server: ViewerServer, name: str) -> Any:
    status, body = ask(server, f"run/{name}/data/a/run")
    assert status == 200, body
    return json.loads(body)


@pytest.mark.parametrize(
    "name",
    ["run/nothing/", "run/nothing/data/a/run", "run/../", "run/%2e%2e%2frun/", "run/..%2f..%2fx/data/a/run",
     "run//data/a/run", "run/", "run", "data/a/run", "data/nothing", "data/found", "data/run/x", "list"],
)  # fmt: skip
def test_no_name_is_a_path(name: str, tmp_path: Path, listed: Listed) -> None:
    small_trace(tmp_path / "x.trace")
    many_runs(tmp_path, 1)
    assert ask(listed(tmp_path), name)[0] == 404


def test_an_unreadable_run_is_listed_with_its_error_and_has_no_page(
    tmp_path: Path, listed: Listed
) -> None:
    many_runs(tmp_path, 2)
    (tmp_path / "runs" / "bad.trace").write_bytes(b"nothing like it")
    server = listed(tmp_path)
    (bad,) = [run for run in data(server, "list")["runs"] if run["name"] == "bad"]
    assert bad["state"] == "unreadable" and bad["error"]
    assert ask(server, "run/bad/data/a/run")[0] == 404


def test_an_answer_goes_to_its_run_and_comes_from_its_own_page_alone(
    tmp_path: Path, listed: Listed
) -> None:
    (name,) = many_runs(tmp_path, 1)
    server = listed(tmp_path)
    sent = json.dumps({"address": "/main.0/ask.0", "answer": "yes"})
    headers = {"Content-Type": "application/json", "Origin": f"http://127.0.0.1:{server.port}"}
    status, body = ask(server, f"run/{name}/answer", "POST", body=sent, headers=headers)
    assert (status, json.loads(body)) == (200, {"said": f"{name} /main.0/ask.0 yes"})
    evil = {**headers, "Origin": "http://evil.invalid"}
    assert ask(server, f"run/{name}/answer", "POST", body=sent, headers=evil)[0] == 403
    assert ask(server, "run/other/answer", "POST", body=sent, headers=headers)[0] == 404
    assert ask(server, "answer", "POST", body=sent, headers=headers)[0] == 405


def test_an_empty_folder_has_an_empty_list(tmp_path: Path, listed: Listed) -> None:
    assert data(listed(tmp_path), "list")["runs"] == []

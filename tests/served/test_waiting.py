"""Runs that wait for people, fail, are cancelled, or meet a limit."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from appl.testing.faults import Fault, echo

from .conftest import Home, Served


def question(server: Served, order: int) -> tuple[str, str]:
    """A run that asks a person, and the address of its question."""
    found = server.call("refund", order=order)
    assert found.status_code == 202, found.text
    run = found.json()
    assert run["status"] == "waiting" and found.headers["Location"] == f"/runs/{run['run']}"
    (wait,) = run["waits"]
    assert wait["text"] == f"Refund order {order}?" and wait["answer"] == "yes or no"
    return run["run"], wait["address"]


def test_a_run_that_asks_a_person_goes_on_with_the_answer(home: Home) -> None:
    server = home.start()
    run, address = question(server, 7)
    path = f"/runs/{run}/answers"
    wrong = server.request("POST", path, json={address: "perhaps"}, headers=server.admin)
    assert wrong.status_code == 422 and "yes or no" in wrong.text
    done = server.request("POST", path, json={address: True}, headers=server.admin)
    assert done.status_code == 202
    assert server.run(run)["result"] == f"{echo('refund 7')}: refunded"
    assert home.model.paid == {"refund 7": 1}


def test_a_waiting_run_survives_its_server_and_takes_its_answer_from_the_command_line(
    home: Home,
) -> None:
    from appl.session.answers import add_answers

    server = home.start()
    run, address = question(server, 8)
    server.kill()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in home.environment().items():
            patch.setenv(name, value)
        patch.chdir(home.folder)
        path = home.folder / ".appl" / "runs" / f"{run}.trace"
        add_answers(path, {address: "no"}, via="test", by="me")
    after = home.start()
    assert after.run(run)["result"] == f"{echo('refund 8')}: kept"
    assert home.model.paid == {"refund 8": 1}


def test_a_run_that_failed_goes_on_where_it_failed(home: Home) -> None:
    server = home.start()
    broken = Fault("401", 401, body=b'{"error": {"message": "no"}}')
    home.model.fails = lambda text: broken if text.startswith("step 1") else None
    found = server.call("steps", question="q")
    assert found.status_code == 502 and found.json()["error"]["type"] == "AuthenticationFailed"
    home.model.fails = lambda text: None
    run = found.json()["run"]
    path = f"/runs/{run}/resume"
    assert server.request("POST", path, headers=server.admin).status_code == 202
    assert server.run(run)["status"] == "finished"
    assert home.model.paid == {"step 0 q": 1, "step 1 q": 1}


def test_a_cancelled_run_ends_and_can_be_gone_on_with(home: Home) -> None:
    server = home.start()
    home.model.holds = lambda text: text.startswith("step 1")
    run = server.begin("steps", question="q")
    home.model.until(1, "step 1")
    done = server.request("POST", f"/runs/{run}/cancel")
    assert (done.status_code, done.json()["status"]) == (200, "cancelled")
    home.model.holds = lambda text: False
    server.request("POST", f"/runs/{run}/resume", headers=server.admin)
    assert server.run(run)["status"] == "finished"
    assert home.model.paid == {"step 0 q": 1, "step 1 q": 1}


def test_a_full_server_says_when_to_come_back(home: Home) -> None:
    server = home.start("--max-running", "1", "--max-queued", "1")
    home.model.holds = lambda text: True
    kept = [server.begin("ask", question="a")]
    home.model.until(1, "first a")
    kept.append(server.begin("ask", question="b"))
    full = server.call("ask", question="c")
    assert full.status_code == 503 and int(full.headers["Retry-After"]) >= 1
    assert len(home.runs()) == 1
    home.model.holds = lambda text: False
    server.kill()
    after = home.start()
    assert [after.run(run)["status"] for run in kept] == ["finished"] * 2


def test_a_budget_is_that_of_all_requests_together(home: Home) -> None:
    server = home.start("--budget", "calls=5")
    with ThreadPoolExecutor() as threads:
        found = list(threads.map(lambda n: server.call("ask", question=f"q{n}"), range(8)))
    states = sorted(each.status_code for each in found)
    assert states == [200] * 5 + [429] * 3
    assert sum(home.model.paid.values()) == 5
    refused = server.call("ask", question="later")
    assert refused.status_code == 429 and "--budget" in refused.text

"""Servers that are killed, stopped, and asked by many: nothing is lost, and nothing paid twice."""

from __future__ import annotations

import re
import signal
import socket
from concurrent.futures import ThreadPoolExecutor

import httpx
import openai
import pytest

from appl.tracing import Trace

from .conftest import Home, wait_until


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def once(home: Home) -> None:
    """Every question was answered exactly once."""
    assert {q: n for q, n in home.model.paid.items() if n > 1} == {}


@pytest.mark.parametrize("many", [40, pytest.param(200, marks=pytest.mark.long)])
def test_many_requests_at_once_have_each_a_run_of_their_own(home: Home, many: int) -> None:
    server = home.start("--max-running", str(many))
    with ThreadPoolExecutor(many) as threads:
        found = list(threads.map(lambda n: server.call("ask", question=f"q{n}"), range(many)))
    assert [each.status_code for each in found] == [200] * many
    names = [each.headers["Appl-Run"] for each in found]
    assert sorted(names) == home.runs() and len(set(names)) == many
    for number, each in enumerate(found):
        assert each.json()["result"] == home.model.server.answer(f"first q{number}")
    once(home)


@pytest.mark.parametrize("many", [20, pytest.param(200, marks=pytest.mark.long)])
def test_a_server_that_was_killed_goes_on_and_pays_nothing_twice(home: Home, many: int) -> None:
    server = home.start("--max-running", str(many))
    home.model.holds = lambda question: question.startswith("step 1")
    names = [server.begin("steps", question=f"q{n}") for n in range(many)]
    home.model.until(many, "step 1")
    wait_until(lambda: home.answered() == many)
    server.kill()
    home.model.holds = lambda question: False
    after = home.start("--max-running", str(many))
    assert after.ready["resumed"] == many
    for number, name in enumerate(names):
        answers = [home.model.server.answer(f"step {k} q{number}") for k in (0, 1)]
        run = after.run(name)
        assert (run["status"], run["result"]) == ("finished", answers)
    assert home.runs() == sorted(names)
    assert len(home.model.paid) == 2 * many
    once(home)


@pytest.mark.long
def test_a_run_that_waited_for_its_turn_when_the_server_was_killed_is_not_lost(home: Home) -> None:
    server = home.start("--max-running", "1")
    home.model.holds = lambda question: question == "first q0"
    names = [server.begin("ask", question=f"q{n}") for n in range(3)]
    home.model.until(1, "first q0")
    server.kill()
    home.model.holds = lambda question: False
    after = home.start()
    assert [after.run(name)["status"] for name in names] == ["finished"] * 3
    assert set(home.model.paid.values()) == {1}


def test_a_client_whose_server_was_killed_gets_its_run_again_by_its_key(home: Home) -> None:
    server, key = home.start(), {"Idempotency-Key": "order 7"}
    home.model.holds = lambda question: True
    with ThreadPoolExecutor() as threads:
        broken = threads.submit(server.call, "ask", _headers=key, question="q")
        home.model.until(1, "first q")
        server.kill()
        with pytest.raises(httpx.HTTPError):
            broken.result()
    home.model.holds = lambda question: False
    after = home.start()
    found = [after.call("ask", _headers=key, question="q") for _ in range(2)]
    assert [each.headers["Appl-Run"] for each in found] == home.runs() * 2
    assert home.model.paid == {"first q": 1}
    other = after.call("ask", _headers=key, question="another")
    assert other.status_code == 422 and home.runs()[0] in other.text


def test_a_client_of_openai_that_asks_again_after_a_crash_gets_the_same_run(home: Home) -> None:
    server = home.start("--port", str(free_port()), "--api-key", "k")
    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=9)
    home.model.holds = lambda question: True
    with ThreadPoolExecutor() as threads:
        asked = threads.submit(
            client.chat.completions.create,
            model="ask",
            messages=[{"role": "user", "content": "q"}],
        )
        home.model.until(1, "first q")
        server.kill()
        home.model.holds = lambda question: False
        home.start("--port", server.url.rpartition(":")[2], "--api-key", "k")
        answer = asked.result().choices[0].message.content
    assert answer == home.model.server.answer("first q")
    assert home.model.paid == {"first q": 1} and len(home.runs()) == 1


def test_slow_readers_hold_up_nobody_and_lose_nothing(home: Home) -> None:
    home.model.server.answer = lambda question: f"{'x' * 999} " * 2000
    server = home.start()
    body = b'{"about": "x"}'
    head = "POST /functions/tell HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n"
    head += f"Authorization: {server.headers['Authorization']}\r\n"
    head += f"Content-Length: {len(body)}\r\n\r\n"
    links = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(5)]
    for link in links:
        link.sendall(head.encode() + body)
    names = [re.search(r"Appl-Run: (\S+)", link.recv(2000).decode()) for link in links]
    assert server.call("ask", question="q").status_code == 200
    runs = [server.run(name[1]) for name in names if name is not None]
    assert [len(run["result"]) for run in runs] == [2_000_000] * 5
    for link in links:
        link.close()


def test_a_reader_whose_server_was_killed_reads_on_at_the_next_one(home: Home) -> None:
    server = home.start()
    home.model.holds = lambda question: question.startswith("part 1")
    with httpx.stream(
        "POST",
        f"{server.url}/functions/parts",
        headers={**server.headers, "Accept": "text/event-stream"},
        json={"question": "q"},
        timeout=60,
    ) as stream:
        lines = stream.iter_lines()
        at = next(line for line in lines if line.startswith("id: ") and line != "id: 0")[4:]
        wait_until(lambda: home.answered() == 1)
        run = stream.headers["Appl-Run"]
        server.kill()
    home.model.holds = lambda question: False
    after = home.start()
    found = after.request("GET", f"/runs/{run}/events", headers={"Last-Event-ID": at})
    texts = re.findall(r'^data: {"text": "(.*)"}$', found.text, re.M)
    assert "".join(texts) == home.model.server.answer("part 1 q")
    assert set(home.model.paid.values()) == {1}


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)]
)
def test_a_server_that_is_stopped_answers_what_it_had_begun(home: Home, number: int) -> None:
    server = home.start()
    home.model.holds = lambda question: True
    with ThreadPoolExecutor() as threads:
        asked = threads.submit(server.call, "slow", seconds=0.3)
        home.model.until(1, "slow")
        home.model.holds = lambda question: False
        home.model.server.kill()  # what is held is sent again
        home.model.server.revive()
        assert server.stop(number) == 0
        assert asked.result().json()["result"] == 0.3


def test_a_run_that_does_not_end_in_time_is_closed_and_goes_on_later(home: Home) -> None:
    server = home.start("--grace", "0.1")
    home.model.holds = lambda question: question.startswith("step 1")
    with ThreadPoolExecutor() as threads:
        asked = threads.submit(server.call, "steps", question="q")
        home.model.until(1, "step 1")
        wait_until(lambda: home.answered() == 1)
        assert server.stop() == 0
        found = asked.result()
    assert (found.status_code, found.json()["status"]) == (503, "interrupted")
    assert found.headers["Retry-After"]
    (name,) = home.runs()
    trace = Trace.open(home.folder / ".appl" / "runs" / f"{name}.trace")
    assert (trace.state, trace.reason) == ("finished", "interrupted")
    home.model.holds = lambda question: False
    after = home.start()
    assert after.run(found.json()["run"])["status"] == "finished"
    assert home.model.paid == {"step 0 q": 1, "step 1 q": 1}


@pytest.mark.long
def test_a_program_that_computes_on_is_left_and_gone_on_with(home: Home) -> None:
    server = home.start("--grace", "0.1")
    name = server.begin("slow", seconds=60)
    home.model.until(1, "slow")
    wait_until(lambda: home.answered() == 1)
    assert server.stop() == 0
    assert "goes on with the next server" in home.log()
    assert home.start().ready["resumed"] == 1
    assert name in home.runs()


def test_two_servers_of_one_folder_leave_each_other_s_runs_alone(home: Home) -> None:
    first = home.start()
    home.model.holds = lambda question: True
    name = first.begin("ask", question="q")
    home.model.until(1, "first q")
    second = home.start()
    assert second.ready["resumed"] == 0
    assert second.run(name, wait=0)["status"] == "running"
    first.kill()
    home.model.holds = lambda question: False
    assert second.run(name)["status"] == "finished"

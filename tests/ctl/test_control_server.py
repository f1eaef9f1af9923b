"""The socket: who may open it, what strangers can send, and that nothing is left of it."""

from __future__ import annotations

import json
import os
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from appl.errors import ControlError
from appl.parts.control import ControlServer, ask, find, folder, live_runs, peer, protocol
from appl.parts.control.server import MOST_CLIENTS
from appl.testing import on_backend_loop

from . import programs
from .live import Recorded, environment, eventually, recorded


@contextmanager
def opened(answer: Any = None, **options: Any) -> Iterator[ControlServer]:
    server = ControlServer(answer or (lambda request: request), **options)
    server.open()
    try:
        yield server
    finally:
        server.close()


def connected(path: Path | None) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(20)
    sock.connect(str(path))
    return sock


def line_of(sock: socket.socket) -> Any:
    found = b""
    while not found.endswith(b"\n"):
        data = sock.recv(65_536)
        if not data:
            return None
        found += data
    return json.loads(found)


@contextmanager
def held(path: Path) -> Iterator[Recorded]:
    """A recorded run with one call that waits."""
    with recorded(lambda: str(programs.answer("a")), path) as made:
        made.backend.has("/answer.0/gen.0")
        yield made
        made.backend.release("/answer.0/gen.0")


# -- whose it is


def test_only_this_user_may_enter_the_folder_and_open_the_socket(home: Path) -> None:
    with opened() as server:
        assert server.path is not None and server.path.parent == home / "appl"
        assert stat.S_IMODE(server.path.parent.lstat().st_mode) == 0o700
        assert stat.S_IMODE(server.path.lstat().st_mode) == 0o600
        assert stat.S_ISSOCK(server.path.lstat().st_mode)


def test_the_kernel_says_who_is_at_the_other_end() -> None:
    one, other = socket.socketpair(socket.AF_UNIX)
    with one, other:
        assert peer.user_of(one) == os.geteuid()
        assert peer.is_mine(one)


def test_a_folder_that_others_may_enter_is_shut(home: Path) -> None:
    (home / "appl").mkdir(mode=0o755)
    with opened() as server:
        assert server.path is not None
        assert stat.S_IMODE(server.path.parent.lstat().st_mode) == 0o700


@pytest.mark.parametrize("what", ["link", "file"])
def test_a_folder_that_is_none_is_not_used(home: Path, what: str) -> None:
    elsewhere = home / "elsewhere"
    elsewhere.mkdir()
    if what == "link":
        (home / "appl").symlink_to(elsewhere)
    else:
        (home / "appl").write_text("")
    with environment(APPL_CTL_DIR=None), opened() as server:
        assert server.path is not None and server.path.parent != home / "appl"
    assert not list(elsewhere.iterdir())
    assert not folder.is_safe(home / "appl")


def test_a_link_to_a_socket_is_not_followed(home: Path) -> None:
    with opened() as server:
        assert server.path is not None
        link = server.path.with_name("1-1.sock")
        link.symlink_to(server.path)
        assert link not in list(folder.sockets())
        with pytest.raises(ControlError, match="no socket of yours"):
            ask(link, "run")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_socket_of_somebody_else_is_not_connected_with(home: Path) -> None:
    with opened() as server:
        assert server.path is not None
        os.chown(server.path, 12345, 12345)
        assert list(folder.sockets()) == []
        with pytest.raises(ControlError, match="no socket of yours"):
            ask(server.path, "run")


def test_a_folder_whose_name_is_too_long_is_passed_over(home: Path) -> None:
    long = home / ("x" * 90)
    long.mkdir()
    with environment(XDG_RUNTIME_DIR=str(long), APPL_CTL_DIR=None), opened() as server:
        assert server.path is not None and long not in server.path.parents
        assert len(os.fsencode(server.path)) <= folder.LONGEST_PATH
        assert ask(server.path, "any") == {"v": 1, "do": "any"}


# -- what strangers send


GARBAGE = [
    b"\n",
    b"garbage\n",
    b"\x00\xff\xfe\n",
    b"{}\n",
    b"[]\n",
    b"null\n",
    b'"text"\n',
    b"1e999\n",
    b'{"v": 1}\n',
    b'{"v": 2, "do": "run"}\n',
    b'{"v": 1, "do": 5}\n',
    b'{"do": "run"}\n',
    b"[" * 60_000 + b"\n",
    b'{"v": 1, "do": "run", "x": ' + b"9" * 5_000 + b"}\n",
]


@pytest.mark.parametrize("sent", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage_gets_an_error_and_the_next_request_an_answer(sent: bytes) -> None:
    with opened() as server, connected(server.path) as sock:
        sock.sendall(sent)
        assert line_of(sock)["error"]["kind"] in ("bad-request", "version")
        sock.sendall(protocol.request("ok"))
        assert line_of(sock)["ok"]["do"] == "ok"


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.binary(max_size=300))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    try:
        assert isinstance(protocol.read_request(data), dict)
    except ControlError as error:
        assert error.kind in ("bad-request", "version")


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.dictionaries(
        st.sampled_from(["do", "at", "limit", "content", "most", "calls", "tokens", "cost", "x"]),
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
        | st.sampled_from(["run", "show", "cancel", "concurrency", "budget"])
        | st.lists(st.integers(), max_size=3),
    )
)  # fmt: skip
def test_any_request_gets_an_answer_or_a_typed_error(fields: dict[str, Any]) -> None:
    from appl.parts.control import About, RequestHandler
    from appl.testing import Instant, Run
    from appl.tracing import Masker

    run = Run(Instant())
    run.reporter.tell = lambda line: None
    handler = RequestHandler(run, About("run", "program", None, Masker()))
    server = ControlServer(handler.answer)
    line = json.dumps({"v": 1, "do": "show", **fields}).encode()
    reply = json.loads(on_backend_loop(lambda: server.reply(line)))
    assert "ok" in reply or reply["error"]["kind"] != "internal"
    run.close()


def test_a_line_that_is_too_long_ends_the_connection() -> None:
    with opened() as server, connected(server.path) as sock:
        sock.sendall(b"x" * (protocol.LONGEST_REQUEST + 1))
        assert line_of(sock)["error"]["kind"] == "too-long"
        assert line_of(sock) is None


def test_many_requests_in_one_go_are_answered_in_order() -> None:
    with opened() as server, connected(server.path) as sock:
        sock.sendall(b"".join(protocol.request("n", n=n) for n in range(100)))
        with sock.makefile("rb") as lines:
            assert [json.loads(next(lines))["ok"]["n"] for _ in range(100)] == list(range(100))


def test_who_does_not_read_takes_no_memory_and_holds_nobody_up() -> None:
    asked: list[Any] = []

    def answer(request: Any) -> str:
        asked.append(request)
        return "x" * 1_000_000

    with opened(answer) as server, connected(server.path) as deaf, connected(server.path) as other:
        deaf.sendall(protocol.request("a") * 50)
        other.sendall(protocol.request("b"))
        assert len(line_of(other)["ok"]) == 1_000_000
        assert sum(each["do"] == "a" for each in asked) <= 1


def test_a_reply_that_is_too_long_is_refused() -> None:
    with opened(lambda request: "x" * (protocol.LONGEST_REPLY + 1)) as server:
        assert server.path is not None
        with pytest.raises(ControlError, match="too long"):
            ask(server.path, "run")


def test_an_error_of_ours_says_no_more_than_its_type() -> None:
    def answer(request: Any) -> Any:
        raise KeyError("a secret")

    with opened(answer) as server:
        assert server.path is not None
        with pytest.raises(ControlError) as raised:
            ask(server.path, "run")
        assert str(raised.value) == "the run cannot answer: KeyError"


def test_who_says_nothing_is_sent_away() -> None:
    with (
        opened(idle=0.01) as server,
        connected(server.path) as sock,
        suppress(ConnectionError),  # it may be sent away before it begins
    ):
        sock.sendall(b'{"v": 1,')
        assert sock.recv(100) == b""


def test_of_too_many_the_one_who_was_silent_longest_has_to_go() -> None:
    with opened() as server:
        first = connected(server.path)
        first.sendall(protocol.request("here"))
        assert line_of(first)
        others = [connected(server.path) for _ in range(MOST_CLIENTS)]
        assert first.recv(100) == b""
        for sock in others:
            sock.sendall(protocol.request("here"))
            assert line_of(sock)["ok"]
        first.close()
        for sock in others:
            sock.close()


def test_who_leaves_in_the_middle_disturbs_nobody() -> None:
    with opened(lambda request: "x" * 1_000_000) as server:
        for _ in range(50):
            with connected(server.path) as sock:
                sock.sendall(protocol.request("a") + b'{"v"')
                sock.recv(10)
        assert server.path is not None
        assert len(ask(server.path, "b")) == 1_000_000


def test_a_run_goes_on_while_strangers_do_their_worst(tmp_path: Path) -> None:
    with recorded(programs.three, tmp_path / "run.trace") as made:
        made.backend.has("/answer.0/gen.0")
        for sent in GARBAGE * 4:
            sock = connected(made.socket)
            sock.sendall(sent)
            threading.Thread(target=sock.close).start()
        made.backend.release(*(f"/answer.{i}/gen.0" for i in range(3)))
        assert len(made.over()) == 3


# -- nothing is left


def test_the_socket_is_there_from_the_first_call_to_the_end(tmp_path: Path, home: Path) -> None:
    with held(tmp_path / "run.trace") as made:
        socket_of = made.socket
        assert [live.path for live in live_runs()] == [socket_of]
        assert find().about["trace"] == str(tmp_path / "run.trace")
    assert not socket_of.exists()
    assert list((home / "appl").iterdir()) == []
    assert live_runs() == []


def test_a_run_that_makes_no_call_has_none(tmp_path: Path, home: Path) -> None:
    with recorded(lambda: "nothing", tmp_path / "run.trace") as made:
        assert made.over() == "nothing"
    assert not (home / "appl").exists()


@pytest.mark.parametrize(
    ("given", "reachable"),
    [({}, True), ({"ctl": False}, False), ({"trace": False}, False),
     ({"trace": False, "ctl": True}, True)],
)  # fmt: skip
def test_which_runs_can_be_reached(tmp_path: Path, given: dict[str, Any], reachable: bool) -> None:
    with recorded(lambda: str(programs.answer("a")), tmp_path / "run.trace", **given) as made:
        made.backend.has("/answer.0/gen.0")
        assert (made.session.control_server is not None) is reachable
        assert not reachable or made.socket.exists()
        assert bool(live_runs()) is reachable
        made.backend.release("/answer.0/gen.0")
        made.over()


def test_a_server_that_is_closed_in_a_moment_never_listens(home: Path) -> None:
    short, long = (ControlServer(lambda request: None) for _ in range(2))

    def begin() -> None:  # on the loop, which opens none of them meanwhile
        short.open_later()
        short.close()
        long.open_later()

    on_backend_loop(begin)
    listens = eventually(lambda: long.path)
    assert short.path is None and list((home / "appl").iterdir()) == [listens]
    long.close()


def test_two_runs_of_a_process_are_two_entries(tmp_path: Path) -> None:
    with held(tmp_path / "one.trace") as one, held(tmp_path / "two.trace") as two:
        assert one.socket != two.socket
        assert {live.name for live in live_runs()} == {"one", "two"}
        assert find("one").path == one.socket
        assert find("two").path == two.socket
        with pytest.raises(ControlError, match="several runs are live: one, two") as raised:
            find()
        assert raised.value.kind == "ambiguous"
        with pytest.raises(ControlError, match="means 2 live runs"):
            find(str(os.getpid()))
        with pytest.raises(ControlError, match="did you mean 'one'"):
            find("onne")


def test_what_a_killed_process_has_left_is_removed_by_the_next_one(home: Path) -> None:
    left = folder.own_folder() / "4194304-1.sock"  # no process has this number
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(left))
    dead.close()
    with opened() as server:
        assert not left.exists()
        with opened():
            assert server.path is not None and server.path.exists()


def test_what_nobody_answers_at_is_removed_by_who_looks(home: Path) -> None:
    with opened():
        left = home / "appl" / f"{os.getpid()}-999999.sock"  # as if its number were in use again
        dead = socket.socket(socket.AF_UNIX)
        dead.bind(str(left))
        dead.close()
        live_runs()
        assert not left.exists()


def test_who_does_not_answer_in_time_is_listed_as_such(home: Path) -> None:
    with opened():
        path = home / "appl" / f"{os.getpid()}-999998.sock"  # no run has this number
        with socket.socket(socket.AF_UNIX) as silent:
            silent.bind(str(path))
            silent.listen(1)
            found = next(live for live in live_runs(patience_s=0.05) if live.path == path)
            assert "does not answer" in found.error
            assert path.exists()


def test_a_forked_child_has_no_part_in_it(tmp_path: Path) -> None:
    with held(tmp_path / "run.trace") as made, connected(made.socket) as sock:
        sock.sendall(protocol.request("run"))
        assert line_of(sock)
        numbers = [made.session.control_server._socket.fileno()]
        numbers += [visitor.socket.fileno() for visitor in made.session.control_server._clients]
        child = os.fork()
        if not child:
            shut = all(_is_shut(number) for number in numbers)
            made.session.control_server.close()
            os._exit(0 if shut and made.socket.exists() else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert made.socket.exists()
        assert made.ask("run")["state"] == "running"


def _is_shut(number: int) -> bool:
    try:
        return not stat.S_ISSOCK(os.fstat(number).st_mode)
    except OSError:
        return True


@pytest.mark.parametrize("asked_for", [True, False])
def test_where_there_is_no_place_for_a_socket_the_run_goes_on(
    tmp_path: Path, home: Path, asked_for: bool
) -> None:
    """And says so where somebody has asked for it."""
    long, said = home / ("x" * 100), list[str]()
    given = {"ctl": True} if asked_for else {}
    with (
        environment(APPL_CTL_DIR=str(long)),
        recorded(
            lambda: str(programs.answer("a")), tmp_path / "run.trace", say=said.append, **given
        ) as made,
    ):
        made.backend.has("/answer.0/gen.0")
        made.backend.release("/answer.0/gen.0")
        assert made.over()
    told = [line for line in said if "cannot reach this run" in line and "too long" in line]
    assert len(told) == asked_for


def test_a_door_that_was_closed_does_not_open() -> None:
    server = ControlServer(lambda request: request)
    server.close()
    server.open()
    assert server.path is None
    assert list(folder.sockets()) == []


# -- what is shown


def test_messages_are_shown_only_when_asked_for_and_without_secrets(tmp_path: Path) -> None:
    with environment(CTL_TEST_API_KEY="sk-very-secret-0123456789"):
        question = f"{'long ' * 100}my key is sk-very-secret-0123456789"
        with recorded(lambda: str(programs.answer(question)), tmp_path / "run.trace") as made:
            made.backend.has("/answer.0/gen.0")
            assert "prompt" not in made.ask("show")["calls"][0]
            shown = made.ask("show", content=True)
            assert shown["content"] == "shown"
            prompt = shown["calls"][0]["prompt"]
            assert prompt.endswith("my key is [secret CTL_TEST_API_KEY]") and len(prompt) < 250
            made.backend.release("/answer.0/gen.0")
            made.over()


def test_an_answer_is_shown_but_for_what_may_be_the_beginning_of_a_secret(tmp_path: Path) -> None:
    from appl.testing import Streamed

    pieces = ("x" * 500, " sk-very-", "secret-0123456789", " and so on" * 500)
    with (
        environment(CTL_TEST_API_KEY="sk-very-secret-0123456789"),
        recorded(lambda: str(programs.spoken("q")), tmp_path / "run.trace") as made,
    ):
        made.backend._answer = lambda request: Streamed(pieces)
        at = "/spoken.0/gen.0"
        made.backend.has(at)
        for count in range(1, 5):
            made.backend.release(at)

            def said(count: int = count) -> Any:
                call = made.ask("show", content=True)["calls"][0]
                return call if call["streamed"]["pieces"] == count else None

            answer = eventually(said)["answer"]
            assert "sk-" not in answer
        assert "[secret CTL_TEST_API_KEY]" in answer or "and so on" in answer
        made.backend.release(at)
        made.over()


def test_a_run_that_is_recorded_without_texts_shows_none(tmp_path: Path) -> None:
    with held(tmp_path / "run.trace") as made:
        import dataclasses

        from appl.parts.control import About, RequestHandler
        from appl.tracing import Masker

        about = dataclasses.replace(About("run", "p", None, Masker()), content=False)
        handler = RequestHandler(made.run, about)
        found = made.look(lambda run: handler.answer({"do": "show", "content": True}))
        assert found["content"] == "redacted"
        assert "prompt" not in found["calls"][0]


def test_of_many_calls_the_first_are_listed_and_all_are_counted(tmp_path: Path) -> None:
    def program() -> list[str]:
        return [str(each) for each in [programs.answer(str(i)) for i in range(30)]]

    with recorded(program, tmp_path / "run.trace", concurrency=2) as made:
        made.backend.has("/answer.0/gen.0")
        eventually(
            lambda: (
                made.ask("run")["counts"] == {"worker": 2, "queue": 28, "prompt": 0, "record": 0}
            )
        )
        found = made.ask("show", limit=5)
        assert len(found["calls"]) == 5 and found["more"]["calls"] == 25
        assert len(made.ask("show", limit=10**9)["calls"]) == 30
        eventually(lambda: made.backend.release() or made.run.over)

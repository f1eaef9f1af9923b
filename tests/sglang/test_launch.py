from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from appl.errors import MissingExtra, Unsupported
from appl_backends.sglang import pair
from appl_backends.sglang.host_memory import free_bytes, host_cache_gb
from appl_backends.sglang.launch import launched
from appl_backends.sglang.plan import LaunchPlan, check_installed
from appl_backends.sglang.server_process import LaunchFailed

FAKE = """
import json, os, signal, sys, threading
from http.server import BaseHTTPRequestHandler, HTTPServer

args = sys.argv[1:]
def option(name, default=None):
    return args[args.index(name) + 1] if name in args else default

if option("--fail"):
    print("no such model:", option("--fail"))
    sys.exit(3)
if int(option("--hicache-size", 0)) > 100:
    print("ValueError: Not enough host memory available. Requesting 120.00 GB")
    sys.exit(1)
config = option("--config")
keys = json.load(open(config)) if config else {}

class Answers(BaseHTTPRequestHandler):
    def do_GET(self):
        wrong = keys and self.headers.get("Authorization") != "Bearer " + keys["api-key"]
        if self.path == "/die":
            os._exit(7)
        told = {"args": args, "pid": os.getpid(), "path": self.path, "ucx": os.environ.get("UCX_TLS")}
        body = json.dumps(told).encode()
        self.send_response(401 if wrong else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args):
        print("asked with", keys.get("api-key"), flush=True)

server = HTTPServer(("127.0.0.1", int(option("--port"))), Answers)
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
print("ready", flush=True)
server.serve_forever()
"""


@pytest.fixture
def fake(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """An interpreter whose sglang is a small server that says how it was started."""
    site = tmp_path / "site"
    (site / "nixl").mkdir(parents=True)
    (site / "nixl" / "__init__.py").write_text("")
    for package, module in (("sglang", "launch_server"), ("sglang_router", "launch_router")):
        (site / package).mkdir(parents=True)
        (site / package / "__init__.py").write_text("")
        (site / package / f"{module}.py").write_text(FAKE)
    info = site / "sglang-0.dist-info"
    info.mkdir()
    version = getattr(request, "param", "0.5.17")
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: sglang\nVersion: {version}\n")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={site} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return python


def facts(url: str, key: str) -> Any:
    question = urllib.request.Request(f"{url}/facts", headers={"Authorization": f"Bearer {key}"})
    with urllib.request.urlopen(question, timeout=60) as answer:
        return json.load(answer)


def until(found: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not found():
        assert time.monotonic() < deadline
        threading.Event().wait(0.02)


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def plan(fake: Path, **fields: Any) -> LaunchPlan:
    return LaunchPlan("llama", python=str(fake), timeout=60.0, **fields)


def test_a_server_is_started_as_this_runtime_wants_it_and_ends_with_the_block(fake: Path) -> None:
    with launched(plan(fake, more=("--mem-fraction-static", "0.5")), list().append) as launch:
        told = facts(launch.url, launch.api_key)
        args = told["args"]
        assert args[args.index("--schedule-policy") + 1] == "lpm"
        assert args[args.index("--host") + 1] == "127.0.0.1"
        assert {"--enable-cache-report", "--enable-metrics", "--mem-fraction-static"} <= set(args)
        assert "--enable-priority-scheduling" not in args
    assert is_gone(told["pid"])


def test_keys_are_random_and_in_no_command_line(fake: Path) -> None:
    with launched(plan(fake), list().append) as one, launched(plan(fake), list().append) as two:
        keys = {one.api_key, one.admin_key, two.api_key, two.admin_key}
        assert len(keys) == 4
        args = facts(one.url, one.api_key)["args"]
        assert not any(key in arg for key in keys for arg in args)
        config = Path(args[args.index("--config") + 1])
        assert config.stat().st_mode & 0o077 == 0 and config.parent.stat().st_mode & 0o077 == 0
    assert not config.exists()


def test_what_the_user_sets_comes_before_what_the_runtime_wants(fake: Path) -> None:
    with launched(plan(fake, more=("--schedule-policy", "dfs-weight")), list().append) as launch:
        args = facts(launch.url, launch.api_key)["args"]
    assert args.count("--schedule-policy") == 1 and "dfs-weight" in args


def test_priority_goes_with_first_come_first_served(fake: Path) -> None:
    with launched(plan(fake, server_priority=True), list().append) as launch:
        args = facts(launch.url, launch.api_key)["args"]
    assert args[args.index("--schedule-policy") + 1] == "fcfs"
    assert "--enable-priority-scheduling" in args


def test_replicas_stand_behind_the_router_on_gpus_of_their_own(fake: Path) -> None:
    with launched(plan(fake, replicas=2, tp=2), list().append) as launch:
        args = facts(launch.url, launch.api_key)["args"]
        workers = [each for each in args if each.startswith("http://")]
        first, second = (facts(each, launch.api_key) for each in workers)
    bases = [each["args"][each["args"].index("--base-gpu-id") + 1] for each in (first, second)]
    assert bases == ["0", "2"]
    assert is_gone(first["pid"]) and is_gone(second["pid"])


def test_each_gpu_has_its_part_of_the_memory_that_is_kept_for_the_cache(fake: Path) -> None:
    said: list[str] = []
    with launched(plan(fake, replicas=2, tp=2, host_cache=83), said.append) as launch:
        args = facts(launch.url, launch.api_key)["args"]
        (worker, _) = [each for each in args if each.startswith("http://")]
        args = facts(worker, launch.api_key)["args"]
    assert "--enable-hierarchical-cache" in args and args[args.index("--hicache-size") + 1] == "20"
    assert "83 GB" in said[0] and "--host-cache" in said[0]


@pytest.mark.parametrize("more", ["--hicache-ratio=3", "--disable-radix-cache"])
def test_who_settles_the_cache_himself_gets_no_other(fake: Path, more: str) -> None:
    with launched(plan(fake, host_cache=40, more=(more,)), list().append) as launch:
        args = facts(launch.url, launch.api_key)["args"]
    assert more in args and "--enable-hierarchical-cache" not in args


@pytest.mark.parametrize("more", [("--prefill=1", "--decode=1"), ("--disable-radix-cache",)])
def test_memory_for_a_cache_that_gets_none_is_refused(more: tuple[str, ...]) -> None:
    line = [sys.executable, "-m", "appl_backends.sglang.launch", "--model", "llama"]
    done = subprocess.run([*line, "--host-cache", "9", *more], capture_output=True, text=True)
    assert done.returncode == 1 and "--host-cache does nothing beside" in done.stderr


def test_where_the_memory_is_not_there_the_server_starts_without(fake: Path) -> None:
    said: list[str] = []
    with launched(plan(fake, host_cache=120), said.append) as launch:
        args = facts(launch.url, launch.api_key)["args"]
    assert "--enable-hierarchical-cache" not in args
    assert "too small" in said[-1] and "Not enough host memory" in said[-1]


def test_half_of_the_free_memory_is_kept_and_some_is_left_in_any_case() -> None:
    gb = 1_000_000_000
    assert host_cache_gb(1, 200 * gb) == 100 and host_cache_gb(3, 200 * gb) == 99
    assert host_cache_gb(1, 25 * gb) == 9 and host_cache_gb(1, 20 * gb) == 0
    assert host_cache_gb(8, 120 * gb) == 0


def test_the_limit_of_a_container_counts(tmp_path: Path) -> None:
    everything = free_bytes(tmp_path)
    assert everything > 1 << 20
    (tmp_path / "memory.max").write_text("5000000\n")
    (tmp_path / "memory.current").write_text("2000000\n")
    assert free_bytes(tmp_path) == 3_000_000
    (tmp_path / "memory.max").write_text("max\n")
    assert abs(free_bytes(tmp_path) - everything) < everything / 2


def test_a_server_that_dies_at_once_shows_its_log(fake: Path) -> None:
    with (
        pytest.raises(LaunchFailed, match=r"code 3 before it answered(.|\n)*no such model: x"),
        launched(plan(fake, more=("--fail", "x")), list().append),
    ):
        raise AssertionError("it must not start")


def die(url: str) -> None:
    with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/die", timeout=60):
        pass


def test_a_server_that_dies_is_started_again_until_it_is_too_often(fake: Path) -> None:
    said: list[str] = []
    with launched(plan(fake, restarts=1), said.append) as launch:
        failed: list[LaunchFailed] = []

        def look_after() -> None:
            try:
                launch.look_after(threading.Event())
            except LaunchFailed as error:
                failed.append(error)

        watching = threading.Thread(target=look_after)
        watching.start()
        before = facts(launch.url, launch.api_key)["pid"]
        die(launch.url)
        until(
            lambda: (
                any("started again" in line for line in said) and _pid(launch) not in (None, before)
            )
        )
        die(launch.url)
        watching.join(60)
    assert "ended with code 7" in str(failed[0]) and "asked with [secret]" in str(failed[0])


def _pid(launch: Any) -> int | None:
    try:
        return int(facts(launch.url, launch.api_key)["pid"])
    except OSError:
        return None


@contextlib.contextmanager
def command(fake: Path, *more: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """``appl serve sglang --json`` as a process of its own."""
    line = [sys.executable, "-m", "appl_backends.sglang.launch", "--model", "llama", "--json"]
    process = subprocess.Popen(
        [*line, "--python", str(fake), *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        yield process, json.loads(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


def test_the_command_says_where_the_server_is_and_stops_it_cleanly(fake: Path) -> None:
    with command(fake, "--tp", "2") as (process, told):
        found = facts(told["url"], told["api_key"])
        assert found["args"][found["args"].index("--tp-size") + 1] == "2"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert is_gone(found["pid"])


def test_the_command_starts_the_server_again_on_request(fake: Path) -> None:
    with command(fake) as (process, told):
        before = facts(told["url"], told["api_key"])["pid"]
        process.send_signal(signal.SIGHUP)
        until(lambda: is_gone(before))

        def is_back() -> bool:
            with contextlib.suppress(OSError):
                return bool(facts(told["url"], told["api_key"])["pid"] != before)
            return False

        until(is_back)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0


@pytest.mark.parametrize(
    "more",
    [
        "--enable-custom-logit-processor",
        "--api-key=x",
        "--skip-tokenizer-init",
        "--config",
        "--host=::",
        "--hos=::",
        "--api-k",
        "--model-path",
    ],
)
def test_what_opens_a_hole_is_refused(more: str) -> None:
    with pytest.raises(Unsupported, match=more.partition("=")[0]):
        LaunchPlan("llama", more=(more,))


@pytest.mark.parametrize("fields", [{"port": 65536}, {"timeout": float("nan")}, {"restarts": -1}])
def test_numbers_that_mean_nothing_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(Unsupported, match="--restarts at least 0; got"):
        LaunchPlan("llama", **fields)


def test_a_server_that_listens_there_already_is_not_taken_for_the_new_one(fake: Path) -> None:
    with (
        launched(plan(fake), list().append) as launch,
        pytest.raises(LaunchFailed, match="another port by --port"),
        launched(plan(fake, port=int(launch.url.rpartition(":")[2])), list().append),
    ):
        raise AssertionError


def test_a_log_is_for_its_owner_alone(fake: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with launched(plan(fake, log=log), list().append) as launch:
        assert launch.api_key in log.read_text() and log.stat().st_mode & 0o077 == 0
        (child,) = launch._children
        log.write_text(f"{launch.api_key} {launch.admin_key} {'x' * 999}")
        assert child.tail().startswith("[secret] [secret] x")
    missing = tmp_path / "nowhere" / "log"
    with (
        pytest.raises(LaunchFailed, match="log cannot be written: No such file"),
        launched(plan(fake, log=missing), list().append),
    ):
        raise AssertionError


def test_the_world_is_not_served() -> None:
    with pytest.raises(Unsupported, match="proxy"):
        LaunchPlan("llama", more=("--host", "0.0.0.0"))
    with pytest.raises(Unsupported, match="at least 1"):
        LaunchPlan("llama", tp=0)


@pytest.mark.parametrize("fake", ["0.5.9", "0.4.6.post1"], indirect=True)
def test_a_version_with_known_holes_is_refused(fake: Path) -> None:
    with pytest.raises(Unsupported, match="known holes"):
        check_installed(str(fake))


@pytest.mark.parametrize("fake", ["0.5.23"], indirect=True)
def test_a_later_version_is_fine(fake: Path) -> None:
    assert check_installed(str(fake)) == "0.5.23"


def test_an_interpreter_without_sglang_is_named() -> None:
    with pytest.raises(MissingExtra, match=re.escape("pip install 'appl[sglang-server]'")):
        check_installed(sys.executable)
    with pytest.raises(Unsupported, match="--python /nowhere cannot be run: No such file"):
        check_installed("/nowhere")


# -- pairs

APART = {"prefill": 1, "decode": 1}
HALF = ("--mem-fraction-static", "0.4")


def look_after(launch: Any) -> None:
    """Look after *launch* until it is stopped, perhaps while it starts something again."""
    with contextlib.suppress(LaunchFailed):
        launch.look_after(threading.Event())


def option(told: Any, name: str) -> str | None:
    args = told["args"]
    return args[args.index(name) + 1] if name in args else None


def test_servers_for_prompts_and_for_answers_are_started_on_gpus_of_their_own(fake: Path) -> None:
    with launched(plan(fake, tp=2, host_cache=99, **APART), list().append) as launch:
        first, second = (
            facts(launch.settings[name], launch.api_key) for name in ("prefill", "url")
        )
        modes = [option(each, "--disaggregation-mode") for each in (first, second)]
        assert modes == ["prefill", "decode"]
        assert [option(each, "--base-gpu-id") for each in (first, second)] == [None, "2"]
        assert option(first, "--disaggregation-bootstrap-port") is not None
        for each in (first, second):
            assert option(each, "--disaggregation-transfer-backend") == "nixl"
            assert option(each, "--hicache-size") is None and "cuda_ipc" in each["ucx"]
        assert "--disaggregation-decode-enable-radix-cache" in second["args"]
    assert is_gone(first["pid"]) and is_gone(second["pid"])


def test_another_way_to_hand_over_is_taken_as_it_is(fake: Path) -> None:
    more = ("--disaggregation-transfer-backend", "mooncake")
    with launched(plan(fake, more=more, **APART), list().append) as launch:
        args = facts(launch.url, launch.api_key)["args"]
    assert args.count("--disaggregation-transfer-backend") == 1 and "nixl" not in args
    assert "--disaggregation-decode-enable-radix-cache" not in args


def test_without_the_library_that_hands_over_nothing_is_started(fake: Path, tmp_path: Path) -> None:
    (tmp_path / "site" / "nixl" / "__init__.py").unlink()
    (tmp_path / "site" / "nixl").rmdir()
    with (
        pytest.raises(MissingExtra, match="pip install nixl"),
        launched(plan(fake, **APART), list().append),
    ):
        raise AssertionError


@pytest.mark.parametrize("which", ["prefill", "url"])
def test_when_one_of_the_two_dies_both_are_started_again(fake: Path, which: str) -> None:
    lines: list[str] = []
    with launched(plan(fake, restarts=1, **APART), lines.append) as launch:
        before = {name: facts(launch.settings[name], launch.api_key) for name in ("prefill", "url")}
        watching = threading.Thread(target=look_after, args=(launch,))
        watching.start()
        die(launch.settings[which])
        until(lambda: any("is started again" in line for line in lines))
        pids = {each["pid"] for each in before.values()}
        until(lambda: all(is_gone(pid) for pid in pids))
        for child in launch._children:
            child.wait_ready(60)
        after = {facts(launch.settings[name], launch.api_key)["pid"] for name in before}
        launch.stopping.set()
        watching.join()
    assert len(after) == 2 and not after & pids and all(map(is_gone, after))


def test_a_server_that_speculates_starts_when_the_plain_one_is_ready(fake: Path) -> None:
    lines: list[str] = []
    with launched(plan(fake, drafting=True, host_cache=9, more=HALF), lines.append) as launch:
        plain, other = (
            facts(launch.settings[name], launch.api_key) for name in ("url", "drafting")
        )
        assert option(plain, "--speculative-algorithm") is None
        assert option(other, "--speculative-algorithm") == "NGRAM"
        assert [option(each, "--hicache-size") for each in (plain, other)] == ["9", None]
        assert [each["args"].count(HALF[0]) for each in (plain, other)] == [1, 1]
    assert is_gone(plain["pid"]) and is_gone(other["pid"])


@pytest.mark.parametrize(("which", "kept"), [("url", False), ("drafting", True)])
def test_a_plain_server_that_dies_takes_the_one_beside_it_along(
    fake: Path, which: str, kept: bool
) -> None:
    lines: list[str] = []
    with launched(plan(fake, drafting=True, restarts=1, more=HALF), lines.append) as launch:
        urls = [launch.settings[name] for name in ("url", "drafting")]
        before = [facts(url, launch.api_key)["pid"] for url in urls]
        watching = threading.Thread(target=look_after, args=(launch,))
        watching.start()
        dead = before[["url", "drafting"].index(which)]
        die(launch.settings[which])
        until(lambda: any("is started again" in line for line in lines) and is_gone(dead))
        if not kept:
            until(lambda: all(map(is_gone, before)))
        for child in launch._children:
            child.wait_ready(60)
        assert (facts(urls[0], launch.api_key)["pid"] == before[0]) is kept
        launch.stopping.set()
        watching.join()


def weights(folder: Path, gb: int) -> str:
    """A model's folder with weights of a size that is no more than a number."""
    folder.mkdir()
    with (folder / "model.safetensors").open("wb") as file:
        file.truncate(gb * 1_000_000_000)
    return str(folder)


def test_the_memory_of_a_gpu_is_divided_by_what_each_server_finds_free(tmp_path: Path) -> None:
    wanted = LaunchPlan(weights(tmp_path / "model", 16), drafting=True)
    plain, other = pair.beside(wanted, lambda: 80e9)
    first = float(plain["--mem-fraction-static"] or 0) * 80
    second = float(other["--mem-fraction-static"] or 0) * (80 - first - 4)
    assert first + second + 2 * 4 == pytest.approx(80, abs=0.1)
    assert first - 16 == pytest.approx(0.7 * 40, abs=0.1)
    assert second - 16 == pytest.approx(0.3 * 40, abs=0.1)


@pytest.mark.parametrize(
    ("gb", "free", "said"),
    [(30, 70e9, r"2 x 30\.0 GB.*70\.0 GB are free"), (16, None, "memory of the GPU"),
     (0, 80e9, "size of")],
)  # fmt: skip
def test_why_two_servers_do_not_fit_on_a_gpu_is_said(
    tmp_path: Path, gb: int, free: float | None, said: str
) -> None:
    wanted = LaunchPlan(weights(tmp_path / "model", gb), drafting=True)
    with pytest.raises(Unsupported, match=said):
        pair.beside(wanted, lambda: free)


@pytest.mark.parametrize(
    "fields",
    [{"prefill": 1}, {"prefill": 2, "decode": 1}, {**APART, "drafting": True},
     {**APART, "replicas": 2}, {"drafting": True, "replicas": 2},
     {"drafting": True, "adapters": {"a": "b"}}],
)  # fmt: skip
def test_what_does_not_go_together_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(Unsupported, match="--"):
        LaunchPlan("llama", **fields)


def test_the_command_names_the_second_server(fake: Path) -> None:
    with command(fake, "--prefill", "1", "--decode", "1") as (process, said):
        found = [facts(said[name], said["api_key"]) for name in ("prefill", "url")]
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert [option(each, "--disaggregation-mode") for each in found] == ["prefill", "decode"]
    assert all(is_gone(each["pid"]) for each in found)

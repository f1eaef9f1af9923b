"""Each check of what a server answers, and of what a server is asked, taken out: a named test fails."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controls.test_controls import ROOT, Control, outcome

TESTS = ("servers", "serving", "faults", "providers")
GUARD = "backends/appl_backends/guard.py"
SERVING = "backends/appl_backends/embedded/server"
HOSTILE = "servers/test_hostile_servers.py"
MATRIX = "servers/test_matrix.py"
ARRIVALS = "serving/test_arrivals.py"

CONTROLS = {
    "redirects are followed": Control(
        GUARD,
        '    options["follow_redirects"] = False\n',
        "",
        f"{HOSTILE}::test_no_client_follows_a_redirect[whole-openai]",
    ),
    "litellm's clients keep no rule": Control(
        "backends/appl_backends/litellm.py",
        '    guard_clients(importlib.import_module("httpx"))\n',
        "",
        f"{HOSTILE}::test_no_client_follows_a_redirect[whole-litellm]",
    ),
    "litellm's blocking clients keep no rule": Control(
        GUARD,
        "        (library.Client, guarded_blocking_send),\n",
        "",
        "servers/test_providers_of_litellm.py::"
        "test_a_blocking_client_follows_no_redirect_and_reads_no_more_than_it_may",
    ),
    "no deadline for a question": Control(
        "backends/appl_backends/sglang/wire.py",
        "            async with asyncio.timeout(seconds):\n",
        "            async with asyncio.timeout(seconds + 3):\n",
        f"{HOSTILE}::test_a_question_about_the_server_has_a_deadline_of_its_own",
    ),
    "no deadline for a call": Control(
        "appl/runtime/scheduling/attempts.py",
        '                late.set("total", total)\n',
        '                late.set("total", total + 3)\n',
        f"{MATRIX}::test_silence_and_drips_end_at_the_deadline_of_the_call[openai-whole]",
    ),
    "numbers of any size": Control(
        "appl/backend_check.py",
        "    if not 0 <= value <= MOST:\n",
        "    if not 0 <= value:\n",
        f"{HOSTILE}::test_no_backend_stops_a_run_by_its_answer",
    ),
    "numbers that are none": Control(
        "appl/backend_check.py",
        "    if math.isnan(found) or found == math.inf:\n",
        "    if found == math.inf:\n",
        f"{HOSTILE}::test_no_backend_stops_a_run_by_its_answer",
    ),
    "no check of what a backend answers": Control(
        "appl/runtime/scheduling/attempts.py",
        "        check_response(response, self.name)\n",
        "",
        f"{HOSTILE}::test_no_backend_stops_a_run_by_its_answer",
    ),
    "JSON of any depth": Control(
        "appl/backend_http.py",
        "    with suppress(ValueError, RecursionError):",
        "    with suppress(ValueError):",
        f"{HOSTILE}::test_bytes_of_hostile_servers_are_answers_or_typed_errors",
    ),
    "compressed answers are unpacked": Control(
        GUARD,
        "    if asked.status is not None or encoding in _PLAIN:\n",
        "    if True:\n",
        f"{HOSTILE}::test_a_compressed_answer_is_refused_by_every_client[openai]",
    ),
    "pages of other origins get answers": Control(
        f"{SERVING}/app.py",
        "        self._hosts.check(request)\n",
        "",
        "serving/test_fuzz.py::test_a_page_of_another_origin_gets_no_answer_with_or_without_keys",
    ),
    "texts of any length are worked on": Control(
        f"{SERVING}/app.py",
        "        if len(prompt) > room * self._backend.tokenizer.longest:\n",
        "        if room < 0:\n",
        "serving/test_fuzz.py::test_large_bodies_are_refused_before_the_work[tokenize]",
    ),
    "bodies are read before they are refused": Control(
        f"{SERVING}/guard.py",
        "    if (request.content_length or 0) > most_bytes:\n",
        "    if most_bytes < 0:\n",
        f"{ARRIVALS}::test_a_body_above_the_limit_is_refused_before_it_is_sent",
    ),
    "compressed requests are worked on": Control(
        f"{SERVING}/guard.py",
        '    if coding not in ("identity", ""):\n',
        "    if most_bytes < 0:\n",
        f"{ARRIVALS}::test_a_compressed_body_is_refused_whether_it_is_good_or_bad",
    ),
    "half-open requests stay": Control(
        f"{SERVING}/guard.py",
        "                connection.force_close()\n",
        "                pass\n",
        f"{ARRIVALS}::test_requests_that_do_not_end_are_ended_and_long_answers_are_not",
    ),
    "tracebacks of malformed requests": Control(
        f"{SERVING}/process.py",
        "    log.addFilter(OneLine())\n",
        "",
        f"{ARRIVALS}::test_a_malformed_request_is_one_line_of_the_log",
    ),
    "a route that works without a key": Control(
        f"{SERVING}/keys.py",
        'OPEN_PATHS = ("/health", "/metrics")',
        'OPEN_PATHS = ("/health", "/metrics", "/health_generate")',
        "serving/test_keys.py::test_no_route_opens_without_its_key[GET-/health_generate]",
    ),
}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, its backends and the tests that judge them; the weights are where they were."""
    folder = tmp_path_factory.mktemp("copy")
    weights = Path("backends", "appl_backends", "embedded", "weights")
    ignored = shutil.ignore_patterns("__pycache__", "weights")
    for name in ("appl", "backends/appl_backends", *(f"tests/{name}" for name in TESTS)):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    (folder / weights).symlink_to(ROOT / weights)
    for name in ("tests/fuzzed.py", "tests/test_imports.py", "pyproject.toml"):
        shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture
def changed(copy: Path) -> Iterator[Path]:
    """The copy, whose files are as they were again afterwards."""
    before = {each.file: (copy / each.file).read_text() for each in CONTROLS.values()}
    yield copy
    for name, text in before.items():
        (copy / name).write_text(text)


def test_the_named_tests_of_servers_pass_when_nothing_is_taken_out(copy: Path) -> None:
    code, said = outcome(copy, *{control.test for control in CONTROLS.values()})
    assert code == 0, said


@pytest.mark.parametrize("name", CONTROLS)
def test_without_its_check_the_named_test_fails(name: str, changed: Path) -> None:
    control = CONTROLS[name]
    file = changed / control.file
    text = file.read_text()
    assert text.count(control.old) == 1, f"the place in {control.file} has changed"
    file.write_text(text.replace(control.old, control.new))
    code, said = outcome(changed, control.test)
    assert code == 1 and "failed" in said.lower(), said

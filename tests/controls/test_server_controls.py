"""Each check of what a server answers, and of what a server is asked, taken out: a named test fails."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controls.test_controls import ROOT, Control, outcome, take_out

TESTS = ("connections", "servers", "serving", "faults", "providers")
GUARD = "backends/appl_backends/guard.py"
SERVING = "backends/appl_backends/embedded/server"
HOSTILE = "servers/test_hostile_servers.py"
CLIENT = "connections/test_client.py"
HTTP = "backends/appl_backends/http"
SEAM = f"{HOSTILE}::test_no_backend_stops_a_run_by_its_answer"
LIMIT = f"{HOSTILE}::test_a_body_is_read_up_to_the_limit_and_no_further"
AGAIN = (
    GUARD,
    '    if request.headers.get("x-stainless-retry-count", "0") != "0":\n',
    '    if request.headers.get("x-stainless-retry-count") == "never":\n',
)
NOT_AGAIN = (GUARD, '("x-should-retry", "false")', '("x-should-retry", "true")')
MATRIX = "servers/test_matrix.py"
ARRIVALS = "serving/test_arrivals.py"

CONTROLS = {
    "redirects are followed": Control(
        GUARD,
        '    options["follow_redirects"] = False\n',
        "",
        f"{HOSTILE}::test_no_client_follows_a_redirect[whole-litellm]",
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
    "a question that is over keeps its error": Control(
        GUARD,
        "    error, asked.error = asked.error, None  #",
        "    error = asked.error  #",
        "servers/test_memory.py::"
        "test_nothing_holds_the_error_of_an_answer_when_its_run_is_over[whole-litellm]",
    ),
    "an answer that sends elsewhere is like any other": Control(
        "appl/backend/http.py",
        "    if 300 <= status < 400:\n",
        "    if status < 300:\n",
        f"{HOSTILE}::test_no_client_follows_a_redirect[whole-sglang]",
    ),
    "a question is asked again on a new connection": Control(
        f"{HTTP}/client.py",
        '    return error.unsent or head.startswith(b"GET ")\n',
        "    return True\n",
        f"{CLIENT}::test_a_question_that_a_server_may_work_on_is_not_asked_twice",
    ),
    "the environment's account goes to every server": Control(
        "backends/appl_backends/openai/connection.py",
        "        if not (settings.of_environment or settings.is_azure):\n",
        "        if settings.base_url is None:\n",
        f"{CLIENT}::test_the_environment_names_an_account_only_for_its_own_server",
    ),
    "litellm tries again": Control(
        "backends/appl_backends/litellm.py",
        '            "num_retries": 0,\n            "max_retries": 0,\n',
        '            "num_retries": 2,\n            "max_retries": 2,\n',
        f"{HOSTILE}::test_no_library_tries_again_by_itself[litellm]",
        (AGAIN, NOT_AGAIN),
    ),
    "litellm's client reads bodies of any length": Control(
        GUARD,
        "        if self._size > self._most or self._line > ANSWER_BYTES:\n",
        "        if self._size < 0:\n",
        f"{LIMIT}[whole-litellm]",
    ),
    "our client reads bodies of any length": Control(
        f"{HTTP}/connection.py",
        "            if self._size > min(self._most, ERROR_BYTES) and not self._fits():\n",
        "            if self._size < 0:\n",
        f"{LIMIT}[whole-sglang]",
    ),
    "lines of a stream of any length": Control(
        f"{HTTP}/events.py",
        "        if self._line_size > ANSWER_BYTES:\n",
        "        if self._line_size < 0:\n",
        f"{LIMIT}[stream-sglang]",
    ),
    "openai's client connects for ever": Control(
        "backends/appl_backends/openai/connection.py",
        "connect=settings.connect_s,",
        "connect=60.0,",
        f"{HOSTILE}::test_making_a_connection_has_a_deadline[openai]",
    ),
    "sglang's client connects for ever": Control(
        "backends/appl_backends/sglang/wire.py",
        "HttpClient(url, connect=connect,",
        "HttpClient(url, connect=60.0,",
        f"{HOSTILE}::test_making_a_connection_has_a_deadline[sglang]",
    ),
    "no deadline for a question": Control(
        "backends/appl_backends/sglang/wire.py",
        "            async with asyncio.timeout(seconds):\n",
        "            async with asyncio.timeout(seconds + 1.5):\n",
        f"{HOSTILE}::test_a_question_about_the_server_has_a_deadline_of_its_own",
    ),
    "no deadline for a call": Control(
        "appl/runtime/scheduling/dispatcher.py",
        '            late.set("total", total)\n',
        '            late.set("total", total + 1.5)\n',
        f"{MATRIX}::test_silence_and_drips_end_at_the_deadline_of_the_call[openai-whole]",
    ),
    "numbers of any size": Control(
        "appl/backend/check.py",
        "(type(value) is int and 0 <= value <= MOST):\n",
        "(type(value) is int and 0 <= value):\n",
        f"{SEAM}[count]",
    ),
    "numbers that are none": Control(
        "appl/backend/check.py",
        "    if math.isnan(number) or number == math.inf:\n",
        "    if number == math.inf:\n",
        f"{SEAM}[scores]",
    ),
    "no check of what a backend answers": Control(
        "appl/runtime/scheduling/dispatcher.py",
        "            check_response(response, self.name)\n",
        "",
        f"{SEAM}[nothing]",
    ),
    "texts of an answer of any type": Control(
        "appl/backend/check.py",
        '        text_in(sample.text, "text")\n'
        '        text_in(sample.finish_reason, "finish_reason")\n',
        "",
        f"{SEAM}[text]",
    ),
    "JSON of any depth": Control(
        "appl/backend/check.py",
        "    except (ValueError, RecursionError) as error:",
        "    except ValueError as error:",
        f"{HOSTILE}::test_an_answer_that_is_nested_deeply_is_malformed",
    ),
    "litellm's compressed answers are unpacked": Control(
        GUARD,
        "    if asked.status is not None or encoding in _PLAIN:\n",
        "    if True:\n",
        f"{HOSTILE}::test_a_compressed_answer_is_refused_by_every_client[litellm]",
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
        "appl/parts/web/guard.py",
        "    if (request.content_length or 0) > most_bytes:\n",
        "    if most_bytes < 0:\n",
        f"{ARRIVALS}::test_a_length_above_the_limit_is_refused_before_the_body_comes",
    ),
    "compressed requests are worked on": Control(
        "appl/parts/web/guard.py",
        '    if coding not in ("identity", ""):\n',
        "    if most_bytes < 0:\n",
        f"{ARRIVALS}::test_a_compressed_body_is_refused_whether_it_is_good_or_bad",
    ),
    "half-open requests stay": Control(
        "appl/parts/web/guard.py",
        "                connection.force_close()\n",
        "                pass\n",
        f"{ARRIVALS}::test_a_head_that_does_not_end_is_ended",
    ),
    "tracebacks of malformed requests": Control(
        f"{SERVING}/process.py",
        "    log.addFilter(OneLine())\n",
        "",
        f"{ARRIVALS}::test_a_malformed_request_is_one_line_of_the_log",
    ),
    "a route that works without a key": Control(
        "appl/parts/web/keys.py",
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
    files = {name for control in CONTROLS.values() for name, _, _ in control.places}
    before = {name: (copy / name).read_text() for name in files}
    yield copy
    for name, text in before.items():
        (copy / name).write_text(text)


@pytest.mark.long
def test_the_named_tests_of_servers_pass_when_nothing_is_taken_out(copy: Path) -> None:
    code, said = outcome(copy, *{control.test for control in CONTROLS.values()})
    assert code == 0, said


@pytest.mark.long
@pytest.mark.parametrize("name", CONTROLS)
def test_without_its_check_the_named_test_fails(name: str, changed: Path) -> None:
    take_out(CONTROLS[name], changed)
    code, said = outcome(changed, CONTROLS[name].test)
    assert code == 1 and "failed" in said.lower(), said

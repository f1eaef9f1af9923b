"""The page about security says no more than tests hold, sentence by sentence."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import subprocess
import sys
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from appl.config.classes import needs
from appl.tracing import Masker
from tests.canaries.cage import command

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text("utf-8")
ADVICE, OWN = "advice", "what it is by its nature"
HELD = {
    "A project folder": {
        "The settings file of a": "trust/test_approval.py::test_names_and_numbers_need_no_approval",
        "Even a name matters:": OWN,
        "`model = \"litellm/replicate/somebody/their-model\"` sends all prompts": "docs/test_security.py::test_a_name_that_sends_prompts_to_a_stranger_needs_no_approval",
        "Check the names in a": ADVICE,
        "`appl config` shows each one": "docs/test_security.py::test_names_are_shown_with_their_file",
        "Settings that name code, addresses,": "trust/test_hostile_settings.py::test_no_value_of_any_key_has_an_effect_without_approval",
        "This applies to every command,": "trust/test_hostile_settings.py::test_no_process_goes_on_without_approval",
        "A server in an `appl.yaml`": "trust/test_hostile_settings.py::test_no_value_of_any_key_has_an_effect_without_approval",
        "A setting that `appl` does": "trust/test_hostile_settings.py::test_a_setting_without_a_class_needs_approval",
        "Approvals are stored outside of": "trust/test_state_folder.py::test_a_folder_that_others_may_write_to_is_refused",
        "A changed file needs a": "trust/test_approval.py::test_approved_is_what_was_shown_and_a_change_is_asked_again",
        "`appl` does not sandbox code that": OWN,
        "Python itself imports modules from": OWN,
        "In such a folder, type": "trust/test_hostile_settings.py::test_a_module_of_the_folder_stands_for_no_library",
    },
    "Traces": {
        "Reading, showing, comparing and exporting": "docs/test_security.py::test_reading_a_trace_starts_imports_and_sends_nothing",
        "Nothing is sent, unless `--otel`": "docs/test_security.py::test_reading_a_trace_starts_imports_and_sends_nothing",
        "The memory of the reader": "hostile/test_hostile.py::test_bombs_take_little_memory",
        "A trace is one of": "trust/test_signing.py::test_every_block_is_signed_as_it_is_written",
        "Its location proves nothing:": "trust/test_runs.py::test_the_same_command_goes_on_with_no_forged_run",
        "Without `--trust`, `appl` does not": "trust/test_runs.py::test_no_command_starts_the_program_of_a_forged_run",
        "It makes no test from": "trust/test_runs.py::test_no_command_starts_the_program_of_a_forged_run",
        "With `--trust`, its recorded program": "trust/test_runs.py::test_a_module_is_not_started_from_another_folder",
        "Anyone who can read your": OWN,
        "Somebody can remove the last": "trust/test_runs.py::test_a_run_that_had_ended_is_not_cut_unseen",
        "Both then look like a": "trust/test_runs.py::test_a_run_that_had_ended_is_not_cut_unseen",
        "A tape of the pytest": "trust/test_runs.py::test_a_tape_is_replayed_with_trust_only",
        "It is a file of": OWN,
        "The same holds for a": "trust/test_runs.py::test_a_program_that_opens_a_forged_run_says_that_it_trusts_it",
        "Because `resumed` and `rerun` call": "trust/test_runs.py::test_a_program_that_opens_a_forged_run_says_that_it_trusts_it",
        "A trace holds prompts and": OWN,
        "[Secrets] are masked: values of": "canaries/test_names.py::test_no_secret_passes_in_any_encoding",
        "Unknown secrets are masked if": "canaries/test_published.py::test_of_the_published_shapes_95_in_100_are_masked",
        "These are not masked: secrets of": "docs/test_security.py::test_what_is_not_masked_is_said",
        "A known secret is not": "docs/test_security.py::test_where_a_known_secret_is_not_found_is_said",
        "Prompts are identified by digests": "canaries/test_shapes.py::test_a_run_with_a_key_in_its_prompt_is_read_without_it_and_replayed",
        "Exports, `appl ctl`, messages and": "canaries/test_places.py::test_no_secret_is_in_a_run_and_in_what_is_made_of_it",
        "For texts that nobody may": ADVICE,
        "A private trace refuses records": "tracing/test_unknown_kinds.py::test_what_the_filter_does_not_know_is_refused",
        "If a trace is removed": "tracing/test_lost_file.py::test_no_further_call_is_started",
        "A trace that is removed": OWN,
    },
    "Other users of the machine": {
        "Only their owner can open": "ctl/test_control_server.py::test_only_this_user_may_enter_the_folder_and_open_the_socket",
        "The superuser can read everything.": OWN,
    },
    "Model servers": {
        "No client follows a redirect": "servers/test_hostile_servers.py::test_no_client_follows_a_redirect",
        "Every request has a timeout,": "servers/test_hostile_servers.py::test_a_question_about_the_server_has_a_deadline_of_its_own",
        "Both rules also hold for": "exports/test_otel.py::test_a_refusal_is_explained_and_a_redirect_is_not_followed",
        "The size of an answer": "servers/test_hostile_servers.py::test_bytes_of_hostile_servers_are_answers_or_typed_errors",
        "Certificates are checked.": "connections/test_client.py::test_a_proxy_tunnels_tls_and_sees_no_key",
        "A [proxy] that the environment": "connections/test_client.py::test_a_proxy_tunnels_tls_and_sees_no_key",
        "If a server repeats a": "canaries/test_headers.py::test_no_secret_of_a_header_is_recorded_or_shown",
        "An error keeps nothing of": "servers/test_memory.py::test_many_large_wrong_answers_leave_the_memory_as_it_was",
        "[Providers] and [limits] give the": ADVICE,
    },
    "Callers of `appl serve`": {
        "A caller needs a key,": "serving/test_keys.py::test_no_route_opens_without_its_key",
        "Requests from pages of another origin": "serving/test_fuzz.py::test_a_page_of_another_origin_gets_no_answer_with_or_without_keys",
        "The size of a request": "serving/test_fuzz.py::test_large_bodies_are_refused_before_the_work",
        "Questions that a [served function]": "served/test_functions.py::test_answers_and_second_tries_need_the_admin_key",
        "[Serving] has the details.": ADVICE,
        "The server speaks plain HTTP:": ADVICE,
    },
}  # fmt: skip
"""Of the sections whose sentences are held one by one: the first words of each, and its test."""


def sentences(section: str) -> Iterator[str]:
    """The sentences of a section, without the addresses of links."""
    text = re.sub(r"\]\([^)]*\)", "]", PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0])
    for paragraph in text.split("\n\n"):
        for each in re.split(r"(?<=[.?:])\s+(?=[A-Z`\[])", " ".join(paragraph.split())):
            if each:
                yield each


@cache
def names_in(file: str) -> set[str]:
    return set(re.findall(r"def (test_\w+)\(", (ROOT / "tests" / file).read_text("utf-8")))


@pytest.mark.parametrize("section", HELD)
def test_each_sentence_has_a_test_that_holds_it(section: str) -> None:
    for each in sentences(section):
        found = [test for begun, test in HELD[section].items() if each.startswith(begun)]
        assert found, f"say in HELD which test holds this sentence: {each}"
        file, _, test = max(found, key=len).partition("::")
        assert not test or test in names_in(file), f"{file} has no {test}"


# -- what no other test holds

SECRET = "q7Rb2Lx9Wm4Kd8Zs1Tp6"


def is_masked(said: str, secret: str = SECRET) -> bool:
    return secret not in Masker({"KNOWN": "known-secret-of-a-program"}).text(said, [])


def test_what_is_not_masked_is_said() -> None:
    assert is_masked(f"API_TOKEN={SECRET}")
    assert not is_masked("password: x7Y2zq", "x7Y2zq")  # fewer than eight characters
    assert not is_masked(f"favourite: {SECRET}")
    assert not is_masked(f"It is {SECRET}")
    assert not is_masked("password: correct-horse-battery-staple", "correct-horse")
    assert not is_masked(f"it is {base64.b64encode(SECRET.encode()).decode()}", "cTdSYjJ")


def test_where_a_known_secret_is_not_found_is_said() -> None:
    secret = "known-secret-of-a-program"
    twice = base64.b64encode(base64.b64encode(secret.encode())).decode()
    packed = base64.b64encode(zlib.compress(secret.encode() * 9)).decode()
    for said in (secret.upper(), "-".join(secret), twice, packed):
        assert not is_masked(f"it is {said}", said)
    in_lines = "\n".join(secret[at : at + 6] for at in range(0, len(secret), 6))
    assert not is_masked(in_lines, in_lines)


FOLDER = {"model": "litellm/replicate/somebody/their-model"}


def test_a_name_that_sends_prompts_to_a_stranger_needs_no_approval(tmp_path: Path) -> None:
    assert needs(FOLDER, tmp_path) == []
    assert needs({**FOLDER, "backends": {"litellm": {"base_url": "http://h"}}}, tmp_path)


def test_names_are_shown_with_their_file(tmp_path: Path) -> None:
    (tmp_path / "appl.toml").write_text(f'model = "{FOLDER["model"]}"\n')
    with contextlib.chdir(tmp_path):
        code, out = command("config")
    line = next(line for line in out.splitlines() if FOLDER["model"] in line)
    assert code == 0 and "appl.toml" in line


WATCHED = """\
import json, os, sys
events = []
def note(event, args):
    if event in ("socket.connect", "socket.sendto", "subprocess.Popen", "os.exec", "os.posix_spawn",
                 "os.system", "os.fork", "pty.spawn", "webbrowser.open"):
        events.append([event, repr(args)[:200]])
    if event == "exec" and str(getattr(args[0], "co_filename", "")).startswith(os.getcwd()):
        events.append([event, args[0].co_filename])
from appl.cli import main
sys.path.insert(0, os.getcwd())
sys.addaudithook(note)
for words in json.loads(sys.argv[1]):
    try:
        code = main(words)
    except SystemExit as done:
        code = done.code
    if code:
        events.append([code, words])
print(json.dumps(events), file=sys.stderr)
"""
READING = [
    ["trace", "show", "last"], ["trace", "show", "last", "--json"], ["trace", "ls"], ["trace", "cost", "last"],
    ["trace", "diff", "last", "last"], ["trace", "critical", "last"], ["trace", "verify", "last"],
    ["trace", "export", "last", "--jsonl", "a.jsonl", "--markdown", "a.md", "--chrome", "a.json",
     "--otel-file", "a.spans", "--html", "a.html"],
]  # fmt: skip


PROGRAM = """\
from appl import as_tool, gen, ppl
from appl.testing import Echo

@ppl
def ask(question: str = "What?"):
    f"{question}"
    return gen()

def backend():
    return Echo()
"""


def test_reading_a_trace_starts_imports_and_sends_nothing(tmp_path: Path) -> None:
    """The program of the run and its backend lie where the commands are typed."""
    (tmp_path / "prog.py").write_text(PROGRAM)
    with contextlib.chdir(tmp_path):
        code, out = command("run", "prog.py:ask", "--backend", "prog:backend", "--quiet")
        assert code == 0, out
    for words, seen in (
        ([["run", "prog.py:ask", "--backend", "prog:backend"]], True),
        (READING, False),
    ):
        done = subprocess.run(
            [sys.executable, "-c", WATCHED, json.dumps(words)], cwd=tmp_path, text=True,
            capture_output=True, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        events = json.loads(done.stderr.splitlines()[-1])
        assert bool(events) == seen, events

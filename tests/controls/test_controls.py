"""Each safeguard of traces, taken out of a copy of the package, makes the test named here fail.

Those of the writer's flush and of the repair of a torn tail are in ``tests/kills``; those of resume
beside its tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = (
    "tracing", "traces", "hostile", "tools", "canaries", "trust", "exports", "housekeeping", "cli",
    "privacy",
)  # fmt: skip


@dataclass(frozen=True)
class Control:
    """*old*, which *file* reads once, becomes *new*, and *test* fails.

    The same is done for *more*, where several places keep one rule.
    """

    file: str
    old: str
    new: str
    test: str
    more: tuple[tuple[str, str, str], ...] = ()

    @property
    def places(self) -> tuple[tuple[str, str, str], ...]:
        """All files, what is taken out there, and what is put in its place."""
        return ((self.file, self.old, self.new), *self.more)


def take_out(control: Control, root: Path) -> None:
    """Take *control* out of the package below *root*."""
    for name, old, new in control.places:
        text = (root / name).read_text()
        assert text.count(old) == 1, f"the place in {name} has changed"
        (root / name).write_text(text.replace(old, new))


CONTROLS = {
    "a key of content alone, in recording order": Control(
        "tracing/replaying/replayer.py",
        "        record = self.trace.by_address.get(request.address)\n"
        "        if record is None or not answers(self.trace, record, request):\n",
        "        same = [each for each in self.trace.calls if each.content == request.digest]\n"
        "        record = next((each for each in same if each.address not in self.claimed), None)\n"
        "        if record is None:\n",
        "tracing/test_replayer.py::test_samples_of_one_prompt_keep_their_answers_whoever_asks_first",
    ),
    "answers delivered as soon as they are asked for": Control(
        "tracing/replaying/sequencer.py",
        "        self.park(turn, answer)\n",
        "        answer()\n",
        "tracing/test_replayer.py::test_answers_come_in_the_order_in_which_they_were_delivered",
    ),
    "no check of the length that a frame claims": Control(
        "tracing/format/block.py",
        "if frame.content_size != raw_length or frame.window_size > MAX_RAW:",
        "if frame.window_size > 1 << 40:",
        "tracing/test_corruption.py::test_bombs_are_refused_within_bounded_memory",
    ),
    "no checksum": Control(
        "tracing/format/block.py",
        "    if zlib.crc32(payload, zlib.crc32(head[8:])) != crc:\n        return None\n",
        "",
        "tracing/test_corruption.py::test_a_flipped_bit_gives_a_prefix_or_a_named_error",
    ),
    "no name of the block before": Control(
        "tracing/format/block.py",
        "    if (number, previous) != (state.blocks, state.last) or length > min(remaining, _LONGEST):\n",
        "    if number != state.blocks or length > min(remaining, _LONGEST):\n",
        "hostile/test_hostile.py::test_two_traces_that_were_put_together_are_told_from_one",
    ),
    "no count of what records take": Control(
        "tracing/format/allowance.py",
        "    def check(self, size: int) -> None:\n",
        "    def check(self, size: int) -> None:\n        self.most = 1 << 62\n",
        "tracing/test_corruption.py::test_bombs_are_refused_within_bounded_memory",
    ),
    "a list that is swapped in place of a deque": Control(
        "tracing/recording/writer.py",
        "        while self.entries and size < GROUP_BYTES:\n"
        "            head = item, weight = self.entries.popleft()\n"
        "            if weight == _CALL:\n"
        "                calls.append(item)\n"
        "            elif calls:\n"
        "                # A callback was promised that all before it is written, and no more. So the "
        "group\n"
        "                # ends here, and this item opens the next one.\n"
        "                self.entries.appendleft(head)\n"
        "                break\n"
        "            else:\n"
        "                items.append(item)\n"
        "                size += weight\n",
        "        for item, weight in list(self.entries):\n"
        "            if weight == _CALL:\n"
        "                calls.append(item)\n"
        "            else:\n"
        "                items.append(item)\n"
        "                size += weight\n"
        "        self.entries = deque()\n",
        "tracing/test_store.py::test_what_is_appended_while_the_writer_takes_is_not_lost",
    ),
    "no secret masked": Control(
        "tracing/recording/secret.py",
        "                items[at] = self._item(item)\n",
        "                pass\n",
        "tracing/test_secrets.py::test_several_secrets_in_one_text_are_all_masked",
    ),
    "no key by its shape": Control(
        "tracing/recording/secret.py",
        "        if self._shapes:\n            from",
        "        if not self:\n            from",
        "canaries/test_shapes.py::test_a_key_of_a_known_shape_is_masked_wherever_it_goes",
    ),
    "no look at shapes before a block is written": Control(
        "tracing/recording/secret.py",
        "        return [*self.exact_tests, *(FIRST if self._shapes else ())]\n",
        "        return self.exact_tests\n",
        "canaries/test_shapes.py::test_what_fits_a_shape_is_always_looked_at",
    ),
    "masked answers are given again": Control(
        "tracing/replaying/sequencer.py",
        "        if not lost:\n",
        "        if lost is not None:\n",
        "tracing/test_secrets.py::test_replaying_a_masked_answer_is_a_named_error",
    ),
    "prompts that were masked are one prompt": Control(
        "tracing/replaying/replayer.py",
        "    same = call.content == trace.content_of(request) and call.ordinal",
        "    same = (call.masked or call.content == trace.content_of(request)) and call.ordinal",
        "tracing/test_secrets.py::test_a_call_with_a_masked_prompt_is_known_by_its_digest",
    ),
    "a folder has keys recorded": Control(
        "config/classes.py",
        '    "mask_shapes": protection,\n',
        '    "mask_shapes": name,\n',
        "canaries/test_shapes.py::test_the_settings_of_a_folder_do_not_let_keys_be_recorded",
    ),
    "a collector sends spans elsewhere": Control(
        "tracing/exporting/collector.py",
        "    ) -> None:\n        return None\n",
        "    ) -> Any:\n        return super().redirect_request(req, fp, code, msg, headers, newurl)\n",
        "exports/test_otel.py::test_a_refusal_is_explained_and_a_redirect_is_not_followed[301-redirects are not followed]",
    ),
    "no secret across lines": Control(
        "prompt/secret_forms.py",
        "                if spans := lines.spans(data):\n",
        "                if spans := lines.spans(data)[:0]:\n",
        "canaries/test_shapes.py::test_a_line_break_hides_no_known_key",
    ),
    "names of the environment tell nothing in texts": Control(
        "prompt/key_places.py",
        "    return (is_scheme or is_likely(plain)) and any(word in plain for word in _TELLING)\n",
        "    return is_scheme\n",
        "canaries/test_published.py::test_the_environment_and_texts_go_by_the_same_names",
    ),
    "a key after an escape is a part of a word": Control(
        "prompt/key_shapes.py",
        "        return regex(_ESCAPE).search(text, max(at - 6, 0), at) is not None\n",
        "        return False\n",
        "canaries/test_published.py::test_of_the_published_shapes_95_in_100_are_masked",
    ),
    "a key begins anywhere in a picture": Control(
        "prompt/key_shapes.py",
        "    return before is None or not is_random(before[0])\n",
        "    return True\n",
        "canaries/test_published.py::test_no_key_begins_within_a_long_random_text",
    ),
    "no secret whose characters are escaped": Control(
        "prompt/secret_forms.py",
        "        if not self._plain:\n            return text\n",
        "        return text\n",
        "canaries/test_names.py::test_no_secret_passes_in_any_encoding",
    ),
    "a text ends its fence": Control(
        "tracing/exporting/markdown.py",
        '        fence = "`" * max(3, longest + 1)\n',
        '        fence = "`" * min(3, longest + 3)\n',
        "exports/test_rendered.py::test_no_text_becomes_markup",
    ),
    "a name ends its code": Control(
        "tracing/exporting/markdown.py",
        '    ticks = "`" * (longest + 1)\n',
        '    ticks = "`" * min(1, longest + 1)\n',
        "exports/test_rendered.py::test_no_text_becomes_markup",
    ),
    "a secret for each name, not for each value": Control(
        "tracing/recording/secret.py",
        "        names = {value: name for name, value in reversed(secrets) if not _is_path(value)}\n",
        "        latest = {name: value for name, value in secrets if not _is_path(value)}\n"
        "        names = {value: name for name, value in latest.items()}\n",
        "canaries/test_shapes.py::test_a_given_secret_is_masked_beside_a_variable_of_its_name",
    ),
    "a worker keeps its keys to itself": Control(
        "parts/engine/wire.py",
        "        if news := self._secrets.news(data):\n",
        "        if news := dict[str, str]():\n",
        "canaries/test_shapes.py::test_a_line_break_hides_no_key_that_only_a_worker_knows[]",
    ),
    "a worker tells of its keys too late": Control(
        "parts/engine/wire.py",
        '            self._send(pickled([("secrets", news)]))\n        self._send(data)\n',
        '            self._send(data)\n            self._send(pickled([("secrets", news)]))\n',
        "canaries/test_shapes.py::test_a_line_break_hides_no_key_that_only_a_worker_knows[]",
    ),
    "a worker tells of all its keys": Control(
        "parts/engine/wire.py",
        "        names = {*self._masker.secret_names_in(batch)} - self._known\n",
        "        names = {*self._masker.refresh().values} - self._known\n",
        "canaries/test_shapes.py::test_a_worker_tells_of_no_key_that_nobody_said",
    ),
    "an answer is shown as it comes": Control(
        "cli/display.py",
        "        return self._flow.feed(self._safe.feed(piece))\n",
        "        return self._safe.feed(piece)\n",
        "cli/test_stream.py::test_a_secret_is_masked_while_it_comes",
    ),
    "no part of a secret is held back": Control(
        "tracing/recording/piecewise_masking.py",
        "        size = self._size()\n",
        "        size = len(self._held)\n",
        "canaries/test_shapes.py::test_a_known_secret_that_comes_in_pieces_is_not_shown",
    ),
    "no look across the seam of a message": Control(
        "prompt/key_masking.py",
        "    return size >= SHORTEST\n",
        "    return False\n",
        "tracing/test_long_messages.py::test_a_private_key_that_comes_line_by_line_is_masked",
    ),
    "unknown fields of the header pass": Control(
        "tracing/recording/privacy.py",
        "        _check_names(record.tag, facts, _HEADER)\n",
        "",
        "tracing/test_unknown_kinds.py::test_what_the_filter_does_not_know_is_refused",
    ),
    "no secret in base64 and hexadecimal": Control(
        "prompt/secret_forms.py",
        "    coded = _coded(data) if len(data) >= _CODED else set[str]()\n",
        "    coded = set[str]()\n",
        "canaries/test_names.py::test_no_secret_passes_in_any_encoding",
    ),
    "no password of a URL": Control(
        "prompt/secret.py",
        "    values = [unquote(quoted) for quoted in _PASSWORD.findall(value)] + _PASSWORD.findall(value)\n",
        "    values = list[str]()\n",
        "canaries/test_names.py::test_the_password_alone_is_taken_out_of_a_url",
    ),
    "unknown kinds of records pass": Control(
        "tracing/recording/privacy.py",
        "        if len(fields) > most:\n            raise _unknown(fields[0])\n",
        "        if most < 0:\n            return codec.pack(fields)\n",
        "tracing/test_unknown_kinds.py::test_what_is_not_known_is_not_shared",
    ),
    "patterns are not looked at before they are used": Control(
        "runtime/answers/schema.py",
        "        _check_patterns(schema)\n",
        "",
        "tools/test_patterns.py::test_a_pattern_that_cannot_be_matched_so_is_refused_at_once",
    ),
    "one MCP tool stands for another": Control(
        "mcp/__init__.py",
        "            if tool.name in tools:\n",
        "            if not tool.name:\n",
        "tools/test_mcp.py::test_two_tools_whose_names_become_one_are_an_error",
    ),
    "tools of an MCP server are not shown": Control(
        "runtime/tools/offers.py",
        "    if digests_before is None:\n",
        "    if digests_before == 0:\n",
        "tools/test_mcp_shown.py::test_long_texts_and_many_tools_are_cut",
    ),
    "a change since the last use is not told": Control(
        "runtime/tools/offers.py",
        "    changes = _changes(digests_before, offered)\n",
        "    changes = list[str]()\n",
        "tools/test_mcp_shown.py::test_a_change_since_the_last_use_is_told_once",
    ),
    "a change since the recorded run is not told": Control(
        "runtime/tools/offers.py",
        "_changes(digests(recorded), offered) if recorded is not None else []",
        "list[str]()",
        "tools/test_mcp_shown.py::test_a_change_since_the_recorded_run_is_told",
    ),
    "escapes of a server are shown as they are": Control(
        "runtime/tools/offers.py",
        'printable(" ".join(text[: 4 * _WIDTH].split()))',
        '" ".join(text[: 4 * _WIDTH].split())',
        "tools/test_mcp_shown.py::test_text_of_a_server_cannot_act_on_a_terminal",
    ),
    "a run that goes on says that it stops": Control(
        "tracing/recording/recorder.py",
        'self._notify(f"appl: {message}; {going_on}")',
        'self._notify(f"appl: {message}; {stopping}")',
        "tracing/test_lost_file.py::test_a_run_that_shall_go_on_says_that_it_does",
    ),
    "no note of the spans that arrived": Control(
        "tracing/exporting/checkpoint.py",
        "        self._marks = self._read()\n",
        "        self._marks = set[bytes]()\n",
        "exports/test_delivery.py::test_a_span_that_arrived_is_counted_as_such_by_the_next_export",
    ),
    "a collector is asked again before its time": Control(
        "tracing/exporting/delivery.py",
        "        if retry_after is not None and retry_after > 0:\n",
        "        if retry_after is not None and retry_after < 0:\n",
        "exports/test_delivery.py::test_every_span_arrives_exactly_once_under_random_schedules",
    ),
    "an export has no deadline": Control(
        "tracing/exporting/delivery.py",
        "        if self._clock.monotonic() + wait >= self._end:\n",
        "        if self._clock.monotonic() + wait < 0:\n",
        "exports/test_delivery.py::test_a_collector_that_asks_for_more_time_than_there_is_ends_it_at_once",
    ),
    "a collector's answer is waited for byte by byte": Control(
        "tracing/exporting/collector.py",
        "results.get(timeout=timeout_s)",
        "results.get()",
        "exports/test_delivery.py::test_an_answer_that_drips_is_given_up",
    ),
    "no gate before the next call": Control(
        "tracing/recording/recorder.py",
        "writer.failed or self._error or writer.forked or writer.queue.pending > writer.limit\n",
        "writer.queue.pending > 1 << 60\n",
        "tracing/test_store.py::test_a_failed_write_leaves_a_readable_file_and_stops_new_calls",
    ),
    "signatures of any key": Control(
        "tracing/format/trust.py",
        "if not codec & block.SIGNED or not hmac.compare_digest(computed, payload[-SIGNATURE:]):",
        "if not codec & block.SIGNED:",
        "trust/test_runs.py::test_another_key_makes_all_runs_so_far_a_strangers",
    ),
    "a signature that leaves out the head of its block": Control(
        "tracing/format/block_file.py",
        "before + head + payload",
        "before + payload",
        "trust/test_runs.py::test_every_change_of_a_byte_is_seen",
    ),
    "a signature that leaves out the one before": Control(
        "tracing/format/block_file.py",
        "before + head + payload",
        "head + payload",
        "trust/test_signing.py::test_a_signature_depends_on_the_key_the_one_before_the_head_and_the_content",
    ),
    "signatures that do not go back after a fault": Control(
        "tracing/format/block_file.py",
        "        self._write(data)\n",
        "        self.last = last\n        self._write(data)\n",
        "trust/test_signing.py::test_signatures_go_on_after_a_fault_of_the_disk",
    ),
    "no look at where a run had ended": Control(
        "tracing/format/trust.py",
        "    if ends and ends.isdisjoint(signatures):\n",
        "    if not signatures:\n",
        "trust/test_runs.py::test_a_run_that_had_ended_is_not_cut_unseen",
    ),
    "a link to a run is a run": Control(
        "tracing/format/trust.py",
        "    if path.is_symlink():\n",
        "    if not path.name:\n",
        "trust/test_runs.py::test_a_link_is_not_a_run_of_ones_own",
    ),
    "commands use any run": Control(
        "cli/trace/recorded_program.py",
        "        require_own(path, options.trust, ",
        "        require_own(path, True, ",
        "trust/test_runs.py::test_no_command_starts_the_program_of_a_forged_run[unsigned]",
    ),
    "a module is started from any folder": Control(
        "cli/trace/recorded_program.py",
        "    if not Path(file).is_absolute() and folder != str(Path.cwd()):\n",
        "    if not file:\n",
        "trust/test_runs.py::test_a_module_is_not_started_from_another_folder",
    ),
    "the same command goes on with any run": Control(
        "session/interrupted_run.py",
        "if _goes_on(trace) and _is_own(path, say) else None",
        "if _goes_on(trace) else None",
        "trust/test_runs.py::test_the_same_command_goes_on_with_no_forged_run[unsigned]",
    ),
    "APPL_RESUME goes on with any run": Control(
        "session/process.py",
        "    require_own(path, False, ",
        "    require_own(path, True, ",
        "trust/test_runs.py::test_a_script_resumes_no_forged_run",
    ),
    "a program goes on with any run": Control(
        "session/replaying.py",
        "    require_own(path, trust, ",
        "    require_own(path, True, ",
        "trust/test_runs.py::test_a_program_that_opens_a_forged_run_says_that_it_trusts_it",
    ),
    "another field in a record": Control(
        "tracing/recording/encoder.py",
        "_delivery_row(call or event.address, at)",
        "(*_delivery_row(call or event.address, at), 0)",
        "traces/test_golden.py::test_records_written_today_look_like_the_golden_ones",
    ),
    "settings are used without approval": Control(
        "config/layers.py",
        "        layers.refuse(_unapproved(file))\n",
        "",
        "trust/test_hostile_settings.py::test_no_value_of_any_key_has_an_effect_without_approval",
    ),
    "a setting without a class is free": Control(
        "config/classes.py",
        '    return "is not known to be harmless"\n',
        "    return None\n",
        "trust/test_hostile_settings.py::test_a_setting_without_a_class_needs_approval",
    ),
    "any text is a name": Control(
        "config/classes.py",
        "        if isinstance(part, str) and _ADDRESS.search(part):\n",
        "        if part is _VARIABLE:\n",
        "trust/test_hostile_settings.py::test_no_value_of_any_key_has_an_effect_without_approval",
    ),
    "any variable goes anywhere as a key": Control(
        "config/classes.py",
        '        if value["env"] == variable and not elsewhere:\n',
        '        if value["env"]:\n',
        "trust/test_hostile_settings.py::test_only_the_providers_own_variable_goes_to_the_provider",
    ),
    "a key goes to the address of the file": Control(
        "config/classes.py",
        '        if value["env"] == variable and not elsewhere:\n',
        '        if value["env"] == variable:\n',
        "trust/test_hostile_settings.py::test_only_the_providers_own_variable_goes_to_the_provider",
    ),
    "links in folders are not followed": Control(
        "config/classes.py",
        "        paths = [(root / Path(value).expanduser()).resolve() for root in roots]\n",
        "        paths = [(root / Path(value).expanduser()).absolute() for root in roots]\n",
        "trust/test_hostile_settings.py::"
        "test_a_folder_of_the_project_is_free_and_one_outside_is_not",
    ),
    "an approved file may change": Control(
        "config/trust.py",
        '    identity = f"{file.path}\\0{file.digest}"',
        '    identity = f"{file.path}"',
        "trust/test_approval.py::test_approved_is_what_was_shown_and_a_change_is_asked_again",
    ),
    "an approved file may be copied": Control(
        "config/trust.py",
        '    identity = f"{file.path}\\0{file.digest}"',
        '    identity = f"{file.digest}"',
        "trust/test_approval.py::test_a_copy_in_another_folder_needs_approval",
    ),
    "the file is read again when it is approved": Control(
        "cli/trust.py",
        "        approve(file)\n",
        "        approve(_file(file.path.parent))\n",
        "trust/test_approval.py::test_what_was_read_is_approved_and_not_what_the_file_has_become",
    ),
    "a link leads into a trusted folder": Control(
        "config/files.py",
        "os.path.realpath(directory)",
        "os.path.abspath(directory)",
        "trust/test_approval.py::test_a_link_out_of_a_trusted_folder_is_not_trusted",
    ),
    "all below the home folder is trusted": Control(
        "config/trust.py",
        "    if file.path.parent == _home():\n",
        "    if _home() in file.path.parents:\n",
        "trust/test_approval.py::test_the_file_of_the_home_folder_is_trusted_and_one_below_is_not",
    ),
    "what needs approval is shown as it is": Control(
        "config/trust.py",
        "    shown = ascii(_masked(need.keys[-1], need.value))\n",
        "    shown = str(need.value)\n",
        "trust/test_approval.py::test_secrets_are_masked_and_no_character_acts_on_the_terminal",
    ),
    "a project holds the state of its user": Control(
        "config/state.py",
        "        if real.is_relative_to(project) and not home.is_relative_to(project):\n",
        "        if False:\n",
        "trust/test_state_folder.py::test_a_link_into_the_project_is_refused",
    ),
    "others write to the state of a user": Control(
        "config/state.py",
        "    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):\n",
        "    if False:\n",
        "trust/test_state_folder.py::test_a_folder_that_others_may_write_to_is_refused",
    ),
    "a class that is no backend is called": Control(
        "backend/__init__.py",
        '        _check_protocol(name, factory, ("complete", "aclose"))\n',
        "        pass\n",
        "trust/test_hostile_settings.py::test_what_is_no_backend_is_an_error_of_configuration",
    ),
    "the folder comes before the libraries": Control(
        "cli/target.py",
        '    if not name.startswith("appl."):',
        "    if name:",
        "trust/test_hostile_settings.py::test_a_module_of_the_folder_stands_for_no_library",
    ),
    "Python's own library has backends": Control(
        "backend/__init__.py",
        "    if head in sys.stdlib_module_names:\n",
        "    if not head:\n",
        "trust/test_hostile_settings.py::test_what_is_no_backend_is_an_error_of_configuration",
    ),
}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package and the tests that judge it."""
    folder = tmp_path_factory.mktemp("copy")
    ignored = shutil.ignore_patterns("*.pyc.*")  # those that are being written, which soon go
    shutil.copytree(ROOT / "appl", folder / "appl", ignore=ignored)
    for name in TESTS:
        shutil.copytree(ROOT / "tests" / name, folder / "tests" / name, ignore=ignored)
    for file in ("pyproject.toml", "tests/conftest.py", "tests/warm.py"):
        shutil.copy(ROOT / file, folder / file)
    return folder


@pytest.fixture
def changed(copy: Path) -> Iterator[Path]:
    """The copy, whose files are as they were again afterwards."""
    files = {name for control in CONTROLS.values() for name, _, _ in control.places}
    before = {name: (copy / "appl" / name).read_text() for name in files}
    yield copy
    for name, text in before.items():
        path = copy / "appl" / name
        if path.read_text() != text:
            path.write_text(text)
            # Within one second, and of the same size, its bytecode would pass for that of this.
            for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
                compiled.unlink()


def outcome(folder: Path, *tests: str) -> tuple[int, str]:
    """pytest's exit code for *tests* in the copy, and what it said."""
    path = os.pathsep.join(str(each) for each in (folder, folder / "backends", ROOT / "backends"))
    environment = {**os.environ, "PYTHONPATH": path}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else each process compiles all of it
    words = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*words, *(f"tests/{test}" for test in tests)], cwd=folder, env=environment,
        capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


NAMED = {control.test for control in CONTROLS.values()}


def test_every_place_is_there_once() -> None:
    for name, control in CONTROLS.items():
        for file, old, _ in control.places:
            assert (ROOT / "appl" / file).read_text().count(old) == 1, name


def test_the_named_tests_pass_when_nothing_is_taken_out(copy: Path) -> None:
    """The suite runs these tests on the package itself; here they run on its copy."""
    code, said = outcome(copy, *NAMED)
    assert code == 0, said


FIRST = {control.test.split("::")[0]: name for name, control in reversed(CONTROLS.items())}
OFTEN = list(FIRST.values())[::4]


@pytest.mark.parametrize(
    "name",
    [name if name in OFTEN else pytest.param(name, marks=pytest.mark.long) for name in CONTROLS],
)
def test_without_its_safeguard_the_named_test_fails(name: str, changed: Path) -> None:
    take_out(CONTROLS[name], changed / "appl")
    code, said = outcome(changed, CONTROLS[name].test)
    assert code == 1 and "failed" in said.lower(), said

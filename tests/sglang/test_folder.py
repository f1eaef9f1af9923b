from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from appl_backends.sglang.model_folder import defaults_of, ends_of, folder_of
from appl_backends.sglang.probe import ServerFacts
from appl_backends.sglang.server_setup import load
from tests.sglang import templates

WEIGHTS = Path(__file__).parents[2] / "backends" / "appl_backends" / "embedded" / "weights"


def test_a_path_is_a_folder(tmp_path: Path) -> None:
    assert folder_of(str(tmp_path)) == tmp_path
    assert folder_of("") is None


def test_a_model_in_the_cache_of_hugging_face_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    kept = tmp_path / "models--org--name"
    for revision in ("aaa", "bbb"):
        (kept / "snapshots" / revision).mkdir(parents=True)
        (kept / "snapshots" / revision / "tokenizer.json").write_text("{}")
    assert folder_of("org/name") == kept / "snapshots" / "bbb"
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text("aaa\n")
    assert folder_of("org/name") == kept / "snapshots" / "aaa"
    assert folder_of("org/other") is None


def test_the_tokens_that_end_an_answer_are_read_from_the_files_that_can_be(tmp_path: Path) -> None:
    assert ends_of(tmp_path) == frozenset()
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [0, 7, "x", true]}')
    assert ends_of(tmp_path) == {0, 7}
    for odd in ("{", "[]", "[" * 100_000, '{"eos_token_id": null}'):
        (tmp_path / "config.json").write_text(odd)
        assert ends_of(tmp_path) == {0, 7}
    (tmp_path / "config.json").write_text('{"eos_token_id": 3}')
    assert ends_of(tmp_path) == {0, 3, 7}


def test_what_a_model_recommends_is_read(tmp_path: Path) -> None:
    assert defaults_of(tmp_path) == {}
    said = {"temperature": 0.6, "top_p": 0.95, "top_k": None, "eos_token_id": 2}
    (tmp_path / "generation_config.json").write_text(json.dumps(said))
    assert defaults_of(tmp_path) == {"temperature": 0.6, "top_p": 0.95}


def test_a_tokenizer_is_read_once_for_the_process_until_a_file_of_it_changes(
    tmp_path: Path,
) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(WEIGHTS / name, tmp_path / name)
    first, again = (load(ServerFacts(), tmp_path, None, None).prompts for _ in range(2))
    assert first is again
    (tmp_path / "chat_template.jinja").write_text(templates.CHATML)
    changed = load(ServerFacts(), tmp_path, None, None).prompts
    assert changed.template.source == templates.CHATML != first.template.source

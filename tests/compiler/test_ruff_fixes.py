"""Which rules of ruff change the first text of a prompt, and which settings switch them off."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from appl.cli.init import _RUFF
from appl.cli.ruff_settings import CHANGING, changing_rules, settings_for
from appl.compiler.lint import check_text

RUFF = shutil.which("ruff") or str(Path(__import__("sys").executable).with_name("ruff"))
TEXTS = ['"answer the question"', '" answer it "', '"say \\"no\\" to it"', '"two\\nlines"']
PROGRAM = "from appl import ppl\n\n\n@ppl\ndef ask():\n    {}\n    ...\n"


def fixed(folder: Path, rule: str, text: str) -> bool:
    """True if a fix of *rule* changes a prompt that begins with *text*."""
    program = folder / "program.py"
    program.write_text(PROGRAM.format(text), "utf-8")
    words = ["check", "--no-cache", "--quiet", "--select", rule, "--fix", "--unsafe-fixes"]
    subprocess.run([RUFF, *words, str(program)], cwd=folder, capture_output=True, check=False)
    return program.read_text("utf-8") != PROGRAM.format(text)


@pytest.mark.parametrize("rule", CHANGING)
def test_each_of_the_rules_changes_a_prompt_unless_the_settings_of_init_keep_it(
    tmp_path: Path, rule: str
) -> None:
    assert any(fixed(tmp_path, rule, text) for text in TEXTS)
    (tmp_path / "ruff.toml").write_text(_RUFF, "utf-8")
    assert not any(fixed(tmp_path, rule, text) for text in TEXTS)


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("ruff.toml", 'lint.select = ["D300"]', ("D300",)),
        ("ruff.toml", 'select = ["D"]\nignore = ["D4", "D21"]', ("D300", "D301")),
        ("ruff.toml", 'lint.select = ["ALL"]\nlint.unfixable = ["D"]', ()),
        ("ruff.toml", 'lint.select = ["E", "F"]', ()),
        ("pyproject.toml", '[tool.ruff.lint]\nextend-select = ["D403"]', ("D403",)),
        ("pyproject.toml", "[tool.ruff", ()),
        ("pyproject.toml", "tool = 3", ()),
        (".ruff.toml", 'lint = "D"\nselect = 7', ()),
        ("ruff.toml", _RUFF, ()),
    ],
)
def test_settings_say_which_rules_are_on(
    tmp_path: Path, name: str, text: str, found: tuple[str, ...]
) -> None:
    settings_for.cache_clear()
    (tmp_path / name).write_text(text, "utf-8")
    assert changing_rules(tmp_path) == found


@pytest.mark.parametrize(
    ("first", "found"),
    [
        ('"Answer."', ["ruff-fix"]),
        ('"""Documentation."""', []),
        ("f'{1}'", []),
        ('"Answer."  # appl: ignore[ruff-fix]', []),
    ],
)
def test_a_prompt_that_begins_as_a_docstring_does_is_named(first: str, found: list[str]) -> None:
    text = f"from appl import gen, ppl\n\n@ppl\ndef ask():\n    {first}\n    'More.'\n    return gen()\n"
    assert [each.rule for each in check_text("ask.py", text, fixes=["D300"])] == found
    assert "ruff-fix" not in [each.rule for each in check_text("ask.py", text)]

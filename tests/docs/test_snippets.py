"""Every program and every command of the documentation runs, and prints what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from .snippets import Block, blocks, run_page

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "AGENTS.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page(page: Path, tmp_path: Path, warm: Path) -> None:
    assert run_page(page, tmp_path, warm) == []


def test_blocks_are_found_with_language_title_and_place() -> None:
    page = 'text\n\n```python\nx = 1\n```\n\n  ```toml title="a.toml"\n  b = 1\n  ```\n'
    assert list(blocks(page)) == [
        Block("python", None, 4, "x = 1\n"),
        Block("toml", "a.toml", 8, "b = 1\n"),
    ]


def test_a_page_that_is_wrong_is_found(tmp_path: Path, warm: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\n1 / 0\n```\n\n```console\n$ echo a\nb\n$ false\n```\n")
    output, failed, program = run_page(page, tmp_path, warm)
    assert "printed" in output and "failed" in failed
    assert "line 2" in program and "ZeroDivisionError" in program

"""The examples run on the embedded model, print something worth reading, and replay for nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def appl(folder: Path, *words: str) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "appl", *words],
        cwd=folder,
        env={"PATH": "", "HOME": str(folder), "PYTHONPATH": f"{ROOT}:{ROOT / 'backends'}"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def run(folder: Path, example: str, *words: str) -> str:
    """What the example prints; its replay must print the same."""
    out, err = appl(folder, "run", str(EXAMPLES / f"{example}.py"), "--seed", "7", *words)
    assert "no model is configured" in err
    again, told = appl(folder, "trace", "replay")
    assert again == out
    assert re.search(r"replayed \d+ calls, 0 live, 0 tokens paid", told)
    return out


def test_hello_answers_four_questions(tmp_path: Path) -> None:
    out = run(tmp_path, "hello")
    assert "baker" in out
    assert len(out.splitlines()) == 4


def test_interview_answers_every_question(tmp_path: Path) -> None:
    out = run(tmp_path, "interview")
    assert "1921" in out
    assert "The Slow River" in out


def test_self_consistency_prints_one_sample_against_the_vote(tmp_path: Path) -> None:
    out = run(tmp_path, "self_consistency", "--n", "5", "--problems", "6")
    one, vote = (int(word) for word in re.findall(r"is right in (\d+)%", out))
    assert 0 < one <= 100
    assert 0 < vote <= 100


def test_debate_lets_both_sides_speak_and_judges(tmp_path: Path) -> None:
    out = run(tmp_path, "debate", "--topic", "cats")
    assert out.count("(in favour)") == out.count("(against)") == 2
    assert "The judge is for" in out


@pytest.mark.parametrize("example", ["hello", "interview", "self_consistency", "debate"])
def test_every_prompt_function_has_a_graph(example: str, tmp_path: Path) -> None:
    names = re.findall(
        r"^@ppl.*\n(?:async )?def (\w+)", (EXAMPLES / f"{example}.py").read_text(), re.M
    )
    assert names
    for name in names:
        out, _ = appl(tmp_path, "graph", f"{EXAMPLES / example}.py:{name}")
        assert "gen" in out or "select" in out


def test_the_interview_is_the_program_of_the_readme() -> None:
    block = (ROOT / "README.md").read_text().split("```python\n")[1].split("```")[0]
    wanted = [line.split("#")[0].rstrip() for line in block.splitlines() if line.strip()]
    have = [
        line.split("#")[0].rstrip() for line in (EXAMPLES / "interview.py").read_text().splitlines()
    ]
    assert [line for line in wanted if line not in have] == []


def test_the_problems_say_how_they_were_made() -> None:
    assert (
        "generator.py --skill arithmetic --held-out"
        in (EXAMPLES / "self_consistency.py").read_text()
    )
    assert len((EXAMPLES / "problems.jsonl").read_text().splitlines()) == 40


def test_the_graph_in_the_readme_is_the_one_that_is_printed(tmp_path: Path) -> None:
    shown = (ROOT / "README.md").read_text().split("**Graph**")[1].split("```\n")[1]
    out, _ = appl(tmp_path, "graph", f"{EXAMPLES / 'interview.py'}:interview")
    assert out.replace(f"{ROOT}/", "") == shown

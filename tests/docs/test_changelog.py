"""The changelog of a first release says what it offers, in few words."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST_WORDS = 600


def test_the_changelog_of_the_first_release_is_short() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.findall(r"^## (\S+)", text, re.MULTILINE) == ["0.1.0"]
    assert len(text.split()) <= MOST_WORDS, (
        "a first release changes nothing: say what it offers, under its topic, in few words"
    )

"""Reads the phrases of a skill from its data file, `phrases/SKILL.txt`.

A section begins with a line `@@ name`; each further line is one phrase, kept as it is.
"""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parents[1] / "phrases"


class Phrases:
    """The sections of the data file of one skill."""

    def __init__(self, skill: str) -> None:
        self._sections: dict[str, list[str]] = {}
        for line in (_FOLDER / f"{skill}.txt").read_text("utf-8").split("\n")[:-1]:
            if line.startswith("@@ "):
                section = self._sections[line[3:]] = []
            else:
                section.append(line)

    def lines(self, section: str) -> list[str]:
        """The phrases of a section."""
        return list(self._sections[section])

    def text(self, section: str) -> str:
        """The phrases of a section as one text."""
        return "\n".join(self._sections[section])

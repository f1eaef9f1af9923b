"""The generator: seeded conversations of all skills; the held-out split draws only withheld phrasings, names and topics."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from skills import (
    arithmetic,
    choose,
    drill,
    extract,
    facts,
    judge,
    persona,
    quotation,
    smalltalk,
    tools,
    writing,
)
from skills.core import Draw, Example, Message

SKILLS: dict[str, tuple[float, Callable[[Draw], Example]]] = {
    "arithmetic": (25.0, arithmetic.sample),
    "facts": (18.0, facts.sample),
    "quotation": (7.5, quotation.sample),
    "extract": (13.0, extract.sample),
    "calculator": (4.0, tools.sample_calculator),
    "lookup": (4.0, tools.sample_lookup),
    "choose": (10.0, choose.sample),
    "judge": (13.0, judge.sample),
    "persona": (6.0, persona.sample),
    "outline": (3.0, writing.outline),
    "expand": (4.5, writing.expand),
    "summarise": (5.0, writing.summarise),
    "debate": (3.0, writing.sample_debate),
    "smalltalk": (2.0, smalltalk.sample),
}
"""Every skill with its share of the training conversations."""
DRILL = 7.0
"""The share of unmeasured practice."""


def held_out(skill: str, number: int, seed: int = 7) -> list[Example]:
    """Examples for measuring: withheld phrasings and names only."""
    return [SKILLS[skill][1](Draw(f"held-{skill}-{seed}-{i}", held=True)) for i in range(number)]


def training(
    seed: int | str, number: int, focus: dict[str, float] | None = None
) -> Iterator[Example]:
    """Examples for training: never a withheld phrasing or name; `focus` multiplies the shares of skills."""
    draw = Draw(f"train-{seed}")
    makers = [*(maker for _, maker in SKILLS.values()), drill.sample]
    weights = [
        *(weight * (focus or {}).get(name, 1.0) for name, (weight, _) in SKILLS.items()),
        DRILL * (focus or {}).get("drill", 1.0),
    ]
    for maker in draw.rng.choices(makers, weights, k=number):
        draw.used = []
        yield maker(draw)


def conversation(example: Example) -> list[Message]:
    """The whole conversation, as it is trained on."""
    return [*example.messages, example.answer, *example.rest]


def main() -> None:
    """Print examples as JSON lines."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--skill", choices=[*SKILLS, "all"], default="all")
    parser.add_argument("--number", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--held-out", action="store_true")
    options = parser.parse_args()
    for skill in SKILLS if options.skill == "all" else [options.skill]:
        for i in range(options.number):
            prefix = "held" if options.held_out else "show"
            example = SKILLS[skill][1](
                Draw(f"{prefix}-{skill}-{options.seed}-{i}", held=options.held_out)
            )
            print(
                json.dumps(
                    {"skill": skill, "messages": conversation(example), "check": example.check},
                    ensure_ascii=False,
                )
            )


if __name__ == "__main__":
    main()

"""Programs against twins of real servers: none of their requests is refused, and no text is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from .twins.kinds import KINDS
from .twins.rules import QUESTION, Asked, Rule
from .twins.trials import judged

PROGRAMS, MANY = 20, 2000
RULES = {id(each): (name, each) for name, kind in KINDS.items() for each in kind.twin.rules}
"""Each rule once, with the first twin that has it."""


@pytest.mark.parametrize("name", KINDS)
def test_a_server_takes_every_request_of_programs(name: str, tmp_path: Path) -> None:
    found = judged(name, range(PROGRAMS), tmp_path)
    assert found.programs == PROGRAMS and not found.refused and not found.lost, found


@pytest.mark.long
@pytest.mark.parametrize("name", KINDS)
def test_a_server_takes_every_request_of_many_programs(name: str, tmp_path: Path) -> None:
    found = judged(name, range(MANY), tmp_path)
    assert found.programs == MANY and not found.refused and not found.lost, found


@pytest.mark.parametrize(
    ("name", "rule"), RULES.values(), ids=[f"{name}-{each.name}" for name, each in RULES.values()]
)
def test_a_twin_refuses_what_breaks_a_rule(name: str, rule: Rule) -> None:
    model = KINDS[name].twin.model_name  # type: ignore[attr-defined]
    plain = {"model": model, "messages": [QUESTION], "max_tokens": 10}
    assert any(rule.check(Asked({**plain, **rule.wrong}))) and rule.sources

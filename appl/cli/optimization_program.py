"""The program behind ``appl optimize``, which traces name, replay, resume and rerun."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from appl.cli.evaluation_program import Targets
from appl.cli.target import UsageError
from appl.config.schedule import TABLES
from appl.errors import InvalidOption
from appl.parts.optimization.proposer import Reflection
from appl.parts.optimization.result import Optimization
from appl.parts.optimization.search import optimize


def optimization(
    *,
    program: str,
    data: str,
    score: list[str],
    limits: str = "",
    held_out: str = "",
    proposals: int = 20,
    proposer: str = "",
    samples: int = 1,
    batch: int = 4,
    progress: bool | None = None,
) -> Optimization:
    """Improve the prompts of the function that *program* names on the cases in the file *data*."""
    targets = Targets()
    function = targets.function(program)
    proposes: object = proposer or None
    if ":" in proposer and proposer.partition(":")[0].endswith(".py"):
        proposes = targets.function(proposer)
    most: dict[str, object] = {}
    for name, _, amount in (word.partition("=") for word in limits.split(",") if word):
        most[name] = TABLES["budget"][name].read(amount)
    try:
        return optimize(
            function,
            data,
            scores=[targets.score(each) for each in score] or ["exact"],
            held_out=held_out or None,
            cost=cast("float | None", most.get("cost")),
            tokens=cast("int | None", most.get("tokens")),
            calls=cast("int | None", most.get("calls")),
            proposals=proposals,
            proposer=cast("str | Callable[[Reflection], object] | None", proposes),
            samples=samples,
            batch=batch,
            progress=progress,
        )
    except InvalidOption as error:
        raise UsageError(str(error)) from None

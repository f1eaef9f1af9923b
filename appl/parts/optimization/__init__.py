"""Optimisation: better texts for the prompts of a program, found within an exact budget.

Invariant: a candidate asks only what its texts change, and nothing is spent beyond the budget.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from appl.base.lazy_names import names_of

if TYPE_CHECKING:
    from appl.parts.optimization.components import Component as Component
    from appl.parts.optimization.proposer import Example as Example, Reflection as Reflection
    from appl.parts.optimization.result import Optimization as Optimization, Proposal as Proposal
    from appl.parts.optimization.search import optimize as optimize
else:
    __getattr__ = names_of(
        __name__,
        {
            "components": "Component",
            "proposer": "Example Reflection",
            "result": "Optimization Proposal",
            "search": "optimize",
        },
    )

"""Calls to backends: in which order, behind which prefixes, within which limits.

Invariant: nothing here knows a program; what is decided changes when a call is answered, never how.
"""

from appl.runtime.scheduling.accounts import Account, Desk
from appl.runtime.scheduling.attempts import Attempts
from appl.runtime.scheduling.holding import Holding, Load
from appl.runtime.scheduling.order import ByPrefix, ByProgram, Fifo, Order
from appl.runtime.scheduling.placing import Place, Placing, Way
from appl.runtime.scheduling.policy import Allowance, Policy
from appl.runtime.scheduling.scheduler import Scheduler
from appl.runtime.scheduling.traffic import Traffic

__all__ = [
    "Account",
    "Allowance",
    "Attempts",
    "ByPrefix",
    "ByProgram",
    "Desk",
    "Fifo",
    "Holding",
    "Load",
    "Order",
    "Place",
    "Placing",
    "Policy",
    "Scheduler",
    "Traffic",
    "Way",
]

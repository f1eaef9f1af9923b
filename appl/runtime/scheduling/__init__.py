"""Calls to backends: in which order, behind which prefixes, within which limits.

Invariant: nothing here knows a program; what is decided changes when a call is answered, never how.
"""

from appl.runtime.scheduling.accounts import Account, BudgetLedger
from appl.runtime.scheduling.call_status import CallStatus, Load
from appl.runtime.scheduling.dispatcher import Dispatcher
from appl.runtime.scheduling.order import ByPrefix, ByProgram, Fifo, Order
from appl.runtime.scheduling.placing import BackendEndpoint, LegDispatcher, Placing
from appl.runtime.scheduling.policy import Allowance, Policy
from appl.runtime.scheduling.scheduler import Scheduler
from appl.runtime.scheduling.traffic import Traffic

__all__ = [
    "Account",
    "Allowance",
    "BackendEndpoint",
    "BudgetLedger",
    "ByPrefix",
    "ByProgram",
    "CallStatus",
    "Dispatcher",
    "Fifo",
    "LegDispatcher",
    "Load",
    "Order",
    "Placing",
    "Policy",
    "Scheduler",
    "Traffic",
]

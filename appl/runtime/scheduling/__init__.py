"""Calls to backends: in which order, behind which prefixes, within which limits.

Invariant: nothing here knows a program; what is decided changes when a call is answered, never how.
"""

from appl.base.lazy_names import names_of

__getattr__ = names_of(
    __name__,
    {
        "accounts": "Account Amounts",
        "dispatcher": "Dispatcher",
        "placing": "Placing",
        "order": "CallQueue program_of",
        "prefix_order": "PrefixOrder",
        "prefix_order.beginnings": "SharedBeginning",
        "prefix_order.room": "Room",
        "prompt_reuse": "CacheMemory ReuseOrder",
        "queue_status": "loads statuses",
        "scheduler": "Scheduler",
        "traffic": "Traffic",
    },
)

"""The composition root: settings, backend, recorder and runtime become a run.

Invariant: nothing here happens at import.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from appl.base.lazy_names import names_of

if TYPE_CHECKING:
    from appl.session.backend_setup import choose as choose
    from appl.session.linked_run import linked as linked
    from appl.session.naming import check as check, nameable as nameable
    from appl.session.process import process_run as process_run
    from appl.session.replaying import replayed as replayed
    from appl.session.rerunning import predicted as predicted, rerun as rerun
    from appl.session.resume import resumed as resumed
    from appl.session.session import (
        Session as Session,
        make_session as make_session,
        record as record,
    )
else:
    __getattr__ = names_of(
        __name__,
        {
            "backend_setup": "choose",
            "linked_run": "linked",
            "naming": "check nameable",
            "process": "process_run",
            "replaying": "replayed",
            "rerunning": "predicted rerun",
            "resume": "resumed",
            "session": "Session make_session record",
        },
    )


def hosted_run() -> Any:
    """The run that everything in the process belongs to, if a command or test hosts one."""
    process = sys.modules.get("appl.session.process")
    return None if process is None else process.hosted_run()


def open_run() -> Any:
    """The run of the process, if it is open: only the module that opens it can have one."""
    process = sys.modules.get("appl.session.process")
    return None if process is None else process.open_run()

"""The composition root: settings, backend, recorder and runtime become a run.

Invariant: nothing here happens at import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from appl.late import names_of

if TYPE_CHECKING:
    from appl.session.backend_setup import check as check, choose as choose
    from appl.session.linked_run import linked as linked
    from appl.session.naming import nameable as nameable
    from appl.session.process import hosted_run as hosted_run, open_run as open_run
    from appl.session.replaying import replayed as replayed
    from appl.session.rerunning import predicted as predicted, rerun as rerun
    from appl.session.resume import resumed as resumed
    from appl.session.script_run import process_run as process_run
    from appl.session.session import (
        Session as Session,
        make_session as make_session,
        record as record,
    )
else:
    __getattr__ = names_of(
        __name__,
        {
            "backend_setup": "check choose",
            "linked_run": "linked",
            "naming": "nameable",
            "replaying": "replayed",
            "rerunning": "predicted rerun",
            "resume": "resumed",
            "process": "hosted_run open_run",
            "script_run": "process_run",
            "session": "Session make_session record",
        },
    )

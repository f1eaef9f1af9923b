"""The composition root: settings, backend, recorder and runtime become a run.

Invariant: nothing here happens at import.
"""

from appl.session.backend_setup import check, choose
from appl.session.naming import nameable
from appl.session.replaying import replayed
from appl.session.rerunning import predicted, rerun
from appl.session.resume import resumed
from appl.session.script_run import process_run
from appl.session.session import Session, make_session, record

__all__ = [
    "Session",
    "check",
    "choose",
    "make_session",
    "nameable",
    "predicted",
    "process_run",
    "record",
    "replayed",
    "rerun",
    "resumed",
]

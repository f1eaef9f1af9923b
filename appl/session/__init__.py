"""The composition root: settings, backend, recorder and runtime become a run.

Invariant: nothing here happens at import.
"""

from appl.session.backend_setup import Choice, check, choose, make_backend
from appl.session.entry import (
    Entry,
    changed_files,
    git_commit,
    program_digests,
    script,
    versions,
)
from appl.session.interrupted_run import broken_off
from appl.session.naming import NameableModel, nameable
from appl.session.process import hosted, process_run, process_session
from appl.session.recording import Recording
from appl.session.replaying import checked, replay_session, replayed
from appl.session.rerunning import predicted, prediction_session, rerun, rerun_session
from appl.session.resume import (
    check_unchanged,
    recorded_config,
    resume_session,
    resumed,
    settled,
)
from appl.session.session import (
    Session,
    header,
    make_session,
    open_run,
    record,
    shown,
    tell,
)

__all__ = [
    "Choice",
    "Entry",
    "NameableModel",
    "Recording",
    "Session",
    "broken_off",
    "changed_files",
    "check",
    "check_unchanged",
    "checked",
    "choose",
    "git_commit",
    "header",
    "hosted",
    "make_backend",
    "make_session",
    "nameable",
    "open_run",
    "predicted",
    "prediction_session",
    "process_run",
    "process_session",
    "program_digests",
    "record",
    "recorded_config",
    "replay_session",
    "replayed",
    "rerun",
    "rerun_session",
    "resume_session",
    "resumed",
    "script",
    "settled",
    "shown",
    "tell",
    "versions",
]

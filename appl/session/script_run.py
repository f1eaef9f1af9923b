"""The run of a plain ``python file.py``: a new one, or one that goes on with an earlier run.

Invariant: a hosted program's run is the process's own, and none is opened beside it.
"""

from __future__ import annotations

from appl import config as settings
from appl.base import error_hooks
from appl.runtime.run import Run
from appl.session.entry import script
from appl.session.ownership import require_own
from appl.session.process import process_session
from appl.session.resume import resume_session
from appl.session.session import Session, make_session, shown, tell
from appl.tracing.reading.runs import resolve
from appl.tracing.reading.trace import Trace
from appl.tracing.replaying.resumer import Resumer


def process_run() -> Run:
    """The process's own run: that of a plain ``python file.py``, or of a hosted program.

    The first call opens it; a plain program's is closed when the process exits.
    """
    return process_session(_script_session).run


def _script_session() -> Session:
    """A new run, or the one that the setting ``resume`` (``APPL_RESUME``) names."""
    error_hooks.install()
    config = settings.load()
    if not isinstance(config.resume, str):
        return make_session(config)
    path = resolve(config.resume, config.home)
    require_own(path, False, f"write `appl trace resume {config.resume} --trust`")
    session = resume_session(Resumer(Trace.open(path, home=config.home)), entry=script())
    tell(f"appl: going on with {shown(path)}")
    return session

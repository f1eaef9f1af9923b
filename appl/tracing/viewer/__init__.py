"""The viewer of recorded runs: the data that a browser shows, the page, and its server.

Invariant: only reads traces; recorded text leaves as JSON alone, never as part of the page.
"""

from appl.tracing.viewer.page import export, page
from appl.tracing.viewer.run_list import RunList
from appl.tracing.viewer.server import ViewerServer
from appl.tracing.viewer.view import View, Views

__all__ = ["RunList", "View", "ViewerServer", "Views", "export", "page"]

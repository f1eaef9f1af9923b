"""``print_trace`` of programs for APPL 0.2.

Invariant: nothing is sent anywhere; APPL's own sent the trace to Langfuse unless told otherwise.
"""

from __future__ import annotations

from appl.parts.compat.older import told_once


def print_trace(printer: object = None, trace_file: object = None) -> None:
    """Say how a run is shown; every run is recorded, and nothing has to print it."""
    told_once("print_trace()", "on the command line `appl trace show last`, or `appl trace export`")

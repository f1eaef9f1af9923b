"""The meaning of ``appl``'s exit codes."""

from __future__ import annotations

OK = 0
FAILED = 1  # the program raised, or a call that nobody looked at failed
USAGE = 2  # wrong arguments, wrong configuration, a program that cannot be compiled
DIVERGED = 3  # a replay asked for something that was not recorded
TRACE = 4  # a trace cannot be read or written
WAITING = 75  # the run waits for something outside, and goes on later
INTERRUPTED = 130  # Ctrl-C

DESCRIPTION = (
    "0 done; 1 the program failed; 2 wrong usage, configuration or source; 3 a replay diverged "
    "from its trace; 4 a trace cannot be read or written; 75 the run waits for something outside; "
    "130 interrupted"
)

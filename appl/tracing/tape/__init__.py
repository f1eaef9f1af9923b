"""Tapes: a recorded run as text that a reviewer can read, and that replays as the trace does.

Invariant: ``read`` gives a trace that answers the same calls with the same values in the same order
as the one that ``write`` was given; what differs from one recording to the next without meaning
anything (clocks, processes, source lines) is left out unless asked for.

A tape is UTF-8, one JSON object a line. The first line has the ``format``. Each other line holds a
``record`` of the table, by its name and the names of its fields, but for these differences:

* Fields that have their usual value (nil, 0, no edges, one sample) are left out.
* Names stand in place of ids. A message is named by the first call (by address) that says it and by
  its place in that call's prompt: ``/ask.0/gen.0#2``. A prompt has the name of its message, which
  stands above it.
* Calls and tools are referred to by their addresses, and source files by their names.
* Digests are computed from what is read, so that a prompt or an answer can be edited by hand; they
  are written only where the text cannot give them.
* A text of several lines is ``{"$blob": N}``. It follows below, line by line, as ``text`` and, if N
  is not 0, ``of``. Bytes are ``{"$blob": "base64"}``, and NaN and infinity ``{"$float": "nan"}``.
* ``masked`` are the names of secrets that were taken out of a record, and ``incarnation`` is the
  process that wrote it, if it was not the first.

What was asked and answered comes first, in the order of the addresses, each call after those whose
answers it holds. The order in which the program was told of it, and what ended without being told,
come after that. With ``full=True`` calls stand as they began, with all records of how it went.
"""

from appl.tracing.tape.naming import BESIDE, beside
from appl.tracing.tape.reading import read
from appl.tracing.tape.writing import save, write

__all__ = ["BESIDE", "beside", "read", "save", "write"]

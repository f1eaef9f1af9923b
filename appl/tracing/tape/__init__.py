"""Tapes: a recorded run as text that a reviewer can read, and that replays as the trace does.

Invariant: ``read`` gives a trace that answers the same calls with the same values in the same order
as the one that ``write`` was given; what differs from one recording to the next without meaning
anything (clocks, processes, source lines) stands apart, and is left out unless asked for.

A tape is UTF-8, one JSON object a line, keys sorted. What a line holds is told by one key:

==========  ==================================================================================
key         what stands in the line
==========  ==================================================================================
tape        ``appl``, and the ``format``: the first line
header      the name of a fact about the run, and its ``value``
call        an address, with what was asked besides the messages; ``after`` is the call whose prompt
            is the beginning of this one's, the ``first`` so many messages of it, or all
message     a role, and its text; ``goes_on`` is the call whose message is the beginning of this one
calls       a tool that the message or answer above calls, with ``arguments`` and ``id``
answer      how a sample ended, and its text
reasoning   what a sample was thought of before
tokens      the tokens of a sample, with their log-probabilities
usage       the tokens that the answer took, and what else is known of it
begun       what an answer had said when it failed
error       how a call or tool failed: ``outcome`` is ``failed`` or ``cancelled``
tool        the address of a tool's call; its result is the ``message`` below
saw         an address at which something was observed, and its ``value``
medium      an image or a sound, by its digest
then        an address: its outcome reached the program now, or ``chunks`` of it, or what was seen
ended       an address: it ended, and nobody was told
closed      why the run ended
text        the text of the line above goes on
==========  ==================================================================================

With ``full=True`` there follow, for whoever wants to know how it went: ``began`` (a process),
``scope``, ``went`` (times in microseconds, source lines and attempts of a call), ``warning``.

Messages are written once, below the first call (by address) that says them. The content digest of a
call is computed from what is read, so that a prompt or an answer can be edited by hand; it is
written only where the text cannot give it.
"""

from appl.tracing.tape.naming import BESIDE, beside
from appl.tracing.tape.reading import read
from appl.tracing.tape.writing import save, write

__all__ = ["BESIDE", "beside", "read", "save", "write"]

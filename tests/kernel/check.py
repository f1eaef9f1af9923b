"""The program beside this is recorded, replayed, broken off and resumed, in the folder it runs in."""

import contextlib

import program

import appl
from appl.session import replayed, resumed

with appl.record("a.trace", backend="program:Plain"):
    first = str(program.main())

with replayed("a.trace"):
    assert str(program.main()) == first

program.STOP = True
with contextlib.suppress(InterruptedError), appl.record("b.trace", backend="program:Plain"):
    program.main()
program.STOP = False
with resumed("b.trace", backend="program:Plain") as session:
    assert str(program.main()) == first
    assert session.tally.reused.calls == 1, session.tally

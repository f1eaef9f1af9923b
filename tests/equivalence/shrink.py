"""Makes a program on which the runs disagree smaller, by cutting statements out of both forms."""

from __future__ import annotations

from collections.abc import Callable

from .programs import Program
from .tree import Stmt


def shrunk(program: Program, fails: Callable[[Program], bool], attempts: int = 400) -> Program:
    """*program* without the statements that it can lose while it still *fails*."""
    whole = Stmt("", "", program.body)
    again = True
    while again and attempts > 0:
        again = False
        for body, stmt in reversed(list(whole.walk())):
            attempts -= 1
            if attempts > 0 and stmt in body and _cut(program, body, stmt, fails):
                again = True
    return program


def _cut(program: Program, body: list[Stmt], stmt: Stmt, fails: Callable[[Program], bool]) -> bool:
    place = body.index(stmt)
    del body[place]
    if _valid(program) and fails(program):
        return True
    body.insert(place, stmt)
    return False


def _valid(program: Program) -> bool:
    try:
        compile(program.source(), "<shrunk>", "exec")
        compile(program.plain(), "<shrunk>", "exec")
    except SyntaxError:
        return False
    return True

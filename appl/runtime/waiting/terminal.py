"""Questions that are asked at the terminal of the process.

Invariant: one question at a time, and only when nothing else in the run can go on; a thread that
waits for a line holds nothing that the end of the process needs.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from appl.base import threads
from appl.runtime.concurrency.fiber import end_hub_here
from appl.runtime.concurrency.typed_input import typed
from appl.runtime.reporter import printable
from appl.runtime.waiting.people import this_user

if TYPE_CHECKING:
    from appl.runtime.waiting.people import Question
    from appl.runtime.waiting.waits import Wait, Waits


def attend(waits: Waits, wait: Wait, question: Question) -> None:
    """Have *question* asked at the terminal, if the process has one."""
    asker = next(
        (asker_found for asker_found in waits.askers if isinstance(asker_found, Terminal)), None
    )
    if asker is None:
        if not _is_there():
            return
        waits.askers.append(asker := Terminal())
    asker.questions[wait] = question


def _is_there() -> bool:
    try:
        return sys.stdin is not None and sys.stdin.isatty()
    except ValueError:  # it is closed
        return False


class Terminal:
    """Asks the open ``questions`` of a run, one after the other."""

    def __init__(self) -> None:
        self.questions: dict[Wait, Question] = {}
        self._is_asking = False
        self._is_gone = False  # the input has ended

    def ask(self, waits: list[Wait]) -> bool:
        """Ask the next of *waits*; false if nobody can be asked. On the I/O loop."""
        if self._is_asking:
            return True
        wait = next((wait for wait in waits if wait in self.questions), None)
        if wait is None or self._is_gone:
            return False
        self._is_asking = True
        threads.start(lambda: self._ask(wait), "appl-question")
        return True

    def _ask(self, wait: Wait) -> None:
        question = self.questions.pop(wait)
        try:
            say = f"{question.text}\n[{question.form.hint}] "
            while question.open:
                _write(say)
                line = typed("")
                try:
                    question.answer(line, by=this_user(), via="terminal")
                except ValueError as error:
                    say = f"appl: {error}\n[{question.form.hint}] "
        except (EOFError, OSError, ValueError):
            self._is_gone = True
        finally:
            self._is_asking = False
            wait.run.outside.look_soon()
            end_hub_here()


def _write(text: str) -> None:
    sys.stderr.write("\n".join(printable(line) for line in text.split("\n")))
    sys.stderr.flush()

"""Threads of a plain script while one of them has a run open: who is in it, and for how long."""

from __future__ import annotations

from appl.tracing import Trace
from tests.cli.conftest import Project

from .conftest import Bill

SCRIPT = """\
import threading
import appl
from tests.nested.programs import ask

opened, asked, over = threading.Event(), threading.Event(), threading.Event()

def hosts():
    with appl.record("block.trace"):
        str(ask("its own"))
        opened.set()
        asked.wait()
    over.set()

def visits():
    opened.wait()
    str(ask("a guest's"))
    asked.set()
    over.wait()
    str(ask("nobody's"))

threads = [threading.Thread(target=each) for each in (hosts, visits)]
for thread in threads:
    thread.start()
opened.wait()
first = ask("the main thread's")
for thread in threads:
    thread.join()
print(first, ask("the main thread's second"))
"""


def test_a_thread_leaves_the_run_of_another_one_that_is_over(project: Project, bill: Bill) -> None:
    project.write("script.py", SCRIPT)
    done = project.python("script.py")
    assert done.code == 0 and "Error" not in done.err, done.err
    (path,) = project.traces
    asked = [
        {call.messages.message.content for call in Trace.open(each).calls}
        for each in (project.folder / "block.trace", path)
    ]
    assert asked == [
        {"its own", "a guest's"},
        {"nobody's", "the main thread's", "the main thread's second"},
    ]

"""A first hour with a plain script, on this Python: its exit codes, and its replay."""

from __future__ import annotations

from .place import Newcomer

SCRIPT = """
import sys
from appl import gen, ppl

@ppl
def ask(question: str) -> str:
    "Facts: Mira Holt is a baker from Tarn. Olaf Brand is a pilot."
    f"Question: {question} Answer with the name only."
    return gen()

print(ask("Who is a baker?"))
sys.exit(len(sys.argv) > 1 and int(sys.argv[1]))
"""


def test_a_script_on_this_python(starter: Newcomer) -> None:
    """``.ci/pythons`` runs this on the newest other Python that the machine has."""
    starter.writes("script.py", SCRIPT)
    out, told = starter.types("python script.py")
    assert out == "Mira Holt\n" and "Traceback" not in told
    out, told = starter.types("python script.py 5", code=5)
    assert out == "Mira Holt\n" and "Traceback" not in told
    again, told = starter.types("appl trace replay -- 5", code=5)
    assert again == out and "Traceback" not in told

"""A notebook that reloads modules gives prompt functions that were imported by name their new text."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

MODULE = """\
from appl import gen, ppl

@ppl
def f(x):
    f"WORD {x}"
    return gen()

@ppl
async def g(x):
    f"WORD {x}"
    return await gen()
"""
CELLS = """\
import os, pathlib, sys
from IPython.core.interactiveshell import InteractiveShell

shell, module = InteractiveShell.instance(), pathlib.Path("words.py")

def cell(text):
    shell.run_cell(text).raise_error()

cell("%load_ext autoreload\\n%autoreload 2\\nfrom words import f, g\\n"
     "from appl.testing import Fake, running\\n"
     "said = lambda: running(Fake(lambda request: request.messages.message.content))")
cell("with said(): print(f(1))")
later = module.stat().st_mtime_ns + 10**10
module.write_text(module.read_text().replace("one", "two"))
os.utime(module, ns=(later, later))
cell("with said(): print(f(1))")
cell("with said(): print(await g(1))")
"""


def test_autoreload_replaces_functions_that_were_imported_by_name(tmp_path: Path) -> None:
    (tmp_path / "words.py").write_text(MODULE.replace("WORD", "one"), "utf-8")
    (tmp_path / "cells.py").write_text(CELLS, "utf-8")
    done = subprocess.run(
        [sys.executable, "cells.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120,
        env={**os.environ, "IPYTHONDIR": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines()[-3:] == ["one 1", "two 1", "two 1"], done.stdout + done.stderr

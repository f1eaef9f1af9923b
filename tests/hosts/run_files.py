"""A program that runs a prompt function several times, and prints how many files each run opens,
and how many of them describe installed packages."""

from __future__ import annotations

import sys
from pathlib import Path

import appl

Path("told.py").write_text(
    "from appl.backend import Profile, Response, Sample, Usage\n\n\n"
    "class Told:\n"
    '    profile = Profile("told")\n\n'
    "    async def complete(self, request, emit=None):\n"
    '        return Response((Sample("yes", "stop"),), Usage(1, 1, None))\n\n'
    "    async def aclose(self):\n"
    "        pass\n"
)
Path("prog.py").write_text(
    'from appl import gen, ppl\n\n\n@ppl\ndef main():\n    "Hello"\n    return gen()\n'
)
sys.path.insert(0, "")
import prog  # noqa: E402

appl.init(backends={"told": {"type": "told:Told"}}, model="told/x", home=Path("home"))
opened: list[str] = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
for _ in range(4):
    opened.clear()
    assert str(appl.run(prog.main)) == "yes"
    print(len(opened), sum("dist-info" in name for name in opened))

from __future__ import annotations

from appl.compiler.source import Def, Found


def verify_lowered(node: Def, found: Found) -> None:
    pass

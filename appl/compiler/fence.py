"""The pass that refuses what cannot be compiled, before anything is changed.

Invariant: a refusal is a ``PromptSyntaxError`` at the user's line and says what to write instead.
"""

from __future__ import annotations

from appl.compiler.source import Found


def fence(found: Found, ctx: str, parallel: bool, kind: str) -> None:
    pass

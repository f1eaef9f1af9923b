"""The import path ``appl.core`` of programs for APPL 0.2: the names of ``appl`` and its types."""

from __future__ import annotations

from shutil import get_terminal_size
from typing import Any

from appl.parts.compat.compositor import ApplStr as ApplStr
from appl.parts.compat.files import dump_file as dump_file, load_file as load_file
from appl.parts.compat.func import (
    need_ctx as need_ctx,
    partial as partial,
    promptify as promptify,
    wraps as wraps,
)
from appl.parts.compat.types import *  # noqa: F403
from appl.prompt import define as define
from appl.runtime.prompts.roles import (
    AIRole as AIRole,
    SystemRole as SystemRole,
    ToolRole as ToolRole,
    UserRole as UserRole,
)
from appl.runtime.traced import traceable as traceable


def make_panel(
    content: str,
    *,
    title: str | None = None,
    style: str = "none",
    lexer: str | None = None,
    truncate: bool = False,
) -> Any:
    """*content* as a panel of rich."""
    from rich import (
        panel,  # only a live display needs it
        syntax,  # only a live display needs it
    )

    if truncate:
        content = "\n".join(content.splitlines()[2 - get_terminal_size().lines :])
    code = syntax.Syntax(content, lexer=lexer or "markdown", theme="monokai", word_wrap=True)
    return panel.Panel(code, title=title, style=style)

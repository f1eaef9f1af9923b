"""The import path ``appl.role_changer`` of programs for APPL 0.2."""

from __future__ import annotations

from appl.runtime.prompts.roles import (
    AIRole as AIRole,
    SystemRole as SystemRole,
    ToolRole as ToolRole,
    UserRole as UserRole,
)

"""Code that a model wrote, run in a sandbox: no network, no files of yours, limits on the rest.

Invariant: what comes back from a sandbox is text and numbers, and is never evaluated or unpickled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from appl.base.lazy_names import names_of

if TYPE_CHECKING:
    from appl.parts.sandbox.running import run_code as run_code
    from appl.parts.sandbox.values import (
        CodeResult as CodeResult,
        SandboxLimits as SandboxLimits,
    )
else:
    __getattr__ = names_of(__name__, {"running": "run_code", "values": "CodeResult SandboxLimits"})

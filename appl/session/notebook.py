"""The line below a notebook's cell that leads to the trace of its calls.

Invariant: outside of a notebook's kernel, nothing is loaded and nothing is shown.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from appl.runtime.run import Run


def show_trace_below_cells(run: Run, path: Path) -> None:
    """Show a collapsed line with *path* below each cell that makes calls in *run*."""
    shell = kernel_shell()
    if shell is not None:
        shell.events.register("post_run_cell", _TraceLine(run, path))


def kernel_shell() -> Any:
    """The shell of the notebook's kernel in this process; ``None`` elsewhere."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell if getattr(shell, "kernel", None) is not None else None


@dataclass(eq=False)
class _TraceLine:
    """Called after each cell; ``shown`` is the number of calls that earlier cells made."""

    run: Run
    path: Path
    shown: int = 0

    def __call__(self, result: object = None) -> None:
        count = sum(self.run.tree.root.counts.values())
        if count != self.shown:
            self.shown = count
            _display(self.path)


def _display(path: Path) -> None:
    import html  # only the line of a cell needs it

    display = sys.modules["IPython"].display
    command = html.escape(f"!appl trace view {path}")
    display.display(
        display.HTML(
            '<details style="opacity:.6;font-size:85%"><summary>trace</summary>'
            f"<code>{html.escape(str(path))}</code><br>in a cell: <code>{command}</code></details>"
        )
    )

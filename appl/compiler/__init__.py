"""The compiler: from a decorated ``def`` to code over the runtime's hooks, and to a call graph."""

from appl.compiler.hooks import Hooks, is_compiled
from appl.compiler.names import program_of
from appl.compiler.passes import CompilerOptions, Translated, rebuild, translate
from appl.compiler.refusals import require_function

__all__ = [
    "CompilerOptions",
    "Hooks",
    "Translated",
    "is_compiled",
    "program_of",
    "rebuild",
    "require_function",
    "translate",
]

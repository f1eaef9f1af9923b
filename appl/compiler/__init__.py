"""The compiler: from a decorated ``def`` to a call graph and to code over the runtime's hooks."""

from appl.compiler.ir import Hooks
from appl.compiler.passes import Options, Translated, lowered_source, rebuild, translate

__all__ = ["Hooks", "Options", "Translated", "lowered_source", "rebuild", "translate"]

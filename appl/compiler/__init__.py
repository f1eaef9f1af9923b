"""The compiler: from a decorated ``def`` to code over the runtime's hooks, and to a call graph."""

from typing import TYPE_CHECKING

from appl.base.lazy_names import names_of

if TYPE_CHECKING:
    from appl.compiler.hooks import Hooks, is_compiled, program_of
    from appl.compiler.passes import CompilerOptions, Translated, rebuild, translate
    from appl.compiler.refusals import require_function
else:
    __getattr__ = names_of(
        __name__,
        {
            "hooks": "Hooks is_compiled program_of",
            "passes": "CompilerOptions Translated rebuild translate",
            "refusals": "require_function",
        },
    )

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

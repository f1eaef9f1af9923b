"""The names of ``asyncio``, which is loaded when one of them is first used.

Whoever stands on the way of an import uses it so, as ``asyncio`` takes 20 ms to load.
"""

from __future__ import annotations


def __getattr__(name: str) -> object:
    import asyncio  # which `import appl` must not cost

    value = globals()[name] = getattr(asyncio, name)
    return value

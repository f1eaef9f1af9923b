"""Results that a process keeps from one run to the next.

Invariant: a result is kept with the inputs that it was made from, and comes back for these only.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
_MOST = 16


def memoized(make: Callable[P, R]) -> Callable[P, R]:
    """*make*, a function of unchanging values, called only for inputs that did not come lately.

    Inputs are the same if they are the same objects, or equal strings.
    """
    results: dict[tuple[object, ...], tuple[object, R]] = {}

    @wraps(make)
    def result(*args: P.args, **kwargs: P.kwargs) -> R:
        inputs = (*args, *kwargs.values())
        key = tuple([value if type(value) is str else id(value) for value in inputs])
        entry = results.get(key)
        if entry is None:
            if len(results) >= _MOST:
                results.clear()
            # The inputs are kept, too: the number of an object that is gone may be another's.
            entry = results[key] = inputs, make(*args, **kwargs)
        return entry[1]

    return result

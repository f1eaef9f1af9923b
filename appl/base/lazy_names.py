"""Public names that are imported at their first use, each with the module that defines it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def names_of(
    package: str, table: Mapping[str, str], own: str | None = None
) -> Callable[[str], Any]:
    """The ``__getattr__`` of *package*, or of its module *own*: names are imported at first use.

    *table* has the names that each module of the package defines, with spaces between them. So
    whoever needs one of them does not load them all.
    """
    own = own or package
    where = {name: module for module, names in table.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {own!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{where[name]}"), name)
        setattr(sys.modules[own], name, value)
        return value

    return get

"""What the metadata of installed packages says: what they declare, and which version we are.

Invariant: a folder on the import path is read here, as ``importlib.metadata`` takes 25 ms to load
and to read all of it. It is asked about archives, and where other finders know packages.
"""

from __future__ import annotations

import functools
import importlib
import os
import re
import sys
from collections.abc import Mapping
from importlib.machinery import PathFinder
from types import MappingProxyType
from typing import Any, NamedTuple

_METADATA = (".dist-info", ".egg-info")
Places = tuple[tuple[str, tuple[str, ...]], ...]


class Declared(NamedTuple):
    """What a package declares: ``value`` is ``module:attribute``."""

    name: str
    value: str

    def load(self) -> Any:
        """The value. Raises what the import raises, and ``AttributeError``."""
        module, _, attributes = self.value.partition("[")[0].partition(":")
        value: Any = importlib.import_module(module.strip())
        return functools.reduce(getattr, filter(None, attributes.strip().split(".")), value)


def declared(group: str) -> Mapping[str, Declared]:
    """What installed packages declare as entry points of *group*, by name.

    The same mapping comes back until a package is installed or removed.
    """
    return _declared(group, tuple([(place, _packages(place)) for place in sys.path]))


@functools.lru_cache(maxsize=4)
def _declared(group: str, places: Places) -> Mapping[str, Declared]:
    finders = [finder for finder in sys.meta_path if hasattr(finder, "find_distributions")]
    archives = [place for place, names in places if not names]
    if any(finder is not PathFinder for finder in finders) or any(
        place.endswith(".egg") or os.path.isfile(place) for place in archives
    ):  # packages may lie elsewhere than in the folders of *places*
        from importlib import metadata  # 20 ms that `import appl` must not cost

        points = metadata.entry_points(group=group)
        return MappingProxyType({point.name: Declared(point.name, point.value) for point in points})
    result, packages = dict[str, Declared](), set[str]()
    for place, names in places:
        for folder in names:
            package = re.sub(r"[-_.]+", "_", folder.rpartition(".")[0].partition("-")[0]).lower()
            if package not in packages:  # else it is hidden by one that stands before it
                packages.add(package)
                for name, value in _entry_points(f"{place or '.'}/{folder}", group):
                    result[name] = Declared(name, value)
    return MappingProxyType(result)


def _entry_points(folder: str, group: str) -> list[tuple[str, str]]:
    """The names and values of *group* in the metadata in *folder*."""
    try:
        with open(f"{folder}/entry_points.txt", "rb") as file:
            data = file.read()
    except OSError:  # most packages declare nothing
        return []
    if group.encode() not in data:
        return []
    section, pairs = "", []
    for line in map(str.strip, data.decode("utf-8", "replace").splitlines()):
        if line.startswith("["):
            section = line.strip("[]")
        elif section == group and line and not line.startswith("#"):
            name, _, value = line.partition("=")
            pairs.append((name.strip(), value.strip()))
    return pairs


def _packages(place: str) -> tuple[str, ...]:
    try:
        return _packages_as_of(place, os.stat(place or ".").st_mtime_ns)
    except OSError:
        return ()


@functools.lru_cache(maxsize=64)
def _packages_as_of(place: str, changed_ns: int) -> tuple[str, ...]:
    """The folders of metadata in *place*, which is listed again when it has changed."""
    return tuple(sorted(name for name in os.listdir(place or ".") if name.endswith(_METADATA)))


@functools.cache
def version() -> str:
    """The installed version of appl, ``source`` for a checkout that is not installed."""
    for place in sys.path:
        for folder in _packages(place):
            if folder.startswith("appl-") and folder.endswith(".dist-info"):
                return folder[len("appl-") : -len(".dist-info")]
    from importlib import metadata  # it also knows packages that lie elsewhere

    try:
        return str(metadata.version("appl"))
    except metadata.PackageNotFoundError:
        return "source"

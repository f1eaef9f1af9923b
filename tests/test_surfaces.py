"""The names that rooms offer: each exists, and other rooms or programs beside `appl/` import it."""

from __future__ import annotations

import ast
import importlib
from functools import cache
from pathlib import Path

import pytest

from tests.test_imports import ROOT, imported, sources

Table = dict[str, str]


def tables(package: Path) -> Table:
    """The modules in the lazy table of a package, each with its names."""
    for node in ast.walk(ast.parse(package.read_text("utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "names_of":
            return dict(ast.literal_eval(node.args[1]))
    return {}


PACKAGES = {
    ".".join(file.parent.relative_to(ROOT).parts): file
    for file in sources()
    if file.name == "__init__.py" and tables(file)
}
SURFACES = [name for name, file in PACKAGES.items() if "TYPE_CHECKING" not in file.read_text()]
"""Rooms whose names are for the other rooms. Those of a package that is for users have types."""


@pytest.mark.parametrize("package", PACKAGES)
def test_every_lazy_name_is_there(package: str) -> None:
    module = importlib.import_module(package)
    names = " ".join(tables(PACKAGES[package]).values()).split()
    assert names and not [name for name in names if not hasattr(module, name)]


@cache
def programs() -> list[tuple[Path, str]]:
    """All sources and benchmarks, each with its text."""
    files = [*sources(), *(ROOT / "benchmarks").rglob("*.py")]
    return [(file, file.read_text("utf-8")) for file in files]


@pytest.mark.parametrize("package", SURFACES)
def test_a_room_offers_what_others_import(package: str) -> None:
    for module, names in tables(PACKAGES[package]).items():
        texts = users(f"{package}.{module}")
        unused = [name for name in names.split() if not any(name in text for text in texts)]
        assert not unused, (package, module)


def users(module: str) -> list[str]:
    """The texts of all files that import *module* and lie in another room than it."""
    source = ROOT / module.replace(".", "/")
    room = source if source.is_dir() else source.parent
    return [
        text
        for file, text in programs()
        if file.parent != room
        and any(module in imported(file, kind) for kind in ("import", "type", "late"))
    ]


def test_architecture_names_the_rooms_that_offer_names() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    assert not [name for name in SURFACES if f"`{name}`" not in text]

"""What packages declare, held against ``importlib.metadata``."""

from __future__ import annotations

import importlib.metadata
import json
import tomllib
import zipfile
from pathlib import Path

import pytest

from appl.base.packages import declared, version

GROUP = "appl.backends"
PROJECT = Path(__file__).parents[1] / "pyproject.toml"


def by_the_library(group: str) -> dict[str, str]:
    return {point.name: point.value for point in importlib.metadata.entry_points(group=group)}


def by_us(group: str) -> dict[str, str]:
    return {name: point.value for name, point in declared(group).items()}


def package(place: Path, folder: str, text: str, name: str = "some") -> None:
    metadata = place / folder
    metadata.mkdir(parents=True)
    file = "PKG-INFO" if folder.endswith(".egg-info") else "METADATA"
    (metadata / file).write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(text)


@pytest.mark.parametrize("group", [GROUP, "console_scripts", "pytest11", "none.of.these"])
def test_this_environment_declares_what_the_library_finds(group: str) -> None:
    assert by_us(group) == by_the_library(group)


def test_the_installed_backends_are_those_of_the_project_file() -> None:
    written = tomllib.loads(PROJECT.read_text("utf-8"))["project"]["entry-points"][GROUP]
    ours = {name: place for name, place in by_us(GROUP).items() if "appl_backends." in place}
    assert ours == written, "install the package again: pip install -e '.[dev]'"


@pytest.mark.parametrize(
    "text",
    [
        "[appl.backends]\na = m:A\n[other]\nb = m:B\n",
        "[other]\nb = m:B\n\n[appl.backends]\n# a comment\na= m:A.b\nc =m:C [extra]\n",
        "; nothing\n",
        "  [appl.backends]  \n\n  a = m:A  \n",
    ],
)
def test_entry_points_are_read_as_the_library_reads_them(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(tmp_path, "some-1.dist-info", text)
    monkeypatch.syspath_prepend(tmp_path)
    assert by_us(GROUP) == by_the_library(GROUP)


def test_a_package_hides_one_of_its_name_in_a_later_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(tmp_path / "later", "Some.Name-1.dist-info", "[appl.backends]\nold = m:A\n")
    package(tmp_path / "first", "some_name-2.dist-info", "[appl.backends]\nnew = m:A\n")
    package(tmp_path / "later", "other.egg-info", "[appl.backends]\nother = m:A\n", "other")
    monkeypatch.syspath_prepend(tmp_path / "later")
    monkeypatch.syspath_prepend(tmp_path / "first")
    assert {"new", "other"} == by_us(GROUP).keys() & {"new", "old", "other"}
    assert by_us(GROUP) == by_the_library(GROUP)


def test_a_package_in_an_archive_is_there_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "packed.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("packed-1.dist-info/METADATA", "Name: packed\nVersion: 1\n")
        packed.writestr("packed-1.dist-info/entry_points.txt", "[appl.backends]\np = m:A\n")
    monkeypatch.syspath_prepend(archive)
    assert by_us(GROUP)["p"] == "m:A"


def test_a_declared_value_is_loaded_with_its_attributes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package(
        tmp_path, "some-1.dist-info", "[appl.backends]\nd = json:JSONDecoder.decode [x]\nj = json\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert declared(GROUP)["d"].load() is json.JSONDecoder.decode
    assert declared(GROUP)["j"].load() is json


def test_our_version_is_that_of_the_library() -> None:
    assert version() == importlib.metadata.version("appl")

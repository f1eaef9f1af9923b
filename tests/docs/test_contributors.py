"""The pages for contributors are true: their files and names exist, and the rooms import what they say."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.test_imports import ALL, MAY, ROOT, sources

ARCHITECTURE, CONTRIBUTING = ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"
PAGES = [ARCHITECTURE, CONTRIBUTING, ROOT / "AGENTS.md", ROOT / "docs" / "glossary.md"]
CODE = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"[\w.-]*[\w/-]+(?:\.py|\.md|\.js|\.toml|\.sh|/)")
NAME = re.compile(r"[A-Z]+[a-z]\w+(?:\.[a-z_]\w+)?")
PLACED = re.compile(r"`(\w[\w.]*)`\*{0,2}\s+\(`(\w+/[\w/]+\.py)`")
ROW = re.compile(r"^\| (`.+`[^|]*) \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)


def quoted(page: Path) -> list[str]:
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    return CODE.findall(text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    everywhere = {file.name for file in sources()}
    named = [word for word in quoted(page) if FILE.fullmatch(word) and "NAME" not in word]
    missing = {
        word
        for word in named
        if not (ROOT / word).exists()
        and not any((ROOT / "appl" / room / word).is_dir() for room in ("runtime", "tracing"))
        and word not in everywhere
    }
    assert page.name == "AGENTS.md" or named
    assert not missing - {"page.py"}


def test_every_file_of_ours_that_the_documentation_names_exists() -> None:
    ours = re.compile(
        r"(?:appl|backends|benchmarks|examples|tests|viewer)/[\w/.-]+\.(?:py|sh|md|ts|js|jsonl?|txt)\b"
    )
    missing = [
        f"{page.relative_to(ROOT)}: {word}"
        for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
        for text in quoted(page)
        for word in ours.findall(text)
        if "NAME" not in word and not (ROOT / word).exists()
    ]
    assert not missing


def defined() -> set[str]:
    """The classes of the package, with their methods and fields, and names of modules."""
    found = set[str]()
    for file in sources():
        for node in ast.parse(file.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef):
                found |= {node.name, *(f"{node.name}.{name}" for name in _members(node))}
            elif isinstance(node, ast.Assign):
                found |= {ast.unparse(target) for target in node.targets}
    return found


def _members(node: ast.ClassDef) -> set[str]:
    inside = [part for part in node.body if isinstance(part, ast.FunctionDef | ast.AnnAssign)]
    return {
        part.name if isinstance(part, ast.FunctionDef) else ast.unparse(part.target)
        for part in inside
    }


@pytest.mark.parametrize("page", [ARCHITECTURE, CONTRIBUTING], ids=lambda page: page.name)
def test_every_class_that_a_page_names_exists(page: Path) -> None:
    named = {word for word in quoted(page) if NAME.fullmatch(word)}
    assert named
    assert not named - defined()


@pytest.mark.parametrize("page", [ARCHITECTURE, CONTRIBUTING], ids=lambda page: page.name)
def test_a_name_stands_in_the_file_that_a_page_gives_for_it(page: Path) -> None:
    for name, file in PLACED.findall(page.read_text("utf-8")):
        first = re.escape(name.partition(".")[0])
        text = (ROOT / file).read_text("utf-8")
        assert re.search(rf"^(?:(?:class|def) )?{first}\b", text, re.MULTILINE), name


def test_a_row_of_the_five_changes_names_what_stands_in_its_files() -> None:
    text = CONTRIBUTING.read_text("utf-8").partition("## Five changes")[2]
    rows = [line for line in text.splitlines() if line.startswith("| ") and "`" in line]
    missing = list[str]()
    for row in rows:
        words = CODE.findall(row)
        files = [ROOT / word for word in words if (ROOT / word).is_file()]
        files += [file.parent / word for file in files for word in words if "/" not in word]
        said = "".join(file.read_text("utf-8") for file in {*files} if file.is_file())
        names = [word for word in words if re.fullmatch(r"[A-Za-z_][\w.]*", word)]
        named = {
            part
            for word in names
            if not word.endswith((".py", ".toml")) and len(word) > 2
            for part in word.split(".")
        }
        missing += [name for name in named if files and not re.search(rf"\b{name}\b", said)]
    assert len(rows) > 15
    assert not missing


def test_the_rooms_may_import_what_the_page_says() -> None:
    rows = {
        name: "" if may == "nothing" else may
        for rooms, may in ROW.findall(ARCHITECTURE.read_text("utf-8"))
        if may != "all" and "room of" not in rooms
        for name in re.findall(r"`(\w[\w.]*)`", rooms)
    }
    expected = {room: ", ".join(others) for room, others in MAY.items()}
    wanted = [f"{room} | {may or 'nothing'}" for room, may in expected.items()]
    assert rows == expected, "\n".join(["the rows of ARCHITECTURE.md:", *wanted])


def test_the_rooms_that_may_import_all_are_on_the_page() -> None:
    rows = ROW.findall(ARCHITECTURE.read_text("utf-8"))
    named = {name for rooms, may in rows if may == "all" for name in CODE.findall(rooms)}
    folders = {
        room for room in ALL if (ROOT / "appl" / room.replace(".", "/") / "__init__.py").exists()
    }
    assert named == folders


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").split()) <= 1_200


@pytest.mark.parametrize("page", ["README.md", "docs/evaluation.md", "docs/concepts/viewer.md"])
def test_the_pictures_of_a_page_are_made_by_the_script(page: str) -> None:
    script = (ROOT / "docs" / "pictures" / "make.py").read_text("utf-8")
    shown = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", (ROOT / page).read_text("utf-8"))
    assert shown
    for picture in shown:
        assert (ROOT / page).parent.joinpath(picture).is_file(), picture
        assert f'"{Path(picture).stem}"' in script, picture

"""The texts of prompt functions: what is found, how it is edited, and what an edit leaves alone."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings, strategies

from appl.errors import InvalidOption
from appl.parts.optimization.components import EditableProgram
from appl.testing import Echo, running

from . import program

SOURCE = '''\
from appl import gen, ppl

@ppl
def many(d, n=1):
    """Documentation."""
    "Plain {x}"
    f"Braces {{x}} and {d['k']!r:>4} and {n:{n}}"
    f"""
    Long: {n}
      deeper
    """
    if n:
        ("in " "two parts"); 'é "quoted"'
    for _ in range(n):
        f"{n}"
    return gen()

def plain():
    "never said"
'''


def loaded(folder: Path, source: str, name: str = "edited") -> ModuleType:
    path = folder / f"{name}.py"
    path.write_text(source, "utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def prompt_of(f: Callable[..., object], *args: object) -> str:
    with running(Echo()) as seen:
        str(f(*args))
    return "\n".join(message.content for message in seen.requests[-1].messages or ())


def test_every_text_statement_of_a_prompt_function_is_found(tmp_path: Path):
    found = EditableProgram(loaded(tmp_path, SOURCE).many).components
    assert [each.text for each in found] == [
        "Plain {x}",
        "Braces {x} and {d['k']!r:>4} and {n:{n}}",
        "Long: {n}\n  deeper",
        "in two parts",
        'é "quoted"',
        "{n}",
    ]
    assert [each.line for each in found] == [6, 7, 8, 13, 13, 15]
    assert found[1].placeholders == ("{d['k']!r:>4}", "{n:{n}}")


def test_texts_of_called_functions_methods_and_of_modules_in_the_folder_are_found(tmp_path: Path):
    functions = {each.function for each in EditableProgram(program.answer).components}
    assert functions == {"topic", "answer", "judge", "Agent.ask", "spoken", "measured"}
    loaded(tmp_path, SOURCE, "others")
    user = loaded(tmp_path, "import others\n\ndef main(d):\n    return others.many(d)\n", "user")
    assert {Path(each.file).name for each in EditableProgram(user.main).components} == {"others.py"}


def test_a_candidate_says_its_texts_and_afterwards_the_old_ones_are_back():
    old = prompt_of(program.spoken, "q")
    found = EditableProgram(program.spoken)
    texts = {each.key: f"New: {each.text}" for each in found.components}
    with pytest.raises(KeyError), found.using(texts):
        assert prompt_of(program.spoken, "q") == old.replace("Say", "New: Say") != old
        raise KeyError
    assert prompt_of(program.spoken, "q") == old


def test_methods_and_coroutine_functions_get_the_texts_of_a_candidate_too():
    found = EditableProgram(program.Agent().ask)
    ask = next(each for each in found.components if each.function == "Agent.ask")
    with found.using({ask.key: "Reply to {question}"}):
        assert prompt_of(program.Agent().ask, "q") == "Reply to q"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Topic?", "{question} stands there 0 times in place of 1"),
        ("{question} {question}", "{question} stands there 2 times in place of 1"),
        (" \n", "it is empty"),
        ("Say {question} and {other}", None),
    ],
)
def test_a_text_has_the_placeholders_of_the_old_one(text: str, says: str | None):
    topic = next(
        each for each in EditableProgram(program.topic).components if each.function == "topic"
    )
    assert topic.refusal(text) == says


def texts(placeholders: tuple[str, ...]) -> strategies.SearchStrategy[str]:
    pieces = strategies.text(strategies.characters(exclude_categories=["Cs"]), max_size=120)
    return strategies.lists(pieces, min_size=1, max_size=3).flatmap(
        lambda found: strategies.permutations([*found, *placeholders]).map("".join)
    )


@settings(max_examples=60, deadline=None)
@given(strategies.data())
def test_whatever_is_written_is_read_as_it_is_and_nothing_else_changes(data: strategies.DataObject):
    folder = Path(__file__).parent
    found = EditableProgram(program.answer)
    file = str(folder / "program.py")
    wanted = {each.key: each.text for each in found.components}
    for each in found.components:
        text = data.draw(texts(each.placeholders))
        if each.refusal(text) is None:
            wanted[each.key] = text
    source = found.source(file, wanted)
    said = [
        "".join(
            str(part.value)
            if isinstance(part, ast.Constant)
            else "{" + ast.unparse(part.value) + "}"  # type: ignore[attr-defined]
            for part in (
                node.value.values if isinstance(node.value, ast.JoinedStr) else [node.value]
            )
        )
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.JoinedStr | ast.Constant)
    ]
    assert set(wanted.values()) <= set(said)
    before, after = (_skeleton(text) for text in (Path(file).read_text("utf-8"), source))
    assert before == after


def _skeleton(source: str) -> str:
    """The tree of *source* without what its text statements say."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.JoinedStr | ast.Constant):
            node.value = ast.Constant("")
    return ast.dump(tree)


def test_the_diff_is_one_that_patch_applies_and_write_writes(tmp_path: Path):
    module = loaded(tmp_path, SOURCE)
    found = EditableProgram(module.many)
    wanted = {each.key: f"New.\n{each.text}" for each in found.components}
    (tmp_path / "a.patch").write_text(found.diff(wanted))
    subprocess.run(
        ["patch", "-s", "edited.py", "a.patch", "-o", "patched.py"], cwd=tmp_path, check=True
    )
    found.write(wanted)
    written = (tmp_path / "edited.py").read_text("utf-8")
    assert (tmp_path / "patched.py").read_text("utf-8") == written != SOURCE


def test_line_endings_and_the_mark_of_the_file_stay(tmp_path: Path):
    module = loaded(tmp_path, SOURCE)
    raw = b"\xef\xbb\xbf" + SOURCE.replace("\n", "\r\n").encode()
    (tmp_path / "edited.py").write_bytes(raw)
    found = EditableProgram(loaded_again(module, tmp_path).many)
    found.write({found.components[0].key: "Other {x}"})
    assert (tmp_path / "edited.py").read_bytes() == raw.replace(b"Plain {x}", b"Other {x}")


def loaded_again(module: ModuleType, folder: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("edited", folder / "edited.py")
    assert spec is not None and spec.loader is not None
    again = importlib.util.module_from_spec(spec)
    sys.modules["edited"] = again
    spec.loader.exec_module(again)
    return again


def test_a_file_that_changed_meanwhile_is_not_written(tmp_path: Path):
    found = EditableProgram(loaded(tmp_path, SOURCE).many)
    (tmp_path / "edited.py").write_text(SOURCE + "\n# mine\n", "utf-8")
    with pytest.raises(InvalidOption, match="was changed meanwhile"):
        found.write({found.components[0].key: "Other {x}"})
    assert "# mine" in (tmp_path / "edited.py").read_text("utf-8")

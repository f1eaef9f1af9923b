"""Where the source of a function is found, and what is said when it is not."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import linecache
import os
import pty
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from appl.compiler import interactive_source, source
from appl.compiler.graph_source import graph_of
from appl.compiler.passes import translate
from appl.errors import SourceUnavailable

from .support import NOTES, define, module, ppl, said

ROOT = Path(__file__).parents[2]
SAYING = """
from tests.compiler.support import NOTES, ppl

@ppl
def f(a):
    '''Documentation.'''
    f'Hello {a}'
    assert a == 'never', 'no'

try:
    f('you')
except AssertionError:
    NOTES.text('assertion')
print(NOTES.log)
"""
SAID = "[('begin',), ('piece', 'Hello '), ('hole', 'you', '', ''), ('text', 'assertion')]"


def python(*arguments: str, **options: Any) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, **options
    )
    return done.stdout.strip() or done.stderr.strip()


def loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def without_asserts(text: str) -> str:
    return text.replace(", ('text', 'assertion')", "")


@pytest.mark.parametrize("flags", ["-O", "-OO"])
def test_a_file_under_optimisation(tmp_path: Path, flags: str) -> None:
    path = tmp_path / "program.py"
    path.write_text(SAYING)
    assert python(flags, str(path)) == without_asserts(SAID)


def test_a_program_on_the_command_line() -> None:
    assert python("-c", SAYING) == SAID
    assert python("-Wd", "-X", "dev", "-c", SAYING) == SAID
    assert python("-OOc", SAYING) == without_asserts(SAID)


def test_code_that_such_a_program_runs_with_exec_has_no_source() -> None:
    made = "def f():\\n    'other'\\n    return 1\\n"
    text = f"from tests.compiler.support import ppl\ndef f():\n    'one'\nexec({made!r})\nppl(f)"
    shown = python("-c", text.replace("\\\\", "\\"))
    assert "SourceUnavailable: no source for f() of <string>" in shown


def test_a_program_on_standard_input_says_what_to_do() -> None:
    assert "Put it into a file" in python("-", input=SAYING)


@pytest.mark.skipif(sys.platform != "linux", reason="needs a pseudo-terminal")
def test_the_interactive_interpreter() -> None:
    main, other = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "dumb", "PYTHON_BASIC_REPL": "1"}
    process = subprocess.Popen(
        [sys.executable, "-q"], stdin=other, stdout=other, stderr=other, env=environment
    )
    os.close(other)
    typed = (
        "from tests.compiler.support import NOTES, ppl\n"
        "@ppl\ndef f(a):\n    'Hello'\n    return a\n\n"
        "print('said', f(42), NOTES.log)\nexit()\n"
    )
    os.write(main, typed.encode())
    shown = ""
    try:
        while piece := os.read(main, 4096):
            shown += piece.decode()
    except OSError:  # the other end is closed
        pass
    process.wait(timeout=10)
    os.close(main)
    assert "said 42 [('text', 'Hello')]" in shown


def test_doctests() -> None:
    """
    >>> @ppl
    ... def f(a):
    ...     f"Hello {a}"
    ...     return 'done'
    >>> f('you')
    'done'
    """
    example = doctest.DocTestParser().get_doctest(
        test_doctests.__doc__ or "", {"ppl": ppl}, "t", None, 0
    )
    NOTES.take()
    result = doctest.DocTestRunner().run(example)
    assert (result.failed, result.attempted) == (0, 2)
    assert NOTES.take() == [("begin",), ("piece", "Hello "), ("hole", "you", "", "")]


def test_notebook_cells_are_files_of_linecache() -> None:
    shared: dict[str, Any] = {"ppl": ppl}
    for number, text in enumerate(("@ppl\ndef f():\n    'one'\n", "@ppl\ndef f():\n    'two'\n")):
        file = f"/tmp/ipykernel_1/{number}.py"
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)
        exec(compile(text, file, "exec"), shared)
        assert said(shared["f"]) == [("text", ("one", "two")[number])]


def test_code_without_source_says_what_to_do() -> None:
    space: dict[str, Any] = {"ppl": ppl}
    with pytest.raises(SourceUnavailable, match=r"no source for f\(\) of <made>.*linecache\.cache"):
        exec(compile("@ppl\ndef f():\n    'text'\n", "<made>", "exec"), space)


def test_a_file_that_changed_after_the_import(tmp_path: Path) -> None:
    path = tmp_path / "changing.py"
    path.write_text("def f(a):\n    'one'\n    return a\n")
    f = loaded(path).f
    path.write_text("import os\n\ndef f(a):\n    'one'\n    return a\n")
    with pytest.raises(SourceUnavailable, match=r"f\(\); the file changed after it was imported"):
        translate(f)


@pytest.mark.parametrize(
    "changed",
    [
        "def f(a, b):\n    'one'\n    return a\n",
        "def f(b):\n    'one'\n    return b\n",
        "def f(a):\n    'one'\n    return a.other\n",
        "def f(a):\n    'one'\n",
        "def f(a:\n    'one'\n    return a\n",
        "def g(a):\n    'one'\n    return a\n",
    ],
)
def test_a_change_at_the_same_line_is_noticed(tmp_path: Path, changed: str) -> None:
    path = tmp_path / "changing.py"
    path.write_text("def f(a):\n    'one'\n    return a\n")
    f = loaded(path).f
    path.write_text(changed)
    with pytest.raises(SourceUnavailable):
        translate(f)


def test_a_module_that_is_loaded_again_is_compiled_from_its_new_text(tmp_path: Path) -> None:
    path = tmp_path / "reloaded.py"
    for word in ("one", "a longer two"):
        path.write_text(f"def f():\n    pass\n    '{word}'\n")
        assert said(ppl(loaded(path).f)) == [("text", word)]


def test_a_nested_function_keeps_the_text_that_its_outer_one_was_made_from(tmp_path: Path) -> None:
    path = tmp_path / "nested.py"
    text = f"""
        from {ppl.__globals__["__name__"]} import ppl
        @ppl
        def outer():
            @ppl
            def inner():
                pass
                "old"
            inner()
    """
    path.write_text(textwrap.dedent(text))
    outer = loaded(path).outer
    path.write_text(textwrap.dedent(text.replace("old", "changed")))
    assert said(outer) == [("text", "old")]


def test_a_file_is_parsed_once(tmp_path: Path) -> None:
    path = tmp_path / "many.py"
    path.write_text("".join(f"def f{n}():\n    'text {n}'\n" for n in range(20)))
    made = loaded(path)
    found = [source.find(getattr(made, f"f{n}")) for n in range(20)]
    assert len({id(each.source) for each in found}) == 1


def test_functions_of_one_name_are_told_apart_by_their_line() -> None:
    space = module("""
        fs = []
        for n in range(2):
            if n:
                @ppl
                def f(): 'first'
            else:
                @ppl
                def f(): 'second'
            fs.append(f)
    """)
    assert [said(f) for f in space["fs"]] == [[("text", "second")], [("text", "first")]]


def test_decorators_over_several_lines() -> None:
    f = define("""
        @ppl(
            ctx="copy",
        )
        # a comment

        def f(a,
              b=1):
            'text'
            return b
    """)
    assert said(f, 1) == [("text", "text")]


def test_definitions_in_odd_places() -> None:
    space = module("""
        try:
            with open('/dev/null') as _:
                match 1:
                    case 1:
                        while True:
                            @ppl
                            def f(): 'found'
                            break
        finally:
            pass
    """)
    assert said(space["f"]) == [("text", "found")]


def test_characters_beyond_ascii_and_form_feeds() -> None:
    f = define(
        '"é" ; é = "ü"\n\f\ndef f(ä):\n    "é"; """ñ\n      ñ"""\n    f"日本 {ä}"; """é\n    é"""'
    )
    assert said(ppl(f), "ö") == [
        ("text", "é"),
        ("text", "ñ\nñ"),
        ("begin",),
        ("piece", "日本 "),
        ("hole", "ö", "", ""),
        ("text", "é\né"),
    ]


def test_modules_in_an_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "packed.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("in_archive.py", "def f():\n    pass\n    'packed'\n")
    monkeypatch.syspath_prepend(str(archive))
    made = importlib.import_module("in_archive")
    assert said(ppl(made.f)) == [("text", "packed")]


def test_files_in_other_encodings(tmp_path: Path) -> None:
    path = tmp_path / "latin.py"
    text = "# coding: latin-1\r\ndef f():\r\n    'é'\r\n    '''ü\r\n    ö'''\r\n"
    path.write_bytes(text.encode("latin-1"))
    assert said(ppl(loaded(path).f)) == [("text", "é"), ("text", "ü\nö")]


@pytest.mark.parametrize(
    ("argv", "found"),
    [
        (["python", "-c", "x"], "x"),
        (["python", "-cx"], "x"),
        (["python", "-Ic", "x", "-c", "y"], "x"),
        (["python", "-W", "c", "-c", "x"], "x"),
        (["python", "-Wc", "-c", "x"], "x"),
        (["python", "-X", "dev", "-bb", "-c", "x"], "x"),
        (["python", "--check-hash-based-pycs", "default", "-c", "x"], "x"),
        (["python", "-m", "c"], ""),
        (["python", "file.py", "-c", "x"], ""),
        (["python", "-", "-c"], ""),
        (["python"], ""),
    ],
)
def test_the_program_in_a_command_line(argv: list[str], found: str) -> None:
    assert interactive_source.command(argv) == found


def test_the_graph_of_a_file_does_not_import_it(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(
        "from appl import ppl, gen as ask\n@ppl\ndef f():\n    'x'\n    return ask()\n1/0\n"
    )
    assert [node.op for node in graph_of(f"{path}:f").nodes] == ["text", "gen", "return"]
    with pytest.raises(SourceUnavailable, match="no function g"):
        graph_of(f"{path}:g")
    with pytest.raises(SourceUnavailable, match="no such file"):
        graph_of(f"{path}x:f")

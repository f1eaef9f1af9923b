"""The texts of prompt functions: found in the source, edited there, and put to work.

Invariant: an edited text has the placeholders of the old one, and an edit changes nothing else of
the file: what is written is parsed again and compared.
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import io
import itertools
import linecache
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from appl.compiler.dedent import parts_of, text_of
from appl.compiler.hooks import program_of
from appl.compiler.lower import docstring_of
from appl.compiler.source import DEFS, FunctionSource, SourceFile, find, first_line, parse
from appl.errors import InvalidOption, PromptSyntaxError, SourceUnavailable
from appl.runtime.function import DecoratedFunction

_WIDTH = 100
_SPACE = re.compile(r"(?<= )")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Component:
    """A text statement of a prompt function.

    ``number`` counts the texts of its function from 0, ``of`` is how many there are. ``text`` has
    each value of an f-string as a placeholder, ``{question}``, as it stands in the source.
    ``line`` and ``last`` are its lines in ``file``; ``columns`` are, in bytes, where it begins in
    the one and ends in the other. ``code_file`` is the name by which running code knows the source
    in which it has these lines: that of a candidate has another.
    """

    file: str
    function: str
    number: int
    of: int
    text: str
    placeholders: tuple[str, ...]
    line: int
    last: int
    columns: tuple[int, int]
    code_file: str = ""

    @property
    def key(self) -> Key:
        """The place in the source: it stays when the text is edited."""
        return self.file, self.function, self.number

    @property
    def name(self) -> str:
        """The function, with the number of the text where it has several."""
        return self.function if self.of == 1 else f"{self.function}[{self.number + 1}]"

    def in_prompt(self, prompt: str) -> str:
        """*prompt* with the values of the placeholders in place of this text, if it is found."""
        parts = _split(self.text, self.placeholders)
        pattern = "".join(
            "(.*?)" if isinstance(part, _Placeholder) else re.escape(part) for part in parts
        )
        match = re.search(
            pattern + (r"\Z" if parts and isinstance(parts[-1], _Placeholder) else ""),
            prompt,
            re.DOTALL,
        )
        if match is None or not self.placeholders:
            return prompt
        holes = [part for part in parts if isinstance(part, _Placeholder)]
        values = dict(zip(holes, match.groups(), strict=True))
        shown = "\n".join(f"{hole}: {value}" for hole, value in values.items())
        return f"{prompt[: match.start()]}{shown}{prompt[match.end() :]}"

    def refusal(self, text: str) -> str | None:
        """The reason why *text* cannot stand here, in words; ``None`` if it can."""
        if not text.strip():
            return "it is empty"
        counts = Counter(
            part for part in _split(text, self.placeholders) if isinstance(part, _Placeholder)
        )
        wrong = [
            f"{hole} stands there {counts[_Placeholder(hole)]} times in place of {count}"
            for hole, count in Counter(self.placeholders).items()
            if counts[_Placeholder(hole)] != count
        ]
        return "; ".join(wrong) or None


Key = tuple[str, str, int]
Texts = Mapping[Key, str]
"""New texts, by the file, the function and the number of their components."""


class _Placeholder(str):
    """A placeholder among the parts of a text."""

    __slots__ = ()


def _split(text: str, holes: Iterable[str]) -> list[str]:
    """The parts of *text*: literal ones, and its placeholders."""
    placeholders = sorted(set(holes), key=len, reverse=True)
    if not placeholders:
        return [text]
    pieces = re.split("(" + "|".join(map(re.escape, placeholders)) + ")", text)
    return [_Placeholder(part) if at % 2 else part for at, part in enumerate(pieces) if part]


# -- the functions of a program


def prompt_functions(f: Callable[..., object]) -> dict[Any, DecoratedFunction]:
    """The prompt functions that *f* may call, with their wrappers.

    They are those of its module, of modules in the same folder that it imports, and of closures.
    """
    inner = _inner(f)
    found: dict[Any, DecoratedFunction] = {}
    module = sys.modules.get(getattr(inner, "__module__", "") or "")
    folder = Path(getattr(module, "__file__", None) or ".").resolve().parent
    seen: set[int] = set()
    todo: list[object] = [inner]
    if module is not None:
        todo.append(module)
    while todo:
        value = _unwrapped(todo.pop(0))
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, ModuleType):
            if value is module or _is_below(value, folder):
                todo += vars(value).values()
        elif isinstance(value, type):
            if _is_below(sys.modules.get(value.__module__), folder):
                todo += vars(value).values()
        elif isinstance(value, FunctionType):
            program = program_of(value)
            if isinstance(program, DecoratedFunction) and _is_in(program.file, folder):
                found[value] = program
            body = program.function if isinstance(program, DecoratedFunction) else value
            for cell in body.__closure__ or ():
                with contextlib.suppress(ValueError):  # an empty cell
                    todo.append(cell.cell_contents)
    return found


def _inner(f: object) -> Any:
    while isinstance(f, partial):
        f = f.func
    return getattr(f, "__func__", f)


def _unwrapped(value: object) -> object:
    if isinstance(value, staticmethod | classmethod):
        return value.__func__
    return value.fget if isinstance(value, property) else _inner(value)


def _is_below(module: ModuleType | None, folder: Path) -> bool:
    return module is not None and _is_in(getattr(module, "__file__", None), folder)


def _is_in(file: str | None, folder: Path) -> bool:
    path = Path(file or "").resolve()
    return bool(file) and path.is_relative_to(folder) and "site-packages" not in path.parts


def _components(where: FunctionSource, documented: bool) -> list[Component]:
    """The texts of a function, and of those inside; a first text that is *documented* is none."""
    statements = list(_statements(where.node, where.source, documented))
    made = []
    for number, statement in enumerate(statements):
        parts = _parts(statement.value, where.source)
        last, end = statement.end_lineno, statement.end_col_offset
        assert last is not None and end is not None
        made.append(
            Component(
                where.source.file,
                where.path,
                number,
                len(statements),
                "".join(parts),
                tuple(part for part in parts if isinstance(part, _Placeholder)),
                statement.lineno,
                last,
                (statement.col_offset, end),
                where.source.file,
            )
        )
    return made


def _statements(node: Any, source: SourceFile, documented: bool) -> Iterator[ast.Expr]:
    """The statements below *node* that are texts, in the order of the source."""
    body: Sequence[ast.stmt] = getattr(node, "body", None) or ()
    if isinstance(node, DEFS) and docstring_of(node, source, documented) is not None:
        body = body[1:]
    others = (getattr(node, name, None) or () for name in ("orelse", "handlers", "finalbody"))
    for statement in (*body, *getattr(node, "cases", ()), *itertools.chain(*others)):
        if isinstance(statement, ast.ClassDef):
            continue
        if not isinstance(statement, ast.Expr):
            yield from _statements(statement, source, False)
        elif isinstance(statement.value, ast.JoinedStr) or (
            isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, str)
        ):
            yield statement


def _parts(node: ast.expr, source: SourceFile) -> list[str]:
    """The literal parts of a text, and its placeholders."""
    if isinstance(node, ast.Constant):
        return [text_of(node, source)]
    return [
        part if isinstance(part, str) else _Placeholder(_as_written(part))
        for part in parts_of(node, source)
    ]


def _as_written(node: ast.expr) -> str:
    """The placeholder of a value of an f-string."""
    text = ast.unparse(ast.JoinedStr([node])).removeprefix("f")
    quote = text[:3] if text[:3] in ('"""', "'''") else text[:1]
    return text[len(quote) : -len(quote)]


# -- edits of a source


def edited(source: str, components: Iterable[Component], texts: Texts) -> str:
    """*source* with *texts* in place of those of *components*, which stand in it."""
    lines = source.split("\n")
    for each in sorted(components, key=lambda each: (each.line, each.columns), reverse=True):
        text = texts.get(each.key, each.text)
        if text == each.text:
            continue
        head = lines[each.line - 1].encode()[: each.columns[0]].decode(errors="replace")
        tail = lines[each.last - 1].encode()[each.columns[1] :].decode(errors="replace")
        written = _written(_split(text, each.placeholders), len(head))
        lines[each.line - 1 : each.last] = (head + written + tail).split("\n")
    return "\n".join(lines)


def _written(parts: Sequence[str], indent: int) -> str:
    """The expression of a text, indented so far; in parentheses where it takes several lines."""
    holes = "".join(part for part in parts if isinstance(part, _Placeholder))
    said = "".join(parts)
    # Before Python 3.12 the quotes of an f-string cannot stand inside of its values.
    better = '"' in said and "'" not in said and "'" not in holes
    quote = "'" if '"' in holes or better else '"'
    pieces = [_literal(line, quote) for line in _lines(parts, _WIDTH - indent - 8)]
    if len(pieces) == 1:
        return pieces[0]
    space = " " * (indent + 4)
    return "(\n" + "".join(f"{space}{piece}\n" for piece in pieces) + " " * indent + ")"


def _lines(parts: Sequence[str], width: int) -> list[list[str]]:
    """*parts* in pieces: each ends with a line of the text, or where it would be too long."""
    pieces: list[list[str]] = [[]]
    length = 0
    for part in parts:
        words = [part]
        if not isinstance(part, _Placeholder):
            words = [word for line in _LINE.findall(part) for word in _SPACE.split(line)]
        for word in words:
            ended = bool(pieces[-1]) and pieces[-1][-1].endswith("\n")
            if pieces[-1] and (ended or length + len(word) > max(width, 40)):
                pieces.append([])
                length = 0
            pieces[-1].append(word)
            length += len(word)
    return pieces


def _literal(parts: Sequence[str], quote: str) -> str:
    """One string literal; an f-string if it has a placeholder."""
    is_f = any(isinstance(part, _Placeholder) for part in parts)
    text = "".join(
        part if isinstance(part, _Placeholder) else _escaped(part, quote, is_f) for part in parts
    )
    return f"{'f' if is_f else ''}{quote}{text}{quote}"


def _escaped(text: str, quote: str, is_f: bool) -> str:
    text = text.replace("\\", "\\\\").replace(quote, "\\" + quote)
    if is_f:
        text = text.replace("{", "{{").replace("}", "}}")
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


def _is_editable(
    component: Component, every: Sequence[Component], source: SourceFile, documented: bool
) -> bool:
    """True if another text can be written, and is then read as it is, and the others as before."""
    other = component.text + " \n."
    wanted = [other if each is component else each.text for each in every]
    try:
        found = edited("".join(source.lines), [component], {component.key: other})
        tree = parse(component.file, io.StringIO(found).readlines())
    except (SyntaxError, ValueError):
        return False
    places = [each for each in tree.functions.values() if each.path == component.function]
    return len(places) == 1 and wanted == [each.text for each in _components(places[0], documented)]


# -- candidates


class EditableProgram:
    """The prompt functions of a program, whose texts can be replaced for a time."""

    def __init__(self, f: Callable[..., object]) -> None:
        self._functions = prompt_functions(f)
        editable: dict[Key, Component] = {}
        for program in self._functions.values():
            try:
                where = find(program.function)
            except (SourceUnavailable, PromptSyntaxError):
                continue
            documented = bool(program.decoration.docstring_as)
            every = _components(where, documented)
            for each in every:
                if _is_editable(each, every, where.source, documented):
                    editable[each.key] = each
        self.components = sorted(
            editable.values(), key=lambda each: (each.file, each.line, each.number)
        )
        if not self.components:
            name = getattr(_inner(f), "__name__", repr(f))
            raise InvalidOption(
                f"optimize({name}): there is no text to improve in the prompt functions of its "
                "module; a text is a string or an f-string that stands alone in a @ppl function"
            )
        found = (find(program.function).source for program in self._functions.values())
        files = {each.file for each in self.components}
        self.sources = {each.file: "".join(each.lines) for each in found if each.file in files}

    def source(self, file: str, texts: Texts) -> str:
        """The text of *file* with *texts*."""
        mine = [each for each in self.components if each.file == file]
        return edited(self.sources[file], mine, texts)

    def diff(self, texts: Texts) -> str:
        """The unified diff of the files with *texts*."""
        lines: list[str] = []
        for file, before in sorted(self.sources.items()):
            name = _shown(file)
            lines += _diff(before, self.source(file, texts), name)
        return "".join(lines)

    def write(self, texts: Texts) -> list[str]:
        """Write *texts* into the files, and return their names.

        Raises ``InvalidOption`` if one has changed meanwhile; then nothing is written.
        """
        new = {file: self.source(file, texts) for file in self.sources}
        new = {file: text for file, text in new.items() if text != self.sources[file]}
        raw = {file: Path(file).read_bytes() for file in new}
        for file in new:
            if Path(file).read_text("utf-8-sig", errors="replace") != self.sources[file]:
                raise InvalidOption(f"{file} was changed meanwhile; the diff was not applied")
        for file, text in new.items():
            mark = b"\xef\xbb\xbf" if raw[file].startswith(b"\xef\xbb\xbf") else b""
            ending = "\r\n" if b"\r\n" in raw[file] else "\n"
            Path(file).write_bytes(mark + text.replace("\n", ending).encode())
        return [_shown(file) for file in new]

    @contextlib.contextmanager
    def using(self, texts: Texts) -> Iterator[dict[Key, Component]]:
        """A block in which the functions say *texts*; the block gets where each text stands."""
        places = {each.key: each for each in self.components}
        changed = {
            each.key[:2] for each in self.components if texts.get(each.key, each.text) != each.text
        }
        undo: list[tuple[Any, DecoratedFunction]] = []
        known: dict[str, tuple[str, dict[tuple[int, str], CodeType]]] = {}
        named: list[str] = []
        try:
            for wrapper, program in self._functions.items():
                where = find(program.function)
                file = where.source.file
                if (file, where.path) not in changed:
                    continue
                if file not in known:
                    known[file] = _compiled(file, self.source(file, texts))
                    named.append(known[file][0])
                name, codes = known[file]
                new = _swapped(program, where, name, codes, wrapper)
                undo.append((wrapper, program))
                wrapper.__dict__["__appl__"] = new
                for each in _components(find(new.function), bool(new.decoration.docstring_as)):
                    key = (file, each.function, each.number)
                    if key in places:
                        places[key] = replace(each, file=file, code_file=name)
            yield places
        finally:
            for wrapper, program in undo:
                wrapper.__dict__["__appl__"] = program
            for name in named:
                linecache.cache.pop(name, None)


def _compiled(file: str, source: str) -> tuple[str, dict[tuple[int, str], CodeType]]:
    """The code of each function in the edited *source* of a file, and the name that it goes by."""
    name = f"<{Path(file).name}, candidate {next(_numbers)}>"
    linecache.cache[name] = (len(source), None, io.StringIO(source).readlines(), name)
    found: dict[tuple[int, str], CodeType] = {}
    todo = [compile(source, name, "exec", dont_inherit=True)]
    while todo:
        code = todo.pop()
        found[code.co_firstlineno, code.co_name] = code
        todo += [each for each in code.co_consts if isinstance(each, CodeType)]
    return name, found


def _swapped(
    program: DecoratedFunction,
    where: FunctionSource,
    name: str,
    codes: Mapping[tuple[int, str], CodeType],
    wrapper: Any,
) -> DecoratedFunction:
    """The program of the edited function in the file *name*, for the same *wrapper*."""
    tree = parse(name, linecache.getlines(name))
    node = next(each.node for each in tree.functions.values() if each.path == where.path)
    old: FunctionType = program.function
    made = FunctionType(
        codes[first_line(node), node.name], old.__globals__, old.__name__, old.__defaults__,
        old.__closure__,
    )  # fmt: skip
    made.__kwdefaults__, made.__annotations__ = old.__kwdefaults__, old.__annotations__
    made.__qualname__, made.__module__ = old.__qualname__, old.__module__
    new = DecoratedFunction(made, program.decoration)
    new.code = wrapper.__code__
    return new


def _diff(before: str, after: str, name: str) -> list[str]:
    found = difflib.unified_diff(
        io.StringIO(before).readlines(), io.StringIO(after).readlines(), f"a/{name}", f"b/{name}"
    )
    lines: list[str] = []
    for line in found:
        lines.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return lines


def _shown(file: str) -> str:
    """*file* relative to the working directory if it lies below it."""
    path = Path(file)
    with contextlib.suppress(ValueError):
        return path.resolve().relative_to(Path.cwd()).as_posix()
    return path.as_posix().lstrip("/")

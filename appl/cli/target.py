"""``file.py:f`` on a command line: the module is imported as a module, never as ``__main__``."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.machinery import SOURCE_SUFFIXES, SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

from appl.errors import ApplError, nearest
from appl.session.entry import Entry


class UsageError(ApplError):
    """The command line is wrong; shown without a traceback."""


def write_error(path: object, error: OSError) -> UsageError:
    """The error for the file *path*, named by the user, that cannot be written."""
    return UsageError(f"{path} cannot be written: {error.strerror or error}")


def unused_path(path: Path, advice: str = "give another name, or remove it") -> Path:
    """*path*, for a new file. Raises ``UsageError``, with *advice*, if it exists."""
    if path.exists() or path.is_symlink():
        raise path_exists(path, advice)
    return path


def path_exists(path: object, advice: str = "give another name, or remove it") -> UsageError:
    """The error for the file *path*, named by the user, that exists already."""
    return UsageError(f"{path} exists already; {advice}")


@dataclass(frozen=True, slots=True)
class Target:
    """A function in a file (``file.py:f``) or in an importable module (``package.module:f``)."""

    place: str
    function: str

    @property
    def is_file(self) -> bool:
        """True if the place is a file and not the name of a module."""
        return self.place.endswith(".py") or "/" in self.place

    @property
    def written(self) -> str:
        """The target as it is typed."""
        return f"{self.place}:{self.function}"

    def entry(self, argv: Iterable[str]) -> Entry:
        """The entry of a run of the function with the words *argv*, for its trace."""
        place = str(Path(self.place).resolve()) if self.is_file else self.place
        return Entry("cli", place, self.function, tuple(argv))


def parse(text: str) -> Target:
    """The target that *text* names; the function is ``main`` by default."""
    place, colon, function = text.rpartition(":")
    if not colon:
        place, function = text, "main"
    target = Target(place, function)
    words = [] if target.is_file else place.split(".")
    if not place or not all(part.isidentifier() for part in (*words, *function.split("."))):
        raise UsageError(f"write the program as file.py:function, got {text!r}")
    return target


def load(
    target: Target, *, to_call: bool = False, module: ModuleType | None = None
) -> Callable[..., object]:
    """Import the target's module and return its function. Errors of the module pass through.

    With *to_call*, a method that needs an object is refused. *module* is the target's module if it
    was imported before.
    """
    module = module or load_module(target)
    member: object = module
    owner: object = None
    for part in target.function.split("."):
        owner, member = member, getattr(member, part, None)
    if not callable(member):
        raise UsageError(_missing(target, module))
    if to_call and isinstance(owner, type):
        name = target.function.rpartition(".")[2]
        if isinstance(inspect.getattr_static(owner, name, None), FunctionType):
            raise UsageError(
                f"{target.function} is a method, which needs an object; write a function that "
                f"makes one, as in `def main(...): return {owner.__name__}(...).{name}(...)`, and "
                "name that"
            )
    function: Callable[..., object] = member
    return function


def _missing(target: Target, module: ModuleType) -> str:
    names = [
        name
        for name, value in vars(module).items()
        if callable(value)
        and not name.startswith("_")
        and getattr(value, "__module__", None) == module.__name__
    ]
    functions = ", ".join(names) or "none"
    hint = nearest(target.function, names)
    return f"{target.place} has no function {target.function!r}{hint} (functions: {functions})"


def _by_name(name: str) -> ModuleType:
    if not name.startswith("appl."):  # what belongs to appl needs no module of this folder
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise UsageError(f"there is no module {name!r}; write a file as path/file.py:f") from None


class _UncachedLoader(SourceFileLoader):
    """Compiles a program each time, as ``python file.py`` does, and leaves no bytecode beside it.

    Bytecode is told from its source by size and second: of two edits within a second, the first
    one would be run again.
    """

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def load_module(target: Target) -> ModuleType:
    """Import the target's module. Errors of the module pass through."""
    if not target.is_file:
        return _by_name(target.place)
    path = Path(target.place)
    file = path.resolve()
    if file.is_dir():
        raise UsageError(f"{path} is a folder; write a program in it as file.py:function")
    if not file.is_file():
        raise UsageError(f"there is no file {path}")
    sys.path.insert(0, str(file.parent))  # as `python file.py` does
    name = file.stem if file.stem.isidentifier() and not _taken(file) else f"_appl_{file.stem}"
    if file.suffix not in SOURCE_SUFFIXES:
        raise UsageError(f"{path} is not a Python file")
    loader = _UncachedLoader(name, str(file))
    spec = importlib.util.spec_from_file_location(name, file, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _taken(file: Path) -> bool:
    """True if another module already has the file's name."""
    other = sys.modules.get(file.stem)
    return file.stem in sys.stdlib_module_names or (
        other is not None and getattr(other, "__file__", None) != str(file)
    )

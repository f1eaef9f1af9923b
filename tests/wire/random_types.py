"""Random types as a user writes them, each as the text of a module and an annotation.

Models, dataclasses and typed dictionaries in one another, generics, recursion, unions told apart or
not, enums, described fields, constraints, defaults, and the types of the standard library.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

HEAD = """
import datetime, decimal, enum, ipaddress, uuid
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar
from pydantic import BaseModel, Field
from typing_extensions import NotRequired, TypeAliasType, TypedDict
T = TypeVar("T")
U = TypeVar("U")
class Box(BaseModel, Generic[T]):
    inside: T
class Pair(BaseModel, Generic[T, U]):
    left: T
    right: Annotated[U, Field(description="the other one")]
Ids = TypeAliasType("Ids", list[int])
Name = TypeAliasType("Name", Annotated[str, Field(description="a name")])
"""
SCALARS = (
    "int", "int", "float", "bool", "str", "str", "str", "datetime.date", "datetime.datetime", "uuid.UUID",
    "datetime.time", "datetime.timedelta", "ipaddress.IPv4Address", 'Literal["red", "green"]',
    'Literal[1, "one", None]', "Literal[True, 2]", "Annotated[int, Field(ge=0, le=99)]",
    "Annotated[float, Field(gt=0, multiple_of=0.5)]", 'Annotated[str, Field(pattern="^[a-z]+$")]',
    'Annotated[int, Field(description="how many")]', "Name", "Ids", "decimal.Decimal", "bytes",
)  # fmt: skip
SELDOM = ("Annotated[str, Field(min_length=1)]", "Any", "dict[str, int]", "dict", "set[int]")


@dataclass(frozen=True)
class RandomType:
    """The *annotation* of a type, in the module of the text *source*."""

    source: str
    annotation: str

    @contextmanager
    def kind(self) -> Iterator[Any]:
        """The type; its module is there meanwhile, where names are looked up."""
        module = sys.modules["drawn_types"] = types.ModuleType("drawn_types")
        try:
            exec(compile(self.source, "drawn_types", "exec"), module.__dict__)
            yield eval(self.annotation, module.__dict__)
        finally:
            del sys.modules["drawn_types"]


def random_type(seed: int) -> RandomType:
    """The type number *seed*."""
    writer = _Writer(Random(f"type {seed}"))
    annotation = writer.root()
    return RandomType(HEAD + "\n".join(writer.lines) + "\n", annotation)


class _Writer:
    def __init__(self, random: Random) -> None:
        self.random, self.lines = random, list[str]()
        self.names: list[str] = []
        self.count = 0

    def root(self) -> str:
        ways = ("{}", "{}", "{}", "list[{}]", "list[{}]", "{} | None", "Box[{}]", "{} | int")
        if self.random.random() < 0.1:
            return self.any_type(1)
        return self.random.choice(ways).format(self.new_class(2))

    def fresh(self, head: str) -> str:
        self.count += 1
        return f"{head}{self.count}"

    def any_type(self, depth: int) -> str:
        if self.random.random() < 0.03:
            return self.random.choice(SELDOM)
        if depth <= 0 or self.random.random() < 0.5:
            return self.random.choice((*SCALARS, *self.names))
        return self.random.choice(
            (self.listed, self.optional, self.union, self.tuple, self.new_class, self.new_class,
             self.told_apart, self.generic, self.enum)
        )(depth - 1)  # fmt: skip

    def listed(self, depth: int) -> str:
        inner = self.any_type(depth)
        limits = self.random.choice(("", "", "min_length=1", "max_length=3", 'description="all"'))
        return f"Annotated[list[{inner}], Field({limits})]" if limits else f"list[{inner}]"

    def optional(self, depth: int) -> str:
        return f"{self.any_type(depth)} | None"

    def union(self, depth: int) -> str:
        return f"{self.any_type(depth)} | {self.any_type(depth)}"

    def tuple(self, depth: int) -> str:
        first = self.any_type(depth)
        return f"tuple[{first}, {first if self.random.random() < 0.8 else 'str'}]"

    def generic(self, depth: int) -> str:
        if self.random.random() < 0.5:
            return f"Box[{self.any_type(depth)}]"
        return f"Pair[{self.any_type(depth)}, {self.any_type(depth)}]"

    def enum(self, depth: int) -> str:
        name = self.fresh("Kind")
        values = self.random.choice((("'a b'", "'ä'"), ("1", "2"), ("'x'", "3")))
        self.lines.append(f"class {name}(enum.Enum):\n    ONE = {values[0]}\n    TWO = {values[1]}")
        return name

    def told_apart(self, depth: int) -> str:
        first, second = (self.model(depth, f'    kind: Literal["{tag}"]') for tag in "ab")
        return f'Annotated[{first} | {second}, Field(discriminator="kind")]'

    def new_class(self, depth: int) -> str:
        kind = self.random.random()
        if kind < 0.6:
            name = self.model(depth)
        elif kind < 0.8:
            name = self.record(depth, "@dataclass\nclass {}:", "Record")
        elif kind < 0.97:
            name = self.record(depth, "class {}(TypedDict):", "Table")
        else:
            name = self.record(depth, "class {}(NamedTuple):", "Row")
        self.names.append(name)
        return name

    def model(self, depth: int, first: str = "") -> str:
        name = self.fresh("Model")
        fields = [first] if first else []
        fields += [self.field(depth, name) for _ in range(self.random.randint(1, 4))]
        said = '    """Said of the class."""\n' if self.random.random() < 0.3 else ""
        self.lines.append(f"class {name}(BaseModel):\n{said}" + "\n".join(fields))
        return name

    def record(self, depth: int, head: str, kind: str) -> str:
        name = self.fresh(kind)
        fields = [
            f"    {self.name()}: {self.any_type(depth)}" for _ in range(self.random.randint(1, 3))
        ]
        if kind == "Table" and self.random.random() < 0.15:
            fields.append(f"    {self.name()}: NotRequired[int | None]")
        if kind == "Record" and self.random.random() < 0.3:
            fields.append(f"    {self.name()}: list[str] = field(default_factory=list)")
        self.lines.append(head.format(name) + "\n" + "\n".join(fields))
        return name

    def name(self) -> str:
        return self.fresh(self.random.choice(("name", "count", "größe", "items", "properties")))

    def field(self, depth: int, own: str) -> str:
        name, chance = self.name(), self.random.random()
        if chance < 0.08:
            return f"    {name}: list['{own}']"
        if chance < 0.16:
            return f"    {name}: '{own} | None' = Field(None, description='the next one')"
        kind = self.any_type(depth)
        if chance < 0.26:
            return f"    {name}: {kind} | None = None"
        if chance < 0.32:
            return f"    {name}: list[{kind}] = []"
        if chance < 0.35:
            return f"    {name}: int = 3"
        if chance < 0.65:
            return f"    {name}: {kind} = Field(description='what {name} says')"
        return f"    {name}: {kind}"

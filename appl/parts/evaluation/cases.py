"""The cases of an evaluation: lines of JSON, rows of CSV, or values of Python.

Invariant: a case goes by its id, and without one by its input, never by its position.
"""

from __future__ import annotations

import csv
import inspect
import itertools
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from appl.errors import InvalidOption
from appl.parts.evaluation.plain import plain
from appl.prompt import digest_of

ID, INPUT, TARGET = "id", "input", "target"
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST = 40


@dataclass(frozen=True, slots=True)
class Case:
    """One case: the arguments of the program, the ``target``, and all of its ``fields``.

    ``name`` is the id as it stands in addresses.
    """

    id: str
    name: str
    args: tuple[object, ...]
    kwargs: Mapping[str, object]
    input: object
    target: object
    fields: Mapping[str, object] = field(default_factory=dict)


def cases_of(data: object, program: Callable[..., object], limit: int | None = None) -> list[Case]:
    """The cases in *data*, for *program*: all of them, or the first *limit*.

    Raises ``InvalidOption`` for what is no case.
    """
    names = parameters_of(program)
    rows = itertools.islice(_rows(data), limit)
    cases = [_case(row, place, names, program) for place, row in rows]
    if not cases:
        raise InvalidOption(f"evaluate(f, data): there is no case in {_source(data)}")
    # Cases without an id get one made of their input.
    places: dict[str, str] = {}
    counts: Counter[str] = Counter()
    named_cases: list[Case] = []
    for place, case in cases:
        if case.id:
            if case.id in places:
                raise InvalidOption(
                    f"{place}: the id {case.id!r} is that of {places[case.id]}, too"
                )
            places[case.id] = place
            case_id = case.id
        else:
            content = json.dumps(plain(case.input), sort_keys=True)
            case_id = digest_of(content)[:4].hex()
            counts[case_id] += 1
            case_id += f"-{counts[case_id]}" if counts[case_id] > 1 else ""
        named_cases.append(replace(case, id=case_id, name=_name(case_id)))
    return named_cases


def parameters_of(f: Callable[..., object]) -> list[str] | None:
    """The names of the parameters of *f*; ``None`` if it takes any, or does not tell."""
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return [
        parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_POSITIONAL
    ]


# -- rows


def _rows(data: object) -> Iterator[tuple[str, object]]:
    """Each row of *data*, after its place in words."""
    if isinstance(data, str | os.PathLike):
        path = Path(data)
        readers = {".jsonl": _json_lines, ".ndjson": _json_lines, ".json": _json, ".csv": _csv}
        reader = readers.get(path.suffix.lower())
        if reader is None:
            raise InvalidOption(f"{path}: cases are read from .jsonl, .json and .csv files")
        try:
            text = path.read_text("utf-8-sig")
        except OSError as error:
            raise InvalidOption(f"{path}: the cases cannot be read: {error.strerror}") from None
        except UnicodeDecodeError as error:
            raise InvalidOption(f"{path}: it is no UTF-8 text: {error}") from None
        yield from reader(path, text)
    elif isinstance(data, Iterable):
        yield from ((f"case {number}", row) for number, row in enumerate(data, 1))
    else:
        raise InvalidOption(
            f"evaluate(f, data) takes a file (.jsonl, .json, .csv) or a list of cases, got "
            f"{data!r:.80}"
        )


def _source(data: object) -> str:
    return str(data) if isinstance(data, str | os.PathLike) else "the data"


def _json_lines(path: Path, text: str) -> Iterator[tuple[str, object]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield f"{path}:{number}", _parsed(f"{path}:{number}", line)


def _json(path: Path, text: str) -> Iterator[tuple[str, object]]:
    rows = _parsed(str(path), text)
    if not isinstance(rows, list):
        raise InvalidOption(f"{path}: a list of cases is needed; write one case a line in a .jsonl")
    yield from ((f"{path}, case {number}", row) for number, row in enumerate(rows, 1))


def _parsed(place: str, text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidOption(f"{place}: it is no JSON: {error}") from None


def _csv(path: Path, text: str) -> Iterator[tuple[str, object]]:
    reader = csv.DictReader(text.splitlines(keepends=True))
    try:
        for row in reader:
            place = f"{path}:{reader.line_num}"
            if None in row or None in row.values():
                columns = len(reader.fieldnames or ())
                raise InvalidOption(f"{place}: the header has {columns} columns, this row has not")
            yield place, row
    except csv.Error as error:
        raise InvalidOption(f"{path}:{reader.line_num}: it is no CSV: {error}") from None


# -- cases


def _case(
    row: object, place: str, names: list[str] | None, program: Callable[..., object]
) -> tuple[str, Case]:
    """The case in *row*, after its place; its id is empty where it has none."""
    if isinstance(row, tuple) and len(row) == 2:
        row = {INPUT: row[0], TARGET: row[1]}
    if not isinstance(row, Mapping):
        raise InvalidOption(
            f"{place}: a case is an object with `input` and perhaps `target` and `id`, or a pair "
            f"(input, target); got {row!r:.80}"
        )
    fields = {str(key): value for key, value in row.items()}
    if INPUT in fields:
        value = fields[INPUT]
        args, kwargs = _arguments(value, names)
    else:
        kwargs = {key: fields[key] for key in fields if key in (names or ()) and key != TARGET}
        args, value = (), kwargs
        if not kwargs:
            takes = f"{getattr(program, '__name__', 'the program')}({', '.join(names or ['…'])})"
            raise InvalidOption(
                f"{place}: a case needs `input`, or fields named as the parameters of {takes}; it "
                f"has {', '.join(fields) or 'nothing'}"
            )
    case_id = "" if fields.get(ID) in (None, "") else str(fields[ID])
    return place, Case(case_id, "", args, kwargs, value, fields.get(TARGET), fields)


def _arguments(
    value: object, names: list[str] | None
) -> tuple[tuple[object, ...], Mapping[str, object]]:
    """An object whose keys are parameters goes by name; anything else is the one argument."""
    if isinstance(value, Mapping) and value and all(key in (names or ()) for key in value):
        return (), {str(key): item for key, item in value.items()}
    return (value,), {}


def _name(case_id: str) -> str:
    """*case_id* as a part of an address: another id never has the same."""
    safe = _UNSAFE.sub("_", case_id)[:_LONGEST]
    return safe if safe == case_id else f"{safe}-{digest_of(case_id)[:3].hex()}"

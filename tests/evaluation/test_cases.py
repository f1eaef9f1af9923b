"""Cases: what is read from files and values, what becomes an argument, and what names a case."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from appl.errors import InvalidOption
from appl.parts.evaluation.cases import Case, cases_of


def f(question: str, tone: str = "plain") -> str:
    return question


def read(data: object, program: Any = f) -> list[Case]:
    return cases_of(data, program)


def written(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text, "utf-8")
    return file


def test_the_input_is_the_one_argument(tmp_path: Path):
    (case,) = read([{"input": "x", "target": "y"}])
    assert (case.args, dict(case.kwargs), case.target) == (("x",), {}, "y")


def test_an_input_with_the_names_of_parameters_goes_by_name():
    (case,) = read([{"input": {"question": "x", "tone": "dry"}}])
    assert (case.args, case.kwargs) == ((), {"question": "x", "tone": "dry"})


def test_any_other_input_is_one_argument_whatever_it_is():
    for value in ({"question": "x", "other": 1}, {}, ["x", "y"], None, 3):
        (case,) = read([{"input": value}])
        assert (case.args, dict(case.kwargs)) == ((value,), {})


def test_without_an_input_fields_go_to_parameters_of_their_name():
    (case,) = read([{"question": "x", "note": "n", "target": "y"}])
    assert case.kwargs == {"question": "x"} and case.fields["note"] == "n"


def test_a_pair_is_input_and_target():
    (case,) = read([("x", "y")])
    assert (case.args, case.target) == (("x",), "y")


def test_files_of_three_kinds_hold_the_same_cases(tmp_path: Path):
    rows = [{"id": "a", "input": "x", "target": "1"}, {"id": "b", "input": "ü, y", "target": ""}]
    lines = "\n\n".join(json.dumps(row) for row in rows)
    table = '\ufeffid,input,target\r\na,x,1\r\nb,"ü, y",\r\n'
    files = [
        written(tmp_path, "a.jsonl", lines),
        written(tmp_path, "a.json", json.dumps(rows)),
        written(tmp_path, "a.csv", table),
    ]
    assert read(files[0]) == read(files[1]) == read(str(files[2])) == read(rows)


def test_a_cell_of_a_table_may_have_lines(tmp_path: Path):
    (case,) = read(written(tmp_path, "a.csv", 'input,target\n"one\ntwo",3\n'))
    assert case.input == "one\ntwo"


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.jsonl", '{"input": "x"}\n{"input": }', r"a\.jsonl:2: it is no JSON"),
        ("a.jsonl", '{"input": "x"}\n"y"', r"a\.jsonl:2: a case is an object"),
        (
            "a.jsonl",
            '{"answer": "x"}',
            r"a\.jsonl:1: a case needs `input`.*f\(question, tone\).*answer",
        ),
        ("a.jsonl", "\n", "there is no case in"),
        ("a.json", "{}", "a list of cases is needed"),
        ("a.csv", "input,target\nx\n", r"a\.csv:2: the header has 2 columns"),
        ("a.txt", "x", "cases are read from"),
    ],
)
def test_what_is_no_case_is_named_by_its_line(tmp_path: Path, name: str, text: str, says: str):
    with pytest.raises(InvalidOption, match=says):
        read(written(tmp_path, name, text))


def test_a_file_that_is_no_text_is_refused(tmp_path: Path):
    (tmp_path / "a.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidOption, match="no UTF-8"):
        read(tmp_path / "a.jsonl")


def test_a_case_without_id_goes_by_its_input_wherever_it_stands():
    first = {case.input: case.name for case in read([("x", 1), ("y", 2)])}
    again = {case.input: case.name for case in read([("z", 9), ("y", 5), ("x", 1)])}
    assert {key: again[key] for key in first} == first


def test_equal_inputs_are_told_apart():
    names = [case.name for case in read([("x", 1), ("x", 2), ("y", 1)])]
    assert names[1] == f"{names[0]}-2" and len(set(names)) == 3


def test_an_id_that_is_there_twice_is_refused():
    with pytest.raises(InvalidOption, match="case 2: the id 'a' is that of case 1, too"):
        read([{"id": "a", "input": 1}, {"id": "a", "input": 2}])


def test_ids_of_any_form_have_names_that_differ():
    ids = ["a/b", "a_b", "a b", "ä", "a.b", "x" * 300, "x" * 301, "*", "7"]
    names = [case.name for case in read([{"id": each, "input": 1} for each in ids])]
    assert len(set(names)) == len(ids)
    assert all(set(name) <= set("abcdefx_-0123456789") and len(name) < 60 for name in names)


def test_a_limit_takes_the_first_ones():
    assert [case.input for case in cases_of([(1, 1), (2, 2), (3, 3)], f, 2)] == [1, 2]


def test_a_program_that_takes_anything_gets_the_input():
    (case,) = read([{"input": {"question": "x"}}], lambda **anything: anything)
    assert case.args == ({"question": "x"},)

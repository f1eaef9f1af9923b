from __future__ import annotations

from .conftest import Project


def test_the_graph_is_printed_in_four_forms(project: Project) -> None:
    text = project.appl("graph", "prog.py:pair")
    assert text.code == 0, text.err
    assert "pair(" in text.out
    assert project.appl("graph", "prog.py:pair", "--format", "mermaid").out.startswith("flowchart")
    assert project.appl("graph", "prog.py:pair", "--format", "dot").out.startswith("digraph")
    data = project.appl("graph", "prog.py:pair", "--json").data
    assert data["name"] == "pair"
    assert {"gen", "return"} <= {node["op"] for node in data["nodes"]}


def test_a_plain_function_has_no_graph(project: Project) -> None:
    done = project.appl("graph", "prog.py:table")
    assert done.code == 2
    assert "is not a @ppl function" in done.err


def test_config_shows_each_value_and_where_it_comes_from(project: Project) -> None:
    project.write("appl.toml", "temperature = 0.5\n[backends.embedded]\nmax_batch = 4\n")
    done = project.appl("config", "--json")
    assert done.data["temperature"] == {
        "value": 0.5, "origin": str(project.folder / "appl.toml"),
    }  # fmt: skip
    assert done.data["backends.embedded.max_batch"]["value"] == 4
    assert done.data["model"] == {"value": None, "origin": "default"}
    assert "answered by the backend 'embedded'" in project.appl("config").out


def test_a_wrong_setting_of_a_backend_is_a_configuration_error(project: Project) -> None:
    project.write("appl.toml", "[backends.embedded]\nmax_bacth = 4\n")
    done = project.appl("run", "prog.py:ask")
    assert done.code == 2
    assert "[backends.embedded]" in done.err
    assert "max_bacth" in done.err


def test_the_settings_of_the_file_reach_the_calls(project: Project) -> None:
    project.write("appl.toml", 'temperature = 0.25\nbackend = "appl.testing:Echo"\n')
    assert project.appl("run", "prog.py:ask").code == 0
    shown = project.appl("trace", "show", "/ask.0/gen.0").out
    assert "temperature=0.25" in shown
    assert project.appl("trace", "replay").code == 0


def test_version_and_help(project: Project) -> None:
    assert project.appl("--version").out.startswith("appl ")
    assert "Exit codes" in project.appl("--help").out
    assert project.appl("nonsense").code == 2

from __future__ import annotations

from .conftest import Project

BACKEND = ("--backend", "appl.testing:Echo")


def test_render_prints_every_prompt_and_where_the_program_waits(project: Project) -> None:
    done = project.appl("render", "prog.py:pair", *BACKEND, "--first", "one")
    assert done.code == 0, done.err
    blocks = done.out.split("\n\n")
    assert blocks[0].startswith("/pair.0/gen.0  ")
    assert "prog.py:12" in blocks[0]
    assert blocks[1] == "[user]\none"
    assert blocks[-2:] == ["[assistant]\n‹/pair.0/gen.0›", "[user]\ntwo\n"]
    assert not project.traces


def test_render_as_json_holds_nothing_else(project: Project) -> None:
    project.write(
        "waits.py",
        "from appl import gen, ppl\nprint('loading')\n@ppl\ndef main():\n"
        "    'a'\n    print('running')\n    str(gen(max_tokens=3))\n",
    )
    done = project.appl("render", "waits.py", "--json", *BACKEND)
    (call,) = done.data["calls"]
    assert (call["address"], call["options"]) == ("/main.0/gen.0", {"max_tokens": 3})
    assert call["messages"] == [{"role": "user", "content": "a"}]
    (need,) = done.data["needs"]
    assert need["what"] == "the answer of /main.0/gen.0"
    assert need["line"] == 7
    assert "loading\nrunning\n" in done.err


def test_what_a_module_asks_when_it_is_loaded_is_shown_too(project: Project) -> None:
    project.write(
        "top.py",
        "from appl import gen, ppl\nfirst = gen(messages='top')\n@ppl\ndef f():\n    f'{first}'\n    gen()\n"
        "@ppl\ndef g():\n    gen()\n",
    )
    shown = project.appl("render", "top.py:f", *BACKEND).out
    assert "[user]\ntop" in shown
    assert "[user]\n‹/gen.0›" in shown
    project.write("early.py", "from appl import gen\nstr(gen(messages='top'))\ndef f(): return 1\n")
    assert "needs the answer of /gen.0 at" in project.appl("render", "early.py:f", *BACKEND).out


def test_render_knows_the_options_of_the_program_and_refuses_others(project: Project) -> None:
    assert project.appl("render", "prog.py:pair", *BACKEND, "--third", "x").code == 2
    assert project.appl("render", "prog.py:nobody", *BACKEND).code == 2
    helped = project.appl("render", "prog.py:pair", "--help")
    assert "--first" in helped.out
    failing = project.appl("render", "prog.py:boom", *BACKEND)
    assert (failing.code, "ZeroDivisionError" in failing.err) == (1, True)

"""The call graph that a prompt function compiles to."""

from __future__ import annotations

import dataclasses
import linecache
import textwrap
from typing import Any

import pytest

from appl.compiler.callee import Published
from appl.compiler.graph_source import compile_graph, graph_of
from appl.compiler.ir import OPS, Graph, GraphRegion, InvalidGraph, Node, verify
from appl.compiler.passes import translate

from .support import define, graph, module

OURS = {
    name: Published(name)
    for name in ("gen", "select", "call", "map", "grow", "records", "convo", "AIRole", "AIMessage")
}
OURS["answer"] = Published("answer", program=True)


def shown(source: str, **names: Any) -> str:
    return graph(source, **OURS, **names)


def check(source: str, expected: str) -> None:
    assert shown(source) == textwrap.dedent(expected).strip("\n")


def test_parameters_text_and_return() -> None:
    check(
        '''
        def f(a, /, b=1, *rest, c, **more):
            """Documentation."""
            "first"
            f"{a} and {b}"
            return a
        ''',
        """
        %0 param a
        %1 param b
        %2 param *rest
        %3 param c
        %4 param **more
        %5 text 'first'
        %6 say '{a} and {b}' (%0, %1) after %5
        %7 return a (%0)
        """,
    )


def test_a_generation_reads_the_prompt_and_saying_it_does_not_wait() -> None:
    check(
        """
        def f():
            "ask"
            (x := gen(stop='.'))
            y = gen()
            return x, y
        """,
        """
        %0 text 'ask'
        %1 gen gen(stop='.') after %0
        %2 say (x := gen(stop='.')) (%1) after %0
        %3 gen gen() after %2
        %4 return (x, y) (%1, %3)
        """,
    )


def test_an_f_string_is_divided_where_a_call_sees_its_beginning() -> None:
    check(
        """
        def f(n):
            f"{n}. A {gen()} B {gen()} C"
        """,
        """
        %0 param n
        %1 say '{n}. A ' (%0)
        %2 gen gen() after %1
        %3 say '{gen()} B ' (%2) after %1
        %4 gen gen() after %3
        %5 say '{gen()} C' (%4) after %3
        """,
    )


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("if g: pass", "condition"),
        ("while g: pass", "condition"),
        ("assert g", "condition"),
        ("x = 1 if g else 2", "condition"),
        ("x = g and 1", "condition"),
        ("x = g + 'a'", "operator"),
        ("x = not g", "operator"),
        ("x = g in 'abc'", "operator"),
        ("x = 'a'\nx += g", "operator"),
        ("for x in g: pass", "iteration"),
        ("x = [*g]", "iteration"),
        ("x, y = g", "unpacking"),
        ("x = g[0]", "subscript"),
        ("x = g.upper()", ".upper"),
        ("x = {g}", "member of a set"),
        ("x = {g: 1}", "key of a dict"),
        ("x = len2(g)", "argument of len2()"),
        ("x = ', '.join([g, 'b'])", "argument of ', '.join()"),
        ("match g:\n case _: pass", "match"),
        ("x = f'{g}'", "operator"),
    ],
)
def test_what_waits(source: str, why: str) -> None:
    ops = shown("def f():\n    g = gen()\n" + textwrap.indent(source, "    ")).splitlines()
    assert [line.strip() for line in ops if "wait" in line] == [f"%1 wait {why} (%0)"]


@pytest.mark.parametrize(
    "source",
    [
        "x = g",
        "a.b = g",
        "a['k'] = g",
        "x = [g, (g, g), {'k': g}]",
        "x = [y for y in [g]]",
        "xs = []\nxs.append(g)\nx = xs[0]",
        "x = gen(g), answer(g), call(print, g), map(print, [g])",
        "x = isinstance(g, str), list([g]), len([g])",
        "x = g.usage, g.done()",
        "f'{g}'",
        "g",
        "grow(g)",
        "return g",
        "yield g",
        "def inner(): return g",
    ],
)
def test_what_does_not_wait(source: str) -> None:
    text = shown("def f(a):\n    g = gen()\n" + textwrap.indent(source, "    "))
    assert "wait" not in text


def test_a_value_is_waited_for_once() -> None:
    check(
        """
        def f():
            g = gen()
            if g == "a":
                return g
            return [g, g.upper()]
        """,
        """
        %0 gen gen()
        %1 wait operator (%0)
        branch if g == 'a'
          %2 return g (%1)
        %3 return [g, g.upper()] (%1)
        """,
    )


def test_branches_join() -> None:
    check(
        """
        def f(a):
            "start"
            if a:
                "yes"
                x = gen()
            else:
                "no"
                x = a
            return answer(x)
        """,
        """
        %0 param a
        %1 text 'start'
        branch if a
          %2 text 'yes' after %1
          %3 gen gen() after %2
        branch else
          %4 text 'no' after %1
        %5 program answer(x) (%0, %3) after %2, %4
        %6 return answer(x) (%5)
        """,
    )


def test_loops_carry_values_to_their_next_round() -> None:
    check(
        """
        def f(xs):
            last = None
            for x in xs:
                f"{last}"
                last = gen()
            return last
        """,
        """
        %0 param xs
        loop for x in xs
          %1 say '{last}' (%2) after %1
          %2 gen gen() after %1
        %3 return last (%2)
        """,
    )


def test_a_comprehension_is_a_loop_whose_calls_do_not_wait_for_each_other() -> None:
    check(
        """
        def f(xs):
            return [answer(x) for x in xs if x]
        """,
        """
        %0 param xs
        loop for x in xs
          branch if x
            %1 program answer(x) (%0)
        %2 return [answer(x) for x in xs if x] (%1)
        """,
    )


def test_a_try_waits_for_what_was_started_inside() -> None:
    check(
        """
        def f():
            try:
                x = gen()
            except ValueError:
                x = gen(seed=1)
            finally:
                "done"
            return x
        """,
        """
        try
          %0 gen gen()
        %1 wait leaving try (%0)
        except ValueError
          %2 gen gen(seed=1)
        finally
          %3 text 'done'
        %4 return x (%1, %2)
        """,
    )


def test_a_role_does_not_wait_and_another_manager_does() -> None:
    check(
        """
        def f(lock):
            with AIRole():
                f"I say {gen()}"
            with lock:
                x = gen()
        """,
        """
        %0 param lock
        with AIRole()
          %1 text 'I say '
          %2 gen gen() after %1
          %3 say '{gen()}' (%2) after %1
        with lock
          %4 gen gen() after %3
        %5 wait leaving with (%4)
        """,
    )


def test_functions_inside_are_regions_of_their_own() -> None:
    check(
        """
        def f(x):
            def ask(q):
                f"Q: {q}"
                return gen()
            "before"
            return ask(x)
        """,
        """
        %0 param x
        function ask
          %1 say 'Q: {q}'
          %2 gen gen() after %1
        %3 text 'before'
        %4 return ask(x) (%0, %2)
        """,
    )


def test_prompts_as_values_and_prompts_of_others() -> None:
    check(
        """
        def f():
            "a"
            answer(1)
            x = call(answer, 2)
            return records()
        """,
        """
        %0 text 'a'
        %1 program answer(1) after %0
        %2 say answer(1) (%1) after %0
        %3 call call(answer, 2) after %2
        %4 prompt records() after %2
        %5 return records() (%4)
        """,
    )


def test_awaiting_and_yielding() -> None:
    check(
        """
        async def f(xs):
            async for x in xs:
                y = await gen()
                yield y
        """,
        """
        %0 param xs
        loop for x in xs
          %1 gen gen() after %4
          %2 wait await (%1)
          %3 yield y (%2)
          %4 say (yield y) (%3) after %4
        """,
    )


def test_match_and_while() -> None:
    check(
        """
        def f(a):
            while True:
                match a:
                    case [first, *_]:
                        f"{first}"
                    case _:
                        break
            "end"
        """,
        """
        %0 param a
        loop while True
          branch case [first, *_]
            %1 say '{first}' (%0) after %1
        %2 text 'end' after %1
        """,
    )


def test_a_function_of_another_library_with_the_same_name_is_no_generation() -> None:
    def gen() -> None: ...

    source = "def f():\n    gen()\n    return map(str, [1])"
    assert "gen gen()" not in graph(source, gen=gen)
    assert "gen gen()" in graph(source)


def test_a_compositor_does_not_wait_nor_does_one_derived_from_it() -> None:
    class LineSeparated:
        pass

    class Quoted(LineSeparated):
        pass

    LineSeparated.__module__ = "appl.runtime.prompts.compositor"
    source = """
        def f():
            with LineSeparated(), Quoted(indent=4):
                g = gen()
            with NumberedList():
                h = gen()
            return g, h
    """
    assert "wait" not in shown(source, LineSeparated=LineSeparated, Quoted=Quoted)
    assert "wait" in shown(source, LineSeparated=LineSeparated, Quoted=dict)


def test_methods_of_the_same_class_are_prompt_functions() -> None:
    source = """
        class Agent:
            @ppl
            def reply(self):
                "text"

            @ppl
            def talk(self):
                return self.reply(), self.other()

        def last(): return Agent
    """
    talk = define(source)().talk
    ops = [node.op for node in compile_graph(talk).nodes]
    assert ops == ["param", "program", "unknown call", "return"]


def test_a_closed_over_prompt_function_is_recognised() -> None:
    space = module(
        """
        def make():
            def inner(): "text"
            inner.__appl__ = Program()
            inner.__appl__.code = inner.__code__
            def f():
                return inner()
            return ppl(f), f

        class Program: ctx = "same"
        """
    )
    _, f = space["make"]()
    node = next(node for node in translate(f).graph.nodes if node.op == "program")
    assert node.label == "inner()"


EXAMPLE = """
    def f(a):
        "say \\"hi\\" <b>"
        with AIRole():
            x = gen()
        return x + a
"""


def example() -> Graph:
    return compile_graph(define(EXAMPLE, **OURS))


def test_the_text_has_a_head_and_lines() -> None:
    lines = example().text().splitlines()
    assert lines[0].startswith("sync f(a), exactly 1 call on its own prompt  <module ")
    assert lines[2] == "  %1 text 'say \"hi\" <b>'  :2"
    assert lines[3] == "  with AIRole()  :3"


def test_mermaid() -> None:
    assert example().mermaid() == (
        "flowchart TD\n"
        '  n0[/"param a"/]\n'
        "  n1[\"text 'say #quot;hi#quot; #lt;b#gt;'\"]\n"
        '  subgraph r1["with AIRole()"]\n'
        '    n2(["gen gen()"])\n'
        "  end\n"
        '  n3{{"wait operator"}}\n'
        '  n4["return x + a"]\n'
        "  n1 -.-> n2\n"
        "  n2 --> n3\n"
        "  n0 --> n4\n"
        "  n3 --> n4\n"
    )


def test_dot() -> None:
    text = example().dot()
    assert text.startswith('digraph "f" {\n') and text.endswith("}\n")
    assert '  n1 [label="text \'say \\"hi\\" <b>\'"];\n' in text
    assert (
        '  subgraph cluster_1 { label="with AIRole()";\n    n2 [label="gen gen()"];\n  }\n' in text
    )
    assert "  n1 -> n2 [style=dashed];\n" in text and "  n2 -> n3;\n" in text


def test_a_dictionary_for_json() -> None:
    data = example().as_dict()
    assert (data["name"], data["kind"], data["line"]) == ("f", "sync", 1)
    assert data["nodes"][2] == {
        "id": 2,
        "op": "gen",
        "label": "gen()",
        "line": 4,
        "column": 12,
        "inputs": (),
        "prompt": (1,),
        "region": 1,
        "parts": (),
        "role": "",
        "end": (4, 17),
        "callee": "",
        "over": "",
        "ctx": "",
    }
    assert data["nodes"][1]["parts"] == ('say "hi" <b>',) and data["nodes"][1]["role"] == "user"


def test_every_op_has_its_meaning() -> None:
    assert all(op.meaning and op.name == name for name, op in OPS.items())


BODY = GraphRegion(0, "body", "", 1, None)
LOOP = GraphRegion(1, "loop", "", 1, 0)


def made(*nodes: Node, regions: tuple[GraphRegion, ...] = (BODY, LOOP)) -> Graph:
    return Graph("f", "file", 1, 9, "sync", regions, nodes)


TEXT = Node(0, "text", "", 1, 0, (), (), 0)
WAIT = Node(1, "wait", "", 2, 0, (0,), (), 0)


def changed(node: Node, **changes: Any) -> Node:
    return dataclasses.replace(node, **changes)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (made(changed(TEXT, id=1)), "node 1 at place 0"),
        (made(changed(TEXT, op="other")), "unknown op"),
        (made(changed(TEXT, line=10)), "line 10 is outside"),
        (made(changed(TEXT, region=7)), "no region 7"),
        (made(TEXT, changed(WAIT, inputs=())), "needs an input"),
        (made(TEXT, changed(WAIT, prompt=(0,))), "nothing to do with the prompt"),
        (made(TEXT, changed(WAIT, inputs=(5,))), "no node 5"),
        (made(TEXT, changed(WAIT, inputs=(1,))), "comes later"),
        (made(changed(TEXT, prompt=(1,)), WAIT), "comes later"),
        (made(TEXT, WAIT, changed(TEXT, id=2, prompt=(1,))), "adds nothing to a prompt"),
        (made(changed(TEXT, op="param", region=1)), "belongs to the whole body"),
        (made(regions=(LOOP,)), "region 1 at place 0"),
        (made(regions=(BODY, changed(LOOP, kind="other"))), "unknown kind other"),  # type: ignore[arg-type]
        (made(regions=(BODY, changed(LOOP, parent=None))), "hangs in the air"),  # type: ignore[arg-type]
        (made(regions=(BODY, changed(LOOP, parent=1))), "precedes"),  # type: ignore[arg-type]
    ],
)
def test_a_broken_graph_does_not_pass(broken: Graph, message: str) -> None:
    with pytest.raises(InvalidGraph, match=message):
        verify(broken)


def test_results_of_tools_are_said() -> None:
    check(
        """
        def f(q):
            (a := gen(tools=[q]))
            a.run_tool_calls()
            results = a.run_tool_calls()
            return gen()
        """,
        """
        %0 param q
        %1 gen gen(tools=[q]) (%0)
        %2 say (a := gen(tools=[q])) (%1)
        %3 wait .run_tool_calls (%1)
        %4 say a.run_tool_calls() (%3) after %2
        %5 gen gen() after %4
        %6 return gen() (%5)
        """,
    )


def test_in_a_loop_values_may_come_back() -> None:
    verify(made(TEXT, changed(WAIT, region=1, inputs=(1,))))


def test_a_notebook_gets_the_text_escaped_and_a_drawing() -> None:
    graph = example()
    bundle = graph._repr_mimebundle_()
    assert bundle["text/plain"] == graph.text()
    assert "<b>" not in bundle["text/html"] and "&lt;b&gt;" in bundle["text/html"]
    assert bundle["text/markdown"].startswith("```mermaid\nflowchart TD\n")


HEAD = """
    import functools, json
    import appl
    from appl import gen, ppl

    def asks(x): return gen(messages=x)
    def passes_on(x): return asks(x) + "!"
    def tidies(x): return json.dumps(x.strip())

    class Agent:
        def plain(self): return 1
        @ppl
        def talk(self): return gen()

    agent = Agent()

    @ppl
    def ask(q): return gen()
"""


def calls(body: str, arguments: str = "x") -> list[str]:
    """The calls in the graph of a prompt function of this *body*, with what they call."""
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    made = compile_graph(define(f"{HEAD}\n    @ppl\n    def f({arguments}):\n{lines}"))
    ops = ("gen", "program", "unknown call", "call", "map")
    return [f"{node.op} {node.callee}".strip() for node in made.nodes if node.op in ops]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("g = gen\n[g() for _ in range(3)]", ["gen"]),
        ("a = ask\nb = a\nb(x)", ["program ask"]),
        ("library = appl\nlibrary.gen()", ["gen"]),
        ("me = agent\nme.talk()", ["program agent.talk"]),
        ("a = ask\nappl.map(a, x)", ["map ask"]),
    ],
)
def test_a_name_that_is_bound_once_stands_for_what_it_is_bound_to(
    body: str, expected: list[str]
) -> None:
    assert calls(body) == expected


@pytest.mark.parametrize(
    ("body", "callee"),
    [
        ("x()", "x"),
        ("g = gen\nif x:\n    g = ask\ng()", "g"),
        ("fs = [gen, ask]\nfs[0]()", "fs[0]"),
        ("x.chat()", "x.chat"),
        ("passes_on(x)", "passes_on"),
        ("sorted(x, key=ask)", "sorted"),
        ("g = functools.partial(gen, n=2)\ng()", "g"),
        ("g = g2\ng2 = g\ng()", "g"),
        ("for g in (gen, ask):\n    g()", "g"),
    ],
)
def test_a_call_that_is_not_known_before_it_runs_is_shown(body: str, callee: str) -> None:
    assert calls(body) == [f"unknown call {callee}"]


@pytest.mark.parametrize(
    "body",
    [
        "print(x)",
        "tidies(x)",
        "x.strip().split()",
        "json.loads(x)",
        "agent.plain()",
        "key = lambda y: y\nkey(x)",
        "def inner(y): return y\ninner(x)",
        "functools.partial(gen, n=2)",
    ],
)
def test_a_call_of_an_ordinary_function_is_not_shown(body: str) -> None:
    assert calls(body) == []


def test_a_closed_over_function_is_known_by_what_it_may_ask() -> None:
    source = f"""{HEAD}
    def make(first, second):
        @ppl
        def f(x): return first(x), second(x)
        return f

    def both(): return make(tidies, asks)
    """
    made = compile_graph(define(source)())
    assert [node.callee for node in made.nodes if node.op == "unknown call"] == ["second"]


def test_the_names_of_a_file_that_is_not_imported_are_aliases_too() -> None:
    file = "aliases_of_a_file.py"
    text = "import appl\nask = appl.gen\n\n@appl.ppl\ndef f():\n    return ask()\n"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    assert [node.op for node in graph_of(f"{file}:f").nodes] == ["gen", "return"]

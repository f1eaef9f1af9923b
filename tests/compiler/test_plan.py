"""The prefix plan: call sites, how often each calls, what their prompts share."""

from __future__ import annotations

import ast
import textwrap
from typing import Any

from appl.compiler.bindings import survey
from appl.compiler.callee import Callees, static_names
from appl.compiler.graph import build
from appl.compiler.ir import Graph
from appl.compiler.names import FunctionNames
from appl.compiler.plan import PlanTotals, PrefixPlan, make_plan, totals
from appl.compiler.source import parse

HEAD = "from appl import AIRole, SystemMessage, call, gen, map as pmap, ppl, select\n"


def plan(source: str, ctx: dict[str, str] | None = None, **known: Any) -> PrefixPlan:
    """The plan of the function ``f`` in *source*; *ctx* are the modes of the others."""
    module = parse("f.py", (HEAD + textwrap.dedent(source)).splitlines(keepends=True))
    outer = static_names(module)
    graphs: dict[str, Graph] = {}
    for found in module.functions.values():
        callees = Callees(FunctionNames(survey(found.node), outer))
        graphs[found.node.name] = build(found, callees, "sync")
    modes = ctx or {}
    return make_plan(
        graphs["f"],
        lambda name: (graphs[name], modes.get(name, "new")) if name in graphs else None,
        known,
    )


def counted(made: PrefixPlan) -> PlanTotals:
    return totals(made, len)


ASK = """
    @ppl
    def ask(q):
        "Rules"
        f"{q}"
        return gen()
"""


def test_a_call_in_a_loop_is_made_once_for_each_item() -> None:
    source = (
        ASK
        + """
    @ppl
    def f(qs):
        return [ask(q) for q in qs]
"""
    )
    (site,) = plan(source).sites
    assert (site.path, site.calls, [each.written for each in site.loops]) == (
        "f/ask", None, ["len(qs)"],
    )  # fmt: skip
    made = plan(source, qs=["a", "b", "c"])
    assert made.sites[0].calls == 3
    assert counted(made) == PlanTotals(3, 15, 5, False)


def test_the_callers_prompt_is_shared_by_the_rounds() -> None:
    source = """
    @ppl(ctx="copy")
    def ask(q):
        f"{q}"
        return gen()

    @ppl
    def f(doc, qs):
        "Read this."
        f"{doc}"
        return [ask(q) for q in qs]
"""
    made = plan(source, {"ask": "copy"}, qs=["a", "b"], doc="0123456789")
    assert counted(made) == PlanTotals(2, 40, 20, False)
    (first,) = made.root.children.values()
    assert first.calls() == 2 and first.variants == ()


def test_parameters_that_are_handed_on_are_the_same_prompt() -> None:
    source = """
    @ppl
    def judge(topic, a, b):
        f"{topic}"
        f"{a}"
        f"{b}"
        return gen()

    @ppl
    def f(topic, x, y):
        return judge(topic, x, y), judge(topic, y, x)
"""
    made = plan(source)
    (topic,) = made.root.children.values()
    assert topic.calls() == 2 and len(topic.children) == 2


def test_a_parameter_that_is_bound_again_is_not_the_same() -> None:
    source = """
    @ppl
    def g(topic):
        f"{topic}"
        return gen()

    @ppl
    def f(topic):
        first = g(topic)
        topic = "other"
        return first, g(topic)
"""
    assert len(plan(source).root.children) == 2


def test_a_constant_argument_is_text() -> None:
    made = plan(
        ASK
        + """
    @ppl
    def f():
        return ask("one"), ask("two")
"""
    )
    assert counted(made) == PlanTotals(2, 16, 11, True)


def test_ranges_displays_and_defaults_fix_the_rounds() -> None:
    source = (
        ASK
        + """
    @ppl
    def f(n):
        a = [ask("x") for _ in range(2, 8, 3)]
        b = [ask("x") for _ in ("p", "q", "r")]
        c = [ask("x") for _ in range(n)]
        return a, b, c
"""
    )
    assert [site.calls for site in plan(source, n=4).sites] == [2, 3, 4]
    assert [site.calls for site in plan(source).sites] == [2, 3, None]


def test_nested_loops_multiply() -> None:
    made = plan(ASK + '''
    @ppl
    def f(xs):
        return [[ask(x) for _ in range(5)] for x in xs]
''', xs=["a", "b"])  # fmt: skip
    assert made.sites[0].calls == 10


def test_a_comprehension_in_another_is_run_before_it() -> None:
    made = plan(ASK + """
    @ppl
    def f(xs):
        return [str(each) for each in [ask(x) for x in xs if x]]
""", xs=["a", "b"])  # fmt: skip
    assert (made.sites[0].calls, made.sites[0].certain) == (2, False)


def test_two_loops_of_one_comprehension_multiply() -> None:
    made = plan(ASK + """
    @ppl
    def f(xs):
        return [ask(x) for x in xs for _ in range(3)]
""", xs=["a", "b"])  # fmt: skip
    assert made.sites[0].calls == 6


def test_a_branch_or_an_early_end_makes_it_uncertain() -> None:
    made = plan(ASK + '''
    @ppl
    def f(x, qs):
        if x:
            ask("a")
        for q in qs:
            if ask(q) == "yes":
                break
''', qs=["a"])  # fmt: skip
    assert [site.certain for site in made.sites] == [False, False]


def test_a_while_loop_is_unknown() -> None:
    made = plan(
        ASK
        + """
    @ppl
    def f(x):
        while x():
            ask("a")
"""
    )
    assert made.sites[0].calls is None
    assert made.sites[0].loops[0].written == "rounds of `while x()`"


def test_a_prompt_that_a_loop_makes_longer() -> None:
    made = plan("""
    @ppl
    def f(qs):
        for q in qs:
            f"{q}"
            with AIRole():
                (a := gen())
        return a
""")
    assert made.sites[0].grows


def test_system_text_stands_in_front() -> None:
    made = plan("""
    @ppl
    def f(q):
        f"{q}"
        SystemMessage("Be brief.")
        return gen()
""")
    assert [piece.text for piece in made.sites[0].pieces] == ["Be brief.", None]


def test_branches_share_what_stands_before_them() -> None:
    made = plan("""
    @ppl
    def f(x):
        "Start."
        if x:
            "One."
        else:
            "Two."
        return gen()
""")
    assert [piece.text for piece in made.sites[0].pieces] == ["Start.", None]
    assert made.sites[0].pieces[1].label == "one of 2 branches"


def test_map_and_call_are_followed() -> None:
    made = plan(ASK + '''
    @ppl
    def f(qs):
        return pmap(ask, qs), call(ask, "x"), call(print, "x")
''', qs=["a", "b"])  # fmt: skip
    assert [site.calls for site in made.sites] == [2, 1]
    assert made.unknown == ()


def test_recursion_and_strangers_are_told() -> None:
    made = plan("""
    @ppl
    def f(n):
        gen()
        return f(n - 1), pmap(stranger, n)
""")
    assert len(made.sites) == 1
    assert made.unknown == ("f (line 6) calls itself", "stranger (line 6)")


def test_every_label_of_the_source_parses() -> None:
    for node in plan(ASK + '''
    @ppl
    def f(q):
        return ask(q)
''').graph.nodes:  # fmt: skip
        if node.op == "program":
            assert ast.unparse(ast.parse(node.label)) == "ask(q)" and node.callee == "ask"


def test_what_is_not_known_leaves_the_number_of_calls_open() -> None:
    made = plan("""
    @ppl
    def f(g):
        gen()
        if g:
            gen()
        return g()
""")
    assert [site.certain for site in made.sites] == [True, False]
    assert made.unknown == ("g (line 8)",)
    assert counted(made).calls is None and not counted(made).complete

"""What the statements of a prompt function are lowered to."""

from __future__ import annotations

import pytest

from .support import async_body, body


@pytest.mark.parametrize(
    ("source", "lowered"),
    [
        ("'hello'", "@appl.text('hello')"),
        ("'a' 'b'", "@appl.text('ab')"),
        ("f'plain'", "@appl.text('plain')"),
        ("f''", "@appl.text('')"),
        ("f'{a}'", "@appl.begin()\n@appl.hole(a, '', '')"),
        ("f'x{a}y'", "@appl.begin()\n@appl.piece('x')\n@appl.hole(a, '', '')\n@appl.piece('y')"),
        ("f'{a!r}'", "@appl.begin()\n@appl.hole(a, 'r', '')"),
        ("f'{a!s:>8}'", "@appl.begin()\n@appl.hole(a, 's', '>8')"),
        ("f'{a!a}'", "@appl.begin()\n@appl.hole(a, 'a', '')"),
        ("f'{a:>{b}}'", "@appl.begin()\n@appl.hole(a, '', f'>{b}')"),
        ("f'{a=}'", "@appl.begin()\n@appl.piece('a=')\n@appl.hole(a, 'r', '')"),
        ("f'{{{a}}}'", "@appl.begin()\n@appl.piece('{')\n@appl.hole(a, '', '')\n@appl.piece('}')"),
        ("f'{(x := a)}'", "@appl.begin()\n@appl.hole((x := a), '', '')"),
        (
            "'a' f'{b}' 'c'",
            "@appl.begin()\n@appl.piece('a')\n@appl.hole(b, '', '')\n@appl.piece('c')",
        ),
        ("f()", "@appl.said(f())"),
        ("(x := g())", "@appl.say((x := g()))"),
        ("a", "@appl.say(a)"),
        ("a.b", "@appl.say(a.b)"),
        ("a, b", "@appl.say((a, b))"),
        ("[g() for x in xs]", "@appl.say([g() for x in xs])"),
        ("a if b else c", "@appl.say(a if b else c)"),
        ("a and 'text'", "@appl.say(a and 'text')"),
        ("not a", "@appl.say(not a)"),
        ("1", "@appl.say(1)"),
        ("b'bytes'", "@appl.say(b'bytes')"),
        ("{'a': 1}", "@appl.say({'a': 1})"),
        ("lambda: 1", "@appl.say(lambda: 1)"),
        ("yield", "@appl.say((yield))"),
        ("yield a", "@appl.say((yield a))"),
        ("yield from a", "@appl.say((yield from a))"),
        ("yield from g()", "@appl.said((yield from g()))"),
        ("...", "..."),
        ("None", "None"),
        ("pass", "pass"),
        ("x = 'data'", "x = 'data'"),
        ("x = f'{a}'", "x = f'{a}'"),
        ("return 'data'", "return 'data'"),
        ("global z; z = 'data'", "global z\nz = 'data'"),
        ("assert a, 'data'", "assert a, 'data'"),
        ("del a", "del a"),
        ("x: str = 'data'", "x: str = 'data'"),
        ("if a: 'yes'\nelse: f'no'", "if a:\n    @appl.text('yes')\nelse:\n    @appl.text('no')"),
        ("for x in xs: 'item'", "for x in xs:\n    @appl.text('item')"),
        ("while a:\n 'x'\nelse: 'y'", "while a:\n    @appl.text('x')\nelse:\n    @appl.text('y')"),
        ("with a as b: 'in'", "with @appl.scope(a) as b:\n    @appl.text('in')"),
        ("with a, b: pass", "with @appl.scope(a), @appl.scope(b):\n    pass"),
        (
            "try: 'a'\nfinally: 'b'",
            "try:\n    with @appl.region(False):\n        @appl.text('a')\nfinally:\n    @appl.text('b')",
        ),
        (
            "try: a\nexcept b as x: 'h'\nelse: 'e'",
            "try:\n    with @appl.region(True):\n        @appl.say(a)\nexcept b as x:\n"
            "    @appl.text('h')\nelse:\n    @appl.text('e')",
        ),
        (
            "try: a\nexcept* b: 'h'",
            "try:\n    with @appl.region(True):\n        @appl.say(a)\nexcept* b:\n    @appl.text('h')",
        ),
        (
            "match a:\n case [x, *_] if x: 'one'\n case _: 'other'",
            "match @appl.wait(a):\n    case [x, *_] if x:\n        @appl.text('one')\n"
            "    case _:\n        @appl.text('other')",
        ),
    ],
)
def test_a_statement_is_lowered(source: str, lowered: str) -> None:
    assert body("pass\n" + source).removeprefix("pass\n") == lowered


@pytest.mark.parametrize(
    ("source", "lowered"),
    [
        ("g(a)", "@appl.said(@appl.prep(g, a)())"),
        ("x = a.m(b, *c, k=g, **xs)", "x = @appl.prep(a.m, b, *c, k=g, **xs)()"),
        (
            "x = g(1, 'a', f'{a}', not a, a == b, lambda: a)",
            "x = g(1, 'a', f'{a}', not a, a == b, lambda: a)",
        ),
        ("x = g([1, 2], (3,), {'k': 4})", "x = g([1, 2], (3,), {'k': 4})"),
        ("x = g([a])", "x = @appl.prep(g, [a])()"),
        (
            "x = g(len(a), str(b), 2 * len(c))",
            "x = g(@appl.prep(len, a)(), @appl.prep(str, b)(), 2 * @appl.prep(len, c)())",
        ),
        ("for i in range(3): g(i, i + 1)", "for i in range(3):\n    @appl.said(g(i, i + 1))"),
        ("n = 0\nn += 1\ng(n)", "n = 0\nn += 1\n@appl.said(g(n))"),
        ("n = 0\nn += a\ng(n)", "n = 0\nn += a\n@appl.said(@appl.prep(g, n)())"),
        ("n = []\ng(n)", "n = []\n@appl.said(@appl.prep(g, n)())"),
        ("n = (1, 'a')\ng(n)", "n = (1, 'a')\n@appl.said(g(n))"),
        ("n = ([],)\ng(n)", "n = ([],)\n@appl.said(@appl.prep(g, n)())"),
        ("n, m = 1, 2\ng(n)", "n, m = (1, 2)\n@appl.said(@appl.prep(g, n)())"),
        ("a = 1\ng(a)", "a = 1\n@appl.said(@appl.prep(g, a)())"),
        ("x = [g(i) for i in range(3)]", "x = [g(i) for i in range(3)]"),
        ("x = [g(i) for i in xs]", "x = [@appl.prep(g, i)() for i in xs]"),
        (
            "x = [i for i in range(3)]\ng(i)",
            "x = [i for i in range(3)]\n@appl.said(@appl.prep(g, i)())",
        ),
        (
            "x = ', '.join(g(i) for i in xs)",
            "x = @appl.prep(', '.join, @appl.items((@appl.prep(g, i)() for i in xs)))()",
        ),
        ("x = super().m()", "x = super().m()"),
        ("x = super().m(a)", "x = @appl.prep(super().m, a)()"),
        ("x = locals()", "x = locals()"),
        ("x = {a, 1, *b}", "x = {@appl.wait(a), 1, *@appl.wait(b)}"),
        ("x = {a: b, 'k': c, **g}", "x = {@appl.wait(a): b, 'k': c, **g}"),
        ("x = {a for a in xs}", "x = {@appl.wait(a) for a in xs}"),
        ("x = {a: b for a in xs}", "x = {@appl.wait(a): b for a in xs}"),
        ("a[b] = c", "a[@appl.wait(b)] = c"),
        ("a['k'] = c", "a['k'] = c"),
        ("a[b:c] = g", "a[b:c] = g"),
        ("del a[b]", "del a[@appl.wait(b)]"),
        ("x = a[b]", "x = a[@appl.wait(b)]"),
        ("a[b] += c", "a[@appl.wait(b)] += c"),
        ("x = a in b", "x = @appl.wait(a) in b"),
        ("x = 'k' not in b", "x = 'k' not in b"),
        ("x = a < b == c", "x = a < b == c"),
        ("x = [a, b], (a, b)", "x = ([a, b], (a, b))"),
        ("assert a, b", "assert a, @appl.wait(b)"),
        ("raise g(a) from b", "raise @appl.prep(g, a)() from b"),
        ("x = lambda y=g(a): g(y)", "x = lambda y=@appl.prep(g, a)(): @appl.prep(g, y)()"),
        ("x = a.b[c].d", "x = a.b[@appl.wait(c)].d"),
    ],
)
def test_a_value_is_waited_for_where_it_must_be(source: str, lowered: str) -> None:
    assert body("pass\n" + source).removeprefix("pass\n") == lowered


@pytest.mark.parametrize(
    ("source", "lowered"),
    [
        ("await a", "@appl.say(await a)"),
        ("await g()", "@appl.said(await g())"),
        ("x = await g(a)", "x = await (await @appl.aprep(g, a))()"),
        ("if a: pass", "if await @appl.await_(a):\n    pass"),
        (
            "if a and not b: pass",
            "if await @appl.await_(a) and (not await @appl.await_(b)):\n    pass",
        ),
        ("if a is None: pass", "if a is None:\n    pass"),
        ("while a.x: pass", "while await @appl.await_((await @appl.abase(a, 'x')).x):\n    pass"),
        ("for x in xs: pass", "for x in await @appl.await_(xs):\n    pass"),
        ("for x in range(3): pass", "for x in range(3):\n    pass"),
        ("async for x in xs: 'x'", "async for x in xs:\n    @appl.text('x')"),
        ("x = a + b", "x = await @appl.await_(a) + await @appl.await_(b)"),
        ("x = a % b", "x = await @appl.await_(a) % await @appl.await_all(b)"),
        ("x = a == 1", "x = await @appl.await_all(a) == 1"),
        ("x = a or b", "x = await @appl.await_(a) or b"),
        ("x = f'{a}'", "x = f'{await @appl.await_all(a)}'"),
        ("f'{a}'", "@appl.begin()\n@appl.hole(a, '', '')"),
        ("x = a[0]", "x = (await @appl.await_(a))[0]"),
        ("x, y = a", "x, y = await @appl.await_(a)"),
        ("a += b", "a = await @appl.await_(a)\na += await @appl.await_(b)"),
        ("n = 0\nn += 1", "n = 0\nn += 1"),
        ("x = {a}", "x = {await @appl.await_all(a)}"),
        ("x = lambda: g(a)", "x = lambda: @appl.prep(g, a)()"),
        ("x = (g(y) for y in xs)", "x = (@appl.prep(g, y)() for y in await @appl.await_(xs))"),
        ("x = (y for z in xs for y in z)", "x = (y for z in await @appl.await_(xs) for y in z)"),
        (
            "x = [g(y) for y in xs]",
            "x = [(await @appl.aprep(g, y))() for y in await @appl.await_(xs)]",
        ),
        ("with a: pass", "async with @appl.mixed(a):\n    pass"),
        ("async with a as b: pass", "async with @appl.ascope(a) as b:\n    pass"),
        (
            "try: pass\nfinally: pass",
            "try:\n    async with @appl.aregion(False):\n        pass\nfinally:\n    pass",
        ),
        ("def h(y): return g(y)", "def h(y):\n    return @appl.prep(g, y)()"),
        ("async def h(y): return g(y)", "async def h(y):\n    return (await @appl.aprep(g, y))()"),
    ],
)
def test_an_async_body_awaits(source: str, lowered: str) -> None:
    text = async_body("pass\n" + source).removeprefix("pass\n").lstrip("\n")
    assert text == lowered

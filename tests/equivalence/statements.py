"""Templates of statements, by feature; each writes a few statements into a block.

A feature is marked where it runs, so that the histogram counts programs in which it really ran.
"""

from __future__ import annotations

from collections.abc import Callable

from . import definitions as d
from .author import Author, Scope
from .definitions import fstring, function, role, walrus
from .tree import Stmt, both, mark, said

Template = Callable[[Author, Scope], None]


def block(a: Author, s: Scope, size: int = 2) -> list[Stmt]:
    """A nested block of ordinary statements; what it binds is not seen outside."""
    inner = s.below()
    for _ in range(a.random.randint(1, size)):
        choices = SIMPLE if inner.depth > 2 else ORDINARY if s.asynchronous else ANYWHERE
        a.random.choice(choices)(a, inner)
    return inner.out


# -- text, answers, control flow --------------------------------------------------------------


def ask(a: Author, s: Scope) -> None:
    a.ask(s)


def walrus_statement(a: Author, s: Scope) -> None:
    name = a.fresh("x")
    s.add(walrus(name, a.gen()))
    s.futures += (name,)


def captured(a: Author, s: Scope) -> None:
    """A bare call, name, sequence, message, conditional or ``grow``."""
    x, y = a.future(s), a.future(s)
    s.add(
        a.random.choice(
            [
                said(x),
                said(f"[{x}, {a.text()}, {y}]"),
                said(f"({x}, {y})"),
                both(f"grow([{x}, {a.text()}])"),
                said(f"{x} if {a.test(s)} else {a.text()}"),
                said(f"UserMessage({a.value(s)})"),
                said(f"AIMessage({a.text()})"),
                said(f"SystemMessage({a.text()})"),
                said("None"),
                said(f"[w for w in ({x}, {a.text()})]"),
            ]
        )
    )


def finished(a: Author, s: Scope) -> None:
    name = a.store(s, a.value(s))
    s.add(fstring((a.word(), name)))


def roles(a: Author, s: Scope) -> None:
    s.add(mark("roles"), role(a, block(a, s)))


def branch(a: Author, s: Scope) -> None:
    s.add(mark("branch on an answer"))
    s.add(both(f"if {a.test(s)}:", block(a, s)))
    if a.chance(0.6):
        s.add(both("else:", block(a, s)))


def loop(a: Author, s: Scope) -> None:
    name = a.fresh("i")
    items = a.random.choice(["range(2)", f"({a.future(s)}, {a.text()})", '("p", "q")'])
    inner = s.below()
    inner.add(fstring((a.word(), name)))
    answer = a.bind(inner, a.gen())
    if a.chance(0.3):
        inner.add(both(f"if ‹{answer}› > {a.text()}:", [both("break")]))
    s.add(mark("loop"), both(f"for {name} in {items}:", inner.out + block(a, inner, 1)))


def counted(a: Author, s: Scope) -> None:
    n, x = a.fresh("n"), a.bind(s, a.gen())
    inner = s.below()
    inner.add(fstring((a.word(), x)), both(f"{x} = gen()"))
    s.add(both(f"{n} = iter([1, 2, 3])"))
    s.add(both(f"while next({n}, 0) and ‹{x}› > {a.text()}:", inner.out))


def matched(a: Author, s: Scope) -> None:
    x = a.bind(s, a.gen())
    cases = [
        both(f"case {a.text()} | 'up':", block(a, s, 1)),
        both("case str() as w if len(w) > 5:", [said("w")]),
        both("case _:", [said(a.text())]),
    ]
    s.add(mark("match"), both(f"match ‹{x}›:", cases))


def unpacked(a: Author, s: Scope) -> None:
    pair, x, y = a.fresh("pair"), a.fresh("x"), a.fresh("x")
    s.add(both(f"{pair} = [{a.future(s)}, {a.gen()}, {a.text()}]"))
    tail = a.text()
    s.add(both(f"{x}, *{y} = {pair}"), Stmt(f"{x} += {tail}", f"{x} = ‹{x}› + {tail}"))
    s.add(said(y))
    s.strings += (x,)


# -- other functions --------------------------------------------------------------------------


def nested(a: Author, s: Scope) -> None:
    a.bind(s, f"{d.leaf(a)}({a.argument(s)})")


def nested_statement(a: Author, s: Scope) -> None:
    s.add(said(f"{d.leaf(a)}({a.argument(s)})"))


def contexts(a: Author, s: Scope) -> None:
    a.say(s)
    for ctx in a.random.sample(["new", "copy", "same", "resume"], 3):
        a.bind(s, f"{d.leaf(a, ctx)}({a.argument(s)})")
    a.ask(s)


def kept_records(a: Author, s: Scope) -> None:
    name = d.recorded(a)
    s.add(mark("records"), said(f"{name}({a.argument(s)})"))
    a.bind(s, "gen()")


def recursion(a: Author, s: Scope) -> None:
    s.add(mark("recursion"))
    a.bind(s, f"{d.recursive(a)}({a.random.randint(1, 3)}, {a.argument(s)})")


def methods(a: Author, s: Scope) -> None:
    kind = d.agent(a)
    u, w = a.fresh("u"), a.fresh("u")
    s.add(mark("methods"), both(f"{u} = {kind}({a.text()})"))
    s.add(both(f"{w} = {kind}Loud(‹{a.future(s)}›)"))
    x = a.bind(s, f"{u}.reply({a.argument(s)})")
    a.bind(s, f"{w}.reply({x})")
    a.bind(s, f"{u}.reply({a.argument(s)})")
    if a.chance(0.5):
        s.add(said(f"{u}.log"))


def comprehension(a: Author, s: Scope) -> None:
    xs, items = a.fresh("xs"), f"({a.argument(s)}, {a.text()})"
    body = a.random.choice([f"{d.leaf(a)}(w)", "gen()", f"[w, {a.gen()}][1]"])
    s.add(mark("comprehension"), both(f"{xs} = [{body} for w in {items}]"))
    if a.chance(0.5):
        s.add(said(xs) if a.chance(0.5) else both(f'{a.fresh("t")} = ", ".join(«{xs}»)'))
    s.lists += (xs,)


def parallel(a: Author, s: Scope) -> None:
    name, xs = d.parallel(a), a.fresh("xs")
    s.add(mark("parallel"))
    s.add(both(f"{xs} = [{name}(w) for w in ({a.argument(s)}, {a.text()}, {a.text()})]"))
    s.lists += (xs,)
    if a.chance(0.5):
        a.bind(s, f"{name}({xs}[1])")


def started(a: Author, s: Scope) -> None:
    name = a.random.choice([d.parallel(a), d.leaf(a, "new"), d.leaf(a, "copy")])
    s.add(mark("call"))
    x = a.bind(s, f"call({name}, {a.argument(s)})")
    if a.chance(0.5):
        s.add(fstring((a.word(), x)))
    if a.chance(0.3):
        a.bind(s, f"call(shout, ‹{x}›)")


def mapped(a: Author, s: Scope) -> None:
    xs = a.fresh("xs")
    s.add(mark("map"), both(f"{xs} = map({d.leaf(a, 'new')}, [{a.argument(s)}, {a.text()}])"))
    s.lists += (xs,)


def triple(a: Author, s: Scope) -> None:
    """Triple-quoted text is dedented, also when it has holes."""
    one, two, x = a.word(), a.word(), a.future(s)
    quotes = '"' * 3
    if a.chance(0.5):
        s.add(Stmt(f"{quotes}\n{one}\n  {two}\n{quotes}", f'say("{one}\\n  {two}")'))
    else:
        plain = f'begin()\nput("{one} ")\nput({x})\nput("\\n{two}")'
        s.add(Stmt(f"f{quotes}{one} {{{x}}}\n  {two}\n{quotes}", plain))
    a.bind(s, "gen()")


def odd_holes(a: Author, s: Scope) -> None:
    """A walrus, a nested format spec, an expression, a number and a conversion in holes."""
    x, n, known = a.fresh("x"), a.fresh("n"), a.bind(s, a.gen())
    s.add(both(f"{n} = {a.random.randrange(9, 14)}"))
    shown = f"{{({x} := gen())}} {{{known}:>{{{n}}}}} {{{n}:03d}} {{{known} + 'z'}} {{{known}!a}}"
    plain = [
        "begin()",
        f"put(({x} := gen()))",
        'put(" ")',
        f'put({known}, "", f">{{{n}}}")',
        'put(" ")',
        f'put({n}, "", "03d")',
        'put(" ")',
        f"put(‹{known}› + 'z')",
        'put(" ")',
        f'put({known}, "r")',
    ]
    s.add(mark("odd holes"), Stmt(f'f"{shown}"', "\n".join(plain)))
    s.futures += (x,)
    a.bind(s, "gen()")


def seen_prompt(a: Author, s: Scope) -> None:
    """The prompt as a value: said again, or asked about."""
    a.say(s)
    s.add(mark("convo"))
    if a.chance(0.5):
        name = a.fresh("c")
        s.add(both(f"{name} = convo()"), said(a.text()), said(name))
    else:
        a.bind(s, "gen(messages=convo())")


def quiet_calls(a: Author, s: Scope) -> None:
    """Call statements whose results are no text, and C code that wants real strings."""
    buf, x = a.fresh("buf"), a.bind(s, a.gen())
    s.add(mark("ordinary code"), both(f"{buf} = io.StringIO()"))
    s.add(Stmt(f"{buf}.write({x})", f"{buf}.write(‹{x}›)"))
    s.add(Stmt(f"print({x}, file={buf})", f"print(‹{x}›, file={buf})"))
    s.add(Stmt(f"[{x}, 'b'].count({x})", "pass"), said(f"{buf}.getvalue()"))
    y = a.future(s)
    code = [
        f"json.dumps(«{{'a': {x}, 'b': [{y}]}}»)",
        f"re.sub('[0-9]', ‹{x}›[:1], ‹{y}›)",
        f"{a.text()}.replace('a', ‹{x}›)",
        f"'-'.join(‹w› for w in ({x}, {y}))",
        f"str(sum(len(‹w›) for w in [{x}, {y}]))",
        f"str(any(‹w› > 'f' for w in [{x}, {y}]))",
        f"min(«[{x}, {y}]», key=len)",
        f"max(‹{x}›, ‹{y}›, key=lambda w: w[-1])",
        f"'{{}} {{w}}'.format(‹{x}›, w=‹{y}›)",
    ]
    a.store(s, a.random.choice(code))


def stored(a: Author, s: Scope) -> None:
    """Places that take futures as they are."""
    q, x = a.fresh("q"), a.future(s)
    s.add(mark("stored futures"))
    ways = [
        (f"{q} = deque([{a.text()}])", f"{q}.appendleft({x})", f"{q}[0]"),
        (f"{q} = defaultdict(list)", f"{q}['k'].append({x})", f"{q}['k'][0]"),
        (f"{q} = Pair({x}, {a.gen()})", "", f"{q}.b"),
        (f"{q} = Noted({x})", f"{q}.b = {a.gen()}", f"{q}.a"),
        (f"{q} = {{}}", f"{q}.setdefault('k', {x})", f"{q}['k']"),
        (f"{q} = list(zip([{x}], [{a.gen()}]))", "", f"{q}[0][1]"),
        (f"{q} = [{x}, {a.text()}][:1] + [{a.gen()}]", f"{q}.extend([{x}])", f"{q}[2]"),
        (f"{q} = list(reversed([{x}, {a.gen()}]))", "", f"{q}[1]"),
        (f"{q} = dict(k={x})", f"{q} |= {{'m': {a.gen()}}}", f"{q}['m']"),
    ]
    made, changed, read = a.random.choice(ways)
    s.add(both(made))
    if changed:
        s.add(said(changed) if "setdefault" in changed else both(changed))
    s.futures += (read,)
    s.add(fstring((a.word(), read.replace('"', "'"))))
    a.bind(s, "gen()")


def numbered(a: Author, s: Scope) -> None:
    xs, i, w = a.fresh("xs"), a.fresh("i"), a.fresh("w")
    s.add(both(f"{xs} = [{a.gen()}, {a.future(s)}]"))
    s.add(both(f"for {i}, {w} in enumerate({xs}):", [fstring((a.word(), i), (a.word(), w))]))
    s.add(both("else:", [said(a.text())]))
    s.lists += (xs,)


def spread_arguments(a: Author, s: Scope) -> None:
    name = d.leaf(a)
    head = a.random.choice(["*[{}]", "**{{'q': {}}}", "q={}"]).format(a.argument(s))
    a.bind(s, f"{name}({head})")


def short_circuit(a: Author, s: Scope) -> None:
    x = a.bind(s, a.gen())
    s.add(said(f"(‹{x}› and gen())"))
    y = a.fresh("x")
    s.add(both(f"{y} = {a.gen()} if {a.test(s)} else {a.future(s)}"))
    s.futures += (y,)


def removed(a: Author, s: Scope) -> None:
    """``del`` of what the prompt holds."""
    x, xs = a.fresh("x"), a.fresh("xs")
    s.add(both(f"{x} = {a.gen()}"), fstring((a.word(), x)), both(f"del {x}"))
    s.add(both(f"{xs} = [{a.gen()}]"), said(xs), both(f"{xs}.clear()"))
    a.bind(s, "gen()")


def captured_generator(a: Author, s: Scope) -> None:
    """A call statement that returns a generator says its items."""
    s.add(mark("generators"), said(f"{d.series(a)}({a.argument(s)})"))
    a.bind(s, "gen()")


# -- failing calls ----------------------------------------------------------------------------

_CAUGHT = ["(BackendError, ValueError)", "Exception"]


def caught(a: Author, s: Scope, y: str) -> list[Stmt]:
    """The handler, and perhaps ``else`` and ``finally``."""
    kind, e = a.random.choice(_CAUGHT), a.fresh("e")
    handler = [mark("handlers"), both(f"{y} = {a.text()}"), fstring(("caught", f"told({e})"))]
    clauses = [both(f"except {kind} as {e}:", handler)]
    if a.chance(0.3):
        clauses.append(both("else:", [said(a.text())]))
    if a.chance(0.3):
        clauses.append(both("finally:", [said(a.text())]))
    return clauses


def attempt(a: Author, s: Scope) -> None:
    """A call of a function that may fail."""
    y = a.fresh("x")
    wait = "⏳" if s.asynchronous else ""
    body = [said(a.text())] if a.chance(0.3) else []
    body.append(both(f"{y} = {wait}{d.risky(a, s.asynchronous)}({a.argument(s)})"))
    inner = s.below()
    inner.futures += (y,)
    body += block(a, inner, 1) if a.chance(0.5) else []
    s.add(mark("try"), both("try:", body, region=True), *caught(a, s, y))
    s.futures += (y,)
    a.ask(s)


def attempt_here(a: Author, s: Scope) -> None:
    """The failing answer is said in the ``try`` body itself."""
    y, inner = a.fresh("x"), s.below()
    inner.add(fstring(("risky", a.future(s).replace('"', "'"))))
    inner.add(walrus(y, "gen()"))
    if a.chance(0.6):
        a.ask(inner)
    if a.chance(0.3):
        inner.add(both(f"if {a.test(inner)}:", [both(f"raise ValueError({a.value(inner)})")]))
    s.add(mark("try"), both("try:", inner.out, region=True), *caught(a, s, y))
    s.futures += (y,)
    a.ask(s)


def attempt_each(a: Author, s: Scope) -> None:
    """``try`` in a loop, left by ``break`` and ``continue``."""
    y, i = a.fresh("x"), a.fresh("i")
    wait = "⏳" if s.asynchronous else ""
    call = both(f"{y} = {wait}{d.risky(a, s.asynchronous)}({i})")
    leave = both(f"if ‹{y}› > {a.text()}:", [both("break")])
    handler = [mark("handlers"), said(a.text()), both("continue")]
    inner = [
        both("try:", [call, leave] if a.chance(0.5) else [call, said(y)], region=True),
        both("except (BackendError, ValueError):", handler),
        both("finally:", [fstring(("round", i))]),
        both(f"{y} = gen()"),
        fstring((a.word(), y)),
    ]
    s.add(mark("try"), both(f"for {i} in ({a.argument(s)}, {a.text()}, {a.text()}):", inner))


def attempt_nested(a: Author, s: Scope) -> None:
    """An inner ``try`` that handles something else, inside one that handles the failure."""
    x, y = a.fresh("x"), a.fresh("x")
    wait = "⏳" if s.asynchronous else ""
    call = f"{wait}{d.risky(a, s.asynchronous)}({a.argument(s)})"
    inner = [
        both(f"{x} = {call}"),
        mark("region in region"),
        both("try:", [both(f"{y} = {call}"), both(f"int(‹{y}›)")], region=True),
        both("except ValueError:", [both(f"{y} = {a.text()}"), said(a.text())]),
        both("finally:", [said(a.text())]),
    ]
    s.add(mark("try"), both("try:", inner, region=True))
    s.add(
        both(
            "except (BackendError, ValueError) as e:",
            [mark("handlers"), fstring(("caught", "told(e)"))],
        )
    )
    a.ask(s)


def guarded(a: Author, s: Scope) -> None:
    s.add(mark("try"))
    a.bind(s, f"{d.guarded(a)}({a.argument(s)})")


def managed(a: Author, s: Scope) -> None:
    """A user's context manager, which swallows failures of calls."""
    log, y = a.fresh("log"), a.fresh("x")
    wait = "⏳" if s.asynchronous else ""
    call = both(f"{y} = {wait}{d.risky(a, s.asynchronous)}({a.argument(s)})")
    s.add(mark("user's with"), both(f"{log} = []\n{y} = {a.text()}"))
    s.add(both(f"with Keeper({log}) as keeper:", [call, said(a.text())], region=True))
    s.add(both(f"{y} = {a.text()}"), said(log))
    a.ask(s)


def late_look(a: Author, s: Scope) -> None:
    """A task that fails is started outside the ``try`` that looks at it."""
    x, name = a.fresh("x"), d.risky_task(a)
    start = a.random.choice([f"{name}({a.argument(s)})", f"call({name}, {a.argument(s)})"])
    s.add(mark("try"), both(f"{x} = {start}"))
    if a.chance(0.5):
        a.ask(s)
    s.add(both("try:", [both(f"{x} = str(‹{x}›)"), said(x)], region=True), *caught(a, s, x))
    s.futures += (x,)
    a.ask(s)


def collected(a: Author, s: Scope) -> None:
    """``map`` over a function that may fail, with the failures as results."""
    xs, items = a.fresh("xs"), f"[{a.text()}, {a.argument(s)}, {a.text()}]"
    name = d.risky(a)
    s.add(mark("map"))
    if a.chance(0.5):
        s.add(both(f"{xs} = [str(w) for w in map({name}, {items}, on_error='collect')]"))
    else:
        body = [both(f"{xs} = map({name}, {items}, concurrency={a.random.randint(1, 3)})")]
        s.add(both("try:", body, region=True))
        s.add(both("except (BackendError, ValueError) as e:", [both(f"{xs} = [str(e)]")]))
    s.lists += (xs,)
    s.add(said(xs))


def raised_again(a: Author, s: Scope) -> None:
    """A handler that raises again, or something else, into an outer handler."""
    y, e = a.fresh("x"), a.fresh("e")
    wait = "⏳" if s.asynchronous else ""
    inner = both(f"{y} = {wait}{d.risky(a, s.asynchronous)}({a.argument(s)})")
    again = a.random.choice(["raise", "raise ValueError('again') from e", f"{y} = {a.text()}"])
    body = [
        both("try:", [inner, said(a.text())], region=True),
        both("except BackendError as e:", [said(a.text()), both(again)]),
        both("finally:", [said(a.text())]),
        both(f"{y} = gen()"),
    ]
    s.add(mark("try"), mark("region in region"), both("try:", body, region=True), *caught(a, s, y))
    s.futures += (y,)
    s.add(both(f"{e} = 1"))


def guarded_loop(a: Author, s: Scope) -> None:
    """A region in a loop in a region, with a role and a user's manager in one ``with``."""
    log, y = a.fresh("log"), a.fresh("x")
    wait = "⏳" if s.asynchronous else ""
    call = both(f"{y} = {wait}{d.risky(a, s.asynchronous)}(w)")
    body = [call, walrus(a.fresh("x"), "gen()")]
    block_ = both(f"with AIRole(), Keeper({log}):", body, region=True)
    s.add(mark("user's with"), both(f"{log} = []\n{y} = {a.text()}"))
    s.add(both(f"for w in ({a.text()}, {a.argument(s)}):", [block_, both(f"{y} = {a.text()}")]))
    s.add(said(log))
    a.ask(s)


def uncaught(a: Author, s: Scope) -> None:
    """Rarely: a failure that nothing handles, so that the run fails."""
    if a.chance(0.25):
        wait = "⏳" if s.asynchronous else ""
        a.bind(s, f"{wait}{d.risky(a, s.asynchronous)}({a.argument(s)})")


# -- mutation after capture -------------------------------------------------------------------


def mutated_list(a: Author, s: Scope) -> None:
    xs = a.fresh("xs")
    s.add(mark("mutation after capture"), both(f"{xs} = [{a.future(s)}, {a.text()}]"), said(xs))
    change = [f"{xs}.append({a.future(s)})", f"{xs}[0] = {a.text()}", f"{xs}.reverse()"]
    change += [f"{xs}.insert(0, {a.gen()})", f"{xs} += [{a.text()}]", f"del {xs}[1]"]
    s.add(both(a.random.choice(change)))
    a.bind(s, "gen()")
    s.add(said(xs))
    s.lists += (xs,)


def mutated_table(a: Author, s: Scope) -> None:
    t = a.fresh("d")
    s.add(mark("mutation after capture"), both(f"{t} = {{'k': {a.gen()}, 'm': {a.future(s)}}}"))
    s.add(fstring((a.word(), f"{t}['k']")), both(f"{t}['k'] = {a.argument(s)}"))
    s.add(both(f"{t}.update({{'z': {a.future(s)}}})") if a.chance(0.5) else said(f"{t}.pop('m')"))
    a.bind(s, "gen()")
    s.tables += (t,)


def rebound(a: Author, s: Scope) -> None:
    x = a.bind(s, a.gen())
    s.add(mark("mutation after capture"), fstring((a.word(), x)))
    s.add(both(f"{x} = {a.argument(s)}"))
    a.bind(s, "gen()")
    s.add(fstring((a.word(), x)))


def attribute(a: Author, s: Scope) -> None:
    o = a.fresh("o")
    s.add(mark("mutation after capture"), both(f"{o} = SimpleNamespace(a={a.gen()})"))
    s.add(fstring((a.word(), f"{o}.a")), both(f"{o}.a = {a.argument(s)}"))
    a.ask(s)
    s.futures += (f"{o}.a",)


# -- closures and generators ------------------------------------------------------------------


def helper(a: Author, s: Scope) -> None:
    """A nested plain function that counts with ``nonlocal`` and speaks in the running frame."""
    n, f = a.fresh("n"), a.fresh("step")
    body = [both(f"nonlocal {n}\n{n} += 1"), fstring((a.word(), n), (a.word(), "q"))]
    body.append(both(f"return {a.gen()}"))
    s.add(mark("closures"), both(f"{n} = 0"), both(f"def {f}(q):", body))
    a.bind(s, f"{f}(‹{a.argument(s)}›)")
    a.bind(s, f"{f}(‹{a.argument(s)}›)")
    s.add(fstring((a.word(), n)))


def rebound_closure(a: Author, s: Scope) -> None:
    """A nested prompt function whose variable is rebound after it was made."""
    tag, f = a.fresh("tag"), a.fresh("inner")
    body = [fstring((a.word(), tag), (a.word(), "q")), both("return gen()")]
    ctx = a.random.choice(["new", "copy", "same"])
    s.add(mark("closures"), both(f"{tag} = {a.text()}"))
    s.add(function(f"def {f}(q):", body, f'@ppl(ctx="{ctx}")'))
    a.bind(s, f"{f}({a.argument(s)})")
    s.add(both(f"{tag} = {a.future(s)}"))
    a.bind(s, f"{f}({a.argument(s)})")


def factory(a: Author, s: Scope) -> None:
    f = a.fresh("f")
    s.add(mark("closures"), both(f"{f} = {d.maker(a)}(‹{a.future(s)}›)"))
    a.bind(s, f"{f}({a.argument(s)})")
    s.add(said(f"{f}({a.text()})"))


def lambdas(a: Author, s: Scope) -> None:
    f = a.fresh("f")
    s.add(mark("closures"), both(f"{f} = lambda w: [w, gen()]"), said(f"{f}(‹{a.future(s)}›)"))
    x, y = a.bind(s, a.gen()), a.future(s)
    t = a.store(s, f"sorted(«[{x}, {y}, {a.text()}]», key=lambda w: ‹w›[-1])[0]")
    s.add(said(t))


def conversation(a: Author, s: Scope) -> None:
    it, x = a.fresh("it"), a.fresh("x")
    s.add(mark("generators"), both(f"{it} = {d.chat(a)}({a.argument(s)})"))
    s.add(both(f"{x} = next({it})"))
    s.futures += (x,)
    for _ in range(a.random.randint(1, 2)):
        a.bind(s, f"{it}.send(‹{a.argument(s)}›)")
        if a.chance(0.3):
            a.ask(s)
    s.add(mark("calls cancelled"))
    if a.chance(0.5):
        s.add(mark("generator closed"), both(f"{it}.close()"))


def iterated(a: Author, s: Scope) -> None:
    w, body = a.fresh("w"), s.below()
    body.add(fstring((a.word(), w)))
    body.futures += (w,)
    a.ask(body)
    if a.chance(0.3):
        body.add(mark("calls cancelled"), both("break"))
    s.add(mark("generators"), both(f"for {w} in {d.series(a)}({a.argument(s)}):", body.out))


def spread(a: Author, s: Scope) -> None:
    xs = a.fresh("xs")
    s.add(mark("generators"), both(f"{xs} = [*{d.series(a)}({a.argument(s)}), {a.text()}]"))
    s.lists += (xs,)


def local_generator(a: Author, s: Scope) -> None:
    """A nested generator without decorator: it speaks in the frame that resumes it."""
    f, xs = a.fresh("each"), a.fresh("xs")
    body = [both("for i in range(2):", [fstring((a.word(), "i")), both("yield gen()")])]
    s.add(mark("generators"), both(f"def {f}():", body), both(f"{xs} = list({f}())"))
    s.lists += (xs,)


# -- sets and dictionaries --------------------------------------------------------------------


def sets(a: Author, s: Scope) -> None:
    x, name = a.bind(s, a.gen()), a.fresh("seen")
    made = a.random.choice(
        [f"{{‹{x}›, ‹{a.future(s)}›}}", "{‹gen(max_tokens=n)› for n in (1, 2)}", f"set(«[{x}]»)"]
    )
    s.add(mark("sets"), both(f"{name} = {made}"))
    t = a.store(s, f"sorted({name})[0]")
    s.add(both(f"if ‹{x}› in {name}:", [said(t)]))
    s.add(both(f"{name}.add(‹{a.future(s)}›)"), fstring((a.word(), f"len({name})")))


def tables(a: Author, s: Scope) -> None:
    t, k = a.fresh("d"), a.fresh("k")
    s.add(mark("dicts"), both(f"{t} = {{'k': {a.gen()}, 'm': {a.future(s)}}}"))
    body = [fstring((a.word(), k), (a.word(), f"{t}[{k}]"))]
    s.add(both(f"for {k} in {t}:", body))
    s.tables += (t,)


def keys(a: Author, s: Scope) -> None:
    x, y, t = a.bind(s, a.gen()), a.future(s), a.fresh("d")
    s.add(mark("dicts"), both(f"{t} = {{‹{x}›: 'one', ‹{y}›: {a.text()}}}"))
    s.add(both(f"{t}[‹{a.future(s)}›] = {a.text()}"), said(f"{t}[‹{x}›]"))
    s.add(said(f"sorted({t})"))


def counted_answers(a: Author, s: Scope) -> None:
    xs = a.fresh("xs")
    s.add(mark("dicts"), both(f"{xs} = [{a.gen()} for _ in range(2)] + [{a.future(s)}]"))
    a.store(s, f"Counter(«{xs}»).most_common(1)[0][0]")
    s.lists += (xs,)


def tuples(a: Author, s: Scope) -> None:
    p = a.fresh("p")
    s.add(mark("tuples"), both(f"{p} = ({a.gen()}, {a.future(s)})"), said(p))
    s.futures += (f"{p}[0]",)
    s.add(both(f"{a.fresh('t')} = json.dumps(«{p}»)"))


# -- async ------------------------------------------------------------------------------------


def awaited(a: Author, s: Scope) -> None:
    a.bind(s, f"⏳{d.async_leaf(a)}({a.argument(s)})")
    a.store(s, "⏳‹gen()›")


def gathered(a: Author, s: Scope) -> None:
    x, y, f = a.fresh("x"), a.fresh("x"), d.async_leaf(a)
    g, one, two = d.async_leaf(a), a.argument(s), a.argument(s)
    s.add(mark("gather"))
    shown = f"⏳asyncio.gather({f}({one}), {g}({two}))"
    made = f"partial({f}, {one}), partial({g}, {two})"  # all are made before one begins
    s.add(Stmt(f"{x}, {y} = {shown}", f"{x}, {y} = [each() for each in ({made})]"))
    s.futures += (x, y)


def grouped(a: Author, s: Scope) -> None:
    first, second = a.fresh("task"), a.fresh("task")
    calls = [f"{d.async_leaf(a)}({a.text()})" for _ in range(2)]  # none may fail: a group groups
    body = [
        Stmt(f"{name} = tg.create_task({call})", f"{name} = {call}")
        for name, call in zip((first, second), calls, strict=True)
    ]
    s.add(mark("task group"), Stmt("async with asyncio.TaskGroup() as tg:", "if 1:", body))
    x = a.fresh("x")
    s.add(Stmt(f"{x} = [{first}.result(), {second}.result()]", f"{x} = [{first}, {second}]"))
    s.lists += (x,)


def async_iterated(a: Author, s: Scope) -> None:
    w = a.fresh("w")
    head = f"in {d.async_series(a)}({a.argument(s)}):"
    body = [fstring((a.word(), w)), walrus(a.fresh("x"), "gen()")]
    s.add(mark("generators"), Stmt(f"async for {w} {head}", f"for {w} {head}", body))


def gathered_failures(a: Author, s: Scope) -> None:
    """Failures as results of ``gather``."""
    xs, f = a.fresh("xs"), d.refusing(a)
    words = [a.text(), a.argument(s), a.text()]
    calls = [f"{f}({w})" for w in words]
    shown = f"⏳asyncio.gather({', '.join(calls)}, return_exceptions=True)"
    made = ", ".join(f"partial({f}, {w})" for w in words)
    plain = f"[caught(each) for each in [{made}]]"
    s.add(mark("gather"))
    s.add(Stmt(f"{xs} = [str(w) for w in {shown}]", f"{xs} = [str(w) for w in {plain}]"))
    s.lists += (xs,)


def async_helper(a: Author, s: Scope) -> None:
    """Tasks of a nested coroutine without decorator are scopes of their own."""
    f, x, y = a.fresh("job"), a.fresh("x"), a.fresh("x")
    ask = [both("return ⏳‹gen(messages=[UserMessage(q)])›")]
    s.add(mark("task of a coroutine"), both(f"⇶def {f}(q):", ask))
    words = a.text(), a.text()
    tasks = ", ".join(f"asyncio.create_task({f}({w}))" for w in words)
    plain = ", ".join(f"task('main.<locals>.{f}', lambda: {f}({w}))" for w in words)
    s.add(Stmt(f"{x}, {y} = ⏳asyncio.gather({tasks})", f"{x}, {y} = ({plain})"))
    s.strings += (x, y)


def async_comprehension(a: Author, s: Scope) -> None:
    xs = a.fresh("xs")
    s.add(both(f"{xs} = [⏳{d.async_leaf(a)}(w) for w in ({a.argument(s)}, {a.text()})]"))
    s.lists += (xs,)


def async_spread(a: Author, s: Scope) -> None:
    xs, f = a.fresh("xs"), d.async_leaf(a)
    s.add(mark("gather"))
    items = f"({a.text()}, {a.argument(s)}, {a.text()})"
    s.add(
        Stmt(
            f"{xs} = list(⏳asyncio.gather(*[{f}(w) for w in {items}]))",
            f"{xs} = [{f}(w) for w in {items}]",
        )
    )
    s.lists += (xs,)


SIMPLE: list[Template] = [ask, walrus_statement, captured, finished]
ORDINARY: list[Template] = [*SIMPLE, roles, branch, loop, matched, mutated_list, tables]
ANYWHERE: list[Template] = [
    *ORDINARY,
    *(nested, nested_statement, parallel, attempt, attempt_here, managed, helper, iterated, sets),
]
SYNC: list[Template] = [
    *(nested, nested_statement, contexts, kept_records, recursion, methods, comprehension),
    *(parallel, started, mapped, counted, unpacked, tuples, roles, roles, branch, branch),
    *(loop, loop, matched, matched, iterated),
    *(attempt, attempt_here, attempt_each, attempt_nested, guarded, managed, uncaught) * 2,
    *(mutated_list, mutated_table, rebound, attribute),
    *(helper, rebound_closure, factory, lambdas),
    *(conversation, iterated, spread, local_generator),
    *(sets, tables, keys, counted_answers),
    *(triple, odd_holes, seen_prompt, quiet_calls, stored, numbered, spread_arguments),
    *(short_circuit, removed, captured_generator),
    *(late_look, collected, raised_again, guarded_loop),
    *(comprehension, started, odd_holes, seen_prompt, stored),
]
ASYNC: list[Template] = [
    *(awaited, gathered, gathered, grouped, async_iterated, async_helper) * 2,
    *(async_comprehension, async_spread, triple, stored, numbered, short_circuit, removed),
    *(raised_again, guarded_loop, gathered_failures, gathered_failures),
    *(attempt, attempt_here, attempt_each, attempt_nested, managed, uncaught),
    *(mutated_list, mutated_table, rebound, attribute, sets, tables, keys, counted_answers),
    *(counted, unpacked, tuples, roles, branch, loop, matched),
]

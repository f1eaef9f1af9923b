"""Templates of the Python around prompts: side effects in their order, ways to call, kept values."""

from __future__ import annotations

from . import definitions as d
from .author import Author, Scope
from .definitions import fstring, function, role, walrus
from .structure import compositor
from .tree import Stmt, both, mark, said


def written(a: Author, s: Scope) -> Stmt:
    """A line in the log of the program: at once, or when an answer is there."""
    known = a.held(s)
    x = f", ‹{a.random.choice(known)}›" if known and a.chance(0.4) else ""
    return both(f"note({a.text()}{x})")


def noted(a: Author, s: Scope) -> None:
    s.add(mark("side effects"), written(a, s), a.fstring(s), both("note(str(len(LOG)))"))


def noting(a: Author, risky: bool = False) -> str:
    """A function that writes before, between and after what it asks, which may be refused."""

    def write(name: str) -> Stmt:
        s = Scope(futures=("q",), inner=True)
        s.add(both(f"note({a.text()})"), fstring(("risky" if risky else a.word(), "q")))
        s.add(
            walrus("r", "gen()") if a.chance(0.3) else both("r = gen()"), both(f"note({a.text()})")
        )
        s.futures += ("r",)
        if a.chance(0.4):
            s.add(both(f"if {a.test(s)}:", [written(a, s), said(a.text())]))
        s.add(both(f"return {a.random.choice(['r', 'gen()'])}"))
        ctx = a.random.choice(["new", "copy", "same", "resume"])
        return function(f"def {name}(q):", s.out, f'@ppl(ctx="{ctx}")')

    return a.need("risky_noting" if risky else "noting", write)


def noting_steps(a: Author) -> str:
    """A generator that writes at every step."""

    def write(name: str) -> Stmt:
        loop = [both(f"note({a.text()}, str(i))"), fstring((a.word(), "q"), (a.word(), "i"))]
        loop += [both("yield gen()"), both(f"note({a.text()})")]
        body = [both("for i in range(3):", loop), both(f"note({a.text()})")]
        return function(f"def {name}(q):", body, f'@ppl(ctx="{a.random.choice(["new", "copy"])}")')

    return a.need("noting_steps", write)


def effects(a: Author, s: Scope) -> None:
    """What functions write and what their caller writes, in the order of the program."""
    s.add(mark("side effects"), written(a, s))
    for _ in range(a.random.randint(1, 2)):
        a.bind(s, f"{noting(a)}({a.argument(s)})")
        s.add(written(a, s))
    xs = a.fresh("xs")
    s.add(both(f"{xs} = [{noting(a)}(w) for w in ({a.text()}, {a.argument(s)})]"), written(a, s))
    s.lists += (xs,)


def effects_in_steps(a: Author, s: Scope) -> None:
    """A generator and its reader take turns to write."""
    w, inner = a.fresh("w"), s.below()
    inner.futures += (w,)
    inner.add(both(f"note({a.text()})"), fstring((a.word(), w)), written(a, inner))
    if a.chance(0.3):
        inner.add(both(f"if {a.test(inner)}:", [mark("calls cancelled"), both("break")]))
    s.add(mark("side effects"), mark("generators"))
    s.add(both(f"for {w} in {noting_steps(a)}({a.argument(s)}):", inner.out), written(a, s))


def effects_of_failures(a: Author, s: Scope) -> None:
    """What was written before, in and after a region that fails."""
    x = a.fresh("x")
    body = [both(f"note({a.text()})"), both(f"{x} = {noting(a, risky=True)}({a.argument(s)})")]
    body += [both(f"note({a.text()})"), fstring(("risky", x)), walrus(a.fresh("x"), "gen()")]
    body += [both(f"note({a.text()}, ‹{x}›)")] if a.chance(0.4) else []
    s.add(mark("side effects"), mark("try"), both("try:", body, region=True))
    handler = [mark("handlers"), both(f"{x} = {a.text()}"), both("note('caught', str(e))")]
    s.add(both("except (BackendError, ValueError) as e:", handler))
    s.add(both("finally:", [both(f"note({a.text()})"), said(a.text())]))
    s.futures += (x,)
    s.add(written(a, s))
    a.ask(s)


# -- ways to call -----------------------------------------------------------------------------


def kit(a: Author) -> str:
    """A class with a property, a static method and ``__call__`` that ask."""

    def write(name: str) -> Stmt:
        def asks(what: str) -> list[Stmt]:
            return [fstring((a.word(), what)), both("return gen()")]

        ctx = a.random.choice(["new", "copy", "same", "resume"])
        body = [
            both("def __init__(self, q):", [both("self.q = q")]),
            function("def told(self):", asks("self.q"), f'@property\n@ppl(ctx="{ctx}")'),
            function("def apart(q):", asks("q"), '@staticmethod\n@ppl(ctx="copy")'),
            function("def __call__(self, q):", asks("q"), "@ppl"),
        ]
        return both(f"class {name}:", body)

    return a.need("Kit", write)


def other_calls(a: Author, s: Scope) -> None:
    """Properties, static methods, partials, sort keys and folds find their prompt."""
    k, f = a.fresh("k"), d.leaf(a)
    s.add(mark("ways to call"), both(f"{k} = {kit(a)}({a.value(s)})"))
    ways = [
        f"{k}.told", f"{k}.apart({a.argument(s)})", f"{k}({a.argument(s)})",
        f"partial({f}, {a.value(s)})()", f"reduce(lambda p, w: {f}(p), [{a.text()}, 'b', 'c'])",
        f"sorted([{a.text()}, {a.text()}], key=lambda w: ‹{f}(w)›)[0]",
    ]  # fmt: skip
    for way in a.random.sample(ways, 3):
        a.bind(s, way)


def redirected(a: Author, s: Scope) -> None:
    """A call says which prompt it works on."""
    f = d.leaf(a)
    s.add(mark("ctx_method"))
    for ctx in a.random.sample(["new", "copy", "same", "resume"], 2):
        a.bind(s, f"{f}({a.argument(s)}, ctx_method='{ctx}')")
        a.say(s)
    a.bind(s, f"{f}({a.argument(s)})")


def traced(a: Author) -> str:
    """A plain function with an address of its own."""

    def write(name: str) -> Stmt:
        body = [both(f"grow([{a.text()}, q])"), both(f"return {a.random.choice(['gen()', 'q'])}")]
        if a.chance(0.5):
            body.insert(1, both(f"{d.leaf(a)}(q)"))
        return function(f"def {name}(q):", body, "@traceable")

    return a.need("traced", write)


def traced_calls(a: Author, s: Scope) -> None:
    s.add(mark("traceable"))
    a.bind(s, f"{traced(a)}(‹{a.argument(s)}›)")
    s.add(both(f"with {compositor(a)}:", [both(f"{a.fresh('x')} = {traced(a)}({a.value(s)})")]))
    a.ask(s)


# -- values of prompts ------------------------------------------------------------------------


def conversations(a: Author, s: Scope) -> None:
    """The prompt as a value that is changed, copied, asked with and said."""
    c, other, x = a.fresh("c"), a.fresh("c"), a.fresh("x")
    a.say(s)
    s.add(mark("conversations"), both(f"{c} = {other} = convo()"))
    for _ in range(a.random.randint(2, 5)):
        kind = a.random.choice(["UserMessage", "AIMessage", "SystemMessage"])
        ways = [
            f"{c}.append({kind}({a.value(s)}))",
            f"{c}.extend([UserMessage({a.text()}), {kind}({a.text()})])",
            f"{c}.append(UserMessage({a.text()}))",
            f"{other} = {c}.make_copy()",
            f"{other}.append(UserMessage({a.text()}))",
            f"{c}.set_system_messages([SystemMessage({a.text()})])",
            f"{other} = {c}",
        ]
        s.add(both(a.random.choice(ways)))
    if a.chance(0.3):
        s.add(both(f"{c}.append(UserMessage({a.text()}))"), said(f"{c}.pop()"))
    if a.chance(0.3):
        s.add(said(f"{c}.collapse()"))
    t = a.store(s, f"'|'.join(m.content for m in {c}) + str(len({other}))")
    s.add(both(f"{x} = gen(messages={a.random.choice([c, other])})"))
    s.futures += (x,)
    s.add(said(a.random.choice([c, other, t])))
    a.bind(s, "gen()")


def recounting(a: Author) -> str:
    """A function that keeps what it has said so far, and goes on."""

    def write(name: str) -> Stmt:
        body = [
            fstring((a.word(), "q")), both("r = records().copy()"),
            role(a, [walrus("y", "gen()")]), both("z = gen()"),
        ]  # fmt: skip
        body += [said("r")] if a.chance(0.4) else []
        body += [both(f"with {compositor(a)}:", [said("r"), said(a.text())])] * a.chance(0.5)
        if a.chance(0.4):
            body += [Stmt("t = str(records())", "t = text_of(records())"), said("t")]
        body.append(both(f"return {a.random.choice(['records()', 'r', 'records().copy()'])}"))
        ctx = a.random.choice(["new", "copy", "same"])
        return function(f"def {name}(q):", body, f'@ppl(ctx="{ctx}")')

    return a.need("recounting", write)


def recounted(a: Author, s: Scope) -> None:
    """Records that were copied in the middle, said elsewhere, and read as text."""
    r, f = a.fresh("r"), recounting(a)
    s.add(mark("copied records"), both(f"{r} = {f}({a.argument(s)})"), said(a.text()))
    if a.chance(0.5):
        s.add(both(f"with {compositor(a)}:", [said(r), said(a.text())]))
    else:
        s.add(said(r))
    if a.chance(0.5):
        t = a.fresh("t")
        s.add(Stmt(f"{t} = str({r})", f"{t} = text_of({r})"))
        s.strings += (t,)
    a.bind(s, f"gen(messages={r})")


def put_together(a: Author, s: Scope) -> None:
    """Lazy strings, which are said before they are there."""
    x, y, one, j = a.future(s), a.future(s), a.text(), a.fresh("j")
    ways = [
        (f"StringFuture({x}) + {one}", f"joined({x}, {one})"),
        (f"{one} + str_future({x}) + {y}", f"joined({one}, {x}, {y})"),
        (f"str_future({one}).join([{x}, 'b', {y}])", f"joined({x}, {one}, 'b', {one}, {y})"),
        (f"promptify({x})", f"joined({x})"),
    ]
    shown, plain = a.random.choice(ways[2:] if s.asynchronous else ways)  # there + awaits
    s.add(mark("lazy strings"), Stmt(f"{j} = {shown}", f"{j} = {plain}"))
    s.add(a.random.choice([said(j), fstring((a.word(), j)), both("with AIRole():", [said(j)])]))
    if a.chance(0.4):
        s.add(said(f"{d.recorded(a)}({j})"))
    if a.chance(0.4):
        a.store(s, f"str(‹{j}›)")
    a.bind(s, "gen()")


def sounds(a: Author, s: Scope) -> None:
    """A recording in a message."""
    o = a.fresh("o")
    data = f'b"RIFF\\x24\\x00\\x00\\x00WAVEfmt " + b"{a.random.randrange(9)}"'
    s.add(mark("sounds"), both(f"{o} = Audio.from_bytes({data})"))
    ways = [said(o), fstring((a.word(), o)), said(f"UserMessage([{a.text()}, {o}])")]
    s.add(a.random.choice(ways), said(a.text()))
    a.ask(s)


EFFECTS = [effects, effects_in_steps, effects_of_failures, effects]
VALUES = [
    *(other_calls, redirected, traced_calls, conversations, conversations, recounted),
    *(put_together, sounds),
]

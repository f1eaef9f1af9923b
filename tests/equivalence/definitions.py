"""Definitions that main functions call: small prompt functions in every context mode."""

from __future__ import annotations

from .author import Author, Scope
from .tree import Stmt, both, mark, said


def function(head: str, body: list[Stmt], *decorators: str) -> Stmt:
    """A definition with its decorators, as one statement."""
    return both("\n".join([*decorators, head]), body)


def fstring(*parts: tuple[str, str]) -> Stmt:
    """An f-string statement of (constant, hole) pairs."""
    shown = "".join(f"{word} {{{hole}}}" if hole else word for word, hole in parts)
    plain = ["begin()"]
    for word, hole in parts:
        plain.append(f'put("{word} ")' if hole else f'put("{word}")')
        if hole:
            plain.append(f"put({hole})")
    return Stmt(f'f"{shown}"', "\n".join(plain))


def role(a: Author, body: list[Stmt]) -> Stmt:
    """A block in one of the roles, mostly the model's."""
    name = a.random.choice(["AIRole"] * 3 + ["UserRole", "SystemRole"])
    return both(f"with {name}():", body)


def walrus(name: str, expression: str) -> Stmt:
    """A statement that binds and captures."""
    return said(f"({name} := {expression})")


def leaf_body(a: Author, s: Scope) -> list[Stmt]:
    """Says its argument, perhaps asks and uses an answer, and returns one."""
    s.add(fstring((a.word(), "q")))
    if a.chance(0.3):
        a.say(s)
    if a.chance(0.3):
        name = a.bind(s, a.gen())
        s.add(fstring((a.word(), name)))
    if a.chance(0.2):
        s.add(role(a, [said(a.text())]))
    if a.chance(0.2):
        s.add(both(f"if {a.test(s)}:", [said(a.text())]))
    s.add(both(f"return {a.gen() if a.chance(0.7) else a.value(s)}"))
    return s.out


def leaf(a: Author, ctx: str = "") -> str:
    """A function of one argument that returns an answer or finished text."""
    ctx = ctx or a.random.choice(["new", "copy", "copy", "same", "resume"])

    def write(name: str) -> Stmt:
        default = f"(q, r={a.text()})" if a.chance(0.3) else "(q)"
        body = leaf_body(a, Scope(futures=("q",), inner=True))
        if "r=" in default:
            body.insert(0, said("r"))
            body.insert(0, mark("defaults"))
        if a.chance(0.2):
            body.insert(0, both('"""Documentation, not prompt."""'))
        decorator = "@ppl" if ctx == "new" and a.chance(0.5) else f'@ppl(ctx="{ctx}")'
        return function(f"def {name}{default}:", body, decorator)

    return a.need(f"{ctx}_leaf", write)


def async_leaf(a: Author) -> str:
    """The same as an ``async def``; it may await its own answers."""

    def write(name: str) -> Stmt:
        s = Scope(futures=("q",), inner=True, asynchronous=True)
        s.add(fstring((a.word(), "q")))
        if a.chance(0.5):
            a.store(s, f"⏳‹{a.random.choice(['gen()', 'gen(temperature=0.5)'])}›")
        if a.chance(0.4):
            s.add(both(f"if {a.test(s)}:", [said(a.text())]))
        s.add(both(f"return {a.random.choice(['⏳‹gen()›', 'gen()'])}"))
        ctx = a.random.choice(["new", "copy"])
        return function(f"⇶def {name}(q):", s.out, f'@ppl(ctx="{ctx}")')

    return a.need("async_leaf", write)


def risky(a: Author, asynchronous: bool = False) -> str:
    """A function whose model may refuse, or whose own code may raise."""

    def write(name: str) -> Stmt:
        s = Scope(futures=("q",))
        if a.chance(0.3):
            a.ask(s)
        s.add(fstring(("risky", "q")))
        if a.chance(0.3):
            answer = a.bind(s, "gen()")
            s.add(fstring(("risky", answer)))
            if a.chance(0.4):
                s.add(both(f"if {a.test(s)}:", [both(f"raise ValueError({a.value(s)})")]))
        s.add(both("return gen()" if a.chance(0.7) else "return str(‹gen()›)"))
        ctx = a.random.choice(["new", "copy"])
        flag = ", parallel=True" if not asynchronous and a.chance(0.2) else ""
        sort = "⇶def" if asynchronous else "def"
        return function(f"{sort} {name}(q):", s.out, f'@ppl(ctx="{ctx}"{flag})')

    return a.need("async_risky" if asynchronous else "risky", write)


def risky_task(a: Author) -> str:
    """A parallel function that fails after it has left other calls behind."""

    def write(name: str) -> Stmt:
        s = Scope(futures=("q",), inner=True)
        s.add(fstring(("risky", "q")))
        a.bind(s, "gen()")
        if a.chance(0.5):
            s.add(said(a.text()))
        y = a.bind(s, "gen(max_tokens=3)")
        s.add(both(f"if ‹{y}› > {a.text()}:", [both(f"raise ValueError(‹{y}›)")]))
        s.add(both(f"return {a.random.choice(['gen()', y])}"))
        return function(f"def {name}(q):", s.out, "@ppl(parallel=True)")

    return a.need("risky_task", write)


def refusing(a: Author) -> str:
    """An ``async def`` that awaits an answer which may be refused."""

    def write(name: str) -> Stmt:
        body = [fstring(("risky", "q")), both("return ⏳‹gen()›")]
        return function(f"⇶def {name}(q):", body, "@ppl")

    return a.need("refusing", write)


def guarded(a: Author) -> str:
    """A function that returns from inside a ``try``."""

    def write(name: str) -> Stmt:
        tail = [both(f'return f"no {{‹q›}} {a.word()}"')]
        body = [
            said(a.text()),
            mark("return in try"),
            both("try:", [both(f"return {risky(a)}(q)")], region=True),
            both("except (BackendError, ValueError):", tail),
        ]
        if a.chance(0.5):
            body.append(both("finally:", [both("pass")]))
        return function(f"def {name}(q):", body, "@ppl")

    return a.need("guarded", write)


def parallel(a: Author) -> str:
    """An independent function whose body waits."""

    def write(name: str) -> Stmt:
        s = Scope(futures=("q",), inner=True)
        s.add(fstring((a.word(), "q")))
        a.bind(s, "gen()")
        s.add(both(f"if {a.test(s)}:", [said(a.text())]))
        a.say(s)
        s.add(both(f"return {a.random.choice(['gen()', a.value(s)])}"))
        ctx = a.random.choice(["new", "copy"])
        return function(f"def {name}(q):", s.out, f'@ppl(ctx="{ctx}", parallel=True)')

    return a.need("par", write)


def recorded(a: Author) -> str:
    """A function that hands its prompt back."""

    def write(name: str) -> Stmt:
        s = Scope(futures=("q",), inner=True)
        s.add(fstring((a.word(), "q")))
        if a.chance(0.5):
            s.add(walrus(a.fresh("x"), a.gen()))
        if a.chance(0.3):
            s.add(role(a, [said(a.text())]))
        s.add(both("return records()"))
        return function(f"def {name}(q):", s.out, "@ppl")

    return a.need("recorded", write)


def chat(a: Author) -> str:
    """A generator that captures what is sent to it."""

    def write(name: str) -> Stmt:
        loop = [
            said("(yield r)") if a.chance(0.5) else Stmt("yield r", "say((yield r))"),
            said(a.text()),
            both("r = gen()"),
        ]
        ctx = a.random.choice(["new", "copy"])
        body = [fstring((a.word(), "q")), both("r = gen()"), both("for i in range(9):", loop)]
        return function(f"def {name}(q):", body, f'@ppl(ctx="{ctx}")')

    return a.need("chat", write)


def series(a: Author) -> str:
    """A generator of a few answers."""

    def write(name: str) -> Stmt:
        loop = [fstring((a.word(), "q"), (a.word(), "i")), both("yield gen()")]
        if a.chance(0.4):
            loop = [both("y = gen()"), both("got = yield y"), fstring((a.word(), "y"))]
        ctx = a.random.choice(["new", "copy"])
        body = [fstring((a.word(), "q")), both("for i in range(3):", loop)]
        return function(f"def {name}(q):", body, f'@ppl(ctx="{ctx}")')

    return a.need("series", write)


def async_series(a: Author) -> str:
    """An asynchronous generator."""

    def write(name: str) -> Stmt:
        loop = [fstring((a.word(), "q"), (a.word(), "i")), both("yield gen()")]
        body = [said(a.text()), both("for i in range(2):", loop)]
        return function(f"⇶def {name}(q):", body, "@ppl")

    return a.need("async_series", write)


def recursive(a: Author) -> str:
    """A function that calls itself."""

    def write(name: str) -> Stmt:
        ctx = a.random.choice(["new", "copy", "same"])
        body = [
            both("if n == 0:", [both("return gen()")]),
            fstring((a.word(), "q"), (a.word(), "n")),
            both(f"return {name}(n - 1, gen())"),
        ]
        return function(f"def {name}(n, q):", body, f'@ppl(ctx="{ctx}")')

    return a.need("again", write)


def agent(a: Author) -> str:
    """A class whose method remembers, and a subclass that calls it through ``super()``."""

    def write(name: str) -> Stmt:
        reply = [
            fstring(("", "self.name"), (f" {a.word()}", "q")),
            role(a, [walrus("r", "gen()")]),
            both("self.log.append(r)"),
            both("return r"),
        ]
        over = [fstring((a.word(), "q")), both("return super().reply(gen())")]
        ctx = a.random.choice(["resume", "resume", "copy"])
        base = both(
            f"class {name}:",
            [
                both("def __init__(self, name):", [both("self.name = name\nself.log = []")]),
                function("def reply(self, q):", reply, f'@ppl(ctx="{ctx}")'),
            ],
        )
        a.definitions.append(base)
        loud = [function("def reply(self, q):", over, "@ppl")]
        return both(f"class {name}Loud({name}):", loud)

    return a.need("Agent", write)


def maker(a: Author) -> str:
    """A plain factory of prompt functions."""

    def write(name: str) -> Stmt:
        made = function(
            "def made(q):",
            [fstring((a.word(), "tag"), (a.word(), "q")), both("return gen()")],
            "@ppl",
        )
        return both(f"def {name}(tag):", [made, both("return made")])

    return a.need("maker", write)

"""Templates of prompts that are kept: by methods, by hand, by generators; and shown beforehand."""

from __future__ import annotations

from . import definitions as d
from .author import Author, Scope
from .definitions import fstring, function, role, walrus
from .structure import compositor, formatted, item
from .tree import Stmt, both, mark, said


def keeper(a: Author) -> str:
    """A class whose objects have no room for anything but what they name, or none at all."""

    def write(name: str) -> Stmt:
        reply = [fstring((a.word(), "q")), role(a, [walrus("r", "gen()")]), both("return r")]
        shared = [fstring((a.word(), "q")), both("return gen()")]
        head = a.random.choice(
            [
                f"class {name}:\n    __slots__ = ('name',)",
                f"@dataclass(frozen=True, slots=True)\nclass {name}:\n    name: str = ''",
                f"class {name}(NamedTuple):\n    name: str = ''",
            ]
        )
        body = [
            function("def reply(self, q):", reply, '@ppl(ctx="resume")'),
            function("def shared(cls, q):", shared, '@classmethod\n@ppl(ctx="resume")'),
        ]
        fields, _, _ = head.rpartition("\n")
        return both(fields, [both(head.rpartition("\n")[2].strip()), *body])

    return a.need("Kept", write)


def resumed_on_objects(a: Author, s: Scope) -> None:
    """Objects with and without slots have states of their own, and classes too."""
    kind, u, w = keeper(a), a.fresh("u"), a.fresh("u")
    s.add(mark("resume on objects"), both(f"{u} = {kind}()"), both(f"{w} = {kind}()"))
    for name in a.random.choices([u, u, w], k=3):
        a.bind(s, f"{name}.reply({a.argument(s)})")
    a.bind(s, f"{kind}.shared({a.argument(s)})")
    a.bind(s, f"{u}.shared({a.argument(s)})")
    if a.chance(0.4):
        s.add(
            mark("reset"),
            both(f"reset_context({a.random.choice([f'{u}.reply', f'{kind}.reply'])})"),
        )
        a.bind(s, f"{u}.reply({a.argument(s)})")
        a.bind(s, f"{w}.reply({a.argument(s)})")


def resumed_function(a: Author, s: Scope) -> None:
    f = d.leaf(a, "resume") if a.chance(0.5) else formatted(a)
    s.add(mark("reset"), said(f"{f}({a.argument(s)})"), said(f"{f}({a.text()})"))
    s.add(both(f"reset_context({f})"))
    s.add(both(f"with {compositor(a)}:", [said(f"{f}({a.argument(s)})")]))
    s.add(said(f"{f}({a.argument(s)})"))
    a.bind(s, "gen()")


def by_hand(a: Author, s: Scope) -> None:
    """A prompt that is passed on explicitly."""
    p, other, x = a.fresh("p"), a.fresh("p"), a.fresh("x")
    s.add(mark("contexts by hand"), both(f"{p} = {other} = PromptContext()"))
    for _ in range(a.random.randint(3, 6)):
        ctx = a.random.choice(["same", "same", "copy", "new"])
        ways = [
            both(f"{p}.grow({a.text()})"),
            both(f"{p}.grow([{a.future(s)}, {a.text()}])"),
            both(f"grow({a.text()}, _ctx={p})"),
            both(f"{a.fresh('x')} = {d.leaf(a, ctx)}({a.argument(s)}, _ctx={p})"),
            both(f"with {compositor(a)[:-1]}, _ctx={p}):".replace("(, ", "("), [
                both(f"{p}.grow({a.text()})"), item(a, s), both(f"{p}.grow({a.future(s)})"),
            ]),
            both(f"with AIRole(_ctx={p}):", [both(f"{p}.grow(gen(_ctx={p}))")]),
            both(f"{other} = {p}.{a.random.choice(['copy', 'copy', 'inherit'])}()"),
            both(f"{other}.grow({a.text()})"),
            said(a.text()),
        ]  # fmt: skip
        s.add(a.random.choice(ways))
    if a.chance(0.5):
        s.add(both(f"{other} = {p}.copy()"), both(f"{other}.grow({a.text()})"))
    ways = [
        both(f"{x} = gen(_ctx={p})"),
        both(f"{x} = gen(messages={p})"),
        both(f"{x} = gen(messages=records(_ctx={p}))"),
        both(f"{x} = gen(messages={p}.messages)"),
    ]
    s.add(a.random.choice(ways), both(f"{a.fresh('x')} = gen(messages={other})"))
    s.futures += (x,)
    s.add(
        a.random.choice(
            [said(f"{p}.records"), said(f"records(_ctx={p})"), said(f"convo(_ctx={p})")]
        )
    )
    a.bind(s, "gen()")


def primed(a: Author) -> str:
    """A generator that has run to its first ``yield`` when it is handed out."""

    def write(name: str) -> Stmt:
        loop = [both("got = yield gen()"), fstring((a.word(), "got"))]
        first = Stmt("yield None", "say((yield None))")
        body = [fstring((a.word(), "q")), first, both("for i in range(9):", loop)]
        if a.chance(0.5):
            body[1:] = [both("r = None"), both("for i in range(9):", [
                said("(yield r)") if a.chance(0.5) else Stmt("yield r", "say((yield r))"),
                both("r = gen()"),
            ])]  # fmt: skip
        more = a.random.choice(["", f", compositor={compositor(a)}"])
        ctx = a.random.choice(["new", "copy"])
        return function(f"def {name}(q):", body, f'@ppl(ctx="{ctx}", auto_prime=True{more})')

    return a.need("primed", write)


def agents(a: Author, s: Scope) -> None:
    """Two generators that take turns."""
    u, w = a.fresh("it"), a.fresh("it")
    s.add(mark("primed generators"), both(f"{u} = {primed(a)}({a.argument(s)})"))
    s.add(both(f"{w} = {primed(a)}({a.argument(s)})"))
    for name in a.random.choices([u, w], k=3):
        a.bind(s, f"{name}.send(‹{a.argument(s)}›)")
    s.add(mark("calls cancelled"))
    if a.chance(0.5):
        s.add(both(f"{u}.close()"))


def shown_before(a: Author, s: Scope) -> None:
    """What a function would ask, without asking it."""
    f, t = a.random.choice([d.leaf(a), formatted(a), d.recorded(a)]), a.fresh("t")
    q = a.value(s)
    listed = f"[str(m) for r in {f}.render({q}).calls[:1] for m in r.messages]"
    s.add(mark("render"), Stmt(f"{t} = {listed}", f"{t} = rendered({f}, {q})"))
    s.add(said(t), said(f"{f}({a.argument(s)})"))
    a.bind(s, "gen()")


def kept_places(a: Author, s: Scope) -> None:
    """A call statement keeps the place of what is returned beside it."""
    f = a.random.choice([d.parallel, d.recorded, formatted, d.leaf])(a)
    begin = f"call({f}, {a.argument(s)})"
    s.add(mark("places"), Stmt(begin, f"keep({begin})"))
    s.add(both(f"with {compositor(a)}:", [
        item(a, s), Stmt(begin, f"keep({begin})"), item(a, s),
    ]))  # fmt: skip
    if a.chance(0.5):
        a.bind(s, f"call({d.leaf(a, 'same')}, {a.argument(s)})")
    s.add(fstring((a.word(), a.bind(s, "gen()"))))


HOLDING = [resumed_on_objects, resumed_function, by_hand, agents, shown_before, kept_places]

"""Templates of structured prompts: compositors, records inside them, definitions, pictures."""

from __future__ import annotations

from . import definitions as d
from .author import Author, Scope
from .definitions import fstring, function, walrus
from .tree import Stmt, both, mark, said

LISTS = [
    "NumberedList()", "DashList()", "StarList()", "LowerLetterList()", "UpperLetterList()",
    "LowerRomanList()", "UpperRomanList()", "LineSeparated()", "DoubleLineSeparated()",
    "IndentedList()", "NoIndent()", "ApplStr()", "Compositor()",
]  # fmt: skip
OTHERS = [
    "Tagged('tag')", "Tagged('tag', attrs={'n': 7}, indent_inside=2)",
    "Tagged('tag', indexing='dash', indent=1, indent_inside='| ')", "InlineTagged('i')",
    "InlineTagged('i', sep=',')", "Logged(prolog='in', epilog='out')",
    "Logged(prolog='in', epilog='out', indexing='number', indent_inside=3)",
    "NumberedList(indent=2)", "DashList(sep='; ')", "LineSeparated(indexing='##')",
    "NumberedList(indexing=Indexing('Roman', 3, '(', ') '))", "NumberedList(new_indent='> ')",
    "Compositor(is_inline=True, indent=1)", "LineSeparated(role='assistant')",
    "StarList(role=AIRole('Ann'))", "LowerLetterList(is_inline=True)",
]  # fmt: skip


def compositor(a: Author) -> str:
    return a.random.choice(LISTS if a.chance(0.5) else OTHERS)


def item(a: Author, s: Scope) -> Stmt:
    """A line of a list, often with an answer in it, sometimes of two lines."""
    if a.chance(0.2):
        return said(f'"{a.word()}\\n{a.word()}"')
    return said(a.text()) if a.chance(0.4) else a.fstring(s)


def inside(a: Author, s: Scope) -> list[Stmt]:
    """What stands in a block: items, answers, blocks in the block, what others say."""
    s.add(item(a, s))
    for _ in range(a.random.randint(1, 3)):
        form = a.random.choice([0, 1, 3, 4, 6, 7, 8] if s.asynchronous else list(range(9)))
        if form == 0 and s.depth < 4:
            nested = inside(a, s.below())
            s.add(mark("block in a block"), both(f"with {compositor(a)}:", nested))
        elif form == 1 and s.depth < 4:
            s.add(mark("role in a block"), d.role(a, inside(a, s.below())))
        elif form == 2:
            s.add(mark("records in a block"), said(f"{d.recorded(a)}({a.argument(s)})"))
        elif form == 3:
            s.add(walrus(a.fresh("x"), a.gen()))
        elif form == 4:
            s.add(said(f"[{a.future(s)}, {a.text()}]"))
        elif form == 5:
            s.add(said(f"{d.leaf(a)}({a.argument(s)})"))
        elif form == 6:
            s.add(both(f"if {a.test(s)}:", [item(a, s)]))
        else:
            s.add(item(a, s))
    return s.out


def composed(a: Author, s: Scope) -> None:
    word = "⇶with" if s.asynchronous and a.chance(0.3) else "with"
    heads = f"{compositor(a)}, AIRole()" if a.chance(0.1) else compositor(a)
    s.add(mark("compositors"), both(f"{word} {heads}:", inside(a, s.below())))
    if a.chance(0.5):
        a.ask(s)


def interrupted(a: Author, s: Scope) -> None:
    """An exception, or the failure of a call, leaves a block."""
    y, inner = a.fresh("x"), s.below()
    inner.add(item(a, s))
    if a.chance(0.5):
        inner.add(fstring(("risky", a.future(s).replace('"', "'"))))
    inner.add(walrus(y, "gen()"))
    if a.chance(0.6):
        inner.add(both(f"if {a.test(s)}:", [both(f"raise ValueError({a.text()})")]))
    inner.add(item(a, s))
    block = a.random.choice([compositor(a), "Tagged('tag')", "Logged(prolog='in', epilog='out')"])
    body = [said(a.text()), both(f"with {block}:", inner.out), said(a.text())]
    handler = [mark("handlers"), fstring(("caught", "e"))]
    s.add(mark("compositors"), mark("try"), both("try:", body, region=True))
    s.add(both("except (BackendError, ValueError) as e:", handler))
    a.ask(s)


def formatted(a: Author) -> str:
    """A function whose statements stand in a block."""

    def write(name: str) -> Stmt:
        s = Scope(futures=("q",), inner=True)
        s.add(fstring((a.word(), "q")))
        body = inside(a, s)
        body.append(both(f"return {a.random.choice(['gen()', 'records()', 'records()'])}"))
        ctx = a.random.choice(["new", "copy", "same", "resume"])
        return function(f"def {name}(q):", body, f'@ppl(ctx="{ctx}", compositor={compositor(a)})')

    return a.need("formatted", write)


def by_decorator(a: Author, s: Scope) -> None:
    own = a.random.choice(["", "", f", compositor={compositor(a)}", ", compositor=None"])
    s.add(mark("compositor of a function"), said(f"{formatted(a)}({a.argument(s)}{own})"))
    s.add(both(f"with {compositor(a)}:", [said(f"{formatted(a)}({a.argument(s)})")]))
    a.bind(s, "gen()")


def repeated(a: Author, s: Scope) -> None:
    """``appl.iter``, left at its end or before."""
    w, inner = a.fresh("w"), s.below()
    inner.add(fstring((a.word(), w)))
    inner.futures += (w,)
    if a.chance(0.4):
        inner.add(said(f"{d.recorded(a)}({w})"))
    if a.chance(0.4):
        inner.add(both(f"if {a.test(inner)}:", [both(a.random.choice(["break", "continue"]))]))
    inner.add(item(a, inner))
    how = a.random.choice(["", f", {compositor(a)}"])
    items = f"[{a.future(s)}, {a.text()}, {a.text()}]"
    s.add(mark("appl.iter"), both(f"for {w} in appl.iter({items}{how}):", inner.out))
    a.ask(s)


def interleaved(a: Author, s: Scope) -> None:
    """A generator says a list on its caller's prompt, which goes on between the items."""
    w, f = a.fresh("w"), a.fresh("lists")
    block = a.random.choice([compositor(a), "NumberedList()"])
    loop = [fstring((a.word(), "q"), (a.word(), "i")), both("yield gen()")]
    body = [both(f"with {block}:", [both("for i in range(3):", loop)])]
    a.definitions.append(function(f"def {f}(q):", body, '@ppl(ctx="same")'))
    inner = [fstring((a.word(), w)), item(a, s)]
    s.add(mark("generators"), mark("a list that is interrupted"))
    s.add(both(f"for {w} in {f}({a.argument(s)}):", inner))
    a.ask(s)


def spaced(a: Author, s: Scope) -> None:
    body = [item(a, s), said(f"empty_line({a.random.choice(['', '2'])})"), item(a, s)]
    s.add(mark("empty_line"))
    s.add(*body) if a.chance(0.3) else s.add(both(f"with {compositor(a)}:", body))
    a.bind(s, "gen()")


def concept(a: Author) -> str:
    """A definition of the prompt."""

    def write(name: str) -> Stmt:
        base = a.random.choice(["Definition", "BracketedDefinition"])
        return both(f"class {name}({base}):", [both(f"name = {a.text()}")])

    return a.need("Concept", write, 3)


def defined(a: Author, s: Scope) -> None:
    one, two = concept(a), concept(a)
    details = f"{d.recorded(a)}({a.argument(s)})" if a.chance(0.4) else a.text()
    body = [
        Stmt(f'{one}(desc=f"{a.word()} {{{two}}}")', ""),
        said(f"{two}({a.text()}, {a.text()}, sep=' = ', details={details})"),
    ]
    body[0].plain = f"say({body[0].ppl})"
    s.add(mark("definitions"))
    s.add(both(f"with {compositor(a)}:", body)) if a.chance(0.7) else s.add(*body)
    s.add(Stmt(f'f"{a.word()} {{{one}}} {{{two}:>14}}"', ""))
    shown = s.out[-1].ppl[2:-1].split(" ", 1)
    s.out[-1].plain = f'begin()\nput("{shown[0]} ")\nput({one})\nput(" ")\nput({two}, "", ">14")'
    a.bind(s, "gen()")


def card(a: Author) -> str:
    """A class whose objects say something."""

    def write(name: str) -> Stmt:
        says = a.random.choice(["self.q", f"[{a.text()}, self.q]", f"(self.q, [{a.text()}])"])
        body = [
            both("def __init__(self, q):", [both("self.q = q")]),
            both("def __prompt__(self):", [both(f"return {says}")]),
        ]
        return both(f"class {name}:", body)

    return a.need("Card", write)


def cards(a: Author, s: Scope) -> None:
    o = a.fresh("o")
    s.add(mark("objects that speak"), both(f"{o} = {card(a)}(‹{a.future(s)}›)"), said(o))
    if a.chance(0.5):
        s.add(both(f"with {compositor(a)}:", [said(f"[{o}, {a.text()}]"), said(o)]))
    a.bind(s, "gen()")


def speakers(a: Author, s: Scope) -> None:
    """Roles and messages with names."""
    names = [a.random.choice(["'Ann'", "'Bob'", ""]) for _ in range(3)]
    kinds = [a.random.choice(["UserRole", "UserRole", "AIRole", "SystemRole"]) for _ in range(3)]
    s.add(mark("named speakers"))
    for name, kind in zip(names, kinds, strict=True):
        s.add(both(f"with {kind}({name}):", [item(a, s)]))
    said_by = a.random.choice(["UserMessage", "AIMessage"])
    s.add(said(f"{said_by}({a.value(s)}, name='Ann')"), item(a, s))
    a.bind(s, "gen()")


def pictures(a: Author, s: Scope) -> None:
    pic = a.fresh("pic")
    data = f'b"\\x89PNG\\r\\n\\x1a\\n" + b"{a.random.randrange(9)}"'
    s.add(mark("pictures"), both(f"{pic} = Image.from_bytes({data})"))
    ways = [
        said(pic),
        fstring((a.word(), pic)),
        said(f"[{pic}, {a.text()}, {pic}]"),
        said(f"UserMessage([{a.text()}, {pic}])"),
        both(f"with {compositor(a)}:", [item(a, s), said(pic), fstring((a.word(), pic))]),
    ]
    s.add(*a.random.sample(ways, 2))
    a.ask(s)


def reformatted(a: Author, s: Scope) -> None:
    """One function's records, said by several in blocks and roles of their own."""
    r, x = a.fresh("r"), a.fresh("x")
    s.add(mark("records in a block"), mark("compositors"))
    s.add(both(f"{r} = {d.recorded(a) if a.chance(0.5) else formatted(a)}({a.argument(s)})"))
    s.add(both(f"with {compositor(a)}:", [item(a, s), said(r), item(a, s)]))
    s.add(both(f"with AIRole(), {compositor(a)}:", [said(r)]))
    s.add(said(r), both(f"{x} = gen(messages={r})"))


def prompts_returned(a: Author) -> str:
    """A function that says blocks and gives its prompt back without a word."""

    def write(name: str) -> Stmt:
        s = Scope(futures=("q",), inner=True)
        s.add(fstring((a.word(), "q")))
        if a.chance(0.5):
            a.bind(s, "gen()")
        s.add(both(f"with {compositor(a)}:", inside(a, s.below())))
        body = [both('"""What the system hears."""'), *s.out]
        options = a.random.choice(["", ', docstring_as="system"'])
        return function(f"def {name}(q):", body, f'@ppl(default_return="prompt"{options})')

    return a.need("said_by", write)


def returned(a: Author, s: Scope) -> None:
    s.add(mark("records in a block"))
    s.add(both(f"with {compositor(a)}:", [said(f"{prompts_returned(a)}({a.argument(s)})")]))
    a.bind(s, "gen()")


STRUCTURE = [
    *(composed, composed, interrupted, by_decorator, repeated, spaced, defined, cards, speakers),
    *(pictures, reformatted, returned, interleaved),
]

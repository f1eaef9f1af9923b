"""Templates of answers that are more than a text: streams, types, samples, continuations."""

from __future__ import annotations

from . import definitions as d
from .author import Author, Scope
from .definitions import fstring
from .tree import Stmt, both, mark, said

NUMBERS = {
    "int": ["‹{}› + 1", "‹{}› > 4", "[‹{}›]", "{}"],
    "bool": ["not ‹{}›", "[‹{}›]", "{}"],
    "float": ["‹{}› * 2", "round(‹{}›)", "{}"],
    "Heat": ["‹{}›.name", "‹{}› == Heat.HOT", "[‹{}›]"],
    "list[str]": ["', '.join(‹{}›)", "[w.upper() for w in ‹{}›]", "{}"],
    "list[int]": ["sum(‹{}›)", "len(‹{}›)", "[w for w in ‹{}›]", "{}"],
    "Point": ["‹{}›.x", "‹{}›.x + ‹{}›.y", "[‹{}›]", "{}"],
}
SHAPES = [*NUMBERS, "Literal['red', 'green']"]


def held(a: Author, s: Scope, expression: str, stem: str = "x") -> str:
    """A name for an answer that is not text to ordinary code."""
    name = a.fresh(stem)
    s.add(both(f"{name} = {expression}"))
    return name


def streaming(a: Author, s: Scope, how: str = "") -> str:
    """A streamed answer, or one that is not and comes as one piece."""
    ways = ["stream=True"] * 4 + ["stream=True, temperature=0.5", ""]
    a.say(s)
    return a.bind(s, f"gen({how or a.random.choice(ways)})")


def streamed(a: Author, s: Scope) -> None:
    """Read in a loop, to its end or not; said before or after."""
    cut = a.chance(0.2)  # how the joined text comes in pieces is the runtime's own business
    x = streaming(a, s, "stream=True, max_tokens=4, max_relay_rounds=2" if cut else "")
    w, t = a.fresh("w"), a.fresh("t")
    s.add(mark("streams"), both(f"{t} = []"))
    if a.chance(0.5):
        s.add(mark("said before it is read"), a.random.choice([said(x), fstring((a.word(), x))]))
    body = [both(f"{t}.append({w})")]
    if not cut and a.chance(0.4):
        body.append(fstring((a.word(), w)))
    if not cut and a.chance(0.9):
        body.append(both(f"if len({t}) > 1:", [mark("streams read partly"), both("break")]))
    if not cut and a.chance(0.3):
        body.append(both(f"{a.fresh('x')} = gen()"))
    word = "⇶for" if s.asynchronous else "for"
    s.add(Stmt(f"{word} {w} in {x}.text_stream:", f"for {w} in stream({x}):", body))
    a.store(s, f"'{'' if cut else '-'}'.join({t})")
    a.bind(s, "gen()")


def read_by_two(a: Author, s: Scope) -> None:
    """Two readers, one of them late."""
    x, xs, w, t = streaming(a, s), a.fresh("xs"), a.fresh("w"), a.fresh("t")
    s.add(mark("streams"), mark("streams read by two"))
    if a.chance(0.5):
        first = f"zip({x}.text_stream, {x}.text_stream)"
        plain = f"zip(stream({x}), stream({x}))"
        s.add(Stmt(f"{xs} = [p + q for p, q in {first}]", f"{xs} = [p + q for p, q in {plain}]"))
    else:
        body = [both(f"{t} = {w}"), both("break")]
        s.add(both(f"{t} = ''"))
        s.add(Stmt(f"for {w} in {x}.text_stream:", f"for {w} in stream({x}):", body))
        s.add(Stmt(f"{xs} = [{t}, *{x}.text_stream]", f"{xs} = [{t}, *stream({x})]"))
    s.lists += (xs,)
    s.strings += (f"{xs}[0]",)
    s.add(fstring((a.word(), x)))


def stream_itself(a: Author, s: Scope) -> None:
    """A stream as a statement, in an f-string, and joined."""
    x, t = streaming(a, s), a.fresh("t")
    s.add(mark("streams"))
    s.add(
        a.random.choice(
            [
                Stmt(f"{x}.text_stream", f"say({x})"),
                Stmt(f'f"{a.word()} {{{x}.text_stream}}"', f'begin()\nput("")\nput(stream({x}))'),
            ]
        )
    )
    if s.out[-1].ppl.startswith("f"):
        word = s.out[-1].ppl[2:].split(" ")[0]
        s.out[-1].plain = f'begin()\nput("{word} ")\nput(stream({x}))'
    a.bind(s, "gen()")
    if not s.asynchronous:
        s.add(Stmt(f"{t} = ''.join({x}.text_stream)", f"{t} = ''.join(stream({x}))"))
        s.strings += (t,)


def stream_fails(a: Author, s: Scope) -> None:
    """What was streamed of an answer that is refused."""
    x, w, t = a.fresh("x"), a.fresh("w"), a.fresh("t")
    read = Stmt(f"for {w} in {x}.text_stream:", f"for {w} in stream({x}):", [both(f"{t} += {w}")])
    body = [fstring(("risky", a.future(s).replace('"', "'"))), both(f"{x} = gen(stream=True)")]
    body += [said(x)] if a.chance(0.5) else []
    body += [read, fstring((a.word(), t))]
    s.add(mark("streams"), mark("try"), both(f"{t} = '.'"), both("try:", body, region=True))
    handler = [mark("handlers"), fstring(("caught", "told(e)"), (a.word(), t))]
    s.add(both("except (BackendError, ValueError) as e:", handler))
    a.ask(s)


def typed(a: Author, s: Scope) -> None:
    """An object for Python, its JSON for prompts."""
    shape = a.random.choice(SHAPES)
    more = a.random.choice(["", "", ", temperature=0.5", ", stream=True", ", max_asks=3"])
    if not a.able and a.chance(0.7):
        shape, more = "list[int]", more + ", max_tokens=5, max_relay_rounds=2"
        s.add(mark("typed and continued"))
    a.say(s)
    x = held(a, s, f"gen(response_format={shape}{more})", "typed")
    s.add(mark("typed answers"))
    uses = [
        said(x),
        fstring((a.word(), x)),
        Stmt(f'f"{a.word()} {{{x}!r:>9}}"', ""),
    ]
    uses[2].plain = f'begin()\nput("{uses[2].ppl[2:].split(" ")[0]} ")\nput({x}, "r", ">9")'
    s.add(*a.random.sample(uses, a.random.randint(1, 2)))
    if a.chance(0.3):
        a.bind(s, f"{d.leaf(a)}({x})" if shape.startswith("Lit") else "gen()")
    forms = NUMBERS.get(shape, ["‹{}›.upper()", "{}"])
    a.store(
        s, f"str({a.random.choice(forms).replace('{}', x)})".replace(f"str({x})", f"str(‹{x}›)")
    )
    if a.chance(0.4):
        tokens(a, s, x)
    if ", stream" in more and not s.asynchronous:
        last = a.fresh("t")
        shown = f"{last} = str(list({x}.text_stream)[-1])"
        s.add(mark("streams"), Stmt(shown, f"{last} = str(‹{x}›)"))
        s.strings += (last,)
    a.bind(s, "gen()")


def tokens(a: Author, s: Scope, x: str) -> None:
    """What an answer has cost, in all its calls."""
    used = f"{x}.usage.prompt_tokens + {x}.usage.completion_tokens"
    t = a.fresh("t")
    s.add(mark("usage"), Stmt(f"{t} = str({used})", f"{t} = str(tokens({x}))"), said(t))
    s.strings += (t,)


def refused_type(a: Author, s: Scope) -> None:
    """Asked once only, so that an answer of no such type is an error."""
    shape, x = a.random.choice(SHAPES), a.fresh("typed")
    body = [
        both(f"{x} = gen(response_format={shape}, max_asks=1)"),
        a.random.choice([both(f"{x} = str(‹{x}›)"), said(x)]),
    ]
    handlers = [mark("handlers"), both(f"{x} = {a.text()}"), said(a.text())]
    s.add(mark("typed answers"), mark("try"), both("try:", body, region=True))
    s.add(both("except OutputError:", handlers))
    s.add(said(x))
    a.ask(s)


def samples(a: Author, s: Scope) -> None:
    """Several answers to one question."""
    a.say(s)
    n, xs = a.random.randint(2, 3), a.fresh("xs")
    shape = a.random.choice(["", "", ", response_format=int", ", response_format=list[int]"])
    x = held(a, s, f"gen(n={n}{shape})", "many")
    s.add(mark("samples"))
    if a.chance(0.5):
        s.add(a.random.choice([said(x), fstring((a.word(), x))]))
    if shape:
        s.add(
            mark("typed answers"),
            Stmt(
                f"{xs} = [str(w.response_obj) for w in {x}.samples]",
                f"{xs} = [str(w) for w in objects({x})]",
            ),
        )
    else:
        s.add(Stmt(f"{xs} = [str(w) for w in {x}.samples]", f"{xs} = samples({x})"))
        s.futures += (x,)
    s.lists += (xs,)
    if a.chance(0.5):
        tokens(a, s, x)
    s.add(said(f"Counter({xs}).most_common(1)[0][0]"))
    a.ask(s)


def continued(a: Author, s: Scope) -> None:
    """An answer that the token limit cuts, and that goes on."""
    a.say(s)
    limit, rounds = a.random.randint(2, 5), a.random.randint(1, 3)
    more = a.random.choice(["", ", temperature=0.5", ", stream=True"])
    call = f"gen(max_tokens={limit}, max_relay_rounds={rounds}{more})"
    if a.chance(0.3):
        s.add(d.role(a, [fstring((a.word(), a.future(s).replace('"', "'"))), both(f"x = {call}")]))
        x = "x"
    else:
        x = a.bind(s, call)
    s.add(mark("continuations"), a.random.choice([said(x), fstring((a.word(), x))]))
    if a.chance(0.5):
        tokens(a, s, x)
    t = a.fresh("t")
    s.add(Stmt(f"{t} = {x}.finish_reason", f"{t} = reply({x}).finish"))
    s.strings += (t,)
    if a.chance(0.7):
        s.add(Stmt(f"{t} += str({x}.reasoning)", f"{t} += str(reply({x}).thoughts)"))
    a.bind(s, "gen()")


def choices(a: Author, s: Scope) -> None:
    """A choice, how it was made, and what all calls for it have used."""
    a.say(s)
    call = a.random.choice(["select(['left', 'right', 'up'])", "gen(choices=['a b', 'c'])"])
    x, t = a.bind(s, call), a.fresh("t")
    s.add(mark("choices"), a.random.choice([said(x), fstring((a.word(), x))]))
    how = "constrained" if a.able else "asked"
    s.add(Stmt(f"{t} = {x}.choice_method", f"{t} = {how!r}"))
    s.strings += (t,)
    tokens(a, s, x)
    a.bind(s, "gen()")


def thoughts(a: Author, s: Scope) -> None:
    x, t = (
        a.bind(s, a.random.choice(["gen()", "gen(stream=True)", "gen(cache='run')"])),
        a.fresh("t"),
    )
    s.add(mark("reasoning"), Stmt(f"{t} = str({x}.reasoning)", f"{t} = str(reply({x}).thoughts)"))
    s.strings += (t,)
    s.add(fstring((a.word(), t)))


ASKING = [
    *(streamed, streamed, read_by_two, stream_itself, stream_fails),
    *(typed, typed, refused_type, samples, continued, choices, thoughts),
]

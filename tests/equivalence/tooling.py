"""Templates of tools: functions that the model calls, run here or in a loop."""

from __future__ import annotations

from .asking import tokens
from .author import Author, Scope
from .definitions import fstring, function, walrus
from .tree import Stmt, both, mark, said


def plain_tool(a: Author) -> str:
    """An ordinary function; some raise."""

    def write(name: str) -> Stmt:
        result = a.random.choice(
            ["q.upper()", "[q] * k", "len(q) + k", "{'q': q, 'k': k}", "None", "f'{q} {k}'"]
        )
        body = [both(f"return {result}")]
        if a.chance(0.3):
            body.insert(0, both("if len(q) > 4:", [both("raise ValueError(f'no {q}')")]))
        if a.chance(0.3):
            body.insert(0, both(f'"""{a.word()}."""'))
        return both(f"def {name}(q: str, k: int = 2):", body)

    return a.need("tool", write, 3)


def async_tool(a: Author) -> str:
    def write(name: str) -> Stmt:
        return both(f"⇶def {name}(q: str):", [both("return q[::-1]")])

    return a.need("async_tool", write)


def prompt_tool(a: Author) -> str:
    """A tool that asks the model itself, and may be refused."""

    def write(name: str) -> Stmt:
        s = Scope(inner=True, strings=("q",))
        s.add(mark("@ppl tools"))
        s.add(fstring((a.random.choice(["risky", a.word()]), "q")))
        if a.chance(0.4):
            s.add(fstring((a.word(), a.bind(s, "gen()"))))
        s.add(both(f"return {a.random.choice(['gen()', 'str(‹gen()›)', 'gen(temperature=0.5)'])}"))
        ctx = a.random.choice(["new", "copy"])
        return function(f"def {name}(q: str):", s.out, f'@ppl(ctx="{ctx}")')

    return a.need("prompt_tool", write)


def box(a: Author, blocking: bool = False) -> str:
    """A list of one to three tools; *blocking* ones need no loop that goes on."""
    known = [plain_tool, plain_tool, prompt_tool]
    kinds = a.random.sample(known if blocking else [*known, async_tool], a.random.randint(1, 3))
    names = list(dict.fromkeys(kind(a) for kind in kinds))
    if a.chance(0.2):
        names.append(f"as_tool({plain_tool(a)}, name='other', k=3)")
    return f"[{', '.join(names)}]"


def choice(a: Author, tools: str) -> str:
    first = tools[1:-1].split(",")[0].split("(")[0]
    words = ["", "", "", ", tool_choice='required'", ", tool_choice='none'", ", temperature=0.5"]
    return a.random.choice(words if first == "as_tool" else [*words, f", tool_choice='{first}'"])


def run(s: Scope, x: str, options: str = "") -> tuple[str, str]:
    """The results of the calls in *x*: in a prompt program, and in plain Python."""
    shown = f"{'⏳' if s.asynchronous else ''}{x}.run_tool_calls({options})"
    return shown, f"run_tool_calls({', '.join(filter(None, [x, options]))})"


def called(a: Author, s: Scope) -> None:
    """Calls and results become messages of the prompt."""
    tools = box(a)
    a.say(s)
    s.add(mark("tools"))
    if a.chance(0.3):
        x = a.fresh("x")
        call = walrus(x, f"gen(tools={tools}{choice(a, tools)})")
        s.add(both("with AIRole():", [said(a.text()), call, a.fstring(s)]))
        s.futures += (x,)
    else:
        x = a.bind(s, f"gen(tools={tools}{choice(a, tools)})")
        s.add(said(x))
    shown, plain = run(s, x, a.random.choice(["", "", "parallel=False"]))
    s.add(Stmt(shown, f"say({plain})"))
    s.add(walrus(a.fresh("x"), f"gen(tools={tools})") if a.chance(0.5) else said(a.text()))
    a.bind(s, "gen()")


def called_aside(a: Author, s: Scope) -> None:
    """Results that only the program sees."""
    tools, xs, names = box(a), a.fresh("xs"), a.fresh("xs")
    a.say(s)
    x = a.bind(s, f"gen(tools={tools}{choice(a, tools)})")
    options = a.random.choice(["", "filter=lambda c: 'q' in c.arguments", "parallel=False"])
    shown, plain = run(s, x, options)
    s.add(mark("tools"))
    s.add(
        Stmt(
            f"{names} = [w.name for w in {x}.tool_calls]",
            f"{names} = [w.name for w in reply({x}).calls]",
        )
    )
    s.add(Stmt(f"{xs} = [w.content for w in {shown}]", f"{xs} = [w.content for w in {plain}]"))
    s.strings += (f"str({xs})", f"str({names})")
    s.add(fstring((a.word(), f"len({xs})")))


def by_hand(a: Author, s: Scope) -> None:
    """The loop as a user writes it."""
    tools, x = box(a), a.fresh("x")
    s.add(mark("tools"), both(f"{x} = gen(tools={tools})"))
    shown, plain = run(s, x)
    stop = Stmt(f"if not {x}.tool_calls:", f"if not reply({x}).calls:", [both("break")])
    body = [stop, said(x), Stmt(shown, f"say({plain})"), both(f"{x} = gen(tools={tools})")]
    s.add(both("for _ in range(2):", body))
    s.futures += (x,)
    s.add(fstring((a.word(), x)))
    a.bind(s, "gen()")


def looped(a: Author, s: Scope) -> None:
    """``gen_with_tools`` as a statement, in an f-string, or bound."""
    tools, x = box(a, s.asynchronous), a.fresh("x")
    options = a.random.choice(["", ", parallel=False", ", on_limit='answer', max_steps=1"])
    call = f"gen_with_tools(tools={tools}{options}{choice(a, tools)})"
    a.say(s)
    s.add(mark("gen_with_tools"))
    form = a.random.randrange(4)
    if form == 0:
        s.add(walrus(x, call))
    elif form == 1:
        s.add(fstring((a.word(), call.replace('"', "'"))))
        return
    else:
        s.add(both(f"{x} = {call}"))
        s.add(said(x) if form == 2 else fstring((a.word(), x)))
    s.futures += (x,)
    if a.chance(0.4):
        tokens(a, s, x)
    a.bind(s, "gen()")


def limited(a: Author, s: Scope) -> None:
    """A loop that comes to its last step, or is refused."""
    x, inner = a.fresh("x"), s.below()
    tools = box(a, s.asynchronous)
    call = f"gen_with_tools(tools={tools}, max_steps={a.random.randint(1, 2)})"
    inner.add(fstring((a.random.choice(["risky", a.word()]), a.future(s).replace('"', "'"))))
    inner.add(walrus(x, call) if a.chance(0.5) else both(f"{x} = {call}"))
    if a.chance(0.5):
        inner.add(both(f"{x} = str(‹{x}›)"))
    s.add(mark("gen_with_tools"), mark("try"), both("try:", inner.out, region=True))
    handler = [mark("handlers"), both(f"{x} = {a.text()}"), fstring(("caught", "e"))]
    s.add(both("except (BackendError, RunError) as e:", handler))
    s.futures += (x,)
    a.ask(s)


def in_a_block(a: Author, s: Scope) -> None:
    """Calls and results inside a list or a role, and as records of another function."""
    tools, name, x = box(a, s.asynchronous), a.fresh("asks"), a.fresh("x")
    shown, plain = run(Scope(), x)
    how = a.random.randrange(2)
    body = [fstring((a.word(), "q"))]
    if how:
        body += [both(f"{x} = gen(tools={tools})"), said(x), Stmt(shown, f"say({plain})")]
    else:
        body.append(walrus(x, f"gen_with_tools(tools={tools})"))
    body += [said(a.text()), both("return records()")]
    s.add(mark("gen_with_tools" if not how else "tools"))
    ctx = a.random.choice(["new", "copy", "same"])
    a.definitions.append(function(f"def {name}(q):", body, f'@ppl(ctx="{ctx}")'))
    block = a.random.choice(
        ["NumberedList()", "AIRole()", "DashList(indent=2)", "UserRole('Ann')", "SystemRole()"]
    )
    call = said(f"{name}({a.argument(s)})")
    s.add(both(f"with {block}:", [said(a.text()), call, said(a.text())]))
    a.bind(s, "gen()")


def typed_calls(a: Author, s: Scope) -> None:
    """An answer of a type, unless it calls tools first; one of a loop is one in the end."""
    tools, x = box(a, s.asynchronous), a.fresh("typed")
    shape = a.random.choice(["int", "Point", "list[int]", "Literal['red', 'green']"])
    a.say(s)
    s.add(mark("typed answers with tools"))
    if a.chance(0.5):
        s.add(mark("gen_with_tools"))
        s.add(both(f"{x} = gen_with_tools(tools={tools}, response_format={shape})"))
        s.add(said(x) if a.chance(0.5) else fstring((a.word(), x)))
    else:
        s.add(mark("tools"), both(f"{x} = gen(tools={tools}, response_format={shape})"), said(x))
        if a.chance(0.6):
            shown, plain = run(s, x)
            s.add(Stmt(shown, f"say({plain})"))
    if a.chance(0.4):
        tokens(a, s, x)
    a.store(s, f"str(‹{x}›)")
    a.bind(s, "gen()")


def looped_elsewhere(a: Author, s: Scope) -> None:
    """A loop that begins with given messages."""
    x = a.fresh("x")
    given = a.random.choice([f"[UserMessage({a.value(s)})]", "convo()", a.text(), "records()"])
    s.add(mark("gen_with_tools"))
    call = f"gen_with_tools(tools={box(a, s.asynchronous)}, messages={given}, on_limit='answer', max_steps=2)"
    s.add(walrus(x, call) if a.chance(0.5) else both(f"{x} = {call}"))
    s.futures += (x,)
    s.add(fstring((a.word(), x)))
    a.bind(s, "gen()")


TOOLING = [
    *(called, called_aside, by_hand, looped, looped, limited, in_a_block),
    *(typed_calls, looped_elsewhere),
]
ASYNC_TOOLING = [called, called_aside, by_hand, looped, limited, typed_calls, looped_elsewhere]

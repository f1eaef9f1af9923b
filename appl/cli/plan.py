"""``appl plan``: the prompts that a program will share, and the number of its calls."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from appl.backend import Backend, CountsTokens, Pricing, Usage
from appl.backend.price import Overridden, Price, Priced, money, price_for
from appl.cli import parameters
from appl.cli.arguments import ProgramCommand, bind, help_text, wants_help
from appl.cli.commands import Options, appl_command, options_of
from appl.cli.target import load, parse
from appl.cli.terminal import columns, one_line, out, print_found
from appl.compiler.graph_source import compile_graph
from appl.compiler.ir import Graph
from appl.compiler.plan import (
    CallSite,
    Factor,
    PlanTotals,
    Prefix,
    PrefixPlan,
    PromptBill,
    bills,
    make_plan,
    product,
    totals,
)
from appl.config import load as load_config
from appl.session.backend_setup import choose, make_backend
from appl.session.scheduling import prices_of

_ABOUT = 4.0  # characters of English in a token, where no tokenizer can be asked
_LEAST = 1024  # the tokens of the shortest beginning that providers keep


@appl_command(
    "plan",
    cls=ProgramCommand,
    example="appl plan program.py:ask --topic rain",
)
@parameters.target_with_arguments
@parameters.as_json
def command(options: Options) -> None:
    """Show which prompts share a prefix, and how many calls a function makes.

    Follows a @ppl function and the functions that it calls without running them, and prints the
    tree of their prompts: which calls share what, how many calls there are, how many tokens of
    constant text need not be computed again, and what the prompts cost by the prices of the model,
    with the provider's cache and without it, by function. Values given as --name value fix the
    number of rounds of loops over them. A function that is not followed, but may ask a model, is
    named, and the number of calls is then what there is at least.
    """
    prog, words = f"appl plan {options.target}", list(options.arguments)
    options.json = options.json or options.late.json
    function = load(parse(options.target))
    if wants_help(words):
        out(help_text(function, options_of(command), prog))
        return
    graph = compile_graph(function)
    plan = make_plan(graph, _finder(function), _known(function, words, prog))
    config = load_config()
    choice = choose(config)
    backend = make_backend(config, choice, 0)
    size, unit = _tokens(backend)
    counted = totals(plan, size)
    model = choice.model or backend.profile.default_model or ""
    brought: Priced = backend.prices if isinstance(backend, Pricing) else {}
    price = price_for(Overridden(prices_of(config, choice.backend), brought), model)
    bill = Bill(bills(plan, size, _LEAST), model, price)
    data = {**_data(plan, counted, size, unit), "bill": bill.as_data()}
    lines = [*_text(plan, counted, size, unit), *bill.lines(counted.complete)]
    print_found(options.json, data, lines)


def _known(function: Callable[..., object], words: list[str], prog: str) -> Mapping[str, Any]:
    """The known arguments: those in *words*, and defaults."""
    parameters = inspect.signature(function).parameters
    arguments = {
        name: parameter.default
        for name, parameter in parameters.items()
        if parameter.default is not parameter.empty
    }
    values, _ = bind(function, words, options_of(command), prog, partly=True)
    return arguments | values


def _finder(function: Callable[..., object]) -> Callable[[str], tuple[Graph, str] | None]:
    """A function that finds prompt functions by the names that *function* and its callees use."""
    spaces: list[Mapping[str, object]] = [getattr(inspect.unwrap(function), "__globals__", {})]

    def find(name: str) -> tuple[Graph, str] | None:
        head, *rest = name.split(".")
        for space in spaces:
            member = _methods(space, rest) if head in ("self", "cls") else _member(space, name)
            program = getattr(member, "__appl__", None)
            if program is not None:
                inner = getattr(inspect.unwrap(member), "__globals__", None)
                if isinstance(inner, dict) and all(inner is not space for space in spaces):
                    spaces.append(inner)
                return program.translated.graph, program.ctx
        return None

    return find


def _member(space: Mapping[str, object], name: str) -> Any:
    head, *rest = name.split(".")
    member = space.get(head)
    for part in rest:
        member = inspect.getattr_static(member, part, None)
    return member


def _methods(space: Mapping[str, object], rest: list[str]) -> Any:
    """The only method of that name among the module's classes, for ``self.f``."""
    name = space.get("__name__")
    classes = (v for v in space.values() if isinstance(v, type) and v.__module__ == name)
    methods = [
        vars(definition)[rest[0]]
        for definition in classes
        if len(rest) == 1 and rest[0] in vars(definition)
    ]
    return getattr(methods[0], "__func__", methods[0]) if len(methods) == 1 else None


def _tokens(backend: Backend) -> tuple[Callable[[str], int], str]:
    """A function that counts tokens, and the name of its unit."""
    if isinstance(backend, CountsTokens):
        return backend.count_tokens, "tokens"
    return lambda text: round(len(text) / _ABOUT), "tokens (about)"


@dataclass(frozen=True, slots=True)
class Bill:
    """The bill of the prompts, by function; the price of the model may be unknown."""

    functions: Mapping[str, PromptBill]
    model: str
    price: Price | None

    def lines(self, complete: bool) -> Iterator[str]:
        """The bill for a human; *complete* if all prompts are known as a whole."""
        if not any(bill.tokens for bill in self.functions.values()):
            return
        if self.price is None:
            yield f"cost: unpriced, as there is no price of {self.model or 'the default model'!r}"
            return
        if self.price.is_free:
            return
        part = "" if complete else ", of the constant text whose number is known"
        yield ""
        head = ("FUNCTION", "CALLS", "TOKENS", "WITHOUT CACHE", "WITH CACHE")
        rows = [self._row(path, bill) for path, bill in self.functions.items()]
        yield f"cost of the prompts with {self.model}{part}, without answers:"
        yield from columns([head, *rows, self._row("all", self._whole())])
        half = self._in_batches(self._whole())
        if half is not None:
            yield f"in batches (appl run --batch): {money(half)}"

    def _whole(self) -> PromptBill:
        whole = PromptBill()
        for bill in self.functions.values():
            calls = None if whole.calls is None or bill.calls is None else whole.calls + bill.calls
            whole = PromptBill(
                calls,
                whole.read + bill.read,
                whole.written + bill.written,
                whole.plain + bill.plain,
            )
        return whole

    def _row(self, path: str, bill: PromptBill) -> tuple[str, ...]:
        plain, cached = self._costs(bill)
        calls = "?" if bill.calls is None else str(bill.calls)
        return path, calls, f"{bill.tokens:,}", money(plain), money(cached)

    def _costs(self, bill: PromptBill) -> tuple[int | None, int | None]:
        """The costs without a cache and with it, in millionths.

        A call may have a price of its own for a long prompt; these are taken for short ones.
        """
        if self.price is None:
            return None, None
        price = replace(self.price, over=None, beyond=None)
        plain = price.cost(Usage(bill.tokens, 0, 0, 0))
        return plain, price.cost(Usage(bill.tokens, 0, bill.read, bill.written))

    def _in_batches(self, bill: PromptBill) -> int | None:
        """The cost where all calls go out in batches, in millionths; ``None`` if unknown."""
        if self.price is None:
            return None
        price = replace(self.price, over=None, beyond=None)
        return price.cost(Usage(bill.tokens, 0, 0, 0, tier="batch"))

    def as_data(self) -> dict[str, object]:
        """The bill as JSON-ready data, in millionths; unknown costs are null."""
        rows = [("", self._whole()), *self.functions.items()]
        totals = [
            {
                "function": path or None,
                "calls": bill.calls,
                "tokens": bill.tokens,
                "read": bill.read,
                "written": bill.written,
                "cost_without_cache": self._costs(bill)[0],
                "cost": self._costs(bill)[1],
            }
            for path, bill in rows
        ]
        return {"model": self.model or None, "total": totals[0], "functions": totals[1:]}


# -- for reading


def _text(
    plan: PrefixPlan, counted: PlanTotals, size: Callable[[str], int], unit: str
) -> Iterator[str]:
    graph = plan.graph
    yield f"plan of {graph.name}  {graph.file}:{graph.line}"
    if not plan.sites:
        yield "  no call of a model was found"
    for child in plan.root.children.values():
        yield from _branch(child, 1, size)
    for site in plan.root.ends:
        yield f"  → {_call(site)}"
    yield ""
    yield f"calls: {_calls(plan)}"
    if counted.sent:
        part = "" if counted.complete else "of the constant text whose number is known, "
        saved = counted.sent - counted.computed
        yield (
            f"prompt: {part}{counted.sent:,} {unit} sent, {counted.computed:,} computed with "
            f"prefix sharing ({saved / counted.sent:.0%} saved)"
        )
    for call in plan.unknown:
        yield f"not followed: {call}"


def _branch(top: Prefix, depth: int, size: Callable[[str], int]) -> Iterator[str]:
    todo = [(top, depth)]
    while todo:  # a long prompt is a deep tree
        prefix, depth = todo.pop()
        piece = prefix.piece
        assert piece is not None
        room = "  " * depth
        if piece.text is None:
            shown = f"{{{piece.label}}}"
        else:
            shown = f"{one_line(piece.text, 56)!r} ({size(piece.text):,} tokens)"
        yield f"{room}{piece.role or 'prompt'}  {shown}  :{piece.line}{_shared(prefix)}"
        for site in prefix.ends:
            yield f"{room}  → {_call(site)}"
        children = list(prefix.children.values())
        below = depth + (len(children) > 1 or bool(prefix.ends))
        todo += [(child, below) for child in reversed(children)]


def _shared(prefix: Prefix) -> str:
    calls, variants = prefix.calls(), product(prefix.variants)
    if calls is not None and variants is not None:
        return f"   shared by {calls}, computed {min(calls, variants)}×" if calls > variants else ""
    rounds = {factor.key for site in prefix.sites for factor in site.loops}
    outer = {factor.key for factor in prefix.variants}
    if len(prefix.sites) > 1 or rounds - outer:
        once = _times(prefix.variants) or "once"
        return f"   shared by {_sum(tuple(prefix.sites))}, computed {once}"
    return ""


def _call(site: CallSite) -> str:
    times = _times(site.loops)
    notes = [f"× {times}"] if times else []
    notes += [] if site.certain else ["at most"]
    notes += ["prompt grows each round"] if site.grows else []
    note = f"   {', '.join(notes)}" if notes else ""
    return f"{site.label}  {site.path}:{site.line}{note}"


def _times(loops: tuple[Factor, ...]) -> str:
    count = product(loops)
    return str(count) if count is not None and loops else " × ".join(f.written for f in loops)


def _calls(plan: PrefixPlan) -> str:
    """The number of calls; at least that of the certain ones if some are unknown."""
    if not plan.unknown:
        return _sum(plan.sites)
    return f"at least {_sum(tuple(site for site in plan.sites if site.certain))}"


def _sum(sites: tuple[CallSite, ...]) -> str:
    fixed = sum(site.calls for site in sites if site.calls is not None)
    open_ones = [_times(site.loops) for site in sites if site.calls is None]
    shown = [str(fixed)] if fixed or not open_ones else []
    most = "" if all(site.certain for site in sites) else "at most "
    return most + " + ".join(shown + open_ones)


# -- as data


def _data(
    plan: PrefixPlan, counted: PlanTotals, size: Callable[[str], int], unit: str
) -> dict[str, Any]:
    return {
        "function": plan.graph.name,
        "file": plan.graph.file,
        "line": plan.graph.line,
        "unit": unit,
        "calls": counted.calls,
        "calls_written": _calls(plan),
        "sent": counted.sent,
        "computed": counted.computed,
        "complete": counted.complete,
        "sites": [
            {
                "path": site.path,
                "call": site.label,
                "file": site.file,
                "line": site.line,
                "calls": site.calls,
                "times": _times(site.loops) or "1",
                "certain": site.certain,
                "grows": site.grows,
            }
            for site in plan.sites
        ],
        "prefixes": _prefixes(plan.root, size),
        "not_followed": list(plan.unknown),
    }


def _prefixes(root: Prefix, size: Callable[[str], int]) -> list[dict[str, object]]:
    """The tree as a list; each prefix refers to its parent by the parent's index."""
    todo: list[tuple[int | None, Prefix]] = [(None, child) for child in root.children.values()]
    entries = list[dict[str, object]]()
    for number, (parent, prefix) in enumerate(todo):  # which grows as it goes
        piece = prefix.piece
        assert piece is not None
        entries.append(
            {
                "id": number,
                "parent": parent,
                "role": piece.role,
                "text": piece.text,
                "value": piece.label or None,
                "line": piece.line,
                "size": None if piece.text is None else size(piece.text),
                "calls": prefix.calls(),
                "computed": product(prefix.variants),
                "sites": [f"{site.path}:{site.line}" for site in prefix.ends],
            }
        )
        todo += [(number, child) for child in prefix.children.values()]
    return entries

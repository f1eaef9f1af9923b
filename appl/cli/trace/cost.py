"""``appl trace cost``: the cost of a run, in four kinds that are never added up.

Invariant: traces are only read. Amounts are integers in millionths; an unknown amount is not 0.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from appl.backend.price import Price, total
from appl.backend.price_table import row_of
from appl.cli import parameters
from appl.cli.commands import Options, WordChoice, appl_command, option, switch
from appl.cli.terminal import columns, print_found
from appl.cli.trace.places import place
from appl.cli.trace.run_names import run_path
from appl.tracing import RecordedCall
from appl.tracing.explaining.caching import CacheReport, cache_report
from appl.tracing.explaining.costs import KINDS, Costs, Terms, UsageSum, prices_of, terms_of
from appl.tracing.reading.trace import Trace

_MOST, _GROUPS, _OTHERS = 20, 10_000, "(others)"
_OPEN_ENDED = """
in doubt is at least this: the record does not say how long each prompt was in these calls, or how
long their answers may have been (max_tokens)"""
_OCCURRENCE = re.compile(r"\.\d+(?=/|\Z)")


@appl_command("cost", example="appl trace cost last --by scope")
@parameters.run
@option(
    "--by", type=WordChoice(("model", "scope", "line")), default="model", help="what to sum up by"
)
@switch("--all", help="print every row, not the largest")
@parameters.as_json
def command(options: Options) -> None:
    """Show what a run cost, by model, function or source line.

    Shows tokens and money in four kinds: spent (including failed attempts that reported their use),
    reused (the cost of answers taken from an earlier run), in doubt (an upper bound for attempts
    whose end is unknown: what a budget reserves for them) and estimated (for answers that do not
    report their use). A + after a number of tokens means that some calls do not report theirs. An
    unknown cost is shown as unknown, and a sum that lacks one as 'at least' the rest. Then it says
    what the provider's cache saved, and why calls read nothing from it.
    """
    run = Trace.open(run_path(options.run))
    whole, groups = _spent(run, options.by)
    failures = run.failure_counts()
    cache = cache_report(run.every_call(), _prices(run)) if _tells(whole) else CacheReport()
    order = sorted(groups, key=lambda key: _weight(groups[key]), reverse=True)
    shown_keys = order if options.all else order[:_MOST]
    rows = [{options.by: key, **groups[key].as_data()} for key in shown_keys]
    lines = [f"{run.path.stem}: {whole.line()}"]
    lines += [f"failed: {', '.join(failures.words(run.reason == 'finished'))}"] if failures else []
    lines.append("")
    lines += _table(options.by, {key: groups[key] for key in shown_keys})
    if len(order) > len(shown_keys):
        lines.append(f"… and {len(order) - len(shown_keys)} more; --all shows them")
    lines += ["", *cache.lines()] if cache.calls else []
    if whole.in_doubt.open_ended:
        lines.append(_OPEN_ENDED)
    sums = {**whole.as_data(), **failures.as_data()}
    data = {"total": sums, "rows": rows, "count": len(order), "cache": cache.as_data()}
    print_found(options.json, data, lines)


def _tells(costs: Costs) -> bool:
    """True if a provider charges for what it keeps, or tells what was read; prompts are read then.

    A server of one's own has a cache, too, and costs nothing.
    """
    return bool(costs.spent.cached_tokens or costs.spent.written_tokens) and not costs.is_free


def _prices(run: Trace) -> Callable[[str], Price | None]:
    """The prices of the run's models: by its settings, or by the table of the package."""
    own, backend = prices_of(run.header), str(run.header.get("backend") or "")

    def price(model: str) -> Price | None:
        price_found = own.get(model)
        if price_found is None and model:
            row = row_of(f"{backend}/{model}") or row_of(model)
            price_found = None if row is None else row.price
        return price_found

    return price


def _spent(run: Trace, by: str) -> tuple[Costs, dict[str, Costs]]:
    """The costs of the run, and of its parts; prompts are read only if one must be estimated."""
    terms = terms_of(run.header)
    terms.batched = run.batched
    whole, groups = _summed(run, _KEYS[by], terms)
    if not whole.estimated.calls and not whole.in_doubt.calls:
        return whole, groups
    for call in run.every_call():
        terms.density.learn(call)
    return _summed(run, _KEYS[by], terms)


def _summed(
    run: Trace, key: Callable[[RecordedCall], str], terms: Terms
) -> tuple[Costs, dict[str, Costs]]:
    groups: dict[str, Costs] = {}
    whole = Costs(terms)
    for call in run.paid_calls():
        whole.add(call)
        name = key(call)
        if name not in groups:
            name = name if len(groups) < _GROUPS else _OTHERS
            groups.setdefault(name, Costs(terms))
        groups[name].add(call)
    return whole, groups


def _model(call: RecordedCall) -> str:
    return call.model or (call.response.model if call.response else "") or "(default)"


def _scope(call: RecordedCall) -> str:
    return _OCCURRENCE.sub("", call.address.rpartition("/")[0]) or "/"


def _line(call: RecordedCall) -> str:
    return place(call.where) or "-"


_KEYS: dict[str, Callable[[RecordedCall], str]] = {"model": _model, "scope": _scope, "line": _line}


def _weight(costs: Costs) -> tuple[int, int]:
    kinds = (costs.spent, costs.estimated, costs.in_doubt, costs.reused)
    tokens = sum(kind.prompt_tokens + kind.completion_tokens for kind in kinds)
    return costs.spent.cost, tokens


def _table(by: str, groups: dict[str, Costs]) -> list[str]:
    """The table of costs: a row for each kind of each group, as kinds are never added up."""
    writes = any(
        group.spent.written_tokens or group.spent.written_1h_tokens for group in groups.values()
    )
    tokens = _TOKENS if writes else _TOKENS[:2] + _TOKENS[-1:]
    titles = ("PROMPT", "CACHED", "WRITTEN", "ANSWER") if writes else ("PROMPT", "CACHED", "ANSWER")
    head = (by.upper(), "CALLS", "KIND", *titles, "COST")
    rows: list[tuple[str, ...]] = [head]
    for key, group in groups.items():
        name = key
        for kind in KINDS:
            amount: UsageSum = getattr(group, kind)
            if amount.calls:
                counts = [_known(amount, kind) for kind in tokens]
                money = total(amount.known("cost"), amount.unknown["cost"])
                rows.append((name, str(amount.calls), kind.replace("_", " "), *counts, money))
                name = ""
        if name:
            rows.append((name, "0", *["-"] * (len(head) - 2)))
    return columns(rows)


_TOKENS = ("prompt_tokens", "cached_tokens", "written_tokens", "completion_tokens")


def _known(amount: UsageSum, name: str) -> str:
    value = amount.known(name)
    if value is not None and name == "written_tokens":
        value += amount.written_1h_tokens
    return "?" if value is None else f"{value}{'+' if amount.unknown[name] else ''}"

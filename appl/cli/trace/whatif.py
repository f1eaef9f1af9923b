"""``appl trace what-if``: the time and the cost of a run under other conditions.

Invariant: traces are only read. The model first predicts the run as it was, and reports its error.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

from appl.cli import parameters
from appl.cli.commands import Options, appl_command, option
from appl.cli.target import UsageError
from appl.cli.terminal import columns, print_found
from appl.cli.trace.places import seconds
from appl.cli.trace.run_names import run_path
from appl.errors import InvalidOption, nearest
from appl.price import Price
from appl.tracing import RecordedCall, Trace
from appl.tracing.explaining import costs, moment_graph, whatif
from appl.tracing.explaining.costs import Costs
from appl.tracing.explaining.moment_graph import MomentGraph
from appl.tracing.reading.lazy import opened_lazily

_HINTED = 10_000


@appl_command("what-if", example="appl trace what-if last --concurrency 4 --latency x0.5")
@parameters.run
@option("--latency", default="x1", metavar="xF", help="times of models by a factor, as x0.5")
@option("--concurrency", type=int, metavar="N", help="at most N calls at once")
@option(
    "--price",
    multiple=True,
    metavar="MODEL=IN/OUT",
    help="price of a million prompt and answer tokens; MODEL may be left out: =IN/OUT",
)
@option(
    "--without",
    multiple=True,
    metavar="CALL",
    help="leave out a call, or a function with all its calls",
)
@parameters.as_json
def command(given: Options) -> None:
    """Predict time and cost of a run with other latency, slots, prices or calls.

    The recorded run is simulated with something changed. The program's own time, the order of its
    calls and the content of its prompts stay as recorded.
    """
    with opened_lazily(run_path(given.run)) as run:
        data = _predicted(run, given)
    print_found(given.json, data, _lines(run, data))


def _predicted(run: Trace, given: Options) -> dict[str, object]:
    latency, slots = _factor(given.latency), given.concurrency
    if slots is not None and slots < 1:
        raise UsageError(f"--concurrency is a number of calls from 1 on, got {slots}")
    prices = dict(_price(words) for words in given.price)
    graph = moment_graph.MomentGraph(run)
    without = tuple(_known(run, graph, address.rstrip("/")) for address in given.without)
    changes = whatif.Changes(latency, slots, without)
    model = whatif.RunModel(graph)
    most = model.recorded_most()
    as_it_was, recorded = model.run().duration, graph.end - graph.begin
    other = model.run(changes)
    predicted, most_predicted = other.duration, other.most
    del other  # the times of all moments
    same_slots = model.run(whatif.Changes(concurrency=max(most, 1))).duration
    costs = _costs(run, changes, prices)
    return {
        "recorded_us": recorded,
        "model_us": as_it_was,
        "model_error_us": as_it_was - recorded,
        "model_with_recorded_slots_us": same_slots,
        "predicted_us": predicted,
        "calls": {"recorded": costs.calls, "predicted": costs.kept},
        "most_at_once": {"recorded": most, "predicted": most_predicted},
        "cost": {"recorded": costs.before.as_data(), "predicted": costs.after.as_data()},
        "changes": {"latency": latency, "concurrency": slots, "without": list(without)},
        "cost_lines": {"recorded": costs.before.line(), "predicted": costs.after.line()},
    }


class _Sums:
    """The costs of a run, as recorded and as predicted."""

    def __init__(self, before: Costs, after: Costs) -> None:
        self.before, self.after = before, after
        self.calls = self.kept = 0

    @property
    def needs_prompts(self) -> bool:
        """True if an amount had to be estimated."""
        return any(
            costs.estimated.calls or costs.in_doubt.calls for costs in (self.before, self.after)
        )


def _costs(run: Trace, changes: object, prices: dict[str, Price]) -> _Sums:
    """The costs; prompts are read only if one must be estimated."""
    sums = _summed(run, changes, prices, learn=False)
    return _summed(run, changes, prices, learn=True) if sums.needs_prompts else sums


def _summed(run: Trace, changes: Any, prices: dict[str, Price], *, learn: bool) -> _Sums:
    known = costs.terms_of(run.header)
    if learn:
        for call in run.every_call():
            known.density.learn(call)
    models = {""}
    other = replace(known, prices={**known.prices, **prices})
    sums = _Sums(costs.Costs(known), costs.Costs(other))
    earlier = len(run.earlier)
    for number, call in enumerate(run.every_call()):
        sums.before.add(call)
        models |= {call.model, call.response.model if call.response else ""}
        if number >= earlier:
            sums.calls += 1
            if not changes.removes(call.address):
                sums.kept += 1
                sums.after.add(_priced(call, prices))
    _need_asked(set(prices), models)
    return sums


def _need_asked(priced: set[str], models: set[str]) -> None:
    unknown, known = sorted(priced - models), sorted(models - {""})
    if unknown:
        has = f"it asked {', '.join(known[:8])}" if known else "=IN/OUT is for the default model"
        raise UsageError(
            f"--price: the run asked no model {unknown[0]!r}{nearest(unknown[0], known)} ({has})"
        )


def _priced(call: RecordedCall, prices: dict[str, Price]) -> RecordedCall:
    """*call* without its recorded cost if another price is given for its model."""
    response = call.response
    if response is None or not {"", call.model, response.model} & set(prices):
        return call
    return replace(call, response=replace(response, cost=None))


def _lines(trace: Trace, data: dict[str, Any]) -> list[str]:
    calls, most, cost = data["calls"], data["most_at_once"], data["cost_lines"]
    recorded, predicted = data["recorded_us"], data["predicted_us"]
    times = f" (x{predicted / recorded:.2f})" if recorded else ""
    rows = [
        ("", "recorded", "predicted"),
        ("time", seconds(recorded), f"{seconds(predicted)}{times}"),
        ("calls", str(calls["recorded"]), str(calls["predicted"])),
        ("at once", str(most["recorded"]), str(most["predicted"])),
    ]
    off = data["model_error_us"]
    slots = seconds(data["model_with_recorded_slots_us"])
    return [
        trace.path.stem,
        *columns(rows),
        f"cost recorded: {cost['recorded']}",
        f"cost predicted: {cost['predicted']}",
        f"the model is off by {seconds(abs(off))} for the run as it was; with slots simulated, "
        f"{most['recorded']} at once: {slots}",
    ]


def _factor(words: str) -> float:
    try:
        factor = float(words.removeprefix("x"))
    except ValueError:
        factor = -1.0
    if not 0 <= factor < float("inf"):
        raise UsageError(f"--latency is a factor, as x0.5 or x2, got {words!r}")
    return factor


def _price(words: str) -> tuple[str, Price]:
    model, _, price = words.rpartition("=")
    prompt, _, answer = price.partition("/")
    try:
        return model, Price(float(prompt), float(answer))
    except (ValueError, InvalidOption):
        raise UsageError(
            f"--price is MODEL=IN/OUT for a million tokens, as small=0.15/0.60, got {words!r}"
        ) from None


def _known(run: Trace, graph: MomentGraph, address: str) -> str:
    if not any(
        recorded == address or recorded.startswith(address + "/")
        for recorded in graph.steps.address
    ):
        hint = nearest(address, itertools.islice(graph.steps.address, _HINTED))
        raise UsageError(f"{run.path.name} has no call {address!r}{hint}")
    return address

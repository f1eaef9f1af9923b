"""The tables about scheduling: limits, budget, prices, retries, deadlines, and the policies.

Invariant: the scheduler can use every value that was read. It chooses the values that are not set.
Without deadlines, it allows 1800 seconds for each attempt and for connecting with a backend.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from appl.config.layout import PRICES
from appl.config.readers import Key, count, number, one_of, positive, shown, switch
from appl.errors import ConfigError, nearest


def _warm(raw: object) -> object:
    try:
        return raw if raw == "always" else switch(raw)
    except ValueError:
        raise ValueError('on, off or "always"') from None


def _order(raw: object) -> object:
    return "program" if raw == "prefix" else one_of("program", "fifo")(raw)


def _price(raw: object) -> object:
    """The price of a million tokens, of each class that is billed, and of each tier."""
    wanted = (
        "{ prompt = …, answer = … } and perhaps cached, written and written_1h, in the currency "
        "per million tokens; perhaps tables of the same form named batch, flex and priority"
    )
    if not isinstance(raw, Mapping) or not {"prompt", "answer"} <= {*raw} <= {*_PRICED, *_TIERS}:
        raise ValueError(wanted)
    try:
        return {
            name: _price(value) if name in _TIERS else number(value) for name, value in raw.items()
        }
    except ValueError:
        raise ValueError(wanted) from None


_PRICED = ("prompt", "answer", "cached", "written", "written_1h")
_TIERS = ("batch", "flex", "priority")

TABLES: dict[str, dict[str, Key]] = {
    table: {key.name: key for key in keys}
    for table, keys in {
        "limits": (
            Key("concurrency", count, None, "most calls at once"),
            Key("requests", count, None, "most requests started in a period"),
            Key("period", positive, 60.0, "length of that period in seconds"),
            Key("requests_per_minute", count, None, "most requests started in a minute"),
            Key("tokens_per_minute", count, None, "most tokens requested in a minute"),
        ),
        "budget": (
            Key("cost", number, None, "most that a run may cost, in the currency of the prices"),
            Key("tokens", count, None, "most tokens that a run may use"),
            Key("calls", count, None, "most requests that a run may send"),
        ),
        "retries": (
            Key("attempts", count, 3, "most attempts of a call; 1 means no retries"),
            Key("base", number, 0.5, "longest backoff before the second attempt, in seconds"),
            Key("cap", number, 30.0, "longest backoff before later attempts, in seconds"),
            Key("share", number, 0.2, "retries per new call, over all calls"),
            Key("spare", count, 10, "retries allowed beyond that share"),
            Key("patience", number, 60.0, "seconds that a call waits for a busy or dead backend"),
        ),
        "deadlines": (
            Key("first_token", positive, None, "timeout until the first token, in seconds"),
            Key("between_tokens", positive, None, "timeout from one token to the next, in seconds"),
            Key("total", positive, None, "timeout of a call with all its attempts, in seconds"),
        ),
        "schedule": (
            Key("order", _order, None, "order in which ready calls are sent: program or fifo"),
            Key(
                "warm",
                _warm,
                None,
                "whether calls are ordered for the server's prefix cache: on, off or always",
            ),
            Key("slow_start", switch, False, "whether a run begins with few calls at once"),
            Key("adaptive", switch, True, "whether a busy backend gets fewer calls at once"),
            Key("circuit", switch, True, "whether a single call tests if a dead backend is back"),
        ),
    }.items()
}
"""The keys of each table. The defaults are those of the scheduler, where it has any."""

GONE = {
    "hedge": "second attempts beside slow ones are gone; deadlines.first_token ends an attempt "
    "that is late, which is then made again",
    "foresee": "the turns to come are told by graphs and by conversations that have ended",
    "share": "runs of a process that ask one server at the same time always count its cache once",
}
"""Keys of ``schedule`` that earlier versions had, and what there is instead."""


def read(table: str, raw: object, origin: str) -> tuple[dict[str, object], list[str]]:
    """The values of *table*, and notes on keys that are not used any more.

    Raises ``ConfigError`` that names *origin*.
    """
    if not isinstance(raw, Mapping):
        raise ConfigError(f"{origin}: {table} must be a table, as in [{table}]")
    if table == PRICES:
        prices = {
            str(name): _value(f"{table}.{name}", _price, price, origin)
            for name, price in raw.items()
        }
        return prices, []
    name_of_table = table.rpartition(".")[2]
    keys, gone = TABLES[name_of_table], GONE if name_of_table == "schedule" else {}
    notes = [
        f"{origin}: {table}.{name} is not used any more: {gone[name]}; delete the line"
        for name in raw
        if name in gone
    ]
    if raw.get("order") == "prefix":
        notes.append(f'{origin}: {table}.order = "prefix" means the same as "program"')
    raw = {name: value for name, value in raw.items() if name not in gone}
    for name in raw:
        if name not in keys:
            raise ConfigError(
                f"{origin}: unknown key {table}.{name}{nearest(str(name), keys)} "
                f"(known: {', '.join(keys)})"
            )
    values = {
        name: _value(f"{table}.{name}", keys[name].read, value, origin)
        for name, value in raw.items()
    }
    return values, notes


def _value(key: str, reader: Any, raw: object, origin: str) -> object:
    try:
        return reader(raw)
    except ValueError as error:
        raise ConfigError(f"{origin}: {key} must be {error}, got {shown(raw)}") from None

"""``appl models``: the models that can be named here, and what each of them lacks.

Invariant: no backend is made and nothing is asked; an unknown price or context is not 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from appl import price_table
from appl.cli import parameters
from appl.cli.commands import Options, appl_command, argument, switch
from appl.cli.target import UsageError
from appl.cli.terminal import columns, print_found, say
from appl.config import Config, load
from appl.session.naming import NameableModel, nameable, named


@appl_command("models", example="appl models\nappl models claude")
@argument("words", nargs=-1, metavar="TEXT", help="a part of a name, also of models with a price")
@switch("--all", help="also every model that the table of prices knows")
@parameters.as_json
def command(given: Options) -> None:
    """Show the models that can be named, and what is missing before they answer.

    A name is written as in --model, `gen(model=…)` or the setting `model`. Prices are for a million
    tokens of prompt and answer; the context is the largest number of tokens that a call may hold.
    """
    found = listed(load(), given.words, given.all)
    if given.words and not found:
        raise UsageError(
            f"no model has {' '.join(given.words)!r} in its name; a model of a server is "
            "written BACKEND/MODEL, as in openai/gpt-5-mini"
        )
    rows = columns([_HEAD, *(_row(model) for model in found)])
    print_found(given.json, [_data(model) for model in found], rows)
    for line in () if given.json else _todo(found):
        say(line)


def listed(config: Config, words: tuple[str, ...], every: bool) -> list[NameableModel]:
    """The names that contain *words*; with words or *every*, also models of the price table."""
    found = nameable(config)
    if words or every:
        names = {model.name for model in found} | {model.stands_for for model in found}
        found += [model for model in _priced(config) if model.name not in names]
    texts = [f"{model.name} {model.stands_for or ''}".casefold() for model in found]
    wanted = [word.casefold() for word in words]
    return [m for m, text in zip(found, texts, strict=True) if all(w in text for w in wanted)]


def _priced(config: Config) -> Iterator[NameableModel]:
    """The models of the price table that a known provider sells."""
    for name in price_table.names():
        found = named(name if name.startswith("openai/") else f"litellm/{name}", config)
        if found is not None:
            yield found


_HEAD = ("MODEL", "MEANS", "PRICE", "CONTEXT", "MISSING")


def _row(model: NameableModel) -> tuple[str, ...]:
    facts = _data(model)
    price, context = facts["price"], facts["context"]
    return (
        model.name,
        model.stands_for or "",
        f"{price['prompt']:g}/{price['answer']:g}" if price else "unknown" if model.model else "",
        f"{context:,}" if context else "",
        ", ".join(missing(model)) or "nothing",
    )


def missing(model: NameableModel) -> list[str]:
    """The lines to type before the model can answer."""
    lines = [f"pip install 'appl[{model.missing_extra}]'"] if model.missing_extra else []
    if model.missing_key:
        lines.append(f"export {model.missing_key[0]}=YOUR_KEY")
    return lines


def _data(model: NameableModel) -> dict[str, Any]:
    row = price_table.row_of(_priced_name(model)) if model.model else None
    price = None
    if row is not None:
        price = {"prompt": row.price.prompt, "answer": row.price.answer}
    if model.backend == "embedded":
        price = {"prompt": 0.0, "answer": 0.0}
    return {
        "name": model.name,
        "backend": model.backend,
        "model": model.model,
        "stands_for": model.stands_for,
        "missing_key": list(model.missing_key),
        "missing_extra": model.missing_extra,
        "type": missing(model),
        "price": price,
        "context": model.context or (row.context if row is not None else None),
    }


def _priced_name(model: NameableModel) -> str:
    return str(model.model) if model.backend == "litellm" else f"{model.backend}/{model.model}"


def _todo(found: list[NameableModel]) -> list[str]:
    ready = [model.name for model in found if not missing(model) and model.model]
    real = [name for name in ready if not name.startswith("embedded")]
    lines = [f"appl: prices are in {price_table.currency()}, of {price_table.date()}"]
    if real:
        lines.append(f"appl: try it: appl ask 'Hello' --model {real[0]}")
    return lines

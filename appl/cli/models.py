"""``appl models``: the models that can be named here, and what each of them lacks.

Invariant: nobody is asked but the server of a backend that is named alone; an unknown price or
context is not 0.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any, Protocol

from appl.backend import offers, price_table
from appl.cli import parameters
from appl.cli.commands import Options, appl_command, argument, switch
from appl.cli.target import UsageError
from appl.cli.terminal import columns, counted, print_found, say
from appl.config import Config, load
from appl.errors import BackendError, ConfigError
from appl.session.backend_setup import EMBEDDED, Choice, backends, make_backend
from appl.session.naming import (
    NameableModel,
    key_source,
    nameable,
    named,
    provider_of_backend,
)

_PATIENCE_S = 10


@appl_command("models", example="appl models\nappl models claude")
@argument("words", nargs=-1, metavar="TEXT", help="a part of a name, also of models with a price")
@switch("--all", help="also every model that the table of prices knows")
@parameters.as_json
def command(options: Options) -> None:
    """Show the models that can be named, and what is missing before they answer.

    A name is written as in --model, `gen(model=…)` or the setting `model`. Prices are for a million
    tokens of prompt and answer; the context is the largest number of tokens that a call may hold.
    With the name of a backend alone, as in `appl models openai`, its server is asked for its list,
    if there is a key or a base_url.
    """
    config = load()
    models = listed(config, options.words, options.all)
    of_server, note = served(config, *options.words) if len(options.words) == 1 else ([], None)
    if of_server and not options.all:
        listed_models = {model.name: model for model in models}
        models = [listed_models.get(model.name, model) for model in of_server]
    if note is not None and not options.json:
        say(f"appl: {note}")
    if options.words and not models:
        raise UsageError(
            f"no model has {' '.join(options.words)!r} in its name; a model of a server is "
            "written BACKEND/MODEL, as in openai/gpt-5-mini"
        )
    rows = columns([_HEAD, *(_row(model) for model in models)])
    print_found(options.json, [_data(model) for model in models], rows)
    if not options.json:
        say(f"appl: prices are in {price_table.currency()}, of {price_table.date()}")
        ready = [model.name for model in models if not missing(model) and model.model]
        for name in [name for name in ready if not name.startswith("embedded")][:1]:
            say(f"appl: try it: appl ask 'Hello' --model {name}")


def listed(config: Config, words: tuple[str, ...], every: bool) -> list[NameableModel]:
    """The names that contain *words*; with words or *every*, also models of the price table."""
    models = nameable(config)
    if words or every:
        names = {model.name for model in models} | {model.stands_for for model in models}
        for name in price_table.names():  # of those that a known provider sells
            is_own = name.startswith(("anthropic/", "openai/"))
            model = named(name if is_own else f"litellm/{name}", config)
            if model is not None and model.name not in names:
                models.append(model)
    texts = [f"{model.name} {model.stands_for or ''}".casefold() for model in models]
    wanted = [word.casefold() for word in words]
    return [m for m, text in zip(models, texts, strict=True) if all(w in text for w in wanted)]


class _ListsModels(Protocol):
    """A backend whose server lists its models."""

    async def list_models(self) -> list[str]:
        """The models that the server lists. Raises ``BackendError``."""


def served(config: Config, backend: str) -> tuple[list[NameableModel], str | None]:
    """The models that the server of *backend* lists, and a line about who was asked.

    Nobody is asked without a key or an address.
    """
    if backend not in backends(config) or backend == EMBEDDED:
        return [], None
    table = config.backends.get(backend, {})
    provider = provider_of_backend(backend, config)
    if provider is not None and key_source(provider, config) is None:
        return [], f"with {provider.variables[0]} set, {backend} is asked for the models it has"
    if provider is None and "base_url" not in table and not os.environ.get("OPENAI_BASE_URL"):
        return [], None
    try:
        instance = make_backend(config, Choice(backend, None, True), 0)
        if not offers(instance, _ListsModels):
            return [], None
        names = asyncio.run(_asked(instance))
    except (BackendError, ConfigError, TimeoutError) as error:
        why = str(error) or f"no answer in {_PATIENCE_S} s"
        return [], f"the server of {backend} could not be asked for its models: {why}"
    models = [NameableModel(f"{backend}/{name}", backend, name, "server") for name in sorted(names)]
    return models, f"{backend} lists {counted(len(models), 'model')}"


async def _asked(backend: Any) -> list[str]:
    try:
        async with asyncio.timeout(_PATIENCE_S):
            names: list[str] = await backend.list_models()
            return names
    finally:
        await backend.aclose()


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
    head = "" if model.backend == "litellm" else f"{model.backend}/"
    row = price_table.row_of(f"{head}{model.model}") if model.model else None
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

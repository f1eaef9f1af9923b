"""Names for models: the model that ``gen("small")`` stands for, with its default options.

Invariant: following a name always ends; a circle of names is an error that shows the circle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from appl.config.readers import shown
from appl.errors import ConfigError, nearest

RULES = ("order", "cost", "latency", "deadline")
"""The order in which the models of a list are asked: as listed, by cost, by latency, or first the
cheapest with which the run ends in time.
"""


_MOST_S = 1e9  # seconds, about 30 years


@dataclass(frozen=True, slots=True)
class Alias:
    """A model, ``backend/model`` or another name (``None``: the default model), with options.

    ``others`` are alternatives, asked when the model fails or in the order of ``prefer``;
    ``within`` are the seconds that a run has, for ``"deadline"``.
    """

    model: str | None = None
    options: Mapping[str, object] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    prefer: str = "order"
    within: float | None = None

    def __str__(self) -> str:
        words = [self.model or "the default model"]
        if self.others:
            words = [", else ".join((*words, *self.others))]
            words += [f"prefer={self.prefer!r}"] if self.prefer != "order" else []
            words += [f"within={self.within:g}"] if self.within is not None else []
        words += [f"{name}={value!r}" for name, value in self.options.items()]
        return " ".join(words)


def alias_from(key: str, raw: object) -> Alias:
    """The alias of an entry of ``[models]``. Raises ``ConfigError`` that begins with *key*."""
    if isinstance(raw, Alias):
        return raw
    if isinstance(raw, str) and raw.strip():
        return Alias(raw)
    if isinstance(raw, list | tuple):
        raw = {"model": raw}
    if not isinstance(raw, Mapping):
        name = key.rpartition(".")[2]
        raise ConfigError(
            f'{key} must name a model, as in {name} = "backend/model" or '
            f'{name} = {{model = "backend/model", temperature = 0.2}}, got {shown(raw)}'
        )
    own = ("model", "prefer", "within")
    options = {  # they are compared and hashed
        str(name): tuple(value) if isinstance(value, list) else value
        for name, value in raw.items()
        if name not in own
    }
    model = raw.get("model")
    if isinstance(model, list | tuple):
        return _list(key, list(model), options, raw.get("prefer", "order"), raw.get("within"))
    for name in ("prefer", "within"):
        if name in raw:
            raise ConfigError(f'{key}: {name} is for lists, as in model = ["a/small", "b/small"]')
    if model is not None and (not isinstance(model, str) or not model.strip()):
        raise ConfigError(f"{key}: model must be a text that is not empty, got {shown(model)}")
    return Alias(model, options)


def _list(
    key: str, models: list[Any], options: dict[str, object], prefer: object, within: object
) -> Alias:
    if not models or not all(isinstance(model, str) and model.strip() for model in models):
        raise ConfigError(
            f"{key} must list models, each a text that is not empty, got {shown(models)}"
        )
    if not isinstance(prefer, str) or prefer not in RULES:
        raise ConfigError(
            f"{key}: prefer must be one of {', '.join(RULES)}, got {shown(prefer)}"
            f"{nearest(str(prefer), RULES)}"
        )
    seconds = None
    if isinstance(within, int | float) and not isinstance(within, bool) and 0 < within < _MOST_S:
        seconds = within
    if prefer != "deadline" and within is not None:
        raise ConfigError(f'{key}: within is for prefer = "deadline"')
    if prefer == "deadline" and seconds is None:
        raise ConfigError(
            f'{key}: prefer = "deadline" needs the seconds that a run may take, as in within = 60, '
            f"got {'none' if within is None else shown(within)}"
        )
    return Alias(models[0], options, tuple(models[1:]), prefer, seconds)


def followed(name: str, models: Mapping[str, Alias]) -> Alias:
    """The model that *name* stands for, following names; the options of the first names win."""
    model: str | None = name
    options: dict[str, Any] = {}
    others: tuple[str, ...] = ()
    prefer, within = "order", None
    chain: list[str] = []
    while model is not None and model in models:
        if model in chain:
            circle = " → ".join([*chain[chain.index(model) :], model])
            raise ConfigError(
                f"[models]: the names go round in a circle: {circle}; let one of them stand for "
                "a model"
            )
        chain.append(model)
        alias = models[model]
        options = {**alias.options, **options}
        if alias.others and others:
            raise ConfigError(
                f"[models]: the list of {chain[0]!r} holds the list {model!r}; write the models of "
                "both into one"
            )
        if alias.others:
            others, prefer, within = alias.others, alias.prefer, alias.within
        if alias.model == model:  # a model whose own name is given default options
            break
        model = alias.model
    return Alias(model, options, others, prefer, within)

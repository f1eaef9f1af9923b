"""Names for models: what ``gen("small")`` stands for, with its default options.

Invariant: following a name always ends; a circle of names is an error that shows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from appl.errors import ConfigError

USUAL = ("small", "large")
"""Names that every program may use; until somebody says otherwise they are the default model."""


@dataclass(frozen=True, slots=True)
class Alias:
    """A model, ``backend/model`` or another name (``None``: the default model), and options."""

    model: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        words = [self.model or "the default model"]
        words += [f"{name}={value!r}" for name, value in self.options.items()]
        return " ".join(words)


def alias_from(key: str, raw: object) -> Alias:
    """What the user wrote below ``[models]``. Raises ``ConfigError`` that begins with *key*."""
    if isinstance(raw, Alias):
        return raw
    if isinstance(raw, str) and raw.strip():
        return Alias(raw)
    if not isinstance(raw, Mapping):
        name = key.rpartition(".")[2]
        raise ConfigError(
            f'{key} must name a model, as in {name} = "backend/model" or '
            f'{name} = {{model = "backend/model", temperature = 0.2}}, got {raw!r}'
        )
    options = {str(name): _plain(value) for name, value in raw.items() if name != "model"}
    model = raw.get("model")
    if model is not None and (not isinstance(model, str) or not model.strip()):
        raise ConfigError(f"{key}: model must be a text that is not empty, got {model!r}")
    return Alias(model, options)


def _plain(value: object) -> object:
    """Lists become tuples: options are compared and hashed."""
    return tuple(value) if isinstance(value, list) else value


def followed(name: str, models: Mapping[str, Alias]) -> Alias:
    """*name* with the names that it stands for followed; options given nearer to it win."""
    model: str | None = name
    options: dict[str, Any] = {}
    seen: list[str] = []
    while model is not None and model in models:
        if model in seen:
            circle = " → ".join([*seen[seen.index(model) :], model])
            raise ConfigError(
                f"[models]: the names go round in a circle: {circle}; let one of them stand for "
                "a model"
            )
        seen.append(model)
        alias = models[model]
        options = {**alias.options, **options}
        if alias.model == model:  # a model whose own name is given default options
            break
        model = alias.model
    return Alias(model, options)

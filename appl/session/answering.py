"""Who answers: the backend and the model that the settings choose.

Invariant: what cannot answer is refused here, before any call, with the nearest that could.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from appl.backend import Backend, Profile, installed, load
from appl.config import Config, followed
from appl.errors import BackendNotFound, ConfigError, ModelNotFound, nearest
from appl.runtime.models import Model, Models

EMBEDDED = "embedded"
_UNINSTALLED = {EMBEDDED: "appl_backends.embedded:Embedded"}  # when run from a bare checkout


@dataclass(frozen=True, slots=True)
class Choice:
    """Which backend and model answer, and whether somebody asked for them."""

    backend: str
    model: str | None
    asked: bool
    options: Mapping[str, Any] = field(default_factory=dict)


def choose(config: Config) -> Choice:
    """The backend and model of *config*; ``backend/model`` as a model names both."""
    asked = config.backend is not None or config.model is not None
    chosen = _stands_for(config.model, config) if config.model is not None else Model()
    backend, model = config.backend or chosen.backend, chosen.name
    if chosen.backend not in (None, backend):  # the other backend may have a model of that name
        model = f"{chosen.backend}/{chosen.name}" if chosen.name else chosen.backend
    return Choice(backend or EMBEDDED, model, asked, chosen.options)


def models_of(config: Config, choice: Choice, profile: Profile) -> Models:
    """The names for models that calls may use in a run with *choice*."""
    names = {name: _stands_for(name, config) for name in config.models}
    default = Model(None, choice.model, choice.options)
    return Models(profile, default, names, choice.backend)


def _stands_for(name: str, config: Config) -> Model:
    alias = followed(name, config.models)
    head, slash, rest = (alias.model or "").partition("/")
    if slash and head in _names():
        return Model(head, rest or None, alias.options)
    return Model(None, alias.model, alias.options)


def _names() -> set[str]:
    return {*installed(), *_UNINSTALLED}


def make_backend(config: Config, choice: Choice, seed: int) -> Backend:
    """The backend of *choice* with its settings. Raises ``BackendError`` or ``ConfigError``."""
    arguments = config.settings_of(choice.backend)
    if choice.backend == EMBEDDED:
        arguments.setdefault("seed", seed)
    name = choice.backend
    if name not in installed():
        name = _UNINSTALLED.get(name, name)
    if ":" not in name and name not in _names():
        raise BackendNotFound(
            f"there is no backend {name!r}{nearest(name, _names())} (installed: "
            f"{', '.join(sorted(_names()))}; or write module:attribute)"
        )
    try:
        backend = load(name, arguments)
    except TypeError as error:
        if not arguments:
            raise
        raise ConfigError(f"[backends.{choice.backend}]: {error}") from error
    _check_model(backend.profile, choice, config.models)
    return backend


def _check_model(profile: Profile, choice: Choice, names: Iterable[str]) -> None:
    model = choice.model
    if model is None or not profile.models or model in profile.models:
        return
    others = sorted(_names() - {choice.backend})
    more = f"; other backends are chosen with --backend: {', '.join(others)}" if others else ""
    raise ModelNotFound(
        f"the backend {choice.backend!r} has no model {model!r}"
        f"{nearest(model, [*profile.models, *names, *_names()])} "
        f"(its models: {', '.join(profile.models)}{more})"
    )

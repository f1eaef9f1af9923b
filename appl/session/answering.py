"""Who answers: the backend and the model that the settings choose.

Invariant: what cannot answer is refused here, before any call, with the nearest that could.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from appl.backend import Backend, Profile, installed, load
from appl.config import Config, Secret, followed
from appl.errors import BackendNotFound, ConfigError, InvalidOption, ModelNotFound, nearest
from appl.runtime.models import Model, Models
from appl.runtime.options import check_defaults
from appl.session.taken import (
    EMBEDDED,
    TYPE,
    UNINSTALLED,
    check_names,
    check_settings,
    takes_name,
)


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
    """The names for models that calls may use in a run with *choice*. Raises ``ConfigError``."""
    names = {name: _stands_for(name, config) for name in config.models}
    default = Model(None, choice.model, choice.options)
    models = Models(profile, default, names, choice.backend)
    for name, model in names.items():
        try:
            check_defaults(model.options)
        except InvalidOption as error:
            raise ConfigError(f"models.{name}: {error}") from None
    return models


def _stands_for(name: str, config: Config) -> Model:
    alias = followed(name, config.models)
    head, slash, rest = (alias.model or "").partition("/")
    if slash and head in _names(config):
        return Model(head, rest or None, alias.options)
    return Model(None, alias.model, alias.options)


def _names(config: Config | None = None) -> set[str]:
    """The backends that are installed, and those that *config* makes of them by ``type``."""
    made = (name for name, table in config.backends.items() if TYPE in table) if config else ()
    return {*installed(), *UNINSTALLED, *made}


def make_backend(config: Config, choice: Choice, seed: int) -> Backend:
    """The backend of *choice* with its settings. Raises ``BackendError`` or ``ConfigError``."""
    check_names(config.backends)
    check_settings(choice.backend, config.backends.get(choice.backend, {}))
    arguments = config.settings_of(choice.backend)
    name = arguments.pop(TYPE, choice.backend)
    if name == EMBEDDED:
        arguments.setdefault("seed", seed)
    if name != choice.backend and takes_name(name):
        arguments.setdefault("name", choice.backend)
    if name not in installed():
        name = UNINSTALLED.get(name, name)
    if ":" not in name and name not in _names():
        raise BackendNotFound(
            f"there is no backend {name!r}{nearest(name, _names(config))} (installed: "
            f"{', '.join(sorted(_names(config)))}; or write module:attribute)"
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


def check(config: Config) -> list[str]:
    """Refuse what the first call of a run with *config* would be refused for.

    The names of ``[models]`` are followed to models, all ``[backends.…]`` compared with what those
    backends take, and the one that answers is made. Returns what could not be checked, in words.
    Raises ``ConfigError`` or ``BackendError``.
    """
    for name, table in config.backends.items():
        check_settings(name, table)
    for name in config.models:
        _stands_for(name, config)
    choice = choose(config)
    if not (config.models or config.backends or choice.asked):
        return []
    missing = _missing_secret(config.backends.get(choice.backend, {}))
    if missing is not None:
        return [f"{missing}, so the backend {choice.backend!r} is not checked"]
    try:
        backend = make_backend(config, choice, 0)
    except BackendNotFound as error:
        if ":" not in choice.backend:
            raise
        return [f"{error}, so it is not checked"]  # a module beside the program, perhaps
    models = models_of(config, choice, backend.profile)
    for name in config.models:
        if models.answers(name):
            models.resolve(name)
    asyncio.run(backend.aclose())
    return []


def _missing_secret(table: Mapping[str, Any]) -> str | None:
    try:
        for value in table.values():
            if isinstance(value, Secret):
                value.reveal()
    except ConfigError as error:
        return str(error)
    return None

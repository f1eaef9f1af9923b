"""Who answers: the backend and the model that the settings choose.

Invariant: what cannot answer is refused here, before any call, with the nearest that could.
"""

from __future__ import annotations

from dataclasses import dataclass

from appl.backend import Backend, Profile, installed, load
from appl.config import Config
from appl.errors import BackendNotFound, ConfigError, ModelNotFound, nearest

EMBEDDED = "embedded"
_UNINSTALLED = {EMBEDDED: "appl_backends.embedded:Embedded"}  # when run from a bare checkout


@dataclass(frozen=True, slots=True)
class Choice:
    """Which backend and model answer, and whether somebody asked for them."""

    backend: str
    model: str | None
    asked: bool


def choose(config: Config) -> Choice:
    """The backend and model of *config*; ``backend/model`` as a model names both."""
    backend, model = config.backend, config.model
    asked = backend is not None or model is not None
    if backend is None and model is not None:
        head, _, rest = model.partition("/")
        if head in _names():
            backend, model = head, rest or None
    return Choice(backend or EMBEDDED, model, asked)


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
    _check_model(backend.profile, choice)
    return backend


def _check_model(profile: Profile, choice: Choice) -> None:
    model = choice.model
    if model is None or not profile.models or model in profile.models:
        return
    others = sorted(_names() - {choice.backend})
    more = f"; other backends are chosen with --backend: {', '.join(others)}" if others else ""
    raise ModelNotFound(
        f"the backend {choice.backend!r} has no model {model!r}"
        f"{nearest(model, [*profile.models, *_names()])} "
        f"(its models: {', '.join(profile.models)}{more})"
    )

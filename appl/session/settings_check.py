"""The check of settings before anything runs with them, as ``appl config`` does it.

Invariant: nothing is asked over a network.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from appl.backend import Backend
from appl.config import Config, SecretSetting
from appl.errors import BackendNotFound, ConfigError
from appl.session.backend_settings import check_settings
from appl.session.backend_setup import (
    choose,
    make_backend,
    make_others,
    models_of,
    others_of,
    profiles_of,
)


def check(config: Config) -> list[str]:
    """Refuse a *config* whose first call would be refused.

    The names of ``[models]`` are followed to models, all tables ``[backends.…]`` are compared with
    the settings that those backends take, and the answering backend is made. Returns sentences
    about what could not be checked. Raises ``ConfigError`` or ``BackendError``.
    """
    for name, table in config.backends.items():
        check_settings(name, table)
    choice = choose(config)
    others_of(config, choice)
    if not (config.models or config.backends or choice.is_chosen):
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
    made = make_others(config, choice, 0)
    models = models_of(config, choice, backend.profile, profiles_of(made))
    for name in config.models:
        if models.answers(name):
            models.resolve(name)
    asyncio.run(_close([backend, *made.values()]))
    return [
        f"{error}, so the backend {name!r} is not checked"
        for name, error in made.items()
        if isinstance(error, Exception)
    ]


async def _close(backends: Iterable[Backend | Exception]) -> None:
    for backend in backends:
        if not isinstance(backend, Exception):
            await backend.aclose()


def _missing_secret(table: Mapping[str, object]) -> str | None:
    try:
        for value in table.values():
            if isinstance(value, SecretSetting):
                value.reveal()
    except ConfigError as error:
        return str(error)
    return None

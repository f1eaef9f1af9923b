"""The choice and construction of the backend and model that the settings name.

Invariant: a model or backend that cannot answer is refused here, before any call, with the nearest
one that could.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from functools import wraps
from typing import ParamSpec, TypeVar

from appl.backend import Backend, Profile, installed, load
from appl.config import KEYS, Config
from appl.errors import (
    BackendError,
    BackendNotFound,
    ConfigError,
    InvalidOption,
    ModelNotFound,
    nearest,
)
from appl.runtime.answers.gen_options import OPTION_NAMES
from appl.runtime.answers.models import SAMPLING, Find, Model, Models
from appl.runtime.answers.option_check import check_defaults
from appl.runtime.concurrency.loop_thread import io_thread

EMBEDDED = "embedded"
UNINSTALLED = {EMBEDDED: "appl_backends.embedded:Embedded"}  # when run from a bare checkout

TYPE = "type"
"""The setting that makes a table another instance of a backend, under the table's name."""

_MOST_S = 5.0  # to wait for the end of a backend
P = ParamSpec("P")
R = TypeVar("R")
_MOST = 16


def memoized(make: Callable[P, R]) -> Callable[P, R]:
    """*make*, a function of unchanging values, called only for inputs that did not come lately.

    Inputs are the same if they are the same objects, or equal strings.
    """
    results: dict[tuple[object, ...], tuple[object, R]] = {}

    @wraps(make)
    def result(*args: P.args, **kwargs: P.kwargs) -> R:
        inputs = (*args, *kwargs.values())
        key = tuple([value if type(value) is str else id(value) for value in inputs])
        entry = results.get(key)
        if entry is None:
            if len(results) >= _MOST:
                results.clear()
            # The inputs are kept, too: the number of an object that is gone may be another's.
            entry = results[key] = inputs, make(*args, **kwargs)
        return entry[1]

    return result


Installed = Mapping[str, object]
"""The installed backends: the same object until a package is installed or removed."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A backend and a model; ``is_chosen`` if the user has chosen one of them."""

    backend: str
    model: str | None
    is_chosen: bool
    options: Mapping[str, object] = field(default_factory=dict)
    placed: Model | None = None
    """The default model if it is not one of that backend alone."""
    note: str | None = None
    """A line for the user about the meaning of the default model's name."""


def choose(config: Config, backends_now: Installed | None = None) -> Choice:
    """The backend and model of *config*, by the rule of ``appl.session.naming``.

    *backends_now* are the installed backends, where the caller has asked for them.
    """
    return _chosen(config, installed() if backends_now is None else backends_now)


@memoized
def _chosen(config: Config, installed_backends: Installed) -> Choice:
    """The choice of *config* while *installed_backends* are installed."""
    if config.model is None:
        return Choice(config.backend or EMBEDDED, None, config.backend is not None)
    from appl.session import naming  # few programs name a model outside of their calls

    chosen = naming.stands_for(config.model, config)
    backend, model = config.backend or chosen.backend or EMBEDDED, chosen.name
    away = chosen.backend not in (None, backend)
    may_be_elsewhere = not away and model is not None and "/" in model
    if model and may_be_elsewhere and not naming.belongs_to(model, backend, config):
        from appl.runtime.answers.model_slips import check_backend  # few models are elsewhere

        check_backend(model, backends(config), backend)
    if chosen.others or (away and config.model in config.models):
        model = None if away else model
        return Choice(backend, model, True, chosen.options, chosen)
    if away:  # the other backend may have a model of that name
        model = f"{chosen.backend}/{chosen.name}" if chosen.name else chosen.backend
    note = naming.note_of_default(backend, config)
    return Choice(backend, model, True, chosen.options, note=note)


def others_of(config: Config, choice: Choice) -> set[str]:
    """The backends, besides that of *choice*, that the configured names lead to."""
    models = [*_configured(config).values()]
    models += [choice.placed] if choice.placed is not None else []
    named = {one_model.backend for model in models for one_model in (model, *model.others)}
    return {backend for backend in named if backend is not None and backend != choice.backend}


def _configured(config: Config) -> dict[str, Model]:
    """The models that the names of ``[models]`` mean."""
    if not config.models:
        return {}
    from appl.session.naming import stands_for

    return {name: stands_for(name, config) for name in config.models}


def models_of(
    config: Config,
    choice: Choice,
    profile: Profile,
    others: Mapping[str, Profile | Exception] | None = None,
    *,
    find: Find | None = None,
    reserved: Iterable[str] = (),
) -> Models:
    """The names for models that calls may use in a run with *choice*. Raises ``ConfigError``.

    *others* are the profiles of further backends by name, or the errors that prevent them.
    """
    names = _configured(config)
    default = choice.placed or Model(None, choice.model, choice.options)
    models = Models(profile, default, names, choice.backend, others, find=find, reserved=reserved)
    for name, model in names.items():
        try:
            check_defaults(model.options)
        except InvalidOption as error:
            raise ConfigError(f"models.{name}: {error}") from None
    return models


def check_sampling(config: Config) -> None:
    """Refuse impossible defaults of ``gen``'s options. Raises ``ConfigError``.

    Names that the backend asked does not know are refused by the call.
    """
    for name in config.backend_options or {}:
        if name in OPTION_NAMES - set(SAMPLING) or name in KEYS:
            where = f"{name} = …" if name in KEYS else f"gen({name}=…)"
            raise ConfigError(f"backend_options: {name!r} is no option of a backend; write {where}")
    try:
        check_defaults(config.sampling)
    except InvalidOption as error:
        raise ConfigError(f"settings: {error}") from None


def make_backend(
    config: Config, choice: Choice, seed: int, installed_backends: Installed | None = None
) -> Backend:
    """The backend of *choice* with its settings. Raises ``BackendError`` or ``ConfigError``."""
    if (reason := config.unapproved.get(choice.backend)) is not None:
        raise ConfigError(reason)
    installed_backends = installed() if installed_backends is None else installed_backends
    name, takes_own_name = _factory_name(config, choice.backend, installed_backends)
    arguments = config.settings_of(choice.backend)
    if arguments.pop(TYPE, choice.backend) == EMBEDDED:
        arguments.setdefault("seed", seed)
    if takes_own_name:
        arguments.setdefault("name", choice.backend)
    try:
        backend = load(name, arguments)
    except (TypeError, InvalidOption) as error:
        if not config.settings_of(choice.backend):
            from appl.session.backend_settings import check_settings  # nothing is missing as a rule

            check_settings(choice.backend, {})
            raise
        raise ConfigError(f"[backends.{choice.backend}]: {error}") from error
    model, models = choice.model, backend.profile.models
    if model is None or not models or model in models:
        return backend
    from appl.runtime.answers.model_slips import similar, written_elsewhere

    alone = model in backends()  # its own name is no hint
    hint = "" if alone else similar(model, [*models, *backends()], config.models)
    raise ModelNotFound(
        f"the backend {choice.backend!r} has no model {model!r}"
        f"{hint or written_elsewhere(model, backends())} (its models: {', '.join(models)})"
    )


@memoized
def _factory_name(config: Config, backend: str, installed_backends: Installed) -> tuple[str, bool]:
    """The factory of *backend*, and True if it takes the backend's name; checks its settings.

    *installed_backends* are the installed backends. Raises ``BackendNotFound`` or ``ConfigError``.
    """
    name, takes_own_name = backend, False
    if config.backends:
        from appl.session import backend_settings  # few programs have a table of a backend

        name, takes_own_name = backend_settings.checked(config.backends, backend)
    if name not in installed_backends:
        name = UNINSTALLED.get(name, name)
    if ":" not in name and name not in backends():
        raise BackendNotFound(
            f"there is no backend {name!r}{nearest(name, backends(config))} (installed: "
            f"{', '.join(sorted(backends(config)))}; or write module:attribute)"
        )
    return name, takes_own_name


def make_others(config: Config, choice: Choice, seed: int) -> dict[str, Backend | Exception]:
    """The backends of :func:`others_of`; an error in place of one is raised at its first use."""
    backends: dict[str, Backend | Exception] = {}
    for name in sorted(others_of(config, choice)):
        try:
            backends[name] = make_backend(config, Choice(name, None, True), seed)
        except (ConfigError, BackendError) as error:
            backends[name] = error
    return backends


def profiles_of(backends: Mapping[str, Backend | Exception]) -> dict[str, Profile | Exception]:
    """The profiles of backends that :func:`make_others` made."""
    return {
        name: backend if isinstance(backend, Exception) else backend.profile
        for name, backend in backends.items()
    }


def backends(config: Config | None = None) -> set[str]:
    """The backends that a name may begin with: installed ones, and those that *config* makes."""
    configured = (
        (name for name, table in config.backends.items() if TYPE in table) if config else ()
    )
    return {*installed(), *UNINSTALLED, *configured}


def close_backend(backend: Backend) -> None:
    """Close *backend* and wait for it; from any thread but that of the I/O loop."""
    io = io_thread()
    if io.on_loop():
        return
    closed, tasks = Future[None](), list[asyncio.Task[None]]()

    async def close() -> None:
        try:
            await backend.aclose()
        except BaseException as error:  # whoever waits gets it
            closed.set_exception(error)
        else:
            closed.set_result(None)

    io.send(lambda: tasks.append(io.loop.create_task(close())))
    if wait([closed], _MOST_S).done:
        closed.result()

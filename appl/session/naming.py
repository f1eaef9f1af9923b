"""Names for models: one rule says which model of which backend a name means.

``gen("…")``, ``@ppl(model="…")``, ``appl.init(model="…")``, ``--model``, ``APPL_MODEL`` and
``model`` in a settings file mean the same. The first rule that fits decides:

1. A name of ``[models]`` means the model configured there. ``small`` and ``large``, unless
   configured, mean the default model.
2. ``BACKEND/MODEL`` is that model of that backend, which is made at its first use. BACKEND is an
   installed one or a table ``[backends.BACKEND]``; everything after the first slash is the model.
3. A name that the run's own backend lists is its model, and so is one in ``models`` or ``model`` of
   a table ``[backends.NAME]``.
4. A name that matches the table ``PROVIDERS`` below, bare or as ``PROVIDER/MODEL``, is asked of
   that provider with the key in the environment. The run says so once. If the user chose the run's
   own backend and it takes any name, the name is its own, unless it is another provider's server.
5. Every other name is a model of the run's own backend, which may refuse it.

Invariant: nothing here makes a backend, imports its library, or shows a key.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from appl.backend import Backend
from appl.base import fallback
from appl.base.extras import EXTRAS, absent, advice
from appl.config import Config, SecretSetting, followed
from appl.errors import (
    BackendNotFound,
    ConfigError,
    MissingBackendExtra,
    ModelNotFound,
    nearest,
)
from appl.runtime.answers.models import Model
from appl.session.backend_settings import check_settings
from appl.session.backend_setup import (
    EMBEDDED,
    TYPE,
    backends,
    choose,
    make_backend,
    make_others,
    models_of,
    others_of,
    profiles_of,
)


@dataclass(frozen=True, slots=True)
class Provider:
    """A company whose models people call by their bare names, and the way to ask it.

    *names* matches the names of its models, *variables* are the environment variables that may hold
    its key. The backend *backend* asks it, with *prefix* before the model's name. *example* is one
    of its models.
    """

    title: str
    names: str
    variables: tuple[str, ...]
    backend: str
    prefix: str
    example: str

    def bare(self, name: str) -> str | None:
        """The provider's model that *name* means, without the prefix; otherwise ``None``."""
        if self.prefix and name.startswith(self.prefix):
            return name.removeprefix(self.prefix) or None
        return name if re.match(self.names, name) else None


PROVIDERS = (  # as of November 2026; the prefixes are LiteLLM's
    Provider(
        "OpenAI", r"(ft:)?(gpt-\d|chatgpt-|o\d(-|$))",
        ("OPENAI_API_KEY",), "openai", "", "gpt-5-mini",
    ),
    Provider(
        "Anthropic", r"claude-", ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"), "anthropic", "",
        "claude-sonnet-4-5",
    ),
    Provider(
        "Google", r"gemini-", ("GEMINI_API_KEY", "GOOGLE_API_KEY"), "litellm", "gemini/",
        "gemini-2.5-flash",
    ),
    Provider(
        "Mistral", r"(open-)?(mistral|ministral|magistral|codestral|pixtral)-",
        ("MISTRAL_API_KEY",), "litellm", "mistral/", "mistral-small-latest",
    ),
    Provider(
        "DeepSeek", r"deepseek-(chat|reasoner)$", ("DEEPSEEK_API_KEY",), "litellm", "deepseek/",
        "deepseek-chat",
    ),
    Provider("xAI", r"grok-", ("XAI_API_KEY",), "litellm", "xai/", "grok-4"),
)  # fmt: skip
"""The providers whose models may be named without a backend; a new one needs one row."""

_OWN_KEY = ("api_key", "base_url", "azure_endpoint", "azure_ad_token")
"""Settings that say how a backend is reached; with one, no key of the environment is needed."""


@dataclass(frozen=True, slots=True)
class Location:
    """A model of a backend; ``None`` is its default model. *provider* is set by rule 4 only."""

    backend: str
    model: str | None
    provider: Provider | None = None


def locate(name: str, config: Config) -> Location | None:
    """The location of the model *name* by rules 2 to 4, without the run's own backend."""
    head, slash, rest = name.partition("/")
    if slash and head in backends(config):
        return Location(head, rest or None)
    listing = next((at for at, table in config.backends.items() if _lists(table, name)), None)
    if listing is not None:
        return Location(listing, name)
    for provider in PROVIDERS:
        if (bare := provider.bare(name)) is not None:
            return Location(provider.backend, provider.prefix + bare, provider)
    return None


def _lists(table: Any, name: str) -> bool:
    models = table.get("models")
    return name == table.get("model") or (isinstance(models, list | tuple) and name in models)


def provider_of_backend(backend: str, config: Config) -> Provider | None:
    """The only provider that *backend* asks; ``None`` for a gateway or another server."""
    table = config.backends.get(backend, {})
    kind = str(table.get(TYPE, backend))
    elsewhere = "base_url" in table or "azure_endpoint" in table
    if elsewhere or os.environ.get(f"{kind.upper()}_BASE_URL"):
        return None
    return next(
        (provider for provider in PROVIDERS if not provider.prefix and provider.backend == kind),
        None,
    )


def check_reachable(name: str, location: Location, config: Config, has_key: bool = False) -> str:
    """Refuse a provider's bare *name* without its library or key. Returns a line for the user.

    With *has_key* the call has a key of its own.

    Raises ``MissingBackendExtra``, or ``ModelNotFound`` with the variable to set.
    """
    provider = location.provider
    assert provider is not None
    full = f"{location.backend}/{location.model}"
    use = f"{name!r} is a model of {provider.title}, asked as {full!r}: the backend"
    key = "gen(api_key=...)" if has_key else key_source(provider, config)
    if key is None:
        missing = absent(provider.backend)
        installs = f"pip install 'appl[{provider.backend}]'\n    " if missing else ""
        raise ModelNotFound(
            f"{name!r} is a model of {provider.title}, and there is no key for it; type\n    "
            f"{installs}export {provider.variables[0]}=YOUR_KEY\n    "
            f"then the same again ({name!r} is short for {full!r}"
            + ("" if missing else f"; 'appl[{provider.backend}]' is installed")
            + ")"
        )
    if location.backend in EXTRAS and absent(location.backend):
        text = advice(location.backend, f"{use} {location.backend!r}")
        raise MissingBackendExtra(text, extra=location.backend)
    return f"{name!r} is a model of {provider.title}, asked as {full!r} with the key in {key}"


def key_source(provider: Provider, config: Config) -> str | None:
    """The source of *provider*'s key: a variable's name or a table; ``None`` without one."""
    if any(key in config.backends.get(provider.backend, {}) for key in _OWN_KEY):
        return f"[backends.{provider.backend}]"
    return next((name for name in provider.variables if os.environ.get(name)), None)


# -- what the settings name


def stands_for(name: str, config: Config) -> Model:
    """The model that *name* means, with those that answer in its place. Raises ``ConfigError``."""
    alias = followed(name, config.models)
    first = _model(alias.model, config)
    others = []
    for written in alias.others:
        other = followed(written, config.models)
        if other.others:
            raise ConfigError(
                f"[models]: the list of {name!r} holds the list {written!r}; write the models of "
                "both into one"
            )
        _check_head(name, other.model or "", config)
        others.append(_model(other.model, config))
    if others and alias.model is not None:
        _check_head(name, alias.model, config)
    return Model(first.backend, first.name, alias.options, (*others,), alias.prefer, alias.within)


def _model(written: str | None, config: Config) -> Model:
    location = locate(written, config) if written else None
    if location is None or (location.provider is not None and config.backend is not None):
        return Model(None, written)
    return Model(location.backend, location.model)


def _check_head(name: str, written: str, config: Config) -> None:
    """Refuse a backend in a list whose name is close to that of an existing one."""
    head, slash, _ = written.partition("/")
    heads = backends(config)
    if slash and head not in heads and (hint := nearest(head, heads, 0.75)):
        raise ConfigError(f"models.{name}: {written!r}: there is no backend {head!r}{hint}")


def belongs_to(model: str, backend: str, config: Config) -> bool:
    """True if *model* is meant to be one of *backend*: it is written so, or listed there."""
    written = followed(config.model or "", config.models).model or ""
    listed = config.backends.get(backend, {}).get("models")
    return written == f"{backend}/{model}" or (isinstance(listed, list | tuple) and model in listed)


def note_of_default(backend: str, config: Config) -> str | None:
    """The line about a default model that belongs to a known provider, which must be reachable."""
    if config.model is None or config.backend is not None:
        return None
    name = followed(config.model, config.models).model or ""
    location = locate(name, config)
    if location is None or location.provider is None or location.backend != backend:
        return None
    try:
        return check_reachable(name, location, config)
    except ModelNotFound as error:
        if config.origin("model") != (layouts := fallback.layouts()).MODEL[1]:
            raise
        raise ModelNotFound(
            f"no default server is named, so {layouts.MODEL[1]} is asked: {error}"
        ) from None


# -- what can be named


@dataclass(frozen=True, slots=True)
class NameableModel:
    """A name that can be written for a model, and the reasons why it cannot answer yet.

    *name* ends with ``/…`` if any model of the backend may follow. *stands_for* is the full name
    that a shorter one means. *origin* is ``models`` (a name of ``[models]``), ``settings`` (a table
    of a backend), ``backend`` (installed) or ``provider`` (a row of ``PROVIDERS``). *missing_key*
    holds the variables of which one has to be set, *missing_extra* is the extra to install.
    *context* is the largest number of tokens of prompt and answer together, if known.
    """

    name: str
    backend: str
    model: str | None
    origin: str
    stands_for: str | None = None
    missing_key: tuple[str, ...] = ()
    missing_extra: str | None = None
    context: int | None = None


def nameable(config: Config) -> list[NameableModel]:
    """The values that ``gen(model=…)`` and ``--model`` accept: names, then models by backend."""
    return [*_aliases(config), *_of_backends(config), *_of_providers(config)]


def named(name: str, config: Config) -> NameableModel | None:
    """The model that ``BACKEND/MODEL`` or a provider's *name* means, if its provider is known."""
    place = locate(name, config)
    if (
        place is None
        or (place.provider or _provider_of_name(place.backend, place.model, config)) is None
    ):
        return None
    missing = _missing(place.backend, place, config)
    return NameableModel(name, place.backend, place.model, "provider", None, *missing)


def _aliases(config: Config) -> Iterator[NameableModel]:
    for name, alias in sorted(config.models.items()):
        target = alias.model
        place = locate(target, config) if target else None
        backend, model = (place.backend, place.model) if place else (config.backend or "", target)
        missing = _missing(backend, place, config)
        yield NameableModel(name, backend, model, "models", str(alias), *missing)


def _of_backends(config: Config) -> Iterator[NameableModel]:
    for backend in sorted(backends(config)):
        table = config.backends.get(backend, {})
        listed = table.get("models")
        written = [table.get("model"), *(listed if isinstance(listed, list | tuple) else ())]
        models = [model if isinstance(model, str) else None for model in written]
        models = ["embedded"] if backend == EMBEDDED else models
        origin = "settings" if table else "backend"
        place = Location(backend, None)
        for model in [*dict.fromkeys(filter(None, models)), *([None] if len(models) < 2 else [])]:
            if backend == EMBEDDED and model is None:
                continue
            yield NameableModel(
                f"{backend}/{model or '…'}",
                backend,
                model,
                origin,
                None,
                *_missing(backend, place, config),
            )


def _of_providers(config: Config) -> Iterator[NameableModel]:
    for provider in PROVIDERS:
        model = provider.prefix + provider.example
        yield NameableModel(
            provider.example,
            provider.backend,
            model,
            "provider",
            f"{provider.backend}/{model}",
            *_missing(provider.backend, Location(provider.backend, model, provider), config),
        )


def _missing(
    backend: str, place: Location | None, config: Config
) -> tuple[tuple[str, ...], str | None]:
    """The variables of which one has to be set, and the extra that has to be installed."""
    kind = str(config.backends.get(backend, {}).get(TYPE, backend))
    extra = kind if kind in EXTRAS and absent(kind) else None
    unset = tuple(
        value.env
        for value in config.backends.get(backend, {}).values()
        if isinstance(value, SecretSetting) and value.unset
    )
    if unset:
        return unset, extra
    provider = place.provider if place is not None else None
    if provider is None and place is not None:
        provider = _provider_of_name(backend, place.model, config)
    if provider is not None and key_source(provider, config) is None:
        return provider.variables, extra
    return (), extra


def _provider_of_name(backend: str, model: str | None, config: Config) -> Provider | None:
    """The provider that ``BACKEND/MODEL`` asks, as far as the name tells."""
    if backend == "litellm":
        name = model or ""
        return next((p for p in PROVIDERS if name.startswith(p.prefix or f"{p.backend}/")), None)
    return provider_of_backend(backend, config)


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
    try:
        for value in config.backends.get(choice.backend, {}).values():
            if isinstance(value, SecretSetting):
                value.reveal()
    except ConfigError as error:
        return [f"{error}, so the backend {choice.backend!r} is not checked"]
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

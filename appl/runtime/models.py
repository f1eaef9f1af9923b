"""Names for models: which model of the run's backend a call is for, with its default options.

Invariant: a call holds the name of the model itself, so that a digest never depends on aliases.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from appl.backend import Profile
from appl.errors import ConfigError, InvalidOption, ModelNotFound, nearest

SAMPLING = ("temperature", "top_p", "max_tokens", "stop", "seed", "logprobs")
"""The options of ``gen`` that a name for a model may set."""

USUAL = ("small", "large")
"""Names that every program may use: the default model, until the settings say otherwise."""


@dataclass(frozen=True, slots=True)
class Model:
    """What a name stands for: ``None`` is the run's backend, and that backend's default model."""

    backend: str | None = None
    name: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


class Models:
    """The models that a run can ask, by name; ``default`` is asked where a call names none."""

    def __init__(
        self,
        profile: Profile,
        default: Model | None = None,
        names: Mapping[str, Model] | None = None,
        backend: str | None = None,
    ) -> None:
        self._profile, self._names = profile, dict(names or {})
        self._backend = backend or profile.name
        default = default or Model()
        self.default = Model(None, default.name or profile.default_model or "", default.options)
        self._known: dict[str, Model] = {}
        for name, model in self._names.items():
            if self.answers(name):
                _check_options(name, model.options, profile)

    def answers(self, name: str) -> bool:
        """Whether *name* stands for a model of the run's own backend."""
        model = self._names.get(name)
        return model is None or model.backend in (None, self._backend)

    def resolve(self, name: str | None) -> Model:
        """The model that *name* stands for. Raises ``ModelNotFound`` with the nearest there is."""
        if name is None:
            return self.default
        found = self._known.get(name)
        if found is None:
            found = self._known[name] = self._resolved(name)
        return found

    def _resolved(self, name: str) -> Model:
        model = self._names.get(name)
        if model is None and name in USUAL and name not in self._profile.models:
            return self.default
        if model is None:
            head, slash, rest = name.partition("/")
            own = bool(slash) and head == self._backend
            model = Model(None, rest if own else name)
        if model.backend not in (None, self._backend):
            raise ModelNotFound(
                f"{name!r} is {model.backend}/{model.name or 'its default model'}, and this run "
                f"is answered by the backend {self._backend!r}; a run has one backend: choose "
                f"the other one for all of it (--backend {model.backend}), or give {name!r} a "
                f"model of {self._backend!r} in [models]"
            )
        if model.name is None:
            return Model(None, self.default.name, model.options)
        self._check(name, model.name)
        return model

    def _check(self, written: str, name: str) -> None:
        models = self._profile.models
        if not models or name in models or name == self.default.name:
            return
        stands = f" (for which {written!r} stands)" if written != name else ""
        others = f"; names: {', '.join(sorted(self._names))}" if self._names else ""
        raise ModelNotFound(
            f"backend {self._backend!r} has no model {name!r}{stands}"
            f"{nearest(name, (*models, *self._names))} (it has: {', '.join(models)}{others})"
        )

    def as_data(self) -> dict[str, Any]:
        """The names as plain data, for the header of a trace."""
        table = {"": self.default, **self._names}
        return {
            name: {"backend": m.backend, "model": m.name, "options": dict(m.options)}
            for name, m in table.items()
        }


def models_from(data: object, profile: Profile, backend: str) -> Models | None:
    """The names that :meth:`Models.as_data` described; ``None`` when there are none."""
    if not isinstance(data, Mapping):
        return None
    names = {
        str(name): Model(each.get("backend"), each.get("model"), _options(each.get("options")))
        for name, each in data.items()
        if isinstance(each, Mapping)
    }
    return Models(profile, names.pop("", None), names, backend)


def _options(data: object) -> dict[str, Any]:
    items = data.items() if isinstance(data, Mapping) else ()
    return {str(name): tuple(v) if isinstance(v, list) else v for name, v in items}


def _check_options(name: str, options: Mapping[str, Any], profile: Profile) -> None:
    known = (*SAMPLING, *sorted(profile.options))
    for option in options:
        if option not in known:
            raise ConfigError(
                f"models.{name}: unknown option {option!r}{nearest(option, ('model', *known))} "
                f"(known: model, {', '.join(known)})"
            )


def named(value: Any) -> str | None:
    """*value* as the name of a model: a string, or nothing."""
    if value is not None and not isinstance(value, str):
        raise InvalidOption(f"gen(model=...) takes the name of a model, got {value!r:.80}")
    if value == "":
        raise InvalidOption(
            "gen(model='') names no model; leave it out, or write None, for the usual"
        )
    return str.__str__(value) if value is not None else None

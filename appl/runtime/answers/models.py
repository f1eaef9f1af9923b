"""Names for models: which model of which backend a call is for, with its default options.

Invariant: a call holds the name of the model itself, so that a digest never depends on aliases.
That of a model elsewhere begins with its backend, and that of a list names all in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from appl.backend import NUMBERS, Profile, Sampling
from appl.errors import ConfigError, InvalidOption, ModelNotFound, nearest

_NO_SETTINGS = frozenset({"stop_tokens", "dimensions"})
SAMPLING = (*(name for name in Sampling.__slots__ if name in NUMBERS - _NO_SETTINGS), "stop")
"""The options of ``gen`` that a name for a model may set."""

USUAL = ("small", "large")
"""Names that every program may use: the default model, until the settings say otherwise."""

_RESTRICTIONS = frozenset({"schema_object"})  # features that say what a backend cannot do


@dataclass(frozen=True, slots=True)
class Model:
    """The meaning of a name; ``None`` is the run's backend, and that backend's default model.

    ``others`` may be asked in its place, as the rule ``prefer`` says and when it fails; their own
    options do not count. ``within`` are the seconds in which a run is to end, by ``"deadline"``.
    """

    backend: str | None = None
    name: str | None = None
    options: Mapping[str, object] = field(default_factory=dict)
    others: tuple[Model, ...] = ()
    prefer: str = "order"
    within: float | None = None


class Spot(NamedTuple):
    """A model of a backend; ``""`` is the backend's default."""

    backend: str
    model: str

    def __str__(self) -> str:
        return f"{self.backend}/{self.model}" if self.model else self.backend


class Route(NamedTuple):
    """The places that calls may go to, and the rule by which one is chosen."""

    spots: tuple[Spot, ...]
    prefer: str = "order"
    within: float | None = None

    def __str__(self) -> str:
        places = " | ".join(map(str, self.spots))
        if self.within is not None:
            return f"{places} ({self.prefer} {self.within:g} s)"
        return places if self.prefer == "order" else f"{places} ({self.prefer})"


class Elsewhere(NamedTuple):
    """A model of a backend that is first used when a call names it, and that backend's profile."""

    backend: str
    model: str
    profile: Profile


Find = Callable[[str, bool], Elsewhere | None]
"""Finds the model that a name means by itself, for a call that may have a key of its own; ``None``
leaves the name to the run's backend.
"""


class Models:
    """The models that a run can ask, by name; ``default`` is asked where a call names none.

    *others* are the profiles of the run's other backends by name, or why there is none. *find*
    looks for names that none of these has; what it finds must not change during a run. *reserved*
    are backends that a name may begin with: models of the run's own backend that begin so are held
    with its name before them, so that no two models share one.
    """

    def __init__(
        self,
        profile: Profile,
        default: Model | None = None,
        names: Mapping[str, Model] | None = None,
        backend: str | None = None,
        others: Mapping[str, Profile | Exception] | None = None,
        *,
        find: Find | None = None,
        reserved: Iterable[str] = (),
    ) -> None:
        self._profile, self._names = profile, dict(names or {})
        self.backend = backend or profile.name
        self._others = dict(others or {})
        self._named_backends = frozenset(self._others)
        self._find = find
        self.reserved = {*reserved, *self._others} - {self.backend}
        self.on_route: Callable[[], object] | None = None
        self._routes: dict[str, Route] = {}
        self._profiles: dict[str, Profile] = {}
        self._default_model = default_model = default or Model()
        own = not (default_model.others or self._away(default_model))
        self._usual = (default_model.name if own else None) or profile.default_model or ""
        self.default = self._default(self._default_model)
        self._resolved_models: dict[str, Model] = {}
        for name, model in self._names.items():
            if self.answers(name):
                _check_options(name, model.options, profile)
            elif all(
                isinstance(self._others.get(backend), Profile) for backend in self._away(model)
            ):
                target = self.resolve(name)
                _check_options(name, model.options, self.profile_of(target.name or ""))

    def answers(self, name: str) -> bool:
        """True if *name* stands for a model of the run's own backend alone."""
        model = self._names.get(name)
        return model is None or not (model.others or self._away(model))

    def profile_of(self, model: str) -> Profile:
        """The features supported by every backend that *model* may resolve to."""
        return self._profiles.get(model, self._profile)

    @property
    def routed(self) -> bool:
        """True if some names do not simply mean a model of the run's own backend."""
        return bool(self._routes)

    def route(self, model: str) -> Route:
        """The route of calls for *model*, a name as calls hold it."""
        return self._routes.get(model) or Route((Spot(self.backend, model),))

    def _away(self, model: Model) -> list[str]:
        """The other backends that *model* needs."""
        named = (entry.backend for entry in (model, *model.others))
        return [name for name in named if name not in (None, self.backend)]

    def _default(self, model: Model) -> Model:
        if model.others or self._away(model):
            return self._placed("the default model", model)
        return Model(None, self._own(self._usual), model.options)

    def _own(self, name: str) -> str:
        """The name that calls for the own model *name* hold; it means no model elsewhere."""
        head, slash, _ = name.partition("/")
        if head not in (self.reserved if slash else self._others):
            return name
        return self._hold(Route((Spot(self.backend, name),)))

    def _placed(self, written: str, model: Model) -> Model:
        spots = tuple(dict.fromkeys(self._spot(written, entry) for entry in (model, *model.others)))
        if len(spots) == 1 and spots[0].backend == self.backend:
            return Model(None, self._own(spots[0].model), model.options)
        return Model(None, self._hold(Route(spots, model.prefer, model.within)), model.options)

    def _spot(self, written: str, model: Model) -> Spot:
        backend = model.backend or self.backend
        if backend == self.backend:
            name = model.name or self._usual
            self._check(written, name)
            return Spot(backend, name)
        profile = self._others.get(backend)
        if not isinstance(profile, Profile):
            what = f"{written!r} is {backend}/{model.name or 'its default model'}"
            if profile is not None:
                problem = f"{what}, and that backend cannot be made: {profile}"
                raise ModelNotFound(problem) from profile
            raise ModelNotFound(
                f"{what}, and this run is answered by the backend {self.backend!r} alone; name a "
                f"model of {backend!r} in [models], choose it for the whole run (--backend "
                f"{backend}), or give {written!r} a model of {self.backend!r}"
            )
        name = model.name or profile.default_model or ""
        if profile.models and name not in (*profile.models, profile.default_model, ""):
            raise ModelNotFound(
                f"backend {backend!r} has no model {name!r} (for which {written!r} stands)"
                f"{nearest(name, profile.models)} (it has: {', '.join(profile.models)})"
            )
        return Spot(backend, name)

    def _hold(self, route: Route) -> str:
        """The name that calls hold which may go along *route*."""
        name = str(route)
        self._routes[name] = route
        profiles = [
            self._profile if spot.backend == self.backend else self._others[spot.backend]
            for spot in route.spots
        ]
        self._profiles[name] = _joint(
            [profile for profile in profiles if isinstance(profile, Profile)]
        )
        if self.on_route is not None:
            self.on_route()
        return name

    def resolve(self, name: str | None, has_key: bool = False) -> Model:
        """The model that *name* stands for, for a call that may have a key of its own.

        Raises ``ModelNotFound`` with the nearest there is.
        """
        if name is None:
            return self.default
        target = self._resolved_models.get(name)
        if target is None:
            target = self._resolved_models[name] = self._resolved(name, has_key)
        return target

    def _resolved(self, name: str, has_key: bool) -> Model:
        model = self._names.get(name)
        if model is None and len(name.split()) > 1:
            raise InvalidOption(
                f"the first argument of gen() is the name of a model, got {name!r:.80}; write a "
                "prompt as a statement before gen(), or as gen(messages=...)"
            )
        if model is None and name in USUAL and name not in self._profile.models:
            return self.default
        if model is None:
            model = self._meant(name, has_key)
        if model.others or self._away(model):
            return self._placed(name, model)
        if model.name is None:
            return Model(None, self.default.name, model.options)
        self._check(name, model.name)
        held = self._own(model.name)
        return model if held == model.name else Model(None, held, model.options)

    def _meant(self, name: str, has_key: bool) -> Model:
        """The model that *name* means by itself: see ``appl.session.naming``."""
        head, slash, rest = name.partition("/")
        if slash and head == self.backend:
            return Model(None, rest)
        if slash and head in self._named_backends:
            return Model(head, rest)
        own = name == self._usual or name in self._profile.models
        if slash and not own:
            from appl.runtime.answers.model_slips import check_backend

            check_backend(name, self.reserved, self.backend)
        if self._find is None or (own and not (slash and head in self.reserved)):
            return Model(None, name)
        place = self._find(name, has_key)
        if place is None or place.backend == self.backend:
            return Model(None, name if place is None else place.model)
        if not isinstance(self._others.get(place.backend), Profile):
            self._others = {**self._others, place.backend: place.profile}
        return Model(place.backend, place.model)

    def _check(self, written: str, name: str) -> None:
        models = self._profile.models
        if not models or name in models or name == self._usual:
            return
        from appl.runtime.answers.model_slips import unknown_model

        raise unknown_model(written, name, self.backend, models, self._names, self.reserved)

    def as_data(self) -> dict[str, object]:
        """The names as plain data, for the header of a trace."""
        placed = self._default_model.others or self._away(self._default_model)
        default = (
            self._default_model if placed else Model(None, self._usual, self._default_model.options)
        )
        return {name: _data(model) for name, model in {"": default, **self._names}.items()}


def _data(model: Model) -> dict[str, object]:
    data: dict[str, object] = {
        "backend": model.backend,
        "model": model.name,
        "options": dict(model.options),
    }
    if model.others:
        data |= {"others": [_data(entry) for entry in model.others], "prefer": model.prefer}
        if model.within is not None:
            data["within"] = model.within
    return data


def _joint(profiles: list[Profile]) -> Profile:
    """The features that all of *profiles* have, and the restrictions that any of them has."""
    if len(profiles) == 1:
        return profiles[0]
    features = frozenset.intersection(*(profile.features for profile in profiles))
    limits = frozenset.union(*(profile.features for profile in profiles)) & _RESTRICTIONS
    contexts = [profile.context for profile in profiles if profile.context is not None]
    return Profile(
        " | ".join(dict.fromkeys(profile.name for profile in profiles)),
        features | limits,
        frozenset.intersection(*(profile.options for profile in profiles)),
        context=min(contexts, default=None),
    )


def _check_options(name: str, options: Mapping[str, object], profile: Profile) -> None:
    names = (*SAMPLING, *sorted(profile.options))
    for option in options:
        if option not in names:
            raise ConfigError(
                f"models.{name}: unknown option {option!r}{nearest(option, ('model', *names))} "
                f"(known: model, {', '.join(names)})"
            )


def named(value: object) -> str | None:
    """*value* as the name of a model: a string, or nothing."""
    if value is not None and not isinstance(value, str):
        raise InvalidOption(f"gen(model=...) takes the name of a model, got {value!r:.80}")
    if value == "":
        raise InvalidOption(
            "gen(model='') names no model; leave it out, or write None, for the usual"
        )
    return str.__str__(value) if value is not None else None

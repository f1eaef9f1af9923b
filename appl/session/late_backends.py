"""Backends that are made at their first use, when a call names one of their models.

Invariant: the meaning of a name is decided once in a run and recorded as an observation. A replay
thus needs neither the backend nor its key, and a resumed run goes on with the same model.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from appl.backend import Backend, Emit, Profile, Request, Response
from appl.config import Config
from appl.errors import BackendError, ConfigError
from appl.runtime.answers.models import Elsewhere
from appl.runtime.world import Moment, World
from appl.session.backend_setup import Choice, backends, make_backend, memoized
from appl.tracing.format.record import profile_data, profile_from

if TYPE_CHECKING:
    from appl.session.naming import Location

KIND = "model "
"""The kind of the observation that holds a name's meaning begins with this; the name follows."""
NO_ADDRESS = ""
"""The address of such an observation: the run as a whole."""


@dataclass(frozen=True, slots=True)
class Names:
    """The meanings of model names: known ones, and the ``backends`` that begin others.

    ``meanings`` are those of names whose backend was made at its first use.
    """

    backends: frozenset[str]
    meanings: Mapping[str, Elsewhere] = field(default_factory=dict)


@memoized
def names_now(config: Config, installed_backends: object) -> Names:
    """The names of a run that begins with *config*, while *installed_backends* are installed."""
    return Names(frozenset(backends(config)))


def recorded_meaning(value: object) -> Elsewhere | None:
    """The meaning of a model's name as a record has it; ``None`` for anything else."""
    if not isinstance(value, Mapping):
        return None
    profile = profile_from(value.get("profile"))
    return Elsewhere(str(value.get("backend", "")), str(value.get("model", "")), profile)


class LateBackends:
    """The backends of a run that its settings do not name; ``find`` resolves their models.

    *say* shows the user a line. *names* may hold those of the run that this one resumes: a backend
    that cannot be made here is an error only for a call that it has to answer.
    """

    def __init__(
        self,
        config: Config,
        choice: Choice,
        seed: int,
        say: Callable[[str], None],
        names: Names,
    ) -> None:
        self._config, self._choice, self._seed, self._say = config, choice, seed, say
        self._recorded = names.meanings
        self._lock = threading.RLock()
        self._shown_lines: set[str] = set()
        self._world: World | None = None
        self._own: Backend | None = None
        self._place: Callable[[str, Backend], None] | None = None  # while it serves a run
        self.instances: dict[str, Backend] = {}

    def serve(self, world: World, own: Backend, place: Callable[[str, Backend], None]) -> None:
        """Serve a run from now on: its *world*, its *own* backend, and *place* for new ones."""
        self._world, self._own, self._place = world, own, place

    def close(self) -> None:
        """The run is over: let go of it."""
        self._place = None

    def find(self, name: str, has_key: bool = False) -> Elsewhere | None:
        """The model that *name* means, with its backend made. Raises ``BackendError``.

        A provider's bare name needs a key in the environment, unless the call has one: *has_key*.
        """
        with self._lock:
            location = None
            if name not in self._recorded:
                location = self._located(name, has_key)
                if location is None:
                    return None
            assert self._world is not None
            value = self._world.see(
                Moment(NO_ADDRESS, KIND + name),
                lambda: self._observed_location(name, location, has_key),
            )
            place = recorded_meaning(value)
            if place is not None and place.backend != self._choice.backend:
                self.open(place.backend, place.profile)
            return place

    def open(self, backend: str, profile: Profile | None = None) -> Backend:
        """Make *backend* unless it exists. Raises ``BackendError`` or ``ConfigError``.

        With *profile*, that of an earlier run, a backend that cannot be made raises only when a
        call is sent to it.
        """
        with self._lock:
            if backend not in self.instances:
                instance = self._make(backend, profile)
                self.instances[backend] = instance
                if self._place is not None:
                    self._place(backend, instance)
            return self.instances[backend]

    def _make(self, backend: str, profile: Profile | None) -> Backend:
        try:
            return make_backend(self._config, Choice(backend, None, True), self._seed)
        except (BackendError, ConfigError) as error:
            if profile is None:
                raise
            return _Unmade(profile, error)

    def _located(self, name: str, has_key: bool) -> Location | None:
        """The location of *name* in this run; ``None`` if it belongs to the run's own backend."""
        from appl.session.naming import check_reachable, locate, provider_of_backend

        location = locate(name, self._config)
        if location is None or location.provider is None:
            return location
        own = self._choice.backend
        if location.backend == own and not location.provider.prefix:
            return None
        assert self._own is not None
        takes_any = not self._own.profile.models
        fixed = provider_of_backend(own, self._config)
        if takes_any and (fixed is None or fixed is location.provider):
            return None
        self._tell(check_reachable(name, location, self._config, has_key))
        return location

    def _tell(self, line: str) -> None:
        if line not in self._shown_lines:
            self._shown_lines.add(line)
            self._say(f"appl: {line}")

    def _observed_location(
        self, name: str, location: Location | None, has_key: bool
    ) -> dict[str, object]:
        location = location or self._located(name, has_key)
        assert location is not None
        if location.backend == self._choice.backend:
            assert self._own is not None
            profile = self._own.profile
        else:
            profile = self.open(location.backend).profile
        model = location.model or profile.default_model or ""
        return {"backend": location.backend, "model": model, "profile": profile_data(profile)}


class _Unmade:
    """Stands for a backend that could not be made here; *profile* is that of the recorded run."""

    def __init__(self, profile: Profile, error: BackendError | ConfigError) -> None:
        self.profile, self._error = profile, error

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        raise self._error

    async def aclose(self) -> None:
        """Do nothing: it holds no resources."""

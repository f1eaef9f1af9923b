"""What a model's name means in a run whose settings do not say it, and its backend.

Invariant: a backend is made once in a run. Whoever calls holds the lock of the ``LateBackends``.
"""

from __future__ import annotations

from appl.backend import Backend, Emit, Profile, Request, Response
from appl.errors import BackendError, ConfigError
from appl.runtime.answers.models import Elsewhere
from appl.runtime.world import Moment
from appl.session.backend_setup import Choice, make_backend
from appl.session.late_backends import KIND, NO_ADDRESS, LateBackends, recorded_meaning
from appl.session.naming import Location, check_reachable, locate, provider_of_backend
from appl.tracing.format.record import profile_data


def find(late: LateBackends, name: str, has_key: bool) -> Elsewhere | None:
    """The model that *name* means: see ``LateBackends.find``."""
    location = None
    if name not in late.names.meanings:
        location = _located(late, name, has_key)
        if location is None:
            return None
    assert late.world is not None
    value = late.world.see(
        Moment(NO_ADDRESS, KIND + name),
        lambda: _observed_location(late, name, location, has_key),
    )
    place = recorded_meaning(value)
    if place is not None and place.backend != late.choice.backend:
        _open(late, place.backend, place.profile)
    return place


def _open(late: LateBackends, backend: str, profile: Profile | None = None) -> Backend:
    """Make *backend* unless it exists. Raises ``BackendError`` or ``ConfigError``.

    With *profile*, that of an earlier run, a backend that cannot be made raises only when a call is
    sent to it.
    """
    instance = late.instances.get(backend)
    if instance is None:
        try:
            instance = make_backend(late.config, Choice(backend, None, True), late.seed)
        except (BackendError, ConfigError) as error:
            if profile is None:
                raise
            instance = _Unmade(profile, error)
        late.instances[backend] = instance
        if late.place is not None:
            late.place(backend, instance)
    return instance


def _located(late: LateBackends, name: str, has_key: bool) -> Location | None:
    """The location of *name* in this run; ``None`` if it belongs to the run's own backend."""
    location = locate(name, late.config)
    if location is None or location.provider is None:
        return location
    own = late.choice.backend
    if location.backend == own and not location.provider.prefix:
        return None
    assert late.own is not None
    takes_any = not late.own.profile.models
    fixed = provider_of_backend(own, late.config)
    if takes_any and (fixed is None or fixed is location.provider):
        return None
    line = check_reachable(name, location, late.config, has_key)
    if line not in late.shown_lines:
        late.shown_lines.add(line)
        late.say(f"appl: {line}")
    return location


def _observed_location(
    late: LateBackends, name: str, location: Location | None, has_key: bool
) -> dict[str, object]:
    location = location or _located(late, name, has_key)
    assert location is not None
    if location.backend == late.choice.backend:
        assert late.own is not None
        profile = late.own.profile
    else:
        profile = _open(late, location.backend).profile
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

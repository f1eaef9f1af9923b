"""A backend's profile in the header of a trace, as plain data.

Invariant: what is read may be anything; features that it does not list are all allowed.
"""

from __future__ import annotations

from appl.backend import FEATURES, Profile


def profile_data(profile: Profile) -> dict[str, object]:
    """A backend's profile as plain data, for the header of a trace."""
    return {
        "name": profile.name,
        "features": sorted(profile.features),
        "options": sorted(profile.options),
        "models": list(profile.models),
        "default_model": profile.default_model,
        **({} if profile.context is None else {"context": profile.context}),
    }


def profile_from(data: object) -> Profile:
    """The profile of ``profile_data``, without limits; one that allows all when there is none."""
    if not isinstance(data, dict):
        return Profile("replay", FEATURES)
    default = data.get("default_model")
    return Profile(
        name=str(data.get("name", "replay")),
        features=frozenset(map(str, data.get("features", FEATURES))),
        options=frozenset(map(str, data.get("options", ()))),
        models=tuple(map(str, data.get("models", ()))),
        default_model=None if default is None else str(default),
    )

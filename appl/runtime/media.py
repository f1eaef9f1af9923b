"""Images and sounds that the backend cannot take are refused before any call."""

from __future__ import annotations

from appl.backend import Profile
from appl.errors import Unsupported
from appl.prompt import Messages, Node

_SAID = {"images": "images: say what is in them as text", "audio": "sound: say its text"}


def check_media(profile: Profile, prompt: Node | Messages | None) -> None:
    """Refuse a *prompt* with images or sounds that the backend cannot take."""
    if prompt is None or prompt.needs <= profile.features:
        return
    missing = min(prompt.needs - profile.features)
    able = ", ".join(sorted(profile.features)) or "none"
    raise Unsupported(
        f"backend {profile.name!r} cannot take {_SAID[missing]}, or choose a backend that has the "
        f"feature {missing!r} (this one has: {able})"
    )

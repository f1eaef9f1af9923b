"""The options of ``gen`` become one ``Sampling``; what nobody knows is refused by name.

Invariant: equal options give the same ``Sampling`` object, so that its canonical text is made once.
"""

from __future__ import annotations

import re
from typing import Any

from appl.backend import Profile, Sampling
from appl.errors import InvalidOption, UnknownOption, Unsupported, nearest

KNOWN = (
    "model", "messages", "max_tokens", "stop", "temperature", "top_p", "seed", "n", "tools",
    "tool_choice", "response_format", "choices", "regex", "grammar", "stream",
    "max_relay_rounds", "logprobs", "timeout", "priority", "cache", "normalize", "method",
)  # fmt: skip
LATER = ("tools", "tool_choice", "response_format", "stream", "max_relay_rounds", "cache")

_made: dict[tuple[Any, ...], Sampling] = {}
_MOST = 4096


def sampling_of(profile: Profile, fields: dict[str, Any], extra: dict[str, Any]) -> Sampling:
    """The sampling of *fields* (named as in ``Sampling``) and the backend's own options."""
    for name in extra:
        _check_known(name, profile)
    key = (*fields.items(), *sorted(extra.items()))
    try:
        made = _made.get(key)
    except TypeError:  # an unhashable option of the backend
        return _make(fields, extra)
    if made is None:
        made = _make(fields, extra)
        if len(_made) < _MOST:
            _made[tuple((name, value) for name, value in key)] = made
    return made


def _check_known(name: str, profile: Profile) -> None:
    if name in profile.options:
        return
    if name in LATER:
        raise Unsupported(f"gen({name}=...) is not there yet; leave it out")
    hint = nearest(name, (*KNOWN, *profile.options))
    raise UnknownOption(f"gen() has no option {name!r}, nor has backend {profile.name!r}{hint}")


def _make(fields: dict[str, Any], extra: dict[str, Any]) -> Sampling:
    _check(fields)
    return Sampling(**fields, extra=tuple(sorted(extra.items())))


def _check(fields: dict[str, Any]) -> None:
    for name, low, high in (("max_tokens", 1, None), ("temperature", 0, None), ("top_p", 0, 1),
                            ("logprobs", 0, None)):  # fmt: skip
        value = fields.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidOption(f"gen({name}=...) takes a number, got {value!r}")
        if value < low or (high is not None and value > high):
            limits = f"at least {low}" + (f" and at most {high}" if high is not None else "")
            raise InvalidOption(f"gen({name}=...) must be {limits}, got {value!r}")
    if (pattern := fields.get("regex")) is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise InvalidOption(f"gen(regex=...): {error}") from error


def stops(value: Any) -> tuple[str, ...]:
    """``stop=`` as a tuple of strings."""
    if value is None:
        return ()
    if isinstance(value, str):
        value = (value,)
    found = tuple(str(each) for each in value)
    if "" in found:
        raise InvalidOption("gen(stop=...): an empty string would stop every answer at once")
    return found


def require(profile: Profile, feature: str, option: str) -> None:
    """Refuse *option* before any call when the backend cannot do it."""
    if feature not in profile.features:
        able = ", ".join(sorted(profile.features)) or "none"
        raise Unsupported(
            f"backend {profile.name!r} cannot do gen({option}=...) (it can: {able}); "
            "choose another backend or ask for it in the prompt"
        )

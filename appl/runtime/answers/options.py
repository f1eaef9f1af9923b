"""The options of ``gen`` become one ``Sampling``; unknown ones are refused by name.

Invariant: equal options give the same ``Sampling`` object, so that its canonical text is made once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from appl.backend import Profile, Sampling
from appl.base import fallback
from appl.errors import InvalidOption, UnknownOption, Unsupported, nearest
from appl.runtime.answers.gen_options import OPTION_NAMES
from appl.runtime.answers.option_check import check_fields, stop_texts
from appl.runtime.concurrency.promise_values import finished

_samplings: dict[tuple[object, ...], Sampling] = {}
_MOST = 4096


def sampling_of(profile: Profile, fields: dict[str, object], extra: dict[str, object]) -> Sampling:
    """The sampling of *fields* (named as in ``Sampling``) and the backend's own options."""
    for name in extra:
        _check_option(name, profile)
    values = (*fields.values(), *extra.values())
    key = (*fields.items(), *sorted(extra.items()), *map(type, values))  # 1 is not 1.0 here
    try:
        sampling = _samplings.get(key)
    except TypeError:  # an unhashable option of the backend
        return _make(fields, extra)
    if sampling is None:
        sampling = _make(fields, extra)
        if len(_samplings) < _MOST:
            _samplings[key] = sampling
    return sampling


_TEXTS = frozenset({"prompt", "prompts", "text", "input", "question", "content", "system"})
_AS_TEXT = "; write a prompt as a statement before gen(), or as gen(messages=...)"


def _check_option(name: str, profile: Profile) -> None:
    if name in profile.options:
        return
    near = fallback.names().instead(name) or nearest(
        name, (*sorted(OPTION_NAMES), *profile.options)
    )
    hint = _AS_TEXT if name in _TEXTS else near
    raise UnknownOption(f"gen() has no option {name!r}, nor has backend {profile.name!r}{hint}")


def _make(fields: dict[str, Any], extra: dict[str, object]) -> Sampling:
    check_fields(fields)
    return Sampling(**fields, extra=tuple(sorted(extra.items())))


def switched(where: str, value: object) -> bool:
    """*value* as on or off, of the option *where*; ``None`` is off."""
    value = finished(value)
    if value is not None and not isinstance(value, bool):
        raise InvalidOption(f"{where} is True or False, got {value!r:.80}")
    return bool(value)


def stops(value: object) -> tuple[str, ...]:
    """``stop=`` as a tuple of strings."""
    value = finished(value)
    if isinstance(value, Iterable) and not isinstance(value, str):
        value = [finished(text) for text in value]
    return stop_texts(value)


def stop_ids(value: object) -> tuple[int, ...]:
    """``stop_tokens=`` as a tuple of token ids."""
    value = finished(value)
    ids = tuple(map(finished, value)) if isinstance(value, Iterable) else (value,)
    if not all(type(token) is int and token >= 0 for token in ids):
        raise InvalidOption(
            f"gen(stop_tokens=...) takes a list of token ids, got {value!r:.80}; for texts write "
            "gen(stop=...)"
        )
    return ids


def require(profile: Profile, feature: str, option: str) -> None:
    """Refuse *option* before any call when the backend cannot do it."""
    if feature not in profile.features:
        able = ", ".join(sorted(profile.features)) or "none"
        raise Unsupported(
            f"backend {profile.name!r} cannot do gen({option}=...) (it can: {able}); "
            "choose another backend or ask for it in the prompt"
        )

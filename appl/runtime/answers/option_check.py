"""The check of plain values of options, whether settings or a call of ``gen`` say them.

Invariant: nothing here waits; values that may be futures are finished by ``request_options``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import cast

from appl.errors import InvalidOption
from appl.runtime.answers.gen_options import LIMITS, check_number


def check_fields(fields: Mapping[str, object]) -> None:
    """Refuse values among the *fields* of a sampling that no backend can take."""
    for name, value in fields.items():
        if name in LIMITS:
            check_number(name, value, *LIMITS[name])
    for name in ("regex", "grammar"):
        if not isinstance(fields.get(name), str | None):
            raise InvalidOption(f"gen({name}=...) takes a string, got {fields[name]!r:.80}")
    if isinstance(pattern := fields.get("regex"), str):
        try:
            re.compile(pattern)
        except re.error as error:
            raise InvalidOption(f"gen(regex=...): {error}") from error


def check_defaults(options: Mapping[str, object]) -> None:
    """Refuse impossible values among the default *options* of a name for a model."""
    check_fields({**options, "stop": stop_texts(options.get("stop", ()))})


def stop_texts(value: object) -> tuple[str, ...]:
    """The texts that *value*, a string or several of them, says for ``stop=``."""
    is_collection = isinstance(value, Iterable) and not isinstance(value, str)
    texts = tuple(cast("Iterable[object]", value)) if is_collection else (value,)
    stops = tuple(str.__str__(text) for text in texts if isinstance(text, str))
    if len(stops) < len(texts):
        raise InvalidOption(f"gen(stop=...) takes a string or a list of strings, got {value!r:.80}")
    if "" in stops:
        raise InvalidOption("gen(stop=...): an empty string would stop every answer at once")
    return stops

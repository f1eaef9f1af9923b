"""The names for models of an earlier run, as the header of its trace has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from appl.backend import Profile
from appl.runtime.answers.models import Find, Model, Models


def models_from(
    data: object,
    profile: Profile,
    backend: str,
    others: Mapping[str, Profile | Exception] | None = None,
    *,
    find: Find | None = None,
    reserved: Iterable[str] = (),
) -> Models | None:
    """The names that :meth:`Models.as_data` described; ``None`` when there are none."""
    if not isinstance(data, Mapping):
        return None
    names = {str(name): _model(entry) for name, entry in data.items() if isinstance(entry, Mapping)}
    default = names.pop("", None)
    return Models(profile, default, names, backend, others, find=find, reserved=reserved)


def _model(data: Mapping[str, Any]) -> Model:
    others = data.get("others")
    return Model(
        data.get("backend"),
        data.get("model"),
        _options(data.get("options")),
        tuple(map(_model, others)) if isinstance(others, list) else (),
        str(data.get("prefer", "order")),
        seconds_in(data.get("within")),
    )


def seconds_in(data: object) -> float | None:
    """Recorded seconds; ``None`` where there are none."""
    is_number = isinstance(data, int | float) and not isinstance(data, bool)
    return cast(float, data) if is_number and 0 < cast(float, data) < 1e9 else None


def _options(data: object) -> dict[str, object]:
    items = data.items() if isinstance(data, Mapping) else ()
    return {str(name): tuple(v) if isinstance(v, list) else v for name, v in items}

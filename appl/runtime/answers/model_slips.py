"""Names that lead to no model, and what was meant by them: loaded where one is refused.

Invariant: the name of a real model never leads to an unrelated one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches

from appl.errors import ModelNotFound, nearest

_LIKE, _VERY_LIKE = 0.75, 0.8
"""The likeness, from 0 to 1, from which a name passes for a slip of a backend's or a model's."""


def unknown_model(
    written: str,
    name: str,
    backend: str,
    models: Collection[str],
    names: Collection[str],
    backends: Collection[str],
) -> ModelNotFound:
    """The error for *name*, which is none of the *models* of *backend*; the user wrote *written*.

    *names* are the user's own for models, and *backends* are those that a name may begin with.
    """
    stands = f" (for which {written!r} stands)" if written != name else ""
    others = f"; names: {', '.join(sorted(names))}" if names else ""
    hint = similar(name, (*models, *names), names) or written_elsewhere(name, backends)
    return ModelNotFound(
        f"backend {backend!r} has no model {name!r}{stands}"
        f"{hint} (it has: {', '.join(models)}{others})"
    )


def similar(name: str, models: Iterable[str], names: Iterable[str] = ()) -> str:
    """``; did you mean 'x'?`` for the name that *name* is most like.

    *names* are the user's own, of which a vague likeness is enough; a model must be very like it,
    so that the name of a real model never leads to an unrelated one.
    """
    return nearest(name, names) or nearest(name, models, _VERY_LIKE)


def check_backend(name: str, backends: Collection[str], own: str) -> None:
    """Refuse a *name* that begins with a slip of the name of one of *backends*.

    *own* is the backend that a model of this very name would be of. Raises ``ModelNotFound``.
    """
    head, _, rest = name.partition("/")
    if head in backends or not backends:
        return
    close = get_close_matches(head.lower(), list(backends), n=1, cutoff=_VERY_LIKE)
    if close:
        raise ModelNotFound(
            f"there is no backend {head!r}; did you mean '{close[0]}/{rest}'? (a model of {own!r} "
            f"with this very name is written '{own}/{name}')"
        )


def written_elsewhere(name: str, backends: Collection[str]) -> str:
    """``; …`` with how a model of another of *backends* is written, for a *name* not known here."""
    if name in backends:
        return f"; {name!r} is a backend: write {name}/MODEL"
    head, slash, rest = name.partition("/")
    close = get_close_matches(head, list(backends), n=1, cutoff=_LIKE) if slash else []
    if close:
        return f"; did you mean '{close[0]}/{rest}'?"
    forms = f"litellm/{name}" if slash else f"openai/{name} or litellm/PROVIDER/{name}"
    return f"; a model of another backend is written BACKEND/MODEL, as in {forms}"

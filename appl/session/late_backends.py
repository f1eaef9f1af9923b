"""Backends that are made at their first use, when a call names one of their models.

Invariant: the meaning of a name is decided once in a run and recorded as an observation. A replay
thus needs neither the backend nor its key, and a resumed run goes on with the same model.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from appl.backend import Backend
from appl.config import Config
from appl.runtime.answers.models import Elsewhere
from appl.session.backend_setup import Choice, backends, memoized
from appl.tracing.format.record import profile_from

if TYPE_CHECKING:
    from appl.runtime.world import World

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


@dataclass(slots=True)
class LateBackends:
    """The backends of a run that its settings do not name; ``find`` resolves their models.

    ``say`` shows the user a line. ``names`` may hold those of the run that this one resumes: a
    backend that cannot be made here is an error only for a call that it has to answer. A run with
    its ``world`` and its ``own`` backend is served while there is a ``place`` for new ones.
    """

    config: Config
    choice: Choice
    seed: int
    say: Callable[[str], None]
    names: Names
    lock: threading.RLock = field(default_factory=threading.RLock)
    shown_lines: set[str] = field(default_factory=set)
    instances: dict[str, Backend] = field(default_factory=dict)
    world: World | None = None
    own: Backend | None = None
    place: Callable[[str, Backend], None] | None = None

    def find(self, name: str, has_key: bool = False) -> Elsewhere | None:
        """The model that *name* means, with its backend made. Raises ``BackendError``.

        A provider's bare name needs a key in the environment, unless the call has one: *has_key*.
        """
        from appl.session.model_lookup import find  # most programs name no model of another backend

        with self.lock:
            return find(self, name, has_key)

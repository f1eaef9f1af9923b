"""The sources of settings, later ones over earlier ones, each value with its origin.

Invariant: an unknown key is an error, never ignored.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from appl.base import fallback
from appl.config.files import SettingsFile, find_file
from appl.config.layout import OF_BACKENDS, SCHEDULE, TOP, check_keys, of_today
from appl.config.readers import Unshown, shown
from appl.config.values import KEYS, Config, SecretSetting
from appl.errors import ConfigError
from appl.prompt.secret import ENVIRONMENT, Secret as Concealed, conceal

if TYPE_CHECKING:
    from appl.config.aliases import Alias

PREFIX = "APPL_"
BUDGET = "APPL_BUDGET"
"""The budget of a run, as in ``calls=10 tokens=5000``: processes that a run starts get it so."""
_SECRET = re.compile(r"(^|_)(key|secret|password|token|credential)$", re.IGNORECASE)
IN_PROGRAM = ("appl.init", "argument")
"""Origins that are not files: a secret may be given there as a value."""
_NAMED = ("model", "models")  # settings of a backend that name its models
_overrides: dict[str, object] = {}
_changes = 0  # of the overrides
TooLate = Callable[[str | None], None]
_too_late: TooLate | None = None
_last: tuple[SettingsFile | None, Mapping[bytes, bytes], int, Config] | None = None
"""The settings that were read last, behind what they were read from."""


class _Layers:
    """Collects values, later layers over earlier ones, each with its origin."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.models: dict[str, Alias] = {}
        self.backends: dict[str, dict[str, object]] = {}
        self.schedule: dict[str, dict[str, object]] = {}
        self.origins: dict[str, str] = {}
        self.notes: list[str] = []
        self.unapproved: Mapping[str, str] = {}
        self.older = False  # whether a source has another layout

    def take(
        self, values: Mapping[str, object], origin: str, written: Callable[[str], str] | None = None
    ) -> None:
        """Lay *values* over the present ones; *written* spells a key as the user wrote it."""
        originals = values
        values, notes = of_today(values, origin)
        self.older = self.older or values is not originals
        self._note(notes)
        check_keys(values, origin)
        for key, value in values.items():
            if key == "backends":
                self._backends(value, origin)
            elif key == "models":
                self._models(value, origin)
            elif key in SCHEDULE:
                self._schedule(key, value, origin)
            else:
                name = written(key) if written is not None else None
                self.put(key, value, name if origin == "argument" and name else origin, name)

    def _note(self, notes: Iterable[str]) -> None:
        self.notes += [note for note in notes if note not in self.notes]

    def put(self, key: str, raw: object, origin: str, written: str | None = None) -> None:
        """Set *key*, which the user wrote as *written*, from the raw value."""
        if key == "backend" and hasattr(raw, "complete"):
            raise ConfigError(
                f"the setting backend takes a name, as 'openai' or 'module:Class', got {raw!r:.80};"
                " to have an object of yours answer, write with appl.testing.running(backend): …"
            )
        try:
            self.values[key] = KEYS[key].read(raw)
        except ValueError as error:
            got = "" if isinstance(error, Unshown) else f", got {shown(raw)}"
            raise ConfigError(f"{written or f'{origin}: {key}'} must be {error}{got}") from None
        self.origins[key] = origin

    def _models(self, table: object, origin: str) -> None:
        if not isinstance(table, Mapping):
            raise ConfigError(f'{origin}: models must be a table, as in [models] small = "…"')
        from appl.config.aliases import alias_from  # few programs have names for models

        for name, raw in table.items():
            key = f"models.{name}"
            self.models[name] = alias_from(f"{origin}: {key}", raw)
            self.origins[key] = origin

    def _schedule(self, table: str, raw: object, origin: str) -> None:
        from appl.config import schedule  # few programs have such a table

        values, notes = schedule.read(table, raw, origin)
        self._note(notes)
        self.schedule.setdefault(table, {}).update(values)
        self.origins.update({f"{table}.{name}": origin for name in values})

    def _backends(self, tables: object, origin: str) -> None:
        if not isinstance(tables, Mapping):
            raise ConfigError(f"{origin}: backends must hold tables, as in [backends.embedded]")
        for backend, table in tables.items():
            if not isinstance(table, Mapping):
                raise ConfigError(f"{origin}: write [backends.{backend}] with its settings below")
            for name, raw in table.items():
                key = f"backends.{backend}.{name}"
                if name in OF_BACKENDS and isinstance(raw, Mapping):
                    self._schedule(key, raw, origin)
                    continue
                self.backends.setdefault(backend, {})[name] = _setting(key, raw, origin)
                self.origins[key] = origin

    def refuse(self, reasons: Mapping[str, str]) -> None:
        """Keep of the backends in *reasons* only what tells the names of their models."""
        self.unapproved = reasons
        for name in reasons:
            table = self.backends.get(name, {})
            names: dict[str, object] = {key: table[key] for key in _NAMED if key in table}
            self.backends[name] = names | ({"type": "openai"} if "type" in table else {})

    def config(self) -> Config:
        """All values as one frozen ``Config``."""
        if self.older and not {"model", "backend"} & self.values.keys():
            self.put("model", *fallback.layouts().MODEL)
        return Config(
            **self.values,
            models=self.models,
            backends=self.backends,
            schedule=self.schedule,
            origins=self.origins,
            notes=tuple(self.notes),
            unapproved=self.unapproved,
        )


def _setting(key: str, raw: object, origin: str) -> object:
    """A backend's setting. A secret in it becomes a ``SecretSetting``, and is refused in a file."""
    if isinstance(raw, Mapping) and set(raw) == {"env"} and isinstance(raw["env"], str):
        return SecretSetting(raw["env"])
    if isinstance(raw, Mapping):
        return {name: _setting(f"{key}.{name}", value, origin) for name, value in raw.items()}
    if isinstance(raw, Concealed):
        raw, key_is_secret = raw.reveal(), True
    else:
        key_is_secret = isinstance(raw, str) and _SECRET.search(key) is not None
    if not key_is_secret:
        return raw
    if origin not in IN_PROGRAM:
        name = key.rpartition(".")[2]
        raise ConfigError(
            f"{origin}: {key} looks like a secret, and secrets do not belong in a file; "
            f'write {name} = {{env = "NAME_OF_A_VARIABLE"}}'
        )
    conceal(key, str(raw))
    return SecretSetting(value=str(raw))


def load(
    arguments: Mapping[str, object] | None = None,
    *,
    directory: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Config:
    """The settings in *directory*. *arguments* win where they are not ``None``.

    The same frozen value comes back until a file, the environment or ``init`` changes it.
    """
    overrides = {key: value for key, value in (arguments or {}).items() if value is not None}
    file = find_file(directory)
    if overrides or environ is not None:
        return _read(file, os.environ if environ is None else environ, overrides)
    global _last
    last, changes, variables = _last, _changes, ENVIRONMENT
    same = last is not None and last[0] is file and last[2] == changes and last[1] == variables
    # An approval may have been given meanwhile, or taken back.
    if last is not None and same and (file is None or _unapproved(file) == last[3].unapproved):
        return last[3]
    variables_before = variables.copy()  # before it is read: it may change meanwhile
    config = _read(file, os.environ, {})
    _last = file, variables_before, changes, config
    return config


def _read(
    file: SettingsFile | None, environ: Mapping[str, str], overrides: Mapping[str, object]
) -> Config:
    layers = _Layers()
    if file is not None:
        layers.take(file.table, str(file.path))
        layers.refuse(_unapproved(file))
        if "home" in file.table:  # a relative folder is meant from where the file lies
            layers.values["home"] = file.path.parent / layers.values["home"]
    variables = {PREFIX + key.upper(): key for key in KEYS}
    for name, raw in environ.items():
        if not raw:
            continue  # compose files and CI matrices export variables without a value
        if name in variables:
            layers.put(variables[name], raw, name, name)
        elif name == BUDGET:
            pairs = (word.partition("=") for word in raw.split())
            layers.take({"budget": {limit: amount for limit, _, amount in pairs}}, name)
        elif name.startswith(PREFIX):  # misspelt, or of another program
            import difflib

            key = name.removeprefix(PREFIX).lower()
            for close in difflib.get_close_matches(key, KEYS, n=1, cutoff=0.75):
                meant = PREFIX + close.upper()
                raise ConfigError(
                    f"the environment variable {name} is not known; did you mean {meant!r}?"
                )
    layers.take(_overrides, "appl.init", "appl.init({}=…)".format)
    layers.take(overrides, "argument", lambda key: "--" + key.replace("_", "-"))
    return layers.config()


def init(**overrides: object) -> None:
    """Set settings in the program, over files and environment, for runs that are opened later.

    ``models={"small": …}`` names models, ``backends={"embedded": {…}}`` gives a backend's own
    settings. Tables of several calls are merged. ``None`` takes a setting back.
    """
    global _changes
    # A program without settings of its own leaves them to its run.
    from appl.base import error_hooks

    error_hooks.install()
    present = {key: value for key, value in overrides.items() if value is not None}
    _Layers().take(present, "appl.init", "appl.init({}=…)".format)
    removals = [key for key, value in overrides.items() if value is None]
    others = () if set(TOP).issuperset(removals) else fallback.layouts().KEYS
    check_keys(removals, "appl.init", others)
    for key in removals:
        _overrides.pop(key, None)
    for key, value in present.items():
        _overrides[key] = _merged(_overrides.get(key), value)
    _changes += 1
    if _too_late is not None and (present or not _overrides):
        _too_late(f"appl.init({', '.join(f'{key}=…' for key in present)})" if present else None)


def settle(too_late: TooLate | None) -> TooLate | None:
    """Call *too_late* for each ``init`` while the process's own run is open.

    It receives the call as the user wrote it, or ``None`` when all settings are taken back. Returns
    the previous callback.
    """
    global _too_late
    before, _too_late = _too_late, too_late
    return before


def _merged(old: object, new: object) -> object:
    """*new*; of two tables, the union, in which *new* wins."""
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        return new
    return {**old, **{key: _merged(old.get(key), value) for key, value in new.items()}}


def _unapproved(file: SettingsFile) -> Mapping[str, str]:
    from appl.config.trust import unapproved  # only settings of a file need approval

    return unapproved(file)

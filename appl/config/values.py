"""The settings as one frozen value, with the meaning and the reader of each.

Invariant: the runtime can use every value that was read; a secret is never part of one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from appl.config.readers import (
    Key,
    count,
    fraction,
    length,
    number,
    one_of,
    options,
    path,
    size,
    switch,
    switch_or_length,
    switch_or_name,
    text,
    texts,
    url,
    whole,
)
from appl.errors import ConfigError

if TYPE_CHECKING:
    from appl.config.aliases import Alias

_T = TypeVar("_T")
USUAL = ("small", "large")
"""Names that every program may use; unless they are configured, they mean the default model."""
_MASK = "***"
SECRET_PARTS = re.compile(r"(?<=://)[^/@\s]+(?=@)|(?<=\?)\S+")  # of an address: user, query


@dataclass(frozen=True, slots=True)
class SecretSetting:
    """A value that is never shown: that of the variable *env*, or one set in a program.

    A variable is read when a backend is made.
    """

    env: str = ""
    value: str | None = field(default=None, repr=False)

    def reveal(self, environ: Mapping[str, str] | None = None) -> str:
        """The value itself. Raises ``ConfigError`` if the variable is not set."""
        if self.value is not None:
            return self.value
        value = (os.environ if environ is None else environ).get(self.env)
        if not value:
            raise ConfigError(f"the environment variable {self.env} is not set")
        return value

    def __str__(self) -> str:
        return f"${self.env}" if self.value is None else _MASK

    @property
    def unset(self) -> bool:
        """True if the variable is not set."""
        return self.value is None and not os.environ.get(self.env)


def _key(read: Callable[[object], object], default: _T, help: str) -> _T:
    """A field of the settings with its reader, its default and its meaning."""
    return field(default=default, metadata={"read": read, "help": help})


@dataclass(frozen=True, slots=True)
class Config:
    """Every setting; ``None`` leaves the choice to the backend. ``origins`` has their sources.

    ``models`` are names for models. ``schedule`` holds the tables about scheduling by name, those
    of one backend under ``backends.<name>.<table>``. ``notes`` report settings that have no effect
    here. ``unapproved`` are backends that nobody may ask, as they lack an approval: each with the
    reason.
    """

    model: str | None = _key(text, None, "the model within the backend, or 'backend/model'")
    backend: str | None = _key(
        text, None, "the backend that answers: an installed one, or 'module:attribute'"
    )
    temperature: float | None = _key(number, None, "sampling temperature, if gen() sets none")
    max_tokens: int | None = _key(count, None, "most tokens in an answer, if gen() sets no limit")
    top_p: float | None = _key(fraction, None, "top-p sampling, from 0 to 1, if gen() sets none")
    stop: tuple[str, ...] | None = _key(
        texts, None, "text, or list of texts, that ends an answer, if gen() sets none"
    )
    backend_options: Mapping[str, object] | None = _key(
        options, None, "other options of the backend, if gen() sets none"
    )
    seed: int | None = _key(whole, None, "seed of the run; by default it is drawn and recorded")
    concurrency: int | None = _key(count, None, "most calls at once; by default the backend's own")
    trace: bool = _key(switch, True, "whether runs are recorded")
    home: Path = _key(  # noqa: RUF009 - it makes a field
        path, Path(".appl"), "folder of the recorded runs"
    )
    durability: str = _key(
        one_of("process", "system", "strict"),
        "system",
        "which crashes a trace survives: process, system or strict",
    )
    on_trace_error: str = _key(
        one_of("stop", "warn"), "stop", "reaction when a trace cannot be written: stop or warn"
    )
    privacy: str = _key(
        one_of("full", "redacted", "digests"),
        "full",
        "how a trace stores texts: full, redacted or digests",
    )
    mask_shapes: bool = _key(
        switch, True, "whether traces mask text that looks like a key, besides known secrets"
    )
    arguments: bool = _key(
        switch, True, "whether traces show arguments and results of functions, shortened"
    )
    redact: str | None = _key(
        text, None, "'module:function' that each message passes before it is stored"
    )
    otel: str | None = _key(
        url, None, "OTLP/HTTP endpoint that gets the spans of each run at its end"
    )
    keep_age: str | None = _key(length, None, "age at which gc removes runs, as 30d")
    keep_runs: int | None = _key(whole, None, "how many runs gc keeps")
    keep_size: str | None = _key(size, None, "size of all runs above which gc removes some, as 2GB")
    keep_failed: bool = _key(switch, False, "whether gc keeps runs that failed or crashed")
    gc: bool = _key(switch, False, "whether gc runs at the end of each recorded run")
    ctl: bool = _key(switch, True, "whether `appl ctl` reaches recorded runs while they are live")
    resume: bool | str = _key(
        switch_or_name,
        True,
        "whether `appl run` resumes its last run if that was interrupted; for a script: RUN",
    )
    longest_wait: float = _key(
        number,
        3600.0,
        "longest sleep of a live process, in seconds; a run that sleeps longer ends as waiting",
    )
    batch: bool | str = _key(
        switch_or_length,
        False,
        "whether calls that can wait are sent in batches, for half the price; with a time, as 6h, "
        "calls that have no answer by then are sent individually",
    )
    stream: bool = _key(switch, False, "whether answers are shown on stderr as they arrive")
    models: Mapping[str, Alias] = field(default_factory=dict)
    schedule: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    backends: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    unapproved: Mapping[str, str] = field(default_factory=dict)

    @property
    def sampling(self) -> dict[str, object]:
        """Defaults of ``gen``'s options besides ``temperature`` and ``max_tokens``."""
        options = {"top_p": self.top_p, "stop": self.stop}
        values = {name: value for name, value in options.items() if value is not None}
        return {**(self.backend_options or {}), **values}

    def origin(self, key: str) -> str:
        """The source of the value of *key*; ``default`` if nobody set it."""
        return self.origins.get(key, "default")

    def settings_of(self, backend: str) -> dict[str, object]:
        """The settings of ``[backends.<backend>]``, with secrets filled in."""
        table = self.backends.get(backend, {})
        return {name: _revealed(f"backends.{backend}.{name}", table[name]) for name in table}

    def shown(self) -> Iterator[tuple[str, object, str]]:
        """Name, value and origin of every setting; secrets only by the name of their variable."""
        for key in KEYS:
            value = getattr(self, key)
            yield key, str(value) if isinstance(value, Path) else value, self.origin(key)
        for name in (*USUAL, *sorted(self.models.keys() - {*USUAL})):
            alias, key = self.models.get(name), f"models.{name}"
            yield key, str(alias) if alias is not None else None, self.origin(key)
        for part, settings in sorted(self.schedule.items()):
            for name, value in settings.items():
                yield f"{part}.{name}", value, self.origin(f"{part}.{name}")
        for backend, table in sorted(self.backends.items()):
            for name, value in sorted(table.items()):
                key = f"backends.{backend}.{name}"
                yield key, _shown(name, value), self.origin(key)


def _revealed(key: str, value: object) -> object:
    """The *value* of the setting *key*, with its secrets, which are masked from now on."""
    if isinstance(value, SecretSetting):
        return value.reveal()
    if not isinstance(value, Mapping):
        return value
    table = {name: _revealed(f"{key}.{name}", part) for name, part in value.items()}
    if key.rpartition(".")[2] in ("headers", "extra_headers"):
        from appl.prompt.secret_headers import conceal_headers  # few settings have headers

        for name, text in table.items():  # one that comes from a variable is meant to be a secret
            if isinstance(text, str):
                every = isinstance(value[name], SecretSetting)
                conceal_headers(key, {name: text}, every=every)
    return table


def _shown(name: str, value: object) -> object:
    """A backend's setting without anything that is or may be secret."""
    if isinstance(value, SecretSetting):
        return str(value)
    if name == "headers" and isinstance(value, Mapping):
        return dict.fromkeys(value, _MASK)
    if isinstance(value, Mapping):
        return {key: _shown(str(key), part) for key, part in value.items()}
    return SECRET_PARTS.sub(_MASK, value) if isinstance(value, str) else value


KEYS: dict[str, Key] = {
    setting.name: Key(
        setting.name, setting.metadata["read"], setting.default, setting.metadata["help"]
    )
    for setting in fields(Config)
    if setting.metadata
}
"""The settings that have one value each; ``layout.TABLES`` are the others."""

"""The class of each setting: it says whether a project may choose the value without approval.

A project may choose names and numbers. A setting needs the user's approval if it names code, an
address, a variable of the environment or files outside of the project, or if it deletes runs.

Invariant: a setting without a class needs approval, whatever its value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from appl.backend import NUMBERS
from appl.config import schedule
from appl.config.layout import OF_BACKENDS


@dataclass(frozen=True, slots=True)
class SettingContext:
    """The context of a setting: the folder of its file, and the table of its backend."""

    folder: Path
    kind: str = ""
    table: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RestrictedSetting:
    """A setting that needs approval: its path of keys, its value, and the reason."""

    keys: tuple[str, ...]
    value: object
    why: str


KeyPath = tuple[str, ...]
Needs = Iterator[RestrictedSetting]
Class = Callable[[object, SettingContext], str | None]
"""Returns the reason why a value needs approval, ``None`` if it needs none."""

_NAME = re.compile(r"[\w .:/@+=,()*-]*")
_ADDRESS = re.compile(r"://|^//|https?:", re.IGNORECASE)
_VARIABLE = "os.environ/"
_OFF = ("off", "false", "no", "0")
_ON = ("on", "true", "yes", "1")
_CALLS_CODE = "names code that is imported and run"
_MOST = 10_000  # values of one setting that are looked at


def _parts(value: object) -> Iterator[object]:
    """*value* and everything in it, including keys, up to a limit that bounds the time."""
    waiting = [value]
    for _ in range(_MOST):
        if not waiting:
            return
        part = waiting.pop()
        yield part
        if isinstance(part, Mapping):
            waiting += [*part.keys(), *part.values()]
        elif isinstance(part, list | tuple):
            waiting += part
    yield None if not waiting else _ADDRESS  # no value of a file: more than is looked at


def text(value: object, place: SettingContext) -> str | None:
    """Text that a model or a server reads: no address and no variable of the environment."""
    for part in _parts(value):
        if part is _ADDRESS:
            return "holds too much to look at"
        if isinstance(part, Mapping) and set(part) == {"env"}:
            return f"reads the environment variable {part['env']}"
        if isinstance(part, str) and part.startswith(_VARIABLE):
            return f"reads the environment variable {part.removeprefix(_VARIABLE)}"
        if isinstance(part, str) and _ADDRESS.search(part):
            return "holds an address"
    return None


def name(value: object, place: SettingContext) -> str | None:
    """A name, a number, a switch, or several of them."""
    texts = (part for part in _parts(value) if isinstance(part, str))
    odd = any(not _NAME.fullmatch(part) or ".." in part for part in texts)
    return text(value, place) or ("is more than a name" if odd else None)


def named_code(value: object, place: SettingContext) -> str | None:
    """The name of something installed, or ``module:attribute``."""
    return _CALLS_CODE if isinstance(value, str) and ":" in value else name(value, place)


def code(value: object, place: SettingContext) -> str | None:
    """A setting that always names code."""
    return _CALLS_CODE


def address(value: object, place: SettingContext) -> str | None:
    """An address that prompts and keys are sent to."""
    return "is an address that prompts, keys or records are sent to"


def sent(value: object, place: SettingContext) -> str | None:
    """A part of every request; it may say where the request goes and who pays."""
    return "is sent with each request as it is"


def deletion(value: object, place: SettingContext) -> str | None:
    """A setting that deletes runs."""
    return "has recorded runs deleted"


def deletion_switch(value: object, place: SettingContext) -> str | None:
    """A setting that deletes runs unless it is off."""
    return None if str(value).strip().lower() in _OFF else deletion(value, place)


def protection(value: object, place: SettingContext) -> str | None:
    """A setting that keeps keys out of traces as long as it is on."""
    is_on = value is True or str(value).strip().lower() in _ON
    return None if is_on else "has what looks like a key recorded as it is"


def home(value: object, place: SettingContext) -> str | None:
    """The folder in which runs are kept and deleted."""
    return "is a folder in which runs are written and deleted"


def resumed(value: object, place: SettingContext) -> str | None:
    """A switch, or the name of a recorded run that answers are taken from."""
    if isinstance(value, bool) or str(value).strip().lower() in (*_OFF, *_ON):
        return None
    return "takes answers and arguments from a recorded run"


def folder(value: object, place: SettingContext) -> str | None:
    """A file or folder inside of the project; its links are followed."""
    if not isinstance(value, str):
        return name(value, place)
    return text(value, place) or (None if _inside(value, place) else "lies outside of the project")


def folders(value: object, place: SettingContext) -> str | None:
    """Files or folders inside of the project, by name."""
    if not isinstance(value, Mapping):
        return folder(value, place)
    # {env = "NAME"} is a mapping, too
    each = (folder(part, place) for part in value.values())
    return name(value, place) or next(filter(None, each), None)


def _inside(value: str, place: SettingContext) -> bool:
    """True if *value* is inside, seen from the project's folder and from the working directory."""
    roots = (place.folder, Path.cwd())
    try:
        paths = [(root / Path(value).expanduser()).resolve() for root in roots]
    except (OSError, RuntimeError, ValueError):
        return False
    return all(path.is_relative_to(place.folder) for path in paths)


def template(value: object, place: SettingContext) -> str | None:
    """A template: its text, the word ``plain``, or a file inside of the project."""
    return None if isinstance(value, str) and "{" in value else folder(value, place)


def key_of(variable: str) -> Class:
    """The class of a key: only the provider's own *variable* at the provider's address is free."""

    def why(value: object, place: SettingContext) -> str | None:
        if not (isinstance(value, Mapping) and set(value) == {"env"}):
            return "is a key, which decides who is asked and who pays"
        elsewhere = _ADDRESSES & {*place.table}
        if value["env"] == variable and not elsewhere:
            return None
        return f"sends the environment variable {value['env']}"

    return why


def unknown(value: object, place: SettingContext) -> str | None:
    """A setting that nobody has classified."""
    return "is not known to be harmless"


_ADDRESSES = frozenset({"base_url", "url", "azure_endpoint"})


def _all(kind: Class, names: str) -> dict[str, Class]:
    return dict.fromkeys(names.split(), kind)


SETTINGS: Mapping[str, Class] = {
    **_all(name, "model temperature max_tokens top_p seed concurrency trace durability"),
    **_all(name, "on_trace_error"),
    "stop": text,
    "backend_options": text,
    **_all(name, "privacy arguments ctl stream longest_wait batch"),
    **_all(deletion, "keep_age keep_runs keep_size"),
    **_all(deletion_switch, "gc keep_failed"),
    "backend": named_code,
    "mask_shapes": protection,
    "redact": code,
    "otel": address,
    "home": home,
    "resume": resumed,
}
"""The settings of ``appl.config.values.KEYS``."""

TABLES: Mapping[str, Mapping[str, Class]] = {
    table: dict.fromkeys((*keys, *(schedule.GONE if table == "schedule" else ())), name)
    for table, keys in schedule.TABLES.items()
}
"""The keys of the tables about scheduling: numbers, switches, and words of a short list."""

OPTIONS: Mapping[str, Class] = {
    **_all(name, "model prefer within"),
    **dict.fromkeys(NUMBERS, name),
    **_all(name, "frequency_penalty logit_bias min_p min_tokens presence_penalty top_k"),
    **_all(name, "repetition_penalty ignore_eos modalities parallel_tool_calls reasoning_effort"),
    **_all(name, "background routing_key service_tier store verbosity thinking"),
    **_all(text, "stop stop_regex structural_tag prediction user metadata safety_identifier"),
    **_all(text, "cache_salt extra_key prompt_cache_key chat_template_kwargs"),
    "lora": folder,
    "extra_body": sent,
}
"""Options of ``gen`` that a name of ``[models]`` may set, besides the model."""

BACKENDS: Mapping[str, Mapping[str, Class]] = {
    "openai": {
        **_all(name, "model organization project api_version server features without models"),
        "interface": name,
        **_all(name, "prices connect concurrency name"),
        **_all(address, "base_url azure_endpoint"),
        "headers": sent,
        "api_key": key_of("OPENAI_API_KEY"),
        "azure_ad_token": key_of("AZURE_OPENAI_AD_TOKEN"),
    },
    "anthropic": {
        **_all(name, "model max_tokens cache_marks without models prices connect concurrency name"),
        "base_url": address,
        "headers": sent,
        "api_key": key_of("ANTHROPIC_API_KEY"),
        "auth_token": key_of("ANTHROPIC_AUTH_TOKEN"),
    },
    "litellm": {
        **_all(name, "model api_version cache_marks without models concurrency name"),
        "base_url": address,
        **_all(sent, "headers parameters"),
        "api_key": key_of(""),
    },
    "sglang": {
        **_all(name, "model max_tokens connections connect_timeout tokens"),
        **_all(address, "url drafting prefill"),
        "api_key": key_of("SGLANG_API_KEY"),
        "admin_key": key_of("SGLANG_ADMIN_KEY"),
        "tokenizer": folder,
        "adapters": folders,
        "advise": code,
        "template": template,
    },
    "embedded": {
        **_all(name, "cache seed max_tokens max_batch chunk cache_tokens row_tokens threads ahead"),
        "tokens": name,
        "weights": folder,
        "adapters": folders,
    },
}
"""The settings of this package's backends. Those of other backends need approval."""


def needs(settings: Mapping[str, object], folder: Path) -> list[RestrictedSetting]:
    """The settings, read from a file in *folder*, that need approval."""
    place = SettingContext(folder)
    every = (
        need
        for key, value in settings.items()
        for need in _NESTED.get(key, _plain)((key,), value, place)
    )
    return list(every)


def _plain(keys: KeyPath, value: object, place: SettingContext) -> Needs:
    table = TABLES.get(keys[-1])
    if table is not None:
        yield from _table(keys, value, table, place)
    else:
        yield from _need(keys, value, SETTINGS.get(keys[0], unknown), place)


def _need(keys: KeyPath, value: object, kind: Class, place: SettingContext) -> Needs:
    why = kind(value, place)
    if why is not None:
        yield RestrictedSetting(keys, value, why)


def _table(
    keys: KeyPath, value: object, classes: Mapping[str, Class], place: SettingContext
) -> Needs:
    if not isinstance(value, Mapping):
        yield from _need(keys, value, name, place)
        return
    for key, part in value.items():
        yield from _need((*keys, str(key)), part, classes.get(str(key), unknown), place)


def _models(keys: KeyPath, value: object, place: SettingContext) -> Needs:
    for key, part in value.items() if isinstance(value, Mapping) else ():
        yield from _table((*keys, str(key)), part, OPTIONS, place)


def _options(keys: KeyPath, value: object, place: SettingContext) -> Needs:
    yield from _table(keys, value, OPTIONS, place)


def _prices(keys: KeyPath, value: object, place: SettingContext) -> Needs:
    yield from _need(keys, value, name, place)


def _backends(keys: KeyPath, value: object, place: SettingContext) -> Needs:
    for key, table in value.items() if isinstance(value, Mapping) else ():
        yield from _backend((*keys, str(key)), table, place.folder)


def _backend(keys: KeyPath, table: object, folder: Path) -> Needs:
    table = table if isinstance(table, Mapping) else {}
    place = SettingContext(folder, str(table.get("type", keys[-1])), table)
    yield from _need(keys, keys[-1], named_code, place)
    classes = {"type": named_code, **BACKENDS.get(place.kind, {})}
    for key, value in table.items():
        if key in OF_BACKENDS and isinstance(value, Mapping):
            yield from _table((*keys, key), value, TABLES[key], place)
        else:
            yield from _need((*keys, str(key)), value, classes.get(str(key), unknown), place)


_NESTED = {
    "models": _models,
    "prices": _prices,
    "backends": _backends,
    "backend_options": _options,
}

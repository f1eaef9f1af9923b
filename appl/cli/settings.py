"""``appl config``: every setting, its value and its origin."""

from __future__ import annotations

from appl.cli import parameters
from appl.cli.commands import Options, appl_command
from appl.cli.terminal import as_json, columns, out
from appl.config import KEYS, load
from appl.config.schedule import TABLES
from appl.session.backend_setup import Choice, choose
from appl.session.naming import check
from appl.tracing.recording.secret import Masker


@appl_command("config", example="appl config")
@parameters.as_json
def command(options: Options) -> None:
    """Show each setting, its value and where it comes from.

    Settings come from the defaults, the nearest appl.toml or [tool.appl] in pyproject.toml (from
    here up to the repository or the home folder), the environment (APPL_MODEL, APPL_BACKEND, …),
    appl.init, and arguments. Also checks the names for models and the settings of backends, and
    reports mistakes.
    """
    config = load()
    masker = Masker()  # a key may have been put where none belongs
    rows = [(key, masker.cleaned(value), origin) for key, value, origin in config.shown()]
    if options.json:
        check(config)
        out(as_json({key: {"value": v, "origin": origin} for key, v, origin in rows}, indent=2))
        return
    chosen = choose(config)
    table = [(key, _shown(value), origin, _help(key)) for key, value, origin in rows]
    out("\n".join(columns([("setting", "value", "from", "meaning"), *table])))
    for note in config.notes:
        out(f"\n{note}")
    unchecked = check(config)
    out("\n".join([f"\ncalls are answered by {_who(chosen)}", *unchecked]))


def _who(chosen: Choice) -> str:
    if chosen.placed is not None and chosen.placed.others:
        models = (chosen.placed, *chosen.placed.others)
        names = (f"{m.backend or chosen.backend}/{m.name or 'its default model'}" for m in models)
        return f"{' or '.join(names)}, by {chosen.placed.prefer}"
    backend, model = chosen.backend, chosen.model
    if chosen.placed is not None:
        backend, model = chosen.placed.backend or backend, chosen.placed.name
    return f"the backend {backend!r} with {model or 'its default model'}"


def _shown(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


def _help(key: str) -> str:
    if key in KEYS:
        return KEYS[key].help
    table, _, name = key.rpartition(".")
    table = table.rpartition(".")[2]
    if name in TABLES.get(table, ()):
        return TABLES[table][name].help
    if table == "prices":
        return "what a million tokens of this model cost"
    return "a name for a model" if key.startswith("models.") else "a setting of this backend"

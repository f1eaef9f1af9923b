"""A command line for programs of one's own, with the settings as options.

Invariant: only written options are set; the rest is left to the other sources of settings.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from appl.config.layers import init
from appl.config.values import KEYS

_MODELS = ("default", "small", "large")
_PREFIX = "appl."


class _Parser(argparse.ArgumentParser):
    """A parser that collects ``--appl.key value`` in ``args.appl``."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        parsed, rest = super().parse_known_args(args, namespace)
        ours = argparse.Namespace()
        for name, value in list(vars(parsed).items()):
            if name.startswith(_PREFIX):
                delattr(parsed, name)
                _put(ours, name.removeprefix(_PREFIX), value)
        parsed.appl = ours
        return parsed, rest


def _put(table: argparse.Namespace, name: str, value: object) -> None:
    head, _, rest = name.partition(".")
    if not rest:
        setattr(table, head, value)
        return
    if not hasattr(table, head):
        setattr(table, head, argparse.Namespace())
    _put(getattr(table, head), rest, value)


def get_parser(
    env_prefix: str = "", default_env: bool = True, **options: Any
) -> argparse.ArgumentParser:
    """A parser that takes every setting as ``--appl.KEY``, to which a program adds its own.

    ``args.appl`` is for :func:`update_appl_configs`. *env_prefix* and *default_env* are accepted
    for old programs: the environment (``APPL_MODEL``, …) always counts.
    """
    parser = _Parser(**options)
    group = parser.add_argument_group("settings of appl")
    for key in KEYS.values():
        group.add_argument(f"--{_PREFIX}{key.name}", metavar="VALUE", help=key.help)
    for name in _MODELS:
        help_text = "the default model" if name == "default" else f"what gen({name!r}) asks"
        group.add_argument(f"--{_PREFIX}default_servers.{name}", metavar="MODEL", help=help_text)
    return parser


def update_appl_configs(settings: argparse.Namespace | Mapping[str, object]) -> None:
    """Call ``appl.init`` with *settings*: ``args.appl`` of :func:`get_parser`, or a table."""
    init(**_given(settings))


def _given(settings: argparse.Namespace | Mapping[str, object]) -> dict[str, object]:
    table = vars(settings) if isinstance(settings, argparse.Namespace) else settings
    values: dict[str, object] = {}
    for key, value in table.items():
        if isinstance(value, argparse.Namespace | Mapping):
            value = _given(value) or None
        if value is not None:
            values[key] = value
    return values

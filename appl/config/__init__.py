"""Settings: one frozen value, with the origin of each part of it.

Arguments win over ``appl.init``, which wins over the environment, then the nearest ``appl.toml``,
``[tool.appl]`` or ``appl.yaml``, then the defaults. An unknown key is an error.
"""

from typing import TYPE_CHECKING

from appl.base.lazy_names import names_of
from appl.config.files import find_file
from appl.config.layers import TooLate, init, load, settle
from appl.config.readers import Key, switch
from appl.config.values import KEYS, Config, SecretSetting

if TYPE_CHECKING:
    from appl.config.aliases import Alias, followed
else:
    __getattr__ = names_of(__name__, {"aliases": "Alias followed"})

__all__ = [
    "KEYS",
    "Alias",
    "Config",
    "Key",
    "SecretSetting",
    "TooLate",
    "find_file",
    "followed",
    "init",
    "load",
    "settle",
    "switch",
]

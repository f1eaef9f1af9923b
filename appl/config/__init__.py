"""Settings: one frozen value, and where each part of it came from.

Arguments win over ``appl.init``, that over the environment, that over the nearest ``appl.toml``,
``[tool.appl]`` or ``appl.yaml``, that over the defaults; a key that is not known is an error.
"""

from appl.config.aliases import Alias, followed
from appl.config.files import find_file
from appl.config.layers import TooLate, init, load, settle
from appl.config.readers import Key, switch
from appl.config.values import KEYS, Config, Secret

__all__ = [
    "KEYS",
    "Alias",
    "Config",
    "Key",
    "Secret",
    "TooLate",
    "find_file",
    "followed",
    "init",
    "load",
    "settle",
    "switch",
]

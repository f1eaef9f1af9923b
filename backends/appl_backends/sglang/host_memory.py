"""The memory of this machine that a server may keep for a second tier of its prefix cache."""

from __future__ import annotations

import os
from pathlib import Path

_GB = 1_000_000_000
_SPARE_GB = 16
"""Left to everything else: the server itself refuses to take the last 10 GB."""
_SHARE = 0.5
_LEAST_GB = 8
"""Less than this for each GPU is not worth the longer start."""
_LIMITS = (
    ("memory.max", "memory.current"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
)
"""Files of control groups, of version 2 and 1, with the limit and what is used."""


def host_cache_gb(ranks: int, available: int | None = None) -> int:
    """The GB to keep for the caches of *ranks* GPUs together; 0 where there is too little.

    That is half of the *available* bytes, by default what this machine has free now.
    """
    free = free_bytes() if available is None else available
    whole = int(min(free * _SHARE, free - _SPARE_GB * _GB) // _GB)
    each = whole // ranks
    return each * ranks if each >= _LEAST_GB else 0


def free_bytes(groups: Path = Path("/sys/fs/cgroup")) -> int:
    """The bytes that new programs may take, also under the limit of a container."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for line in _text(Path("/proc/meminfo")).splitlines():
        if line.startswith("MemAvailable:"):
            free = int(line.split()[1]) * 1024
    for limit, used in _LIMITS:
        most, now = _text(groups / limit).strip(), _text(groups / used).strip()
        if most.isdecimal() and now.isdecimal():
            free = min(free, int(most) - int(now))
    return max(free, 0)


def _text(file: Path) -> str:
    try:
        return file.read_text("ascii")
    except (OSError, ValueError):
        return ""

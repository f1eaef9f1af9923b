"""Plain data as JSON that a browser reads without loss, and as text that stands in a page.

Invariant: what comes out is ASCII; packed text has no character that means something in HTML.
"""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

_EXACT = 1 << 53


def as_json(value: Any) -> bytes:
    """*value* as JSON; numbers that JSON or a browser lacks become text."""
    try:
        text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    except ValueError:
        text = json.dumps(exact(value), allow_nan=False, separators=(",", ":"))
    return text.encode("ascii")


def exact(value: Any) -> Any:
    """*value* with text in place of NaN, infinities and integers that a double cannot hold."""
    if isinstance(value, dict):
        return {str(key): exact(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [exact(item) for item in value]
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= _EXACT:
        return str(value)
    return value


def packed(value: Any) -> str:
    """*value* as compressed JSON in base64, the same for the same value."""
    return base64.b64encode(gzip.compress(as_json(value), 6, mtime=0)).decode("ascii")

"""Plain data as JSON that a browser reads without loss, and as text that stands in a page.

Invariant: what comes out is ASCII, and holds no secret of the environment; packed text has no
character that means something in HTML.
"""

from __future__ import annotations

import base64
import gzip
import json

from appl.tracing.recording.secret import Masker

_EXACT = 1 << 53


def as_json(value: object, masker: Masker | None = None) -> bytes:
    """*value* as JSON without the secrets that *masker* knows.

    Numbers that JSON or a browser lacks become text."""
    try:
        data = _dumped(value)
    except ValueError:
        data = _dumped(exact(value))
    if masker is not None and masker.finds(data):
        return _dumped(_masked(exact(value), masker))
    return data


def _dumped(value: object) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")


def _masked(value: object, masker: Masker) -> object:
    if isinstance(value, str):
        return masker.text(value, [])
    if isinstance(value, dict):
        return {masker.text(key, []): _masked(item, masker) for key, item in value.items()}
    return [_masked(item, masker) for item in value] if isinstance(value, list) else value


def exact(value: object) -> object:
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


def packed(value: object, masker: Masker | None = None) -> str:
    """*value* as compressed JSON in base64, the same for the same value."""
    return base64.b64encode(gzip.compress(as_json(value, masker), 6, mtime=0)).decode("ascii")

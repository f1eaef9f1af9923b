"""The page of the viewer: one HTML document that loads nothing from elsewhere.

Invariant: script and style are those that were built, pinned by their digests; all that was
recorded stands in blocks of base64, which no browser runs.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import itertools
import os
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from appl.base.collecting import no_collection
from appl.errors import TraceWriteError
from appl.tracing.viewer.page_data import packed

if TYPE_CHECKING:
    from appl.tracing.viewer.view import Views

PAGE = 500
"""The number of calls, and of messages, in a block of an exported page."""


@functools.cache
def _built(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


def policy(connect: str) -> str:
    """The content security policy; *connect* is ``'self'`` for a served page, else ``'none'``."""
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src '{_digest(_built('viewer.js'))}'",
            f"style-src '{_digest(_built('viewer.css'))}'",
            f"connect-src {connect}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        ]
    )


def page(*, is_list: bool = False) -> str:
    """The page that asks its server for data: of a run, or of a list of runs."""
    return "".join(_parts(iter(()), is_list))


def export(views: Views, path: str | os.PathLike[str]) -> int:
    """Write the page with all data in it to *path*; its size in bytes.

    The file is readable by its owner alone, as traces are. Raises ``TraceWriteError``.
    """
    target, size = Path(path), 0
    begun = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        fd = os.open(begun, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(fd, "wb") as file, no_collection():
                for part in _parts(_blocks(views)):
                    size += file.write(part.encode())
            begun.replace(target)
        except BaseException:
            begun.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise TraceWriteError(f"cannot write {target}: {error.strerror}") from error
    return size


def _parts(blocks: Iterator[tuple[str, str]], is_list: bool = False) -> Iterator[str]:
    first = next(blocks, None)
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    if first is not None:
        rules = policy("'none'").replace("; frame-ancestors 'none'", "")  # of no effect in a meta
        yield f'<meta http-equiv="Content-Security-Policy" content="{rules}">\n'
    yield '<meta name="referrer" content="no-referrer">\n'
    yield '<meta name="color-scheme" content="light dark">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield '<link rel="icon" href="data:,">\n<title>appl trace</title>\n'
    kind = ' data-page="runs"' if is_list else ""
    yield f"<style>{_built('viewer.css')}</style>\n</head>\n<body{kind}>\n"
    yield "<noscript>This page shows a recorded run with JavaScript.</noscript>\n"
    for name, text in itertools.chain([first] if first else [], blocks):
        yield f'<script type="application/gzip" data-name="{name}">{text}</script>\n'
    yield f"<script>{_built('viewer.js')}</script>\n</body>\n</html>\n"


def _blocks(views: Views) -> Iterator[tuple[str, str]]:
    """All documents by name, in a form that needs no server."""
    masker = views.masker
    yield "runs", packed(views.document("runs", {}), masker)
    for name, view in views.runs.items():
        view.read()
        for only in ("run", "scopes", "prefixes", "critical", "costs", "evaluations"):
            yield f"{name}/{only}", packed(view.document(only, {}), masker)
        since, more = 0, True
        while more:
            changes = view.document("rows", {"since": str(since)})
            yield f"{name}/rows/{since}", packed(changes, masker)
            since, more = changes["next"], changes["more"]
        for start in range(0, len(view.rows), PAGE):
            rows = range(start, min(start + PAGE, len(view.rows)))
            calls = [view.texts.call(row) for row in rows]
            yield f"{name}/calls/{start // PAGE}", packed(calls, masker)
        for start in range(0, len(view.texts), PAGE):
            numbers = range(start, min(start + PAGE, len(view.texts)))
            yield f"{name}/messages/{start // PAGE}", packed(view.texts.messages(numbers), masker)
    if "b" in views.runs:
        yield "diff", packed(views.document("diff", {}), masker)

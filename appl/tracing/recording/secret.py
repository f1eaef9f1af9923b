"""Secrets kept out of what is written: found by value, masked, and the record marked.

Invariant: no string of a record that ``Masker.filter`` let pass holds a known secret, plain, JSON-
or URL-encoded. Known are the values of secret-looking environment variables, those that programs
gave to backends, and those given.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from appl.prompt.secret import LONG_ENOUGH as MIN_LENGTH
from appl.prompt.secret import concealed, forms, values_in
from appl.tracing.format import codec
from appl.tracing.format.allowance import unlimited

MASKED = "!"


def _is_path(value: str) -> bool:
    return value.startswith("/") and os.access(value, os.F_OK)  # false where it may not be read


def _environment() -> dict[bytes, bytes]:
    """The environment as it is now, as one step: other threads may change it meanwhile.

    The mapping itself can only be gone through name by name, which fails then, and is ten times
    as slow.
    """
    raw: dict[bytes, bytes] = vars(os.environ)["_data"]
    return raw.copy()


class Masker:
    """Knows the secrets of this process and takes them out of records."""

    def __init__(self, given: Mapping[str, str] | Iterable[str] = ()) -> None:
        named = (
            given if isinstance(given, Mapping) else {f"secret{i}": s for i, s in enumerate(given)}
        )
        self._given = {name: value for name, value in named.items() if len(value) >= MIN_LENGTH}
        self._seen: tuple[Any, Any, Any] = (None, None, None)
        self._forms: list[tuple[str, str]] = []
        self._bytes: list[bytes] = []
        self.refresh()

    def add(self, secrets: Mapping[str, str]) -> None:
        """Know *secrets*, by name, too, however short they are."""
        if not secrets.items() <= self._given.items():
            self._given = {**self._given, **secrets}

    def refresh(self) -> None:
        """Look at the environment again; it may have changed since."""
        seen = given, of_program, environment = self._given, concealed(), _environment()
        if seen == self._seen:
            return
        decoded = ((os.fsdecode(name), os.fsdecode(each)) for name, each in environment.items())
        known = (
            given
            | of_program
            | {
                shown: each
                for name, value in decoded
                if not _is_path(value)
                for shown, each in values_in(name, value).items()
            }
        )
        pairs = [
            (form, name)
            for name, value in known.items()
            if not _is_path(value)
            for form in forms(value)
        ]
        self._forms = sorted(pairs, key=lambda pair: -len(pair[0]))
        self._bytes = [form.encode("utf-8", "surrogatepass") for form, _ in self._forms]
        self._seen = seen  # last: another thread that finds it the same goes by the forms

    def forms(self) -> list[tuple[str, str]]:
        """Every form in which a secret may stand in text, and the name of the secret."""
        self.refresh()
        return self._forms

    def filter(self, items: list[bytes]) -> list[bytes]:
        """*items* as they may be written."""
        self.refresh()
        if not self._bytes:
            return items
        whole = b"".join(items)
        if not any(form in whole for form in self._bytes):
            return items
        return [self._item(item) if self._hit(item) else item for item in items]

    @property
    def longest(self) -> int:
        """The length of the longest form of a secret, in characters."""
        return len(self._forms[0][0]) if self._forms else 0

    def finds(self, data: bytes) -> bool:
        """Whether there is a secret in *data*."""
        self.refresh()
        return self._hit(data)

    def _hit(self, item: bytes) -> bool:
        return any(form in item for form in self._bytes)

    def _item(self, item: bytes) -> bytes:
        return b"".join(
            codec.pack(self._record(record)) for record in codec.unpack(item, unlimited())
        )

    def _record(self, record: Any) -> Any:
        found: list[str] = []
        tag, *rest = record
        clean = self._clean(rest, found)
        if not found:
            return record
        if tag == MASKED:
            names, inner = clean
            return (MASKED, sorted({*names, *found}), inner)
        return (MASKED, sorted(set(found)), _without_tokens([tag, *clean]))

    def _clean(self, value: Any, found: list[str]) -> Any:
        if isinstance(value, str):
            return self.text(value, found)
        if isinstance(value, bytes):
            return self._clean_bytes(value, found)
        if isinstance(value, list):
            return [self._clean(item, found) for item in value]
        if isinstance(value, dict):
            return {self._clean(k, found): self._clean(v, found) for k, v in value.items()}
        return value

    def _clean_bytes(self, value: bytes, found: list[str]) -> bytes:
        if not self._hit(value):
            return value
        text = value.decode("latin-1")
        for (_, name), form in zip(self._forms, self._bytes, strict=True):
            if form in value:
                text = text.replace(form.decode("latin-1"), f"[secret {name}]")
                found.append(name)
        return text.encode("latin-1", "replace")

    def cleaned(self, value: Any) -> Any:
        """Plain data without the secrets."""
        return self._clean(value, [])

    def text(self, text: str, found: list[str]) -> str:
        """*text* without the secrets; their names are added to *found*."""
        for form, name in self._forms:
            if form in text:
                text = text.replace(form, f"[secret {name}]")
                found.append(name)
        return text


def _without_tokens(record: list[Any]) -> list[Any]:
    """A masked answer without its tokens, which spell out the secret piece by piece."""
    if record[0] == "E" and isinstance(record[3], list) and record[2] == 0:
        record[3][0] = [[text, reason, None, *more] for text, reason, _, *more in record[3][0]]
    return record

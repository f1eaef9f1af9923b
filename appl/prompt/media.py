"""Images and sounds as parts of messages: immutable values, known by their content.

Invariant: nothing is fetched and nothing decoded; a URL stays a reference, bytes stay those bytes.
"""

from __future__ import annotations

import base64
import functools
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Self

from appl.prompt.digest import digest_of

Kind = Literal["image", "audio"]


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Media:
    """An image or a sound: a URL, or bytes with their MIME type."""

    _NAMES: ClassVar = ("url", "data", "mime", "detail", "_digest")
    kind: ClassVar[Kind]
    url: str | None
    data: bytes
    mime: str
    detail: str | None
    _digest: bytes | None = field(compare=False)

    def fill(self, url: str | None, data: bytes, mime: str, detail: str | None) -> None:
        """Give a new medium its content."""
        for name, value in zip(self._NAMES, (url, data, mime, detail, None), strict=True):
            object.__setattr__(self, name, value)

    @classmethod
    def restored(cls, url: str | None, data: bytes, mime: str, detail: str | None) -> Self:
        """A recorded medium, taken as it is: secrets may have been masked in it."""
        medium = object.__new__(cls)
        medium.fill(url, data, mime, detail)
        return medium

    @property
    def digest(self) -> bytes:
        """The digest of the content; computed once."""
        digest = self._digest
        if digest is None:
            where = "url" if self.url is not None else "data"
            what = self.url if self.url is not None else self.data
            digest = digest_of(self.kind, where, what, self.mime, self.detail or "")
            object.__setattr__(self, "_digest", digest)
        return digest

    @property
    def feature(self) -> str:
        """The feature that a backend needs for it: ``images`` or ``audio``."""
        return "images" if self.kind == "image" else "audio"

    def as_url(self) -> str:
        """The URL, or the bytes as a ``data:`` URL."""
        if self.url is not None:
            return self.url
        return f"data:{self.mime};base64,{self.as_base64()}"

    def as_base64(self) -> str:
        """The bytes in base64; empty for a URL."""
        return base64.b64encode(self.data).decode("ascii")

    def as_part(self) -> dict[str, object]:
        """The content part of a chat message, as OpenAI-compatible servers take it."""
        raise NotImplementedError

    def __str__(self) -> str:
        what = self.url if self.url is not None else f"{self.mime}, {len(self.data)} bytes"
        return f"[{self.kind} {what}]"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {str(self)[len(self.kind) + 2 : -1]}>"


def as_media(value: object) -> Media | None:
    """*value* as an image or a sound, when it is one; a PIL image counts, and is encoded."""
    if isinstance(value, Media):
        return value
    if is_picture(type(value)):  # type: ignore[arg-type]  # classes are hashable
        from appl.prompt.media_types import Image

        return Image.from_image(value)
    return None


@functools.lru_cache(maxsize=1024)
def is_picture(kind: type) -> bool:
    """True if *kind* is a class of PIL images; PIL is not imported to find out."""
    return any(base.__name__ == "Image" and base.__module__ == "PIL.Image" for base in kind.__mro__)

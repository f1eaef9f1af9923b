"""The kinds of media, made of what a program has: files, bytes, base64, URLs, PIL images."""

from __future__ import annotations

import base64
import binascii
import io
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

from appl.errors import InvalidOption, nearest
from appl.prompt.media import Media

_SIGNS: tuple[tuple[int, bytes, str], ...] = (
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF8", "image/gif"),
    (8, b"WEBP", "image/webp"),
    (0, b"BM", "image/bmp"),
    (8, b"WAVE", "audio/wav"),
    (0, b"ID3", "audio/mpeg"),
    (0, b"\xff\xfb", "audio/mpeg"),
    (0, b"\xff\xf3", "audio/mpeg"),
    (0, b"\xff\xf2", "audio/mpeg"),
    (0, b"OggS", "audio/ogg"),
    (0, b"fLaC", "audio/flac"),
    (4, b"ftypM4A", "audio/mp4"),
)
"""Where in a file, and with which bytes, its type can be recognised."""

_SUFFIXES = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "bmp": "image/bmp",
    "tif": "image/tiff",
    "tiff": "image/tiff",
    "svg": "image/svg+xml",
    "avif": "image/avif",
    "heic": "image/heic",
    "wav": "audio/wav",
    "mp3": "audio/mpeg",
    "ogg": "audio/ogg",
    "opus": "audio/ogg",
    "flac": "audio/flac",
    "m4a": "audio/mp4",
    "aac": "audio/aac",
}
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_FORMATS = {"audio/mpeg": "mp3", "audio/x-wav": "wav", "audio/wave": "wav"}


_DETAILS = ("low", "high", "auto")


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Image(Media):
    """An image: ``Image("https://…")`` keeps the reference, ``from_file`` and others the bytes.

    *detail* is how closely the model is to look (``low``, ``high``, ``auto``), where it can choose.
    As a statement, or inside an f-string, it becomes a part of the message. Raises
    ``InvalidOption`` for bytes that are no image.
    """

    kind = "image"

    def __init__(
        self,
        url: str | None = None,
        detail: str | None = None,
        *,
        data: bytes = b"",
        mime: str = "",
    ) -> None:
        _fill(self, url, data, mime, detail)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], detail: str | None = None) -> Image:
        """The image in the file *path*, read now. Raises ``OSError``."""
        data = _read(path)
        return cls(detail=detail, data=data, mime=_type_of(data, path))

    @classmethod
    def from_bytes(cls, data: bytes, mime: str = "", *, detail: str | None = None) -> Image:
        """The image that *data* holds; *mime* is its type, when the bytes do not show it."""
        return cls(detail=detail, data=_octets(data), mime=mime)

    @classmethod
    def from_image(cls, image: Any, detail: str | None = None) -> Image:
        """A PIL image, as PNG."""
        if not (hasattr(image, "save") and hasattr(image, "mode")):
            raise InvalidOption(f"Image.from_image takes a PIL image, got {image!r:.80}")
        stream = io.BytesIO()
        if image.mode not in ("1", "L", "LA", "I", "P", "RGB", "RGBA", "I;16"):
            image = image.convert("RGB")
        image.save(stream, format="PNG")
        return cls(detail=detail, data=stream.getvalue(), mime="image/png")

    def as_part(self) -> dict[str, object]:
        """``{"type": "image_url", …}``."""
        shown = {"url": self.as_url(), **({"detail": self.detail} if self.detail else {})}
        return {"type": "image_url", "image_url": shown}


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Audio(Media):
    """A sound: ``Audio(data, "wav")`` with bytes or base64 text, ``from_file``, ``from_url``.

    Raises ``InvalidOption`` for bytes that are no sound.
    """

    kind = "audio"

    def __init__(
        self, data: bytes | str = b"", format: str = "", *, url: str | None = None, mime: str = ""
    ) -> None:
        content = _from_base64(data) if isinstance(data, str) else _octets(data)
        if format:
            mime = mime or _SUFFIXES.get(format.lower(), f"audio/{format.lower()}")
        _fill(self, url, content, mime, None)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Audio:
        """The sound in the file *path*, read now. Raises ``OSError``."""
        data = _read(path)
        return cls(data, mime=_type_of(data, path))

    @classmethod
    def from_bytes(cls, data: bytes, mime: str = "") -> Audio:
        """The sound that *data* holds; *mime* is its type, when the bytes do not show it."""
        return cls(data, mime=mime)

    @classmethod
    def from_url(cls, url: str, format: str = "") -> Audio:
        """A sound that lies at *url*: the reference is kept, nothing is fetched."""
        return cls(url=url, format=format)

    @property
    def format(self) -> str:
        """The short name of the type: ``wav``, ``mp3``, …"""
        return _FORMATS.get(self.mime, self.mime.rpartition("/")[2])

    def as_part(self) -> dict[str, object]:
        """``{"type": "input_audio", …}``, or ``audio_url`` for a reference."""
        if self.url is not None:
            return {"type": "audio_url", "audio_url": {"url": self.url}}
        sound = {"data": self.as_base64(), "format": self.format}
        return {"type": "input_audio", "input_audio": sound}


def _fill(medium: Media, url: str | None, data: bytes, mime: str, detail: str | None) -> None:
    """Give *medium* its content. Raises ``InvalidOption`` where it is none of its kind."""
    if (url is None) == (not data):
        raise InvalidOption(f"{type(medium).__name__} takes a URL or bytes, one of them")
    if url is not None and not isinstance(url, str):
        raise InvalidOption(f"{type(medium).__name__} takes a URL, got {url!r:.80}")
    if url is not None and url[:5].lower() == "data:":  # RFC 2397
        head, comma, body = url[5:].partition(",")
        if not comma:
            raise InvalidOption(f"a data URL needs a comma before its data, got {url[:60]!r}")
        mime, *parameters = head.split(";")
        data = _from_base64(body) if "base64" in parameters else unquote_to_bytes(body)
        if not data:
            raise InvalidOption(f"the data URL {url[:60]!r} holds no data")
        url = None
    elif url is not None and not _SCHEME.match(url):
        name = type(medium).__name__
        raise InvalidOption(
            f"{name} takes a URL, got {url!r:.80}; for a file write {name}.from_file(...)"
        )
    if data:
        mime = mime or _sniffed(data)
        if mime.partition("/")[0] != medium.kind:
            raise InvalidOption(
                f"these bytes are no {medium.kind} that is known ({mime or 'unknown type'}); to "
                f'name the type write {type(medium).__name__}.from_bytes(data, "{medium.kind}/...")'
            )
    if detail and detail not in _DETAILS:
        hint = nearest(detail, _DETAILS, 0.7) if isinstance(detail, str) else " "
        if hint:  # it is a misspelt known word; other words are left to the model
            details = ", ".join(_DETAILS)
            raise InvalidOption(f"Image(detail={detail!r:.80}) is one of {details}{hint.rstrip()}")
    medium.fill(url, data, mime, detail or None)


def _read(path: str | os.PathLike[str]) -> bytes:
    data = Path(path).read_bytes()
    if not data:
        raise InvalidOption(f"the file {os.fspath(path)!r} is empty")
    return data


def _octets(data: object) -> bytes:
    """*data* as bytes; refuses a number, which ``bytes`` would turn into zeros."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise InvalidOption(f"bytes are needed, got {data!r:.80}; for a file write from_file(path)")
    return bytes(data)


def _type_of(data: bytes, path: str | os.PathLike[str]) -> str:
    """The MIME type that the bytes show, else the one that the name says."""
    return _sniffed(data) or _SUFFIXES.get(Path(path).suffix[1:].lower(), "")


def _sniffed(data: bytes) -> str:
    return next((mime for at, sign, mime in _SIGNS if data.startswith(sign, at)), "")


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidOption(f"this is not base64: {error}") from error

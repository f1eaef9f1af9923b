"""Images and sounds: where they come from, what is known of them, what is refused."""

from __future__ import annotations

import base64
import copy
import io
import pickle
from pathlib import Path

import PIL.Image
import pytest

from appl import Audio, Image
from appl.errors import InvalidOption
from appl.prompt import as_media

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
WAV = b"RIFF\x24\x00\x00\x00WAVEfmt " + bytes(28)


def test_a_url_is_kept_as_a_reference() -> None:
    image = Image("https://example.com/cat.png", "low")
    assert (image.url, image.data, image.detail) == ("https://example.com/cat.png", b"", "low")
    assert image.as_part() == {
        "type": "image_url",
        "image_url": {"url": "https://example.com/cat.png", "detail": "low"},
    }


def test_the_type_of_bytes_is_seen_in_them(tmp_path: Path) -> None:
    (tmp_path / "wrong-name.jpg").write_bytes(PNG)
    (tmp_path / "sound").write_bytes(WAV)
    assert Image.from_bytes(PNG).mime == "image/png"
    assert Image.from_file(tmp_path / "wrong-name.jpg").mime == "image/png"
    assert Audio.from_file(tmp_path / "sound").format == "wav"


def test_the_name_of_a_file_tells_what_its_bytes_do_not(tmp_path: Path) -> None:
    (tmp_path / "drawing.svg").write_bytes(b"<svg/>")
    assert Image.from_file(tmp_path / "drawing.svg").mime == "image/svg+xml"


def test_a_data_url_is_its_bytes() -> None:
    image = Image.from_bytes(PNG)
    assert Image(image.as_url()) == image
    assert Image("data:image/svg+xml,%3Csvg/%3E").data == b"<svg/>"


def test_a_sound_is_given_as_bytes_base64_or_url() -> None:
    text = base64.b64encode(b"\x00\x01").decode()
    assert Audio(text, "mp3") == Audio(b"\x00\x01", "mp3")
    assert Audio(text, "mp3").mime == "audio/mpeg"
    assert Audio(WAV).as_part()["input_audio"]["format"] == "wav"
    assert Audio.from_url("https://example.com/a.wav", "wav").as_part() == {
        "type": "audio_url",
        "audio_url": {"url": "https://example.com/a.wav"},
    }


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "P", "1", "CMYK", "YCbCr", "LA", "I;16", "F"])
def test_a_pil_image_of_any_mode_becomes_png(mode: str) -> None:
    image = Image.from_image(PIL.Image.new(mode, (3, 2)))
    assert image.mime == "image/png"
    assert PIL.Image.open(io.BytesIO(image.data)).size == (3, 2)


def test_equal_pictures_have_equal_digests() -> None:
    one, other = PIL.Image.new("RGB", (2, 2), "red"), PIL.Image.new("RGB", (2, 2), "blue")
    digests = [Image.from_image(each).digest for each in (one, one.copy(), other)]
    assert digests[0] == digests[1] != digests[2]


def test_digests_tell_kinds_urls_types_and_details_apart() -> None:
    made = [
        Image("https://a/b"),
        Image("https://a/b", "low"),
        Image("https://a/c"),
        Image.from_bytes(PNG),
        Image.from_bytes(PNG, "image/x-other"),
        Audio.from_url("https://a/b"),
    ]
    assert len({each.digest for each in made}) == len(made)


def test_a_file_opened_by_pil_is_a_picture_and_other_things_are_not() -> None:
    opened = PIL.Image.open(io.BytesIO(PNG))
    assert type(opened) is not PIL.Image.Image
    assert isinstance(as_media(opened), Image)
    assert as_media(PIL.Image) is None
    assert as_media("x") is None


def test_media_are_values() -> None:
    image = Image.from_bytes(PNG, detail="high")
    digest = image.digest
    again = pickle.loads(pickle.dumps(image))
    assert again == image == copy.deepcopy(image)
    assert again.digest == digest
    assert {image: 1}[again] == 1
    with pytest.raises(AttributeError):
        image.url = "x"  # type: ignore[misc]


def test_what_is_shown_of_media_is_short() -> None:
    assert str(Image.from_bytes(PNG)) == f"[image image/png, {len(PNG)} bytes]"
    assert repr(Image("https://a/b")) == "<Image https://a/b>"


def test_a_path_in_place_of_a_url_is_told_what_to_write() -> None:
    with pytest.raises(InvalidOption, match=r"write Image.from_file"):
        Image("cat.png")


@pytest.mark.parametrize(
    "make",
    [
        lambda: Image(),
        lambda: Image("https://a/b", data=PNG),
        lambda: Image.from_bytes(b"plain"),
        lambda: Image.from_bytes(WAV),
        lambda: Audio(PNG),
        lambda: Audio("not base64!", "wav"),
        lambda: Image("data:image/png;base64"),
        lambda: Image("data:image/png;base64,"),
        lambda: Image(5),  # type: ignore[arg-type]
        lambda: Image.from_bytes("cat.png"),  # type: ignore[arg-type]
        lambda: Image.from_bytes(5, "image/png"),  # type: ignore[arg-type]
        lambda: Image.from_image("cat.png"),
        lambda: Audio(5, "wav"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_image_or_sound_is_refused(make) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidOption):
        make()


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.png").touch()
    with pytest.raises(InvalidOption, match="is empty"):
        Image.from_file(tmp_path / "empty.png")

"""The page: what was built, what an export holds, and that nothing recorded can run."""

from __future__ import annotations

import base64
import gzip
import re
import stat
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path

import pytest
from made import call, small_trace
from markup import MARK, hostile_trace

import appl.tracing.viewer
from appl.errors import TraceWriteError
from appl.tracing import Recorder
from appl.tracing.viewer import View, Views, export, page

ROOT = Path(__file__).parents[2]
BUILT = Path(appl.tracing.viewer.__file__).parent
SOURCES = sorted((ROOT / "viewer" / "src").rglob("*.ts"))
PARSES_MARKUP = re.compile(
    r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function|DOMParser|"
    r"createContextualFragment|setHTML|srcdoc|\bimport\(|javascript:|createElement\([^t]"
)


class Outline(HTMLParser):
    """The elements of a page, with the text of its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self._in_script = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self._in_script = tag == "script"
        if self._in_script:
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        self._in_script = False

    def handle_data(self, data: str) -> None:
        if self._in_script:
            about, text = self.scripts.pop()
            self.scripts.append((about, text + data))


@pytest.fixture
def hostile(path: Path, tmp_path: Path) -> str:
    with closing(View(hostile_trace(path))) as view:
        export(Views(view), tmp_path / "run.html")
    return (tmp_path / "run.html").read_text("utf-8")


def test_the_built_files_are_small_and_stand_in_a_page_as_they_are() -> None:
    sizes = [(BUILT / name).stat().st_size for name in ("viewer.js", "viewer.css")]
    assert 10_000 < sum(sizes) <= 400_000
    script = (BUILT / "viewer.js").read_text("utf-8")
    assert "</script" not in script.lower()
    assert "<!--" not in script
    assert "</style" not in (BUILT / "viewer.css").read_text("utf-8").lower()


def test_nothing_is_loaded_from_elsewhere() -> None:
    for name in ("viewer.js", "viewer.css"):
        text = (BUILT / name).read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(
            r"https?:|//[a-z0-9.-]+\.[a-z]{2,}/|url\(|@import|sourceMappingURL", text
        )
    assert not re.search(r"\b(src|href)=\"(?!data:)", page())


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: file.name)
def test_no_source_makes_elements_out_of_text(file: Path) -> None:
    assert not PARSES_MARKUP.findall(file.read_text("utf-8"))


def test_there_are_sources_to_look_through() -> None:
    assert {"main.ts", "dom.ts", "reader.ts"} <= {file.name for file in SOURCES}


def test_an_export_has_one_script_and_data_in_base64(hostile: str) -> None:
    outline = Outline(hostile)
    runs = [text for about, text in outline.scripts if "type" not in about]
    assert runs == [(BUILT / "viewer.js").read_text("utf-8")]
    blocks = [text for about, text in outline.scripts if "type" in about]
    assert len(blocks) >= 8
    assert all(re.fullmatch(r"[A-Za-z0-9+/=]+\n?", text.strip()) for text in blocks)
    assert MARK not in hostile
    assert not any(name.startswith("on") for name, _ in outline.attributes)
    assert not {"img", "iframe", "object", "embed", "svg", "a", "form"} & set(outline.tags)


def test_an_export_forbids_every_connection(hostile: str) -> None:
    (rules,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', hostile)
    assert "connect-src 'none'" in rules
    assert rules.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in rules


def test_the_same_run_is_exported_the_same_way(path: Path, tmp_path: Path) -> None:
    small_trace(path)
    for name in ("one.html", "two.html"):
        with closing(View(path)) as view:
            assert export(Views(view), tmp_path / name) == (tmp_path / name).stat().st_size
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()


def test_an_export_is_for_its_owner_alone_and_all_or_nothing(path: Path, tmp_path: Path) -> None:
    small_trace(path)
    with closing(View(path)) as view:
        export(Views(view), tmp_path / "run.html")
        assert stat.S_IMODE((tmp_path / "run.html").stat().st_mode) == 0o600
        with pytest.raises(TraceWriteError, match=r"cannot write .*nowhere"):
            export(Views(view), tmp_path / "nowhere" / "run.html")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["run.html", "runs"]


def test_a_secret_that_is_known_by_now_is_masked_on_the_way_out(path: Path, tmp_path: Path) -> None:
    secret = 'sk-"é\\canary-77'
    recorder = Recorder(path, {"program": secret})
    call(recorder, f"/{secret}.0/gen.0", f"say {secret}", f"said {secret}")
    recorder.close()
    with closing(View(path)) as view:
        views = Views(view)
        views.masker.add({"LATER_KEY": secret})
        for name in ("run", "rows", "scopes", "call", "prefixes"):
            assert b"canary" not in views.json(f"a/{name}", {})
        assert b"[secret LATER_KEY]" in views.json("a/messages", {"ids": "0"})
        export(views, tmp_path / "run.html")
    text = (tmp_path / "run.html").read_text("utf-8")
    blocks = re.findall(r"data-name=\"[^\"]*\">([^<]*)<", text)
    assert blocks
    assert not any(b"canary" in gzip.decompress(base64.b64decode(block)) for block in blocks)

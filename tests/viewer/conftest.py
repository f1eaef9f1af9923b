"""Traces for the viewer, a server of them, and one Chromium for all tests that need it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "tracing")]

from browser import AXE, Chromium, Listed, Page, Serve, Show, executable  # noqa: E402

from appl.tracing.viewer import RunList, View, ViewerServer, Views  # noqa: E402

# CI installs Chromium and axe-core, and fails where one is missing; elsewhere these tests need them
_needs = {
    "test_browser.py": executable(),
    "test_run_list_browser.py": executable(),
    "test_accessibility.py": executable() and AXE.exists(),
}
collect_ignore = [name for name, met in _needs.items() if not met and not os.environ.get("CI")]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "some.trace"


@pytest.fixture
def serve() -> Iterator[Serve]:
    """A server of the runs at one or two paths."""
    with ExitStack() as stack:

        def made(*paths: Path) -> ViewerServer:
            views = [stack.enter_context(closing(View(path))) for path in paths]
            return stack.enter_context(ViewerServer(Views(*views)))

        yield made


@pytest.fixture
def listed() -> Iterator[Listed]:
    """A server of the list of runs below a folder; an answer to one is only repeated."""

    def answers(path: Path) -> Callable[[str, str], str]:
        return lambda address, text: f"{path.stem} {address} {text}"

    with ExitStack() as stack:

        def made(home: Path) -> ViewerServer:
            runs = stack.enter_context(closing(RunList(home, answers=answers)))
            return stack.enter_context(ViewerServer(runs))

        yield made


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """A browser, for the tests of one file: beside its thread the replays of others wait longer."""
    with closing(Chromium(tmp_path_factory.mktemp("chromium"))) as browser:
        yield browser


@pytest.fixture
def show(chromium: Chromium) -> Iterator[Show]:
    """A page of the browser that shows an address; at the end it must have nothing to complain."""
    pages: list[Page] = []

    def opened(url: str, **given: object) -> Page:
        page = chromium.page(url, **given)  # type: ignore[arg-type]
        pages.append(page)
        page.until("document.querySelector('.state').innerText")
        page.until("document.querySelector('.state').dataset.state != 'reading'")
        return page

    yield opened
    for page in pages:
        page.close()
        assert (page.complaints, page.dialogs) == ([], [])

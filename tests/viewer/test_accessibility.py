"""The viewer as axe-core judges it: every view, light and dark."""

from __future__ import annotations

from pathlib import Path

from browser import AXE, Listed, Serve, Show
from folders import many_runs
from large import large_trace
from test_browser import VIEWS, visit

VIOLATIONS = """axe.run(document, {resultTypes: ['violations']}).then(({violations}) =>
  violations.map(({id, nodes}) =>
    `${id}: ${nodes.map(({html, failureSummary}) => html + failureSummary).join('; ').slice(0, 900)}`))"""


def test_axe_finds_nothing(path: Path, tmp_path: Path, serve: Serve, show: Show) -> None:
    other = large_trace(tmp_path / "other.trace", 60, seed=2)
    page = show(serve(large_trace(path, 60), other).url + "#/calls/3")
    page.until("document.querySelector('#reader').dataset.row == '3'")
    page.js(AXE.read_text("utf-8") + "; 0")
    assert page.js("axe.run().then(({passes}) => passes.length)") > 20
    found = {}

    def judge(view: str) -> None:
        page.frame()
        found[view, "light"] = page.js(VIOLATIONS)
        page.scheme("dark")
        page.frame()
        found[view, "dark"] = page.js(VIOLATIONS)
        page.scheme("light")

    for view in VIEWS:
        visit(page, view)
        if view == "diff":
            page.until("document.querySelectorAll('main [role=option]').length > 0")
        judge(view)
    page.js("document.activeElement.blur()")
    page.press("?")
    page.until("document.querySelector('dialog').open")
    judge("help")
    assert len(found) == 2 * len((*VIEWS, "help")) and not any(found.values()), found


def test_axe_finds_nothing_on_the_page_over_many_runs(
    tmp_path: Path, listed: Listed, show: Show
) -> None:
    many_runs(tmp_path, 30)
    page = show(listed(tmp_path).url)
    page.until("document.querySelectorAll('.all-runs tbody tr').length == 30")
    page.until("document.querySelector('.filters .note').innerText == ''")
    page.js(AXE.read_text("utf-8") + "; 0")
    found = [page.js(VIOLATIONS)]
    page.scheme("dark")
    page.frame()
    found.append(page.js(VIOLATIONS))
    assert found == [[], []]

"""The page over many runs in Chromium: search, filters, order, the way to a run and back."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from browser import Listed, Page, Show
from folders import PROGRAMS, many_runs
from markup import MARK, hostile_trace

import appl
from appl import gen
from appl.testing import Fake, running

ROWS = "[...document.querySelectorAll('.all-runs tbody tr')]"
READ = "document.querySelector('.filters .note').innerText == ''"


def arrive(page: Page, ready: str) -> None:
    """Wait for another page; a question that the old one was asked is lost with it."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with contextlib.suppress(RuntimeError, AssertionError):
            page.until(ready)
            return
    raise AssertionError(f"{ready} never came")


def names(page: Page) -> list[str]:
    """The names of the runs that are shown, in their order."""
    found: list[str] = page.js(f"{ROWS}.map(row => row.querySelector('a').title)")
    return found


def test_a_search_and_filters_leave_what_is_looked_for(
    tmp_path: Path, listed: Listed, show: Show
) -> None:
    runs = many_runs(tmp_path, 40)
    page = show(listed(tmp_path).url)
    page.until(f"{ROWS}.length == 40 && {READ}")
    assert names(page) == runs[::-1]
    page.press("/")
    page.write("order 7 is on")
    page.until(f"{ROWS}.length == 1")
    assert names(page) == [runs[7]] and "1 of 40 runs" in page.text(".state")
    page.press("Escape")
    page.until(f"{ROWS}.length == 40")
    page.js(
        "document.querySelector('#states').value = 'failed';"
        "document.querySelector('#states').dispatchEvent(new Event('change'))"
    )
    page.until(f"{ROWS}.length == 3")
    assert names(page) == [runs[37], runs[20], runs[3]]
    assert page.js(f"{ROWS}.every(row => row.cells[2].className.includes('failure'))")
    assert "state=failed" in page.js("location.hash")


def test_columns_sort_the_runs_and_the_cost_of_days_is_drawn(
    tmp_path: Path, listed: Listed, show: Show
) -> None:
    many_runs(tmp_path, 30)
    page = show(listed(tmp_path).url)
    page.until(f"{ROWS}.length == 30")
    page.click("button[data-order=cost]")
    costs = page.js(f"{ROWS}.map(row => Number(row.cells[7].innerText.slice(1)))")
    assert costs == sorted(costs, reverse=True)
    assert page.js("document.activeElement.dataset.order") == "cost"
    page.click("button[data-order=program]")
    programs = page.js(f"{ROWS}.map(row => row.cells[1].innerText)")
    assert programs == sorted(programs) and {*programs} == {*PROGRAMS}
    assert page.js("document.querySelectorAll('.days li').length") >= 15


def test_a_run_is_opened_and_the_way_back_keeps_the_search(
    tmp_path: Path, listed: Listed, show: Show
) -> None:
    runs = many_runs(tmp_path, 12)
    page = show(listed(tmp_path).url + "#text=order+5+is")
    page.until(f"{READ} && {ROWS}.length == 1")
    page.press("j", "Enter")
    arrive(page, "document.querySelectorAll('.talk .message').length == 2")
    assert page.text("h1") == runs[5] and "Order 5 is on its way." in page.text(".talk")
    page.js("history.back()")
    arrive(page, f"{ROWS}.length == 1")
    assert page.js("document.querySelector('#search').value") == "order 5 is"
    page.press("j", "Enter")
    arrive(page, "document.querySelector('a.back')")
    page.click("a.back")
    arrive(page, f"{ROWS}.length == 12")


def test_the_run_that_is_chosen_stays_so_when_the_list_is_drawn_anew(
    tmp_path: Path, listed: Listed, show: Show
) -> None:
    runs = many_runs(tmp_path, 12)
    page = show(listed(tmp_path).url)
    page.until(f"{READ} && {ROWS}.length == 12")
    page.press("j", "j")
    assert page.js("document.activeElement.title") == runs[10]
    with running(Fake(lambda request: "x")), appl.record(tmp_path / "runs" / "new.trace"):
        str(gen(messages="one more"))
    page.until(f"{ROWS}.length == 13")
    assert page.js("document.activeElement.title") == runs[10]


def test_scores_of_an_evaluation_are_shown_over_its_runs(
    tmp_path: Path, listed: Listed, show: Show
) -> None:
    def ask(word: str) -> str:
        return str(gen(messages=word))

    cases = [{"id": word, "input": word, "target": word} for word in ("one", "two")]
    for number, answer in enumerate(("one", "six")):
        path = tmp_path / "runs" / f"{number}.trace"
        with running(backend=Fake(lambda request, answer=answer: answer)), appl.record(path):
            appl.evaluate(ask, cases, scores=["exact"])
    page = show(listed(tmp_path).url)
    page.until("document.querySelectorAll('.series li').length == 2")
    assert page.text(".series h3") == "ask: exact"
    assert page.js("[...document.querySelectorAll('.series .number')].map(e => e.innerText)") == [
        "0.500", "0.000",
    ]  # fmt: skip


def test_markup_in_a_run_is_shown_as_text(tmp_path: Path, listed: Listed, show: Show) -> None:
    hostile_trace(tmp_path / "runs" / "evil.trace")
    page = show(listed(tmp_path).url)
    page.until(f"{READ} && {ROWS}.length == 1")
    assert page.js(f"typeof {MARK}") == "undefined"
    assert page.js("document.querySelectorAll('img, iframe, svg').length") == 0

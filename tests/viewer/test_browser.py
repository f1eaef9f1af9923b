"""The viewer in Chromium: what was recorded is shown and never runs; keys, themes, growth, size."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from browser import Chromium, Page, Serve, Show
from large import large_trace
from made import answer, asked, call, end, small_trace, start
from markup import MARK, POISON, hostile_trace
from synthetic import Synthetic

import appl
from appl import gen
from appl.errors import BackendRefused
from appl.testing import Fake, running
from appl.tracing import Recorder
from appl.tracing.viewer import View, ViewerServer, Views, export

ROOT = Path(__file__).parents[2]
VIEWS = (
    "overview",
    "calls",
    "timeline",
    "graph",
    "prefixes",
    "critical",
    "cost",
    "search",
    "diff",
    "run",
)
# what could run: elements that load or run something, attributes that are scripts
EXECUTABLE = """[
  ...document.querySelectorAll('iframe, object, embed, img, video, audio, base, form[action], link:not([rel=icon]), svg script, portal, template'),
  ...[...document.scripts].filter(script => !script.dataset.name).slice(1),
  ...[...document.querySelectorAll('*')].filter(each => [...each.attributes].some(({name, value}) =>
    /^on|^srcdoc$|^formaction$/i.test(name) || name == 'style' && !/^[-a-z0-9:;., ()%]*$/i.test(value) || /url|expression/.test(name == 'style' ? value : '') || /^(href|src|action|data|xlink:href)$/i.test(name) && !/^(#|data:,$)/.test(value))),
].map(each => each.outerHTML.slice(0, 200))"""


def visit(page: Page, view: str) -> None:
    """Go to a view, and wait until it shows its data."""
    page.js(f"location.hash = '#/{view}'")
    page.until(
        f"document.querySelector('main .view') && document.querySelector('nav a[href=\"#/{view}\"]').ariaCurrent == 'page'"
    )
    if view in ("prefixes", "critical"):
        page.until("/[^…]$/.test(document.querySelector('main .bar [role=status]').innerText)")
    if view == "cost":
        page.until("document.querySelectorAll('main table').length == 4")
    page.frame()


def harmless(page: Page) -> None:
    assert page.js(EXECUTABLE) == []
    assert page.js(f"typeof window.{MARK}") == "undefined"
    assert page.dialogs == []


def walk(page: Page, calls: int) -> None:
    """See everything: every view, every call in full, every branch open."""
    for view in VIEWS:
        visit(page, view)
        harmless(page)
        for row in range(calls):
            page.js(f"location.hash = '#/{view}/{row}'")
            page.until(f"document.querySelector('#reader').dataset.row == '{row}'")
            harmless(page)
        page.press("End", "Home", "Enter", "ArrowRight")
    page.js("for (const each of document.querySelectorAll('details')) each.open = true")
    visit(page, "search")
    page.js(f"document.querySelector('#search').value = '<script>{MARK}'")
    page.js("document.querySelector('form').requestSubmit()")
    page.until("document.querySelector('[data-done]')")
    page.until("document.querySelectorAll('[role=option]').length > 0")
    harmless(page)


def test_markup_and_script_in_every_field_stay_text(path: Path, serve: Serve, show: Show) -> None:
    server = serve(hostile_trace(path))
    page = show(server.url)
    walk(page, 4)
    assert "<img src=x onerror=" in page.text()
    assert all(url.startswith((server.url, "data:")) for url in page.requests)
    assert "\x1b" not in page.js("document.documentElement.textContent + document.title")


def test_markup_in_an_exported_file_stays_text(path: Path, tmp_path: Path, show: Show) -> None:
    other = hostile_trace(tmp_path / "other.trace", changed=" changed")
    with closing(View(hostile_trace(path))) as one, closing(View(other)) as two:
        export(Views(one, two), tmp_path / "run.html")
    page = show((tmp_path / "run.html").as_uri())
    walk(page, 4)
    visit(page, "diff")
    page.until("document.querySelectorAll('[role=option]').length > 0")
    page.click("[role=option]")
    page.until("document.querySelector('.diff-detail ins, .diff-detail del')")
    harmless(page)
    assert {url.partition(":")[0] for url in page.requests} <= {"file", "data"}


def test_what_would_run_is_found_where_markup_is_parsed(tmp_path: Path, chromium: Chromium) -> None:
    file = tmp_path / "control.html"
    script = f"<script>window.{MARK} = () => 0</script>"
    file.write_text(f"<!doctype html>{script}{POISON}", "utf-8", "replace")
    with (
        closing(chromium.page(file.as_uri())) as page,
        pytest.raises(AssertionError, match="onerror"),
    ):
        harmless(page)


def test_a_script_that_got_in_all_the_same_would_not_run(
    path: Path, serve: Serve, chromium: Chromium
) -> None:
    page = chromium.page(serve(small_trace(path)).url)
    page.until("document.querySelector('.state').innerText")
    refused = page.js(
        "(() => { try { document.body.innerHTML = '<img src=x onerror=alert(1)>'; return '' }"
        "catch (error) { return error.name } })()"
    )
    assert refused == "TypeError"
    page.js(
        "(s => { s.append('window.ran = 1'); try { document.body.append(s) } catch (e) {} })(document.createElement('script'))"
    )
    page.js("fetch('https://example.invalid/').catch(() => 0)")
    assert page.js("typeof window.ran") == "undefined"
    assert len(page.complaints) >= 2
    page.close()


def test_a_call_is_read_with_the_origins_of_its_prompt(
    path: Path, serve: Serve, show: Show
) -> None:
    recorder = Recorder(path)
    call(recorder, "/f.0/gen.0", "Who wrote it?", "Mira Holt")
    start(recorder, asked("/f.0/gen.1", "When was Mira Holt born?"), edges=("/f.0/gen.0",))
    end(recorder, "/f.0/gen.1", answer("In 1921."))
    recorder.close()
    page = show(serve(path).url + "#/calls/1")
    page.until("document.querySelector('#reader').dataset.row == '1'")
    told = page.text("#reader")
    assert "When was Mira Holt" in told
    assert "In 1921." in told
    assert page.js("document.querySelector('a.origin').firstChild.data") == "Mira Holt"
    page.click("a.origin")
    page.until("document.querySelector('#reader').dataset.row == '0'")
    assert page.text("#reader h2") == "/f.0/gen.0"


def test_the_first_view_tells_what_was_asked_answered_and_failed(
    path: Path, serve: Serve, show: Show
) -> None:
    recorder = Recorder(path)
    call(recorder, "/plan.0/gen.0", "Where to?", "To the sea.")
    for number in range(3):
        at = f"/go.{number}/gen.0"
        start(recorder, asked(at, "How?"))
        failed = BackendRefused(f"no train {number}")
        end(recorder, at, failed if number else answer("by bus"))
    recorder.close()
    page = show(serve(path).url)
    page.until("document.querySelectorAll('.talk .text').length == 2")
    assert page.js("[...document.querySelectorAll('.talk .text')].map(e => e.innerText)") == [
        "Where to?",
        "by bus",
    ]
    assert "Failed\n2\n50.0%" in page.text(".totals")
    assert page.text(".failures") == "2 × BackendRefused: no train 1"
    rows = page.js("[...document.querySelectorAll('.functions tbody tr')].map(e => e.innerText)")
    assert [row.split("\t")[0].split("\n")[-1] for row in rows][:3] == ["▾plan.0", "gen.0", "▾go.0"]
    page.click(".failures a")
    page.until("document.querySelector('#reader .failure').innerText == 'BackendRefused'")


def test_many_calls_are_grouped_by_function_with_percentiles_and_failures(
    path: Path, serve: Serve, show: Show
) -> None:
    page = show(serve(large_trace(path, 450)).url)
    page.until("document.querySelector('.functions tbody tr')")
    names = "[...document.querySelectorAll('.functions tbody th')].map(e => e.innerText.slice(1))"
    *above, leaf = page.js(names)
    runs = page.js(
        "[...document.querySelectorAll('.functions tbody tr')].at(-1).cells[2].innerText"
    )
    assert (above[0], leaf, runs) == ("main", "gen", "450")
    page.js("[...document.querySelectorAll('.functions button.opens')].at(-1).click()")
    page.until("document.querySelectorAll('.functions tr[data-row]').length == 100")
    assert "and 350 more" in page.text(".functions")


def test_samples_of_an_evaluation_are_sorted_by_a_score_and_open_their_calls(
    path: Path, serve: Serve, show: Show
) -> None:
    def ask(word: str) -> str:
        return str(gen(messages=word))

    cases = [{"id": word, "input": word, "target": word} for word in ("one", "two", "six")]
    with running(backend=Fake(lambda request: "two")), appl.record(path):
        appl.evaluate(ask, cases, scores=["exact"])
    page = show(serve(path).url)
    page.until("document.querySelector('.samples tbody')")
    names = "[...document.querySelectorAll('.samples tbody th')].map(e => e.innerText)"
    assert page.js(names) == ["one", "two", "six"]
    page.click(".samples button")
    page.click(".samples button")
    page.until(f"{names}[0] == 'two'")
    page.click(".samples tbody a")
    page.until("document.querySelector('#reader h2')?.innerText.includes('/two.0/')")


def test_a_walk_with_the_keyboard_alone(path: Path, serve: Serve, show: Show) -> None:
    page = show(serve(large_trace(path, 60)).url)
    page.press("Tab", "Enter")
    assert page.js("document.activeElement.getAttribute('aria-label')") == "Overview of the run"
    page.press("2")
    page.until("document.activeElement.getAttribute('aria-label') == 'Calls'")
    page.press("ArrowDown", "ArrowDown")
    page.until("document.querySelector('#reader').dataset.row == '2'")
    active = "document.getElementById(document.activeElement.getAttribute('aria-activedescendant'))"
    assert (
        page.js(f"{active}.ariaSelected + ' ' + {active}.ariaPosInSet + ' ' + {active}.ariaSetSize")
        == "true 3 60"
    )
    assert "gen.2" in page.js("document.querySelector('#status').textContent")
    page.press("End")
    page.until("document.querySelector('#reader').dataset.row == '59'")
    page.press("k")
    page.until("document.querySelector('#reader').dataset.row == '58'")
    page.press("r")
    assert page.js("document.activeElement.id") == "reader"
    page.press("4")
    page.until("document.activeElement.getAttribute('role') == 'tree'")
    page.press("Home")
    page.until(f"{active}.ariaExpanded == 'true'")
    page.press("ArrowLeft")
    page.until(f"{active}.ariaExpanded == 'false'")
    page.press("ArrowRight", "ArrowRight")
    page.until(f"{active}.getAttribute('aria-level') == '2'")
    page.press("3")
    page.until("document.activeElement.className == 'timeline'")
    page.press("ArrowLeft")
    page.until("document.querySelector('#reader').dataset.row != '58'")
    page.press("/")
    page.until("document.activeElement.id == 'search'")
    page.write("gen.7")
    page.press("Enter")
    page.until("document.querySelectorAll('main [role=option]').length == 6")
    page.press("Escape", "?")
    assert page.js(
        "document.activeElement.id == 'search' && document.querySelector('#search').value"
    ) in ("", "?", "gen.7?")
    page.js("document.activeElement.blur()")
    page.press("?")
    page.until("document.querySelector('dialog').open")
    page.press("Escape")
    page.until("!document.querySelector('dialog').open")


def test_what_has_the_focus_can_be_seen(path: Path, serve: Serve, show: Show) -> None:
    page = show(serve(small_trace(path)).url)
    seen = set()
    for _ in range(40):
        page.press("Tab")
        outline = page.js(
            "(({outlineStyle, outlineWidth}) => `${outlineStyle} ${outlineWidth}`)"
            "(getComputedStyle(document.activeElement))"
        )
        name = page.js(
            "document.activeElement.tagName + ' ' + document.activeElement.innerText?.slice(0, 20)"
        )
        if name.startswith("BODY"):
            break
        assert outline == "solid 2px", name
        seen.add(name)
    assert len(seen) >= 14


def test_single_keys_can_be_switched_off(path: Path, serve: Serve, show: Show) -> None:
    page = show(serve(small_trace(path)).url)
    page.press("?")
    page.click("dialog input")
    page.press("Escape")
    page.until("!document.querySelector('dialog').open")
    page.press("2")
    page.frame()
    assert page.js("document.querySelector('nav [aria-current]').innerText") == "Overview"


def test_light_and_dark_follow_the_system_until_one_is_chosen(
    path: Path, serve: Serve, show: Show
) -> None:
    page = show(serve(small_trace(path)).url, dark=True)
    shade = "getComputedStyle(document.body).backgroundColor"
    dark = page.js(shade)
    page.scheme("light")
    page.until(f"{shade} != '{dark}'")
    light = page.js(shade)
    page.press("t")
    assert page.js(shade) == light
    page.press("t")
    page.until(f"{shade} == '{dark}'")
    page.open(page.js("location.href").partition("#")[0] + "?again")
    page.until("document.querySelector('.state').innerText")
    assert page.js(shade) == dark
    page.press("t")
    page.until(f"{shade} == '{light}'")


def test_a_run_is_shown_while_it_goes_on(path: Path, serve: Serve, show: Show) -> None:
    recorder = Recorder(path, {"program": "growing"})
    start(recorder, asked("/f.0/gen.0", "a question"))
    recorder.barrier()
    page = show(serve(path).url + "#/calls/0")
    page.until("document.querySelector('.state').innerText == 'running; 1 call'")
    page.until("document.querySelector('#reader').innerText.includes('in flight')")
    end(recorder, "/f.0/gen.0", answer("it came later"))
    call(recorder, "/f.0/gen.1", "another", "and this")
    recorder.barrier()
    page.until("document.querySelector('.state').innerText == 'running; 2 calls'")
    page.until("document.querySelector('#reader').innerText.includes('it came later')")
    page.until("document.querySelectorAll('main [role=option]').length == 2")
    visit(page, "graph")
    call(recorder, "/f.0/gen.2", "third", "the third")
    recorder.close()
    page.until("document.querySelector('.state').innerText == 'finished; 3 calls'")
    page.until("document.querySelector('main').innerText.includes('the third')")


@pytest.fixture
def large() -> Iterator[ViewerServer]:
    """It serves until the page is closed, which may be asking still."""
    with ViewerServer(Synthetic(100_000)) as server:  # type: ignore[arg-type]
        yield server


def test_of_a_hundred_thousand_calls_few_are_in_the_document_and_all_can_be_reached(
    large: ViewerServer, show: Show
) -> None:
    page = show(large.url)
    page.until("document.querySelector('.state').innerText == 'finished; 100,000 calls'")
    elements = "document.querySelectorAll('*').length"
    for view in ("overview", "calls", "timeline", "graph", "search"):
        visit(page, view)
        if view == "search":
            page.js("document.querySelector('#search').value = 'x'")
            page.js("document.querySelector('form').requestSubmit()")
            page.until("document.querySelector('[data-done]')")
        assert page.js(elements) < 1_500, view
        page.js(
            "{ const list = document.querySelector('main [tabindex=\"0\"]'); list.scrollTop = list.scrollHeight / 2 }"
        )
        page.frame()
        assert page.js(elements) < 1_500, view
    visit(page, "calls")
    page.press("Escape", "End")
    page.until("document.querySelector('#reader').dataset.row == '99999'")
    last = "[...document.querySelectorAll('main [role=option]')].at(-1)"
    assert page.js(f"{last}.ariaPosInSet + ' of ' + {last}.ariaSetSize") == "100000 of 100000"
    page.press("ArrowUp", "PageDown", "ArrowUp")
    page.until("document.querySelector('#reader').dataset.row == '99998'")
    chosen = "document.querySelector('main [aria-selected=true]').getBoundingClientRect()"
    edge = "document.querySelector('main .list').getBoundingClientRect()"
    assert page.js(f"{chosen}.bottom <= {edge}.bottom + 1 && {chosen}.top >= {edge}.top - 1")


def test_a_server_that_is_gone_is_told(path: Path, chromium: Chromium) -> None:
    with closing(View(small_trace(path))) as view:
        server = ViewerServer(Views(view))
        with closing(chromium.page(server.url)) as page:
            page.until("document.querySelector('.state').innerText == 'finished; 3 calls'")
            server.close()
            page.until(
                "document.querySelector('.state').innerText.includes('server does not answer')"
            )
            assert page.js("document.querySelectorAll('main tr[data-row]').length") == 3


def test_long_and_deep_addresses_and_long_texts_are_cut(
    path: Path, serve: Serve, show: Show
) -> None:
    recorder = Recorder(path)
    call(recorder, "/a" * 5_000 + "/gen.0", "b" * 50_000, "c" * 50_000)
    recorder.close()
    page = show(serve(path).url + "#/graph/0")
    page.until("document.querySelector('#reader').dataset.row == '0'")
    assert page.js("document.querySelectorAll('#reader .text button').length") == 2
    assert page.js("document.querySelector('main').textContent.length") < 10_000
    page.click("#reader .text button")
    page.until("document.querySelector('#reader .text').textContent.length == 50000")
    visit(page, "calls")
    assert page.js("document.querySelector('main .address').textContent.length") <= 301


def test_one_file_is_the_whole_viewer(path: Path, tmp_path: Path, show: Show) -> None:
    with closing(View(large_trace(path, 450))) as view:
        export(Views(view), tmp_path / "run.html")
    page = show((tmp_path / "run.html").as_uri() + "#/calls/449")
    page.until("document.querySelector('#reader').dataset.row == '449'")
    assert "[system]" not in page.text("#reader")
    for view_name in VIEWS:
        visit(page, view_name)
    visit(page, "search")
    page.js("document.querySelector('#search').value = 'GEN.9'")
    page.js("document.querySelector('form').requestSubmit()")
    page.until("document.querySelector('main [role=status]').innerText == '45 calls found'")
    assert [url for url in page.requests if not url.startswith(("file:", "data:"))] == []


def test_two_runs_are_shown_side_by_side(
    path: Path, tmp_path: Path, serve: Serve, show: Show
) -> None:
    other = tmp_path / "other.trace"
    for file, word in ((path, "old"), (other, "new")):
        recorder = Recorder(file)
        call(recorder, "/gen.0", f"the {word} question of all", "the same")
        call(recorder, "/gen.1", "equal", "equal")
        recorder.close()
    page = show(serve(path, other).url)
    visit(page, "diff")
    page.until("document.querySelectorAll('main [role=option]').length == 1")
    page.click("main [role=option]")
    page.until("document.querySelector('.diff-detail ins')")
    assert page.js("document.querySelector('.diff-detail del').lastChild.data") == "old "
    assert page.js("document.querySelector('.diff-detail ins').lastChild.data") == "new "
    page.js("document.querySelector('main .bar input').click()")
    page.until("document.querySelectorAll('main [role=option]').length == 2")


def test_of_a_long_address_both_ends_are_seen_and_an_unknown_cost_is_said(
    path: Path, serve: Serve, show: Show
) -> None:
    recorder = Recorder(path)
    start(recorder, asked("/f.0" * 40 + "/gen.0", "say"))
    end(recorder, "/f.0" * 40 + "/gen.0", answer("ok"))
    recorder.close()
    page = show(serve(path).url + "#/calls")
    page.until("document.querySelector('.entry .tail')")
    cell, head, tail = (
        f"document.querySelector('.entry {each}').getBoundingClientRect()"
        for each in (".short", ".head", ".tail")
    )
    assert page.js(f"{head}.left >= {cell}.left && {tail}.right <= {cell}.right + 1")
    assert page.js("document.querySelector('.entry .tail').innerText") == "/f.0/gen.0"
    visit(page, "cost")
    costs = page.js("[...document.querySelectorAll('tbody')].map(each => each.rows[0].innerText)")
    assert "unknown" in costs[0] and "unknown" in costs[1] and "$" not in costs[1]


@pytest.mark.parametrize("width", [700, 1280])
def test_nothing_overflows_sideways(path: Path, serve: Serve, show: Show, width: int) -> None:
    page = show(serve(hostile_trace(path)).url + "#/calls/0", width=width)
    for view in VIEWS:
        visit(page, view)
        assert page.js("document.documentElement.scrollWidth <= innerWidth"), view


WAITING = """
import appl

def main():
    paid = appl.ask_person("Pay 40 EUR back?", bool)
    return paid, appl.ask_person("Which city?", choices=["Tarn", "Lund"])
"""


def test_a_question_is_answered_in_the_page(tmp_path: Path, show: Show) -> None:
    (tmp_path / "shop.py").write_text(WAITING)
    paths = os.pathsep.join([str(ROOT), str(ROOT / "backends")])
    state = {"APPL_BACKEND": "appl.testing:Echo"}
    environment = {**os.environ, "PYTHONPATH": paths, "APPL_CTL": "off", **state}

    def command(*words: str) -> subprocess.Popen[str]:
        line = [sys.executable, "-m", "appl", *words]
        return subprocess.Popen(
            line, cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    run = command("run", "shop.py")
    run.communicate(timeout=60)
    assert run.returncode == 75
    viewer = command("trace", "view", "last", "--no-open")
    try:
        assert viewer.stdout is not None
        page = show(viewer.stdout.readline().strip())
        page.until("document.querySelectorAll('.answers button').length == 2")
        assert "Pay 40 EUR back?" in page.text(".question")
        page.click(".answers button")
        page.until("document.querySelector('.question [role=status]').innerText.length > 0")
        assert "appl trace resume" in page.text(".question [role=status]")
    finally:
        viewer.terminate()
        viewer.communicate(timeout=60)
    resumed = command("trace", "resume", "last")
    _, told = resumed.communicate(timeout=60)
    assert resumed.returncode == 75 and "Which city?" in told

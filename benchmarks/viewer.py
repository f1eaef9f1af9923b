"""How fast the viewer is with 100,000 calls, and with 1,000 runs, in a real Chromium.

``python benchmarks/viewer.py [CALLS]`` prints the table, ``python benchmarks/viewer.py first`` only
how soon the first screen is there: of a run of 20,000 calls, and of a list of 1,000 runs. It needs
Chromium (``tests/viewer`` drives it).
"""

from __future__ import annotations

import multiprocessing
import os
import platform
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1] / "tests" / "viewer")]

from browser import Chromium, Page  # noqa: E402
from folders import many_runs  # noqa: E402
from large import large_trace  # noqa: E402

from appl.tracing.viewer import RunList, View, ViewerServer, Views, export  # noqa: E402

BUILT = Path(__file__).parents[1] / "appl" / "tracing" / "viewer"
FIRST = "document.querySelector('.functions tbody tr')"
TALK = "document.querySelectorAll('.talk .message').length == 2"
LISTED = "document.querySelector('.all-runs tbody tr')"
FIRST_CALLS, FIRST_RUNS, TIMES = 20_000, 1_000, 7
ENTRIES = "document.querySelectorAll('main .list .entry').length > 0"
# scrolls through the whole list in 200 steps; the longest and the middle time from step to picture
SCROLL = """(async () => {
  const list = document.querySelector('main .list'), times = [];
  for (let i = 0; i <= 200; i++) {
    const began = performance.now();
    list.scrollTop = list.scrollHeight * i / 200;
    await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
    times.push(performance.now() - began);
  }
  times.sort((a, b) => a - b);
  return [times[100], times[198], times[200]];
})()"""
# time that a key takes to the picture, 50 times
KEYS = """(async () => {
  const list = document.querySelector('main .list'), times = [];
  for (let i = 0; i < 50; i++) {
    const began = performance.now();
    list.dispatchEvent(new KeyboardEvent('keydown', {key: 'PageDown', bubbles: true}));
    await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
    times.push(performance.now() - began);
  }
  return times.sort((a, b) => a - b)[25];
})()"""


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and what came of it."""
    began = time.perf_counter()
    value = action()
    return time.perf_counter() - began, value


def go(page: Page, view: str, ready: str) -> float:
    """Seconds from choosing a view until it shows its data."""

    def shown() -> None:
        page.js(f"location.hash = '#/{view}'")
        page.until(ready)
        page.frame()

    return timed(shown)[0]


def looked_at(page: Page, calls: int) -> Iterator[tuple[str, str]]:
    """What is measured of a page that shows the run."""
    everything = f"document.querySelector('.state').innerText.includes('; {calls:,} calls')"
    yield "list of calls", f"{go(page, 'calls', ENTRIES):.2f} s"
    yield (
        "elements in the document",
        f"{page.js('document.querySelectorAll(`:not(script)`).length')}",
    )
    middle, late, worst = page.js(SCROLL)
    yield (
        "a step of scrolling to its picture",
        f"{middle:.0f} ms (99%: {late:.0f}, worst {worst:.0f})",
    )
    yield "a key in the list to its picture", f"{page.js(KEYS):.0f} ms"
    assert page.js(everything)
    yield (
        "timeline, 100,000 calls in lanes",
        f"{go(page, 'timeline', 'document.querySelector(`canvas`).width > 300'):.2f} s",
    )
    yield "call graph", f"{go(page, 'graph', ENTRIES):.2f} s"

    def found() -> None:
        page.js("location.hash = '#/search'")
        page.until("document.activeElement.id == 'search'")
        page.js("document.querySelector('#search').value = 'river77 '")
        page.js("document.querySelector('form').requestSubmit()")
        page.until("document.querySelector('[data-done]')")

    yield "search of all prompts and answers", f"{timed(found)[0]:.2f} s"
    yield "shared prefixes", f"{go(page, 'prefixes', ENTRIES):.2f} s"
    yield "critical path", f"{go(page, 'critical', ENTRIES):.2f} s"
    yield "cost", f"{go(page, 'cost', 'document.querySelectorAll(`table`).length == 4'):.2f} s"


def opened(browser: Chromium, url: str, calls: int) -> tuple[Page, float, float]:
    """A page, and the seconds until its first view shows calls, and until it has all calls."""
    everything = f"document.querySelector('.state').innerText.includes('; {calls:,} calls')"
    began = time.perf_counter()
    page = browser.page(url)
    page.until(FIRST)
    first = time.perf_counter() - began
    page.until(everything)
    return page, first, time.perf_counter() - began


def table(calls: int) -> Iterator[str]:
    """The lines of the result."""
    load, version = os.getloadavg()[0], platform.python_version()
    yield f"Python {version}, {os.cpu_count()} cores, load average {load:.1f}"
    sizes = {name: (BUILT / name).stat().st_size for name in ("viewer.js", "viewer.css")}
    yield f"built: {sizes['viewer.js']:,} + {sizes['viewer.css']:,} bytes"
    folder = Path(tempfile.mkdtemp())
    path = folder / "large.trace"
    writer = multiprocessing.Process(target=large_trace, args=(path, calls))  # takes memory too
    writer.start()
    writer.join()
    yield f"the trace: {calls:,} calls, chats of 10 turns, {path.stat().st_size / 1e6:.1f} MB"
    yield ""
    with closing(Chromium(folder / "chromium")) as browser:
        browser.page("about:blank").close()
        with closing(View(path)) as view, ViewerServer(Views(view)) as server:
            spent = time.process_time()
            page, first, whole = opened(browser, server.url, calls)
            spent = time.process_time() - spent
            yield f"{'served: first view':44}{first:.2f} s"
            yield f"{'served: all calls':44}{whole:.2f} s ({spent:.2f} s of CPU in the server)"
            for name, figure in looked_at(page, calls):
                yield f"{'served: ' + name:44}{figure}"
            page.close()
            spent = time.process_time()
            seconds, size = timed(lambda: export(Views(view), folder / "run.html"))
            spent = time.process_time() - spent
            yield f"{'export':44}{seconds:.1f} s ({spent:.1f} s of CPU), {size / 1e6:.1f} MB"
        page, first, whole = opened(browser, (folder / "run.html").as_uri(), calls)
        yield f"{'file: first view':44}{first:.2f} s"
        yield f"{'file: all calls':44}{whole:.2f} s"
        for name, figure in looked_at(page, calls):
            yield f"{'file: ' + name:44}{figure}"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    yield f"{'memory of the server, at most':44}{peak:.0f} MiB"


def first_screens() -> Iterator[str]:
    """The lines about first screens: the shortest and the median of some times."""
    load, version = os.getloadavg()[0], platform.python_version()
    yield f"Python {version}, {os.cpu_count()} cores, load average {load:.1f}; of {TIMES} times"
    folder = Path(tempfile.mkdtemp())
    large_trace(folder / "large.trace", FIRST_CALLS)
    many_runs(folder / "home", FIRST_RUNS)
    with closing(Chromium(folder / "chromium")) as browser:
        browser.page("about:blank").close()
        table, talk, listed = [], [], []
        for _ in range(TIMES):
            with closing(View(folder / "large.trace")) as view, ViewerServer(Views(view)) as server:
                table.append(_until(browser, server.url, FIRST))
            with closing(View(folder / "large.trace")) as view, ViewerServer(Views(view)) as server:
                talk.append(_until(browser, server.url, TALK))
            with closing(RunList(folder / "home")) as runs, ViewerServer(runs) as server:
                listed.append(_until(browser, server.url, LISTED))
    for name, times in (
        (f"{FIRST_CALLS:,} calls: totals and functions", table),
        (f"{FIRST_CALLS:,} calls: first prompt and an answer", talk),
        (f"{FIRST_RUNS:,} runs: the list", listed),
    ):
        yield f"{name:44}{min(times):.2f} s, median {sorted(times)[TIMES // 2]:.2f} s"


def _until(browser: Chromium, url: str, ready: str) -> float:
    """Seconds from asking for the page to what is *ready*."""
    began = time.perf_counter()
    page = browser.page(url)
    page.until(ready)
    took = time.perf_counter() - began
    page.close()
    return took


if __name__ == "__main__":
    first = sys.argv[1:] == ["first"]
    for line in first_screens() if first else table(int((sys.argv[1:] or ["100000"])[0])):
        print(line, flush=True)

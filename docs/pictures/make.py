"""Makes the pictures of the README and the docs from real runs of the examples.

    python docs/pictures/make.py [NAME...]

It runs the examples on the embedded model in a folder of its own, writes the viewer's page of each
run, and takes its picture with Chromium; of the page over many runs while the viewer serves it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
PICTURES = {
    "viewer": ("react.py", "#/overview/3", (1400, 860)),
    "evaluation": ("evaluation.py", "#/overview", (1400, 900)),
    "timeline": ("react.py", "#/timeline", (1400, 330)),
    "thousand-calls": ("thousand.py", "#/overview", (1400, 640)),
}
"""The example of each picture, the view's address, and the size in pixels."""
THOUSAND = """
import appl
from appl import gen, ppl

WORDS = "delivery price colour size taste service battery screen sound weight".split()


@ppl
def rated(review: str) -> object:
    f"Rate the review from 1 to 5. {review}"
    return gen(response_format=int, max_tokens=8)


@ppl
def keyword(review: str) -> object:
    f"Review: {review} Its topic is"
    return gen(max_tokens=3, stop=["."])


def triage(review: str) -> str:
    if "battery" in review and "4" in review:
        raise ValueError("no warranty number")
    return f"{rated(review)}: {keyword(review)}"


def main() -> str:
    reviews = [f"Order {n}: the {WORDS[n % len(WORDS)]} is fine." for n in range(500)]
    good = appl.map(triage, reviews, on_error="collect")
    return f"{len(good)} reviews"
"""
"""A program of a thousand calls."""
MANY = ["hello.py", "react.py", "extraction.py", "evaluation.py", "failing.py"]
FAILING = """
from appl import gen, ppl


@ppl
def main() -> int:
    "How many orders are open? Look into"
    gen(max_tokens=6)
    raise LookupError("the table of orders is not there")
"""
PRICES = '[prices]\n"embedded" = {prompt = 2.5, answer = 10.0}\n'
"""The embedded model is free; the picture of many runs shows what another one would cost."""
RUNS_SIZE = (1400, 620)


def main() -> None:
    """Make all pictures."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        sys.exit("Chromium is not installed: apt-get install chromium")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "examples"
        shutil.copytree(EXAMPLES, folder)
        (folder / "thousand.py").write_text(THOUSAND)
        (folder / "failing.py").write_text(FAILING)
        wanted = sys.argv[1:] or [*PICTURES, "runs"]
        for name, (example, view, size) in PICTURES.items():
            if name in wanted:
                picture(browser, folder, name, example, view, size)
        if "runs" in wanted:
            picture_of_runs(browser, folder)


def picture(
    browser: str, folder: Path, name: str, example: str, view: str, size: tuple[int, int]
) -> None:
    """Run *example* in *folder* and take the picture *name* of its *view*."""
    page = folder / f"{name}.html"
    appl(folder, "run", example)
    appl(folder, "trace", "view", "last", "--html", str(page))
    take(browser, folder, name, page.as_uri() + view, size)


def picture_of_runs(browser: str, folder: Path) -> None:
    """Run some examples more than once, and take a picture of the page that lists them."""
    (folder / "appl.toml").write_text(PRICES)
    shutil.rmtree(folder / ".appl", ignore_errors=True)
    for example in MANY + MANY[:4]:
        appl(folder, "run", example, check=example != "failing.py")
    command = [sys.executable, "-m", "appl", "trace", "view", "--no-open", "--json"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            url = json.loads(server.stdout.readline())["url"]
            for _ in range(2):  # the first look has the texts of the runs read
                take(browser, folder, "runs", url, RUNS_SIZE)
        finally:
            server.terminate()


def appl(folder: Path, *words: str, check: bool = True) -> None:
    """The command ``appl`` with *words*, in *folder*."""
    environment = {**os.environ, "APPL_BACKEND": "embedded"}
    command = [sys.executable, "-m", "appl", *words]
    subprocess.run(command, cwd=folder, env=environment, check=check, capture_output=True)


def take(browser: str, folder: Path, name: str, url: str, size: tuple[int, int]) -> None:
    """Take the picture *name* of the page at *url*, in few colours."""
    made, kept = folder / f"{name}.png", HERE / f"{name}.png"
    flags = "--headless --no-sandbox --disable-gpu --hide-scrollbars --virtual-time-budget=5000"
    window, shot = f"--window-size={size[0]},{size[1]}", f"--screenshot={made}"
    subprocess.run([browser, *flags.split(), window, shot, url], check=True, capture_output=True)
    few = Image.open(made).convert("P", palette=Image.Palette.ADAPTIVE, colors=160)
    few.save(kept, optimize=True)
    print(f"docs/pictures/{kept.name}: {kept.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()

"""Makes the pictures of the README and the docs from real runs of the examples.

    python docs/pictures/make.py

It runs the examples on the embedded model in a folder of its own, writes the viewer's page of each
run, and takes its picture with Chromium.
"""

from __future__ import annotations

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
}
"""The example of each picture, the view's address, and the size in pixels."""


def main() -> None:
    """Make all pictures."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        sys.exit("Chromium is not installed: apt-get install chromium")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "examples"
        shutil.copytree(EXAMPLES, folder)
        for name, (example, view, size) in PICTURES.items():
            picture(browser, folder, name, example, view, size)


def picture(
    browser: str, folder: Path, name: str, example: str, view: str, size: tuple[int, int]
) -> None:
    """Run *example* in *folder* and take the picture *name* of its *view*."""
    page, made = folder / f"{name}.html", folder / f"{name}.png"
    environment = {**os.environ, "APPL_BACKEND": "embedded"}
    for words in (["run", example], ["trace", "view", "--html", str(page)]):
        appl = [sys.executable, "-m", "appl", *words]
        subprocess.run(appl, cwd=folder, env=environment, check=True, capture_output=True)
    flags = "--headless --no-sandbox --disable-gpu --hide-scrollbars --virtual-time-budget=5000"
    window, shot = f"--window-size={size[0]},{size[1]}", f"--screenshot={made}"
    command = [browser, *flags.split(), window, shot, page.as_uri() + view]
    subprocess.run(command, check=True, capture_output=True)
    kept = HERE / made.name
    few = Image.open(made).convert("P", palette=Image.Palette.ADAPTIVE, colors=160)
    few.save(kept, optimize=True)
    print(f"docs/pictures/{kept.name}: {kept.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()

"""A hook of mkdocs: ``llms.txt`` is an index for language models, ``llms-full.txt`` all pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any


def on_post_build(config: Any) -> None:
    """Write both files beside the pages, in the order of the navigation."""
    source, site = Path(config["docs_dir"]), Path(config["site_dir"])
    index = [f"# {config['site_name']}", "", f"> {config['site_description']}"]
    whole = []
    for section, title, file in _pages(config["nav"], ""):
        text = (source / file).read_text("utf-8")
        heading = f"## {section or 'Pages'}"
        if heading not in index:
            index += ["", heading, ""]
        index.append(f"- [{title}]({file.removesuffix('.md')}.html): {_first_sentence(text)}")
        whole.append(text.strip())
    site.joinpath("llms.txt").write_text("\n".join(index) + "\n", "utf-8")
    site.joinpath("llms-full.txt").write_text("\n\n---\n\n".join(whole) + "\n", "utf-8")


def _pages(nav: Any, section: str) -> Iterator[tuple[str, str, str]]:
    for entry in nav:
        for title, value in entry.items():
            if isinstance(value, str):
                yield section, title, value
            else:
                yield from _pages(value, title)


def _first_sentence(text: str) -> str:
    """The first sentence of a page's prose."""
    prose = (line for line in text.splitlines() if line and line[0].isalnum())
    return next(prose, "").partition(". ")[0].rstrip(".")

"""Hooks of mkdocs: pages from the top of the repository, and an index for language models.

``llms.txt`` is the index, ``llms-full.txt`` holds all pages.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

TOP = ("AGENTS.md", "ARCHITECTURE.md", "CONTRIBUTING.md")
"""Pages that lie at the top of the repository, where contributors look for them."""


def on_files(files: Any, *, config: Any) -> None:
    """Add the pages from the top of the repository."""
    for name in TOP:
        path = str(_file(config, name))
        files.append(File.generated(config, name, abs_src_path=path))


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Let links between these pages and those of ``docs/`` lead to the pages of the site."""
    for name in TOP:
        markdown = markdown.replace(f"](../{name}", f"]({name}")
    return markdown.replace("](docs/", "](")


def on_post_build(config: Any) -> None:
    """Write both files beside the pages, in the order of the navigation."""
    site = Path(config["site_dir"])
    index = [f"# {config['site_name']}", "", f"> {config['site_description']}"]
    whole = []
    for section, title, file in _pages(config["nav"], ""):
        text = _file(config, file).read_text("utf-8")
        heading = f"## {section or 'Pages'}"
        if heading not in index:
            index += ["", heading, ""]
        index.append(f"- [{title}]({file.removesuffix('.md')}.html): {_first_sentence(text)}")
        whole.append(text.strip())
    site.joinpath("llms.txt").write_text("\n".join(index) + "\n", "utf-8")
    site.joinpath("llms-full.txt").write_text("\n\n---\n\n".join(whole) + "\n", "utf-8")


def _file(config: Any, name: str) -> Path:
    docs = Path(config["docs_dir"])
    return docs.parent / name if name in TOP else docs / name


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

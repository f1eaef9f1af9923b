"""Stands for the client of Wikipedia: pages that need no network."""


class Wikipedia:
    """All pages, each of one sentence."""

    def __init__(self, **_: object) -> None: ...

    def page(self, topic: str) -> str:
        """The page about *topic*."""
        return topic

    def extracts(self, page: str, **_: object) -> str:
        """The first sentence of *page*."""
        return f"{page.capitalize()} is a thing."

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import pytest_asyncio

from appl.testing.embedded_server import Served, serving
from appl_backends.sglang import SGLang


@pytest.fixture(scope="session")
def served() -> Iterator[Served]:
    """The embedded engine in another process."""
    with serving() as server:
        yield server


def client(server: Served, **settings: Any) -> SGLang:
    """A client of *server* that keeps its advice to itself."""
    given = {"url": server.url, "api_key": server.api_key, "admin_key": server.admin_key}
    return SGLang(**{"advise": lambda line: None, **given, **settings})


@pytest_asyncio.fixture
async def open_client(served: Served) -> AsyncIterator[Callable[..., SGLang]]:
    """Makes clients of the embedded engine, which are closed with the test."""
    made: list[SGLang] = []

    def make(**settings: Any) -> SGLang:
        made.append(client(served, **settings))
        return made[-1]

    yield make
    for each in made:
        await each.aclose()

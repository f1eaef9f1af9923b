"""The common part of providers' batches: outcomes line by line, and answers at their price.

Invariant: a line that cannot be read costs its own item only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from appl.backend import Request, Response
from appl.backend.check import read_json

MOST_BYTES = 1 << 30
"""The most bytes of a file of outcomes."""
ANYTIME = "batch"
"""The way of service that is billed: see ``Usage.tier``."""


def lines_of(body: bytes) -> Iterator[Any]:
    """The JSON values of the lines of *body*; a line that holds none is left out."""
    for line in body.split(b"\n"):
        if line.strip():
            try:
                yield read_json(line)
            except ValueError:
                continue


def at_batch_price(
    request: Request, source: str, price: Callable[[Response], Response], response: Response
) -> Response:
    """*response* to *request* as an answer of a batch, with the cost that *price* gives it."""
    usage = dataclasses.replace(response.usage, tier=ANYTIME)
    shed = response.shed
    if request.messages is not None and request.messages.provided:
        shed = request.messages.shed_for(source)
    return price(dataclasses.replace(response, usage=usage, shed=shed))

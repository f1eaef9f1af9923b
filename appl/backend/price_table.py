"""The table of prices in the package, and the rule that finds the row of a name.

A row is named ``SELLER/MODEL``, as ``openai/gpt-5-mini``. A name finds it in this order:

1. ``litellm/`` at its beginning does not count.
2. The seller is the company that is paid: that of the backend's address (``seller_at``), otherwise
   the first part of the name. A name without a seller is that of the first maker that sells it.
3. The row is the one with exactly this name, otherwise the one of the name without the date of a
   snapshot (``-2025-08-07``, ``-20250807``, ``@20250807``) or ``-latest`` at its end. A fine-tuned
   model (``ft:BASE:…``) has the row ``ft:BASE``.

There is no other way: a model of the same name somewhere else has no price here.

Invariant: the file is read for the first price, never at import. Amounts are for text at the
standard tier, and for the others that the seller has. A model without a row has an unknown price,
and is never free.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from appl.backend.http import host_of
from appl.backend.price import TIERS, Price

_MAKERS = "openai anthropic gemini mistral deepseek xai cohere moonshot zai minimax dashscope"
MAKERS = tuple(_MAKERS.split())
"""Sellers of their own models, in the order of search for a name without a seller."""

_HOSTS = {
    "api.openai.com": "openai",
    "api.anthropic.com": "anthropic",
    "generativelanguage.googleapis.com": "gemini",
    "api.mistral.ai": "mistral",
    "api.deepseek.com": "deepseek",
    "api.x.ai": "xai",
    "api.groq.com": "groq",
    "api.cohere.ai": "cohere",
    "api.cohere.com": "cohere",
    "api.moonshot.ai": "moonshot",
    "api.z.ai": "zai",
    "api.cerebras.ai": "cerebras",
    "api.together.xyz": "together_ai",
    "api.together.ai": "together_ai",
    "openrouter.ai": "openrouter",
    "api.minimax.io": "minimax",
    "dashscope-intl.aliyuncs.com": "dashscope",
}
_AZURE = (".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com")
_SNAPSHOT = re.compile(r"(?:[-@]\d{8}|-\d{4}-\d\d-\d\d|-latest)$")
_TUNED = re.compile(r"^(ft:[^:]+):.*$")


@dataclass(frozen=True, slots=True)
class PriceRow:
    """The table's entry for one model.

    ``context`` and ``max_output`` are in tokens, ``None`` if unknown. ``source`` is an address, or
    the version of the data that the row was taken from; ``date`` is the table's.
    """

    name: str
    price: Price
    context: int | None
    max_output: int | None
    source: str
    date: str


@dataclass(frozen=True, slots=True)
class Seller:
    """The prices of one seller, by its own names for models."""

    name: str

    def get(self, model: str, /) -> Price | None:
        """The price of *model*, if the table has one."""
        row = _row_for(self.name, model) if model else None
        return None if row is None else row.price


def row_of(name: str) -> PriceRow | None:
    """The row of the model *name*, by the rule above; ``None`` if it has none."""
    name = name.removeprefix("litellm/")
    seller, _, model = name.partition("/")
    if seller in sellers():
        return _row_for(seller, model)
    if "/" in name:
        return None
    rows = (_row_for(maker, name) for maker in MAKERS)
    return next((row for row in rows if row is not None), None)


def seller_at(url: str | None) -> str | None:
    """The seller with the address *url*; ``None`` for every other server."""
    host = host_of(url or "").removesuffix(":443").lower()
    return "azure" if host.endswith(_AZURE) else _HOSTS.get(host)


def names() -> tuple[str, ...]:
    """The names of all rows, sorted."""
    return tuple(_table()["models"])


@cache
def sellers() -> frozenset[str]:
    """The sellers that the table knows."""
    return frozenset(name.partition("/")[0] for name in names())


def date() -> str:
    """The day on which the table was made, as ``2026-01-31``."""
    return str(_table()["date"])


def currency() -> str:
    """The currency of all prices of the table, as ``USD``."""
    return str(_table()["currency"])


@cache
def _table() -> Mapping[str, Any]:
    data: Mapping[str, object] = json.loads(
        files("appl.backend").joinpath("prices.json").read_text("utf-8")
    )
    return data


@cache
def _row_for(seller: str, model: str) -> PriceRow | None:
    rows = _table()["models"]
    model = _TUNED.sub(r"\1", model)
    for name in (model, _SNAPSHOT.sub("", model)):  # the most exact one first
        about = rows.get(f"{seller}/{name}")
        if about is not None:
            context, most = about.get("context"), about.get("max_output")
            price, source = _price(about), about["source"]
            return PriceRow(f"{seller}/{name}", price, context, most, source, date())
    return None


def _price(about: Mapping[str, Any]) -> Price:
    """The price in a row of the file, which may have others for longer prompts and for tiers."""
    beyond = about.get("beyond")
    tiers = ((name, _price(about[name])) for name in TIERS if name in about)
    return Price(
        about["prompt"],
        about["answer"],
        about.get("cached"),
        about.get("written"),
        about.get("over"),
        None if beyond is None else _price(beyond),
        about.get("written_1h"),
        tuple(tiers),
    )

"""Makes ``appl/backend/prices.json``, the shipped table of prices, from litellm's data.

    python backends/prices/make_table.py [--date YYYY-MM-DD] [--out FILE]

It needs an installed litellm and no network. It keeps the models of the main providers for chats
and for embeddings, for text at the standard tier and at the others that have prices. It leaves out
what a price of tokens cannot describe: models that are paid by the search, the sound or the region,
those with more than two steps of prices, those that the data calls free, and those whose price it
guesses.

Invariant: a row never names a price below the one in the data; amounts are per million tokens.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import importlib.util
import json
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

DATA = "model_prices_and_context_window_backup.json"
OUT = Path(__file__).parents[2] / "appl" / "backend" / "prices.json"
SELLERS = {
    "openai": "openai",
    "anthropic": "anthropic",
    "gemini": "gemini",
    "vertex_ai-language-models": "vertex_ai",
    "vertex_ai-anthropic_models": "vertex_ai",
    "azure": "azure",
    "mistral": "mistral",
    "deepseek": "deepseek",
    "xai": "xai",
    "groq": "groq",
    "cohere_chat": "cohere",
    "moonshot": "moonshot",
    "zai": "zai",
    "cerebras": "cerebras",
    "together_ai": "together_ai",
    "openrouter": "openrouter",
    "dashscope": "dashscope",
    "minimax": "minimax",
}
"""The sellers of the table, by the names that litellm has for them."""

KINDS = {
    "prompt": "input_cost_per_token",
    "answer": "output_cost_per_token",
    "cached": "cache_read_input_token_cost",
    "written": "cache_creation_input_token_cost",
    "written_1h": "cache_creation_input_token_cost_above_1hr",
}
TIERS = {"batch": "_batches", "flex": "_flex", "priority": "_priority"}
"""The ways of service with prices of their own, and how litellm's names for these end."""
_OTHER_UNITS = re.compile(r"audio|realtime|search|native|live|tts|image|lyria|container|computer")
_REGION = re.compile(r"^azure/(eu|us|global|global-standard|standard)/")
_STEP = re.compile(r"^input_cost_per_token_above_(\d+)k_tokens$")
_SIZE_CLASS = re.compile(r"^together-ai-")


def table(data: Mapping[str, Any], version: str, date: str) -> dict[str, Any]:
    """The whole table, from litellm's *data*."""
    found = dict(_rows(data, version))
    rows = {name: found[name] for name in sorted(found)}
    source = f"litellm {version}, {DATA}"
    return {"date": date, "source": source, "currency": "USD", "models": rows}


def _rows(data: Mapping[str, Any], version: str) -> Iterator[tuple[str, dict[str, Any]]]:
    by_prefix = sorted(data.items(), key=lambda item: "/" in item[0])
    for key, about in by_prefix:  # a key that names its seller replaces one that does not
        seller = SELLERS.get(str(about.get("litellm_provider")))
        if seller is None or not _is_kept(key, about):
            continue
        row = row_of(about, version)
        if row is not None:
            yield f"{seller}/{key.removeprefix(f'{seller}/')}", row


def _is_kept(key: str, about: Mapping[str, Any]) -> bool:
    """Whether the model's price is one of text tokens alone, everywhere the same, and no guess."""
    if not str(about.get("source", "https://")).startswith("https://"):
        return False  # a remark in its place, as that the price is another model's
    if about.get("mode") not in ("chat", "responses", "embedding") or "tiered_pricing" in about:
        return False
    if len([name for name in about if _STEP.match(name)]) > 1:
        return False
    return not any(p.search(key) for p in (_OTHER_UNITS, _REGION, _SIZE_CLASS))


def row_of(about: Mapping[str, Any], version: str) -> dict[str, Any] | None:
    """The row of one model; ``None`` where the data has no price, or says that it is free."""
    found = _prices(about, "")
    if about.get("mode") == "embedding":
        if found.get("answer") or "over" in found:
            return None  # a model of another kind, by its prices
        found["answer"] = 0  # there is none
    if not {"prompt", "answer"} <= found.keys() or not (found["prompt"] or found["answer"]):
        return None
    for tier, ending in TIERS.items():
        prices = _prices(about, ending)
        if {"prompt", "answer"} <= prices.keys():
            found[tier] = prices
    if "batch" in found:
        found["batch"] |= _halves(found, found["batch"])
    elif about.get("litellm_provider") == "anthropic":
        found["batch"] = _halves(found, {"prompt": found["prompt"] / 2})
    more = {"context": "max_input_tokens", "max_output": "max_output_tokens"}
    found |= {name: about[key] for name, key in more.items() if isinstance(about.get(key), int)}
    return {**found, "source": about.get("source") or f"litellm {version}"}


def _prices(about: Mapping[str, Any], tier: str) -> dict[str, Any]:
    """The prices of a million tokens at one *tier*, with those of long prompts."""
    found = _amounts(about, tier)
    step = next((match for name in about if (match := _STEP.match(name))), None)
    if step is not None:
        dearer = _amounts(about, f"_above_{step[1]}k_tokens{tier}")
        found["over"] = int(step[1]) * 1000
        if not tier or {"prompt", "answer"} <= dearer.keys():  # else it is unknown
            found["beyond"] = {**{k: found[k] for k in KINDS if k in found}, **dearer}
    return found


def _halves(prices: Mapping[str, Any], batch: Mapping[str, Any]) -> dict[str, Any]:
    """The prices of a batch, which costs half of everything, where the data says half at all.

    https://platform.claude.com/docs/en/build-with-claude/batch-processing ("50% of the standard
    API prices", caches included) and https://developers.openai.com/api/docs/pricing, 2026-11-27.
    """
    if batch["prompt"] * 2 != prices["prompt"]:
        return {}
    halves: dict[str, Any] = {
        name: prices[name] / 2 for name in KINDS if prices.get(name) is not None
    }
    if "beyond" in prices:
        halves |= {"over": prices["over"], "beyond": _halves(prices["beyond"], {
            "prompt": prices["beyond"]["prompt"] / 2})}  # fmt: skip
    return halves


def _amounts(about: Mapping[str, Any], suffix: str) -> dict[str, Any]:
    """The prices of a million tokens; reasoning counts as a part of the answer."""
    found = {
        kind: _per_million(about[key + suffix])
        for kind, key in KINDS.items()
        if about.get(key + suffix) is not None
    }
    reasoning = about.get("output_cost_per_reasoning_token")
    if "answer" in found and reasoning is not None and not suffix:
        found["answer"] = max(found["answer"], _per_million(reasoning))
    return found


def _per_million(price: float) -> float | int:
    exact = (Decimal(str(price)) * 1_000_000).normalize()
    return int(exact) if exact == exact.to_integral_value() else float(exact)


def written(made: Mapping[str, Any]) -> str:
    """The table as text: one line for each model, so that changes can be read."""
    head = {name: value for name, value in made.items() if name != "models"}
    lines = (f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in made["models"].items())
    return json.dumps(head, indent=1)[:-2] + ',\n "models": {\n' + ",\n".join(lines) + "\n }\n}\n"


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description="Make the table of prices.")
    parser.add_argument("--date", default=datetime.date.today().isoformat())
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    spec = importlib.util.find_spec("litellm")
    if spec is None or spec.origin is None:
        raise SystemExit("install litellm first: pip install 'appl[litellm]'")
    data = json.loads((Path(spec.origin).parent / DATA).read_text("utf-8"))
    made = table(data, importlib.metadata.version("litellm"), given.date)
    given.out.write_text(written(made), "utf-8")
    print(f"{given.out}: {len(made['models'])} models")


if __name__ == "__main__":
    main()

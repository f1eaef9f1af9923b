"""The shipped table of prices: what it holds, how it was made, and how a name finds its row."""

from __future__ import annotations

import datetime
import importlib.metadata
import importlib.util
import json
import subprocess
import sys
import zipfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from appl.backend import Usage, price_table
from appl.backend.price_table import PriceRow, Seller, row_of, seller_at

ROOT = Path(__file__).parents[2]
NOTICE = (ROOT / "appl" / "backend" / "prices.LICENSE").read_text("utf-8")
TABLE: dict[str, Any] = json.loads((ROOT / "appl" / "backend" / "prices.json").read_text("utf-8"))
AMOUNTS = {"prompt", "answer", "cached", "written", "written_1h"}
TIERS = {"batch", "flex", "priority"}


def made_by(version: str) -> bool:
    try:
        return importlib.metadata.version("litellm") == version
    except importlib.metadata.PackageNotFoundError:
        return False


def litellm_data() -> dict[str, Any]:
    spec = importlib.util.find_spec("litellm")
    assert spec is not None and spec.origin is not None
    file = Path(spec.origin).with_name("model_prices_and_context_window_backup.json")
    data: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return data


def test_the_table_says_when_and_from_what_it_was_made() -> None:
    assert price_table.date() == datetime.date.fromisoformat(TABLE["date"]).isoformat()
    assert "litellm" in TABLE["source"]
    assert price_table.currency() == "USD"


@pytest.mark.parametrize("name", TABLE["models"])
def test_a_row_has_prices_a_size_and_a_source(name: str) -> None:
    about = TABLE["models"][name]
    tiers = [about, *(about[tier] for tier in TIERS & about.keys())]
    steps = [step for tier in tiers for step in (tier, tier.get("beyond")) if step]
    for step in steps:
        assert {"prompt", "answer"} <= step.keys() and step["prompt"] + step["answer"] > 0
        for kind in AMOUNTS & step.keys():
            assert isinstance(step[kind], int | float) and 0 <= step[kind] < 10_000
            assert Fraction(str(step[kind])) * 10**6 == int(Fraction(str(step[kind])) * 10**6)
    assert ("over" in about) == ("beyond" in about)
    assert all(isinstance(about.get(k, 1), int) for k in ("over", "context", "max_output"))
    assert about["source"].startswith(("https://", "http://", "litellm "))
    assert about.keys() <= AMOUNTS | TIERS | {"over", "beyond", "context", "max_output", "source"}
    assert all(about[tier].keys() <= AMOUNTS | {"over", "beyond"} for tier in TIERS & about.keys())
    row = row_of(name)
    assert row is not None and row.name == name and row.date == TABLE["date"]


@pytest.mark.parametrize(
    "name", ["gpt-5-mini", "gpt-4o", "claude-sonnet-4-5", "gemini-2.5-flash", "deepseek-chat"]
)
def test_models_that_everybody_names_have_a_row(name: str) -> None:
    row = row_of(name)
    assert row is not None and row.context and row.max_output and row.price.prompt > 0


def test_the_script_makes_the_table_that_is_shipped(tmp_path: Path) -> None:
    version = TABLE["source"].partition(",")[0].removeprefix("litellm ")
    if not made_by(version):
        pytest.skip(f"the table was made from litellm {version}")
    out = tmp_path / "prices.json"
    script = ROOT / "backends" / "prices" / "make_table.py"
    subprocess.run(
        [sys.executable, script, "--date", TABLE["date"], "--out", out], check=True,
        capture_output=True,
    )  # fmt: skip
    assert out.read_bytes() == (ROOT / "appl" / "backend" / "prices.json").read_bytes()


def test_rows_say_what_litellm_says() -> None:
    data = litellm_data()
    for name, key in {
        "openai/gpt-4o": "gpt-4o",
        "anthropic/claude-sonnet-4-5": "claude-sonnet-4-5",
        "gemini/gemini-2.5-pro": "gemini/gemini-2.5-pro",
    }.items():
        row, theirs = row_of(name), data[key]
        assert row is not None
        exact = (
            700 * Fraction(str(theirs["input_cost_per_token"]))
            + 300 * Fraction(str(theirs["cache_read_input_token_cost"]))
            + 77 * Fraction(str(theirs["output_cost_per_token"]))
        ) * 10**6
        assert row.price.cost(Usage(1000, 77, 300, 0)) == -(-exact.numerator // exact.denominator)
        assert row.context == theirs["max_input_tokens"]


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("openai/gpt-5-mini", "openai/gpt-5-mini"),
        ("gpt-5-mini", "openai/gpt-5-mini"),
        ("litellm/gpt-5-mini", "openai/gpt-5-mini"),
        ("litellm/openai/gpt-5-mini", "openai/gpt-5-mini"),
        ("litellm/anthropic/claude-sonnet-4-5", "anthropic/claude-sonnet-4-5"),
        ("claude-sonnet-4-5", "anthropic/claude-sonnet-4-5"),
        ("azure/gpt-5-mini", "azure/gpt-5-mini"),
        ("litellm/azure/gpt-5-mini", "azure/gpt-5-mini"),
        ("gpt-5-mini-2025-08-07", "openai/gpt-5-mini-2025-08-07"),
        ("gpt-5-mini-2031-01-02", "openai/gpt-5-mini"),
        ("claude-sonnet-4-5-20310102", "anthropic/claude-sonnet-4-5"),
        ("vertex_ai/claude-haiku-4-5@20310102", "vertex_ai/claude-haiku-4-5"),
        ("gpt-5-mini-latest", "openai/gpt-5-mini"),
        ("ft:gpt-4o-mini-2024-07-18:me::x", "openai/ft:gpt-4o-mini-2024-07-18"),
        ("openrouter/openai/gpt-5-mini", "openrouter/openai/gpt-5-mini"),
        ("gemini-2.5-pro", "gemini/gemini-2.5-pro"),
        ("groq/openai/gpt-oss-20b", "groq/openai/gpt-oss-20b"),
    ],
)
def test_a_name_finds_its_row(name: str, row: str) -> None:
    found = row_of(name)
    assert isinstance(found, PriceRow) and found.name == row


@pytest.mark.parametrize(
    "name",
    ["", "lan/gpt-5-mini", "zz", "openai/zz", "gpt-5-min", "gpt-5-mini-lan", "prefix/openai/gpt-4o",
     "openai/", "anthropic/gpt-5-mini", "openrouter/openai/gpt-oss-20b:free"],
)  # fmt: skip
def test_another_name_has_no_price(name: str) -> None:
    assert row_of(name) is None


@pytest.mark.parametrize(
    ("url", "seller"),
    [
        ("https://api.openai.com/v1", "openai"),
        ("https://API.openai.com:443/v1", "openai"),
        ("https://me.openai.azure.com", "azure"),
        ("https://openrouter.ai/api/v1", "openrouter"),
        ("https://api.groq.com/openai/v1", "groq"),
        ("https://generativelanguage.googleapis.com/v1beta/openai", "gemini"),
        ("http://127.0.0.1:8000/v1", None),
        ("http://localhost/v1", None),
        ("https://api.openai.com.example.org/v1", None),
        ("https://example.org/api.openai.com/v1", None),
        ("https://api.openai.com:8443/v1", None),
        ("https://openai.azure.com.example.org", None),
        ("", None),
        (None, None),
    ],
)
def test_only_a_sellers_own_address_has_its_prices(url: str | None, seller: str | None) -> None:
    assert seller_at(url) == seller


def test_a_seller_knows_its_own_models_and_no_others() -> None:
    ours, azure = Seller("openai").get("gpt-5.1"), Seller("azure").get("gpt-5.1")
    assert ours is not None and azure is not None
    assert (ours.prompt, ours.answer) == (azure.prompt, azure.answer)
    assert Seller("openai").get("claude-sonnet-4-5") is None
    assert Seller("openai").get("") is None and Seller("nobody").get("gpt-5-mini") is None


def test_a_long_prompt_has_the_price_of_long_prompts() -> None:
    row = row_of("gemini-2.5-pro")
    assert row is not None and row.price.over == 200_000
    assert row.price.cost(Usage(200_000, 0, 0)) == 200_000 * 5 // 4
    assert row.price.cost(Usage(200_001, 10, 0)) == -(-200_001 * 5 // 2) + 150
    assert row.price.most(200_001, 10) >= -(-200_001 * 5 // 2) + 150


def test_what_is_written_to_a_cache_counts_in_the_most_that_a_call_may_cost() -> None:
    row = row_of("claude-haiku-4-5")
    assert row is not None and row.price.written is not None
    assert row.price.most(10**6, 0) == Fraction(str(row.price.written)) * 10**6


def test_neither_the_table_nor_litellm_is_read_at_import() -> None:
    code = (
        "import sys, appl, appl.backend.price, appl.backend.price_table as t\n"
        "assert t._table.cache_info().currsize == 0\n"
        "from appl import gen, ppl\n"
        "assert t.row_of('gpt-5-mini') is not None and 'litellm' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_wheel_holds_the_table_and_its_license(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    build = "from hatchling.build import build_wheel; import sys; print(build_wheel(sys.argv[1]))"
    subprocess.run(
        [sys.executable, "-c", build, tmp_path], check=True, cwd=ROOT, capture_output=True
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as held:
        assert (
            held.read("appl/backend/prices.json")
            == (ROOT / "appl" / "backend" / "prices.json").read_bytes()
        )
        notices = [name for name in held.namelist() if name.endswith("prices.LICENSE")]
        assert (
            "appl/backend/prices.LICENSE" in notices and len(notices) == 2
        )  # and among the licenses
        assert {held.read(name).decode() for name in notices} == {NOTICE}


def test_the_notice_is_litellm_s_own() -> None:
    """Word for word, as its license wants."""
    (path,) = [file for file in importlib.metadata.files("litellm") or () if file.name == "LICENSE"]
    theirs = " ".join(path.read_text().partition("MIT License")[2].split())
    assert theirs and theirs == " ".join(NOTICE.partition("MIT License")[2].split())
    assert TABLE["source"].startswith("litellm ") and "litellm" in NOTICE.partition("MIT")[0]

"""Finds a model's tokenizer on this machine, and what its files say about sampling.

Invariant: nothing is downloaded.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

_SAMPLED = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")


def folder_of(name: str) -> Path | None:
    """The folder of the model *name*: a path, or a repository in the cache of Hugging Face."""
    with contextlib.suppress(OSError):  # no file can have such a name
        return _found(name) if name else None
    return None


def _found(name: str) -> Path | None:
    if Path(name).expanduser().is_dir():
        return Path(name).expanduser()
    kept = _hub() / f"models--{name.replace('/', '--')}"
    main = kept / "refs" / "main"
    if main.is_file():
        found = kept / "snapshots" / main.read_text("utf-8").strip()
        if found.is_dir():
            return found
    snapshots = sorted((kept / "snapshots").glob("*/tokenizer.json"))
    return snapshots[-1].parent if snapshots else None


def defaults_of(folder: Path) -> dict[str, Any]:
    """The sampling parameters that the model's ``generation_config.json`` recommends."""
    file = folder / "generation_config.json"
    if not file.is_file():
        return {}
    said = json.loads(file.read_text("utf-8"))
    return {name: said[name] for name in _SAMPLED if said.get(name) is not None}


def ends_of(folder: Path) -> frozenset[int]:
    """The tokens that end an answer, by those files of the model that can be read."""
    found = set[int]()
    for name in ("config.json", "generation_config.json"):
        said: Any = None
        with contextlib.suppress(OSError, ValueError, RecursionError):
            said = json.loads((folder / name).read_text("utf-8"))
        ends = said.get("eos_token_id") if isinstance(said, dict) else None
        listed = ends if isinstance(ends, list) else [ends]
        found.update(each for each in listed if type(each) is int)
    return frozenset(found)


def _hub() -> Path:
    if "HF_HUB_CACHE" in os.environ:
        return Path(os.environ["HF_HUB_CACHE"])
    home = os.environ.get("HF_HOME") or Path("~/.cache/huggingface").expanduser()
    return Path(home) / "hub"

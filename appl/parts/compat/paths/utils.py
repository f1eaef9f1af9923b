"""The import path ``appl.utils`` of programs for APPL 0.2.

Invariant: tokens are counted by tiktoken where it is installed, as APPL counted them.
"""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from appl.parts.compat.older import told_once

_DEFAULT = "gpt-4o"
_CHARACTERS = 4  # of a token, about


def get_num_tokens(
    prompt: object, model_name: str | None = None, encoding_name: str | None = None
) -> int:
    """The number of tokens of *prompt* for a model of OpenAI; about, without tiktoken."""
    text = str(prompt)
    try:
        import tiktoken  # only programs for APPL 0.2 that count tokens need it

        if encoding_name is not None:
            encoding = tiktoken.get_encoding(encoding_name)
        else:
            try:
                encoding = tiktoken.encoding_for_model(model_name or _DEFAULT)
            except KeyError:  # a model of others
                encoding = tiktoken.encoding_for_model(_DEFAULT)
        return len(encoding.encode(text))
    except Exception:  # it is not installed, or cannot fetch its tables
        told_once("get_num_tokens() without tiktoken", "g.usage.prompt_tokens, or install tiktoken")
        return -(-len(text) // _CHARACTERS)


def namespace_to_dict(namespace: Namespace) -> dict[str, Any]:
    """*namespace* as a dict, and those in it too."""
    return {name: _plain(value) for name, value in vars(namespace).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(map(_plain, value))
    return namespace_to_dict(value) if hasattr(value, "__dict__") else value

"""The words of a command line as they may be shown and recorded: without secrets."""

from __future__ import annotations

import re
from collections.abc import Iterable

from appl.prompt.key_search import may_have_key
from appl.prompt.secret import UNRECORDED
from appl.prompt.secret_names import is_likely

_OPTION = re.compile(r"--?([A-Za-z0-9_-]{1,128})(?:=(.*))?", re.S)


def shown_words(words: Iterable[str]) -> list[str]:
    """The *words* of a command line, without the values of options that are named like secrets."""
    shown, hidden = list[str](), False
    for word in words:
        option = _OPTION.fullmatch(word)
        secret = option is not None and is_likely(option[1])
        if option is not None and secret and option[2] is not None:
            word = f"{word[: option.start(2)]}{UNRECORDED}"
        elif hidden and option is None:
            word = UNRECORDED
        elif may_have_key(word.encode("utf-8", "surrogateescape")):
            from appl.prompt.key_masking import without_keys  # few words are keys

            word = without_keys(word, lambda kind: UNRECORDED)
        shown.append(word)
        hidden = option is not None and secret and option[2] is None
    return shown

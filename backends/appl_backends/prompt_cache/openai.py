"""The rules of OpenAI's prompt cache.

Read on 2026-11-27:

* https://developers.openai.com/api/docs/guides/prompt-caching
* ``prompt_cache_options`` and ``prompt_cache_breakpoint`` in the types of ``openai`` 2.54
  (``types/responses/response_create_params.py``, ``types/responses/response_input_text_param.py``)

From GPT-5.6 on, tokens that are written cost 1.25 times the usual price, and those that are read a
tenth. A request writes at most four entries: in the implicit mode one at the end of the newest
message, and the latest three marked ones; in the explicit mode the latest four marked ones, and
without any mark the cache is not used at all. Entries are of 1,024 tokens at least, and are kept
for 30 minutes at least. A prompt matches exactly at a breakpoint.

In dispute: whether the implicit mode finds a shorter beginning without a mark. The guide says that
there is none; https://github.com/openai/codex/issues/35300 saw nothing read after the last message
had changed, https://github.com/BerriAI/litellm/pull/37628 saw a shared system message read. What is
placed here is marked wherever it is to be read, so it costs the same under both.

Earlier models keep beginnings of 1,024 tokens by themselves, and writing costs nothing.
"""

from __future__ import annotations

import re
from functools import lru_cache

from appl.backend import Reuse
from appl_backends.prompt_cache import CacheRule, Placement, used_again

MARKS = 4
"""The most entries that a request writes."""


def place(reuse: Reuse, kept: bool) -> Placement:
    """Marks at the borders; the implicit mode unless nobody will read the end of the prompt.

    Where nobody knows, the implicit mode is what the provider would do by itself. It is also what
    finds the end of an earlier request that was *kept*.
    """
    borders = used_again(reuse)
    if reuse.goes_on is False and not kept:
        return Placement(tuple(borders[-MARKS:]), mode="explicit")
    return Placement(tuple(borders[-(MARKS - 1) :]), automatic=True)


BREAKPOINTS = CacheRule("openai", 1024, 1800.0, place)
"""GPT-5.6 and later."""

PREFIXES = CacheRule("openai-prefixes", 1024, 300.0, lambda *_: Placement(), marks=0)
"""Earlier models: the key is all that can be said."""

_VERSION = re.compile(r"^(?:ft:)?gpt-(\d{1,3})(?:\.(\d{1,3}))?(?![\d.])")


@lru_cache(maxsize=256)
def rule_of(model: str) -> CacheRule:
    """The rule for *model*; a name that does not tell its version has the earlier one."""
    found = _VERSION.match(model.rpartition("/")[2])
    version = (int(found[1]), int(found[2] or 0)) if found else (0, 0)
    return BREAKPOINTS if (5, 6) <= version < (20, 0) else PREFIXES

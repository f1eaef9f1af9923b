"""The rules of Anthropic's prompt cache.

Read on 2026-11-27:

* https://platform.claude.com/docs/en/build-with-claude/prompt-caching
* https://platform.claude.com/docs/en/about-claude/pricing
* ``cache_control`` in the types of ``anthropic`` 2.14 (``types/message_create_params.py``)

Nothing is kept that is not marked. A request has at most four marks, the automatic one included,
which stands at its last block and moves on with a conversation. Prompts are tools, system,
messages, in this order. Tokens that are written cost 1.25 times the usual price for 5 minutes and
twice for an hour, those that are read a tenth. From each mark the provider looks back over 20
blocks for an entry. An entry is there once the answer of its request has begun. The least length is
1,024 to 4,096 tokens, by the model; a shorter beginning is not kept, and costs nothing more.

In dispute: whether an entry is found only where a request had a mark, or at each block before it,
as the page said until 2026. What is placed here is marked wherever it is to be read, so it costs
the same under both.
"""

from __future__ import annotations

from dataclasses import replace

from appl.backend import Reuse
from appl_backends.prompt_cache import CacheRule, Placement, used_again

MARKS = 4
"""The most marks of a request."""


def place(reuse: Reuse, kept: bool) -> Placement:
    """Marks at the borders, and at the end of a conversation that goes on.

    Where nobody knows whether it does, a second request of it is taken for a sign of a third. The
    end of an earlier request that was *kept* is marked, too: more than 20 blocks may have come
    since. Marks for an hour come before others, as they must.
    """
    borders = used_again(reuse)
    grows = reuse.goes_on or (reuse.goes_on is None and reuse.begun > 0)
    latest = borders[-(MARKS - bool(grows) - kept) :]
    hour = max((at for at, each in enumerate(latest) if (each.gap or 0) > 300), default=-1)
    latest = [replace(each, gap=3600.0) if at < hour else each for at, each in enumerate(latest)]
    is_slow = bool(grows) and reuse.gap is not None and 300 < reuse.gap <= 3600
    return Placement(tuple(latest), automatic=bool(grows), begun=kept, hour=is_slow)


RULE = CacheRule("anthropic", 1024, 300.0, place)

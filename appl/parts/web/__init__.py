"""The common parts of servers over HTTP: keys, checks of requests, refusals, events, their end.

Needs aiohttp, the extra ``serve``. Invariant: nothing here knows what is served.
"""

from appl.base.lazy_names import names_of

__getattr__ = names_of(__name__, {"keys": "Keys"})

"""What servers over HTTP have in common: keys, checks of requests, refusals, events, their end.

Needs aiohttp, the extra ``serve``. Invariant: nothing here knows what is served.
"""

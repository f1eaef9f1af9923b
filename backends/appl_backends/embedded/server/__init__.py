"""The embedded engine behind HTTP: SGLang's native interface, and OpenAI's.

Needs aiohttp, the extra ``serve``. Invariant: what is answered here is what the backend answers in
the program's own process; only the way there differs.
"""

from appl.base.extras import needed

with needed("serve", "`appl serve`"):
    from appl.parts.web.keys import Keys
    from appl_backends.embedded.server.app import EngineServer
    from appl_backends.embedded.server.process import Address, serve

__all__ = ["Address", "EngineServer", "Keys", "serve"]

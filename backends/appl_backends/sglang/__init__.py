"""SGLang, the GPU backend with a radix cache: a native client, and a launcher for the server."""

from appl.base.extras import needed_by_backend

with needed_by_backend("sglang"):
    from appl_backends.sglang.client import SGLang

__all__ = ["SGLang"]

"""Functions of a program behind HTTP and MCP: each request is a recorded run of its own.

Needs aiohttp, the extra ``serve``; its modules are imported by who serves. Invariant: a request is
in the journal before its program begins, and its result before it is sent; so a server that was
killed goes on with what it had begun, asks nothing twice, and no client's answer is lost.
"""

from appl.base.lazy_names import names_of

__getattr__ = names_of(
    __name__,
    {
        "execution": "RunSettings served_config",
        "functions": "served_function",
        "process": "Network Ready",
        "runs": "RunLimits",
    },
)

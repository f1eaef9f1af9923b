"""A small MCP server over standard input and output, for the tests; run as a script."""

from __future__ import annotations

import asyncio
import base64
import os
from pathlib import Path

from mcp.server.mcpserver import Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import BaseModel

server = MCPServer("test")


class Point(BaseModel):
    x: int
    y: int


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@server.tool(annotations=ToolAnnotations(idempotent_hint=True))
def mirror(point: Point) -> Point:
    """Mirror a point."""
    return Point(x=point.y, y=point.x)


@server.tool()
def log(line: str) -> str:
    """Write a line into the file LOG."""
    with Path(os.environ["LOG"]).open("a") as file:
        file.write(line + "\n")
    return f"wrote {line}"


@server.tool()
def fail(why: str) -> str:
    """Fail."""
    raise ToolError(why)


@server.tool()
def picture() -> Image:
    """A picture of one pixel."""
    data = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    return Image(data=base64.b64decode(data), format="png")


@server.tool(name="dotted.name")
def dotted() -> str:
    """A name that not every model takes."""
    return "dots"


@server.tool()
async def hang() -> str:
    """Take very long."""
    await asyncio.sleep(600)
    return "late"


@server.tool()
def die() -> str:
    """End the server."""
    os._exit(3)


if __name__ == "__main__":
    with Path(os.environ["LOG"]).open("a") as started:
        started.write(f"started {os.getpid()}\n")
    server.run("stdio")

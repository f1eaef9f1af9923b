"""The examples of APPL's repository, unmodified, by this package and by APPL 0.2.2 itself.

    git clone https://github.com/appl-team/appl /tmp/appl
    python -m venv /tmp/up && /tmp/up/bin/pip install applang==0.2.2 'termcolor<3' pandas sympy \
        seedir prompt_toolkit
    python benchmarks/appl_examples/run.py /tmp/appl /tmp/up/bin/python [NAME ...]

Every example runs in a copy of its folder, with the ``appl.yaml`` of the repository, against one
server on loopback whose answers depend on the request alone. An example is *good* if it ends as it
should, and *equal* if the prompts that it sent are those that APPL sends, byte by byte: the role,
content and tool calls of every message, as a multiset, since both send requests side by side.
``stubs`` stand for what needs the network: tables of tiktoken, Wikipedia, a page of streamlit. This
package needs pandas, sympy, loguru, seedir and prompt_toolkit for the examples that use them;
EXAMPLES_PATH may name the folder that has them.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Prompt = list[dict[str, Any]]
"""What the messages of one request say."""

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TYPED = "hello there\nhow are you\nexit\nanother one\nand more\nexit\nlast\nexit\nbye\nexit\nexit\n"
ARGUMENTS = {
    "chat_with_codes": ("--intro-file", "../../README.md", "--source", "../../src/appl/caching"),
    "chat_with_references": ("--intro-file", "../../README.md", "--source", "../usage"),
}
"""Arguments of the scripts that are started elsewhere."""

_NOT_NEEDED = shutil.ignore_patterns(".git", "docs")
SECONDS = 90
LIMIT = 12  # requests with tools until the server answers with text


class Server(ThreadingHTTPServer):
    """An OpenAI server whose answers depend on the request alone; ``asked`` holds the requests."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[dict[str, Any]] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """The address that clients are given."""
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    """One connection to a ``Server``."""

    server: Server
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        """Answer a question."""
        data = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(data)
        message, reason = answer(data)
        if not data.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": reason}
            self._send("application/json", json.dumps({**_around(data), "choices": [choice]}))
            return
        calls = [{**call, "index": at} for at, call in enumerate(message.get("tool_calls", ()))]
        delta = {**message, **({"tool_calls": calls} if calls else {})}
        steps = [({"role": "assistant", **delta}, None), ({}, reason)]
        lines = [
            {
                **_around(data),
                "object": "chat.completion.chunk",
                "choices": [{"index": 0, "delta": delta, "finish_reason": why}],
            }
            for delta, why in steps
        ]
        text = "".join(f"data: {json.dumps(line)}\n\n" for line in lines)
        self._send("text/event-stream", text + "data: [DONE]\n\n")

    def _send(self, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _around(data: dict[str, Any]) -> dict[str, Any]:
    usage = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}
    return {
        "id": "x", "object": "chat.completion", "created": 1, "model": data["model"],
        "usage": usage,
    }  # fmt: skip


def answer(data: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The message and the reason of its end, for the request *data*."""
    messages = declared([spoken(message) for message in data["messages"]])
    number = int.from_bytes(hashlib.sha256(json.dumps(messages).encode()).digest()[:3], "big")
    tools = [tool["function"] for tool in data.get("tools") or ()]
    turns = sum(message["role"] == "tool" for message in messages)
    choice = data.get("tool_choice")
    if tools and choice != "none" and turns < LIMIT:
        named = choice["function"]["name"] if isinstance(choice, dict) else None
        tool = next((t for t in tools if t["name"] == named), tools[number % len(tools)])
        arguments = json.dumps(instance(tool.get("parameters", {}), {}, number))
        call = {"id": f"call_{turns}", "type": "function",
                "function": {"name": tool["name"], "arguments": arguments}}  # fmt: skip
        return {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
    wanted = data.get("response_format") or {}
    if wanted.get("type") == "json_schema":
        schema = wanted["json_schema"]["schema"]
        text = json.dumps(instance(schema, schema.get("$defs", {}), number))
    elif wanted.get("type") == "json_object":
        text = json.dumps({"answer": number})
    else:
        text = f"The answer is {number % 100}."
    for stop in [data["stop"]] if isinstance(data.get("stop"), str) else data.get("stop") or ():
        text = text.partition(stop)[0]
    return {"role": "assistant", "content": text}, "stop"


def instance(schema: dict[str, Any], names: dict[str, Any], number: int) -> Any:
    """A value of *schema*."""
    if "$ref" in schema:
        schema = names[schema["$ref"].rpartition("/")[2]]
    if "enum" in schema:
        return schema["enum"][number % len(schema["enum"])]
    if "const" in schema:
        return schema["const"]
    if "anyOf" in schema:
        return instance(schema["anyOf"][0], names, number)
    match schema.get("type"):
        case "object":
            parts = schema.get("properties", {})
            return {name: instance(part, names, number) for name, part in parts.items()}
        case "array":
            return [instance(schema.get("items", {}), names, number)]
        case "integer" | "number":
            return number % 3
        case "boolean":
            return bool(number % 2)
    return f"text {number % 10}"


def spoken(message: dict[str, Any]) -> dict[str, Any]:
    """What *message* says: not how the client writes it down."""
    content = message.get("content")
    if isinstance(content, list) and all(part.get("type") == "text" for part in content):
        content = "".join(part["text"] for part in content)
    calls = [
        [call["function"]["name"], json.loads(call["function"]["arguments"])]
        for call in message.get("tool_calls") or ()
    ]
    return {"role": message["role"], "content": content or "", "tool_calls": calls}


def declared(messages: Prompt) -> Prompt:
    """*messages* without what the page about APPL declares to be different.

    A server that cannot go on with an answer is told to in a further message; what a tool returns
    is JSON; an image is sent as it is, and not made into another format.
    """
    if messages and str(messages[-1]["content"]).startswith("Continue your last message exactly"):
        messages = messages[:-1]
    return [{**message, "content": _declared(message)} for message in messages]


def _declared(message: dict[str, Any]) -> Any:
    content = message["content"]
    if message["role"] == "tool":
        return {"true": "True", "false": "False", "null": "None"}.get(content, content)
    if isinstance(content, list):
        return [part if part["type"] == "text" else part["type"] for part in content]
    return content


def ran(python: str, example: Path, folder: Path, ours: bool) -> tuple[str, list[Prompt]]:
    """How *example* ended by *python*, and its prompts."""
    server = Server()
    with tempfile.TemporaryDirectory() as place:
        shutil.copytree(folder.parent, place, dirs_exist_ok=True, ignore=_NOT_NEEDED)
        if not ours:  # APPL asks for a default, which this package has
            with (Path(place) / "examples" / "appl.yaml").open("a") as settings:
                settings.write("\ndefault_servers: {default: gpt-4o-mini}\n")
        path = [str(HERE / "stubs"), *os.environ.get("EXAMPLES_PATH", "").split(os.pathsep)]
        path += [str(ROOT), str(ROOT / "backends")] if ours else []
        variables = {
            "PATH": os.environ["PATH"], "HOME": place, "PYTHONPATH": os.pathsep.join(path),
            "OPENAI_API_KEY": "sk-of-the-examples-00", "OPENAI_BASE_URL": server.url,
            "OPENAI_API_BASE": server.url, "DEEPSEEK_API_KEY": "sk-of-the-examples-01",
            "DEEPSEEK_API_BASE": server.url, "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        }  # fmt: skip
        file = Path(place) / example.relative_to(folder.parent)
        try:
            done = subprocess.run(
                [python, file.name, *ARGUMENTS.get(file.stem, ())],
                cwd=file.parent, env=variables, input=TYPED, text=True,
                capture_output=True, timeout=SECONDS, check=False,
            )  # fmt: skip
            last = (done.stderr.strip().splitlines() or [""])[-1][:160]
            left = done.returncode == 0 or last.startswith("EOFError")  # nothing more was typed
            how = "good" if left else f"exit {done.returncode}: {last}"
        except subprocess.TimeoutExpired:
            how = f"no end within {SECONDS} s"
    server.shutdown()
    return how, [[*map(spoken, asked["messages"])] for asked in server.asked]


def compared(ours: list[Prompt], theirs: list[Prompt]) -> str:
    """Whether both are the same prompts, but for what is declared, or the first difference."""
    plain = difference(*([json.dumps(each) for each in side] for side in (ours, theirs)))
    if plain == "equal":
        return plain
    found = difference(*([json.dumps(declared(each)) for each in side] for side in (ours, theirs)))
    return "equal but for what is declared" if found == "equal" else found


def difference(ours: list[str], theirs: list[str]) -> str:
    """The first prompt that only one of the two sent, beside the nearest of the other."""
    mine, other = Counter(ours) - Counter(theirs), Counter(theirs) - Counter(ours)
    if not mine and not other:
        return "equal"
    if not mine or not other:
        return f"{len(ours)} prompts, there {len(theirs)}"
    first = min(mine)
    (near,) = difflib.get_close_matches(first, other, 1, 0) or [min(other)]
    at = next((n for n, (a, b) in enumerate(zip(first, near, strict=False)) if a != b), 0)
    here, there = first[at - 40 : at + 60], near[at - 40 : at + 60]
    return f"{sum(mine.values())} of {len(ours)} differ: {here!r}, there {there!r}"


def rows(repository: Path, upstream: str, names: list[str]) -> Iterator[tuple[str, ...]]:
    """For each example: its name, how it ended here and there, and whether prompts are equal."""
    folder = repository / "examples"
    for example in sorted(folder.rglob("*.py")):
        name = str(example.relative_to(folder))
        if names and not any(each in name for each in names):
            continue
        here, ours = ran(sys.executable, example, folder, ours=True)
        there, theirs = ran(upstream, example, folder, ours=False)
        yield name, here, there, f"{len(ours)} prompts", compared(ours, theirs)


def main() -> None:
    """Print a table, and what it adds up to."""
    repository, upstream, *names = sys.argv[1:]
    print(f"{date.today()}  $ python benchmarks/appl_examples/run.py APPL UPSTREAM", *names)
    found = []
    for row in rows(Path(repository), upstream, names):
        print(" | ".join(row), flush=True)
        found.append(row)
    good = sum(row[1] == "good" for row in found)
    equal = Counter(row[4] for row in found)
    print(
        f"{good} of {len(found)} ran to their end unmodified; prompts: {equal['equal']} equal byte "
        f"by byte, {equal['equal but for what is declared']} but for what is declared"
    )


if __name__ == "__main__":
    main()

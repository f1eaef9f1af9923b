"""The embedded model, and a scripted proposer, behind OpenAI's interface on the loopback.

    python benchmarks/peers/optimization/server.py TASK

prints its port, and at the end of its input the calls and tokens that it has answered, those of the
proposer apart. Tokens are counted by the tokenizer of the model, with the words of prompts alone.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections import Counter
from typing import Any

from tasks import TEXTS

from appl.backend import Request, Sampling
from appl.prompt import Message, Messages
from appl_backends.embedded import Embedded

model = Embedded()
known: dict[str, str] = {}
counts: Counter[str] = Counter()
proposed: Counter[str] = Counter()


def proposal(prompt: str, task: str) -> str | None:
    """The next text for the one that a proposer is asked to replace; None for another prompt."""
    fields = "new_instruction" in prompt  # dspy asks for JSON
    if not fields and not prompt.startswith("You improve the prompts"):
        return None
    found: dict[str, int] = {}
    for name, (first, others) in TEXTS[task].items():
        places = [at for text in (first, *others) if (at := prompt.find(text)) >= 0]
        found |= {name: min(places)} if places else {}
    name = min(found, key=found.__getitem__)
    others = TEXTS[task][name][1]
    text = others[min(proposed[name], len(others) - 1)]
    proposed[name] += 1
    if fields:
        return json.dumps({"new_instruction": text})
    return f"```\n{text}\n```"


async def said(prompt: str) -> str:
    """The answer of the model, at temperature 0."""
    if prompt not in known:
        message = Messages(None, Message("user", prompt))
        sampling = Sampling(temperature=0.0, max_tokens=24)
        request = Request("/a", 0, "embedded", message, sampling)
        known[prompt] = (await model.complete(request)).samples[0].text
    return known[prompt]


async def chat(data: Any, task: str) -> Any:
    """A chat completion."""
    prompt = "\n".join(each.get("content") or "" for each in data["messages"])
    text = proposal(prompt, task)
    who = "model" if text is None else "proposer"
    content = await said(prompt) if text is None else text
    asked, answered = (len(model.tokenizer.encode(each)) for each in (prompt, content))
    counts[f"{who} calls"] += 1
    counts[f"{who} tokens"] += asked + answered
    usage = {"prompt_tokens": asked, "completion_tokens": answered}
    usage["total_tokens"] = asked + answered
    choice = {"index": 0, "finish_reason": "stop", "logprobs": None}
    choice["message"] = {"role": "assistant", "content": content}
    head = {"id": "c", "object": "chat.completion", "created": 0, "model": data["model"]}
    return {**head, "choices": [choice], "usage": usage}


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the requests of one connection, until the other side hangs up."""
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = re.search(rb"content-length: *(\d+)", head, re.I)
            body = await reader.readexactly(int(length[1]) if length else 0)
            data = json.dumps(await chat(json.loads(body), sys.argv[1])).encode()
            status = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
            writer.write(status + b"Content-Length: %d\r\n\r\n" % len(data) + data)
            await writer.drain()
    except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
        writer.close()


async def main() -> None:
    """Serve until the input ends."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 24, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    print(json.dumps(counts), flush=True)


if __name__ == "__main__":
    asyncio.run(main())

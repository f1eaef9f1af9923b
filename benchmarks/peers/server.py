"""A scripted model behind OpenAI's interface: chat completions and embeddings, on the loopback.

    python benchmarks/peers/server.py

prints its port, and at the end of its input how often it was asked. What it says follows from the
question and from how often it was asked before in the same conversation: of the records one in 50
is never answered well, and one in 20 not at first; one answer in ten cites a wrong passage first.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
import struct
import sys
from collections import Counter
from typing import Any

SIZE = 64
asked: Counter[str] = Counter()


def order(text: str, attempt: int) -> str:
    """The order in a record, as JSON."""
    found = re.search(r"Record (\d+): (\w+) bought (\d+) (\w+) for ([\d.]+)", text)
    assert found is not None
    number, customer, quantity, item, price = found.groups()
    is_bad = int(number) % 50 == 7 or (int(number) % 20 == 11 and not attempt)
    count = '"many"' if is_bad else quantity
    return f'{{"customer": "{customer}", "item": "{item}", "quantity": {count}, "price": {price}}}'


def citation(text: str, attempt: int) -> str:
    """The answer to a question from numbered passages, with the one that says so."""
    named = re.findall(r"What does (\w+ number \d+) keep\?", text)[-1]
    found = re.search(rf"\[(\d+)\] {named} keeps the (\w+)", text)
    if found is None:
        return '{"answer": "unknown", "passages": []}'
    wrong = named.endswith("3") and not attempt
    return json.dumps({"answer": found[2], "passages": [9999 if wrong else int(found[1])]})


def mood(text: str) -> str:
    """The mood of a review; the longer prompt is right more often."""
    number = int(re.findall(r"Review (\d+)", text)[-1])
    right = "good" if "is fine" in text else "bad"
    wrong = "bad" if right == "good" else "good"
    return wrong if number % (9 if "carefully" in text else 5) == 0 else right


def support(text: str, messages: list[dict[str, Any]]) -> tuple[str, bool]:
    """What a support agent says, and whether that is a call of its tool."""
    if messages[-1]["role"] == "tool":
        return f"Dear customer, {messages[-1]['content']}.", False
    order, amount = map(int, re.findall(r"\d+", text)[:2])
    return json.dumps({"order": order, "amount": amount}), True


def said(messages: list[dict[str, Any]]) -> str:
    """The answer to a conversation."""
    contents = [each.get("content") or "" for each in messages]
    parts = [c if isinstance(c, str) else " ".join(p.get("text", "") for p in c) for c in contents]
    text, attempt = "\n".join(parts), sum(each["role"] == "assistant" for each in messages)
    if "Record" in text:
        return order(text, attempt)
    return mood(text) if "Review" in text else citation(text, attempt)


def chat(data: Any) -> Any:
    """A chat completion; where an answer is to be a call of a tool, it is one."""
    is_call = bool(data.get("tools"))
    if "customers" in str(data["messages"][0]):
        content, is_call = support(str(data["messages"][-1]["content"]), data["messages"])
    else:
        content = said(data["messages"])
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if is_call:
        function = {"name": data["tools"][0]["function"]["name"], "arguments": content}
        call = {"id": f"call_{sum(asked.values())}", "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    reason = "tool_calls" if is_call else "stop"
    choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
    usage = {"prompt_tokens": 50, "completion_tokens": 20, "total_tokens": 70}
    head = {"id": "c", "object": "chat.completion", "created": 0, "model": data["model"]}
    return {**head, "choices": [choice], "usage": usage}


def embeddings(data: Any) -> Any:
    """The words of each text, counted at places that their digests give."""
    texts = [data["input"]] if isinstance(data["input"], str) else data["input"]
    found = []
    for index, text in enumerate(texts):
        vector = [0.0] * SIZE
        for word in re.findall(r"\w+", text.lower()):
            place = hashlib.blake2b(word.encode(), digest_size=2).digest()
            vector[int.from_bytes(place, "big") % SIZE] += 9.0 if word.isdigit() else 1.0
        packed = base64.b64encode(struct.pack(f"<{SIZE}f", *vector)).decode()
        written = packed if data.get("encoding_format") == "base64" else vector
        found.append({"object": "embedding", "index": index, "embedding": written})
    usage = {"prompt_tokens": len(texts), "total_tokens": len(texts)}
    return {"object": "list", "data": found, "model": data["model"], "usage": usage}


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the requests of one connection."""
    while head := await reader.readuntil(b"\r\n\r\n"):
        length = re.search(rb"content-length: *(\d+)", head, re.I)
        body = await reader.readexactly(int(length[1]) if length else 0)
        path = head.split(b" ", 2)[1].decode()
        asked[path] += 1
        answer = embeddings if path.endswith("/embeddings") else chat
        data = json.dumps(answer(json.loads(body))).encode()
        lines = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        writer.write(lines % len(data) + data)
        await writer.drain()


async def quiet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The same until the other side hangs up."""
    try:
        await serve(reader, writer)
    except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
        writer.close()


async def main() -> None:
    """Serve until the input ends."""
    server = await asyncio.start_server(quiet, "127.0.0.1", 0, limit=1 << 24, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    print(json.dumps(asked), flush=True)


if __name__ == "__main__":
    asyncio.run(main())

"""Client CPU of one call by each interface: OpenAI's chat and responses, Anthropic's messages.

Run: python benchmarks/interfaces.py [--json FILE] [--calls 2000]
All ask the same questions of one server in another process, 64 calls at a time, in turn, the median
of 7 rounds. The chat has 40 messages. Bar: responses and messages cost at most 1.3 × chat.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from providers import all_of, questions
from report import write

from appl.backend import Request, Sampling
from appl.prompt import Messages
from appl.testing import Fault
from appl.testing.faults import Ask, FaultServer
from appl_backends.anthropic import Anthropic
from appl_backends.openai import OpenAI

AT_ONCE, ROUNDS, BAR = 64, 7, 1.3
TEXT = "This is an answer of some length, as models give it. " * 4
PIECES = [TEXT[at : at + 12] for at in range(0, len(TEXT), 12)]
JSON, STREAM = {"Content-Type": "application/json"}, {"Content-Type": "text/event-stream"}


def sse(events: Iterator[dict[str, Any]]) -> bytes:
    return b"".join(
        f"event: {event.get('type', '')}\ndata: {json.dumps(event)}\n\n".encode()
        for event in events
    )


def chat() -> tuple[dict[str, Any], bytes]:
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 40,
        "total_tokens": 49,
        "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }
    head = {
        "id": "chatcmpl-1",
        "created": 1,
        "model": "gpt-5-mini-2025-08-07",
        "service_tier": "default",
    }
    message = {"role": "assistant", "content": TEXT, "refusal": None, "annotations": []}
    whole = {
        **head,
        "object": "chat.completion",
        "usage": usage,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}],
    }

    def events() -> Iterator[dict[str, Any]]:
        for piece in PIECES:
            yield {
                **head,
                "choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}],
            }
        yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        yield {**head, "choices": [], "usage": usage}

    body = b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events())
    return whole, body + b"data: [DONE]\n\n"


def responses() -> tuple[dict[str, Any], bytes]:
    part = {"type": "output_text", "text": TEXT, "annotations": [], "logprobs": []}
    item = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }
    usage = {
        "input_tokens": 9,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 40,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 49,
    }
    whole = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "model": "gpt-5-mini-2025-08-07",
        "output": [item],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": usage,
        "user": None,
        "metadata": {},
    }
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}

    def events() -> Iterator[dict[str, Any]]:
        yield {"type": "response.created", "response": {**whole, "output": []}}
        yield {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {**item, "content": []},
        }
        for piece in PIECES:
            yield {"type": "response.output_text.delta", "delta": piece, "logprobs": [], **place}
        yield {"type": "response.output_text.done", "text": TEXT, "logprobs": [], **place}
        yield {"type": "response.output_item.done", "output_index": 0, "item": item}
        yield {"type": "response.completed", "response": whole}

    return whole, sse(events())


def messages() -> tuple[dict[str, Any], bytes]:
    usage = {
        "input_tokens": 9,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
        "output_tokens": 40,
        "service_tier": "standard",
    }
    whole = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": [{"type": "text", "text": TEXT}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": usage,
    }

    def events() -> Iterator[dict[str, Any]]:
        yield {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}
        yield {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "text", "text": ""},
        }
        for piece in PIECES:
            yield {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": piece},
            }
        yield {"type": "content_block_stop", "index": 0}
        end = {"stop_reason": "end_turn", "stop_sequence": None}
        yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": 40}}
        yield {"type": "message_stop"}

    return whole, sse(events())


def serve() -> None:
    """Answer by the interface that is asked, until the input is closed."""
    known = {"completions": chat(), "responses": responses(), "messages": messages()}
    faults = {
        name: (
            Fault("whole", 200, JSON, json.dumps(whole).encode()),
            Fault("stream", 200, STREAM, body),
        )
        for name, (whole, body) in known.items()
    }

    def answer(ask: Ask) -> Fault:
        return faults[ask.path.rpartition("/")[2]][bool(ask.data.get("stream"))]

    with FaultServer(answer) as server:
        print(server.url, flush=True)
        sys.stdin.read()


async def cpu_of_all(url: str, kind: str, streamed: bool, count: int) -> dict[str, list[float]]:
    """Microseconds of CPU a call, by interface, one round after the other."""
    own: dict[str, Any] = {"base_url": f"{url}/v1", "api_key": "k", "server": "openai"}
    backends: dict[str, Any] = {
        "chat": OpenAI(**own, interface="chat"),
        "responses": OpenAI(**own, interface="responses"),
        "messages": Anthropic(base_url=url, api_key="k"),
    }
    models = {"chat": "gpt-5-mini", "responses": "gpt-5-mini", "messages": "claude-sonnet-4-5"}
    emit, found = (lambda chunk: None) if streamed else None, dict[str, list[float]]()

    async def ask(name: str, prompt: Messages) -> None:
        question = Request("/a", 0, models[name], prompt, Sampling())
        answer = await backends[name].complete(question, emit)
        assert answer.text == TEXT

    for at in range(ROUNDS + 1):
        for name in backends:
            prompts = questions(kind, count if at else AT_ONCE)
            before = time.process_time_ns()
            await all_of(lambda prompt, name=name: ask(name, prompt), prompts)
            if at:  # the first round warms up
                found.setdefault(name, []).append((time.process_time_ns() - before) / count / 1000)
    for backend in backends.values():
        await backend.aclose()
    return found


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve()
        return
    found = []
    command = [sys.executable, __file__, "--serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None and server.stdin is not None
        url = server.stdout.readline().decode().strip()
        for kind, streamed in (("short", False), ("chat", False), ("short", True)):
            rounds = asyncio.run(cpu_of_all(url, kind, streamed, arguments.calls))
            base = statistics.median(rounds["chat"])
            shape = f"{kind}{', streamed' if streamed else ''}"
            for name, spent in rounds.items():
                cost = statistics.median(spent)
                holds = "" if cost <= BAR * base else "  ABOVE THE BAR"
                print(
                    f"{shape:16} {name:10} {cost:8.0f} µs  {cost / base:5.2f} × chat{holds}",
                    flush=True,
                )
                found.append(
                    {
                        "shape": shape,
                        "interface": name,
                        "us_a_call": cost,
                        "rounds": spent,
                        "of_chat": cost / base,
                    }
                )
        server.stdin.close()
    write(arguments.json, f"python benchmarks/interfaces.py --calls {arguments.calls}", found)


if __name__ == "__main__":
    main()

"""What a real SGLang answered on the shipped weights, and how to ask it again.

    python -m tests.serving.recorded http://127.0.0.1:30000 0.5.17

asks a server that was started on the folder of the shipped weights with ``--dtype float32
--enable-metrics --enable-cache-report``, and writes its answers beside this file. Times are left
out: they differ every time.
"""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

ANSWERS = Path(__file__).with_name("recorded.json")
HELLO = "<s><|user|>Hello<|end|><|assistant|>"
GREEDY = {"temperature": 0, "max_new_tokens": 40}
FOUR = {"temperature": 0, "max_new_tokens": 4}
CHAT = {"model": "embedded", "messages": [{"role": "user", "content": "Hello"}], "temperature": 0}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("/flush_cache", {}),
    ("/generate", {"text": HELLO, "sampling_params": GREEDY}),
    ("/generate", {"input_ids": [0, 3, 750, 1, 4], "sampling_params": GREEDY}),
    ("/generate", {"text": HELLO, "sampling_params": {**GREEDY, "stop": ["small"]}}),
    ("/generate", {"text": HELLO, "sampling_params": {**GREEDY, "stop": ["mall te"]}}),
    ("/generate", {"text": HELLO, "sampling_params": {**GREEDY, "stop_token_ids": [447]}}),
    ("/generate", {"text": HELLO, "sampling_params": {**GREEDY, "max_new_tokens": 0}}),
    ("/generate", {"text": HELLO, "sampling_params": {"temperature": 0, "max_new_tokens": 60, "ignore_eos": True, "skip_special_tokens": False}}),
    ("/generate", {"text": HELLO, "sampling_params": FOUR, "return_logprob": True, "logprob_start_len": 0, "top_logprobs_num": 2, "token_ids_logprob": [1, 5], "return_text_in_logprobs": True}),
    ("/generate", {"text": HELLO, "sampling_params": FOUR, "return_logprob": True, "top_logprobs_num": 2}),
    ("/generate", {"text": HELLO, "sampling_params": {**GREEDY, "max_new_tokens": 0}, "return_logprob": True, "logprob_start_len": 4}),
    ("/generate", {"text": HELLO, "sampling_params": {**GREEDY, "max_new_tokens": 0}, "return_logprob": True, "logprob_start_len": 5}),
    ("/generate", {"text": [HELLO], "sampling_params": GREEDY, "rid": "one", "return_prompt_token_ids": True}),
    ("/generate", {"text": HELLO, "sampling_params": {**GREEDY, "n": 2}, "rid": "two"}),
    ("/generate", {"text": HELLO, "sampling_params": FOUR, "stream": True}),
    ("/generate", {"sampling_params": GREEDY}),
    ("/generate", {"input_ids": [], "sampling_params": GREEDY}),
    ("/v1/chat/completions", {**CHAT, "max_tokens": 5, "logprobs": True, "top_logprobs": 2}),
    ("/v1/chat/completions", {**CHAT, "n": 2}),
    ("/v1/chat/completions", {**CHAT, "max_tokens": 3, "stream": True}),
    ("/v1/completions", {"model": "embedded", "prompt": "Once upon", "temperature": 0, "max_tokens": 4, "logprobs": 1}),
    ("/v1/completions", {"model": "embedded", "prompt": "Once upon", "temperature": 0, "max_tokens": 3, "stream": True}),
    ("/tokenize", {"model": "embedded", "prompt": HELLO}),
    ("/detokenize", {"model": "embedded", "tokens": [0, 3, 750, 1, 4]}),
    ("/abort_request", {"rid": "nobody"}),
    ("/nothing", {}),
]  # fmt: skip
TIMES = frozenset(
    {
        "e2e_latency", "created", "queue_time", "forward_entry_time", "prefill_finished_time",
        "request_received_ts", "api_server_dispatch_finish_ts", "request_finished_ts",
        "response_sent_to_client_ts", "decode_throughput",
    }
)  # fmt: skip


def ask(url: str, headers: dict[str, str], path: str, body: dict[str, Any]) -> list[Any]:
    """Status and content of the answer, without times."""
    request = urllib.request.Request(
        url + path, json.dumps(body).encode(), {**headers, "Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return [answer.status, timeless(content(answer.read().decode()))]
    except urllib.error.HTTPError as error:
        return [error.code, timeless(content(error.read().decode()))]


def content(text: str) -> Any:
    """JSON, the events of a stream, or the text itself."""
    if text.startswith("data: "):
        return [content(line.removeprefix("data: ")) for line in text.strip().split("\n\n")]
    try:
        return json.loads(text)
    except ValueError:
        return text


def timeless(value: Any) -> Any:
    """*value* without times, and without names that are drawn at random."""
    if isinstance(value, dict):
        return {key: timeless(inner) for key, inner in value.items() if key not in TIMES | {"id"}}
    return [timeless(inner) for inner in value] if isinstance(value, list) else value


def main(url: str, version: str) -> None:
    answers = [[path, body, *ask(url, {}, path, body)] for path, body in CASES]
    lines = ",\n".join(json.dumps(answer) for answer in answers)
    ANSWERS.write_text(f'{{"version": {json.dumps(version)}, "answers": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main(*sys.argv[1:])

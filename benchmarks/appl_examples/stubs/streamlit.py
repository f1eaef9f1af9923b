"""Stands for streamlit: one run of a script in which a user gives a key and writes a message."""

import contextlib
from collections.abc import Iterable
from typing import Any


class State:
    """The state of a session."""

    def __contains__(self, name: str) -> bool:
        return name in vars(self)


session_state = State()
sidebar = contextlib.nullcontext()


def selectbox(label: str, options: list[str], index: int = 0) -> str:
    """The option that is chosen at first."""
    return options[index]


def text_input(label: str, **_: object) -> str:
    """A key."""
    return "sk-of-the-user-of-the-app"


def chat_input(label: str) -> str:
    """A message."""
    return "What is up with the weather?"


def chat_message(role: str) -> contextlib.AbstractContextManager[None]:
    """A block that shows a message."""
    return contextlib.nullcontext()


def write_stream(pieces: Iterable[Any]) -> str:
    """Show *pieces*; the whole."""
    return "".join(map(str, pieces))


def title(text: str) -> None:
    """Show a title."""


def markdown(text: Any) -> None:
    """Show a text."""

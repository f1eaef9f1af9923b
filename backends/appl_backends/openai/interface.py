"""The two interfaces of OpenAI, as the backend uses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from appl_backends.openai.answer import ChatReader
from appl_backends.openai.body import body_of
from appl_backends.openai.exchange import MakesAssembly
from appl_backends.openai.streamed import Assembly

InterfaceName = Literal["chat", "responses"]


class Interface(NamedTuple):
    """An interface: its name, the *path* of a question, and what writes it and reads the answer.

    *in_deployment* says whether Azure names the model in the path. *mark* is put behind the name of
    a server and model where they are the source of a message's fields, since only the interface
    that gave them takes them back.
    """

    name: InterfaceName
    path: str
    in_deployment: bool
    body: Callable[..., list[bytes]]
    reader: type[ChatReader]
    assembly: MakesAssembly
    mark: str = ""


CHAT = Interface("chat", "/chat/completions", True, body_of, ChatReader, Assembly)

"""The questions of OpenAI's interface, as bytes that go to one server.

Invariant: where the account is OpenAI's or Azure's, the SDK says where a question goes and with
which headers; another server gets what its settings say, and nothing of the environment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from appl.backend.check import ANSWER_BYTES, read_json, text_in
from appl.base.extras import needed_by_backend
from appl.errors import BackendUnavailable
from appl_backends.openai.account import question_of_account
from appl_backends.openai.interface import Interface
from appl_backends.openai.settings import ServerSettings

with needed_by_backend("openai"):
    from appl_backends.http.client import Body, HttpClient, quoted


class Endpoint(NamedTuple):
    """Where a question goes: the client, the beginning of the request, and who is asked.

    *source* is who gives the fields of a message that go back through this interface alone.
    """

    http: HttpClient
    head: bytes
    who: str
    source: str


class ServerConnection:
    """Finds out where the questions to one server go. All methods run on one loop.

    ``known`` are the endpoints of the models that were asked, by path and model; none once it is
    closed.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self.known: dict[tuple[str, str], Endpoint] = {}
        self._settings = settings
        self._http: HttpClient | None = None
        self._heads: dict[tuple[str, str], tuple[HttpClient, bytes]] = {}
        self._making: dict[tuple[str, str], asyncio.Task[tuple[str, dict[str, str]]]] = {}
        self._closed = False

    async def endpoint(self, interface: Interface, model: str, who: str) -> Endpoint:
        """Where *model* is asked, whose errors name *who*. Raises ``BackendError``."""
        place = model if interface.in_deployment else ""
        http, head = await self._head("POST", interface.path, place, who)
        found = Endpoint(http, head, who, who + interface.mark)
        if not self._closed:  # it may have been closed meanwhile
            self.known[interface.path, model] = found
        return found

    async def ask(
        self,
        method: str,
        path: str,
        who: str,
        body: Body = b"",
        content_type: str = "application/json",
        read: Callable[[bytes], Any] = read_json,
        most: int = ANSWER_BYTES,
    ) -> Any:
        """The answer, of at most *most* bytes, as *read* reads it. Raises ``BackendError``."""
        url, headers = await self._question(method, path, who)
        headers = {name: it for name, it in headers.items() if name.lower() != "content-type"}
        http, head = self._written(method, url, {**headers, "Content-Type": content_type})
        return await http.exchange(head, body, who, read, most)

    async def models(self, who: str) -> list[str]:
        """The models that the server lists. Raises ``BackendError``."""
        http, head = await self._head("GET", "/models", "", who)
        found: list[str] | None = await http.exchange(head, b"", who, _names)
        return found or []

    async def aclose(self) -> None:
        """Leave the connections; what is asked later is refused."""
        self._closed = True
        self.known.clear()
        if self._http is not None:
            await self._http.aclose()

    async def _head(self, method: str, name: str, model: str, who: str) -> tuple[HttpClient, bytes]:
        """The client of the server, and the beginning of a question, which is kept."""
        if self._closed:
            raise BackendUnavailable(f"{who}: the backend is closed", worked=False)
        in_path = bool(model) and self._settings.is_azure
        path = f"/deployments/{quote(model, safe='')}{name}" if in_path else name
        found = self._heads.get((method, path))
        if found is None:
            url, headers = await self._question(method, path, who)
            found = self._heads[method, path] = self._written(method, url, headers)
        return found

    async def _question(self, method: str, path: str, who: str) -> tuple[str, dict[str, str]]:
        """The URL and the headers of a question."""
        settings = self._settings
        if not (settings.of_environment or settings.is_azure):
            return _of_settings(settings, path)
        # All who ask meanwhile wait for one attempt. The shield keeps one of them that is cancelled
        # from cancelling it for the others; the next who asks after a failure tries again.
        task = self._making.get((method, path))
        if task is None:
            made = question_of_account(settings, method, path, who)
            task = self._making[method, path] = asyncio.ensure_future(made)
            task.add_done_callback(lambda _: self._making.pop((method, path), None))
        return await asyncio.shield(task)

    def _written(self, method: str, url: str, headers: dict[str, str]) -> tuple[HttpClient, bytes]:
        if self._http is None:
            settings = self._settings
            self._http = HttpClient(url, connect=settings.connect_s, secrets=settings.secrets)
        parts = urlsplit(url)
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        return self._http, self._http.head(method, target, headers)


def _of_settings(settings: ServerSettings, path: str) -> tuple[str, dict[str, str]]:
    """The URL of a question at ``base_url``, and the headers that the settings say."""
    parts = urlsplit(settings.base_url or "")
    account = {
        "Authorization": settings.api_key and f"Bearer {settings.api_key}",
        "OpenAI-Organization": settings.organization,
        "OpenAI-Project": settings.project,
    }
    headers = {name: value for name, value in account.items() if value}
    own = {name.lower() for name in settings.headers}
    headers = {name: value for name, value in headers.items() if name.lower() not in own}
    whole = parts._replace(path=quoted(parts.path.rstrip("/")) + path)
    return whole.geturl(), {**headers, **settings.headers}


def _names(body: bytes) -> list[str]:
    """The names in a list of models; none if *body* is no such list."""
    try:
        return [text_in(each["id"], "id") for each in read_json(body)["data"]]
    except (KeyError, TypeError, ValueError):
        return []

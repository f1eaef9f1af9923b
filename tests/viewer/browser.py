"""A real Chromium, driven over a pipe with the DevTools protocol; nothing waits by the clock.

What a page does that it should not (dialogs, errors in the console, exceptions, requests) is noted.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import queue
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from appl.tracing.viewer import ViewerServer

AXE = Path(__file__).parents[2] / "viewer" / "node_modules" / "axe-core" / "axe.min.js"
PATIENCE_S = 60
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-extensions", "--hide-scrollbars", "--disable-dev-shm-usage",
    "--disable-renderer-backgrounding", "--disable-backgrounding-occluded-windows",
    "--remote-debugging-pipe",
)  # fmt: skip
_KEYS = {
    "Enter": ("Enter", 13, "\r"), "Tab": ("Tab", 9, ""), "Escape": ("Escape", 27, ""),
    "ArrowDown": ("ArrowDown", 40, ""), "ArrowUp": ("ArrowUp", 38, ""),
    "ArrowLeft": ("ArrowLeft", 37, ""), "ArrowRight": ("ArrowRight", 39, ""),
    "Home": ("Home", 36, ""), "End": ("End", 35, ""), "PageDown": ("PageDown", 34, ""),
}  # fmt: skip


def executable() -> str | None:
    """Where Chromium is, ``None`` where there is none."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Chromium:
    """One browser; ``page`` opens a page in a profile of its own."""

    def __init__(self, folder: Path) -> None:
        found = executable()
        assert found, "Chromium is not installed: apt-get install chromium"
        read, self._write = os.pipe()
        self._read, write = os.pipe()
        command = f'exec "$0" "$@" 3<&{read} 4>&{write}'
        arguments = [*_FLAGS, f"--user-data-dir={folder}", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", command, found, *arguments],
            pass_fds=(read, write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(read)
        os.close(write)
        self._numbers = itertools.count(1)
        self._answers: dict[int, queue.SimpleQueue[dict[str, Any]]] = {}
        self._pages: dict[str, Page] = {}
        self._thread = threading.Thread(target=self._listen, name="chromium", daemon=True)
        self._thread.start()

    def send(self, method: str, session: str | None = None, **given: Any) -> dict[str, Any]:
        """One command; what it answers."""
        number = next(self._numbers)
        answer = self._answers[number] = queue.SimpleQueue()
        message: dict[str, Any] = {"id": number, "method": method, "params": given}
        if session:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        found = answer.get(timeout=PATIENCE_S)
        del self._answers[number]
        if "error" in found:
            raise RuntimeError(f"{method}: {found['error']}")
        result: dict[str, Any] = found["result"]
        return result

    def page(self, url: str, *, dark: bool = False, width: int = 1280) -> Page:
        """A new page that shows *url*, in a profile of its own."""
        context = self.send("Target.createBrowserContext")["browserContextId"]
        target = self.send("Target.createTarget", url="about:blank", browserContextId=context)
        session = self.send("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        made = self._pages[session["sessionId"]] = Page(self, session["sessionId"], context)
        for domain in ("Page", "Runtime", "Network", "Log"):
            made.send(f"{domain}.enable")
        made.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=800,
            deviceScaleFactor=1,
            mobile=False,
        )
        made.scheme("dark" if dark else "light")
        made.open(url)
        return made

    def close(self) -> None:
        """End the browser."""
        os.close(self._write)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._thread.join(10)
        os.close(self._read)

    def _listen(self) -> None:
        rest = b""
        while data := os.read(self._read, 1 << 20):
            *messages, rest = (rest + data).split(b"\0")
            for message in messages:
                self._take(json.loads(message))

    def _take(self, message: dict[str, Any]) -> None:
        number = message.get("id")
        if number in self._answers:
            self._answers[number].put(message)
        page = self._pages.get(message.get("sessionId", ""))
        if number is None and page is not None:
            page.take(message["method"], message["params"])


class Page:
    """One page, and what it has done."""

    def __init__(self, browser: Chromium, session: str, context: str) -> None:
        self._browser, self._session, self._context = browser, session, context
        self.dialogs: list[str] = []
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.loaded = threading.Event()

    def take(self, method: str, given: dict[str, Any]) -> None:
        """Note an event."""
        if method == "Page.loadEventFired":
            self.loaded.set()
        elif method == "Page.javascriptDialogOpening":
            self.dialogs.append(given["message"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(given["exceptionDetails"])[:2000])
        elif method == "Runtime.consoleAPICalled" and given["type"] in (
            "error",
            "assert",
            "warning",
        ):
            self.complaints.append(json.dumps(given["args"])[:2000])
        elif method == "Log.entryAdded" and given["entry"]["level"] in ("error", "warning"):
            self.complaints.append(given["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])

    def send(self, method: str, **given: Any) -> dict[str, Any]:
        """One command of the protocol."""
        return self._browser.send(method, self._session, **given)

    def open(self, url: str) -> None:
        """Go to *url*; returns when it is loaded."""
        self.loaded.clear()
        found = self.send("Page.navigate", url=url)
        assert "errorText" not in found, found
        if found.get("loaderId"):
            assert self.loaded.wait(PATIENCE_S), f"{url} is not loaded"

    def js(self, expression: str) -> Any:
        """The value of an expression; a promise is waited for."""
        found = self.send(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in found:
            raise AssertionError(json.dumps(found["exceptionDetails"])[:3000])
        return found["result"].get("value")

    def until(self, expression: str) -> Any:
        """The value of an expression as soon as it is true."""
        return self.js(
            "new Promise((found, lost) => { const end = performance.now() + 45000;"
            f"const look = () => {{ let seen; try {{ seen = ({expression}) }} catch (e) {{}}"
            "if (seen) found(seen); else if (performance.now() > end)"
            f"lost(new Error({json.dumps(expression)} + ' never came; ' + document.body.innerText.slice(0, 1500)));"
            "else setTimeout(look, 10) }; look() })"
        )

    def frame(self) -> None:
        """Return when what was asked to be drawn is drawn."""
        self.js(
            "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))"
        )

    def text(self, selector: str = "body") -> str:
        """The visible text of an element."""
        return str(self.js(f"document.querySelector({json.dumps(selector)}).innerText"))

    def click(self, selector: str) -> None:
        """A click on an element."""
        self.js(f"document.querySelector({json.dumps(selector)}).click()")

    def press(self, *keys: str) -> None:
        """Keys, one after another, as from a keyboard."""
        for key in keys:
            name, code, text = _KEYS.get(key, (key, ord(key[0].upper()), key))
            shift = 8 if key in ("?", "+") else 0
            event = {"key": name, "windowsVirtualKeyCode": code, "modifiers": shift}
            self.send("Input.dispatchKeyEvent", type="keyDown", text=text, **event)
            self.send("Input.dispatchKeyEvent", type="keyUp", **event)

    def back_tab(self) -> None:
        """Tab with Shift."""
        event = {"key": "Tab", "windowsVirtualKeyCode": 9, "modifiers": 8}
        self.send("Input.dispatchKeyEvent", type="keyDown", **event)
        self.send("Input.dispatchKeyEvent", type="keyUp", **event)

    def write(self, text: str) -> None:
        """Text into what has the focus."""
        self.send("Input.insertText", text=text)

    def scheme(self, name: str) -> None:
        """What the system prefers: light or dark."""
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.send("Emulation.setEmulatedMedia", features=features)

    def picture(self, path: Path) -> None:
        """A screenshot, for who looks into a failure."""
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot")["data"]))

    def close(self) -> None:
        """Close it with its profile."""
        self._browser.send("Target.disposeBrowserContext", browserContextId=self._context)


Serve = Callable[..., ViewerServer]
"""A server of the runs at one or two paths."""

Listed = Callable[[Path], ViewerServer]
"""A server of the list of runs below a folder."""

Show = Callable[..., Page]
"""A page of the browser that shows an address."""

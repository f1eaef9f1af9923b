"""The rule for event streams read naively: the whole body at once, line by line, as the page says.

Source: HTML Living Standard, 9.2.6 "Interpreting an event stream",
https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
"""

from __future__ import annotations


def lines(text: str) -> list[str]:
    """The lines of *text*: each ended by CRLF, LF or CR; what follows the last end is no line."""
    found, line, at = [], "", 0
    while at < len(text):
        if text.startswith("\r\n", at):
            found.append(line)
            line, at = "", at + 2
        elif text[at] in "\r\n":
            found.append(line)
            line, at = "", at + 1
        else:
            line, at = line + text[at], at + 1
    return found


def events(body: bytes) -> list[tuple[str, str]]:
    """The type and the data of each event that the page has dispatched, and that has data."""
    text = body.decode("utf-8", "replace")
    text = text.removeprefix("\ufeff")  # "strip one leading U+FEFF"
    found: list[tuple[str, str]] = []
    data = kind = ""
    for line in lines(text):
        if line == "":
            if data == "":  # "set the data buffer and the event type buffer to the empty string"
                kind = ""
                continue
            data = data.removesuffix("\n")
            if data:
                found.append((kind, data))
            data = kind = ""
        elif line.startswith(":"):
            continue
        else:
            field, colon, value = line.partition(":")
            value = value.removeprefix(" ") if colon else ""
            if field == "event":
                kind = value
            elif field == "data":
                data += value + "\n"
    return found

"""Conversations as the messages of Anthropic's interface, each part encoded once.

A conversation has the user and the assistant in turn: results of tools and what the user says next
are one message, and what the system says stands apart.

Invariant: a thought goes back to the model that had it, as it was and in its place, or not at all.
Newer models take one only behind what stood before it when they had it; each is kept with a digest
of that, and left out where it would differ.
https://platform.claude.com/docs/en/build-with-claude/preserved-thinking/prefix-checks
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from json.encoder import encode_basestring
from typing import Any, NamedTuple

from appl.errors import Unsupported
from appl.prompt import Messages
from appl.prompt.digest import digest_of
from appl_backends.openai.body import utf8
from appl_backends.openai.dialects import Dialect
from appl_backends.prompt_cache import CachePlan, Mark, parts_of

BLOCKS, PREFIX = "content_blocks", "content_prefix"
"""The fields of a message that hold the blocks of an answer, and what they belong behind."""

THOUGHTS = frozenset({"thinking", "redacted_thinking"})
HELLO = "Hello."
"""The user's text where a conversation has none at its beginning."""

_UNBOUND = re.compile(r"claude-(?:[23]|instant|(?:opus|sonnet|haiku)-[34])(?!\d)")
"""Models that take thoughts of theirs behind anything."""

_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class _Ids(Dialect):
    """Ids of calls in the characters that Anthropic takes, and arguments that are objects."""

    name = "anthropic"
    ids = re.compile(r"[a-zA-Z0-9_-]+")


_IDS = _Ids()


class Place(NamedTuple):
    """Who is asked: *source* is the server and model, *tools* a digest of those that it may call.

    *beside* is a digest of what the system says within the conversation, which stands before all
    of it. Without *thinks* no thought is sent.
    """

    source: str
    tools: bytes = b""
    beside: bytes = b""
    thinks: bool = True
    is_bound: bool = True


class Encoded(NamedTuple):
    """The bytes that a link of the conversation adds, and what stands after it.

    *role* is that of the open message, *thoughts* a digest of the thoughts so far. *system* is true
    where the bytes belong to what the system says, *sheds* where a thought was left out so far.
    """

    piece: bytes
    role: str = ""
    thoughts: bytes = b""
    system: bool = False
    sheds: bool = False


_NOTHING = Encoded(b"")


def place_of(messages: Messages | None, source: str, model: str, tools: tuple[str, ...]) -> Place:
    """The place in which *messages* are sent to *model*: all of it, if thoughts depend on it."""
    if messages is None or not messages.provided:
        return Place(source)
    return full_place(messages, source, model, tools)


def full_place(messages: Messages | None, source: str, model: str, tools: tuple[str, ...]) -> Place:
    """The place in which *messages* are sent to *model*."""
    digest = hashlib.sha256("\0".join(tools).encode()).digest()[:16]
    beside = b"" if messages is None else _beside(messages)
    return Place(source, digest, beside, True, _UNBOUND.match(model) is None)


def _beside(messages: Messages) -> bytes:
    """A digest of what the system says within the conversation; empty if it is nothing."""
    links, found = messages.links(), list[bytes]()
    begun = False
    for link in links:
        if link.outline.role != "system":
            begun = True
        elif begun:
            found.append(digest_of(link.message.content))
    return digest_of(*found) if found else b""


def prefix_at(link: Messages | None, place: Place, thoughts: bytes) -> str:
    """The digest of the state before an answer behind *link*."""
    said = b"" if link is None else link.digest
    return digest_of(said, place.tools, place.beside, thoughts).hex()[:32]


def encoded(messages: Messages | None, place: Place) -> list[Encoded]:
    """The additions of each link of *messages*, the first one first; cached with the links."""
    return [state_at(link, place) for link in messages.links()] if messages is not None else []


def state_at(link: Messages | None, place: Place) -> Encoded:
    """The additions of *link*, and the state after it; cached with the link."""
    todo = list[Messages]()
    found: Any = None
    while link is not None:
        found = link.cache.get(place if link.provided else _KEY)
        if found is not None:
            break
        todo.append(link)
        link = link.parent
    state: Encoded = _NOTHING if found is None else found
    for each in reversed(todo):
        state = each.cache[place if each.provided else _KEY] = _encoded(each, state, place)
    return state


_KEY = "anthropic.message"
_BLOCK = 16
"""So many messages are kept as one piece: a long chat is put together from few of them."""


class Joined(NamedTuple):
    """The bytes of several links, in both places, and the link before them."""

    system: bytes
    said: bytes
    parent: Messages | None


def pieces_of(messages: Messages, place: Place) -> tuple[list[bytes], list[bytes]]:
    """The system's text in *messages*, and the rest of them, in pieces."""
    state_at(messages, place)
    system, said = list[bytes](), list[bytes]()
    link: Messages | None = messages
    while link is not None:
        if link.length % _BLOCK == 0:
            block = _joined(link, place)
            system.append(block.system)
            said.append(block.said)
            link = block.parent
            continue
        found: Any = link.cache[place if link.provided else _KEY]
        (system if found.system else said).append(found.piece)
        link = link.parent
    system.reverse()
    said.reverse()
    return [piece for piece in system if piece], said


def _joined(link: Messages, place: Place) -> Joined:
    """The links up to *link*, whose number ends a block, from the last block on."""
    key = "anthropic.block", place if link.provided else None
    kept: Any = link.cache.get(key)
    if kept is None:
        found, at = list[Encoded](), link
        while True:
            found.append(state_at(at, place))
            if at.parent is None or at.parent.length % _BLOCK == 0:
                break
            at = at.parent
        found.reverse()
        system = b",".join([each.piece for each in found if each.system and each.piece])
        said = b"".join([each.piece for each in found if not each.system])
        kept = link.cache[key] = Joined(system, said, at.parent)
    joined: Joined = kept
    return joined


def _encoded(link: Messages, before: Encoded, place: Place) -> Encoded:
    blocks, thoughts, sheds = blocks_of(link, before, place)
    found = joined(link, blocks, before)
    return found._replace(thoughts=thoughts, sheds=sheds or before.sheds)


def joined(link: Messages, blocks: list[str], before: Encoded) -> Encoded:
    """The additions of *link* with these *blocks*."""
    role = link.outline.role
    text = ",".join(blocks)
    if role == "system":
        return before._replace(piece=utf8(text), system=True)
    before = before._replace(system=False)
    role = "assistant" if role == "assistant" else "user"
    if not blocks:
        return before._replace(piece=b"")
    if role == before.role:
        return before._replace(piece=utf8(f",{text}"))
    opening = f'{{"role":"{role}","content":['
    if before.role:
        opening = f"]}},{opening}"
    elif role == "assistant":
        opening = f'{{"role":"user","content":[{{"type":"text","text":"{HELLO}"}}]}},{opening}'
    return before._replace(piece=utf8(opening + text), role=role)


def planned(messages: Messages, place: Place, plan: CachePlan) -> list[Encoded]:
    """The additions of each link of *messages*, cut and marked as *plan* says."""
    found, links = encoded(messages, place), messages.links()
    for number in plan.cuts.keys() | {mark.message for mark in plan.marks}:
        before = found[number - 1] if number else _NOTHING
        cuts, marks = plan.cuts.get(number, ()), plan.marks_of(number)
        blocks, *_ = blocks_of(links[number], before, place, cuts, marks)
        found[number] = found[number]._replace(piece=joined(links[number], blocks, before).piece)
    return found


def marked(block: str, mark: Mark) -> str:
    """*block* as the end of what the provider is to keep; a thought cannot be one."""
    if block.startswith(('{"type":"thinking"', '{"type":"redacted_thinking"')):
        return block
    return f'{block[:-1]},"cache_control":{control(mark.ttl)}}}'


def control(ttl: str) -> str:
    """The value of a mark, which keeps a prompt for the usual time or for *ttl*."""
    return _json({"type": "ephemeral", **({"ttl": ttl} if ttl else {})})


_NO_MARKS: Mapping[int | None, Mark] = {}


def blocks_of(
    link: Messages,
    before: Encoded,
    place: Place,
    cuts: Sequence[int] = (),
    marks: Mapping[int | None, Mark] = _NO_MARKS,
) -> tuple[list[str], bytes, bool]:
    """The blocks of the message of *link* as JSON, and the digest of the thoughts up to it.

    Its text is cut at the places *cuts*, and what ends at one of the *marks* is marked. The last
    value is true if a thought was left out.
    """
    blocks, thoughts, sheds = _all_blocks(link, before, place, cuts, marks)
    if blocks and None in marks:
        blocks[-1] = marked(blocks[-1], marks[None])
    return blocks, thoughts, sheds


def _all_blocks(
    link: Messages,
    before: Encoded,
    place: Place,
    cuts: Sequence[int],
    marks: Mapping[int | None, Mark],
) -> tuple[list[str], bytes, bool]:
    message = link.kept or link.message
    if message.bare and not cuts:
        return ([_text(message.content)] if message.content.strip() else []), before.thoughts, False
    (data,) = _IDS.written(message.as_dict(place.source), link)
    if message.role == "tool":
        return [_json(_result(data, message.has_error))], before.thoughts, False
    kept, prefix = data.pop(BLOCKS, None), data.pop(PREFIX, "")
    thoughts, sheds = before.thoughts, False
    if isinstance(kept, list):
        if not place.thinks or (
            place.is_bound and prefix != prefix_at(link.parent, place, thoughts)
        ):
            sheds = any(block.get("type") in THOUGHTS for block in kept)
            kept = [block for block in kept if block.get("type") not in THOUGHTS]
        if signed := [_json(block) for block in kept if block.get("type") in THOUGHTS]:
            thoughts = digest_of(thoughts, *signed)
    return list(_blocks(data, kept or [], cuts, marks)), thoughts, sheds


def _text(text: str) -> str:
    return f'{{"type":"text","text":{encode_basestring(text)}}}'


def _blocks(
    data: Mapping[str, Any], kept: list[Any], cuts: Sequence[int], marks: Mapping[int | None, Mark]
) -> Iterator[str]:
    """The blocks of a message, with those that were *kept* in their places."""
    content, calls = data.get("content"), iter(data.get("tool_calls", ()))
    if isinstance(content, list):
        for part in content:
            yield from _part(part)
    elif kept:
        yield from _restored(content or "", calls, kept)
    elif content:
        yield from _texts(content, data.get("name"), cuts, marks)
    for call in calls:
        yield _call(call, {"type": "tool_use"})


def _texts(
    text: str, speaker: str | None, cuts: Sequence[int], marks: Mapping[int | None, Mark]
) -> Iterator[str]:
    """*text* in blocks, which begins with the name of its *speaker*; none of white space alone."""
    for piece, end in zip(parts_of(text, cuts), [*cuts, None], strict=True):
        said = f"{speaker}: {piece}" if speaker else piece
        speaker = None
        if said.strip():
            block = _text(said)
            yield marked(block, marks[end]) if end in marks and end is not None else block


def _restored(text: str, calls: Iterator[Any], kept: list[Any]) -> Iterator[str]:
    """The blocks that were *kept*, with the text and the calls of their message.

    The program may have said something before the answer in the same message, or a stop text may
    have cut the end of the answer off.
    """
    at = max(0, len(text) - sum([block.get("size", 0) for block in kept]))
    if text[:at].strip():
        yield _text(text[:at])
    for block in kept:
        kind = block.get("type")
        if kind == "text":
            size, more = block.get("size", 0), {k: v for k, v in block.items() if k != "size"}
            said, at = text[at : at + size], at + size
            if said.strip():
                yield _json({**more, "text": said})
        elif kind == "tool_use":
            if (call := next(calls, None)) is not None:
                yield _call(call, block)
        else:
            yield _json(block)
    if text[at:].strip():
        yield _text(text[at:])


def _call(call: Mapping[str, Any], block: Mapping[str, Any]) -> str:
    """A call of a tool; its arguments are JSON text already."""
    function = call["function"]
    head = _json({**block, "id": call["id"], "name": function["name"]})
    return f'{head[:-1]},"input":{function["arguments"]}}}'


def _result(data: Mapping[str, Any], has_error: bool) -> dict[str, Any]:
    content = data["content"]
    if isinstance(content, list):
        content = [json.loads(block) for part in content for block in _part(part)]
    found: dict[str, Any] = {"type": "tool_result", "tool_use_id": data.get("tool_call_id", "")}
    if content:
        found["content"] = content
    return {**found, "is_error": True} if has_error else found


_DATA = re.compile(r"data:([^;,]+);base64,(.*)", re.DOTALL)


def _part(part: Mapping[str, Any]) -> Iterator[str]:
    """A part of a message's content as a block; none for a text of white space."""
    more = {k: v for k, v in part.items() if k not in ("type", "text", "image_url")}
    if part.get("type") == "text":
        if part["text"].strip():
            yield _json({"type": "text", "text": part["text"], **more})
    elif part.get("type") == "image_url":
        url = part["image_url"]["url"]
        if found := _DATA.fullmatch(url):
            source = {"type": "base64", "media_type": found[1], "data": found[2]}
        else:
            source = {"type": "url", "url": url}
        yield _json({"type": "image", "source": source, **more})
    else:
        raise Unsupported(f"Anthropic takes text and images, and got {part.get('type')!r:.40}")


def is_in_turn_without_thoughts(messages: Messages | None, place: Place) -> bool:
    """True if a call of the current turn has no thought before it: another model has made it.

    What the user says behind results of tools becomes one message with them, so no turn begins
    there; nor does one behind an answer of white space, which is not sent.
    """
    link, is_after_user = messages, False
    while link is not None:
        if not state_at(link, place).piece:
            link = link.parent
            continue
        role = link.outline.role
        if is_after_user and role == "assistant":
            return False
        if link.outline.tool_calls:
            blocks, *_ = blocks_of(link, state_at(link.parent, place), place)
            if not any('"type":"thinking"' in b or '"type":"redacted_' in b for b in blocks[:1]):
                return True
        is_after_user = role == "user" or (is_after_user and role == "system")
        link = link.parent
    return False

"""The form of a prompt for a provider that keeps beginnings of prompts: keys, cuts and marks.

A request says how its prompt is used again (``Request.reuse``), a provider's rule says what that is
worth there, and :func:`plan_for` says what to write into the body, whatever interface that is for.

Invariant: everything here is pure, but that the cuts of a message that was sent once are kept with
its link, so that each request of a conversation writes it in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from appl.backend import Border, Request, Reuse
from appl.prompt import Messages


@dataclass(frozen=True, slots=True)
class Mark:
    """A place up to which the provider is to keep the prompt.

    It stands behind ``offset`` characters of message number ``message``, or at its end if that is
    ``None``. ``ttl`` is ``1h`` if it is to be kept for an hour, else empty.
    """

    message: int
    offset: int | None
    ttl: str = ""


@dataclass(frozen=True, slots=True)
class Placement:
    """The decision of a rule: the ``borders`` to mark, and how the rest of the prompt is kept.

    With ``automatic`` the end of the prompt is kept, too. ``mode`` is that of
    ``prompt_cache_options`` for OpenAI, ``None`` where nothing is to be said. ``begun`` is true
    if the end of the earlier request of the conversation is to be marked. With ``hour`` all of it
    is kept for an hour.
    """

    borders: tuple[Border, ...] = ()
    automatic: bool = False
    mode: str | None = None
    begun: bool = False
    hour: bool = False


@dataclass(frozen=True, slots=True)
class CacheRule:
    """The rule of one provider's cache.

    Beginnings of fewer than ``least`` tokens are not kept, others for ``ttl`` seconds. ``place``
    decides by the use of a prompt, and by whether the end of the earlier request of its
    conversation was kept. ``leads`` is true if an entry can be read only when the answer
    of the request that wrote it has begun. A request takes so many ``marks``; without any, there is
    no use in cutting its prompt.
    """

    name: str
    least: int
    ttl: float
    place: Callable[[Reuse, bool], Placement]
    leads: bool = True
    marks: int = 4


@dataclass(frozen=True, slots=True)
class CachePlan:
    """The fields of a body for the provider's cache.

    ``key`` is that of requests with the same beginning. ``cuts`` are the places, in characters, at
    which the text of a message is cut into parts, by the message's number. A part that ends at one
    of the ``marks`` is marked. ``automatic`` and ``mode`` are those of :class:`Placement`, and
    ``ttl`` is that of the automatic mark.
    """

    key: str
    cuts: Mapping[int, tuple[int, ...]]
    marks: tuple[Mark, ...] = ()
    automatic: bool = False
    mode: str | None = None
    ttl: str = ""

    def marks_of(self, message: int) -> dict[int | None, Mark]:
        """The marks in message number *message*, by their offsets."""
        return {mark.offset: mark for mark in self.marks if mark.message == message}


def plan_for(request: Request, rule: CacheRule | None) -> CachePlan:
    """The plan of the body of *request* for a cache with this *rule*; only a key without one."""
    key, reuse, messages = key_of(request.messages), request.reuse, request.messages
    if rule is None or reuse is None or messages is None:
        return CachePlan(key, {})
    links = messages.links()
    kept = 0 < reuse.begun <= len(links) and _KEPT in links[reuse.begun - 1].cache
    placed = rule.place(_long_enough(reuse, rule.least), kept)
    known = {(border.message, border.offset) for border in reuse.borders}
    cuts: dict[int, tuple[int, ...]] = {}
    for number, link in enumerate(links):
        found = link.cache.get(_CUTS)
        if found is None and rule.marks:
            found = _cuts_of(link, sorted(at for message, at in known if message == number))
            link.cache[_CUTS] = found
        if found:
            assert isinstance(found, tuple)
            cuts[number] = found
    marks = list(_marks(placed, links, cuts))
    if placed.automatic:
        messages.cache[_KEPT] = True
    if placed.begun:
        marks.append(Mark(reuse.begun - 1, None, ""))
    hour = "1h" if placed.hour else ""
    marks = [Mark(mark.message, mark.offset, hour or mark.ttl) for mark in marks]
    ordered = sorted(set(marks), key=lambda mark: (mark.message, mark.offset is None, mark.offset))
    return CachePlan(key, cuts, tuple(ordered), placed.automatic, placed.mode, hour)


_CUTS, _KEPT = "prompt_cache.cuts", "prompt_cache.kept"


def _long_enough(reuse: Reuse, least: int) -> Reuse:
    """*reuse* without borders that come too early to be kept."""
    if all(border.tokens >= least for border in reuse.borders):
        return reuse
    borders = [border for border in reuse.borders if border.tokens >= least]
    return Reuse(tuple(borders), reuse.goes_on, reuse.gap, reuse.begun)


def _cuts_of(link: Messages, offsets: Sequence[int]) -> tuple[int, ...]:
    """The *offsets* at which the text of *link* can be cut; one with images is left whole."""
    if link.outline.media or link.outline.tool_calls or link.outline.role == "tool":
        return ()
    return tuple(offset for offset in offsets if 0 < offset < link.size)


def _marks(
    placed: Placement, links: Sequence[Messages], cuts: Mapping[int, tuple[int, ...]]
) -> Iterator[Mark]:
    for border in placed.borders:
        if border.offset >= links[border.message].size:
            yield Mark(border.message, None, _ttl(border.gap))
        elif border.offset in cuts.get(border.message, ()):
            yield Mark(border.message, border.offset, _ttl(border.gap))


def _ttl(gap: float | None) -> str:
    """The time for which a beginning is kept that is read again after *gap* seconds."""
    return "1h" if gap is not None and 300 < gap <= 3600 else ""


def parts_of(text: str, offsets: Sequence[int]) -> list[str]:
    """*text* cut at *offsets*, which are sorted."""
    ends = [*offsets, len(text)]
    return [text[start:end] for start, end in zip([0, *offsets], ends, strict=True)]


def key_of(messages: Messages | None) -> str:
    """The key for routing: that of all prompts with the same long beginning.

    It is the digest of the first statements of the first message that are long enough to be kept
    together, or of that message, so that it does not depend on what is known of other requests.
    """
    first = messages
    if first is None:
        return "appl"
    while first.parent is not None:
        first = first.parent
    if first.size < _KEYED:
        return f"appl-{first.digest.hex()[:16]}"
    found = first.cache.get(_KEY)
    if found is None:
        end = _first_border(first)
        digest = first.digest if end is None else _digest(first.outline.role, first, end)
        found = first.cache[_KEY] = f"appl-{digest.hex()[:16]}"
    return str(found)


_KEY = "prompt_cache.key"
_KEYED = 4096
"""The characters of the shortest beginning that providers keep, about."""


def _first_border(link: Messages) -> int | None:
    """Where the first statements of *link* end that are long enough; ``None`` for its end."""
    spans, at = link.spans, 0
    for length in spans[::2]:
        at += length
        if at >= _KEYED:
            return at if at < link.size else None
    return None


def _digest(role: str, link: Messages, end: int) -> bytes:
    text = link.message.content[:end]
    return blake2b(f"{role}\0{text}".encode("utf-8", "surrogatepass"), digest_size=16).digest()


def used_again(reuse: Reuse) -> list[Border]:
    """The borders that another prompt has read or written, or will read."""
    return [border for border in reuse.borders if border.sent or border.to_come]

"""Addresses in the order in which a reader expects them: parents first, numbers as numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Place = tuple[tuple[str, int], ...]


def place(address: str) -> Place:
    """The sort key of *address*."""
    return tuple(_part(part) for part in address.split("/"))


def _part(part: str) -> tuple[str, int]:
    name, dot, number = part.rpartition(".")
    counts = dot and number.isascii() and number.isdigit() and len(number) < 19
    return (name, int(number)) if counts else (part, -1)


def in_order(addresses: Iterable[str]) -> list[str]:
    """*addresses* in the order of a tape: the same however the run was scheduled."""
    return sorted(addresses, key=place)


def after_their_needs(needs: Mapping[str, Iterable[str]]) -> list[str]:
    """The keys of *needs*, in that order but for this: what one needs stands before it.

    What is needed and is no key is left out; in a circle, which no run makes, anyone may be first.
    """
    done: dict[str, None] = {}
    begun: set[str] = set()
    for first in in_order(needs):
        stack = [first]
        while stack:
            address = stack[-1]
            if address in begun:
                done.setdefault(stack.pop())
                continue
            begun.add(address)
            stack += [need for need in needs[address] if need in needs and need not in begun]
    return list(done)

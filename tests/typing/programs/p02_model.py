"""A typed answer of pydantic: its attributes are typed."""

from __future__ import annotations

from typing import assert_type

import pydantic

from appl import Generation, gen, ppl


class Ticket(pydantic.BaseModel):
    priority: int


@ppl
def triage(text: str) -> Ticket:
    f"{text}"
    return gen(response_format=Ticket)


@ppl
def started(text: str) -> Generation[Ticket]:
    f"{text}"
    return gen(response_format=Ticket)


ticket = triage("The door is stuck.")
assert_type(ticket, Ticket)
assert_type(ticket.priority, int)
assert_type(started("x").result().priority, int)
ticket.prioriti  # type: ignore[attr-defined]
started("x").result().prioriti  # type: ignore[attr-defined]


async def awaited() -> None:
    assert_type(await gen(response_format=Ticket), Ticket)

"""Roles, messages, records and conversations."""

from __future__ import annotations

from typing import assert_type

from appl import AIRole, Conversation, PromptRecords, SystemMessage, convo, gen, ppl, records


@ppl
def part(name: str) -> PromptRecords:
    SystemMessage("Be brief.")
    with AIRole():
        f"I am {name}."
    return records()


@ppl
def whole() -> Conversation:
    gen()
    return convo()


assert_type(part("Ann"), PromptRecords)
assert_type(whole(), Conversation)
part(3)  # type: ignore[arg-type]

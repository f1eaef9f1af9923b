"""``PromptWriter``: who adds text to a prompt, and in which voice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from appl.prompt.voice import USER, Voice

if TYPE_CHECKING:
    from appl.prompt.chain import Prompt, PromptNode
    from appl.prompt.origin import Origin


class PromptWriter:
    """A writer of text into a prompt, in a voice; ``fresh`` if the next part begins an item.

    ``address`` says whose prompt it is. ``origin`` is where its own part of the prompt begins,
    and ``base`` the voice in which it begins. ``site`` is the statement whose parts are being said.
    """

    __slots__ = ("address", "base", "fresh", "origin", "prompt", "site", "voice")

    def __init__(self, address: str, prompt: Prompt, voice: Voice = USER) -> None:
        self.address, self.prompt = address, prompt
        self.voice = self.base = voice
        self.origin: PromptNode | None = prompt.tip
        self.fresh = True
        self.site: Origin = None

    def tip(self) -> PromptNode | None:
        """The newest node that belongs to this."""
        return self.prompt.tip

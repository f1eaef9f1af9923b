"""The protocol by which objects can be prompt text themselves."""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol, runtime_checkable


@runtime_checkable
class Promptable(Protocol):
    """An object that says something: as a statement it adds what ``__prompt__()`` returns.

    Any class with that method counts; inherit from this one to have it checked that it is there::

        class Rule(Promptable):
            def __prompt__(self):
                return [f"Rule: {self.text}", self.examples]
    """

    @abstractmethod
    def __prompt__(self) -> object:
        """The content that is said in its place: text, a message, an image, or a list of these."""
        raise NotImplementedError

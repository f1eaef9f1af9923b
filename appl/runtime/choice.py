"""Choosing one of several strings, by the best way that the backend has.

Invariant: the answer is one of the options, or the generation fails with ``ChoiceError``.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from appl.backend import Profile, Response, Sample, Sampling, Usage
from appl.errors import ChoiceError, InvalidOption, Unsupported
from appl.prompt import Node
from appl.runtime.call import Call, on_finish
from appl.runtime.fiber import wait
from appl.runtime.frame import Frame
from appl.runtime.future import Generation
from appl.runtime.pending import Error, Pending, Value
from appl.runtime.text import Text

ASKS = 3


def checked(options: Sequence[str]) -> tuple[str, ...]:
    """The options as plain strings; none, an empty one or a duplicate is an error."""
    if isinstance(options, str):
        raise InvalidOption(f"choices takes a list of strings, got the string {options!r}")
    found = tuple(str.__str__(str(each)) for each in options)
    if not found:
        raise InvalidOption("choices is empty: give at least one string")
    if "" in found:
        raise InvalidOption(f"choices holds an empty string: {list(found)!r}")
    if len(set(found)) != len(found):
        twice = next(each for each in found if found.count(each) > 1)
        raise InvalidOption(f"choices holds {twice!r} twice")
    return found


def sampling_for(
    profile: Profile,
    sampling: Sampling,
    options: Sequence[str],
    normalize: str | None,
    method: str | None,
) -> Sampling:
    """The sampling that makes the backend choose, in the best way that it has."""
    if method not in (None, "logprob") or normalize not in (None, "token"):
        raise InvalidOption("select() takes method='logprob' and normalize='token', or neither")
    if "choices" in profile.features:
        return dataclasses.replace(sampling, choices=tuple(options), normalize=normalize)
    if method == "logprob":
        raise Unsupported(
            f"backend {profile.name!r} cannot score choices by log-probability; "
            "leave out method='logprob' to let it choose in another way"
        )
    if "regex" in profile.features:
        pattern = "(" + "|".join(re.escape(each) for each in options) + ")"
        return dataclasses.replace(sampling, regex=pattern)
    return sampling


def choose(frame: Frame, call: Call, options: tuple[str, ...]) -> Generation:
    """Issue *call* as a choice among *options*."""
    if call.sampling.choices is None and call.sampling.regex is None:
        _ask(call, options)
    chosen = Chosen(call, options)
    frame.add(chosen)
    chosen.follow(call)
    call.run.submit(call)
    if call.run.sequential:
        wait(chosen)
    return Generation(chosen)


def _ask(call: Call, options: tuple[str, ...]) -> None:
    lines = [f"{i}. {option}" for i, option in enumerate(options, 1)]
    text = "Choose one of these options. Answer with its number only.\n" + "\n".join(lines)
    node = call.node
    for message in call.messages or ():
        node = Node(node, message.role, message.content)
    call.node, call.messages = Node(node, "user", text), None


class Chosen(Pending):
    """The option that was picked: the outcome of one call, or of several that asked again."""

    __slots__ = ("_asks", "_call", "_options", "_responses", "run")

    def __init__(self, call: Call, options: tuple[str, ...]) -> None:
        super().__init__(call.address, call.home)
        self.run, self._call, self._options = call.run, call, options
        self._asks = 1
        self._responses: list[Response] = []

    def asked_after(self) -> Node | None:
        return self._call.node

    def follow(self, call: Call) -> None:
        """Take up the outcome of *call* when it is there."""
        on_finish(call, self._answered)

    def _answered(self, done: Pending) -> None:
        if isinstance(done.outcome, Error):
            self.finish(done.outcome)
            return
        assert isinstance(done.outcome, Value) and isinstance(done, Call)
        response: Response = done.outcome.value._response
        self._responses.append(response)
        option = self._option(response.text)
        if option is not None:
            self._choose(option, response)
        elif self._asks < ASKS and self._asked():
            self._ask_again(done, response.text)
        else:
            self.finish(Error(self._error(response.text)))

    def _asked(self) -> bool:
        return self._call.sampling.choices is None and self._call.sampling.regex is None

    def _option(self, text: str) -> str | None:
        said = text.strip()
        number = re.match(r"\D{0,12}?(\d{1,9})\b", said) if self._asked() else None
        if number and 1 <= int(number[1]) <= len(self._options):
            return self._options[int(number[1]) - 1]  # also where an option is itself a number
        for each in (text, said):
            if each in self._options:
                return each
        if not self._asked():
            return None
        named = [each for each in self._options if each.casefold() == said.strip(".'\"").casefold()]
        return named[0] if len(named) == 1 else None

    def _choose(self, option: str, response: Response) -> None:
        how = "asked" if self._asked() else "constrained"
        sample = response.samples[0]
        chosen = dataclasses.replace(
            response,
            samples=(Sample(option, sample.finish_reason, sample.logprobs),),
            usage=_total([each.usage for each in self._responses]),
            choice_method=response.choice_method
            or ("logprob" if response.scores is not None else how),
        )
        self.finish(Value(Text.of(chosen, 0)))

    def _ask_again(self, before: Call, said: str) -> None:
        wrong = (
            f"That is not one of the numbers 1 to {len(self._options)}. "
            "Answer with one of them and nothing else."
        )
        node = Node(Node(before.node, "assistant", said), "user", wrong)
        call = before.again(f"{self.address}/ask.{self._asks}", node)
        self._asks += 1
        self.follow(call)
        self.run.scheduler.admit(call)

    def _error(self, said: str) -> ChoiceError:
        return ChoiceError(
            f"{self._call.where()}: asked {self._asks} times for one of {list(self._options)!r}, "
            f"the last answer was {said!r:.200}"
        )

    def cancel(self) -> None:
        self.looked = True
        self._call.cancel()

    def blockers(self) -> tuple[Pending, ...]:
        return (self._call,) if not self._call.done else ()

    def suspicious(self) -> bool:
        return self._call.suspicious()


def _total(usages: list[Usage]) -> Usage:
    def added(name: str) -> int | None:
        values = [getattr(usage, name) for usage in usages]
        return None if any(value is None for value in values) else sum(values)

    return Usage(added("prompt_tokens"), added("completion_tokens"), added("cached_tokens"))

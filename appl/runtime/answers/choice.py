"""Choosing one of several strings, by the best way that the backend has.

Invariant: the answer is one of the options, or the generation fails with ``ChoiceError``.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Sequence

from appl.backend import GREEDY, UNCONDITIONAL, Profile, Sampling
from appl.errors import ChoiceError, InvalidOption, Unsupported
from appl.runtime.answers.call import Call
from appl.runtime.answers.demand import schema_for, unwrapped
from appl.runtime.answers.multi_call import MultiCall, response_of, times
from appl.runtime.answers.shape import BySchema
from appl.runtime.answers.text import Text
from appl.runtime.concurrency.promise import Error, Value

ASKS = 3


def checked(options: Sequence[str]) -> tuple[str, ...]:
    """The options as plain strings; none, an empty one or a duplicate is an error."""
    if isinstance(options, str):
        raise InvalidOption(f"choices takes a list of strings, got the string {options!r}")
    if not isinstance(options, Iterable):
        raise InvalidOption(f"choices takes a list of strings, got {options!r:.80}")
    texts = tuple(str.__str__(str(option)) for option in options)
    if not texts:
        raise InvalidOption("choices is empty: give at least one string")
    if "" in texts:
        raise InvalidOption(f"choices holds an empty string: {list(texts)!r}")
    if len(set(texts)) != len(texts):
        twice = next(option for option in texts if texts.count(option) > 1)
        raise InvalidOption(f"choices holds {twice!r} twice")
    return texts


def sampling_for(
    profile: Profile,
    sampling: Sampling,
    options: Sequence[str],
    normalize: str | None,
    method: str | None,
    end: bool | None = None,
) -> Sampling:
    """The sampling that makes the backend choose, in the best way that it has."""
    if end is not None and not isinstance(end, bool):
        raise InvalidOption(f"select(end=...) is True or False, got {end!r:.80}")
    scored = dataclasses.replace(sampling, choices=tuple(options), choice_end=end)
    if method in _METHODS and normalize is None:
        if not {"choices", "choice_methods"} <= profile.features:
            raise Unsupported(
                f"backend {profile.name!r} cannot choose by {method!r}; choose a backend that "
                "scores tokens (sglang, embedded), or leave out method="
            )
        return dataclasses.replace(scored, normalize=str(method))
    if method not in (None, "logprob") or normalize not in (None, "token"):
        raise InvalidOption(
            f"select(method={method!r}, normalize={normalize!r}): method is 'logprob', with which "
            f"normalize='token' may stand, or one of {', '.join(map(repr, _METHODS))}"
        )
    if "choices" in profile.features:
        return dataclasses.replace(scored, normalize=normalize)
    if method == "logprob":
        raise Unsupported(
            f"backend {profile.name!r} cannot score choices by log-probability; "
            "leave out method='logprob' to let it choose in another way"
        )
    if "regex" in profile.features:
        pattern = "(" + "|".join(re.escape(option) for option in options) + ")"
        return dataclasses.replace(sampling, regex=pattern)
    schema = schema_for(BySchema({"enum": list(options)}), profile)
    return dataclasses.replace(sampling, schema=schema) if schema is not None else sampling


_METHODS = (GREEDY, UNCONDITIONAL)


def choose(call: Call, options: tuple[str, ...]) -> Chosen:
    """The series that makes *call* a choice among *options*."""
    if _is_asked(call.sampling):
        _ask(call, options)
    return Chosen(call, options)


def _is_asked(sampling: Sampling) -> bool:
    """True if only the words of the prompt make the model choose."""
    return sampling.choices is None and sampling.regex is None and sampling.schema is None


def _ask(call: Call, options: tuple[str, ...]) -> None:
    lines = [f"{i}. {option}" for i, option in enumerate(options, 1)]
    text = "Choose one of these options. Answer with its number only.\n" + "\n".join(lines)
    call.add("user", text)


class Chosen(MultiCall):
    """The option that was picked: the outcome of one call, or of several that asked again."""

    __slots__ = ("_options",)

    def __init__(self, call: Call, options: tuple[str, ...]) -> None:
        super().__init__(call)
        self._options = options

    def step(self, round: list[Call | MultiCall]) -> None:
        (last,) = round
        response = response_of(last)
        option = self._option(response.text)
        if option is not None:
            how = "asked" if self._asked() else "constrained"
            sample = dataclasses.replace(response.samples[0], text=option)
            method = response.choice_method or ("logprob" if response.scores is not None else how)
            chosen = dataclasses.replace(self.total([sample]), choice_method=method)
            self.finish(Value(Text.of(self.address, chosen)))
        elif self._asked() and len(self.sources) < ASKS:
            self._ask_again(last)
        else:
            self.finish(Error(self._error(response.text)))

    def _asked(self) -> bool:
        return _is_asked(self.call.sampling)

    def _option(self, text: str) -> str | None:
        answer = text.strip()
        number = re.match(r"\D{0,12}?(\d{1,9})\b", answer) if self._asked() else None
        if number and 1 <= int(number[1]) <= len(self._options):
            return self._options[int(number[1]) - 1]  # also where an option is itself a number
        for candidate in (text, answer):
            if candidate in self._options:
                return candidate
        if not self._asked():
            named = [option for option in self._options if unwrapped(text) == json.dumps(option)]
            return named[0] if named else None
        named = [
            option
            for option in self._options
            if option.casefold() == answer.strip(".'\"").casefold()
        ]
        return named[0] if len(named) == 1 else None

    def _ask_again(self, before: Call | MultiCall) -> None:
        wrong = (
            f"That is not one of the numbers 1 to {len(self._options)}. "
            "Answer with one of them and nothing else."
        )
        self.ask(self.after(before, wrong, len(self.sources)))

    def _error(self, answer: str) -> ChoiceError:
        return ChoiceError(
            f"{self.where()}: asked {times(len(self.sources))} for one of {list(self._options)!r}, "
            f"the last answer was {answer!r:.200}"
        )

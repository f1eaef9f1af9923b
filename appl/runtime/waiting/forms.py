"""The forms of answers that a person may give, as data that a trace holds.

Invariant: an answer is checked by its form alone, where the program is not at hand; the program
checks it once more by its type.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from appl.errors import nearest

FormKind = Literal["yes or no", "choice", "text", "json", "approval"]
_KINDS = ("yes or no", "choice", "text", "json", "approval")
_YES = ("yes", "y", "true", "ok")
_NO = ("no", "n", "false")
_MOST_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Form:
    """The form of an answer: of one of ``options``, or as the JSON ``schema`` says.

    An approval is yes, no with a reason, or other arguments, of which ``schema`` is that of the
    tool, and ``given`` are those that the model wrote: what a person leaves out stays.
    """

    kind: FormKind
    schema: Mapping[str, Any] | None = None
    options: tuple[Any, ...] = ()
    given: Mapping[str, Any] = field(default_factory=dict)

    def as_data(self) -> dict[str, Any]:
        """The form as plain data."""
        data: dict[str, Any] = {"kind": self.kind}
        if self.schema is not None:
            data["schema"] = dict(self.schema)
        if self.options:
            data["options"] = list(self.options)
        return data

    @classmethod
    def of_data(cls, data: object, arguments: object = None) -> Form:
        """The form of ``as_data``; of anything else any text will do.

        *arguments* are the arguments of the tool that is to be approved.
        """
        if not isinstance(data, Mapping) or data.get("kind") not in _KINDS:
            return cls("text")
        schema, options = data.get("schema"), data.get("options")
        return cls(
            data["kind"],
            schema if isinstance(schema, Mapping) else None,
            tuple(options) if isinstance(options, list | tuple) else (),
            arguments if isinstance(arguments, Mapping) else {},
        )

    @property
    def hint(self) -> str:
        """The possible answers, in words."""
        if self.kind == "yes or no":
            return "yes or no"
        if self.kind == "approval":
            return "yes, no, `no: REASON`, or other arguments as JSON"
        if self.kind == "choice":
            shown = ", ".join(str(option) for option in self.options[:_MOST_SHOWN])
            return f"one of {shown}" + (", …" if len(self.options) > _MOST_SHOWN else "")
        if self.kind == "text":
            return "a text"
        kind = (self.schema or {}).get("type")
        if kind in ("integer", "number"):
            return "a number"
        fields = (self.schema or {}).get("properties")
        if isinstance(fields, Mapping):
            return f"JSON with {', '.join(map(str, fields))}"
        return "a value as JSON"

    # -- from what a person types, or a host gives, to plain data

    def typed(self, text: str) -> Any:
        """The plain value that *text* means. Raises ``ValueError`` with what is wrong."""
        if self.kind == "yes or no":
            return self._yes_or_no(text)
        if self.kind == "choice":
            return self._option(text)
        if self.kind == "text":
            return text
        if self.kind == "approval":
            return self._approval(text)
        return self._json(text)

    def checked(self, value: object) -> Any:
        """*value* as plain data, if it is of this form. Raises ``ValueError``."""
        if self.kind == "yes or no" and isinstance(value, bool):
            return value
        if self.kind == "approval" and isinstance(value, bool):
            return {"approved": value}
        if self.kind == "approval" and isinstance(value, Mapping):
            return self._arguments(dict(value))
        if self.kind == "choice" and any(_same(value, option) for option in self.options):
            return value
        if self.kind == "json" and not isinstance(value, str):
            plain = _plain(value)
            self._check(plain)
            return plain
        if isinstance(value, str):
            return self.typed(value)
        raise ValueError(f"write {self.hint}, got {value!r:.80}")

    def _yes_or_no(self, text: str) -> bool:
        word = text.strip().casefold()
        if word in _YES or word in _NO:
            return word in _YES
        raise ValueError(f"write yes or no, got {text!r:.80}")

    def _option(self, text: str) -> Any:
        words = {str(option): option for option in self.options}
        if text.strip() in words:
            return words[text.strip()]
        alike = [word for word in words if word.casefold() == text.strip().casefold()]
        if len(alike) == 1:
            return words[alike[0]]
        raise ValueError(f"write {self.hint}, got {text!r:.80}{nearest(text.strip(), words)}")

    def _approval(self, text: str) -> dict[str, Any]:
        stripped = text.strip()
        if stripped.startswith("{"):
            return self._arguments(_read(stripped))
        word, colon, reason = stripped.partition(":")
        approved = self._yes_or_no(word)
        if approved and colon:
            raise ValueError("a reason follows no only: write yes, or `no: REASON`")
        return {"approved": approved} | ({"reason": reason.strip()} if reason.strip() else {})

    def _arguments(self, arguments: object) -> dict[str, Any]:
        """The approval with other *arguments*."""
        if not isinstance(arguments, dict):
            raise ValueError(f"the arguments of a tool are a JSON object, got {arguments!r:.80}")
        changed = {**self.given, **arguments}
        self._check(changed)
        return {"approved": True, "arguments": changed}

    def _json(self, text: str) -> Any:
        wrong: ValueError | None = None
        for value in _candidates(text):
            try:
                self._check(value)
            except ValueError as error:
                wrong = wrong or error
            else:
                return value
        if wrong is not None:
            raise wrong
        raise ValueError(f"write {self.hint}, got {text!r:.80}, which is no JSON")

    def _check(self, value: object) -> None:
        if self.schema is None:
            return
        from appl.runtime.answers.schema import Checker, checkable  # only a typed answer needs it

        wrong = Checker(checkable(dict(self.schema))[0]).errors(value)
        if wrong is not None:
            raise ValueError(wrong)


def form_of(wanted: object, choices: Iterable[object] | None) -> tuple[Form, Any]:
    """The form of an answer of the type *wanted*, and its shape; ``None`` if it has none."""
    if choices is not None:
        return Form("choice", options=tuple(_plain(option) for option in choices)), None
    if wanted is bool:
        return Form("yes or no"), None
    if wanted is str:
        return Form("text"), None
    from appl.runtime.answers.shape import shape_of  # it loads pydantic

    shape = shape_of(wanted)
    if shape.options:
        return Form("choice", options=tuple(shape.options)), shape
    return Form("json", schema=shape.schema), shape


def _candidates(text: str) -> Iterable[object]:
    """The values that *text* may stand for: its JSON, or the text itself."""
    try:
        yield _read(text)
    except ValueError:
        if text.lstrip()[:1] not in ("{", "["):
            yield text


def _read(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"this is no JSON: {error}") from None


def _plain(value: object) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    import pydantic_core as core  # only a typed answer needs it

    return json.loads(core.to_json(value))


def _same(one: object, other: object) -> bool:
    return type(one) is type(other) and one == other

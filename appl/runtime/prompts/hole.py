"""The part that ``{value}`` in an f-string adds to the prompt.

Invariant: what says only which object it is never becomes prompt text.
"""

from __future__ import annotations

from types import CoroutineType

from appl.prompt import Lazy, Part, as_media
from appl.runtime.answers.answer import Answer
from appl.runtime.concurrency.future import Generation
from appl.runtime.concurrency.promise import AnswerStream, Proxy
from appl.runtime.frame import PromptWriter

_TEXTUAL = frozenset({str, int, float, bool, type(None)})


def part_of(frame: PromptWriter, value: object, conversion: str, spec: str) -> Part:
    """The part that ``{value!conversion:spec}`` adds: lazy when *value* is pending.

    Without conversion and format spec, an image or a sound is itself.
    """
    if type(value) is str and not conversion and not spec:
        return value
    lazy: Lazy | None = None
    if isinstance(value, AnswerStream):
        value = value.__prompt__()
        if not isinstance(value, Proxy | Answer):
            lazy = value  # the reasoning before the answer
    if isinstance(value, Proxy):
        lazy = value._pending
        value._pending.keep(frame.address)
    if lazy is not None and not conversion and not spec:
        return lazy
    from appl.prompt.formatting import Formatted, formatted, textless  # few values need it

    if lazy is not None:
        is_text = isinstance(value, Generation) and not value._pending.typed
        if spec and (is_text or (conversion and isinstance(value, Proxy))):
            format("", spec)  # a bad spec fails at its line, not when the text is there
        return Formatted(lazy, conversion, spec)
    if conversion or spec or type(value) in _TEXTUAL:
        return formatted(value, conversion, spec)
    medium = as_media(value)
    if medium is not None:
        return medium
    text = formatted(value, "", "")
    if textless(value, text):
        from appl.runtime.prompts.refusal import refused_part

        close_unawaited(value)
        raise refused_part(value, text)
    return text


def close_unawaited(value: object) -> None:
    """Spare the user Python's warning that a coroutine was never awaited: an error says so."""
    if isinstance(value, CoroutineType):
        value.close()

"""The error for a call whose prompt is empty: where its text stands, and what to write."""

from __future__ import annotations

from appl.compiler.lost_text import Caller, bare_text, caller_at, cause_of
from appl.errors import InvalidOption
from appl.runtime.frame import Frame


def check_empty(kind: str, frame: Frame, place: tuple[str, int] | None, is_explicit: bool) -> None:
    """Refuse ``gen`` or ``select`` at *place* in *frame*, where nothing was said.

    Where the source does not show why, an empty prompt may be meant: that is told once. So is a
    prompt or conversation that was passed and *is_explicit*; an empty list is refused before.
    """
    at = "{}:{}: ".format(*place) if place is not None else ""
    if is_explicit:
        what = f"{kind}() was given an empty prompt: put a message into it first"
        frame.run.reporter.tell_once(("empty prompt", place), f"{at}{what}")
        return
    if frame.parent is not None and frame.run.reporter.has_reported(("empty prompt", place)):
        return
    caller = caller_at(*place) if place is not None else None
    helper = caller is not None and not caller.prompted and bare_text(caller.function.node)
    if frame.parent is None or helper:
        raise InvalidOption(_outside(kind, caller))
    cause = cause_of(caller) if caller is not None else None
    if caller is None or cause is None:
        what = f"the prompt of {caller.name if caller is not None else kind + '()'} is empty"
        frame.run.reporter.tell_once(
            ("empty prompt", place), f"{at}{what}; {_SAY.format(kind=kind)}"
        )
        return
    where = f"line {getattr(cause.node, 'lineno', 0)}"
    raise InvalidOption(
        f"the prompt of {caller.name} is empty: {cause.what} ({where}); {cause.hint}"
    )


_SAY = (
    'write its text as a statement before {kind}(), or write {kind}(messages="..."); if it is '
    'meant, write "" as a statement'
)


def _outside(kind: str, caller: Caller | None) -> str:
    what = f"{kind}() is outside of every prompt function, so its prompt is empty"
    text = bare_text(caller.function.node) if caller is not None and not caller.prompted else None
    if caller is None or text is None:
        return f'{what}: write {kind}(messages="..."), or put it in a function under @ppl'
    return (
        f"{what}: the text on line {text.lineno} is said to nobody; write @ppl above "
        f"`def {caller.function.node.name}`"
    )

"""The module name under which APPL programs import functions: ``from appl.func import gen``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial as partial, wraps as wraps
from typing import TypeVar

from appl.runtime.answers.generate import gen as gen
from appl.runtime.concurrency.future import Generation as Generation
from appl.runtime.concurrency.parallel import call as call
from appl.runtime.function import ppl as ppl, reset_context as reset_context
from appl.runtime.ops import grow as grow
from appl.runtime.prompts.context import convo as convo, records as records
from appl.runtime.prompts.joined import promptify as promptify, str_future as str_future
from appl.runtime.prompts.prompt_context import need_ctx as need_ctx
from appl.runtime.traced import traceable as traceable

F = TypeVar("F", bound=Callable[..., object])

completion = gen
"""An older name of ``gen``."""


def as_func(func: F, _globals: object = None, _locals: object = None) -> F:
    """*func* itself: closures are kept by their cells, so nothing has to be bound."""
    return func


__all__ = [
    "Generation",
    "as_func",
    "call",
    "completion",
    "convo",
    "gen",
    "grow",
    "need_ctx",
    "partial",
    "ppl",
    "promptify",
    "records",
    "reset_context",
    "str_future",
    "traceable",
    "wraps",
]

"""``@ppl``, which connects the compiler with the runtime.

Invariant: a decorated function keeps its name, signature, kind and place as a method. Its address
is taken when it is called, whatever runs it later.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, overload
from weakref import ref

from appl.compiler.hooks import is_compiled, program_of
from appl.errors import ApplError, InvalidOption
from appl.prompt import UNFORMATTED, Voice
from appl.runtime.activation import KEEPING, Body, CallMode, Decoration, marked
from appl.runtime.concurrency.fiber import hub_here, strand_here
from appl.runtime.concurrency.future import Future
from appl.runtime.concurrency.scopes import call_in_words
from appl.runtime.frame import FRAME, Frame, current, here, states_of

if TYPE_CHECKING:
    from appl.compiler.ir import CallCounts
    from appl.compiler.passes import Translated
    from appl.prompt import PromptNode
    from appl.runtime.concurrency.promise import Promise
    from appl.runtime.frame import PromptWriter
    from appl.runtime.prompts.compositor import Compositor
    from appl.runtime.prompts.prompt_context import PromptContext

P = ParamSpec("P")
R = TypeVar("R")

Context = Literal["new", "copy", "same", "resume"]
_ABOUT = frozenset({"ctx_method", "compositor", "_ctx", "_globals", "_locals"})
"""Keywords of a call that are about the call itself, unless the function has such a parameter."""


class DecoratedFunction(Body):
    """A decorated function: its rebuilt body, and the begin and end of its calls."""

    def __init__(self, f: FunctionType, decoration: Decoration) -> None:
        # What only the use of the decorator needs is not loaded by the import of its name.
        from appl.compiler.passes import CompilerOptions, rebuild, translate
        from appl.runtime.ops import OPS

        options = CompilerOptions(
            ctx=decoration.ctx, parallel=decoration.parallel, docstring_as=decoration.docstring_as
        )
        try:
            self.translated: Translated = translate(f, options)
        except ApplError:
            from appl.base import error_hooks

            error_hooks.install()
            raise
        self.body = rebuild(f, self.translated, OPS)
        self.name, self.qualname = f.__name__, f.__qualname__
        self.converts = f.__name__ in _CONVERSIONS
        self.kind, self.ctx = self.translated.kind, decoration.ctx
        self.file, self.line = self.translated.file, self.translated.line
        is_compatible = decoration.default_return is not None or decoration.new_ctx_func is not None
        self.notes = () if is_compatible else self.translated.notes
        self.decoration = decoration
        self.asks = decoration.new_ctx_func is not None
        documented = decoration.docstring_as is not None and self.translated.docstring is not None
        self.begins = documented or bool(self.notes)
        self.mode = CallMode(decoration.ctx, model=decoration.model, block=decoration.compositor)
        self._about = _ABOUT.difference(inspect.signature(f).parameters)
        outer = f.__qualname__.rpartition(".")[0]
        self._class = outer if not outer.endswith("<locals>") else ""  # that it is defined in
        self.function: Any = f
        self.code: Any = None

    @functools.cached_property
    def returns_value(self) -> bool:
        """True if the annotation promises a value, which plain code then gets."""
        f = self.function
        # From Python 3.14 on, annotations are made by a function, which is not called here.
        if getattr(f, "__annotate__", None) is None and not f.__annotations__:
            return False
        from appl.runtime.returning import returns_value

        return returns_value(f)

    def counts(self) -> CallCounts | None:
        return self.translated.calls

    # -- one activation

    def asked(self, kwargs: dict[str, object]) -> CallMode:
        if not self.asks and (not kwargs or self._about.isdisjoint(kwargs)):
            return self.mode
        from appl.runtime.decoration import mode_of  # few calls say how they are made

        about = {word: kwargs.pop(word) for word in self._about if word in kwargs}
        return mode_of(self.name, self.mode, about, self.decoration.new_ctx_func)

    def owner(self, args: tuple[object, ...]) -> Any:
        """The object that a method is called on, to which its ``resume`` state belongs."""
        if not args:
            return None
        first = args[0]
        kinds = first.__mro__ if isinstance(first, type) else type(first).__mro__
        for kind in kinds:
            member = vars(kind).get(self.name)
            if kind.__qualname__ == self._class or program_of(member) is self:
                return None if isinstance(member, staticmethod) else first
        return None

    def begun(self, frame: Frame) -> None:
        if frame.block is not None:
            before = frame.prompt.tip
            frame.block.begin(frame)
            if frame.prompt.tip is not None and frame.prompt.tip is not before:
                frame.prompt.tip.site = self._place()
        if self.notes and not frame.shares:
            for note in self.notes:
                frame.run.reporter.tell_once(note, note)
        role, docstring = self.decoration.docstring_as, self.translated.docstring
        if role is not None and docstring is not None:
            voice = frame.voice  # that of other text, or a message of the system
            if role == "system":
                voice = Voice("system", None, UNFORMATTED)
            elif voice.role != role:
                voice = Voice(role, None, voice.level, voice.depth + 1)
            frame.prompt.say(voice, docstring, site=self._place())

    def _place(self) -> tuple[str, int] | None:
        """The line at which it is defined."""
        return (self.file, self.line) if self.file is not None and self.line is not None else None

    def in_place_of_none(self, frame: Frame) -> Any:
        if self.decoration.default_return != "prompt":
            return None
        from appl.runtime.prompts.context import PromptRecords

        return PromptRecords(frame)

    # -- beside the caller

    def spawn(
        self, args: tuple[object, ...], kwargs: dict[str, object], mode: CallMode | None = None
    ) -> Future[Any]:
        """Start a call that runs beside its caller."""
        from appl.runtime.concurrency.task import Task, context_for  # most calls run in line

        mode = mode or self.asked(kwargs)
        caller = here(call_in_words, self.name, args)
        frame, turn = self.enter(args, kwargs, mode=mode, caller=caller, beside=True)
        task = Task(frame, hub_here() if self.kind == "async" else strand_here().hub)
        caller.add(task)
        if mode.ctx == "same":  # its text has its place in the prompt now
            from appl.runtime.prompts.place import PendingPlace

            def nodes(_: Promise) -> list[PromptNode]:
                tip = frame.tip()
                return tip.since(frame.origin) if tip is not None else []

            frame.shares = True
            around: PromptWriter = mode.context or caller
            around.prompt.say(around.voice, PendingPlace(task, nodes, frame.base))
        if self.kind == "async":
            task.run_in_loop(self.aexecute(frame, turn, args, kwargs), context_for(frame))
            return Future(task)
        body = functools.partial(self.execute, frame, turn, args, kwargs)
        if caller.run.services.sequential:
            task.run_here(body, context_for(frame))
        else:
            task.run_in_fiber(body, context_for(frame))
        return Future(task)


# -- the four kinds of functions


def _in_plain_code() -> bool:
    """True if the caller of the function is ordinary code, for which values are waited for.

    Compiled code cannot say it with the call: in a body also ``map(f, words)``, a ``partial``, a
    property and ``doc[0]`` call prompt functions, where no call of them is written.
    """
    code = sys._getframe(2).f_code
    return not is_compiled(code) and id(code) not in KEEPING


_CONVERSIONS = frozenset(
    """
    __str__ __repr__ __format__ __bytes__ __bool__ __int__ __float__ __index__ __len__ __hash__
    __contains__
""".split()
)
"""Methods whose results Python itself uses: a future would be of the wrong type."""


# A wrapper looks its program up in its own __dict__: a notebook that reloads a module
# (`%autoreload 2`) gives functions that were imported by name the attributes of the new ones. It
# finds itself by a weak reference in its defaults, so that it is freed at once when nobody holds
# it, and has no cells, as code with cells cannot be put into a function without.

_PROGRAM = "__appl__"


class _Itself(ref[Any]):
    """The weak reference of a wrapper to itself, which goes with it to a worker."""

    __slots__ = ()

    def __reduce__(self) -> tuple[type[_Itself], tuple[object]]:
        return _Itself, (self(),)


def _sync() -> Callable[..., object]:
    def wrapper(*args: object, _appl: Any = None, **kwargs: object) -> Any:
        program: DecoratedFunction = _appl().__dict__[_PROGRAM]
        if program.decoration.parallel:
            return program.spawn(args, kwargs)
        settle = program.converts or (program.returns_value and _in_plain_code())
        frame, turn = program.enter(args, kwargs)
        return program.execute(frame, turn, args, kwargs, settle)

    return wrapper


def _async() -> Callable[..., object]:
    def wrapper(*args: object, _appl: Any = None, **kwargs: object) -> object:
        program: DecoratedFunction = _appl().__dict__[_PROGRAM]
        # Plain Python needs the coroutine itself, for ``create_task`` and ``asyncio.run``.
        if program.decoration.parallel and is_compiled(sys._getframe(1).f_code):
            return program.spawn(args, kwargs)
        settle = program.returns_value and _in_plain_code()
        frame, turn = program.enter(args, kwargs)
        coroutine: Any = program.aexecute(frame, turn, args, kwargs, settle)
        coroutine.__name__, coroutine.__qualname__ = program.name, program.qualname
        return coroutine

    return marked(wrapper)


def _generator() -> Callable[..., Any]:
    def wrapper(*args: object, _appl: Any = None, **kwargs: object) -> object:
        program: DecoratedFunction = _appl().__dict__[_PROGRAM]
        from appl.runtime.generators import driven  # few functions are generators

        frame, turn = program.enter(args, kwargs)
        inner = program.body(*args, **kwargs)
        return driven(program, frame, turn, inner, program.decoration.auto_prime)

    return wrapper


_WRAPPERS = {"sync": _sync, "async": _async, "generator": _generator, "asyncgen": _generator}


@overload
def ppl(ctx: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def ppl(
    ctx: Context = "new",
    compositor: Compositor | type[Compositor] | None = None,
    *,
    model: str | None = None,
    default_return: Literal["prompt"] | None = None,
    docstring_as: Literal["user", "system"] | None = None,
    parallel: bool = False,
    auto_prime: bool = False,
    new_ctx_func: Callable[[], PromptContext] | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def ppl(
    ctx: object = "new",
    compositor: object = None,
    *,
    model: str | None = None,
    default_return: str | None = None,
    docstring_as: str | None = None,
    parallel: bool = False,
    auto_prime: bool = False,
    new_ctx_func: Any = None,
    **older: object,
) -> object:
    """Make a function a prompt program: its expression statements are its prompt.

    *ctx* is what prompt it works on: ``new``, a ``copy`` of the caller's, the ``same``, or
    ``resume`` where it left off; *new_ctx_func* makes the new one. *compositor* formats all that it
    says, as a ``with`` around its body would. *model* answers its calls that name none.
    *docstring_as* says its docstring; ``default_return="prompt"`` returns ``records()`` in place of
    ``None``. With *parallel* a call starts at once beside its caller and gives a future, in prompt
    functions and in plain Python. *auto_prime* runs a generator to its first ``yield``.

    A call may say more about itself: ``f(…, ctx_method="copy")`` is in another context this time,
    ``f(…, compositor=NumberedList())`` in another format (``None`` for none), and
    ``f(…, _ctx=prompt_context)`` works on that prompt in place of its caller's.
    """
    if not isinstance(ctx, str):
        return _decorate(ctx, Decoration())
    from appl.runtime.decoration import decoration_of  # most functions have no options

    decoration = decoration_of(
        ctx,
        compositor,
        model,
        default_return,
        docstring_as,
        parallel,
        auto_prime,
        new_ctx_func,
        older,
    )
    return lambda f: _decorate(f, decoration)


def _decorate(f: object, decoration: Decoration) -> Any:
    if isinstance(f, staticmethod | classmethod):
        return type(f)(_decorate(f.__func__, decoration))
    if getattr(f, "__need_ctx__", False) and not hasattr(f, "__appl__"):  # @need_ctx below @ppl
        from appl.runtime.prompts.prompt_context import need_ctx

        return need_ctx(_decorate(f.__wrapped__, decoration))  # type: ignore[attr-defined]
    from appl.compiler.refusals import require_function

    program = DecoratedFunction(require_function(f), decoration)
    wrapper, twin = _wrapper(f, program), _wrapper(f, program)
    wrapper.render = functools.partial(_render, twin)  # not itself: it would never be freed
    program.code = wrapper.__code__
    return wrapper


def _render(twin: Callable[..., object], *args: object, **kwargs: object) -> object:
    """``f.render(…)``: the prompts of a call, as ``appl.render`` shows them."""
    from appl.runtime.preview import render

    return render(twin, *args, **kwargs)


def _wrapper(f: Any, program: DecoratedFunction) -> Any:
    wrapper: Any = functools.wraps(f)(_WRAPPERS[program.kind]())
    wrapper.__appl__ = program
    wrapper.__kwdefaults__ = {"_appl": _Itself(wrapper)}
    return wrapper


def reset_context(func: Callable[..., object]) -> None:
    """Forget the state of a ``resume`` function in this run; its next call starts anew.

    For a bound method (``agent.chat``) only that object's state is forgotten, for the method of a
    class (``Agent.chat``) that of all its objects.
    """
    program = program_of(func)
    if not isinstance(program, DecoratedFunction):
        name = getattr(func, "__qualname__", repr(func))
        raise InvalidOption(f"reset_context({name}): it takes a @ppl function or method")
    frame = FRAME.get()
    states = states_of(frame) if frame is not None else current().states
    states.forget(program, getattr(func, "__self__", None))

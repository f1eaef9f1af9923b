"""From a lowered ``def`` to a code object, and from that to a function with the user's cells.

Invariant: names, qualified names, first line, free variables and flags are those of the user's
own code object; of the hooks it holds a constant, so that nothing enters globals or cells.
"""

from __future__ import annotations

import ast
import inspect
import warnings
from types import CodeType

from appl.compiler.hooks import HOOK_NAMES, PLACEHOLDER, Hooks
from appl.compiler.lower import Lowered
from appl.compiler.nodes import at, copied
from appl.compiler.source import FunctionSource, first_line, is_remembered, remember, stale
from appl.compiler.trees import FUTURES

_FACTORY = "⟨factory⟩"
_TOO_NESTED = (
    "too many nested blocks: inside @ppl a try takes two of Python's twenty; "
    "move the inner blocks into a function of their own"
)


def assemble(lowered: Lowered, definition: FunctionSource, user: CodeType) -> CodeType:
    """The code of the lowered function, with a placeholder where the hooks are to be.

    The ``@ppl`` functions inside it are remembered, to find their source without the file.
    """
    module = _module(lowered, definition, user)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the import of the file has shown them already
        try:
            whole = compile(
                module, user.co_filename, "exec", flags=user.co_flags & FUTURES, dont_inherit=True
            )
        except SyntaxError as error:
            if "nested blocks" not in str(error):
                raise
            raise definition.source.refusal(definition.node, _TOO_NESTED) from None
    code = _inside(whole, _FACTORY)
    for name in (definition.owner, lowered.node.name):
        code = _inside(code, name) if name else code
    code = _renamed(code, code.co_qualname, user.co_qualname)
    # The loaded function must have all names of the new code; tools may have added more.
    count = user.co_argcount + user.co_kwonlyargcount
    if not (
        set(code.co_names) - HOOK_NAMES <= set(user.co_names)
        and set(code.co_freevars) <= set(user.co_freevars)
        and code.co_varnames[:count] == user.co_varnames[:count]
    ):
        raise stale(user)
    nested = {(first_line(inner.node), inner.node.name): inner for inner in lowered.nested}
    todo = [code] if nested else []
    while todo:
        for constant in todo.pop().co_consts:
            if isinstance(constant, CodeType):
                todo.append(constant)
                inner = nested.get((constant.co_firstlineno, constant.co_name))
                if inner is not None:
                    remember(constant, inner)
    return code


def place(code: CodeType, hooks: Hooks) -> CodeType:
    """*code* with the hooks in place of the placeholder, also in the functions inside it.

    The hooks become its last constant even where nothing uses them: by that, compiled code is
    recognised. Classes and ``@ppl`` functions inside it are compiled by themselves.
    """
    constants: list[object] = []
    for constant in code.co_consts:
        if isinstance(constant, str) and constant == PLACEHOLDER:
            constants.append(hooks)
        elif (
            isinstance(constant, CodeType)
            and constant.co_flags & inspect.CO_OPTIMIZED
            and not is_remembered(constant)
        ):
            constants.append(place(constant, hooks))
        else:
            constants.append(constant)
    if not constants or constants[-1] is not hooks:
        constants.append(hooks)
    return code.replace(co_consts=tuple(constants))


def _module(lowered: Lowered, origin: FunctionSource, user: CodeType) -> ast.Module:
    """``def ⟨factory⟩(free variables): class Owner: def f``, all on the user's lines.

    The ``def`` is without the parts that are evaluated outside it: only its code is needed. Code
    begins at the line of the first decorator, so a constant keeps that line.
    """
    node = lowered.node
    bare: dict[str, object] = {
        name: [copied(arg, annotation=None) for arg in getattr(node.args, name)]
        for name in ("posonlyargs", "args", "kwonlyargs")
    }
    for name in ("vararg", "kwarg"):
        bare[name] = (arg := getattr(node.args, name)) and copied(arg, annotation=None)
    bare |= {"defaults": [], "kw_defaults": [None] * len(node.args.kwonlyargs)}
    holders = [at(decorator, ast.Constant(value=None)) for decorator in node.decorator_list[:1]]
    types: dict[str, object] = {"type_params": []} if hasattr(node, "type_params") else {}
    definition: ast.stmt = copied(
        node, args=copied(node.args, **bare), returns=None, decorator_list=holders, **types
    )
    if origin.owner:
        owner = ast.ClassDef(
            name=origin.owner, bases=[], keywords=[], body=[definition], decorator_list=[]
        )
        definition = at(lowered.node, owner)
    free = [name for name in user.co_freevars if name != "__class__" or not origin.owner]
    args = [at(lowered.node, ast.arg(arg=name)) for name in free]
    parameters = ast.arguments(
        posonlyargs=[], args=args, kwonlyargs=[], kw_defaults=[], defaults=[]
    )
    factory = ast.FunctionDef(name=_FACTORY, args=parameters, body=[], decorator_list=[])
    outermost = origin.owner or lowered.node.name
    if outermost not in free:  # to the function, its own name or its class's is a global one
        factory.body.append(at(lowered.node, ast.Global(names=[outermost])))
    factory.body.append(definition)
    return ast.Module(body=[at(lowered.node, factory)], type_ignores=[])


def _inside(code: CodeType, name: str) -> CodeType:
    """The code of the function or class *name* that *code* defines."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType) and constant.co_name == name:
            return constant
    raise AssertionError(f"no code of {name} in {code.co_name}")


def _renamed(code: CodeType, prefix: str, wanted: str) -> CodeType:
    """*code* and its nested code with the qualified names that they had without the factory."""
    constants = tuple(
        _renamed(constant, prefix, wanted) if isinstance(constant, CodeType) else constant
        for constant in code.co_consts
    )
    name = code.co_qualname
    if name == prefix or name.startswith(prefix + "."):
        name = wanted + name[len(prefix) :]
    return code.replace(co_consts=constants, co_qualname=name)

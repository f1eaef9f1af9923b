"""``appl check``: what a reader of the source can say about a program before it runs.

Invariant: nothing of the program is imported or run; a finding names its rule, and a comment
``# appl: ignore[rule]`` on its line silences it.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from appl.compiler import rules
from appl.compiler.callee import Callees, constant_options, static_names
from appl.compiler.fence import fence_source
from appl.compiler.graph import build
from appl.compiler.lower import lower
from appl.compiler.names import Names, is_ppl
from appl.compiler.plain import Plain
from appl.compiler.rules import RULES, Finding, Subject
from appl.compiler.source import Found, Module, parse
from appl.compiler.survey import survey
from appl.compiler.verify import verify_lowered
from appl.errors import PromptSyntaxError, nearest

REFUSED, UNKNOWN_IGNORE, UNUSED_IGNORE = "refused", "unknown-ignore", "unused-ignore"
ALL_RULES = {
    REFUSED: "the compiler refuses the function, or Python the file",
    **RULES,
    UNKNOWN_IGNORE: "an `# appl: ignore[...]` comment names a rule that does not exist",
    UNUSED_IGNORE: "an `# appl: ignore` comment silences nothing",
}

_COMMENT = re.compile(r"#\s*appl:\s*ignore(?:\[([^\]]*)\])?")


@dataclass(slots=True)
class _Ignore:
    """One comment: where it stands, which rules it silences (none: all), which it did silence."""

    line: int
    column: int
    names: tuple[str, ...]
    used: set[str] = field(default_factory=set)

    def covers(self, finding: Finding) -> bool:
        return not self.names or finding.rule in self.names


def check_text(
    file: str,
    text: str,
    *,
    select: Collection[str] = (),
    ignore: Collection[str] = (),
) -> list[Finding]:
    """The findings in the Python source *text*, in the order of its lines.

    Of the rules only those in *select* (none: all), and none that is in *ignore*.
    """
    lines = text.splitlines(keepends=True)
    try:
        module = parse(file, lines)
    except SyntaxError as error:
        return [_refusal(file, error)]
    except ValueError as error:  # a NUL in the source
        return [Finding(REFUSED, file, 1, 1, 1, 1, str(error), "")]
    chosen = set(select or ALL_RULES) - set(ignore)
    found = [each for each in _findings(module) if each.rule in chosen]
    kept = _after_comments(module, text, found)
    return sorted(
        (each for each in kept if each.rule in chosen),
        key=lambda each: (each.line, each.column, each.rule),
    )


def _refusal(file: str, error: SyntaxError) -> Finding:
    line, column = error.lineno or 1, error.offset or 1
    return Finding(
        REFUSED, file, line, column, error.end_lineno or line, error.end_offset or column,
        error.msg or "invalid syntax", "",
    )  # fmt: skip


def _findings(module: Module) -> Iterator[Finding]:
    outer = static_names(module)
    for found in module.functions.values():
        names = Names(frozenset(survey(found.node).bound), outer)
        decorator = next((d for d in found.node.decorator_list if is_ppl(d, names)), None)
        if decorator is not None:
            yield from _of_function(module, found, names, decorator)


def _of_function(
    module: Module, found: Found, names: Names, decorator: ast.expr
) -> Iterator[Finding]:
    options = constant_options(decorator)
    either = "docstring_as" in options
    bindings = survey(found.node)
    is_async = isinstance(found.node, ast.AsyncFunctionDef)
    try:
        fence_source(
            found, names, ctx=str(options.get("ctx", "new")),
            parallel=options.get("parallel") is True, generator=bindings.yields,
        )  # fmt: skip
        lowered = lower(found, names, Plain(names, bindings), quiet_docstring=either)
        verify_lowered(lowered.node, found.node)
    except PromptSyntaxError as error:
        yield _refusal(found.source.file, error)
        return
    near = [each for each in module.functions.values() if each.owner == found.owner]
    prompted = [each.node.name for each in near if _is_program(each, names)]
    methods, programs = (prompted, []) if found.owner else ([], prompted)
    callees = Callees(names, programs, methods)
    graph = build(found, callees, "async" if is_async else "sync", either)
    yield from rules.apply(Subject(module, found, graph, callees))


def _is_program(found: Found, names: Names) -> bool:
    return any(is_ppl(decorator, names) for decorator in found.node.decorator_list)


# -- comments that silence


def _after_comments(module: Module, text: str, found: Sequence[Finding]) -> Iterator[Finding]:
    comments = list(_comments(text))
    starts = _statement_lines(module.tree) if comments else {}
    for finding in found:
        around = {finding.line, starts.get(finding.line, finding.line)}
        silent = [each for each in comments if each.line in around and each.covers(finding)]
        for comment in silent:
            comment.used.add(finding.rule)
        if not silent:
            yield finding
    for comment in comments:
        yield from _about(module.source.file, comment)


def _comments(text: str) -> Iterator[_Ignore]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        found = _COMMENT.search(token.string) if token.type == tokenize.COMMENT else None
        if found is not None:
            names = tuple(name.strip() for name in (found[1] or "").split(",") if name.strip())
            yield _Ignore(token.start[0], token.start[1] + 1, names)


def _statement_lines(tree: ast.Module) -> dict[int, int]:
    """For each line of a simple statement that spans several, its last line: comments go there."""
    lines: dict[int, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and not hasattr(node, "body"):
            last = node.end_lineno or node.lineno
            lines |= {line: last for line in range(node.lineno, last + 1)}
    return lines


def _about(file: str, comment: _Ignore) -> Iterator[Finding]:
    where = (file, comment.line, comment.column, comment.line, comment.column)
    unknown = [name for name in comment.names if name not in ALL_RULES]
    for name in unknown:
        yield Finding(
            UNKNOWN_IGNORE, *where, f"there is no rule {name!r}{nearest(name, ALL_RULES)}",
            "`appl check --rules` lists them",
        )  # fmt: skip
    idle = [name for name in comment.names if name not in comment.used and name not in unknown]
    if idle or (not comment.names and not comment.used):
        what = ", ".join(idle) or "any rule"
        yield Finding(UNUSED_IGNORE, *where, f"nothing here breaks {what}", "remove the comment")


def counted(findings: Iterable[Finding]) -> dict[str, int]:
    """How many findings each rule has."""
    counts: dict[str, int] = {}
    for finding in findings:
        counts[finding.rule] = counts.get(finding.rule, 0) + 1
    return counts

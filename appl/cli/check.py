"""``appl check``: mistakes that the source shows before a program runs."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from appl.cli import exits
from appl.cli.commands import Options, WordChoice, appl_command, argument, option, switch
from appl.cli.ruff_settings import changing_rules
from appl.cli.target import UsageError
from appl.cli.terminal import as_json, columns, counted, out, print_found, say, say_next, term_safe
from appl.compiler.lint import ALL_RULES, REFUSED, check_text
from appl.compiler.rules import LintFinding
from appl.config import load
from appl.errors import ConfigError, nearest
from appl.session.next_steps import before_run

_SKIPPED = frozenset({"__pycache__", "node_modules", "build", "dist", "venv"})
_AUDIT = "Whether a program is the same again"
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


@appl_command(
    "check",
    example="appl check src\nappl check --replayable program.py:main -- --topic rain",
    codes="0 nothing found; 1 something found; 2 wrong usage; 3 --replayable: a replay differs",
)
@argument("paths", nargs=-1, metavar="PATH", help="files or folders; without it, this folder")
@option(
    "--select",
    multiple=True,
    metavar="RULE",
    help="only this rule, of those that --rules lists; may be repeated",
)
@option("--ignore", multiple=True, metavar="RULE", help="not this rule; may be repeated")
@switch("--rules", help="list the rules and exit")
@option(
    "--format",
    type=WordChoice(("text", "github", "sarif", "json")),
    default="text",
    help="text: file:line:column, as editors read it; github: annotations of a workflow; "
    "sarif: for code scanning",
)
@switch("--json", help="the same as --format json")
@option(
    "--replayable",
    metavar="file.py:function",
    section=_AUDIT,
    help="run this program instead: record it, then replay it with another hash seed, other "
    "random numbers, another and a frozen clock, and other latencies, each in a process of its "
    "own, and report what was not declared; its arguments stand after --",
)
@option(
    "--backend",
    default="embedded",
    metavar="NAME",
    section=_AUDIT,
    help="the backend for the recording; by default the embedded model, for nothing",
)
@option(
    "--seconds",
    type=float,
    default=120.0,
    metavar="S",
    section=_AUDIT,
    help="how long one run of it may take",
)
def command(options: Options) -> int:
    """Look for mistakes and lost parallelism in @ppl functions.

    Reads Python files without running them, and reports what @ppl functions do that was probably
    not meant: waits that serialise calls, prompts that cannot share a prefix, text that lands in
    the prompt by accident, answers that nothing reads. A comment `# appl: ignore[rule]` on a line
    silences a rule there.
    """
    if options.replayable is not None:
        from appl.cli import replayable as audit  # only `appl check --replayable` runs a program

        return int(audit.command(options))
    if options.rules:
        print_found(options.json, {"rules": ALL_RULES}, columns(ALL_RULES.items()))
        return exits.OK
    for name in (*options.select, *options.ignore):
        if name not in ALL_RULES:
            raise UsageError(
                f"there is no rule {name!r}{nearest(name, ALL_RULES)} "
                f"(rules: {', '.join(ALL_RULES)})"
            )
    files = list(_files(options.paths or ["."]))
    findings: list[LintFinding] = []
    for file in files:
        findings += _findings(file, options.select, options.ignore)
    _FORMATS["json" if options.json else options.format](findings, len(files))
    if not findings and not options.json and options.format == "text" and len(files) == 1:
        with contextlib.suppress(ConfigError):  # a check needs no settings
            say_next(before_run(files[0], load().home))
    return exits.FAILED if findings else exits.OK


def _files(paths: Sequence[str]) -> Iterator[Path]:
    for name in paths:
        path = Path(name)
        if path.is_dir():
            for file in sorted(path.rglob("*.py")):
                folders = file.relative_to(path).parts[:-1]
                if not any(part.startswith(".") or part in _SKIPPED for part in folders):
                    yield file
        elif path.is_file():
            yield path
        else:
            raise UsageError(f"there is no file or folder {name}")


def _findings(file: Path, select: Sequence[str], ignore: Sequence[str]) -> list[LintFinding]:
    """The findings in *file*; one that is not text is itself a finding."""
    try:
        text = file.read_text("utf-8")
    except UnicodeDecodeError:
        if REFUSED in ignore or (select and REFUSED not in select):
            return []
        return [LintFinding(REFUSED, str(file), 1, 1, 1, 1, "this is not UTF-8 text", "")]
    fixes = changing_rules(file.parent)
    return check_text(str(file), text, select=select, ignore=ignore, fixes=fixes)


# -- forms of output


def _as_text(findings: Sequence[LintFinding], files: int) -> None:
    for finding in findings:
        place = f"{finding.file}:{finding.line}:{finding.column}"
        out(term_safe(f"{place}: {_level(finding)}[{finding.rule}]: {_text(finding)}"))
    say(f"appl: {_summary(findings, files)}")


def _text(finding: LintFinding) -> str:
    return f"{finding.message}; {finding.hint}" if finding.hint else finding.message


def _level(finding: LintFinding) -> str:
    return "error" if finding.rule == REFUSED else "warning"


def _summary(findings: Sequence[LintFinding], files: int) -> str:
    checked = f"{counted(files, 'file')} checked"
    if not findings:
        return f"{checked}, nothing found"
    per_rule = ", ".join(
        f"{count} {rule}" for rule, count in sorted(Counter(f.rule for f in findings).items())
    )
    return f"{checked}, {len(findings)} found: {per_rule}"


def _as_json(findings: Sequence[LintFinding], files: int) -> None:
    data = {"files": files, "findings": [finding.as_dict() for finding in findings]}
    out(as_json(data, indent=2))


def _as_github(findings: Iterable[LintFinding], files: int) -> None:
    """Print workflow commands, which GitHub shows at the lines of a pull request."""
    for finding in findings:
        places = f"file={_property(finding.file)},line={finding.line},endLine={finding.end_line}"
        if finding.line == finding.end_line:
            places += f",col={finding.column},endColumn={finding.end_column}"
        text, title = _message(term_safe(_text(finding))), _property(f"appl {finding.rule}")
        out(f"::{_level(finding)} {places},title={title}::{text}")


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")


def _as_sarif(findings: Sequence[LintFinding], files: int) -> None:
    rules = [{"id": name, "shortDescription": {"text": text}} for name, text in ALL_RULES.items()]
    driver = {"name": "appl check", "rules": rules}
    run = {"tool": {"driver": driver}, "results": [_result(finding) for finding in findings]}
    out(as_json({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2))


def _result(finding: LintFinding) -> dict[str, object]:
    region = {
        "startLine": finding.line,
        "startColumn": finding.column,
        "endLine": finding.end_line,
        "endColumn": finding.end_column,
    }
    uri = Path(finding.file).as_posix()
    where = {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": region}}
    return {
        "ruleId": finding.rule,
        "level": _level(finding),
        "message": {"text": _text(finding)},
        "locations": [where],
    }


_FORMATS: dict[str, Callable[[Sequence[LintFinding], int], None]] = {
    "text": _as_text,
    "github": _as_github,
    "sarif": _as_sarif,
    "json": _as_json,
}

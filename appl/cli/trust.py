"""``appl trust``: the user approves the settings of a folder.

Invariant: the file is read once, so that what is approved is what was shown.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from appl.cli import parameters
from appl.cli.commands import Options, appl_command, argument, switch
from appl.cli.consent import require_user, user_agrees
from appl.cli.target import UsageError
from appl.cli.terminal import as_json, out, print_found, say, term_safe
from appl.config import find_file
from appl.config.files import SettingsFile
from appl.config.trust import ApprovalRequest, approvals, approve, forget, requests, trusted_by


@appl_command("trust", example="appl trust\nappl trust ~/work/agent --yes\nappl trust --list")
@argument(
    "folder", required=False, default=".", metavar="FOLDER", help="the folder; this one if left out"
)
@switch("--remove", help="take the approval of the folder's settings back")
@switch("--list", help="show all files that are approved")
@parameters.yes
@parameters.as_json
def command(options: Options) -> None:
    """Approve the settings of a folder that may run code, send or delete something.

    A project's settings may choose names and numbers. A setting that names code, an address, a
    variable of the environment or a folder outside of the project, or that deletes runs, has no
    effect before you have approved it here. Shows each such line, asks, and remembers the file as
    it is; a changed file needs approval again. The settings file in the home folder, arguments and
    the environment need none, nor does a file below a folder that the variable APPL_TRUST lists.
    With --json, nothing is approved unless --yes is given.
    """
    if options.list:
        approved = approvals()
        if options.json or approved:
            entries = sorted(approved, key=lambda entry: str(entry["file"]))
            lines = (f"{entry['digest'][:12]}  {entry['file']}" for entry in entries)
            print_found(options.json, approved, lines)
    elif options.remove:
        _remove(options)
    else:
        file = _file(Path(options.folder))
        findings, trusted = requests(file), trusted_by(file)
        missing = bool(findings) and trusted is None
        if not options.json:
            _show(file, findings, trusted)
            if missing:
                require_user(options, "approve it")
        if missing and (options.yes or not options.json) and user_agrees(options, "approve this?"):
            approve(file)
            say("appl: approved; when the file changes, you are asked again")
        elif missing and not options.json:
            say("appl: nothing was approved")
        if options.json:
            out(as_json(_data(file, findings), indent=2))


def _file(folder: Path) -> SettingsFile:
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder")
    file = find_file(folder)
    if file is None:
        raise UsageError(f"there are no settings in {folder.resolve()}")
    return file


def _show(file: SettingsFile, findings: list[ApprovalRequest], trusted: str | None) -> None:
    shown = term_safe(str(file.path))
    if not findings:
        say(f"appl: {shown} holds nothing that needs approval")
        return
    out("\n".join(map(str, findings)))
    if trusted is not None:
        why = {"home": "it is in the home folder", "approval": "it is approved"}
        say(f"appl: {shown} is trusted: {why.get(trusted, 'APPL_TRUST lists its folder')}")


def _data(file: SettingsFile, findings: list[ApprovalRequest]) -> dict[str, object]:
    return {
        "file": str(file.path),
        "digest": file.digest,
        "trusted": trusted_by(file) if findings else None,
        "needs_approval": [dataclasses.asdict(item) for item in findings],
    }


def _remove(options: Options) -> None:
    folder = Path(options.folder)
    settings_file = find_file(folder)
    gone = sorted({*forget(folder), *(forget(settings_file.path.parent) if settings_file else ())})
    if options.json:
        out(as_json({"removed": gone}, indent=2))
    elif gone:
        for file in gone:
            say(f"appl: {file} is no longer approved")
    else:
        say(f"appl: no settings in {folder.resolve()} were approved")

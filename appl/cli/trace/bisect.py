"""``appl trace bisect``: the first commit at which a program asks something else, for free.

Invariant: the user's checkout, index and branches stay unchanged: commits are checked out in a work
tree of their own, in a folder that is then removed.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from appl.cli import exits, parameters
from appl.cli.commands import Options, appl_command, option
from appl.cli.perturbed_process import Environment, ProcessOutcome, spawned
from appl.cli.target import UsageError
from appl.cli.terminal import as_json, out, say, term_safe
from appl.cli.trace.recorded_program import RecordedProgram, opened
from appl.tracing import Trace

_SHORT = 10


@appl_command(
    "bisect",
    example="appl trace bisect last --good v1.2",
    codes="0 found; 1 not found, as what is left cannot be run; 2 wrong usage",
)
@parameters.recorded_program
@option("--good", metavar="REV", help="asks what was recorded; default: the commit of the record")
@option("--bad", default="HEAD", metavar="REV", help="asks something else")
@parameters.another_program
@option("--seconds", type=float, default=120.0, metavar="S", help="how long one replay may take")
@parameters.as_json
def command(given: Options) -> int:
    """Find the first commit at which a recorded program asks something else.

    Replays a recorded run with the program as it was at commits between a good and a bad one, and
    finds the first at which a prompt differs. No token is paid. The commits are checked out in a
    folder of their own; your checkout stays unchanged. The installed packages are those of today,
    not those of the commit.
    """
    trace, program = opened(given)
    file = Path(program.file).resolve()
    repository = Repository.of(file.parent)
    recorded_at = trace.header.get("git")
    good = repository.commit(given.good or (recorded_at if recorded_at else _no_good()))
    bad = repository.commit(given.bad)
    tell = (lambda line: None) if given.json else say
    with repository.tree() as tree:
        trial = Trial(repository, tree, trace, program, given.seconds, tell)
        return _report(trial, _first_bad(trial, good, bad), given.json)


def _no_good() -> str:
    raise UsageError(
        "the run names no git commit; give --good REV, a commit that asks what it recorded"
    )


# -- git, without its state


@dataclass(frozen=True, slots=True)
class Repository:
    """A git repository, which is only read except for the list of its work trees."""

    root: Path

    @classmethod
    def of(cls, folder: Path) -> Repository:
        """The repository that holds *folder*. Raises ``UsageError``."""
        try:
            found = cls(folder)._git("rev-parse", "--show-toplevel")
        except UsageError as error:
            raise UsageError(f"{folder} lies in no git repository: {error}") from None
        return cls(Path(found).resolve())

    def commit(self, revision: str) -> str:
        """The full name of the commit *revision*. Raises ``UsageError``."""
        return self._git(
            "rev-parse",
            "--verify",
            "--quiet",
            "--end-of-options",
            f"{revision}^{{commit}}",
            what=f"there is no commit {revision!r}",
        )

    def contains(self, older: str, newer: str) -> bool:
        """True if *older* is an ancestor of *newer*."""
        return self._git("merge-base", older, newer, what="they have no past in common") == older

    def between(self, good: list[str], bad: str) -> list[str]:
        """The commits that may be the first bad one, those nearest to the middle first."""
        found = self._git("rev-list", "--bisect-all", bad, *(f"^{commit}" for commit in good))
        return [line.split()[0] for line in found.splitlines()]

    def about(self, commit: str) -> dict[str, str]:
        """Author, date and subject of *commit*."""
        text = self._git("show", "--no-patch", "--format=%H%n%an%n%aI%n%s", commit)
        return dict(zip(("commit", "author", "date", "subject"), text.split("\n"), strict=False))

    @contextlib.contextmanager
    def tree(self) -> Iterator[Path]:
        """A folder for a commit's files."""
        with tempfile.TemporaryDirectory(prefix="appl-bisect-") as made:
            tree = Path(made).resolve() / "tree"
            self._git("worktree", "add", "--quiet", "--detach", "--no-checkout", str(tree), "HEAD")
            try:
                yield tree
            finally:
                self._git("worktree", "remove", "--force", str(tree))

    def check_out(self, commit: str, tree: Path) -> None:
        """Put the files of *commit* into *tree*."""
        Repository(tree)._git("checkout", "--quiet", "--force", "--detach", commit)
        Repository(tree)._git("clean", "-ffdqx")

    def _git(self, *words: str, what: str = "git failed") -> str:
        command = ["git", "-C", str(self.root), "-c", "core.hooksPath=/dev/null", *words]
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("GIT_")
        } | {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
        try:
            done = subprocess.run(command, env=environment, capture_output=True, check=False)
        except OSError as error:
            raise UsageError(f"git cannot be run: {error}") from None
        if done.returncode:
            output = done.stderr.decode("utf-8", "replace").strip()
            raise UsageError(f"{what}{f': {output}' if output else ''}")
        return done.stdout.decode("utf-8", "surrogateescape").strip()


# -- the search


@dataclass(slots=True)
class Trial:
    """Replays of one run with the program at several commits; ``tested`` has their verdicts."""

    repository: Repository
    tree: Path
    trace: Trace
    program: RecordedProgram
    seconds: float
    tell: Callable[[str], None]
    tested: dict[str, str] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def verdict(self, commit: str) -> str:
        """``good`` (the same prompts), ``bad`` (other prompts), or ``skipped`` (it cannot run)."""
        if commit not in self.tested:
            root = self.repository.root
            self.repository.check_out(commit, self.tree)
            file = Path(self.program.file).resolve()
            program = replace(self.program, file=str(self.tree / file.relative_to(root)))
            here = Path.cwd().resolve()
            folder = self.tree / here.relative_to(root) if here.is_relative_to(root) else self.tree
            outcome = spawned(
                program,
                Environment(real=True),
                self.trace.path.resolve(),
                seconds=self.seconds,
                folder=folder if folder.is_dir() else self.tree,
                moved=(root, self.tree),
            )
            self.tested[commit] = self._judged(commit, outcome)
            subject = self.repository.about(commit).get("subject", "")
            self.tell(f"appl: {self.tested[commit]:7} {commit[:_SHORT]} {subject}")
        return self.tested[commit]

    def _judged(self, commit: str, outcome: ProcessOutcome) -> str:
        error = outcome.error
        then = self.trace.error
        if error is None or (then is not None and error["type"] == type(then).__name__):
            return "good"
        self.errors[commit] = f"{error['type']}: {error['message']}"
        return "bad" if outcome.diverged else "skipped"


def _first_bad(trial: Trial, good: str, bad: str) -> list[str]:
    """The candidates for the first bad commit: one, or several if some could not be tested."""
    if good == bad or not trial.repository.contains(good, bad):
        raise UsageError(f"{good[:_SHORT]} is not among the commits before {bad[:_SHORT]}")
    for commit, wanted, word in ((good, "good", "--good"), (bad, "bad", "--bad")):
        if trial.verdict(commit) != wanted:
            errors = trial.errors.get(commit, "it asks what was recorded")
            raise UsageError(f"{word} {commit[:_SHORT]} is {trial.verdict(commit)}: {errors}")
    goods = [good]
    while True:
        left = [commit for commit in trial.repository.between(goods, bad) if commit != bad]
        untried = [commit for commit in left if trial.tested.get(commit) != "skipped"]
        if not untried:
            return [bad, *left]
        trial.tell(f"appl: {len(left)} commits left")
        commit = untried[0]
        verdict = trial.verdict(commit)
        if verdict == "bad":
            bad = commit
        elif verdict == "good":
            goods.append(commit)


def _report(trial: Trial, found: list[str], as_document: bool) -> int:
    first, *others = found
    about = trial.repository.about(first)
    if as_document:
        data = {
            "first_bad": None if others else about,
            "candidates": found,
            "divergence": trial.errors.get(first),
            "tested": [{"commit": c, "verdict": v} for c, v in trial.tested.items()],
        }
        out(as_json(data, indent=2))
    elif others:
        many = ", ".join(commit[:_SHORT] for commit in found)
        say(f"appl: the first commit that asks something else is one of {many}; some cannot be run")
    else:
        out(term_safe(f"{first} asks something else for the first time"))
        out(term_safe(f"  {about.get('author')}, {about.get('date')}: {about.get('subject')}"))
        out(term_safe("  " + trial.errors.get(first, "").replace("\n", "\n  ")))
    return exits.FAILED if others else exits.OK

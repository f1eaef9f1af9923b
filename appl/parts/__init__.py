"""The parts of this package: each can be absent, and is loaded only by programs that use it.

Invariant: what stands here does not belong to the kernel, which ``ARCHITECTURE.md`` describes;
``tests/test_kernel.py`` runs a program without all of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PARTS: Final[Mapping[str, str]] = {
    "appl.parts.batching": "batches of calls at providers, for half the price",
    "appl.cli": "the command line",
    "appl.parts.compat": "the names of APPL 0.2",
    "appl.compiler.call_counts": "the number of calls that a function makes, known before it runs",
    "appl.compiler.graph": "the call graph of a prompt function",
    "appl.compiler.lint": "`appl check`",
    "appl.compiler.plan": "`appl plan`",
    "appl.compiler.rules": "the rules of `appl check`",
    "appl.compiler.serial_calls": "the finding of calls that wait for each other without need",
    "appl.parts.conversations": "conversations that are kept in files and databases",
    "appl.parts.control": "a look at a running program from outside",
    "appl.parts.engine": "maps in other processes",
    "appl.parts.evaluation": "the evaluation of programs on cases",
    "appl.parts.search": "the candidates with which a tree search goes on",
    "appl.mcp": "tools of MCP servers",
    "appl.parts.optimization": "the optimisation of prompts",
    "appl.parts.serving": "functions behind HTTP and MCP",
    "appl.parts.web": "what servers over HTTP have in common",
    "appl.parts.pytest_plugin": "tests that replay tapes",
    "appl.parts.sandbox": "a sandbox for code that a model wrote",
    "appl.runtime.answers.choice": "choices",
    "appl.runtime.answers.continuation": "answers that go on after their limit",
    "appl.runtime.answers.multi_call": "answers that take several calls",
    "appl.runtime.answers.output": "typed answers",
    "appl.runtime.answers.partial": "typed answers while they come",
    "appl.runtime.answers.program_stream": "the stream of a program's text",
    "appl.runtime.answers.schema": "the check of JSON against a schema",
    "appl.runtime.answers.shape": "types as schemas",
    "appl.runtime.concurrency.loop_timers": "timers of a program's own event loop",
    "appl.runtime.concurrency.serial": "the report on calls that a program waited for alone",
    "appl.runtime.embedding": "embeddings",
    "appl.runtime.nested": "runs inside of runs",
    "appl.runtime.preview": "prompts that are shown before any call",
    "appl.runtime.prompts.compositor": "lists, tags and other layouts of prompt text",
    "appl.runtime.prompts.passages": "the order of passages that prompts share",
    "appl.runtime.prompts.refusal": "the error for a statement that is no prompt text",
    "appl.runtime.prompts.state": "functions that go on with their prompt",
    "appl.runtime.tools": "tools",
    "appl.runtime.waiting": "waits for people and for days",
    "appl.runtime.scheduling.deadline_plan": "the choice of backends by a deadline",
    "appl.session.backend_settings": "the check of settings of backends",
    "appl.session.forecast": "what earlier runs of a program say of its next one",
    "appl.session.notebook": "runs of a notebook",
    "appl.session.span_export": "spans that are sent while a program runs",
    "appl.testing.faults": "a server that fails as a test wants",
    "appl.tracing.explaining": "the cost, the critical path and the differences of runs",
    "appl.tracing.exporting": "exports of runs",
    "appl.tracing.keeping": "the index of runs, and what keeps and removes them",
    "appl.tracing.recording.privacy": "traces without texts",
    "appl.tracing.replaying.fuzzer": "the search for races",
    "appl.tracing.replaying.predictor": "the cost of a rerun, before it",
    "appl.tracing.replaying.rerunner": "reruns of edited programs",
    "appl.tracing.tape": "tapes",
    "appl.tracing.viewer": "the viewer of runs",
}
"""The purpose of each part, by the module that it begins at."""


def require(name: str) -> None:
    """Refuse the module *name*, which was not found, if it is a part. Raises ``MissingPart``."""
    if name in PARTS:
        from appl.errors import MissingPart  # the pytest plugin loads this, and little else

        raise MissingPart(
            f"this installation of appl lacks a part, {name} ({PARTS[name]}); to have all parts, "
            "run `pip install --force-reinstall appl`"
        )  # without its name, as `from package import module` passes over an error that has it

"""Prompt programs in Python: compiled, run in parallel, recorded and replayed."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from appl.base import fallback, services

if TYPE_CHECKING:
    __version__: str
    from appl import config as config, mcp as mcp, testing as testing
    from appl.compiler.graph_source import graph_of as graph_of
    from appl.config import init as init
    from appl.errors import *  # noqa: F403
    from appl.parts.compat import *  # noqa: F403
    from appl.parts.engine.cluster import Ray as Ray
    from appl.parts.evaluation.sample_runs import evaluate as evaluate
    from appl.parts.optimization.search import optimize as optimize
    from appl.parts.sandbox.running import run_code as run_code
    from appl.parts.sandbox.values import CodeResult as CodeResult, SandboxLimits as SandboxLimits
    from appl.parts.search import keep as keep
    from appl.prompt import (
        AIMessage as AIMessage,
        Audio as Audio,
        BracketedDefinition as BracketedDefinition,
        Definition as Definition,
        Image as Image,
        Indexing as Indexing,
        Message as Message,
        Promptable as Promptable,
        Secret as Secret,
        SystemMessage as SystemMessage,
        ToolCall as ToolCall,
        ToolMessage as ToolMessage,
        UserMessage as UserMessage,
        define as define,
        define_bracketed as define_bracketed,
    )
    from appl.runtime.answers.gen_options import GenOptions as GenOptions
    from appl.runtime.answers.generate import gen as gen, select as select
    from appl.runtime.answers.program_stream import (
        ProgramPiece as ProgramPiece,
        ProgramStream as ProgramStream,
        stream as stream,
    )
    from appl.runtime.answers.stream import TextStream as TextStream
    from appl.runtime.answers.text import Text as Text
    from appl.runtime.budget import budget as budget
    from appl.runtime.concurrency.completed import as_completed as as_completed
    from appl.runtime.concurrency.future import Future as Future, Generation as Generation
    from appl.runtime.concurrency.lock import Lock as Lock
    from appl.runtime.concurrency.parallel import call as call, map as map
    from appl.runtime.concurrency.timeout import timeout as timeout
    from appl.runtime.embedding.embed import embed as embed
    from appl.runtime.entry import run as run
    from appl.runtime.function import ppl as ppl, reset_context as reset_context
    from appl.runtime.observe import (
        env as env,
        input as input,
        now as now,
        observe as observe,
        random as random,
        read as read,
        sleep as sleep,
        until as until,
        uuid as uuid,
    )
    from appl.runtime.ops import grow as grow
    from appl.runtime.preview import render as render
    from appl.runtime.prompts.compositor import (
        Compositor as Compositor,
        DashList as DashList,
        DoubleLineSeparated as DoubleLineSeparated,
        IndentedList as IndentedList,
        InlineTagged as InlineTagged,
        LineSeparated as LineSeparated,
        Logged as Logged,
        LowerLetterList as LowerLetterList,
        LowerRomanList as LowerRomanList,
        NoIndent as NoIndent,
        NumberedList as NumberedList,
        StarList as StarList,
        Tagged as Tagged,
        UpperLetterList as UpperLetterList,
        UpperRomanList as UpperRomanList,
        empty_line as empty_line,
        iter as iter,
    )
    from appl.runtime.prompts.context import (
        PromptRecords as PromptRecords,
        convo as convo,
        records as records,
    )
    from appl.runtime.prompts.conversation import Conversation as Conversation
    from appl.runtime.prompts.passages import passages as passages
    from appl.runtime.prompts.prompt_context import PromptContext as PromptContext
    from appl.runtime.prompts.roles import (
        AIRole as AIRole,
        SystemRole as SystemRole,
        ToolRole as ToolRole,
        UserRole as UserRole,
    )
    from appl.runtime.tools.tool import (
        SchemaTool as SchemaTool,
        Tool as Tool,
        as_tool as as_tool,
        as_tool_choice as as_tool_choice,
    )
    from appl.runtime.tools.toolloop import gen_with_tools as gen_with_tools
    from appl.runtime.traced import traceable as traceable
    from appl.runtime.waiting.people import ask_person as ask_person, on_question as on_question
    from appl.session import record as record

_PUBLIC = """
appl.compiler.graph_source: graph_of
appl.config: init
appl.parts.evaluation.sample_runs: evaluate
appl.parts.optimization.search: optimize
appl.parts.search: keep
appl.parts.engine.cluster: Ray
appl.parts.sandbox.running: run_code
appl.parts.sandbox.values: CodeResult SandboxLimits
appl.runtime.function: ppl reset_context
appl.prompt: AIMessage Audio BracketedDefinition Definition Image Indexing Message Promptable
    Secret SystemMessage ToolCall ToolMessage UserMessage define define_bracketed
appl.runtime.prompts.compositor: Compositor DashList DoubleLineSeparated IndentedList
    InlineTagged LineSeparated Logged LowerLetterList LowerRomanList NoIndent NumberedList
    StarList Tagged UpperLetterList UpperRomanList empty_line iter
appl.runtime.budget: budget
appl.runtime.prompts.context: PromptRecords convo records
appl.runtime.prompts.conversation: Conversation
appl.runtime.embedding.embed: embed
appl.runtime.entry: run
appl.runtime.concurrency.future: Future Generation
appl.runtime.answers.gen_options: GenOptions
appl.runtime.answers.generate: gen select
appl.runtime.prompts.passages: passages
appl.runtime.prompts.prompt_context: PromptContext
appl.runtime.concurrency.lock: Lock
appl.runtime.observe: env input now observe random read sleep until uuid
appl.runtime.ops: grow
appl.runtime.concurrency.completed: as_completed
appl.runtime.concurrency.parallel: call map
appl.runtime.preview: render
appl.runtime.prompts.roles: AIRole SystemRole ToolRole UserRole
appl.runtime.answers.program_stream: ProgramPiece ProgramStream stream
appl.runtime.answers.stream: TextStream
appl.runtime.answers.text: Text
appl.runtime.concurrency.timeout: timeout
appl.runtime.tools.tool: SchemaTool Tool as_tool as_tool_choice
appl.runtime.tools.toolloop: gen_with_tools
appl.runtime.traced: traceable
appl.runtime.waiting.people: ask_person on_question
appl.session: record
appl.errors: ApplError AuthenticationFailed BackendBusy BackendError BackendNotFound
    BackendRefused BackendTimeout BackendUnavailable BudgetExceeded CallCancelled ChoiceError
    ConfigError ConversationChanged ConversationError DeadlockError DivergenceError
    InDoubtBatch InDoubtEffect InvalidOption MalformedResponse MissingPart ModelNotFound
    NotATrace OutputError ProgramChanged PromptSyntaxError PromptTooLong PromptTypeError
    QuestionExpired ReplayStuck RunClosed RunError RunWaiting SandboxUnavailable
    SecretInRecord SourceUnavailable ToolError ToolLoopError ToolServerError TraceCorrupt TraceError
    TraceLocked TraceTooNew TraceWriteError UnknownOption Unsupported UntrustedTrace
    UnusedRecords
"""
"""The public names, after the module that defines them; an indented line continues an entry."""
_MODULES = ("config", "errors", "mcp", "session", "testing")
_ENTRIES = (entry.split(": ") for entry in _PUBLIC.replace("\n    ", " ").split("\n") if entry)
_WHERE = {name: module for module, names in _ENTRIES for name in names.split()}

_OTHERS = ("input", "iter", "map", "mcp", "random", "uuid")
"""Names that ``from appl import *`` leaves out: Python's own, and modules of others."""

_FOLDERS: list[str] = globals()["__path__"]
_FOLDERS.append(f"{_FOLDERS[0]}/parts/compat/paths")  # where `appl.core` and the like are found
fallback.names = lambda: importlib.import_module("appl.parts.compat.names")
fallback.layouts = lambda: importlib.import_module("appl.parts.compat.settings")
services.sessions = lambda: importlib.import_module("appl.session")
services.engines = lambda: importlib.import_module("appl.parts.engine")
services.conversations = lambda: importlib.import_module("appl.parts.conversations")
services.waits = lambda: importlib.import_module("appl.runtime.waiting.waits")
services.answer_file = lambda path: importlib.import_module(
    "appl.tracing.recording.cache"
).CacheFile(path)
services.answer_printer = lambda: importlib.import_module("appl.cli.display").AnswerPrinter()


class _AbsentParts:
    """The last finder of modules: it tells which part of this package is absent."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name.startswith("appl."):
            importlib.import_module("appl.parts").require(name)


sys.meta_path.append(_AbsentParts)

__all__ = [name for name in (*sorted(_WHERE), *_MODULES) if name not in _OTHERS]


def __getattr__(name: str) -> Any:
    """The public names are imported at their first use."""
    if name in _WHERE:
        value = getattr(importlib.import_module(_WHERE[name]), name)
    elif name in _MODULES:
        value = importlib.import_module(f"appl.{name}")
    elif name == "__version__":
        value = importlib.import_module("appl.base.packages").version()
    else:
        value = importlib.import_module("appl.parts.compat").value_of(name, __all__)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE, *_MODULES})

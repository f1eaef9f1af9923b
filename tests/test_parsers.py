"""Every call of a parser catches what that parser raises, or stands here with the reason.

``json`` and ``tomllib`` raise ``RecursionError`` for deep nesting and a plain ``ValueError`` for an
integer of thousands of digits, ``yaml`` whatever Python raises for a date in month 13. Code that waits
for ``JSONDecodeError`` alone lets these through, so the question is asked of each call.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
RAISES: dict[str, tuple[type[BaseException], ...]] = {
    "json": (ValueError, RecursionError),
    "toml": (ValueError, RecursionError),
    "yaml": (Exception,),
    "literal": (ValueError, SyntaxError, RecursionError, MemoryError),
    "date": (ValueError,),
    "stamp": (ValueError, OverflowError, OSError),
    "int": (ValueError,),
    "float": (ValueError,),
    "decimal": (ArithmeticError, ValueError),
    "base64": (ValueError,),
    "decode": (ValueError,),
    "url": (ValueError,),
    "pydantic": (ValueError,),
    "uuid": (ValueError,),
    "address": (ValueError,),
    "msgpack": (ValueError,),
}
"""What the parsers of each kind raise for some text."""

BY_NAME = {
    "raw_decode": "json", "JSONDecodeError": "json", "fromisoformat": "date", "strptime": "date",
    "fromtimestamp": "stamp", "utcfromtimestamp": "stamp", "Decimal": "decimal", "fromhex": "base64",
    "urlsplit": "url", "urlparse": "url", "parse_qsl": "url", "parse_qs": "url", "UUID": "uuid",
    "ip_address": "address", "ip_network": "address", "unpackb": "msgpack", "literal_eval": "literal",
    "validate_json": "pydantic", "validate_python": "pydantic", "from_json": "pydantic",
    "safe_load": "yaml", "compose": "yaml", "parsedate_to_datetime": "date",
}  # fmt: skip
BY_MODULE = {"json.loads": "json", "json.load": "json", "ast.parse": "literal", "yaml.load": "yaml"}
FORGIVING = ("replace", "backslashreplace", "ignore", "surrogateescape", "latin-1")

OWN = "the text was written by this program"
NUMBER = "it is a number, and no text"
FEW = "a pattern has let only few digits through"
SOURCE = "Python has compiled this source before"
ENCODED = "the bytes were encoded in the line itself"
CHECKED = "check_url has refused what cannot be split"
HERE = "its caller in this module catches it"
SAYS = "it raises ValueError, as it says, for its callers to catch"
MODEL = "EmbeddedBackend names the folder of a model that cannot be read"
NUMERIC = (
    "appl/compiler/call_counts.py", "appl/parts/control/peer.py", "appl/parts/evaluation/intervals.py", "appl/runtime/scheduling/",
    "appl/base/shield.py", "appl/tracing/explaining/diff.py", "backends/appl_backends/embedded/engine.py",
    "backends/appl_backends/embedded/probe.py", "backends/appl_backends/embedded/radix.py",
    "backends/appl_backends/embedded/sampler.py", "backends/appl_backends/embedded/server/",
)  # fmt: skip
"""Where ``int`` and ``float`` make one number of another."""

LISTED = {
    "appl/backend/check.py": {
        "_whole float": "it has digits", "number_in float": NUMBER, "count_of int": NUMBER,
    },
    "appl/backend/http.py": dict.fromkeys(
        ["retry_after float", "_moment float", "_duration float", "_in_body float", "_status_in int"],
        "a pattern has let only digits and a point through",
    ),
    "appl/prompt/escapes.py": {"EscapedRow.__init__ int": "a pattern has let few digits through"},
    "appl/cli/__init__.py": {"main int": NUMBER, "invoked int": NUMBER},
    "appl/cli/arguments.py": {"_checked pydantic": HERE},
    "appl/cli/check.py": {"command int": NUMBER},
    "appl/cli/commands.py": {"appl_command.decorate.invoked int": NUMBER},
    "appl/cli/ctl.py": {"_concurrency int": FEW},
    "appl/cli/perturbed_child.py": {
        "main json": OWN, "_set_clock int": NUMBER, "_set_clock.Today.today stamp": "it is about now",
        "_set_clock.ShiftedDatetime.now stamp": "it is about now",
        "_set_clock.ShiftedDatetime.utcnow stamp": "it is about now",
    },
    "appl/cli/perturbed_process.py": {"spawned json": "a child of this program has written it"},
    "appl/parts/serving/journal.py": {"read json": OWN},
    "appl/cli/terminal.py": {"bytes_shown float": NUMBER},
    "appl/cli/trace/run_names.py": {"need_trace decode": OWN},
    "appl/compiler/trees.py": {
        "_parsed literal": "it raises SyntaxError, as it says, for its callers to catch",
    },
    "appl/config/parsing.py": {
        "_json json": HERE, "_toml toml": HERE, "_table decode": HERE, "_yaml yaml": HERE,
        "read_file decode": "_table has decoded it before",
    },
    "appl/base/moments.py": {"moment_of float": NUMBER},
    "appl/config/readers.py": {"whole int": FEW},
    "appl/parts/sandbox/launcher.py": {
        "main json": OWN, "main int": "its caller has written it", "_limit int": NUMBER,
        "run_confined int": NUMBER, "System.number int": NUMBER,
    },
    "appl/parts/control/client.py": {"live_runs float": "_described lets only moments through"},
    "appl/parts/control/folder.py": {"pid_of int": FEW},
    "appl/parts/control/words.py": {"head float": "a run of this user has written it"},
    "appl/parts/engine/cluster.py": {"Ray.open int": NUMBER},
    "appl/parts/engine/worker_connection.py": {"WorkerConnection._ordinal int": OWN},
    "appl/parts/conversations/message_data.py": {"_message base64": HERE, "data_of json": OWN},
    "appl/parts/evaluation/scores.py": {"number_of float": NUMBER},
    "appl/mcp/exchange.py": {"Exchange.came int": FEW},
    "appl/backend/price.py": {"money decimal": NUMBER},
    "appl/backend/price_table.py": {"_table json": "it lies in the package"},
    "appl/prompt/layout.py": {"label_of int": "the program's own source says it"},
    "appl/prompt/key_search.py": {"is_any decode": ENCODED},
    "appl/prompt/media.py": {"Media.as_base64 decode": ENCODED},
    "appl/prompt/message_input.py": {"_further json": OWN},
    "appl/prompt/provider_fields.py": {
        "ProviderFields.names json": OWN, "ProviderFields.put_into json": OWN,
    },
    "appl/prompt/secret_forms.py": {"_coded decode": ENCODED},
    "appl/runtime/waiting/approval.py": {"_decide json": "the call was found good before it is asked"},
    "appl/runtime/waiting/forms.py": {"_plain json": OWN},
    "appl/session/batched.py": {
        "seconds_of float": "the reader of the setting has seen to it",
        "BatchedBackends.__init__ int": NUMBER,
    },
    "appl/parts/batching/batch.py": {"Batch.shown int": NUMBER},
    "appl/tracing/viewer/server.py": {"_Handler._take_answer int": FEW},
    "appl/runtime/answers/choice.py": {"Chosen._option int": FEW},
    "appl/runtime/answers/gen_options.py": {"_sentences literal": SOURCE},
    "appl/parts/compat/files.py": {
        name: "the program's own file: it gets the error of its parser, as from APPL"
        for name in ("load_file json", "load_file yaml", "load_file toml")
    },
    "appl/runtime/answers/shape.py": {"_as_text json": "object_of has read it before"},
    "appl/runtime/concurrency/clock.py": {"seconds float": NUMBER},
    "appl/runtime/concurrency/effort.py": {"_waits int": "the names of threads in /proc are numbers"},
    "appl/runtime/observe.py": {"_moment stamp": HERE},
    "appl/runtime/prompts/rendering.py": {"Holes.rendered json": OWN},
    "appl/runtime/reporter.py": {"printable decode": ENCODED},
    "appl/runtime/tools/plaindata.py": {
        "decode json": SAYS, "_untagged base64": HERE, "_untagged int": HERE, "_tagged decode": ENCODED,
        "_tagged int": NUMBER, "_tagged float": NUMBER,
    },
    "appl/runtime/tools/signature.py": {"Reader.read pydantic": "ToolRun has any error told to the model"},
    "appl/runtime/tools/toolrun.py": {"text_of json": OWN},
    "appl/testing/embedded_server.py": {"serving json": "a child of this program has written it"},
    "appl/testing/faults.py": {
        "FaultServer._asked json": "only clients under test ask it", "_reply int": NUMBER,
        "_FaultyConnection.data_received int": "only clients under test ask it",
        "_written decode": ENCODED,
    },
    "appl/tracing/exporting/otlp.py": {
        "_field base64": OWN, "_field int": OWN,
    },
    "appl/tracing/format/block.py": {"_magic decode": "a pattern has let only letters through"},
    "appl/tracing/format/codec.py": {
        "unpack_one msgpack": SAYS, "revive int": SAYS, "plain int": NUMBER,
    },
    "appl/tracing/format/record.py": {"provided_data json": OWN},
    "appl/tracing/keeping/run_filter.py": {
        "length float": "a pattern has let only digits and a point through", "size float": FEW, "size int": FEW,
    },
    "appl/tracing/reading/runs.py": {"finished stamp": "nanoseconds in 64 bits end in 2262"},
    "appl/tracing/reading/process_records.py": {"ProcessRecords.long decode": HERE},
    "appl/tracing/reading/reader.py": {"Reader._parameters json": HERE},
    "appl/tracing/reading/trace.py": {"Trace.began stamp": "nanoseconds in 64 bits end in 2554"},
    "appl/tracing/replaying/fuzzer.py": {"Fuzzer._drawn uuid": NUMBER},
    "appl/tracing/replaying/made_up.py": {"_guess float": NUMBER, "_typed json": OWN},
    "appl/tracing/replaying/made_up_values.py": {"_number int": NUMBER},
    "appl/tracing/replaying/recall.py": {"natural int": OWN},
    "appl/tracing/tape/lines.py": {
        "loaded json": "it raises RecursionError too, as it says", "loaded decode": SAYS, "_whole int": SAYS,
        "LongTexts.shortened decode": ENCODED,
    },
    "appl/tracing/tape/places.py": {"_part int": FEW},
    "appl/tracing/tape/reading.py": {"_with_long base64": SAYS, "_digest base64": SAYS},
    "appl/tracing/viewer/page.py": {"_digest decode": ENCODED},
    "appl/tracing/viewer/page_data.py": {"packed decode": ENCODED},
    "appl/tracing/viewer/view.py": {
        "_number int": "View.document answers that there is no such document",
        "_numbers int": "View.document answers that there is no such document",
    },
    "backends/appl_backends/anthropic/__init__.py": {"Anthropic.prompt_tokens json": OWN},
    "backends/appl_backends/anthropic/body.py": {"_tool json": OWN},
    "backends/appl_backends/anthropic/messages.py": {"_result json": OWN},
    "backends/appl_backends/anthropic/schemas.py": {"structured json": OWN},
    "backends/appl_backends/anthropic/settings.py": {
        "ServerSettings.secrets url": CHECKED, "ServerSettings.url url": CHECKED, "base_of url": CHECKED,
    },
    "backends/appl_backends/embedded/__init__.py": {"Defaults.read json": MODEL},
    "backends/appl_backends/embedded/constraint.py": {
        "Constraints.compile decode": OWN, "_source json": OWN,
    },
    "backends/appl_backends/ebnf.py": {"_character int": FEW, "_times int": FEW},
    "backends/appl_backends/embedded/adapters.py": {
        "Adapter.load json": MODEL, "Adapter.load int": FEW, "_scale float": MODEL,
    },
    "backends/appl_backends/embedded/model.py": {"Llama.load json": MODEL},
    "backends/appl_backends/embedded/server/app.py": {"EngineServer._detokenize decode": "it decodes tokens"},
    "backends/appl_backends/embedded/server/messages.py": {"_block json": "a grammar has made it"},
    "backends/appl_backends/embedded/server/info.py": {"Info.__init__ json": "the backend has read it before"},
    "backends/appl_backends/embedded/tokenizer.py": {
        "Tokenizer.__init__ json": MODEL, "TextWriter.add json": "it decodes tokens",
        "TextWriter.close json": "it decodes tokens",
    },
    "backends/appl_backends/embedded/tools.py": {
        "ToolOffer.call json": "a grammar has made it", "offer json": OWN, "_line json": OWN,
    },
    "backends/appl_backends/http/client.py": {
        "HttpClient.__init__ url": CHECKED, "_ascii decode": "IDNA is ASCII",
    },
    "backends/appl_backends/http/proxy.py": {"_basic decode": ENCODED},
    "backends/appl_backends/litellm.py": {
        "LiteLLM._constrained json": OWN, "_given json": OWN, "_stream_cost float": NUMBER,
        "_without_halves json": OWN,
    },
    "backends/appl_backends/openai/body.py": {"body_of decode": OWN, "_given json": OWN},
    "backends/appl_backends/openai/connection.py": {
        "ServerConnection._written url": CHECKED, "_of_settings url": CHECKED,
    },
    "backends/appl_backends/openai/__init__.py": {"_base_of url": CHECKED},
    "backends/appl_backends/openai/calls.py": {"_index int": FEW},
    "backends/appl_backends/openai/embeddings.py": {"_bytes_of base64": HERE, "texts_of decode": OWN},
    "backends/appl_backends/openai/responses/body.py": {"body_of decode": OWN},
    "backends/appl_backends/openai/root_definitions.py": {"_RootDefinitions._body int": OWN},
    "backends/appl_backends/openai/strict_schema.py": {
        "strict_schema json": OWN, "_SchemaWriter._check int": NUMBER,
    },
    "backends/appl_backends/openai/settings.py": {"ServerSettings.secrets url": CHECKED},
    "backends/appl_backends/prompt_cache/openai.py": {"rule_of int": FEW},
    "backends/appl_backends/sglang/heads.py": {"Heads._made decode": "it decodes tokens"},
    "backends/appl_backends/sglang/server_process.py": {"free_port int": NUMBER},
    "backends/appl_backends/sglang/host_memory.py": {
        "free_bytes int": "the system has written it", "host_cache_gb int": NUMBER,
    },
    "backends/appl_backends/sglang/launch.py": {"_host_cache int": FEW},
    "backends/appl_backends/sglang/prefill.py": {"PrefillServer._joined url": CHECKED},
    "backends/appl_backends/sglang/probe.py": {"_cache_tokens int": NUMBER},
    "backends/appl_backends/sglang/template.py": {"tools_as_data json": OWN},
    "backends/appl_backends/sglang/tokens.py": {
        "ModelTokenizer.decode decode": "it decodes tokens", "Prompts._fitting decode": "it decodes tokens",
    },
    "backends/appl_backends/sglang/wire.py": {"Wire.__init__ url": CHECKED, "Wire.place url": CHECKED},
}  # fmt: skip
"""The calls that catch less than the parser raises, by function and kind, each with the reason."""

GAPS = {
    "backends/appl_backends/sglang/model_folder.py": {"defaults_of json": "a broken file of the model"},
    "backends/appl_backends/sglang/template.py": {
        "_json json": "a broken file of the model", "_parsed json": "deep arguments in a prompt",
    },
}  # fmt: skip
"""The calls for which there is no reason yet."""


class ParserCall(NamedTuple):
    """A call of a parser in a function of a file, of a kind, with the classes that it catches."""

    file: str
    place: str
    line: int
    catches: tuple[str, ...]

    @property
    def is_covered(self) -> bool:
        """True if all that its parser raises is caught around it, in the same function."""
        kind = self.place.rpartition(" ")[2]
        known = [getattr(builtins, name, None) for name in self.catches]
        classes = tuple(each for each in known if isinstance(each, type))
        return all(issubclass(each, classes) for each in RAISES[kind])


@cache
def files() -> list[Path]:
    return [*(ROOT / "appl").rglob("*.py"), *(ROOT / "backends" / "appl_backends").rglob("*.py")]


def calls_in(file: str, source: str) -> Iterator[ParserCall]:
    """The calls of parsers in *source*."""
    todo: list[tuple[ast.AST, tuple[str, ...], tuple[str, ...]]] = [(ast.parse(source), (), ())]
    while todo:
        node, around, catches = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            around, catches = (*around, node.name), ()
        if isinstance(node, ast.Lambda):
            catches = ()
        if isinstance(node, ast.Call) and (kind := _kind(node)):
            yield ParserCall(file, f"{'.'.join(around)} {kind}", node.lineno, catches)
        within = catches + tuple(_caught(node))
        body = getattr(node, "body", None)
        for child in ast.iter_child_nodes(node):
            guarded = isinstance(node, ast.Try | ast.With) and child in (body or ())
            todo.append((child, around, within if guarded else catches))


def _caught(node: ast.AST) -> Iterator[str]:
    """The names of the exceptions that *node* catches in its body."""
    if isinstance(node, ast.Try):
        for handler in node.handlers:
            yield from _names(handler.type)
    if isinstance(node, ast.With):
        for item in node.items:
            if isinstance(item.context_expr, ast.Call) and "suppress" in ast.unparse(
                item.context_expr.func
            ):
                for each in item.context_expr.args:
                    yield from _names(each)


def _names(kinds: ast.expr | None) -> list[str]:
    if kinds is None:
        return ["BaseException"]
    return (
        [name for each in kinds.elts for name in _names(each)]
        if isinstance(kinds, ast.Tuple)
        else [ast.unparse(kinds)]
    )


def _kind(call: ast.Call) -> str | None:
    """The kind of parser that *call* calls, if it calls one."""
    written = ast.unparse(call.func)
    base, _, name = written.rpartition(".")
    if written in BY_MODULE:
        return BY_MODULE[written]
    if base == "tomllib":
        return "toml"
    if base in ("base64", "binascii") and name.endswith("decode"):
        return "base64"
    if name == "decode":
        if "decoder" in base.lower():
            return "json"
        words = [part.value for part in ast.walk(call) if isinstance(part, ast.Constant)]
        return None if any(word in FORGIVING for word in words) else "decode"
    if written in ("int", "float"):
        return written if call.args and not isinstance(call.args[0], ast.Constant) else None
    return BY_NAME.get(name)


@cache
def every_call() -> list[ParserCall]:
    found = []
    for path in files():
        found += calls_in(path.relative_to(ROOT).as_posix(), path.read_text("utf-8"))
    return found


def _reason(call: ParserCall) -> str | None:
    if call.place.endswith((" int", " float")) and call.file.startswith(NUMERIC):
        return NUMBER
    return {**LISTED.get(call.file, {}), **GAPS.get(call.file, {})}.get(call.place)


def test_every_call_of_a_parser_catches_what_it_raises_or_is_listed() -> None:
    found = [call for call in every_call() if not call.is_covered and _reason(call) is None]
    assert not found, "\n".join(f"{call.file}:{call.line}: {call.place}" for call in found)


def test_every_reason_is_needed() -> None:
    needed = {(call.file, call.place) for call in every_call() if not call.is_covered}
    listed = {
        (file, place)
        for table in (LISTED, GAPS)
        for file, places in table.items()
        for place in places
    }
    assert listed <= needed, listed - needed
    uncovered = [file for file, place in needed if place.endswith((" int", " float"))]
    assert all(any(file.startswith(part) for file in uncovered) for part in NUMERIC)


def test_there_are_many_parsers() -> None:
    assert len(every_call()) > 200 and {call.place.rpartition(" ")[2] for call in every_call()} >= {
        "json", "toml", "yaml", "literal", "date", "stamp", "int", "float", "base64", "decode", "url"}  # fmt: skip


@pytest.mark.parametrize(
    ("written", "covered"),
    [
        ("try: json.loads(x)\nexcept ValueError: pass", False),
        ("try: json.loads(x)\nexcept json.JSONDecodeError: pass", False),
        ("try: json.loads(x)\nexcept (ValueError, RecursionError): pass", True),
        ("try: json.loads(x)\nexcept Exception: pass", True),
        ("try: pass\nexcept Exception: json.loads(x)", False),
        ("try: f(lambda: json.loads(x))\nexcept Exception: pass", False),
        ("try:\n  def f(): json.loads(x)\nexcept Exception: pass", False),
        ("with suppress(ValueError): int(x)", True),
        ("with suppress(ValueError): yaml.safe_load(x)", False),
        ("try: tomllib.loads(x)\nexcept tomllib.TOMLDecodeError: pass", False),
        ("try: decoder.raw_decode(x)\nexcept (JSONDecodeError, RecursionError): pass", False),
    ],
)
def test_the_rule_sees_what_is_caught(written: str, covered: bool) -> None:
    (call,) = calls_in("x.py", written)
    assert call.is_covered == covered

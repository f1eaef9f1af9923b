"""Names, options and attributes of APPL 0.2 that programs use as they were written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

import appl
from appl import AIRole, SystemMessage, ToolCall, as_tool, as_tool_choice, convo, gen, need_ctx, ppl
from appl.errors import InvalidOption, Unsupported
from appl.parts.compat import print_trace
from appl.session.replaying import replayed
from appl.testing import Echo, Fault, Scripted, running
from appl.testing.engine import Threads
from appl.tracing import Trace
from appl.types import CompletionResponse, Generation, ReasoningContent
from tests.wire.servers import FaultServer

KEY = "sk-of-one-user-4f8a9c2e77"


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


MODULES = (
    "appl.core appl.core.types appl.core.message appl.core.response appl.core.tool appl.core.context "
    "appl.core.generation appl.core.function appl.core.io appl.core.modifiers appl.core.promptable "
    "appl.utils appl.role_changer"
).split()


def test_the_import_paths_of_0_2_lead_to_todays_names() -> None:
    code = "\n".join(f"import {name}" for name in MODULES) + (
        "\nimport appl, appl.types"
        "\nfrom appl.core import Generation, load_file, make_panel, PromptContext, need_ctx"
        "\nfrom appl.core.message import AIMessage"
        "\nassert Generation is appl.types.Generation and AIMessage is appl.AIMessage"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_program_that_does_not_use_them_loads_none() -> None:
    code = (
        "import sys\nfrom appl import gen, ppl\nfrom appl.testing import Echo, running\n"
        "with running(Echo()): gen(messages='x', api_key=None).result()\n"
        "print(*(name for name in [*sys.modules] if name.startswith(('appl.parts.compat.', 'appl.core'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_files_are_read_and_written_by_their_suffix(tmp_path: Path) -> None:
    from appl.core import dump_file, load_file

    for name in ("a.json", "b.yaml", "deep/c.yml"):
        dump_file({"n": [1, "é"]}, str(tmp_path / name))
        assert load_file(str(tmp_path / name)) == {"n": [1, "é"]}
    dump_file("text", str(tmp_path / "d.md"))
    assert load_file(str(tmp_path / "d.md")) == "text"
    (tmp_path / "e.toml").write_text("n = 1")
    assert load_file(str(tmp_path / "e.toml"), open_kwargs={"encoding": "utf-8"}) == {"n": 1}
    with pytest.raises(ValueError, match=r"'\.xml'"):
        load_file(str(tmp_path / "d.md"), file_type=".xml")


def test_tokens_are_counted_about_where_tiktoken_is_missing() -> None:
    from appl.utils import get_num_tokens

    assert 2 <= get_num_tokens("a few words of text") <= 10


# -- mock_response and _dummy


def test_a_mocked_answer_asks_nobody_and_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "a.trace"

    def program() -> list[str]:
        said = [gen("_dummy", messages="x"), gen("_dummy", messages="x", mock_response="yo")]
        return [str(each) for each in (*said, gen(messages="x", mock_response="z", stream=True))]

    with appl.record(path, backend="appl.testing:Echo") as session:
        assert program() == ["This is a dummy response", "yo", "z"]
        assert session.backend.requests == []
    assert [call.outcome for call in Trace.open(path).calls] == ["answered"] * 3
    with replayed(path):
        assert program() == ["This is a dummy response", "yo", "z"]


def test_a_mocked_answer_may_have_a_type_and_several_samples() -> None:
    with running(Echo()) as seen:
        assert gen(messages="x", mock_response="4", response_format=int).result() == 4
        several = gen(messages="x", mock_response="a", n=3).result().samples
        assert [str(each) for each in several] == ["a"] * 3
    assert seen.requests == []


def test_the_same_question_may_have_other_mocked_answers() -> None:
    @ppl
    def until_valid() -> int:
        "A number?"
        for attempt in range(6):
            with AIRole():
                (said := gen(mock_response="1" if attempt < 4 else "2"))
            if "2" in said.message:
                return attempt
        return -1

    with running(Echo()) as seen:
        assert until_valid() == 4
    assert seen.requests == []


def test_a_mocked_response_may_call_tools() -> None:
    def add(x: int, y: int) -> int:
        """Add."""
        return x + y

    calls = [ToolCall("1", "add", '{"x": 1, "y": 2}'), ToolCall("2", "mul", "{}")]
    response = CompletionResponse(tool_calls=calls)
    assert isinstance(response, CompletionResponse) and response.finish_reason == "tool_calls"

    @ppl
    def program() -> list[str]:
        res = gen("_dummy", tools=[as_tool(add)], mock_response=response)
        return [m.get_content() for m in res.run_tool_calls(filter_fn=lambda all: all[:1])]

    with running(Echo(features=["tools"])):
        assert program() == ["3"]


@pytest.mark.parametrize("mock", [3, object(), ["a"]])
def test_a_mocked_answer_that_is_none_is_refused(mock: object) -> None:
    with running(Echo()), pytest.raises(InvalidOption, match="mock_response"):
        gen(messages="x", mock_response=mock)


# -- postprocess_args, num_retries


def without_system(args: dict[str, Any]) -> dict[str, Any]:
    args["messages"] = [m for m in args["messages"] if m["role"] != "system"]
    args["temperature"] = 0.25
    return args


@pytest.mark.parametrize("given", [None, "prompt", "list"])
def test_arguments_are_processed_before_they_are_sent(given: str | None) -> None:
    @ppl
    def program() -> str:
        SystemMessage("Be wrong.")
        f"1+1={gen(messages='inner')}"
        return str(gen(postprocess_args=without_system))

    messages = [{"role": "system", "content": "S"}, {"role": "user", "content": "1+1=two"}]
    with running(Scripted(["two", "three"] if given is None else ["three"])) as seen:
        if given is None:
            assert program() == "three"
        else:
            said = "1+1=two" if given == "prompt" else messages
            assert gen(messages=said, postprocess_args=without_system).result() == "three"
    last = seen.requests[-1]
    assert [str(link.message) for link in last.messages.links()] == ["user: 1+1=two"]
    assert last.sampling.temperature == 0.25


def test_messages_are_processed_before_they_are_sent() -> None:
    @ppl
    def program() -> str:
        "One"
        with AIRole():
            "Two"
        "Three"
        return str(gen(messages_process_func=lambda said: said.messages[-1:]))

    with running(Echo()) as seen:
        program()
    assert list(seen.prompts.values()) == ["user: Three"]


def test_arguments_that_are_not_returned_are_named() -> None:
    with running(Echo()), pytest.raises(InvalidOption, match="returns the arguments"):
        gen(messages="x", postprocess_args=lambda args: None)


def test_a_number_of_retries_is_told_where_to_write() -> None:
    with running(Echo()) as seen, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        str(gen(messages="x", num_retries=3))
    assert seen.requests[0].sampling.extra == ()
    assert not told or "[retries]" in str(told[0].message)


def test_mock_response_answers_on_workers_too() -> None:
    def ask(word: str) -> str:
        return str(gen(messages=word, mock_response=f"mock {word}"))

    def typed(word: str) -> object:
        return gen(messages=word, mock_response=word, response_format=int).result()

    with running(Scripted([])) as seen:
        assert appl.map(ask, ["a", "b"], engine=Threads()) == ["mock a", "mock b"]
        assert appl.map(typed, ["1", "2"], engine=Threads()) == [1, 2]
    assert not seen.requests


# -- a key of a call


def test_a_key_of_a_call_is_sent_and_nowhere_else(tmp_path: Path) -> None:
    def ask(key: str | None) -> str:
        return str(gen(messages="Hello?", api_key=key))

    with FaultServer() as server:
        own = {"base_url": server.openai_url, "api_key": "sk-the-backends-own-1"}
        path = tmp_path / "a.trace"
        with appl.record(path, backend="openai", model="m", backends={"openai": own}):
            answers = [ask(key) for key in (KEY, None, KEY)]
    sent = [ask.headers["authorization"] for ask in server.asks]
    assert sent[:3] == [f"Bearer {KEY}", "Bearer sk-the-backends-own-1", f"Bearer {KEY}"]
    assert KEY.encode() not in path.read_bytes() and KEY not in repr(Trace.open(path).calls)
    with replayed(path):  # the key is no part of what was asked
        assert [ask("another-key-12345"), ask(KEY), ask(None)] == answers


def test_a_key_of_a_call_is_in_no_error(tmp_path: Path) -> None:
    body = json.dumps({"error": {"message": f"Incorrect API key provided: {KEY}."}})
    with FaultServer([Fault("401", 401, body=body.encode())] * 9) as server:
        own = {"openai": {"base_url": server.openai_url}}
        refused = pytest.raises(appl.AuthenticationFailed)
        with appl.record(trace=False, backend="openai", model="m", backends=own), refused as caught:
            gen(messages="Hello?", api_key=KEY).result()
    assert KEY not in "".join([str(caught.value), repr(caught.value.__dict__)])


def test_a_backend_that_takes_no_key_says_so() -> None:
    with running(Echo()) as seen:
        with pytest.raises(Unsupported, match="takes no key") as caught:
            gen(messages="x", api_key=KEY)
        with pytest.raises(InvalidOption, match="takes a text"):
            gen(messages="x", api_key=3)
        str(gen(messages="x", api_key=None))
    assert KEY not in str(caught.value) and len(seen.requests) == 1


BARE = """
from appl import gen
def main(key):
    return str(gen("gpt-4o-mini", messages="Hello?", api_key=key))
"""


def test_a_providers_bare_name_is_asked_with_the_key_of_the_call(tmp_path: Path) -> None:
    (tmp_path / "bare.py").write_text(BARE, "utf-8")
    with FaultServer() as server:
        answers = [appl_in(tmp_path, server.openai_url, "run", "bare.py", "--key", key)
                   for key in (KEY, "sk-of-another-user-112233")]  # fmt: skip
        asked = [(ask.headers["authorization"], ask.data["model"]) for ask in server.asks]
        nothing = appl_in(tmp_path, server.openai_url, "trace", "replay")
        assert len(server.asks) == len(asked)
    assert asked[0] == (f"Bearer {KEY}", "gpt-4o-mini") and answers[0] == answers[1]
    assert "0 live" in nothing
    digests = [call.content for path in runs(tmp_path) for call in Trace.open(path).calls]
    assert len(digests) == 2 and len(set(digests)) == 1


def test_a_key_of_a_call_stands_in_no_file_of_its_run(tmp_path: Path) -> None:
    program = BARE.replace("def main(key):", f"key = {KEY!r}\ndef main():")
    (tmp_path / "bare.py").write_text(program, "utf-8")
    with FaultServer() as server:
        appl_in(tmp_path, server.openai_url, "run", "bare.py")
    written = [path for path in (tmp_path / ".appl").rglob("*") if path.is_file()]
    assert runs(tmp_path) and not any(KEY.encode() in path.read_bytes() for path in written)


def test_a_bare_name_without_any_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bare.py").write_text(BARE.replace(", api_key=key", ""), "utf-8")
    said = appl_in(tmp_path, "http://127.0.0.1:9/v1", "run", "bare.py", "--key", KEY)
    assert "there is no key for it" in said


def runs(folder: Path) -> list[Path]:
    return sorted((folder / ".appl" / "runs").glob("*.trace"))


def appl_in(folder: Path, url: str, *words: str) -> str:
    """What ``appl`` with *words* says, where no key is in the environment."""
    root = Path(__file__).parents[2]
    known = {name: value for name, value in os.environ.items() if "API_KEY" not in name}
    paths = os.pathsep.join([str(root), str(root / "backends")])
    done = subprocess.run(
        [sys.executable, "-m", "appl", *words],
        cwd=folder,
        env={**known, "PYTHONPATH": paths, "OPENAI_BASE_URL": url},
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.stdout if words[0] == "run" and not done.returncode else done.stdout + done.stderr


def test_a_key_of_a_call_reaches_the_server_from_a_worker(tmp_path: Path) -> None:
    def ask(word: str) -> str:
        return str(gen(messages=word, api_key=KEY))

    with FaultServer() as server:
        own = {"openai": {"base_url": server.openai_url}}
        path = tmp_path / "a.trace"
        with appl.record(path, backend="openai", model="m", backends=own):
            appl.map(ask, ["a", "b"], engine=Threads())
    assert [ask.headers["authorization"] for ask in server.asks] == [f"Bearer {KEY}"] * 2
    assert KEY.encode() not in path.read_bytes()


# -- small ones


def test_the_users_text_alone_prints_without_a_speaker() -> None:
    @ppl
    def program() -> list[str]:
        "Hello"
        found = [str(convo())]
        with AIRole():
            "Hi"
        return [*found, str(convo())]

    with running(Echo()):
        assert program() == ["Hello", "user: Hello\nassistant: Hi"]


def test_a_message_is_read_as_its_text() -> None:
    with running(Scripted(["  a 3 "])):
        said = gen(messages="x").message
    assert "3" in said and "4" not in said and said.strip() == "a 3"


def test_an_answer_that_is_to_be_shown_is_itself() -> None:
    with running(Scripted(["abc"])):
        answer = gen(messages="x", stream=True)
        assert str(answer.streaming(title="Assistant")) == "abc"


def test_a_tool_has_the_name_and_text_of_its_function() -> None:
    def double(x: int) -> int:
        """Twice x."""
        return 2 * x

    tool = as_tool(double)
    assert (tool.__name__, tool.__doc__) == ("double", "Twice x.")
    assert "as_tool" in str(type(tool).__doc__)


def test_the_choice_of_a_tool_is_its_name_and_what_openai_takes() -> None:
    def double(x: int) -> int:
        """Twice x."""
        return 2 * x

    choice = as_tool_choice(double)
    assert choice == "double" and choice["function"]["name"] == "double"
    assert choice["type"] == "function" and choice[0] == "d"
    with running(Echo(features=["tools"])) as seen:
        str(gen(messages="x", tools=[double], tool_choice=choice))
    assert seen.requests[0].sampling.tool_choice == "double"


def test_a_function_may_need_a_context_above_and_below_the_decorator() -> None:
    def said(x: str, _ctx: Any = None) -> str:
        f"{x}"
        return str(convo())

    with running(Echo()):
        assert need_ctx(ppl(said))("q") == ppl(need_ctx(said))("q") == "q"


@ppl
@need_ctx
def decorated(x: str, _ctx: Any = None) -> str:
    f"{x}"
    return str(convo())


def test_a_context_is_needed_between_def_and_decorator() -> None:
    with running(Echo()):
        assert decorated("q") == "q"


def test_a_trace_needs_no_printing() -> None:
    with running(Echo()):
        assert print_trace() is None


def test_no_piece_of_a_stream_is_reasoning() -> None:
    with running(Scripted(["abc"])):
        answer: Generation = gen(messages="x", stream=True)
        pieces = list(answer.text_stream)
    assert "".join(pieces) == "abc" and not any(isinstance(p, ReasoningContent) for p in pieces)
    assert ReasoningContent("why").content == "why"

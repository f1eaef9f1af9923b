"""Which of OpenAI's interfaces a call takes, and that both ask for and record the same."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from appl import AIRole, gen, ppl
from appl.errors import BackendRefused, BackendUnavailable, ConfigError, Unsupported
from appl.prompt import Message
from appl.testing import Fault, Run
from appl.testing.faults import Ask
from appl.tracing import Recorder, Replayer, Trace, profile_data
from appl_backends.openai import OpenAI
from appl_backends.openai.responses import OPTIONS
from tests.providers.asking import JSON, chat, closing, request, using

from .servers import FaultServer
from .test_requests import OPTION, TALKS, TOOL
from .twins import hosted, responses

OWN = "http://api.openai.com/v1"


@pytest.fixture
def at_openai(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a server that stands for OpenAI's own: a proxy leads there."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-test-4711")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)

    def lead_to(server: FaultServer) -> OpenAI:
        monkeypatch.setenv("http_proxy", server.url)
        return OpenAI(base_url=OWN)

    return lead_to


def both(ask: Ask) -> Fault:
    """Answers as OpenAI does, by both interfaces."""
    if ask.path.endswith("/responses"):
        return responses.ResponsesPlain(failing=0)(ask)
    return Fault("said", 200, JSON, json.dumps(chat("ok", choices=[
        {"index": at, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}
        for at in range(ask.data.get("n", 1))])).encode())  # fmt: skip


ONLY_CHAT: dict[str, dict[str, Any]] = {
    "several samples": {"n": 2},
    "a seed": {"seed": 3},
    "a stop text": {"stop": ("x",)},
    "a short answer": {"max_tokens": 5},
    "a penalty": {"extra": (("presence_penalty", 1),)},
    "fields for chat": {"extra": (("extra_body", {"web_search_options": {}}),)},
}
ALSO: dict[str, dict[str, Any]] = {
    "nothing more": {},
    "an effort": {"extra": (("reasoning_effort", "low"),)},
    "a limit": {"max_tokens": 20},
    "fields for responses": {"extra": (("extra_body", {"reasoning": {"summary": "auto"}}),)},
}


@pytest.mark.parametrize("options", [*ONLY_CHAT, *ALSO])
async def test_openai_is_asked_for_responses_unless_only_chat_can_say_it(
    options: str, at_openai: Any
) -> None:
    given = ONLY_CHAT.get(options, ALSO.get(options, {}))
    with FaultServer(both, kind="openai", fields=["web_search_options"]) as server:
        async with closing(at_openai(server)) as backend:
            await backend.complete(request("hi", model="gpt-4.1-mini", **given))
    (ask,) = server.asks
    assert ask.path.endswith("/chat/completions" if options in ONLY_CHAT else "/responses")


def test_only_openai_itself_is_asked_for_responses_by_default() -> None:
    def speaks(**settings: Any) -> bool:
        return "background" in OpenAI(api_key="k", **settings).profile.options

    assert speaks(base_url="https://api.openai.com/v1")
    assert speaks(base_url="https://eu.api.openai.com/v1")
    assert speaks(base_url="https://lan/v1", interface="responses")
    assert speaks(azure_endpoint="https://me.openai.azure.com", interface="responses")
    assert not speaks(base_url="https://lan/v1")
    assert not speaks(base_url="https://api.openai.com.example.org/v1")
    assert not speaks(base_url="https://api.openai.com/v1", interface="chat")
    assert not speaks(azure_endpoint="https://me.openai.azure.com")
    with pytest.raises(ConfigError, match='must be "responses" or "chat", got \'respond\''):
        OpenAI(interface="respond")  # type: ignore[arg-type]


@pytest.mark.parametrize(("interface", "other"), [("responses", "chat"), ("chat", "responses")])
async def test_a_server_without_the_interface_is_told_with_the_setting_to_write(
    interface: Any, other: str
) -> None:
    gone = Fault("gone", 404, JSON, b'{"detail":"Not Found"}')
    with FaultServer([gone]) as server:
        async with closing(OpenAI(base_url=server.openai_url, interface=interface)) as backend:
            with pytest.raises(BackendRefused, match=f'write interface = "{other}" into the settings'):  # fmt: skip
                await backend.complete(request("hi"))


@pytest.mark.parametrize("options", [each for each in ONLY_CHAT if each != "a stop text"])
async def test_what_the_only_interface_does_not_have_is_refused_before_the_call(
    options: str,
) -> None:
    with FaultServer() as server:
        async with closing(OpenAI(base_url=server.openai_url, interface="responses")) as backend:
            with pytest.raises(Unsupported, match='write interface = "chat"'):
                await backend.complete(request("hi", **ONLY_CHAT[options]))
    assert not server.asks
    assert not {"n", "seed", "audio"} & backend.profile.features


async def test_a_stop_text_cuts_a_response_here() -> None:
    twin = responses.ResponsesPlain(failing=0)
    with FaultServer(twin, kind="openai") as server:
        async with closing(OpenAI(base_url=server.openai_url, server="openai", interface="responses")) as backend:  # fmt: skip
            whole = await backend.complete(request("hi #p1q1#"))
            stop, chunks = whole.text[3:6], list[Any]()
            cut = await backend.complete(request("hi #p1q1#", stop=(stop,)), chunks.append)
    assert cut.text == whole.text[: whole.text.index(stop)] == "".join(c.text for c in chunks)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_each_option_and_talk_of_a_response_is_of_the_type(stream: bool) -> None:
    twin = responses.ResponsesPlain(failing=0)
    emit = (lambda chunk: None) if stream else None
    given = {**OPTION, "background": False, "extra_body": {"truncation": "auto"}}
    full: dict[str, Any] = {"max_tokens": 30, "temperature": 0.5, "top_p": 1.0, "tools": (TOOL,)}
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    with FaultServer(twin, kind="openai") as server:
        made = OpenAI(base_url=server.openai_url, server="openai", interface="responses")
        async with closing(made) as backend:
            for name in sorted(OPTIONS):
                await backend.complete(request("hi", extra=((name, given[name]),)), emit)
            for talk in TALKS.values():
                for choice in (None, "auto", "none", "required", "add"):
                    await backend.complete(request(*talk, tool_choice=choice, **full), emit)
            await backend.complete(request("hi", schema=json.dumps(schema)), emit)
            await backend.complete(request("any json", schema='{"type":"object"}'), emit)
            await backend.complete(request("hi", "Well, "), emit)
    assert server.looked_at == len(OPTIONS) + 5 * len(TALKS) + 3 and not twin.refused
    assert all(ask.data["store"] is (ask.data.get("store") is True) for ask in server.asks)


async def test_nothing_is_stored_unless_the_program_says_so() -> None:
    with FaultServer(responses.Responses(failing=0), kind="openai") as server:
        async with closing(OpenAI(base_url=server.openai_url, interface="responses")) as backend:
            await backend.complete(request("hi", model="gpt-5-mini"))
            await backend.complete(request("hi", model="gpt-4o"))
            await backend.complete(request("hi", model="gpt-5-mini", extra=(("store", True),)))
    first, plain, stored = (ask.data for ask in server.asks)
    assert first["store"] is False and first["include"] == ["reasoning.encrypted_content"]
    assert plain["store"] is False and "include" not in plain  # it has nothing to encrypt
    assert stored["store"] is True


async def test_two_speakers_of_one_role_are_told_apart() -> None:
    with FaultServer(responses.ResponsesPlain(failing=0), kind="openai") as server:
        async with closing(OpenAI(base_url=server.openai_url, interface="responses")) as backend:
            talk = [Message("user", "a", name="Ann"), Message("user", "b", name="Bob")]
            await backend.complete(request(*talk))
    assert [each["content"] for each in server.asks[0].data["input"]] == ["Ann: a", "Bob: b"]


@ppl
def mixed() -> list[str]:
    found = []
    for at, options in enumerate(({}, {"seed": 3}, {"stop": "zz"}, {"n": 2}, {})):
        f"Question {at} #p1q{at}#"
        with AIRole():
            (answer := gen(max_tokens=100, **options))  # a model that thinks is cut off here
        found.append(str(answer))
    return found


def test_a_call_by_chat_gets_no_item_and_the_next_response_gets_all_of_them(at_openai: Any) -> None:
    thinks, plain = responses.Responses(failing=0), hosted.OpenAI(failing=0)

    def script(ask: Ask) -> Fault:
        return (thinks if ask.path.endswith("/responses") else plain)(ask)

    with FaultServer(script, kind="openai") as server, using(at_openai(server), model="gpt-5-mini"):
        assert len(mixed()) == 5
    paths = [ask.path.rpartition("/")[2] for ask in server.asks]
    assert paths == ["responses", "completions", "responses", "completions", "responses"]
    held = [
        sum(i.get("type") == "reasoning" for i in ask.data.get("input", ())) for ask in server.asks
    ]
    said = [o for o in {id(o): o for o in thinks.outputs.values()}.values()]
    assert held[2] and held[4] == sum(i["type"] == "reasoning" for o in said[:2] for i in o)
    assert not thinks.refused and not plain.refused


def test_nobody_loads_an_interface_that_is_not_asked() -> None:
    program = """
import sys, appl
@appl.ppl
def ask():
    "Hello"
    return appl.gen()
str(ask())
loaded = {name for name in [*sys.modules] if name.startswith("appl_backends.")}
assert not any(name.startswith(("appl_backends.openai", "appl_backends.anthropic")) for name in loaded)
from appl_backends.openai import OpenAI
OpenAI(base_url="http://lan/v1")
assert not any("responses" in name or "anthropic" in name for name in [*sys.modules] if name[:5] == "appl_")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# -- in the background


class Background:
    """Makes each response in the background, which takes it two questions."""

    def __init__(self, ends: str = "completed") -> None:
        self.ends, self.polls, self.cancelled = ends, 0, 0

    def __call__(self, ask: Ask) -> Fault:
        if ask.path.endswith("/cancel"):
            self.cancelled += 1
            return self._state("cancelled")
        if ask.path.endswith("/responses"):
            assert ask.data["background"] is True and not ask.streams
            return self._state("queued")
        self.polls += 1
        return self._state("in_progress" if self.polls < 2 or self.ends == "never" else self.ends)

    def _state(self, status: str) -> Fault:
        part = {"type": "output_text", "text": "done", "annotations": []}
        item = {"type": "message", "id": "msg_1", "role": "assistant", "content": [part]}
        error = {"code": "server_error", "message": "it broke"} if status == "failed" else None
        output = [item] if status == "completed" else []
        data = {"id": "resp_1", "status": status, "output": output, "error": error}
        return Fault(status, 200, JSON, json.dumps(data).encode())


IN_BACKGROUND = (("background", True),)


async def test_a_response_in_the_background_is_asked_for_until_it_is_there() -> None:
    twin = Background()
    with FaultServer(twin, gets=True) as server:
        async with closing(OpenAI(base_url=server.openai_url, interface="responses")) as backend:
            found = await backend.complete(request("hi", extra=IN_BACKGROUND), lambda chunk: None)
            assert found.text == "done" and twin.polls == 2
            twin.ends, twin.polls = "failed", 0
            with pytest.raises(BackendUnavailable, match="it broke"):
                await backend.complete(request("hi", extra=IN_BACKGROUND))
    assert [ask.path for ask in server.asks][1:3] == ["/v1/responses/resp_1"] * 2


async def test_a_call_that_is_cancelled_cancels_its_response_in_the_background() -> None:
    twin = Background("never")
    with FaultServer(twin, gets=True) as server:
        async with closing(OpenAI(base_url=server.openai_url, interface="responses")) as backend:
            asking = asyncio.ensure_future(backend.complete(request("hi", extra=IN_BACKGROUND)))
            while not twin.polls and not asking.done():
                await asyncio.sleep(0)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
    assert twin.cancelled == 1


# -- what is recorded


@ppl
def pair() -> list[str]:
    "One? #p1q0#"
    first = str(gen())
    "Two? #p1q1#"
    return [first, str(gen(tools=[]))]


def test_a_trace_does_not_depend_on_the_interface(tmp_path: Path) -> None:
    found = {}
    for kind, twin in (("chat", hosted.OpenAI), ("responses", responses.ResponsesPlain)):
        with FaultServer(twin(failing=0), kind="openai") as server:
            backend = OpenAI(base_url=server.openai_url, server="openai", interface=kind, model="m")  # type: ignore[arg-type]
            path = tmp_path / f"{kind}.trace"
            recorder = Recorder(path, {"program": "p", "profile": profile_data(backend.profile)})
            with using(backend, instruments=[recorder]):
                value = pair()
            recorder.close()
        found[kind] = [call.content for call in Trace.open(path).calls]
        replayer = Replayer(path)
        with Run(replayer.backend, instruments=[replayer], world=replayer):
            assert pair() == value
    assert found["chat"] == found["responses"]

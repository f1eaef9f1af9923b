"""Conversations that are kept: what comes back, what is masked, and who saves at the same time."""

from __future__ import annotations

import json
import random
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from appl import (
    AIMessage,
    Audio,
    Conversation,
    ConversationChanged,
    ConversationError,
    Image,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    convo,
    gen,
    ppl,
)
from appl.backend import Request
from appl.errors import InvalidOption
from appl.prompt.provider_fields import ProviderFields
from appl.testing import Fake, Run, running
from appl.tracing import Recorder, Replayer, Resumer, profile_data

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
KEY = "sk-proj-Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4z"
SIGNATURE = "EqQBCgIYAhIk" + "Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4z" * 8 + "=="


def everything() -> Conversation:
    """A conversation with every kind of message."""
    thoughts = {
        "thinking_blocks": [{"type": "thinking", "thinking": "Let me see.", "signature": SIGNATURE}]
    }
    call = ToolCall("call_1", "search", '{"query": "tea \\u00e9", "n": 1.0}')
    later = {"tool_calls": [{"extra_content": {"google": {"thought_signature": SIGNATURE}}}]}
    return Conversation(
        [
            SystemMessage("Be brief.\nBe kind."),
            UserMessage(["Look: ", Image(data=PNG), " and ", Image("https://x.y/a.png", "low")]),
            UserMessage("Ann speaks.", name="ann"),
            Message(
                "assistant", "", (), (call,), provider_fields=ProviderFields.of(later, "g at h")
            ),
            ToolMessage("no tea", "call_1", has_error=True),
            UserMessage([Audio(b"RIFF0000WAVE", "wav")]),
            Message("assistant", "So.", provider_fields=ProviderFields.of(thoughts, "claude at a")),
            UserMessage({"content": "x"}["content"], name="böb \ud800 \u2028 \x00"),
            UserMessage("", name=None),
        ]
    )


def exactly(conversation: Conversation) -> list[Any]:
    """All fields of all messages: equality of messages leaves those of providers out."""
    return [
        (each.role, each.content, each.media, each.tool_calls, each.tool_call_id, each.name,
         each.has_error, each.provider_fields)
        for each in conversation.all()
    ]  # fmt: skip


@pytest.fixture(params=["chat.json", "chat.db"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / str(request.param)


# -- what comes back


def test_every_kind_of_message_comes_back_as_it_was(place: Path) -> None:
    everything().save(place)
    found = Conversation.load(place)
    assert exactly(found) == exactly(everything())
    assert found.chain is not None and everything().chain.digest == found.chain.digest  # type: ignore[union-attr]


def test_random_conversations_come_back(place: Path) -> None:
    dice = random.Random(3)
    kinds: list[Callable[[str], Message]] = [UserMessage, SystemMessage, AIMessage, ToolMessage]
    for _ in range(20):
        said = Conversation()
        for _ in range(dice.randrange(12)):
            text = "".join(
                chr(dice.choice([65, 10, 34, 92, 233, 0x1F600, 0xDC00, 0])) for _ in range(9)
            )
            said.append(dice.choice(kinds)(text))
        said.save(place, replace=True)
        assert exactly(Conversation.load(place)) == exactly(said)


def test_an_empty_conversation_comes_back(place: Path) -> None:
    Conversation().save(place)
    assert Conversation.load(place) == Conversation()


def test_an_edited_conversation_is_saved_as_it_is_now(place: Path) -> None:
    everything().save(place)
    again = Conversation.load(place)
    again.pop()
    again.set_system_messages([SystemMessage("Be long.")])
    again.save(place)
    assert exactly(Conversation.load(place)) == exactly(again)


def test_a_chat_goes_on_in_the_next_program(place: Path) -> None:
    @ppl
    def reply(chat: Conversation, text: str) -> str:
        chat
        f"{text}"
        answer = str(gen())
        chat.extend([UserMessage(text), AIMessage(answer)])
        return answer

    for count in (0, 2, 4):
        with running(Fake(_last)):
            chat = Conversation.load(place, missing_ok=True)
            assert len(chat) == count
            reply(chat, f"turn {count}")
            chat.save(place)
    last = Conversation.load(place)[-1].content
    assert last == "<turn 4>" and len(Conversation.load(place)) == 6


def _last(request: Request) -> str:
    assert request.messages is not None
    return f"<{request.messages.message.content}>"


def test_the_context_of_a_program_can_be_kept(tmp_path: Path) -> None:
    @ppl
    def talk() -> None:
        "Hello"
        answer = str(gen())
        assert answer == "hi"
        convo().save(tmp_path / "chat.json")

    with running(Fake(lambda question: "hi")):
        talk()
    assert [each.content for each in Conversation.load(tmp_path / "chat.json")] == ["Hello"]


# -- in a database


def test_a_database_keeps_many_by_name_and_all_their_versions(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    for name in ("ann", "bob"):
        chat = Conversation([UserMessage(f"I am {name}")])
        for number in range(3):
            chat.append(AIMessage(f"{name} {number}"))
            chat.save(path, name)
    assert len(Conversation.load(path, "ann")) == 4
    assert len(Conversation.load(path, "bob", version=1)) == 2
    rows = sqlite3.connect(path).execute("SELECT count(*) FROM appl_conversation_messages")
    assert rows.fetchone() == (8,)  # each message once


def test_what_others_saved_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    Conversation([UserMessage("one")]).save(path)
    mine, theirs = Conversation.load(path), Conversation.load(path)
    theirs.append(UserMessage("theirs"))
    theirs.save(path)
    mine.append(UserMessage("mine"))
    with pytest.raises(ConversationChanged, match="load it again"):
        mine.save(path)
    mine.save(path, replace=True)
    assert [each.content for each in Conversation.load(path)] == ["one", "mine"]
    assert [each.content for each in Conversation.load(path, version=2)] == ["one", "theirs"]


def test_a_conversation_that_goes_on_from_the_kept_one_is_saved_wherever_it_came_from(
    tmp_path: Path,
) -> None:
    path = tmp_path / "chats.db"
    chat = Conversation([UserMessage("one")])
    chat.save(path)
    Conversation([UserMessage("one"), AIMessage("two")]).save(path)
    assert len(Conversation.load(path)) == 2


def test_the_same_is_not_saved_twice(tmp_path: Path) -> None:
    path, chat = tmp_path / "chats.db", everything()
    chat.save(path)
    chat.save(path)
    with pytest.raises(ConversationError, match="version 2"):
        Conversation.load(path, version=2)


SAVES = """
import sys
from appl import Conversation, ConversationChanged, UserMessage

path, who = sys.argv[1:]
for number in range(15):
    while True:
        chat = Conversation.load(path, missing_ok=True)
        chat.append(UserMessage(f"{who} {number}"))
        try:
            chat.save(path)
            break
        except ConversationChanged:
            pass
    Conversation([UserMessage(f"{who} {number}")]).save(path, f"{who} {number}")
"""


def test_processes_that_save_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    writers = [
        subprocess.Popen([sys.executable, "-c", SAVES, str(path), who]) for who in ("a", "b", "c")
    ]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    said = [each.content for each in Conversation.load(path)]
    assert sorted(said) == sorted(f"{who} {number}" for who in "abc" for number in range(15))
    for who in "abc":
        assert [each for each in said if each[0] == who] == [f"{who} {i}" for i in range(15)]
        assert len(Conversation.load(path, f"{who} 14")) == 1


def test_the_tables_stand_beside_those_of_the_user(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    with sqlite3.connect(path) as own:
        own.execute("CREATE TABLE users (name TEXT)")
    everything().save(path, "ann")
    assert exactly(Conversation.load(path, "ann")) == exactly(everything())
    assert sqlite3.connect(path).execute("SELECT count(*) FROM users").fetchone() == (0,)


# -- what is not kept


def test_secrets_are_masked_and_signatures_stay(place: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "a-value-that-no-shape-tells")
    chat = everything()
    chat.append(UserMessage(f"My key is {KEY}, the shop's a-value-that-no-shape-tells."))
    chat.append(AIMessage("", tool_calls=[ToolCall("1", "pay", json.dumps({"key": KEY}))]))
    chat.save(place)
    assert KEY.encode() not in place.read_bytes()
    assert b"no-shape-tells" not in place.read_bytes()
    found = Conversation.load(place)
    assert "[secret SHOP_API_KEY]" in found[-2].content
    assert exactly(found)[:9] == exactly(everything())


def test_a_new_file_is_for_its_user_alone(place: Path) -> None:
    everything().save(place)
    assert stat.S_IMODE(place.stat().st_mode) == 0o600


def test_the_rights_of_a_file_stay(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    everything().save(path)
    path.chmod(0o640)
    everything().save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [each.name for each in tmp_path.iterdir()] == ["chat.json"]


# -- what is wrong


def test_what_is_missing_says_what_is_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Conversation.load(tmp_path / "none.json")
    with pytest.raises(FileNotFoundError):
        Conversation.load(tmp_path / "none.db")
    path = tmp_path / "chats.db"
    everything().save(path, "ann")
    with pytest.raises(ConversationError, match=r"no conversation 'bob'; it has: 'ann' \(up to"):
        Conversation.load(path, "bob")
    assert Conversation.load(path, "bob", missing_ok=True) == Conversation()


def test_a_file_cut_anywhere_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    everything().save(path)
    whole = path.read_bytes()
    for length in range(0, len(whole) - 2, 7):
        path.write_bytes(whole[:length])
        with pytest.raises(ConversationError, match="damaged"):
            Conversation.load(path)


def _spoilt(data: dict[str, Any]) -> Iterator[Any]:
    yield {**data, "format": "1"}
    yield {**data, "messages": {}}
    for field, value in [
        ("role", "nobody"), ("content", 3), ("tool_calls", [[1, 2]]), ("media", [[0, "film"]]),
        ("$provided", {}), ("more", 1), ("name", 5),
    ]:  # fmt: skip
        messages = [{**data["messages"][0], field: value}]
        yield {**data, "messages": messages}


def test_a_message_that_is_none_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    everything().save(path)
    for data in _spoilt(json.loads(path.read_bytes())):
        path.write_text(json.dumps(data))
        with pytest.raises(ConversationError, match="damaged"):
            Conversation.load(path)


@pytest.mark.parametrize("text", ["[]", "{}", '{"appl": "settings"}'])
def test_another_file_is_no_conversation(tmp_path: Path, text: str) -> None:
    path = tmp_path / "chat.json"
    path.write_text(text)
    with pytest.raises(ConversationError, match="no conversation"):
        Conversation.load(path)


def test_a_newer_file_says_to_upgrade(place: Path) -> None:
    everything().save(place)
    if place.suffix == ".json":
        place.write_bytes(place.read_bytes().replace(b'"format": 1', b'"format": 2'))
    else:
        with sqlite3.connect(place) as database:
            database.execute("UPDATE appl_conversation_format SET format = 2")
    for use in (lambda: Conversation.load(place), lambda: _saved_again(place)):
        with pytest.raises(ConversationError, match="newer version of appl"):
            use()


def _saved_again(place: Path) -> None:
    if place.suffix == ".json":
        Conversation.load(place)
    everything().save(place)


@pytest.mark.parametrize(
    "spoil",
    [
        "UPDATE appl_conversation_messages SET message = replace(message, 'kind', 'rude')",
        "DELETE FROM appl_conversation_messages WHERE message LIKE '%no tea%'",
        "DELETE FROM appl_conversation_messages WHERE before IS NULL",
        "UPDATE appl_conversation_versions SET last = x'00'",
    ],
)
def test_a_changed_database_is_a_clear_error(tmp_path: Path, spoil: str) -> None:
    path = tmp_path / "chat.db"
    everything().save(path)
    with sqlite3.connect(path) as database:
        database.execute(spoil)
    with pytest.raises(ConversationError, match="damaged"):
        Conversation.load(path)


def test_a_torn_database_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "chat.db"
    everything().save(path)
    whole = path.read_bytes()
    for length in (1, 50, 4096, 8192):
        path.write_bytes(whole[:length])
        with pytest.raises(ConversationError):
            Conversation.load(path)


def test_a_name_is_for_databases(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match=r"chat\.db"):
        everything().save(tmp_path / "chat.json", "ann")
    with pytest.raises(InvalidOption, match="one version"):
        Conversation.load(tmp_path / "chat.json", version=1)
    with pytest.raises(InvalidOption, match="a text"):
        everything().save(tmp_path / "chat.db", "")


# -- in recorded runs


def test_a_replay_loads_what_was_loaded_and_saves_nothing(tmp_path: Path) -> None:
    path, trace = tmp_path / "chat.db", tmp_path / "a.trace"
    everything().save(path)

    @ppl
    def talk() -> list[Any]:
        chat = Conversation.load(path)
        chat.append(UserMessage("more"))
        chat.save(path)
        chat
        answer = str(gen())
        return [*exactly(chat), answer]

    backend = Fake(lambda question: "yes", features=frozenset({"images", "audio"}))
    recorder = Recorder(trace, {"profile": profile_data(backend.profile)}, durability="process")
    with Run(backend, instruments=[recorder]):
        first = list(talk())
    recorder.close()
    path.unlink()
    replayer = Replayer(trace)
    with Run(replayer.backend, instruments=[replayer], world=replayer):
        assert list(talk()) == first
    replayer.finish()
    resumer = Resumer(trace)
    with Run(backend, instruments=[resumer], world=resumer):
        assert list(talk()) == first
    assert not path.exists()

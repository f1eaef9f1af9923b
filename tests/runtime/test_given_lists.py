"""Lists of messages that a program keeps and asks with again: what is sent is what is in them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from appl import AIMessage, UserMessage, gen
from appl.prompt import as_message
from appl.testing import Echo, Held, running


def sent(seen: Any) -> list[Any]:
    return list(seen.requests[-1].messages or ())


steps = st.lists(
    st.tuples(
        st.sampled_from(["dict", "message", "parts", "change", "drop", "fork", "answer", "new"]),
        st.integers(0, 5),
    ),
    max_size=25,
)


@given(steps)
def test_what_is_sent_is_what_the_list_holds_now(said: list[tuple[str, int]]) -> None:
    lists: list[list[Any]] = [[]]
    with running(Echo()) as seen:
        for kind, n in said:
            history = lists[n % len(lists)]
            if kind == "dict":
                history.append({"role": "user", "content": f"text {n}"})
            elif kind == "message":
                history.append(UserMessage(f"text {n}", name="Ann" if n % 2 else None))
            elif kind == "parts":
                history.append({"role": "user", "content": [{"type": "text", "text": "part"}]})
            elif kind == "change" and history and isinstance(history[n % len(history)], dict):
                changed = history[n % len(history)]
                if isinstance(changed["content"], list):
                    changed["content"][0]["text"] += "!"
                else:
                    changed["content"] += "!"
            elif kind == "drop" and history:
                del history[n % len(history)]
            elif kind == "fork":
                lists.append(list(history))
            elif kind == "new":
                history[:] = [dict(m) if isinstance(m, dict) else m for m in history]
            elif kind == "answer":
                history.append({"role": "assistant", "content": gen(messages="?").result()})
            if history:
                str(gen(messages=history))
                assert sent(seen) == [as_message(message) for message in history]


def test_a_list_that_goes_on_is_the_same_conversation_going_on() -> None:
    history: list[dict[str, Any]] = []
    with running(Echo()) as seen:
        for turn in range(3):
            history.append({"role": "user", "content": f"q{turn}"})
            history.append({"role": "assistant", "content": str(gen(messages=history))})
        str(gen(messages=[*history[:3], {"role": "user", "content": "another way"}]))
    first, second, third, branch = [request.messages for request in seen.requests]
    assert second.parent.parent is first
    assert third.parent.parent is second
    assert branch.parent is second


def test_a_future_in_a_list_that_is_known_is_not_waited_for() -> None:
    with running(Echo()) as seen:
        history: list[Any] = [{"role": "user", "content": "q"}]
        first = gen(messages=history)
        history.append({"role": "assistant", "content": first})
        second = gen(messages=[*history, {"role": "user", "content": "r"}])
        assert str(second) and not seen.requests[0].messages.parent
    expected = [UserMessage("q"), AIMessage(str(first)), UserMessage("r")]
    assert sent(seen) == expected


@pytest.mark.parametrize("many", [5, 100])
def test_many_lists_side_by_side_do_not_mix(many: int) -> None:
    lists = [[{"role": "user", "content": f"list {i}"}] for i in range(many)]
    with running(Echo()) as seen:
        for turn in range(3):
            for i, history in enumerate(lists):
                history.append({"role": "user", "content": f"turn {turn} of {i}"})
                str(gen(messages=history))
                assert sent(seen) == [as_message(message) for message in history]


def test_a_change_that_is_pending_is_not_waited_for() -> None:
    backend = Held(lambda request: request.messages.message.content if request.messages else "")
    with running(backend):
        history = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
        first, pending = gen(messages=history), gen(messages="changed")
        history[0]["content"] = pending  # type: ignore[assignment]
        second = gen(messages=history)  # at once: nothing has an answer yet
        another = gen(messages=[{"role": "user", "content": first}, history[1]])
        assert not first.done() and not pending.done()
        backend.release(first.call_id, pending.call_id)
        assert pending == "changed" and pending in ["changed"]
        backend.release(second.call_id, another.call_id)
        assert (str(second), str(another)) == ("b", "b")
        first_said = first.result()
    sent_by = {each.address: [m.content for m in each.messages or ()] for each in backend.requests}
    assert sent_by[second.call_id] == ["changed", "b"]
    assert sent_by[another.call_id] == [first_said, "b"]


def test_an_equal_list_is_the_same_conversation_going_on() -> None:
    with running(Echo()) as seen:
        said = [{"role": "user", "content": f"q{i}"} for i in range(5)]
        str(gen(messages=said))
        str(gen(messages=[dict(message) for message in said] + [UserMessage("more")]))
    first, second = (request.messages for request in seen.requests)
    assert first is not None and second is not None and second.parent is first

"""What a statement adds to the prompt, for all that is more than text; and conversations."""

from __future__ import annotations

import copy
import pickle

import PIL.Image
import pytest

from appl import (
    AIMessage,
    AIRole,
    Audio,
    Conversation,
    Image,
    InvalidOption,
    Message,
    Promptable,
    PromptTypeError,
    SystemMessage,
    ToolCall,
    ToolMessage,
    Unsupported,
    UserMessage,
    call,
    convo,
    gen,
    grow,
    ppl,
    records,
)
from appl.backend import Response, Sample
from appl.testing import Echo, Scripted, Seeded, running

CAT = Image("https://example.com/cat.png")
BARK = Audio(b"woof", "wav")
CALLS = (ToolCall("c1", "add", '{"a": 1}'),)
SEEING = ("images", "audio", "prefill")


def asked(program, *args, backend=None):
    """The messages of every call, by address."""
    with running(backend or Echo(features=SEEING)) as seen:
        program(*args)
    return {request.address: list(request.messages or ()) for request in seen.requests}


def last(program, *args, backend=None):
    return list(asked(program, *args, backend=backend).values())[-1]


# -- images and sounds


def test_an_image_is_a_part_of_the_message_it_stands_in():
    @ppl
    def looking():
        "What is"
        CAT
        "this?"
        BARK
        with AIRole():
            "A"
        gen()

    assert last(looking) == [UserMessage(["What is", CAT, "this?", BARK]), AIMessage("A")]


def test_an_image_in_an_f_string_stands_where_it_is_written():
    @ppl
    def looking(picture):
        f"See {picture} and {picture!s}."
        gen()

    assert last(looking, CAT) == [UserMessage(["See ", CAT, f" and {CAT}."])]


def test_pictures_of_pil_need_no_wrapping():
    picture = PIL.Image.new("RGB", (2, 2), "red")

    @ppl
    def looking():
        picture
        ["a", picture]
        picture.copy()
        f"{picture}"
        gen()

    image = Image.from_image(picture)
    assert last(looking) == [UserMessage([image, "a", image, image, image])]


def test_a_call_that_returns_an_image_says_it():
    def draw():
        return CAT

    @ppl
    def looking():
        draw()
        call(draw)
        gen()

    assert last(looking) == [UserMessage([CAT, CAT])]


def test_records_and_copies_keep_images():
    @ppl
    def shown():
        CAT
        return records()

    @ppl(ctx="copy")
    def look():
        return gen()

    @ppl
    def looking():
        "a"
        shown()
        "b"
        str(look())
        convo()
        gen()

    message = UserMessage(["a", CAT, "b"])
    assert next(iter(asked(looking).values())) == [message]


def test_a_backend_that_sees_nothing_is_not_asked():
    @ppl
    def looking():
        CAT
        return gen()

    with running(Echo()) as seen:
        with pytest.raises(Unsupported, match="'echo' cannot take images: say what is in them"):
            looking()
        with pytest.raises(Unsupported, match="cannot take sound"):
            gen(messages=[UserMessage(BARK)])
    assert not seen.requests


def test_an_image_that_comes_late_fails_the_call_that_holds_it():
    @ppl(parallel=True)
    def late():
        gen(messages="slow").result()
        return CAT

    @ppl
    def looking():
        late()
        str(gen())

    with pytest.raises(Unsupported, match="images"), running(Echo()) as seen:
        looking()
    assert [request.address for request in seen.requests] == ["/looking.0/late.0/gen.0"]


# -- messages


def test_a_message_is_said_with_all_that_it_has():
    @ppl
    def chat():
        UserMessage(["see ", CAT], name="Ann")
        UserMessage("well?", name="Ann")
        UserMessage("yes", name="Bob")
        AIMessage("I add", tool_calls=CALLS)
        ToolMessage("1", tool_call_id="c1")
        ToolMessage("2", tool_call_id="c2", has_error=True)
        gen()

    assert last(chat) == [
        UserMessage(["see ", CAT, "well?"], name="Ann"),
        UserMessage("yes", name="Bob"),
        AIMessage("I add", tool_calls=CALLS),
        ToolMessage("1", tool_call_id="c1"),
        ToolMessage("2", tool_call_id="c2", has_error=True),
    ]


def test_neighbours_of_one_role_keep_their_separator():
    @ppl
    def chat():
        UserMessage("a")
        "b"
        UserMessage("c")
        gen()

    assert last(chat) == [UserMessage("a\nb\nc")]


def test_a_message_may_hold_what_is_not_there_yet():
    def made(answer):
        return [AIMessage(answer), ToolMessage(answer, tool_call_id="c1"), UserMessage("q")]

    @ppl
    def saying(messages):
        messages
        str(gen())

    with running(Seeded(0)) as seen:
        answer = gen(messages="?")
        second = gen(messages=made(answer))
        assert not answer.done()
        text = str(second) and str(answer)
        saying(made(answer))
    expected = [AIMessage(text), ToolMessage(text, tool_call_id="c1"), UserMessage("q")]
    assert [list(request.messages) for request in seen.requests[1:]] == [expected, expected]


def test_given_messages_are_the_same_prompt_whether_or_not_they_had_to_be_waited_for():
    def given(text):
        return [
            {"role": "user", "content": "a"},
            {"role": "user", "content": text},
            SystemMessage("late"),
            {"role": "assistant", "content": text, "name": "Ann"},
            UserMessage("b"),
        ]

    with running(Echo()) as seen:
        answer = gen(messages="?")
        str(gen(messages=given(answer)))
        str(gen(messages=given(str(answer))))
    digests = [request.digest for request in seen.requests[1:]]
    assert digests[0] == digests[1]
    assert [m.role for m in seen.requests[1].messages] == [
        "user", "user", "system", "assistant", "user"
    ]  # fmt: skip


def test_given_messages_may_have_the_form_of_chat_completion_servers():
    parts = [
        {"type": "text", "text": "see "},
        {"type": "image_url", "image_url": {"url": "https://example.com/cat.png"}},
        {"type": "input_audio", "input_audio": {"data": "d29vZg==", "format": "wav"}},
    ]
    with running(Echo(features=SEEING)) as seen:
        str(gen(messages=[{"role": "user", "content": parts}]))
    assert list(seen.requests[0].messages) == [UserMessage(["see ", CAT, BARK])]


def test_a_wrong_message_is_refused_before_any_call():
    with running(Echo()) as seen, pytest.raises(InvalidOption, match="no field 'contents'"):
        gen(messages=[{"role": "user", "content": "x", "contents": "y"}])
    assert not seen.requests


# -- answers that call tools


def calling(text=""):
    return Response((Sample(text, "tool_calls", None, CALLS),))


def test_an_answer_that_calls_tools_is_a_message_of_the_model():
    @ppl
    def working():
        "add"
        (answer := gen())
        ToolMessage("1", tool_call_id=answer.tool_calls[0].id)
        gen()

    found = last(working, backend=Scripted([calling(), "done"]))
    assert found == [
        UserMessage("add"), AIMessage(tool_calls=CALLS), ToolMessage("1", tool_call_id="c1")
    ]  # fmt: skip


def test_an_answer_that_calls_tools_ends_what_the_model_has_said():
    @ppl
    def working():
        "add"
        with AIRole():
            f"Thought: {gen()}"
            "After."
        gen()

    found = last(working, backend=Scripted([calling("I add."), "done"], features=SEEING))
    assert found == [
        UserMessage("add"),
        AIMessage("Thought: I add.", tool_calls=CALLS),
        AIMessage("After."),
    ]


def test_the_text_of_an_answer_is_an_answer_without_calls():
    answers = []

    @ppl
    def working():
        "add"
        answers.append(gen())
        f"{answers[0]!s:>8}"
        gen()

    found = last(working, backend=Scripted([calling("x"), "done"]))
    assert found == [UserMessage("add\n       x")]
    assert answers[0].message == AIMessage("x", tool_calls=CALLS)
    assert (answers[0].tool_calls, answers[0].reasoning) == (CALLS, None)


# -- objects that say something


def test_promptable_is_a_class_to_inherit_from_and_a_test():
    class Rule(Promptable):
        def __prompt__(self):
            return [UserMessage("rule"), CAT]

    class Forgetful(Promptable):
        pass

    class Duck:
        def __prompt__(self):
            return Rule()

    @ppl
    def showing():
        Duck()
        gen()

    assert last(showing) == [UserMessage(["rule", CAT])]
    assert isinstance(Duck(), Promptable)
    assert not isinstance("text", Promptable)
    with pytest.raises(TypeError, match="abstract"):
        Forgetful()


class Template:
    """A stand-in for the t-strings of Python 3.14, which this Python cannot parse."""

    def __init__(self, *pieces):
        self.pieces = pieces

    def __iter__(self):
        return iter(self.pieces)


Template.__module__ = "string.templatelib"


class Interpolation:
    def __init__(self, value, conversion=None, format_spec=""):
        self.value, self.conversion, self.format_spec = value, conversion, format_spec


def test_a_template_says_what_the_f_string_would():
    @ppl
    def templated(value):
        Template("a ", Interpolation(value, "r", ">5"), " ", Interpolation(CAT), " b")
        Template(Interpolation(gen(messages="?")))
        gen()

    found = last(templated, "x", backend=Scripted(["A", "B"], features=SEEING))
    assert found == [UserMessage(["a   'x' ", CAT, " b\nA"])]


# -- what is refused


def refusal(program, *args):
    with running(Echo()), pytest.raises(PromptTypeError) as caught:
        program(*args)
    return str(caught.value).splitlines()


def test_a_refusal_points_at_the_value_and_says_what_to_write():
    @ppl
    def wrong(größe):
        "é"; größe["a"]  # fmt: skip  # noqa: E702

    what, file, line, carets, correction = refusal(wrong, {"a": 3})
    assert what == "a bare expression of type int is not prompt text (got 3)"
    assert file.startswith(f'  File "{__file__}", line ')
    assert line[carets.index("^") : carets.rindex("^") + 1] == 'größe["a"]'
    assert correction == 'write f"{value}" to say it, or _ = value to leave it out of the prompt'


def test_a_bad_value_in_a_list_is_named():
    @ppl
    def wrong(n):
        ["a", n + 2]

    what, *_, correction = refusal(wrong, 1)
    assert what == "a value of type int in a bare list is not prompt text (got 3)"
    assert correction.startswith('write [f"{item}" for item in ["a", n + 2]] to say them')


def test_the_correction_fits_the_value():
    async def later():
        return "x"

    @ppl
    def wrong(value):
        value

    @ppl
    def grown(value):
        grow(value)

    pending = later()
    assert refusal(wrong, pending)[-1] == (
        "write await value to say what it returns, and `async def` above it"
    )
    pending.close()
    assert refusal(wrong, len)[-1].startswith("write value() to say what it returns")
    assert refusal(grown, 3)[-1].startswith('write f"{value}" to say it')


# -- conversations


SAID = [SystemMessage("s"), UserMessage("a"), UserMessage("b"), AIMessage("c")]


def test_a_conversation_leaves_the_system_out_of_its_sequence():
    conversation = Conversation(SAID)
    assert len(conversation) == 3
    assert list(conversation) == conversation[:] == SAID[1:]
    assert (conversation[0], conversation[-1]) == (SAID[1], SAID[3])
    assert conversation.all() == SAID
    assert conversation.as_list()[0] == {"role": "system", "content": "s"}
    assert str(conversation) == "system: s\nuser: a\nuser: b\nassistant: c"


def test_a_conversation_of_a_prompt_and_one_of_messages_are_equal():
    @ppl
    def chat():
        SystemMessage("s")
        "a"
        AIMessage("c")
        return convo()

    with running(Echo()):
        found = chat()
    assert found == Conversation([UserMessage("a"), AIMessage("c")], system_messages=[SAID[0]])
    assert found[-1] == AIMessage("c")
    assert found.messages == [UserMessage("a"), AIMessage("c")]


@pytest.mark.parametrize(
    "made", [Conversation, lambda said: Conversation.of(Conversation(said).chain)]
)
def test_changes_of_a_conversation_are_seen_in_what_is_asked(made):
    conversation = made(SAID)
    conversation.append({"role": "user", "content": "d"})
    assert list(conversation.chain) == [*SAID, UserMessage("d")]
    conversation.extend(Conversation([SystemMessage("t"), UserMessage("e")]))
    assert [m.content for m in conversation.chain] == ["s", "t", "a", "b", "c", "d", "e"]
    assert conversation.pop() == UserMessage("e")
    assert conversation.pop(0) == UserMessage("a")
    conversation.set_system_messages([SystemMessage("u")])
    assert [m.content for m in conversation.chain] == ["u", "b", "c", "d"]
    conversation.messages[0] = UserMessage("B")
    conversation.system_messages.clear()
    assert [m.content for m in conversation.chain] == ["B", "c", "d"]
    assert conversation.all() == list(conversation.chain)


def test_copies_of_a_conversation_change_on_their_own():
    one = Conversation(SAID)
    for other in (one.make_copy(), copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert other == one
        other.append(UserMessage("x"))
        other.pop(0)
    assert one == Conversation(SAID)


def test_collapse_joins_neighbours_of_one_speaker():
    conversation = Conversation(
        [
            *SAID[1:3],
            SystemMessage("s"),
            SystemMessage("t"),
            UserMessage("x", name="Ann"),
            AIMessage("1", tool_calls=CALLS),
            AIMessage("2"),
            AIMessage([CAT]),
            ToolMessage("3", tool_call_id="c1"),
            ToolMessage("4", tool_call_id="c2"),
        ]
    )
    assert conversation.collapse() is conversation
    assert conversation.all() == [
        SystemMessage("s\nt"),
        UserMessage("a\nb"),
        UserMessage("x", name="Ann"),
        AIMessage("1", tool_calls=CALLS),
        AIMessage(["2", CAT]),
        ToolMessage("3", tool_call_id="c1"),
        ToolMessage("4", tool_call_id="c2"),
    ]
    assert conversation.materialize() is None


def test_a_conversation_is_said_with_the_system_and_asked_with_as_it_is():
    @ppl
    def saying(conversation):
        "x"
        conversation
        gen()
        gen(messages=conversation)

    first, second = asked(saying, Conversation(SAID)).values()
    assert first == [SystemMessage("s"), UserMessage("x\na\nb"), AIMessage("c")]
    assert second == SAID


def test_asking_with_a_conversation_costs_what_is_new_in_it():
    with running(Echo()) as seen:
        conversation = Conversation([UserMessage("0")])
        for turn in range(3):
            conversation.append(AIMessage(str(gen(messages=conversation))))
            conversation.append(UserMessage(str(turn)))
    chains = [request.messages for request in seen.requests]
    assert chains[1].parent.parent is chains[0]
    assert chains[2].parent.parent is chains[1]


def test_an_empty_conversation_is_false_and_holds_nothing():
    assert not Conversation()
    assert Conversation(SAID[:1])
    assert Conversation().chain is None
    assert Conversation().as_list() == []


def test_a_message_in_a_conversation_waits_for_what_it_holds():
    with running(Scripted(["one"])):
        answer = gen(messages="?")
        conversation = Conversation([AIMessage(answer), {"role": "user", "content": [answer]}])
    assert conversation.all() == [Message("assistant", "one"), Message("user", "one")]
    assert type(conversation[0].content) is str

"""Relays: an answer that the token limit cut is continued, and its pieces are joined exactly."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from texts import text

from appl import AIRole, gen, ppl
from appl.backend import Request, Response, Sample, TokenLogprob, Usage
from appl.errors import BackendError, InvalidOption, PromptTooLong, Unsupported
from appl.runtime.answers.continuation import LEAST_OVERLAP, Growing, Overlap, marker_of
from appl.testing import Run, Scripted, Seeded, running
from appl.tracing import Recorder, Replayer, Trace, profile_data

TEXTS = 200
Limit = Callable[[Request], int]
Manner = Callable[[str, str, random.Random], str]
"""How a model continues: of the marker that it was asked to repeat and the rest, its reply."""


def cut(whole: str, limit: int) -> Response:
    """As much of *whole* as fits, as if each character were a token."""
    said = whole[:limit]
    tokens = tuple(TokenLogprob(c, -1.0) for c in said)
    usage = Usage(10, len(said), None)
    return Response(
        (Sample(said, "stop" if len(whole) <= limit else "length", tokens),), usage, cost=5
    )


class Writer(Scripted):
    """Says the text that the user's message asks for, cut, and goes on from a prefilled beginning."""

    chatty = False

    def __init__(self, limit: int | Limit, **profile) -> None:
        self.limit = limit if callable(limit) else lambda r: r.sampling.max_tokens or limit
        super().__init__(self.said, **profile)

    def said(self, request: Request) -> Response:
        first, *rest = request.messages
        begun = rest[-1].content if rest and rest[-1].role == "assistant" else ""
        assert first.content.startswith(begun), (first.content, begun)
        return cut(first.content[len(begun) :], self.limit(request))


class Repeater(Writer):
    """Cannot be prefilled; repeats what it is asked to repeat, in its own manner."""

    def __init__(self, limit: int | Limit, manner: Manner, seed: int = 0) -> None:
        self.manner, self.dice = manner, random.Random(seed)
        self.chatty = manner is with_prose
        super().__init__(limit, features={"stream", "logprobs"})

    def said(self, request: Request) -> Response:
        whole, *rest = [message.content for message in request.messages]
        if not rest:
            return cut(whole, self.limit(request))
        begun, asked = rest
        marker = re.search(r"^-----\n(.*)\n-----$", asked, re.S | re.M)[1]
        assert begun.endswith(marker) and whole.startswith(begun)
        reply = self.manner(begun, whole[len(begun) :], self.dice)
        return cut(reply, self.limit(request))


def exactly(begun: str, rest: str, dice: random.Random) -> str:
    return marker_of(begun) + rest


def with_spaces(begun: str, rest: str, dice: random.Random) -> str:
    return dice.choice([" ", "\n", "  ", "\n\n"]) + marker_of(begun) + rest


def with_prose(begun: str, rest: str, dice: random.Random) -> str:
    openings = ["Sure, here is the rest:\n\n", "Of course! ", "```\n", "Continuing 1, 2: ", "…"]
    return dice.choice(openings) + marker_of(begun) + rest


def reflowed(begun: str, rest: str, dice: random.Random) -> str:
    return re.sub(r"\s+", " ", marker_of(begun)) + rest


def repeating_more(begun: str, rest: str, dice: random.Random) -> str:
    more = dice.randint(0, len(begun)) if occurs_once(begun) else len(marker_of(begun))
    return begun[-max(more, len(marker_of(begun))) :] + rest


def occurs_once(begun: str) -> bool:
    return len(re.findall(f"(?={re.escape(marker_of(begun))})", begun)) == 1


MANNERS = [exactly, with_spaces, with_prose, reflowed, repeating_more]


def everywhere(texts: range, make: Callable[[Limit], Writer], length: int = 60) -> int:
    """Cut each text once at every position; how many cuts, all joined exactly."""
    cuts = 0
    for seed in texts:
        whole = text(seed, length)
        made = make(limit_in_address)
        with running(made):
            answers = [
                (at, gen(messages=whole, max_relay_rounds=2, logprobs=0, seed=at))
                for at in range(1, len(whole))
            ]
            for at, answer in answers:
                said = whole[:at].strip()
                if made.chatty and len(said) < LEAST_OVERLAP:
                    assert answer.startswith(whole[:at].rstrip()) and answer.endswith(whole[at:])
                    continue
                assert str(answer) == whole, (seed, at, whole[:at])
                assert answer.finish_reason == "stop"
            cuts += len(answers)
    return cuts


def limit_in_address(request: Request) -> int:
    return request.sampling.seed if "more" not in request.address else 100_000


@pytest.mark.parametrize("step", [10, pytest.param(1, marks=pytest.mark.long)])
def test_every_cut_of_every_text_is_joined_exactly_with_prefill(step: int) -> None:
    assert everywhere(range(0, TEXTS, step), Writer) > 10_000 // step


@pytest.mark.parametrize("step", [40, pytest.param(5, marks=pytest.mark.long)])
@pytest.mark.parametrize("manner", MANNERS)
def test_every_cut_of_every_text_is_joined_exactly_by_overlap(manner: Manner, step: int) -> None:
    made = everywhere(range(0, TEXTS, step), lambda limit: Repeater(limit, manner))
    assert made > 10_000 // step


@pytest.mark.long
@pytest.mark.parametrize("manner", [None, *MANNERS])
def test_every_cut_of_long_texts_is_joined_exactly(manner: Manner | None) -> None:
    def make(limit: Limit) -> Writer:
        return Writer(limit) if manner is None else Repeater(limit, manner)

    first = 1000 + 1000 * [None, *MANNERS].index(manner)
    assert everywhere(range(first, first + TEXTS), make, length=120) > 20_000


@pytest.mark.parametrize("seed", range(0, 40))
def test_many_rounds_of_random_length_are_joined_exactly(seed: int) -> None:
    whole, dice = text(seed, 200), random.Random(seed)
    lengths: dict[str, int] = {}

    def limit(request: Request) -> int:
        return lengths.setdefault(request.address, dice.randint(1, 40))

    with running(Writer(limit)) as backend:
        assert str(gen(messages=whole, max_relay_rounds=400)) == whole
        assert len(backend.requests) > 3


def test_an_answer_that_is_not_cut_is_one_call() -> None:
    with running(Writer(100)) as backend:
        assert gen(messages="short", max_relay_rounds=3) == "short"
        assert [request.address for request in backend.requests] == ["/gen.0"]


def test_there_are_no_more_rounds_than_allowed() -> None:
    with running(Writer(4)) as backend:
        g = gen(messages="0123456789abcdef", max_relay_rounds=2)
        assert g == "0123456789ab" and g.finish_reason == "length"
        assert [*backend.prompts] == ["/gen.0", "/gen.0/more.1", "/gen.0/more.2"]


def test_a_round_that_adds_nothing_is_the_last() -> None:
    silent = Response((Sample("", "length"),))
    with running(Scripted([cut("abcdef", 3), silent, silent, silent])) as backend:
        assert gen(messages="x", max_relay_rounds=9) == "abc"
        assert len(backend.requests) == 2


def test_usage_cost_and_logprobs_are_totals_and_the_finish_reason_is_the_last() -> None:
    with running(Writer(4)):
        g = gen(messages="one two three", max_relay_rounds=5, logprobs=0)
        assert g == "one two three" and g.finish_reason == "stop"
        assert (g.usage.prompt_tokens, g.usage.completion_tokens) == (
            40,
            14,
        )  # a space twice
        assert g.cost == 20 and "".join(t.token for t in g.logprobs) == "one two three"


def test_the_logprobs_of_repeated_words_are_left_out() -> None:
    with running(Repeater(lambda r: 30 if "more" not in r.address else 999, with_prose)):
        whole = "It was a bright cold day in April, and the clocks were striking thirteen."
        g = gen(messages=whole, max_relay_rounds=1, logprobs=0)
        assert g == whole and "".join(t.token for t in g.logprobs) == whole


def test_the_prefix_of_the_program_is_continued_with_the_answer() -> None:
    @ppl
    def program():
        "Say it."
        with AIRole():
            f"The author is {(g := gen(max_relay_rounds=3))}"
        return g

    answers = iter([cut("Jane Austen", 6), Response((Sample("usten.", "stop"),))])
    with running(Scripted(lambda _: next(answers))) as backend:
        assert program() == "Jane Austen."[:4] + " Austen."[:0] + "Jane Austen."[4:]
        more = backend.requests[1]
        assert more.address == "/program.0/gen.0/more.1"
        assert [m.content for m in more.messages] == ["Say it.", "The author is Jane A"]


def test_without_prefill_the_last_words_are_asked_for() -> None:
    with running(Repeater(0, exactly)) as backend:
        whole = "All happy families are alike; each unhappy one is not."
        assert gen(messages=whole, max_relay_rounds=5, max_tokens=20) == whole
        first, second, *_ = backend.requests
        said = [message.content for message in second.messages]
        assert said[1] == "All happy families a" and "-----\nAll happy families a\n-----" in said[2]
        assert first.sampling.max_tokens == 20
        assert second.sampling.max_tokens == 20 + len("All happy families a")


def test_a_continuation_that_repeats_nothing_is_joined_as_it_is_with_a_warning() -> None:
    told: list[str] = []
    answers = [cut("The quick brown fox jumps", 15), Response((Sample(" fox jumps.", "stop"),))]
    backend = Scripted(answers, features=("logprobs",))
    with Run(backend) as run:
        run.reporter.tell = told.append
        assert gen(messages="x", max_relay_rounds=1) == "The quick brown fox jumps."
    assert "/gen.0/more.1 repeats nothing" in told[0]


def test_a_continuation_that_repeats_few_words_is_joined_at_them() -> None:
    told: list[str] = []
    answers = [cut("Numbers: 11, 12, 13, 14, 15, 16", 28), cut("15, 16", 99)]
    with Run(Scripted(answers, features=("logprobs",))) as run:
        run.reporter.tell = told.append
        assert gen(messages="x", max_relay_rounds=1) == "Numbers: 11, 12, 13, 14, 15, 16"
    assert not told


WORDS = st.sampled_from(
    ["ha", "no", "the", "15,", "16,", "sea", "and", "to", "tomorrow", "a", "(b)"]
)


@given(st.lists(WORDS, min_size=2, max_size=30), st.data())
def test_a_cut_text_is_whole_again_or_a_doubt_is_told(
    words: list[str], data: st.DataObject
) -> None:
    """The text is known, so what is missing or twice would be seen; it may repeat itself."""
    whole = " ".join(words)
    at = data.draw(st.integers(1, len(words) - 1))
    repeated = data.draw(st.integers(0, min(at, 3)))
    said, piece = " ".join(words[:at]), " ".join(words[at - repeated :])
    if not repeated:
        piece = f" {piece}"
    joint = Overlap(said)
    joined = said + joint.feed(piece) + joint.close()
    short = repeated and len(" ".join(words[at - repeated : at])) < 3
    if not joint.doubt and not short and len(joint.marker) >= LEAST_OVERLAP:
        assert joined == whole or twice(words[:at], words[at - repeated :], repeated)


def twice(said: list[str], piece: list[str], repeated: int) -> bool:
    """Whether a longer beginning of *piece* also stands at the end of *said*."""
    longer = range(repeated + 1, min(len(said), len(piece)) + 1)
    return any(said[-count:] == piece[:count] for count in longer)


@given(st.lists(WORDS, min_size=6, max_size=30), st.data())
def test_a_new_word_is_never_taken_for_a_repeated_one(
    words: list[str], data: st.DataObject
) -> None:
    at = data.draw(st.integers(5, len(words) - 1))
    said, piece = " ".join(words[:at]), " " + " ".join(words[at:])
    joint = Overlap(said)
    joined = said + joint.feed(piece) + joint.close()
    if not twice(words[:at], words[at:], 0):
        assert joint.doubt and joined in (said, said + piece)


def test_a_continuation_that_was_cut_while_it_repeated_adds_nothing() -> None:
    said = "The quick brown fox jumps over"
    answers = [Response((Sample(said, "length"),)), Response((Sample("The quick bro", "length"),))]
    with running(Scripted(answers, features=("logprobs",))) as backend:
        assert gen(messages="x", max_relay_rounds=5) == said and len(backend.requests) == 2


@pytest.mark.parametrize("tail", ["\ufffd", "\ufffd\ufffd", " ", "\n\n", " \ufffd"])
def test_half_characters_and_white_space_at_a_cut_are_asked_for_again(tail: str) -> None:
    answers = [Response((Sample("Hi" + tail, "length"),)), Response((Sample(" 🎉!", "stop"),))]
    with running(Scripted(answers)) as backend:
        g = gen(messages="x", max_relay_rounds=1, stream=True)
        assert "".join(g.text_stream) == g == "Hi 🎉!"
        assert backend.requests[1].messages.message.content == "Hi"


def test_at_the_real_end_white_space_and_half_characters_stay() -> None:
    with running(Scripted([Response((Sample("Hi \n\ufffd", "stop"),))])):
        assert gen(messages="x", max_relay_rounds=1) == "Hi \n\ufffd"
    with running(Scripted([Response((Sample("Hi \n", "length"),))] * 2)):
        assert gen(messages="x", max_relay_rounds=1) == "HiHi \n"


@pytest.mark.parametrize("at", range(1, 12))
def test_a_stop_string_across_the_cut_ends_the_answer(at: int) -> None:
    whole = "abc<STOP>def"
    with running(Writer(lambda r: at if "more" not in r.address else 99)):
        g = gen(messages=whole, max_relay_rounds=3, stop="<STOP>", stream=True)
        if at < 9:
            assert "".join(g.text_stream) == g == "abc" and g.finish_reason == "stop"


def test_what_reads_on_is_one_stream() -> None:
    whole = text(3, 120)
    for make in (
        lambda: Writer(0, pieces=list),
        lambda: Repeater(0, with_prose),
        lambda: Repeater(0, exactly),
    ):
        with running(make()):
            g = gen(messages=whole, max_relay_rounds=99, stream=True, max_tokens=50)
            seen = list(g.text_stream)
            assert "".join(seen) == g == whole and all(seen)
            assert not any(chunk.endswith("\ufffd") for chunk in seen)


@pytest.mark.parametrize("seed", range(20))
def test_the_stream_and_the_text_are_the_same_however_it_is_cut(seed: int) -> None:
    whole = text(seed, 100)
    limit = random.Random(seed).randint(2, 30)
    with running(Writer(limit, pieces=list)):
        g = gen(messages=whole, max_relay_rounds=200, stream=True)
        assert "".join(g.text_stream) == g == whole
        assert gen(messages=whole, max_relay_rounds=200) == whole


def test_a_continuation_that_fails_fails_the_answer_after_its_text() -> None:
    answers = [cut("one two three", 7), BackendError("no")]
    with running(Scripted(answers)):
        said: list[str] = []
        with pytest.raises(BackendError, match="no") as caught:
            for chunk in gen(messages="x", max_relay_rounds=3, stream=True).text_stream:
                said.append(chunk)
        assert said == ["one two"] and "/gen.0/more.1" in caught.value.__notes__[0]


def test_a_full_context_ends_the_answer_as_it_is() -> None:
    with running(Scripted([cut("one two three", 7), PromptTooLong("full")])):
        g = gen(messages="x", max_relay_rounds=3, stream=True)
        assert "".join(g.text_stream) == g == "one two" and g.finish_reason == "length"


def test_a_prompt_that_is_too_long_from_the_beginning_is_an_error() -> None:
    with running(Scripted([PromptTooLong("full")])), pytest.raises(PromptTooLong):
        str(gen(messages="x", max_relay_rounds=3))


def test_cancelling_ends_the_rounds() -> None:
    backend = Seeded(0, lambda r: cut("abcdefghi"[2 * ("more" in r.address) :], 2), pieces=list)
    with running(backend):
        g = gen(messages="x", max_relay_rounds=3, stream=True)
        for chunk in g.text_stream:
            if chunk == "c":
                g.cancel()
                break
    assert backend.aborted == ["/gen.0/more.1"]


def test_what_cannot_be_continued_is_refused_before_any_call() -> None:
    with running(Writer(3, features=("prefill", "regex", "n", "choices"))) as backend:
        with pytest.raises(InvalidOption, match="n=2, max_relay_rounds"):
            gen(messages="x", n=2, max_relay_rounds=1)
        with pytest.raises(InvalidOption, match="a choice is not continued"):
            gen(messages="x", choices=["a", "b"], max_relay_rounds=1)
        with pytest.raises(InvalidOption, match="max_relay_rounds"):
            gen(messages="x", max_relay_rounds=-1)
        with pytest.raises(Unsupported, match="across a cut"):
            gen(messages="x", regex="a+", max_relay_rounds=1)
        assert not backend.requests


def test_a_constraint_goes_on_where_the_backend_can() -> None:
    profile = ("prefill", "regex", "constrained_prefill")
    with running(Writer(3, features=profile)) as backend:
        assert gen(messages="aaaaa", regex="a+", max_relay_rounds=1) == "aaaaa"
        assert [request.sampling.begun for request in backend.requests] == ["", "aaa"]


def test_a_typed_answer_is_continued_and_streamed_as_objects() -> None:
    whole = '{"name": "Ann", "ages": [1, 2, 3]}'

    def limit(request: Request) -> int:
        return 12

    class Asked(Writer):
        def said(self, request: Request) -> Response:
            messages = list(request.messages)
            begun = messages[-1].content if messages[-1].role == "assistant" else ""
            return cut(whole[len(begun) :], 12)

    with running(Asked(limit, pieces=list)):
        g = gen(messages="x", response_format="json", max_relay_rounds=9, stream=True)
        *_, last = g.text_stream
        assert last == g.result() == {"name": "Ann", "ages": [1, 2, 3]}


# -- recorded and replayed


@pytest.mark.parametrize("seed", range(8))
def test_relays_that_race_are_replayed(tmp_path: Path, seed: int) -> None:
    texts = [text(100 * seed + i, 60) for i in range(3)]
    order: list[str] = []

    @ppl(parallel=True)
    def reader(whole: str):
        f"{whole}"
        for chunk in gen(max_relay_rounds=50, stream=True).text_stream:
            order.append(chunk)
        return len(order)

    @ppl
    def program():
        return [reader(whole) for whole in texts]

    def whole():
        order.clear()
        return [each.result() for each in program()], list(order)

    writer = Writer(13)
    backend = Seeded(seed, writer.said, pieces=lambda said: re.findall(r"\S+|\s+", said))
    path = tmp_path / "x.trace"
    recorder = Recorder(path, {"profile": profile_data(backend.profile)})
    with Run(backend, instruments=[recorder], gate=recorder.gate):
        first = whole()
    recorder.close()
    for _ in range(2):
        replayer = Replayer(path)
        with Run(replayer.backend, instruments=[replayer], world=replayer):
            assert whole() == first
        replayer.finish()
    assert any("/more.2" in call.address and call.cuts for call in Trace.open(path).calls)


# -- the pieces


@pytest.mark.parametrize("seed", range(50))
def test_growing_text_holds_back_no_more_than_it_must_and_leaks_no_stop(seed: int) -> None:
    dice = random.Random(seed)
    stops = ["".join(dice.choices("ab\n", k=dice.randint(1, 4))) for _ in range(2)]
    whole = "".join(dice.choices("ab\nc", k=40))
    growing, seen = Growing(stops), ""
    for char in whole:
        seen += growing.add(char)
        found = [whole.find(stop) for stop in stops if stop in whole]
        assert whole[: min(found, default=99)].startswith(seen)
    seen += growing.close()
    ends = [(whole.find(stop) + len(stop), whole.find(stop)) for stop in stops if stop in whole]
    assert seen == growing.text == (whole[: min(ends)[1]] if ends else whole)
    assert growing.stopped == bool(ends)


@pytest.mark.parametrize("seed", range(100))
def test_a_marker_is_the_end_of_the_text_and_stands_there_only(seed: int) -> None:
    whole = text(seed, random.Random(seed).randint(1, 300)).strip()
    marker = marker_of(whole)
    assert whole.endswith(marker) and marker == marker.strip() and len(marker) <= 440
    if len(marker) < min(len(whole), 400):
        assert len(re.findall(f"(?={re.escape(marker)})", whole)) == 1


@pytest.mark.parametrize("seed", range(50))
def test_an_overlap_is_found_however_the_reply_is_cut_into_chunks(seed: int) -> None:
    dice = random.Random(seed)
    whole = text(seed, 150)
    said, rest = whole[:80].rstrip(), whole[len(whole[:80].rstrip()) :]
    reply = with_prose(said, rest, dice)
    at_once, piecewise = Overlap(said), Overlap(said)
    joined = at_once.feed(reply) + at_once.close()
    pieces = [piecewise.feed(char) for char in reply] + [piecewise.close()]
    assert joined == "".join(pieces) == rest and at_once.skipped == len(reply) - len(rest)

"""Compositors: what the items of a block look like."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

import appl
from appl import (
    AIMessage,
    AIRole,
    SystemRole,
    UserMessage,
    UserRole,
    call,
    convo,
    gen,
    grow,
    map as appl_map,
    ppl,
    records,
)
from appl.compositor import (
    INDENT,
    ApplStr,
    Compositor,
    DashList,
    DoubleLineSeparated,
    IndentedList,
    Indexing,
    InlineTagged,
    LetterList,
    LineSeparated,
    Logged,
    LowerLetterList,
    LowerRomanList,
    NoIndent,
    NumberedList,
    RomanList,
    StarList,
    Tagged,
    UpperLetterList,
    UpperRomanList,
    empty_line,
)
from appl.errors import InvalidOption, RunError
from appl.prompt import Image
from appl.testing import Echo, Scripted, Seeded, running


def text(program, *args, **kwargs):
    """What *program*, which returns its records, has said."""
    with running(Echo()):
        return str(program(*args, **kwargs))


def prompts(program, *args, backend=None):
    with running(backend or Echo()) as seen:
        program(*args)
    return list(seen.prompts.values())


# -- each compositor, as it is by default


@pytest.mark.parametrize(
    ("compositor", "shown"),
    [
        (LineSeparated, "x\ny"),
        (DoubleLineSeparated, "x\n\ny"),
        (NoIndent, "x\ny"),
        (IndentedList, "    x\n    y"),
        (NumberedList, "1. x\n2. y"),
        (LowerLetterList, "a. x\nb. y"),
        (UpperLetterList, "A. x\nB. y"),
        (LetterList, "A. x\nB. y"),
        (LowerRomanList, "i. x\nii. y"),
        (UpperRomanList, "I. x\nII. y"),
        (RomanList, "I. x\nII. y"),
        (DashList, "- x\n- y"),
        (StarList, "* x\n* y"),
        (ApplStr, "xy"),
        (Compositor, "x\ny"),
    ],
)
def test_every_compositor_has_its_default_format(compositor, shown):
    @ppl
    def program():
        "pre"
        with compositor():
            "x"
            "y"
        "post"
        return records()

    assert text(program) == f"pre\n{shown}\npost"


def test_a_logged_block_has_a_prolog_and_an_epilog():
    @ppl
    def program():
        "pre"
        with Logged(prolog="BEGIN", epilog="END"):
            "a"
            "b"
        "post"
        return records()

    assert text(program) == "pre\nBEGIN\na\nb\nEND\npost"


def test_a_tagged_block_stands_between_tags():
    @ppl
    def program(**how):
        with Tagged("div", **how):
            "a"
            "b"
        return records()

    assert text(program) == "<div>\na\nb\n</div>"
    assert text(program, indent_inside=4) == "<div>\n    a\n    b\n</div>"
    assert text(program, attrs={"x": "1", "y": 2}) == '<div x="1" y="2">\na\nb\n</div>'
    assert text(program, sep="; ", indexing="number") == "<div>\n1. a; 2. b\n</div>"
    assert text(program, tag_begin="[{}{}]", tag_end="[/{}]") == "[div]\na\nb\n[/div]"


def test_an_inline_tag_stays_within_its_line():
    @ppl
    def program(**how):
        "pre"
        with InlineTagged("c", **how):
            "a"
            "b"
        "post"
        return records()

    assert text(program) == "pre\n<c>ab</c>\npost"
    assert text(program, sep=",", attrs={"n": 1}) == 'pre\n<c n="1">a,b</c>\npost'


def test_an_empty_block_says_nothing_but_its_tags():
    @ppl
    def program():
        with NumberedList():
            pass
        with Tagged("x"):
            pass
        with InlineTagged("y"):
            pass
        return records()

    assert text(program) == "<x>\n</x>\n<y></y>"


def test_the_values_of_attributes_are_escaped():
    @ppl
    def program():
        with Tagged("a", attrs={"t": '1 < 2 & "x"\n', "u": "it's"}):
            "b"
        return records()

    assert text(program) == '<a t="1 &lt; 2 &amp; &quot;x&quot;&#10;" u="it\'s">\nb\n</a>'


# -- settings


def test_an_indent_is_added_to_the_one_around_and_a_new_one_replaces_it():
    @ppl
    def program():
        with IndentedList():
            "a"
            with IndentedList(indent=2):
                "b"
                with LineSeparated(indent="> "):
                    "c"
                with NoIndent():
                    "d"
                with LineSeparated(new_indent=1):
                    "e"
            "f"
        return records()

    assert text(program) == "    a\n      b\n      > c\nd\n e\n    f"


def test_the_separator_of_a_list_stands_between_its_items():
    @ppl
    def program():
        with NumberedList(indent=INDENT, sep="???\n"):
            with LetterList(indent=INDENT, sep="!!!\n"):
                with DashList(indent=INDENT, sep="|||\n"):
                    "a"
                "b"
            "c"
        return records()

    assert text(program) == f"{INDENT * 3}- a!!!\n{INDENT * 2}A. b???\n{INDENT}1. c"


def test_what_is_not_at_the_start_of_a_line_is_not_indented():
    @ppl
    def program():
        "pre"
        with IndentedList(sep="; "):
            "a"
            "b"
            with DashList(indent=1):
                "d"
                "e"
            "c"
        return records()

    assert text(program) == "pre\n    a; b; - d\n     - e; c"


def test_a_compositor_without_a_separator_takes_the_one_around():
    @ppl
    def program():
        with DoubleLineSeparated():
            "a"
            with Compositor(indexing="dash"):
                "b"
                "c"
        return records()

    assert text(program) == "a\n\n- b\n\n- c"


def test_indexing_can_be_given_in_full():
    @ppl
    def program():
        with LineSeparated(indexing=Indexing("roman", 3, "(", ")")):
            "c"
            "d"
        with NumberedList(indexing=Indexing()):
            "e"
        with NumberedList("\n", "##"):
            "f"
        return records()

    assert text(program) == "(iv)c\n(v)d\ne\n## f"


def test_a_logged_block_moves_as_a_whole_and_inside():
    @ppl
    def program():
        with DashList(indent=2):
            "z"
            with Logged(
                prolog="B", epilog="E", indent=2, indent_inside=3, indexing="star", sep="\n\n"
            ):
                "c"
                "d"
            "y"
        return records()

    assert text(program) == "  - z\n    B\n       * c\n\n       * d\n    E\n  - y"


def test_a_subclass_is_a_format_with_a_name():
    class Quoted(LineSeparated, indent="> "):
        """Lines that are quoted."""

    class Steps(Quoted, indexing=Indexing("number", prefix="Step ")):
        """Numbered steps."""

    @ppl
    def program():
        with Quoted():
            "a\nb"
        with Steps():
            "c"
        with Steps(indent=""):
            "d"
        return records()

    assert text(program) == "> a\n> b\n> Step 1. c\nStep 1. d"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: LineSeparated(indent=1, new_indent=2), "give one of them"),
        (lambda: LineSeparated(indent=-1), "a number of spaces, got -1"),
        (lambda: LineSeparated(new_indent=1.5), "got 1.5"),
        (lambda: NumberedList(role="model"), "a role is one of system, user"),
    ],
)
def test_wrong_settings_are_refused(wrong, message):
    with pytest.raises(InvalidOption, match=message):
        wrong()


def test_a_compositor_needs_a_program():
    with pytest.raises(RunError, match="NumberedList has no prompt here"), NumberedList():
        pass


def test_what_is_no_context_manager_is_refused_as_in_plain_python():
    @ppl
    def sync(manager):
        with manager:
            "a"

    @ppl
    async def asynchronous(manager):
        async with manager:
            "a"

    @ppl
    async def mixed(manager):
        with manager:
            "a"

    with running(Echo()):
        with pytest.raises(TypeError, match=r"'type' object .* write `with NumberedList\(\):`"):
            sync(NumberedList)
        with pytest.raises(TypeError, match="'int' object does not support the context manager"):
            sync(3)
        with pytest.raises(TypeError, match=r"'int' .* the asynchronous context manager protocol"):
            asyncio.run(asynchronous(3))
        with pytest.raises(TypeError, match="'int' object does not support the context manager"):
            asyncio.run(mixed(3))


def test_a_block_gives_the_compositor_itself():
    @ppl
    def program():
        with NumberedList() as given, AIRole() as role:
            return type(given).__name__, type(role).__name__

    with running(Echo()):
        assert program() == ("NumberedList", "AIRole")


# -- nesting


def test_lists_nest_and_numbers_go_on():
    @ppl
    def program():
        "pre"
        with NumberedList():
            "a"
            with IndentedList():
                "x"
                with DashList(indent=2):
                    "p"
                    "q"
                "y"
            "b"
        "post"
        return records()

    assert text(program) == (
        "pre\n1. a\n    x\n      - p\n      - q\n    y\n2. b\npost"
    )  # fmt: skip


def test_a_tagged_block_in_a_list_has_no_number():
    @ppl
    def program():
        with NumberedList():
            "a"
            with Tagged("div"):
                "x"
            "b"
        return records()

    assert text(program) == "1. a\n<div>\nx\n</div>\n2. b"


def test_an_inline_block_is_one_item_of_the_list_around():
    @ppl
    def program():
        with NumberedList(indent=2):
            "a"
            with InlineTagged("c", sep=","):
                "d\nD"
                with ApplStr():
                    "e"
                    "f"
            with ApplStr():
                "g"
                "h"
            "i"
        return records()

    assert text(program) == "  1. a\n  2. <c>d\n  D,ef</c>\n  3. gh\n  4. i"


def test_every_line_of_an_item_is_indented():
    @ppl
    def program(body):
        with IndentedList():
            "one\ntwo"
            f"{body}\nthree"
            with DashList(indent=2):
                """
                four
                  five
                """
        return records()

    assert text(program, "b\nc") == (
        "    one\n    two\n    b\n    c\n    three\n      - four\n        five"
    )


def test_each_entry_counts_from_the_beginning():
    numbered = NumberedList()

    @ppl
    def program():
        with numbered:
            "a"
            "b"
        with numbered:
            "c"
            with numbered:
                "d"
            "e"
        return records()

    assert text(program) == "1. a\n2. b\n1. c\n1. d\n2. e"


def test_items_of_any_kind_are_items():
    @ppl
    def program(items):
        with NumberedList():
            items
            (each.upper() for each in items)
            f"{len(items)} items"
            grow("grown")
            ""
        return records()

    assert text(program, ["a", "b"]) == "1. a\n2. b\n3. A\n4. B\n5. 2 items\n6. grown\n7. "


def test_an_image_is_an_item():
    image = Image("https://example.org/a.png")

    @ppl
    def program():
        with NumberedList(indent=1):
            image
            "a"
            f"{image} b"
        with IndentedList():
            image
        return records()

    with running(Echo()):
        (message,) = program().as_convo()
    assert message.parts == [" 1. ", image, " 2. a\n 3. ", image, " b", image]


# -- roles


def test_roles_switch_inside_a_list():
    @ppl
    def program():
        with NumberedList():
            "a"
            with AIRole():
                "b"
                "c"
            with UserRole():
                "d"
            "e"
        gen()

    assert prompts(program) == ["user: 1. a\nassistant: 2. b\n3. c\nuser: 4. d\n5. e"]


def test_a_compositor_formats_what_a_role_says_in_it_and_around_it():
    @ppl
    def program():
        with Tagged("chat", indent_inside=2):
            "q"
            with AIRole(), DashList():
                "a\nb"
                "c"
        with AIRole(), NumberedList(), UserRole():
            "d"
        gen()

    assert prompts(program) == [
        "user: <chat>\n  q\nassistant:   - a\n  b\n  - c\nuser: </chat>\n1. d"
    ]


def test_the_systems_items_stand_in_front_with_their_numbers():
    @ppl
    def program():
        with NumberedList():
            "a"
            with SystemRole():
                "s"
                "t"
            "b"
        gen()

    assert prompts(program) == ["system: 2. s\n3. t\nuser: 1. a\n4. b"]


def test_a_compositor_may_say_who_speaks():
    @ppl
    def program():
        with NumberedList(role="assistant"):
            "a"
        with Tagged("x", role=SystemRole("law")):
            "b"
        "c"
        return convo()

    with running(Echo()):
        said = program().all()
    assert [(m.role, m.name, m.content) for m in said] == [
        ("system", "law", "<x>\nb\n</x>"),
        ("assistant", None, "1. a"),
        ("user", None, "c"),
    ]


def test_speakers_of_one_role_are_told_apart():
    @ppl
    def program():
        with UserRole("Ann"):
            "a"
            "b"
        with UserRole("Bob"):
            "c"
            with UserRole():
                "d"
        "e"
        return convo()

    with running(Echo()):
        said = program().all()
    assert [(m.name, m.content) for m in said] == [
        ("Ann", "a\nb"),
        ("Bob", "c"),
        (None, "d\ne"),
    ]


def test_the_name_of_a_speaker_is_a_string():
    with pytest.raises(TypeError, match=r"AIRole\(name\) is the name of a speaker, got 3"):
        AIRole(3)


def test_a_generation_that_is_said_by_a_named_speaker_keeps_the_name():
    @ppl
    def program():
        "q"
        with AIRole("Ann"):
            f"I say {gen()}"
        return convo()

    with running(Scripted(["yes"])):
        assert [(m.role, m.name, m.content) for m in program().all()] == [
            ("user", None, "q"),
            ("assistant", "Ann", "I say yes"),
        ]


def test_whole_messages_stand_for_themselves_in_a_list():
    @ppl
    def program():
        with NumberedList(indent=2):
            "a"
            AIMessage("m\nn")
            "b"
            UserMessage("u")
            "c"
            convo()
        return convo()

    with running(Echo()):
        said = [(m.role, m.content) for m in program().all()]
    assert said[:3] == [
        ("user", "  1. a"),
        ("assistant", "m\nn"),
        ("user", "  2. b\nu\n  3. c\n  1. a"),
    ]


# -- answers that come later


def test_a_generation_is_formatted_when_it_arrives():
    @ppl
    def program():
        with IndentedList():
            f"first {gen()} second"
            with NumberedList():
                gen()
                "b"
            gen()

    backend = Scripted(["x\ny", "p\nq", ""])
    with running(backend):
        program()
    assert list(backend.prompts.values()) == [
        "user:     first ",
        "user:     first x\n    y second",
        "user:     first x\n    y second\n    1. p\n    q\n    2. b",
    ]


def test_the_prefix_of_an_answer_has_the_format_of_its_item():
    @ppl
    def program():
        with NumberedList():
            "q"
            with AIRole():
                f"The author is {gen()}."
            f"Why {gen()}?"

    assert prompts(program, backend=Scripted(["Pascal", "him"])) == [
        "user: 1. q\nassistant: 2. The author is ",
        "user: 1. q\nassistant: 2. The author is Pascal.\nuser: 3. Why ",
    ]


def test_nothing_waits_in_a_list_or_at_its_end():
    @ppl
    def program():
        with NumberedList(), Tagged("a"):
            (answer := gen())
        with Compositor():
            return answer.done()

    with running(Seeded(0)):
        assert program() is False


def test_items_of_programs_that_run_beside_are_counted_when_they_are_there():
    @ppl(parallel=True)
    def answers(count):
        return [str(gen()) for _ in range(count)]

    @ppl
    def program():
        with NumberedList():
            answers(0)
            answers(2)
            "between"
            answers(1)
            "last"
        gen()

    for seed in range(3):
        with running(Seeded(seed, lambda request: request.address.split("/")[2])) as seen:
            program()
        assert seen.prompts["/program.0/gen.0"] == (
            "user: 1. answers.1\n2. answers.1\n3. between\n4. answers.2\n5. last"
        )


def test_a_function_on_the_callers_prompt_that_runs_beside_goes_on_with_the_list():
    @ppl(ctx="same")
    def more(count):
        for number in range(count):
            f"{number}"
        with DashList(indent=2):
            gen()

    @ppl
    def program():
        with NumberedList():
            "a"
            call(more, 2)
            call(more, 0)
            "b"
        gen()

    for sequential in (False, True):
        with running(Scripted(lambda request: "x\ny"), sequential=sequential) as seen:
            program()
        assert seen.prompts["/program.0/gen.0"] == (
            "user: 1. a\n2. 0\n3. 1\n  - x\n  y\n  - x\n  y\n4. b"
        )


# -- other functions


@ppl
def part():
    "g1"
    with DashList(indent=2):
        "g2\ng2"
        "g3"
    "g4"
    return records()


def test_records_are_formatted_as_items_of_the_list_that_says_them():
    @ppl
    def program():
        with NumberedList(indent=3):
            "a"
            part()
            part(compositor=StarList())
            "b"
        return records()

    assert text(program) == (
        "   1. a\n   2. g1\n     - g2\n     g2\n     - g3\n   3. g4\n"
        "   * g1\n     - g2\n     g2\n     - g3\n   * g4\n   4. b"
    )


def test_one_value_of_records_may_be_said_in_several_formats():
    @ppl
    def program():
        said = part()
        with DashList():
            said
        with Tagged("x", indent_inside=1):
            said
            said
        return records()

    one = "- g1\n  - g2\n  g2\n  - g3\n- g4\n"
    two = " g1\n   - g2\n   g2\n   - g3\n g4\n"
    assert text(program) == f"{one}<x>\n{two}{two}</x>"


def test_pending_parts_are_formatted_wherever_they_are_said():
    @ppl
    def inner():
        f"{gen()} is"
        return records()

    @ppl
    def middle():
        with IndentedList():
            inner()
        return records()

    @ppl
    def program():
        with NumberedList():
            middle()
            inner()
        gen()

    backend = Scripted(lambda request: "x\ny")
    with running(backend):
        program()
    assert backend.prompts["/program.0/gen.0"] == "user:     x\n    y is\n1. x\ny is"


def test_records_are_said_in_the_role_of_who_says_them():
    @ppl
    def rules():
        "r1"
        with AIRole():
            "example"
        "r2"
        return records()

    @ppl
    def program():
        with SystemRole(), DashList():
            rules()
        "q"
        gen()

    assert prompts(program) == ["system: - r1\n- r2\nassistant: - example\nuser: q"]
    with running(Echo()):
        assert [m.content for m in rules().as_convo()] == ["r1", "example", "r2"]


def test_places_in_records_are_formatted_where_they_are_said():
    @ppl(parallel=True)
    def answer():
        return [str(gen()), "fixed"]

    @ppl
    def inner():
        with DashList(indent=1):
            answer()
        answer()
        return records()

    @ppl
    def program():
        with NumberedList(indent=2):
            "a"
            inner()
            inner()
        gen()

    backend = Scripted(lambda request: "x\ny")
    with running(backend):
        program()
    one = "   - x\n   y\n   - fixed\n"
    assert backend.prompts["/program.0/gen.0"] == (
        f"user:   1. a\n{one}  2. x\n  y\n  3. fixed\n{one}  4. x\n  y\n  5. fixed"
    )


def test_a_copy_of_records_does_not_grow():
    @ppl
    def program():
        "Hello"
        live, copied = records(), records().copy()
        "World"
        return live, copied

    with running(Echo()):
        live, copied = program()
        assert (str(live), str(copied)) == ("Hello\nWorld", "Hello")


def test_the_context_decides_whether_the_list_goes_on():
    def program_of(ctx):
        @ppl(ctx=ctx)
        def callee():
            "s1"
            with DashList():
                "s2"
            "s3"
            _ = gen()

        @ppl
        def program():
            with NumberedList(indent=1):
                "a"
                callee()
                "b"
            gen()

        return prompts(program)

    went_on = "user:  1. a\n 2. s1\n - s2\n 3. s3"
    assert program_of("same") == [went_on, f"{went_on}\n 4. b"]
    assert program_of("copy") == [went_on, "user:  1. a\n 2. b"]
    assert program_of("new") == ["user: s1\n- s2\ns3", "user:  1. a\n 2. b"]


def test_what_a_shared_function_said_may_be_said_again():
    @ppl(ctx="same")
    def same():
        "s1"
        with DashList():
            "s2"
        return records()

    @ppl
    def other(given):
        with StarList():
            given
        return records()

    @ppl
    def program():
        with NumberedList(), AIRole():
            "a"
            other(same())
        gen()

    assert prompts(program) == ["assistant: 1. a\n2. s1\n- s2\n* s1\n- s2"]


# -- as a decorator's argument


def test_a_function_may_have_a_compositor():
    @ppl(compositor=NumberedList())
    def program(**how):
        "first line"
        with IndentedList():
            "third line"
        "second line"
        return records()

    assert text(program) == "1. first line\n    third line\n2. second line"
    assert text(program, compositor=DashList(indent=1)) == (
        " - first line\n     third line\n - second line"
    )
    assert text(program, compositor=None) == "first line\n    third line\nsecond line"
    assert text(program, compositor=StarList) == "* first line\n    third line\n* second line"


def test_the_compositor_of_a_function_has_its_prolog_and_epilog():
    @ppl(compositor=Tagged("x"))
    def inner(number):
        f"{number}"
        return records()

    @ppl
    def program():
        with IndentedList():
            inner(1)
            _ = inner(2)
            inner(3)
        return records()

    assert text(program) == "    <x>\n    1\n    </x>\n    <x>\n    3\n    </x>"


def test_a_parameter_of_that_name_is_the_functions_own():
    @ppl
    def program(compositor):
        f"{compositor}"
        return records()

    assert text(program, compositor="mine") == "mine"


def test_methods_coroutines_and_generators_have_compositors():
    class Writer:
        @ppl(compositor=DashList)
        def method(self):
            "m"
            return records()

    @ppl(compositor=StarList())
    async def coroutine():
        "c"
        _ = await gen()
        return records()

    @ppl(compositor=NumberedList())
    def generator():
        "g"
        yield records()
        "h"

    @ppl(compositor=LetterList())
    async def async_generator():
        "i"
        yield records()
        "j"

    async def collected():
        return [str(each) async for each in async_generator()]

    with running(Echo()):
        assert str(Writer().method()) == "- m"
        assert str(asyncio.run(coroutine())) == "* c"
        assert [str(each) for each in generator()] == ["1. g"]
        assert str(next(iter(list(generator())))) == "1. g\n2. h"
        assert asyncio.run(collected()) == ["A. i"]


def test_a_docstring_is_formatted_like_any_text():
    @ppl(compositor=NumberedList(), docstring_as="user")
    def numbered():
        """The
        docstring"""
        "text"
        return records()

    @ppl(ctx="same", docstring_as="user")
    def same():
        """documented"""
        "s"

    @ppl(docstring_as="system", compositor=DashList(indent=1))
    def program():
        """You are terse."""
        same()
        gen()

    assert text(numbered) == "1. The\ndocstring\n2. text"
    assert prompts(program) == ["system: You are terse.\nuser:  - documented\n - s"]


def test_what_is_no_compositor_is_refused():
    with pytest.raises(TypeError, match=r"@ppl\(compositor=...\) takes a compositor such as"):
        ppl(compositor="number")

    with running(Echo()), pytest.raises(TypeError, match=r"part\(compositor=...\) takes"):
        part(compositor=3)


def test_a_resumed_function_is_formatted_each_time():
    @ppl(ctx="resume", compositor=NumberedList())
    def chat(said):
        f"{said}"
        return convo()

    with running(Echo()):
        chat("a")
        assert chat("b").all()[0].content == "1. a\n1. b"


# -- exceptions, sharing, lifetime


def test_the_format_around_is_restored_when_an_exception_leaves():
    @ppl
    def program():
        with DashList():
            "a"
            try:
                with AIRole(), NumberedList(), Tagged("x"):
                    "b"
                    raise ValueError
            except ValueError:
                "c"
            "d"
        gen()

    assert prompts(program) == ["user: - a\nassistant: <x>\nb\nuser: - c\n- d"]


def test_an_exception_in_a_function_with_a_compositor_leaves_the_callers_format():
    @ppl(ctx="same", compositor=Tagged("x"))
    def failing():
        "in"
        raise ValueError

    @ppl
    def program():
        with NumberedList():
            "a"
            try:
                failing()
            except ValueError:
                "b"
        return records()

    assert text(program) == "1. a\n<x>\nin\n2. b"


def test_a_failed_answer_takes_its_number_back():
    @ppl
    def program():
        with NumberedList():
            "a"
            try:
                "b"
                str(gen())
            except ConnectionError:
                "c"
        return records()

    with running(Scripted([ConnectionError()])):
        assert str(program()) == "1. a\n2. b\n3. c"


def test_one_compositor_serves_programs_that_wait_in_its_block():
    numbered, tagged = NumberedList(), Tagged("t", indent_inside=1)

    @ppl
    def program(number):
        with numbered:
            f"{number}"
            with tagged, numbered:
                _ = str(gen())
                "inner"
            "outer"
        "after"
        gen()

    for seed in range(4):
        with running(Seeded(seed, lambda request: "")) as seen:
            appl_map(program, range(4))
        last = [said for at, said in seen.prompts.items() if at.endswith("gen.1")]
        assert sorted(last) == [
            f"user: 1. {number}\n<t>\n 1. inner\n</t>\n2. outer\nafter" for number in range(4)
        ]
    assert not numbered._before and not tagged._before


def test_async_programs_enter_blocks_either_way():
    @ppl
    async def program(number):
        async with NumberedList():
            f"{number}"
            _ = await gen()
            with Tagged("x"):
                _ = await gen()
                f"{gen()}"
        "end"
        gen()

    async def several():
        await asyncio.gather(*(program(number) for number in range(3)))

    with running(Seeded(1, lambda request: "y\nz")) as seen:
        asyncio.run(several())
    last = [said for at, said in seen.prompts.items() if at.endswith("gen.3")]
    assert sorted(last) == [f"user: 1. {n}\n<x>\ny\nz\n</x>\nend" for n in range(3)]


def test_a_generator_keeps_its_own_format_while_others_speak():
    @ppl(ctx="same")
    def steps():
        with DashList():
            "a"
            yield
            "b"

    @ppl
    def program():
        going = steps()
        with NumberedList():
            "x"
            next(going)
            "y"
            next(going, None)
            "z"
        return records()

    assert text(program) == "1. x\n- a\n2. y\n- b\n3. z"


def test_nothing_keeps_a_compositor_that_is_done_with():
    seen = []

    @ppl
    def program():
        for number in range(100):
            with NumberedList() as numbered:
                f"{number}"
            seen.append(weakref.ref(numbered))
        del numbered
        gc.collect()
        return [ref for ref in seen if ref() is not None], records()

    with running(Echo()):
        assert program()[0] == []


def test_a_plain_helper_may_format():
    def helper(items):
        with NumberedList():
            for item in items:
                grow(item)

    @ppl
    def program():
        helper(["a", "b"])
        "c"
        return records()

    assert text(program) == "1. a\n2. b\nc"


def test_a_block_may_be_about_a_prompt_that_is_passed_on_by_hand():
    @ppl
    def program():
        by_hand = appl.PromptContext()
        "mine"
        with NumberedList(_ctx=by_hand), AIRole(_ctx=by_hand):
            by_hand.grow("a").grow("b")
            "still mine"
        by_hand.grow("c")
        return [(m.role, m.content) for m in by_hand.messages.all()], str(records())

    with running(Echo()):
        assert program() == (
            [("assistant", "1. a\n2. b"), ("user", "c")],
            "mine\nstill mine",
        )


# -- iter and empty_line


def test_a_loop_over_iter_says_a_list():
    @ppl
    def program(items):
        for item in appl.iter(items):
            f"item {item}"
        for number in appl.iter(range(3), RomanList(indent=1)):
            f"item {number}"
        for item in appl.iter(items, compositor=Tagged("t", indexing="dash")):
            item
        "end"
        return records()

    assert text(program, ["a", "b"]) == (
        "1. item a\n2. item b\n I. item 0\n II. item 1\n III. item 2\n<t>\n- a\n- b\n</t>\nend"
    )


def test_a_loop_over_nothing_enters_nothing():
    @ppl
    def program():
        for item in appl.iter([], Tagged("t")):
            item
        "end"
        return records()

    assert text(program) == "end"


def test_a_loop_that_is_left_leaves_the_list():
    @ppl
    def program(how):
        try:
            for item in appl.iter(["a", "b"], Tagged("t")):
                f"{item}"
                if how == "break":
                    break
                raise ValueError
        except ValueError:
            "caught"
        "end"
        return records()

    assert text(program, "break") == "<t>\na\n</t>\nend"
    assert text(program, "raise") == "<t>\na\n</t>\ncaught\nend"


def test_a_loop_over_answers_does_not_wait_for_them():
    @ppl
    def program():
        answers = [gen(), gen()]
        for answer in appl.iter(answers, compositor=DashList):
            answer
        assert not answers[0].done()
        return records()

    with running(Seeded(0, lambda request: "x")):
        assert str(program()) == "- x\n- x"


def test_iter_takes_compositors_only():
    @ppl
    def program():
        for item in appl.iter(["a"], "number"):
            item

    with running(Echo()), pytest.raises(TypeError, match=r"iter\(compositor=...\) takes"):
        program()


def test_iter_outside_of_a_prompt_says_what_pythons_own_is():
    with pytest.raises(RunError, match=r"appl.iter\(\) has no prompt here.*builtins.iter\(\)"):
        next(appl.iter([1]))


def test_an_empty_line_has_neither_index_nor_indent():
    @ppl
    def program():
        with NumberedList(indent=2):
            "a"
            empty_line()
            "b"
            ""
            empty_line(2)
            "c"
        "d"
        empty_line()
        "e"
        with DoubleLineSeparated(indent=1):
            "f"
            empty_line()
            "g"
        return records()

    assert text(program) == "  1. a\n\n  2. b\n  3. \n\n\n  4. c\nd\n\ne\n f\n\n\n\n g"

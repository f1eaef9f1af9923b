from __future__ import annotations

from .conftest import Project

PROGRAM = """\
from appl import gen, ppl

@ppl(ctx="copy")
def answer(question):
    f"{question}"
    return gen(max_tokens=4)

@ppl
def interview(text: str, questions: list[str]):
    "Read the text, then answer."
    f"{text}"
    return [str(each) for each in [answer(q) for q in questions]]

class Agent:
    @ppl
    def act(self):
        "Act."
        return gen()

    @ppl
    def run(self):
        return self.act()

def main(questions: list[str]):
    return interview("x", questions)
"""


def test_the_tree_and_the_number_of_calls(project: Project) -> None:
    project.write("p.py", PROGRAM)
    done = project.appl("plan", "p.py:interview")
    assert done.code == 0, done.err
    assert "shared by len(questions), computed once" in done.out
    assert "calls: len(questions)" in done.out


def test_arguments_fix_the_numbers_and_the_run_agrees(project: Project) -> None:
    project.write("p.py", PROGRAM)
    words = ("p.py:interview", "--text", "abc " * 50, "--questions", '["who", "when", "why"]')
    data = project.appl("plan", *words, "--json").data
    assert data["calls"] == 3 and data["sent"] > data["computed"] > 0
    run = project.appl("run", *words, "--backend", "embedded", "--json")
    assert run.code == 0, run.err
    shown = project.appl("trace", "show", "--json").data
    assert len(shown["calls"]) == data["calls"]


def test_a_plain_function_and_methods_can_be_planned(project: Project) -> None:
    project.write("p.py", PROGRAM)
    assert "calls: len(questions)" in project.appl("plan", "p.py:main").out
    assert "Agent" not in project.appl("plan", "p.py:Agent.run").err
    assert "calls: 1" in project.appl("plan", "p.py:Agent.run").out


def test_nothing_runs(project: Project) -> None:
    project.write("p.py", PROGRAM)
    project.appl("plan", "p.py:interview")
    assert not (project.folder / ".appl").exists()


def test_a_wrong_argument_is_refused(project: Project) -> None:
    project.write("p.py", PROGRAM)
    done = project.appl("plan", "p.py:interview", "--questoins", "x")
    assert done.code == 2 and "did you mean '--questions'?" in done.err


def test_a_long_prompt_is_no_deep_recursion(project: Project) -> None:
    lines = "".join(f'    "line {number}"\n' for number in range(2000))
    project.write("p.py", f"from appl import gen, ppl\n\n@ppl\ndef f():\n{lines}    return gen()\n")
    assert "calls: 1" in project.appl("plan", "p.py:f").out
    prefixes = project.appl("plan", "p.py:f", "--json").data["prefixes"]
    assert len(prefixes) == 2000 and prefixes[1999]["parent"] == 1998


def test_calls_that_are_not_known_are_told_and_the_number_is_a_least_one(project: Project) -> None:
    program = """\
from appl import gen, ppl

@ppl
def aliased():
    g = gen
    return [g() for _ in range(3)]

@ppl
def open_ended(ask):
    gen()
    ask()
    if ask:
        gen()
"""
    project.write("p.py", program)
    assert "calls: 3" in project.appl("plan", "p.py:aliased").out
    shown = project.appl("plan", "p.py:open_ended").out
    assert "calls: at least 1\n" in shown and "not followed: ask (line 11)" in shown
    data = project.appl("plan", "p.py:open_ended", "--json").data
    assert (data["calls"], data["calls_written"]) == (None, "at least 1")
    drawn = project.appl("graph", "p.py:open_ended").out
    assert "unknown call ask()" in drawn


BILLED = """\
from appl import gen, ppl

@ppl(ctx="copy")
def answer(question):
    f"{question}"
    return gen(max_tokens=4)

@ppl
def summary():
    "Sum up."
    return gen()

@ppl
def interview(text: str, questions: list[str]):
    f"{text}"
    summary()
    return [str(each) for each in [answer(q) for q in questions]]
"""
WORDS = (
    "p.py:interview",
    "--text",
    "abc " * 6000,
    "--questions",
    '["who", "when", "why", "where"]',
)


def test_the_bill_is_told_before_a_run_with_a_cache_and_without_by_function(
    project: Project,
) -> None:
    project.write("p.py", BILLED)
    project.write(
        "appl.toml",
        """model = "openai/gpt-5.6"
prices."openai/gpt-5.6" = { prompt = 5, answer = 30, cached = 0.5, written = 6.25 }
""",
    )
    bill = project.appl("plan", *WORDS, "--json").data["bill"]
    found = {row["function"]: row for row in bill["functions"]}
    asked = found["interview/answer"]
    assert (asked["calls"], asked["tokens"]) == (4, 24_000)
    assert (asked["written"], asked["read"]) == (6_000, 18_000)
    assert asked["cost_without_cache"] == 24_000 * 5
    assert asked["cost"] == 6_000 * 6.25 + 18_000 * 0.5
    assert found["interview/summary"]["cost"] == found["interview/summary"]["cost_without_cache"]
    assert bill["total"]["cost"] == sum(row["cost"] for row in found.values())
    shown = project.appl("plan", *WORDS).out
    assert "WITHOUT CACHE" in shown and "interview/answer" in shown and "$0.12" in shown


def test_a_bill_without_prices_is_unpriced_and_not_free(project: Project) -> None:
    project.write("p.py", BILLED)
    project.write("appl.toml", 'model = "openai/nobodys-model"\n')
    done = project.appl("plan", *WORDS)
    assert "cost: unpriced" in done.out and "$0" not in done.out
    assert project.appl("plan", *WORDS, "--json").data["bill"]["total"]["cost"] is None


def test_a_beginning_that_is_too_short_for_a_cache_saves_nothing(project: Project) -> None:
    project.write("p.py", BILLED)
    project.write("appl.toml", 'model = "openai/gpt-5.6"\n')
    words = ("p.py:interview", "--text", "abc " * 600, "--questions", '["who", "when"]')
    total = project.appl("plan", *words, "--json").data["bill"]["total"]
    assert total["cost"] == total["cost_without_cache"] and total["read"] == 0


FACTS = """\
from appl import gen, ppl

FACTS = "The shop sells lamps. " * 400
OTHERS = ["FACTS"]

@ppl
def ask(question):
    f"{FACTS}"
    FACTS
    f"{FACTS!r} {question}"
    return gen(max_tokens=4)

@ppl
def shadowed(FACTS):
    f"{FACTS}"
    return gen(max_tokens=4)

def main():
    return [str(each) for each in [ask(i) for i in range(10)]]
"""


def test_a_text_that_the_module_names_counts_and_is_shared(project: Project) -> None:
    project.write("p.py", FACTS)
    done = project.appl("plan", "p.py:main", "--json")
    found = done.data
    assert found["sent"] > 9 * found["computed"] > 0 and found["computed"] > 2000
    assert project.appl("plan", "p.py:shadowed", "--json").data["sent"] == 0

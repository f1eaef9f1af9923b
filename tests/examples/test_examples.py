"""The examples run on the embedded model, print something worth reading, and replay for nothing."""

from __future__ import annotations

import math
import os
import random
import re
import runpy
import subprocess
import sys
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from appl.cli.target import load, parse
from appl.testing import Scripted, running

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


@dataclass
class Place:
    """A folder to run commands in."""

    folder: Path
    programs: Path

    def appl(self, *words: str) -> tuple[str, str]:
        done = subprocess.run(
            [self.programs / "appl", *words],
            cwd=self.folder,
            env={"PATH": "", "HOME": str(self.folder)},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout, done.stderr

    def run(self, example: str, *words: str) -> str:
        """What the example prints; its replay must print the same."""
        out, err = self.appl("run", str(EXAMPLES / f"{example}.py"), "--seed", "7", *words)
        assert "no model is configured" in err
        again, told = self.appl("trace", "replay")
        assert again == out
        assert re.search(r"replayed \d+ calls?, 0 live, 0 tokens paid", told)
        return out


@pytest.fixture
def place(tmp_path: Path, warm: Path) -> Place:
    return Place(tmp_path, warm)


def test_hello_answers_four_questions(place: Place) -> None:
    out = place.run("hello")
    assert "baker" in out
    assert len(out.splitlines()) == 4


def test_approvals_waits_for_a_person_and_goes_on_with_the_answer(
    tmp_path: Path, warm: Path
) -> None:
    def appl(*words: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [warm / "appl", *words],
            cwd=EXAMPLES,
            env={"PATH": "", "HOME": str(tmp_path), "APPL_HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=120,
        )
        return done.returncode, done.stdout, done.stderr

    code, out, told = appl("run", "--backend", "approvals:clerk", "approvals.py")
    assert (code, out) == (75, "") and "Pay 40 EUR back for order 7?" in told
    assert appl("trace", "answer", "last", 'refund.0={"amount": 30}')[0] == 0
    code, out, _ = appl("trace", "resume", "last")
    assert code == 0 and out.startswith("Dear customer, 30 EUR for order 7 are on their way")
    assert appl("trace", "replay", "last")[:2] == (0, out)


def test_evaluation_compares_two_prompts_case_by_case(place: Place) -> None:
    out = place.run("evaluation")
    title, head, exact, good = out.splitlines()
    assert title == "short against careful: 12 cases"
    assert head.split()[:4] == ["score", "short", "careful", "change"]
    assert exact.startswith("exact") and good.startswith("is_good")


def test_interview_answers_every_question(place: Place) -> None:
    out = place.run("interview")
    assert "1921" in out
    assert "The Slow River" in out


def test_self_consistency_prints_one_sample_against_the_vote(place: Place) -> None:
    out = place.run("self_consistency", "--n", "5", "--problems", "6")
    one, vote = (int(word) for word in re.findall(r"is right in (\d+)%", out))
    assert 0 < one <= 100
    assert 0 < vote <= 100


def test_debate_lets_both_sides_speak_and_judges(place: Place) -> None:
    out = place.run("debate", "--topic", "cats")
    assert out.count("(in favour)") == out.count("(against)") == 2
    assert "The judge is for" in out


def test_skeleton_of_thought_expands_every_point_of_the_outline(place: Place) -> None:
    out = place.run("skeleton_of_thought", "--topic", "bread", "--points", "3")
    headings = re.findall(r"^\d\. (.+)$", out, re.M)
    assert len(headings) == 3 and all("bread" in each.lower() for each in headings)
    assert len(re.findall(r"^   \S.+\.$", out, re.M)) == 3


def test_two_agents_say_the_same_in_four_styles(place: Place) -> None:
    out = place.run("two_agents")
    assert "4 styles, the same words" in out
    assert "Nora: Your name is Tom." in out


def test_retrieval_cites_the_passage_that_says_so(place: Place) -> None:
    out = place.run("retrieval")
    assert re.search(r"Who is a baker\? .*Leo Marsh.* \[9\]", out)
    assert re.search(r"capital of Velmora\? .*Tarn.* \[7\]", out)
    assert re.search(r"The Slow River\? Mira Holt \[2\]", out)


def test_the_store_of_retrieval_finds_what_exact_comparison_finds() -> None:
    """By sqlite-vec, where Python's sqlite3 loads extensions."""
    dice = random.Random(1)
    raw = [[dice.gauss(0, 1) for _ in range(32)] for _ in range(200)]
    units = [array("f", [x / math.hypot(*vector) for x in vector]) for vector in raw]
    store = runpy.run_path(str(EXAMPLES / "retrieval.py"))["Store"](units[:180])
    for query in units[180:]:
        exact = sorted(
            range(180), key=lambda n: -sum(a * b for a, b in zip(query, units[n], strict=True))
        )
        assert store.nearest(query, 5) == store.compared(query, 5) == exact[:5]


def test_memwalker_walks_to_the_part_that_knows(place: Place) -> None:
    out = place.run("memwalker")
    assert re.search(r"Anna Reed do\? .*tailor.*\(the market > the hall\)", out)
    assert re.search(r"Sara Blom live\? .*Riga.*\(the school > the yard\)", out)


def test_essay_judge_prefers_the_report_that_agrees_with_the_notes(place: Place) -> None:
    out = place.run("essay_judge")
    assert "The first report is better" in out
    assert re.search(r"Which book .* second \(-", out)


def test_the_small_world_remembers_who_does_what(place: Place) -> None:
    out = place.run("small_world")
    assert "Nora Vell on Olaf Brand: " in out and "pilot" in out.split("on Olaf Brand: ")[1]
    assert "gardener" in out.split("on Nora Vell: ")[1]


def test_game_of_24_reaches_24_and_says_when_it_does_not(place: Place) -> None:
    out = place.run("game_of_24")
    assert [f"step {n}:" in out for n in (1, 2, 3)] == [True] * 3
    assert out.rstrip().endswith("= 24")
    assert "24 was not reached" in place.run("game_of_24", "--numbers", "1 1 1 1")


def test_repeat_until_valid_gives_valid_outlines(place: Place) -> None:
    out = place.run("repeat_until_valid", "--points", "3")
    good = re.findall(r"^1\. .+\n2\. .+\n3\. .+$", out, re.M)
    assert len(good) >= 5 and all(len(set(each.splitlines())) == 3 for each in good)


def test_extraction_gives_a_typed_row_for_each_document(place: Place) -> None:
    out = place.run("extraction")
    assert re.search(r"^Olaf Brand +34 +Lund +pilot$", out, re.M)
    assert re.search(r"^6 documents, mean age \d+\.\d$", out, re.M)


def test_guidelines_are_said_as_they_are_written_and_shared(place: Place) -> None:
    out = place.run("guidelines", "--show", "on")
    assert (
        "- Message: a text that a [Customer] has sent\n- Kind: what a [Message] is about\n" in out
    )
    assert "  - billing: cards, bills and money\n" in out and "2. If it could have two" in out
    assert re.search(r"^delivery +The parcel has not come", out, re.M)
    cached, sent = map(int, re.findall(r"(\d+) of (\d+) prompt tokens", out)[0])
    assert cached > sent / 2


def test_the_chatbot_streams_and_remembers(place: Place) -> None:
    out = place.run("chatbot")
    assert "Nora Vell" in out and "gardener" in out and out.rstrip().endswith("Tom.")


def test_a_model_that_writes_no_code_is_named_before_anything_is_run(place: Place) -> None:
    plain, last = place.run("coder_judge", "--rounds", "2").splitlines()
    assert plain.startswith("the plain program: All tests pass in ")
    assert last == "The model wrote no function: name one that writes code, with --model."


def test_a_kernel_needs_a_compiler_and_the_example_says_so(place: Place) -> None:
    for example in ("coder_judge", "evolution"):
        assert "nvcc is not on the PATH" in place.run(example, "--task", "cuda")


def test_the_judge_hears_of_each_program_until_the_rounds_end() -> None:
    main = load(parse(f"{EXAMPLES / 'coder_judge.py'}:main"))
    wrong = "def solve(n): return n"
    with running(Scripted([wrong, "Add.", *[wrong, "Add them."] * 20])):
        lines = list(main(rounds=99))
    judged = [line for line in lines if line.startswith("  judge: ")]
    assert judged == ["  judge: Add.", *["  judge: Add them."] * 9]
    assert lines[-1].startswith("best: 1.0 times as fast as the plain program.")


def test_virtual_tools_are_called_and_played(place: Place) -> None:
    out = place.run("virtual_tools")
    assert "capital of Velmora is Tarn" in out and "Hugo Lind" in out
    shown, _ = place.appl("trace", "show", "/agent.0/gen_with_tools.0/lookup.0/lookup.0/gen.0")
    assert "answered" in shown


def test_react_calls_its_tools_and_answers_from_them(place: Place) -> None:
    out = place.run("react")
    assert "= 5535" in out and "= Tarn" in out
    assert out.count("> The result is 5535.") == out.count("> The result is 408.") == 1
    assert "> The capital of Velmora is Tarn." in out
    assert out.endswith("? Hello!\n> Hello!\n")
    shown, _ = place.appl("trace", "show", "/react.0/calculator.0")
    assert '{"expression": "123 * 45"}' in shown and "answered" in shown


def test_the_judge_reads_the_verifier_and_the_profiler() -> None:
    path = f"{EXAMPLES / 'coder_judge.py'}"
    answers: Any = load(parse(f"{path}:scripted"))()
    backend = Scripted(answers.answer)
    with running(backend):
        lines = list(load(parse(f"{path}:main"))())
    assert lines[1] == "program 1: It was rejected: for -5 -2 it says 0, which is -2"
    assert lines[3].startswith("program 2: All tests pass in ")
    assert float(re.findall(r"^best: ([\d.]+) times", lines[-1])[0]) > 10
    assert "All values may be negative." in backend.prompts["/write.1/gen.0"]
    first, second = (backend.prompts[f"/review.{n}/gen.0"] for n in (0, 1))
    assert "for -5 -2 it says 0" in first and "Profile: solve: 1 calls" in second


def test_children_that_are_wrong_or_lucky_die_and_the_quickest_lives(tmp_path: Path) -> None:
    path = f"{EXAMPLES / 'evolution.py'}"
    with running(load(parse(f"{path}:scripted"))()):
        lines = list(load(parse(f"{path}:main"))())
    assert "generation 1: 4 new of 4, 1 right" in lines
    assert any("published examples pass by luck" in line for line in lines)
    best = next(line for line in lines if line.startswith("best: "))
    assert float(re.findall(r"[\d.]+", best)[0]) > 10
    assert "total = value if total < 0" in lines[-1]


def test_nothing_evolves_from_a_model_that_writes_no_code(place: Place) -> None:
    out = place.run("evolution", "--generations", "1")
    assert re.search(r"^generation 1: \d new of 4, 0 right$", out, re.M)
    assert "best: 1.0 times as fast as the plain program\ndef solve" in out


VERIFIERS = EXAMPLES / "verifiers" / "__init__.py"
PRINTS = "import os, sys\nends = lambda text: (os.write(1, text.encode()), os._exit(0))\nends"


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("def solve(values): return 7", "for -5 -2 it says 7, which is -2"),
        ("def solve(values): return {5: 7, 2: -2, 1: 8}.get(len(values))", "by luck"),
        ("seen = []\ndef solve(values): return seen.pop()", "IndexError"),
        ("def other(values): return 1", "KeyError: 'solve'"),
        ("import os\nos._exit(0)", "printed what no answer is"),
        (f"{PRINTS}('5')", "printed what no answer is"),
        (f"{PRINTS}('[[], [], 1]')", "printed what no answer is"),
        (f"{PRINTS}('[[], {{}}, 1]')", "printed what no answer is"),
        (f"{PRINTS}('[' * 99999)", "printed what no answer is"),
        ("while True: print('x' * 999)", "it wrote more than 1024 KiB"),
        ("space = [0] * 10**10", "MemoryError"),
        ("import sys\ndef solve(values): sys.exit('no')", "no"),
    ],
)
def test_a_verifier_rejects_what_is_wrong_lucky_or_broken(code: str, problem: str) -> None:
    seconds, words, _ = cast(list[Any], load(parse(f"{VERIFIERS}:verify_python"))(code, 1))
    assert seconds is None and problem in words


def test_a_right_program_may_use_up_its_values() -> None:
    code = (
        "def solve(values):\n    best = here = values.pop()\n    while values:\n"
        "        here = max(0, here) + values.pop()\n        best = max(best, here)\n"
        "    return best"
    )
    seconds, words, _ = cast(list[Any], load(parse(f"{VERIFIERS}:verify_python"))(code, 1))
    assert seconds is not None and not words


@pytest.mark.parametrize("fence", ["```", "```python", "```python ", "```python\r"])
def test_a_program_is_found_in_an_answer(fence: str) -> None:
    program_in: Any = load(parse(f"{VERIFIERS}:program_in"))
    assert program_in(f"Here it is:\n{fence}\ncode\n```\nDone.") == "code\n"


def test_a_verifier_knows_the_right_answer_of_all_tests() -> None:
    cases, largest = (load(parse(f"{VERIFIERS}:{name}")) for name in ("cases", "largest_sum"))
    tests, timed = cast(Any, cases(3))
    for values in [*tests, *(each[:60] for each in timed)]:
        ends = range(1, len(values) + 1)
        assert largest(values) == max(sum(values[a:b]) for b in ends for a in range(b))


def test_programs_in_c_are_compiled_and_measured() -> None:
    verify: Any = load(parse(f"{VERIFIERS}:verify_c"))
    tasks: Any = vars(sys.modules[verify.__module__])["TASKS"]
    seconds, problem, _ = verify(tasks["c"].plain, 1)
    assert seconds or "install that compiler" in problem
    assert verify("int solve(", 1)[0] is None


def test_a_program_writes_no_more_than_it_may(tmp_path: Path) -> None:
    run_limited: Any = load(parse(f"{VERIFIERS}:run_limited"))
    code = "open('much', 'wb').write(bytes(5 << 20))"
    ended = run_limited([sys.executable, "-c", code], "", tmp_path, 10)
    assert ended.code and "File too large" in ended.err


def is_running(pid: str) -> bool:
    """True if the process is there, and more than a row of the table that nobody has read."""
    try:
        state = (Path("/proc") / pid / "stat").read_text()
    except OSError:
        return False
    return state.rsplit(")", 1)[1].split()[0] != "Z"


def test_what_a_program_starts_ends_with_it(tmp_path: Path) -> None:
    run_limited: Any = load(parse(f"{VERIFIERS}:run_limited"))
    code = (
        "import os, subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(99)'])\n"
        "open('pid', 'w').write(str(child.pid))\nchild.wait()"
    )
    ended = run_limited([sys.executable, "-c", code], "", tmp_path, 1.5)
    assert ended.code is None and "did not end within 1.5 seconds" in ended.err
    while is_running((tmp_path / "pid").read_text()):  # until the kernel has done what it was told
        os.sched_yield()


EVERY = sorted(path.stem for path in EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("example", EVERY)
def test_every_example_says_how_to_run_it(example: str) -> None:
    text = (EXAMPLES / f"{example}.py").read_text()
    assert f"appl run examples/{example}.py" in text.split('"""')[1]


@pytest.mark.parametrize("example", EVERY)
def test_every_prompt_function_has_a_graph(example: str, place: Place) -> None:
    names = re.findall(
        r"^@ppl.*\n(?:async )?def (\w+)", (EXAMPLES / f"{example}.py").read_text(), re.M
    )
    graphs = [place.appl("graph", f"{EXAMPLES / example}.py:{name}")[0] for name in names]
    assert any(re.search(r"%\d+ (gen|select) ", graph) for graph in graphs)


def test_the_interview_is_the_program_of_the_first_page() -> None:
    block = (ROOT / "docs" / "index.md").read_text().split("```python\n")[1].split("```")[0]
    wanted = [line.split("#")[0].rstrip() for line in block.splitlines() if line.strip()]
    have = [
        line.split("#")[0].rstrip() for line in (EXAMPLES / "interview.py").read_text().splitlines()
    ]
    assert [line for line in wanted if line not in have] == []


def test_the_problems_say_how_they_were_made() -> None:
    assert (
        "generator.py --skill arithmetic --held-out"
        in (EXAMPLES / "self_consistency.py").read_text()
    )
    assert len((EXAMPLES / "problems.jsonl").read_text().splitlines()) == 40


def test_the_graph_on_the_first_page_is_the_one_that_is_printed(place: Place) -> None:
    shown = (ROOT / "docs" / "index.md").read_text().split("**Graph**")[1].split("```\n")[1]
    out, _ = place.appl("graph", f"{EXAMPLES / 'interview.py'}:interview")
    assert out.replace(f"{ROOT}/", "") == shown

"""The rules of ``appl check``: each speaks on the program it is for, and is silent on its neighbour."""

from __future__ import annotations

import sys
import textwrap

import pytest

from appl.compiler.lint import ALL_RULES, check_text

HEAD = """\
import asyncio, os, random, requests, subprocess, time, urllib.request, uuid
from datetime import datetime
from appl import AIRole, SystemMessage, SystemRole, call, gen, grow, map as pmap, observe, ppl
from appl import records, select

@ppl
def answer(q):
    f"{q}"
    return gen()

@ppl(ctx="same")
def turn(q):
    f"{q}"

@ppl
def think(q):
    f"{q}"
    return gen().strip()

@ppl
def thinks(q):
    return think(q) + "!"

@ppl(parallel=True)
def beside(q):
    f"{q}"
    return gen().strip()

def helper() -> str:
    return "x"

def introduce():
    "You are a guide."

class Thing:
    name = "thing"

async def fetch():
    return "x"

def number() -> int:
    return 1

@ppl
def f(qs, doc="", stack=()):
"""


def found(body: str, head: str = HEAD) -> list[str]:
    text = head + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n"
    return [each.rule for each in check_text("f.py", text)]


LONG = "rule " * 60

SPEAKS = {
    "serial-wait": [
        "for q in qs:\n    a = answer(q)\n    print(a)",
        "return [str(answer(q)) for q in qs]",
        "out = []\nfor q in qs:\n    if answer(q) == 'yes':\n        out.append(q)\nreturn out",
        "for q in qs:\n    a = answer(q)\n    b = answer(a)\n    print(a, b)",
    ],
    "region-wait": [
        "try:\n    a = answer(qs)\nexcept ValueError:\n    a = ''\nb = answer(doc)\nreturn a, b",
        "with open(doc) as file:\n    a = answer(qs)\nreturn a, answer(doc)",
        "out = []\nfor q in qs:\n    try:\n        out.append(answer(q))\n    except ValueError:\n"
        "        out.append('')\nreturn out",
    ],
    "late-constant": [
        f"f'Text: {{doc}}'\n'{LONG}'\nreturn gen()",
        f"f'Short: {{doc}} {LONG}'\n'{LONG}'\nreturn gen()",
    ],
    "begun-form": [
        "with AIRole():\n    f'Age: {gen(response_format=int)}'",
        "with AIRole():\n    'Age:'\n    gen(regex='[0-9]+')",
        "with AIRole():\n    'Age:'\n    x = gen(grammar='g')\n    f'{x}'",
    ],
    "empty-prompt": [
        '"""Answer."""\nreturn gen()',
        "prompt = f'Answer {doc}'\nreturn gen()",
        "introduce()\nreturn gen()",
        "print('Answer this.')\nreturn gen()",
    ],
    "unsaid-text": [
        "s = SystemMessage('Be brief.')\nf'{doc}'\nreturn gen()",
        "question = f'What is {doc}?'\n'Answer.'\nreturn gen()",
        "introduce()\nf'{doc}'\nreturn gen()",
    ],
    "not-text": [
        "f'{answer}'\nreturn gen()",
        "helper\nreturn gen()",
        "f'{os}'\nreturn gen()",
        "f'{Thing}'\nreturn gen()",
        "f'{(q for q in qs)}'\nreturn gen()",
        "f'{fetch()}'\nreturn gen()",
        "fetch()\nreturn gen()",
        "AIRole()\nf'{doc}'\nreturn gen()",
        "doc == 'x' and 'Be brief.'\nreturn gen()",
    ],
    "lost-answer": ["f'{doc}'\ngen()", "f'{doc}'\nselect(qs)"],
    "accidental-text": ["stack.pop()", "helper()", "input('?')\nreturn gen()  # appl: ignore"],
    "unused-result": ["a = gen()", "a: object = answer(qs)\nreturn qs"],
    "undeclared-input": [
        "f'{random.choice(qs)}'",
        "f'{datetime.now()}'",
        "f'{time.time()}'",
        "x = uuid.uuid4()\nreturn x",
        "return os.getenv('X')",
    ],
    "blocking-call": [
        "time.sleep(1)",
        "f'{requests.get(doc).text}'\nreturn gen()",
        "page = urllib.request.urlopen(doc).read()\nf'{page}'\nreturn gen()",
        "return subprocess.run(['ls'], check=True)",
    ],
    "serial-calls": [
        "return [think(q) for q in qs]",
        "return [thinks(q) for q in qs]",
        "return {q: think(q) for q in qs}",
        "return list(think(q) for q in qs)",
        "out = []\nfor q in qs:\n    out.append(think(q))\nreturn out",
        "out = {}\nfor q in qs:\n    out[q] = think(f'{q}?')\nreturn out",
        "out = []\nfor q in qs:\n    a = think(q)\n    if a:\n        out.append(a)\nreturn out",
        "return [[think(q) for q in part] for part in qs]",
    ],
    "late-failure": [
        "def safe(q):\n    try:\n        return answer(q)\n    except ValueError:\n"
        "        return ''\nreturn map(safe, qs)",
    ],
    "unrecorded-timer": [
        "async def late():\n    async with asyncio.timeout_at(doc):\n        pass\nreturn call(late)",
    ],
    "set-order": ["return [answer(q) for q in set(qs)]", "for q in {'a', 'b'}:\n    f'{q}'"],
}

SILENT = [
    "with AIRole():\n    f'Age: {gen(stop=chr(10))}'\nreturn records()",
    "with AIRole():\n    gen(response_format=int)\nreturn records()",
    "with AIRole():\n    f'{gen(response_format=int)} years'\nreturn records()",
    "return [str(turn(q)) for q in qs]",
    "return [beside(q) for q in qs]",
    "return pmap(think, qs)",
    "return [call(think, q) for q in qs]",
    "a = doc\nfor q in qs:\n    a = think(a + q)\nreturn a",
    "seen = []\nfor q in qs:\n    seen.append(think(str(seen)))\nreturn seen",
    "for q in qs:\n    if think(q) == 'yes':\n        break\nreturn q",
    "for q in qs:\n    if think(q) == 'yes':\n        return q",
    "a = doc\nwhile a:\n    a = think(a)\nreturn a",
    "def think(q):\n    return q\nreturn [think(q) for q in qs]",
    "a = think(doc)\nb = think(a)\nreturn a, b",
    "return [str(a) for a in [answer(q) for q in qs]]",
    "return [answer(q) for q in qs]",
    "answers = [answer(q) for q in qs]\nfor a in answers:\n    print(a)",
    "seen = ''\nfor q in qs:\n    seen += str(answer(seen))\nreturn seen",
    "for q in qs:\n    f'{q}'\n    with AIRole():\n        (a := gen())\n    print(a)",
    "for q in qs:\n    a = answer(q)\n    if 'yes' in a:\n        break\nreturn a",
    "for q in qs:\n    if answer(q) == 'yes':\n        return q",
    "while True:\n    a = answer(qs)\n    if a:\n        return a",
    "try:\n    a = answer(qs)\nexcept ValueError:\n    a = ''\nreturn answer(a)",
    "try:\n    a = answer(qs)\nexcept ValueError:\n    a = ''\nreturn a",
    f"'{LONG}'\nf'Text: {{doc}}'\nreturn gen()",
    f"f'Text: {{doc}}'\nSystemMessage('{LONG}')\nreturn gen()",
    f"f'Text: {{doc}}'\nwith SystemRole():\n    '{LONG}'\nreturn gen()",
    f"f'Text: {{doc}}'\nreturn gen(), '{LONG}'",
    "stack.append(1)\nnumber()\nanswer(qs)\ngrow(helper())",
    "_ = gen()\na = gen()\nreturn a",
    "s = SystemMessage('Be brief.')\ns\nreturn gen()",
    "messages = [SystemMessage('Be brief.')]\nreturn gen(messages=messages)",
    "prompt = f'Answer {doc}'\nreturn gen(messages=prompt)",
    "prompt = f'Answer {doc}'\ngrow(prompt)\nreturn gen()",
    "prompt = 'Answer.'\ndef inner():\n    return prompt\nreturn inner",
    "stack.introduce()\nprint('Answer this.')\nreturn gen()",
    "turn(doc)\nprint('Answer this.')\nreturn gen()",
    '"""Documentation."""\nreturn gen(messages=doc)',
    "f'{answer(doc)} {helper()} {Thing.name} {os.name} {str(fetch)}'\nreturn gen()",
    "helper = 'x'\nf'{helper}'\nreturn gen()",
    "with AIRole():\n    gen()\nreturn records()",
    "doc == 'x' and gen()\nreturn gen()",
    "a = answer(qs)\ndef inner():\n    return a\nreturn inner",
    "def fetch(url):\n    return requests.get(url).text\nf'{observe(fetch, doc)}'\nreturn gen()",
    "f'{observe(lambda: requests.get(doc).text)}'\nreturn gen()",
    "return random.Random(3).random(), datetime(2020, 1, 1), time.strftime",
    "return [answer(q) for q in sorted(set(qs))]",
]


@pytest.mark.parametrize(
    ("rule", "body"), [(rule, body) for rule, bodies in SPEAKS.items() for body in bodies]
)
def test_a_rule_speaks(rule: str, body: str) -> None:
    assert rule in found(body)


@pytest.mark.parametrize("body", SILENT)
def test_no_rule_speaks(body: str) -> None:
    assert found(body) == []


def test_every_rule_has_an_example() -> None:
    own = {"refused", "ruff-fix", "unknown-ignore", "unused-ignore"}
    assert set(ALL_RULES) == {*SPEAKS, *own}


def test_a_plain_function_is_not_looked_at() -> None:
    assert found("stack.pop()", "def f(stack):\n") == []


def test_a_refusal_has_its_place() -> None:
    text = 'from appl import ppl\n\n@ppl(ctx="same", parallel=True)\ndef f():\n    "x"\n'
    (finding,) = check_text("f.py", text)
    assert (finding.rule, finding.line, finding.column) == ("refused", 3, 2)
    assert "parallel=True" in finding.message


@pytest.mark.parametrize("text", ["def f(:\n", "x = '\0'\n"])
def test_a_file_that_is_not_python(text: str) -> None:
    (finding,) = check_text("f.py", text)
    assert finding.rule == "refused" and finding.line == 1


def test_a_comment_silences_its_line_and_rule() -> None:
    assert found("stack.pop()  # appl: ignore[accidental-text]") == []
    assert found("stack.pop()  # appl: ignore") == []
    assert found("stack.pop(\n    1,\n)  # appl: ignore[accidental-text]") == []


def test_a_comment_that_silences_nothing_is_told() -> None:
    assert found("stack.append(1)  # appl: ignore[accidental-text]") == ["unused-ignore"]
    assert found("stack.append(1)  # appl: ignore") == ["unused-ignore"]
    assert found("stack.pop()  # appl: ignore[set-order]") == ["accidental-text", "unused-ignore"]


def test_a_comment_with_a_typo_names_the_nearest() -> None:
    text = HEAD + "    stack.pop()  # appl: ignore[acidental-text]\n"
    unknown = next(f for f in check_text("f.py", text) if f.rule == "unknown-ignore")
    assert "did you mean 'accidental-text'?" in unknown.message


def test_a_string_that_looks_like_a_comment_is_none() -> None:
    assert found("stack.pop(), '# appl: ignore'") == []  # a tuple is not a call statement


def test_select_and_ignore() -> None:
    text = HEAD + "    stack.pop()\n    a = gen()\n"
    assert [f.rule for f in check_text("f.py", text, select=["unused-result"])] == ["unused-result"]
    assert [f.rule for f in check_text("f.py", text, ignore=["unused-result"])] == [
        "accidental-text"
    ]


def test_methods_and_nested_functions_are_looked_at() -> None:
    text = (
        "from appl import gen, ppl\n\nclass A:\n    @ppl\n    def f(self, x):\n        x.pop()\n\n"
        "def g():\n    @ppl\n    def h(x):\n        x.pop()\n"
    )
    assert [f.line for f in check_text("f.py", text)] == [6, 11]


def test_a_large_file_costs_what_its_functions_cost():
    def work(count: int) -> int:
        """The calls of Python functions that checking *count* functions takes."""
        body = '@ppl\ndef f{}(x):\n    "a"\n    for k in x:\n        y = gen()\n        if y:\n            "z"\n\n'
        text = "from appl import gen, ppl\n\n" + "".join(body.format(i) for i in range(count))
        calls = 0

        def count_calls(frame: object, event: str, arg: object) -> None:
            nonlocal calls
            calls += event == "call"

        sys.setprofile(count_calls)
        try:
            found = check_text("large.py", text)
        finally:
            sys.setprofile(None)
        assert len(found) == count
        return calls

    work(1)
    assert work(160) < 4.4 * work(40)


WRAPPERS = """\
import functools
from contextlib import contextmanager
from functools import cached_property as kept, wraps
from appl import gen, ppl

def loud(f):
    @functools.wraps(f)
    def inner(*args):
        return f(*args)
    return inner

def with_name(name):
    def outer(f):
        @wraps(f)
        def inner(*args):
            return f(*args)
        return inner
    return outer

def registered(f):
    return f

"""


@pytest.mark.parametrize(
    ("decorators", "said"),
    [
        ("@ppl\n@loud", "the wrapper that another decorator put around f(), and would"),
        ("@ppl(ctx='copy')\n@with_name('x')", "move @ppl down, right above `def f`"),
        ("@ppl\n@registered\n@loud", "move @ppl down"),
        ("@ppl\n@contextmanager", "move @ppl down"),
        ("@ppl\n@functools.lru_cache(maxsize=3)", "given a lru_cache object; swap the two lines"),
        ("@ppl\n@property", "given a property object; swap the two lines: @property above"),
        ("@ppl\n@kept", "given a cached_property object"),
        ("@loud\n@ppl", ""),
        ("@ppl\n@registered", ""),
        ("@ppl\n@staticmethod", ""),
        ("@ppl\n@app.tool", ""),
    ],
)
def test_ppl_stands_right_above_the_def(decorators: str, said: str) -> None:
    text = f'{WRAPPERS}{decorators}\ndef f():\n    "x"\n    return gen()\n'
    found = [each.message for each in check_text("a.py", text) if each.rule == "refused"]
    assert len(found) == bool(said) and said in "".join(found)


@pytest.mark.parametrize("magic", ["%matplotlib inline", "!pip install appl"])
def test_a_line_of_a_notebook_is_told(magic: str) -> None:
    (finding,) = check_text("a.py", f"import appl\n{magic}\n")
    assert (finding.rule, finding.line) == ("refused", 2)
    assert "nbconvert --to script" in finding.hint
    (other,) = check_text("a.py", "import appl\nx = = 1\n")
    assert other.hint == ""


@pytest.mark.parametrize(
    ("program", "rules"),
    [
        ("def f(q):\n    f'Name {q}'\n    return gen()\n", ["unsaid-text"]),
        ("def f(q):\n    'Documentation.'\n    return gen()\n", []),
        ("def f(q):\n    f'Name {q}'\n    return q\n", []),
        ("def f(q):\n    f'Name {q}'\n    return gen(messages=q)\n", []),
        (
            "@ppl\ndef g(q):\n    def f():\n        f'{q}'\n        return gen()\n    return f()\n",
            [],
        ),
        ('@ppl(ctx=\'copy\')\ndef f():\n    """Answer."""\n    return gen()\n', []),
        ('@ppl(docstring_as=\'user\')\ndef f():\n    """Answer."""\n    return gen()\n', []),
        ("@ppl(ctx='same')\ndef f():\n    'Answer.'\n    gen()\n", []),
    ],
)
def test_text_is_missed_only_where_nobody_says_it(program: str, rules: list[str]) -> None:
    text = f"from appl import gen, ppl\n\n{program}"
    assert [each.rule for each in check_text("f.py", text)] == rules


SCRIPT = """\
from appl import gen, ppl

@ppl
def think(q):
    f"{q}"
    return gen().strip()

@ppl
def answer(q):
    f"{q}"
    return gen()

"""


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        ("print([think(q) for q in ['a', 'b']])", "write `appl.map(think, ['a', 'b'])`"),
        ("print([think(q + '?') for q in 'ab'])", "write `call(think, q + '?')`"),
        ("print(list(map(think, 'ab')))", "@ppl(parallel=True) above think"),
        ("for q in 'ab':\n    print(think(q))", "write `call(think, q)`"),
        ("def main():\n    return [think(q) for q in 'ab']", "write `appl.map(think, 'ab')`"),
    ],
)
def test_calls_of_a_script_that_wait_one_after_the_other(code: str, advice: str) -> None:
    (finding,) = check_text("f.py", f"{SCRIPT}{code}\n")
    assert finding.rule == "serial-calls" and advice in finding.hint
    assert "think waits inside (line 6)" in finding.message


@pytest.mark.parametrize(
    "kept",
    ["return answer(q)", "out.append(answer(q))", "a = answer(q)", "d[q] = answer(q)",
     "return gen(messages=q)"],
)  # fmt: skip
def test_a_try_in_a_plain_function_that_catches_nothing_is_told(kept: str) -> None:
    code = f"def safe(q, out, d):\n    try:\n        {kept}\n    except Exception:\n        pass\n"
    (finding,) = check_text("f.py", SCRIPT + code)
    assert finding.rule == "late-failure" and "the `try` on line 14" in finding.message
    assert ".result()`" in finding.hint


@pytest.mark.parametrize(
    "read",
    [
        "return str(answer(q))",
        "a = answer(q)\n        print(a)",
        "return valued(q)",
        "return other(q)",
        "out.append(f'{answer(q)}')",
    ],
)
def test_a_try_that_reads_the_answer_is_not_told(read: str) -> None:
    valued = "@ppl\ndef valued(q) -> str:\n    f'{q}'\n    return gen()\n\n"
    code = f"def safe(q, out):\n    try:\n        {read}\n    except Exception:\n        pass\n"
    assert check_text("f.py", SCRIPT + valued + code) == []


@pytest.mark.parametrize(
    "code",
    [
        "print([answer(q) for q in 'ab'])",
        "from appl import map\nprint(list(map(think, 'ab')))",
        "think = str\nprint([think(q) for q in 'ab'])",
        "def main(think):\n    return [think(q) for q in 'ab']",
        "print(next(think(q) for q in 'ab'))",
        "@ppl\ndef turn(log, q):\n    f'{log}{q}'\n    log.append(str(gen()))\n\n"
        "log = []\nprint([turn(log, q) for q in 'ab'])",
    ],
)
def test_calls_of_a_script_that_do_not(code: str) -> None:
    assert check_text("f.py", f"{SCRIPT}{code}\n") == []


TIMED = "import asyncio\nimport time\n\nimport appl\nfrom appl import gen, ppl\n\n"
UVLOOP = "import uvloop\n" + TIMED
ASK = "@ppl\nasync def ask(q):\n    f'{q}'\n    return gen()\n\nasync def main(queue, event, task, q):\n"


@pytest.mark.parametrize(
    "wait",
    [
        "await asyncio.wait_for(queue.get(), 1)",
        "await asyncio.wait_for(event.wait(), timeout=1)",
        "await asyncio.wait_for(asyncio.shield(task), 1)",
        "await asyncio.wait({task}, timeout=1)",
        "async with asyncio.timeout(1): await task",
        "await asyncio.sleep(1)",
        "asyncio.get_running_loop().call_later(1, task.cancel)",
    ],
)
def test_timers_of_uvloop_are_told(wait: str) -> None:
    (finding,) = check_text("f.py", UVLOOP + ASK + f"    {wait}\n")
    assert finding.rule == "unrecorded-timer" and "uvloop" in finding.message
    assert "appl.sleep" in finding.hint or "appl.timeout" in finding.hint
    assert check_text("f.py", TIMED + ASK + f"    {wait}\n") == []


@pytest.mark.parametrize(
    "wait",
    [
        "await asyncio.wait_for(ask(q), 1)",
        "await asyncio.wait({task})",
        "async with appl.timeout(1): await task",
        "await appl.sleep(1)",
    ],
)
def test_waits_that_are_recorded_on_every_loop_are_not_told(wait: str) -> None:
    assert check_text("f.py", UVLOOP + ASK + f"    {wait}\n") == []


@pytest.mark.parametrize(
    "wait",
    [
        "async with asyncio.timeout_at(q): await task",
        "async with asyncio.timeout(q - time.monotonic()): await task",
        "await asyncio.wait_for(task, q - asyncio.get_running_loop().time())",
    ],
)
def test_timers_that_a_clock_may_have_strike_at_once_are_told(wait: str) -> None:
    (finding,) = check_text("f.py", TIMED + ASK + f"    {wait}\n")
    assert finding.rule == "unrecorded-timer" and "at once" in finding.message

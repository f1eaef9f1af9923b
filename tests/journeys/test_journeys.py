"""From an empty folder, with the built wheel: eleven first hours, and the path that the docs show."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import nbformat

from tests.docs.snippets import blocks, run_page

from .place import KEY, MODEL, ROOT, Newcomer
from .provider import provider

PATH_PAGE = ROOT / "docs" / "from-nothing.md"
MOST_ON_PATH = 8


def facts(question: str) -> str:
    """What the provider knows."""
    if "brass lamp" in question:
        return "34 dollars."
    known = {"name": "Mira Holt", "age": 61, "job": "baker"}
    return json.dumps(known if "Mira" in question else {"name": "Olaf", "age": 34, "job": "pilot"})


def block(name: str) -> str:
    """The program of README with this name."""
    return (ROOT / "README.md").read_text().split(f'title="{name}"\n')[1].split("```")[0]


def test_the_first_answer_with_a_key(starter: Newcomer) -> None:
    starter.writes("first.py", block("first.py"))
    command = f"appl run first.py --model openai/{MODEL}"
    _, told = starter.types(command, code=1)
    assert "no key; type export OPENAI_API_KEY=" in told and "Traceback" not in told
    with provider(facts) as server:
        starter.has_key_of(server.openai_url)
        out, told = starter.types(command)
    assert out == "Olaf, 34: pilot\nMira Holt, 61: baker\n34 dollars.\n"
    assert "3 done" in told and KEY not in told
    assert [ask.data["model"] for ask in server.asks] == [MODEL] * 3


def test_init_run_and_its_test(starter: Newcomer) -> None:
    _, told = starter.types("appl init")
    assert "appl run hello.py" in told and "pytest" in told
    assert {"appl.toml", "hello.py", "test_hello.py", ".gitignore"} <= set(starter.files())
    assert starter.types("appl run hello.py")[0] == "Mira Holt\n"
    assert "1 passed" in starter.types("pytest")[0]


def test_one_question(newcomer: Newcomer) -> None:
    with provider(lambda _: "Because of Rayleigh.") as server:
        newcomer.has_key_of(server.openai_url)
        out, told = newcomer.types(f"appl ask 'Why is the sky blue?' --model {MODEL}")
    assert out == "Because of Rayleigh.\n"
    assert f"asked as 'openai/{MODEL}' with the key in OPENAI_API_KEY" in told
    assert "cost unknown" in told  # no price is known at this address
    assert [ask.question for ask in server.asks] == ["Why is the sky blue?"]
    shown, _ = newcomer.types("appl trace show")
    assert "Because of Rayleigh." in shown and "finished" in shown


def test_a_chat_remembers(newcomer: Newcomer) -> None:
    with provider(lambda question: f"You said {question}") as server:
        newcomer.has_key_of(server.openai_url)
        out, _ = newcomer.types(
            f"appl chat --model openai/{MODEL}", "I am Tom.\nWho am I?\n/quit\n"
        )
    assert "You said I am Tom." in out and "You said Who am I?" in out
    said = [message["content"] for message in server.asks[1].data["messages"]]
    assert said == ["I am Tom.", "You said I am Tom.", "Who am I?"]


TICKET = f"""
import json
from dataclasses import asdict, dataclass

from appl import gen, ppl

@dataclass
class Ticket:
    title: str
    priority: int

@ppl(model="openai/{MODEL}")
def read(text: str) -> Ticket:
    f"Make a ticket of this. {{text}}"
    return gen(response_format=Ticket)

ticket = read("The door of the mill is stuck.")
assert isinstance(ticket, Ticket)
print(json.dumps(asdict(ticket)), ticket.priority + 1, " ".join([ticket.title]))
"""


def test_a_typed_answer(newcomer: Newcomer) -> None:
    newcomer.writes("ticket.py", TICKET)
    answer = {"title": "Stuck door", "priority": 2}
    with provider(lambda _: json.dumps(answer)) as server:
        newcomer.has_key_of(server.openai_url)
        out, _ = newcomer.types("python ticket.py")
    assert out == f"{json.dumps(answer)} 3 Stuck door\n"
    assert "priority" in json.dumps(server.asks[0].data["response_format"])


AGENT = """
import time

from appl import gen, map, observe, ppl

def fetch(name: str) -> str:
    with open("fetched.txt", "a") as file:
        file.write(name + "\\n")
    time.sleep(0.8)
    return f"{name} bakes."

@ppl
def job(name: str):
    f"Facts: {FETCH}"
    f"What does {name} do?"
    return gen()

def main():
    return [str(answer) for answer in map(job, ["Ada", "Ben", "Cy", "Dan"], progress=False)]
"""


def test_an_agent_with_a_blocking_tool(newcomer: Newcomer) -> None:
    """What the advice says to write: the tool runs again in no replay."""
    fetched = newcomer.folder / "fetched.txt"
    with provider(lambda question: "Bakes.") as server:
        newcomer.has_key_of(server.openai_url)
        newcomer.writes("agent.py", AGENT.replace("FETCH", "fetch(name)"))
        _, told = newcomer.types(f"appl run agent.py --model openai/{MODEL}")
        assert re.search(r"agent\.py:14: `fetch\(name\)` in job\(\) blocked its thread", told), told
        (advice,) = re.findall(r"Write `(.*?)`", told)
        fetched.unlink()
        newcomer.writes("agent.py", AGENT.replace("FETCH", advice))
        out, told = newcomer.types(f"appl run agent.py --model openai/{MODEL}")
    assert out == "Bakes.\n" * 4 and "blocked" not in told
    assert "Ada bakes." in json.dumps([ask.data for ask in server.asks[4:]])
    assert sorted(fetched.read_text().split()) == ["Ada", "Ben", "Cy", "Dan"]
    again, told = newcomer.types("appl trace replay")
    assert again == out and "replayed 4 calls, 0 live" in told
    assert len(server.asks) == 8 and len(fetched.read_text().split()) == 4


def test_a_notebook(starter: Newcomer) -> None:
    book = nbformat.v4.new_notebook()
    setup, ask = block("first.py").split("def main")[0], "answer('What does the brass lamp cost?')"
    book.cells = [nbformat.v4.new_code_cell(each) for each in (setup, ask)]
    starter.writes("book.ipynb", nbformat.writes(book))
    starter.writes("appl.toml", f'model = "openai/{MODEL}"\n')
    with provider(facts) as server:
        starter.has_key_of(server.openai_url)
        starter.types("jupyter-execute --inplace book.ipynb")
    (_, cell) = nbformat.read(starter.folder / "book.ipynb", 4).cells
    shown = [output["data"]["text/plain"] for output in cell.outputs if "data" in output]
    assert shown[0] == "'34 dollars.'"
    assert len(server.asks) == 1


SURVEY = """
from appl import gen, ppl

@ppl
def ask(question: str) -> str:
    f"{question}"
    return gen()

def main():
    return [ask(f"Question {number}?") for number in range(4)]
"""


def test_a_crash_and_the_same_command_again(starter: Newcomer) -> None:
    def answer(question: str) -> str:
        if question == "Question 2?" and len(starter.commands) == 1:
            assert starter.process is not None
            while starter.answered() < 2:  # an answer is written some ms after it has come
                time.sleep(0)
            starter.process.kill()
        return f"To {question}"

    starter.writes("survey.py", SURVEY)
    command = f"appl run survey.py --model openai/{MODEL}"
    with provider(answer) as server:
        starter.has_key_of(server.openai_url)
        starter.types(command, code=-9)
        out, told = starter.types(command)
    assert out == "".join(f"To Question {number}?\n" for number in range(4))
    assert "going on with" in told and "4 done" in told and "2 of them from the record" in told
    assert [ask.question[9] for ask in server.asks] == ["0", "1", "2", "2", "3"]


def test_a_test_from_a_run(newcomer: Newcomer) -> None:
    newcomer.writes("survey.py", SURVEY)
    with provider() as server:
        newcomer.has_key_of(server.openai_url)
        newcomer.types(f"appl run survey.py --model openai/{MODEL}")
    del newcomer.env["OPENAI_API_KEY"]
    _, told = newcomer.types("appl trace export-test")
    assert "test_survey.py" in told
    assert "1 passed" in newcomer.types("pytest")[0]


PAIR = f"""
from appl import gen, ppl

@ppl
def ask(model: str) -> str:
    "Who are you?"
    return gen(model)

print(ask("openai/{MODEL}"), ask("lan/zz"), sep="\\n")
"""
LAN_KEY = "sk-of-the-lan-0815"


def test_two_providers_in_one_run(newcomer: Newcomer) -> None:
    newcomer.writes("pair.py", PAIR)
    with (
        provider(lambda _: "The public one.") as public,
        provider(lambda _: "The lan's.", model="zz", key=LAN_KEY) as lan,
    ):
        newcomer.has_key_of(public.openai_url)
        newcomer.env["LAN_KEY"] = LAN_KEY
        url = lan.openai_url
        newcomer.writes(
            "appl.toml",
            f'[backends.lan]\ntype = "openai"\nbase_url = "{url}"\napi_key = {{env = "LAN_KEY"}}\n',
        )
        out, told = newcomer.types("python pair.py")
    assert out == "The public one.\nThe lan's.\n" and not {KEY, LAN_KEY} & set(told.split())
    assert (len(public.asks), len(lan.asks)) == (1, 1)


OLDER = """\
default_servers: {default: gpt-4o-mini}
servers:
  local: {model: zz, base_url: "URL", api_key: os.environ/LAN_KEY}
"""
OLDER_PROGRAM = """
from appl import gen, ppl

@ppl
def ask(*server):
    "Who are you?"
    return gen(*server)

print(ask(), ask("local"), sep="\\n")
"""


def test_a_settings_file_of_appl(newcomer: Newcomer) -> None:
    newcomer.writes("older.py", OLDER_PROGRAM)
    with (
        provider(lambda _: "The public one.", model="gpt-4o-mini") as public,
        provider(lambda _: "The local one.", model="zz", key=LAN_KEY) as local,
    ):
        newcomer.has_key_of(public.openai_url)
        newcomer.env["LAN_KEY"] = LAN_KEY
        newcomer.writes("appl.yaml", OLDER.replace("URL", local.openai_url))
        out, _ = newcomer.types("python older.py")
    assert out == "The public one.\nThe local one.\n"
    assert (len(public.asks), len(local.asks)) == (1, 1)


def test_every_command_of_the_path_prints_what_its_page_says(tmp_path: Path, loaded: Path) -> None:
    """``.ci/run`` installs with the page's own command, and does the same."""
    (tmp_path / "empty").mkdir()
    assert run_page(PATH_PAGE, tmp_path / "empty", loaded, sources=False) == []


def test_the_path_is_short_and_reaches_all_its_ends() -> None:
    commands = [
        line.removeprefix("$ ")
        for each in blocks(PATH_PAGE.read_text("utf-8"))
        for line in each.text.splitlines()
        if each.language == "sh" or (each.language == "console" and line.startswith("$ "))
    ]
    assert len(commands) <= MOST_ON_PATH, commands
    steps = iter(commands)
    for end in ("pip install", "appl run", "appl trace view", "appl trace export-test", "pytest",
                "appl serve", "curl"):  # fmt: skip
        assert any(step.startswith(end) for step in steps), (end, commands)


def test_the_program_of_the_path_is_that_of_the_readme() -> None:
    titled = {each.title: each.text for each in blocks(PATH_PAGE.read_text("utf-8"))}
    assert titled["first.py"] == block("first.py")

"""Sixty slips of newcomers: a small program as they write it, and what they have to be told.

The line that the message has to name ends with ``# here``. ``says`` are parts of the message: what
was got, what was meant, what to write.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Slip:
    """A program with a slip, and the message that it deserves.

    *rules* are those of ``appl check`` that speak of it. *words* are the command after ``appl``,
    ``python`` as the first of them runs Python in a process of its own. *files* lie beside it.
    """

    name: str
    program: str
    says: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    words: tuple[str, ...] = ("run", "slip.py", "--backend", "appl.testing:Echo")
    files: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def line(self) -> int | None:
        """The line that the message has to name, if it is about a line."""
        for number, text in enumerate(self.program.splitlines(), 1):
            if text.endswith("# here"):
                return number
        return None

    def names_its_line(self, told: str) -> bool:
        """Whether *told* names the line, as Python or as a tool does."""
        return f'", line {self.line}' in told or f"slip.py:{self.line}" in told


SLIPS = [
    # -- text that does not reach the prompt
    Slip(
        "the prompt is a docstring",
        '''
from appl import gen, ppl

@ppl
def main():
    """Name the capital of France."""
    return gen()  # here
''',
        ("docstring", 'docstring_as="user"'),
        rules=("empty-prompt",),
    ),
    Slip(
        "the prompt is assigned",
        """
from appl import gen, ppl

@ppl
def main(country: str = "France"):
    prompt = f"Name the capital of {country}."
    return gen()  # here
""",
        ("assigned to `prompt`", "on a line of its own"),
        rules=("unsaid-text",),
    ),
    Slip(
        "the prompt is said in a plain function",
        """
from appl import gen, ppl

def introduce():
    "You know every capital."

@ppl
def main():
    introduce()
    return gen()  # here
""",
        ("introduce()", 'write @ppl(ctx="same") above `def introduce`'),
        rules=("empty-prompt",),
    ),
    Slip(
        "the prompt is printed",
        """
from appl import gen, ppl

@ppl
def main():
    print("Name the capital of France.")
    return gen()  # here
""",
        ("is printed", "without print()"),
        rules=("empty-prompt",),
    ),
    Slip(
        "the prompt is yielded",
        """
from appl import gen, ppl

@ppl
def ask():
    yield "Name the capital of France."
    yield gen()  # here

def main():
    return [str(item) for item in ask()]
""",
        ("is yielded", "without yield"),
    ),
    Slip(
        "gen outside of a prompt function",
        """
from appl import gen

def main():
    "Name the capital of France."
    return gen()  # here
""",
        ("outside of every prompt function", "write @ppl above `def main`"),
    ),
    Slip(
        "as_completed is given answers",
        """
import appl
from appl import gen, ppl

@ppl
def ask(q: str):
    f"{q}?"
    return gen()

def main():
    return list(appl.as_completed([ask("a")]))  # here
""",
        ("'items'", "appl.as_completed(f, items)"),
    ),
    Slip(
        "an answer is taken for a dict",
        """
from appl import gen, ppl

@ppl
def ask(q: str):
    f"{q}?"
    return gen()

def main():
    return ask("a")["x"]  # here
""",
        ("string indices must be integers",),
    ),
    Slip(
        "a name of appl is misspelt",
        """
import appl

def main():
    return appl.as_complete(str, [1])  # here
""",
        ("no attribute 'as_complete'", "did you mean 'as_completed'?"),
    ),
    Slip(
        "a message is made and not said",
        """
from appl import SystemMessage, gen, ppl

@ppl
def main():
    system = SystemMessage("Answer with one word.")  # here
    "Name the capital of France."
    return gen()
""",
        ("nothing says or reads `system`", "leave out `system =`"),
        rules=("unsaid-text",),
    ),
    Slip(
        "a role is made and not entered",
        """
from appl import AIRole, gen, ppl

@ppl
def main():
    "Name the capital of France."
    AIRole()  # here
    "The capital is"
    return gen()
""",
        ("write `with AIRole():`",),
        rules=("not-text",),
    ),
    Slip(
        "a list is made and not entered",
        """
from appl import NumberedList, gen, ppl

@ppl
def main():
    NumberedList()  # here
    "first"
    "second"
    return gen()
""",
        ("write `with NumberedList():`",),
        rules=("not-text",),
    ),
    Slip(
        "a condition and a text",
        """
from appl import gen, ppl

@ppl
def main(brief: bool = False):
    "Name the capital of France."
    brief and "Answer with one word."  # here
    return gen()
""",
        ("got False", "write `if brief:`"),
    ),
    # -- what is no text
    Slip(
        "a coroutine is a statement",
        """
from appl import gen, ppl

async def fetch() -> str:
    return "a page"

@ppl
def main():
    fetch()  # here
    "Summarise the page."
    return gen()
""",
        ("coroutine object fetch", "write await fetch()"),
        rules=("not-text",),
    ),
    Slip(
        "a coroutine in an f-string",
        """
from appl import gen, ppl

async def fetch() -> str:
    return "a page"

@ppl
def main():
    f"Summarise: {fetch()}"  # here
    return gen()
""",
        ("coroutine object fetch", "write {await fetch()}"),
        rules=("not-text",),
    ),
    Slip(
        "a function is a statement",
        """
from appl import gen, ppl

def today() -> str:
    return "Monday"

@ppl
def main():
    today  # here
    return gen()
""",
        ("function today", "write today()"),
        rules=("not-text",),
    ),
    Slip(
        "a function in an f-string",
        """
from appl import gen, ppl

def today() -> str:
    return "Monday"

@ppl
def main():
    f"Today is {today}."  # here
    return gen()
""",
        ("function today", "write {today()}"),
        rules=("not-text",),
    ),
    Slip(
        "a prompt function in an f-string",
        """
from appl import gen, ppl

@ppl
def capital(country: str):
    f"Name the capital of {country}."
    return gen()

@ppl
def main():
    f"Write about {capital}."  # here
    return gen()
""",
        ("function capital", "write {capital()}"),
        rules=("not-text",),
    ),
    Slip(
        "a method in an f-string",
        """
from appl import gen, ppl

@ppl
def main(name: str = "anna"):
    f"Greet {name.title}."  # here
    return gen()
""",
        ("built-in method title", "write {name.title()}"),
    ),
    Slip(
        "a class in an f-string",
        """
from appl import gen, ppl

class Ticket:
    title = "Printer"

@ppl
def main():
    f"Answer this: {Ticket}"  # here
    return gen()
""",
        ("class 'slip.Ticket'", "write {Ticket(...)}"),
        rules=("not-text",),
    ),
    Slip(
        "an object without a text in an f-string",
        """
from appl import gen, ppl

class Ticket:
    def __init__(self, title):
        self.title = title

@ppl
def main():
    ticket = Ticket("Printer")
    f"Answer this: {ticket}"  # here
    return gen()
""",
        ("Ticket object", "write {ticket.title}", "__str__"),
    ),
    Slip(
        "an object without a text is a statement",
        """
from appl import gen, ppl

class Ticket:
    def __init__(self, title):
        self.title = title

@ppl
def main():
    ticket = Ticket("Printer")
    ticket  # here
    return gen()
""",
        ("type Ticket", "write ticket.title"),
    ),
    Slip(
        "a list of objects without a text in an f-string",
        """
from appl import gen, ppl

class Ticket:
    def __init__(self, title):
        self.title = title

@ppl
def main():
    tickets = [Ticket("Printer"), Ticket("Mouse")]
    f"Answer these: {tickets}"  # here
    return gen()
""",
        ("Ticket object", "__repr__"),
    ),
    Slip(
        "a generator in an f-string",
        """
from appl import gen, ppl

@ppl
def main(words: list[str] = ["one", "two"]):
    f"Spell these: {(word.upper() for word in words)}"  # here
    return gen()
""",
        ("generator object", "write {list("),
        rules=("not-text",),
    ),
    Slip(
        "a map in an f-string",
        """
from appl import gen, ppl

@ppl
def main(words: list[str] = ["one", "two"]):
    f"Spell these: {map(str.upper, words)}"  # here
    return gen()
""",
        ("map object", "write {list("),
    ),
    Slip(
        "a module in an f-string",
        """
import datetime
from appl import gen, ppl

@ppl
def main():
    f"Today is {datetime}."  # here
    return gen()
""",
        ("module 'datetime'", "datetime is a module"),
        rules=("not-text",),
    ),
    Slip(
        "a dict is a statement",
        """
from appl import gen, ppl

@ppl
def main():
    {"role": "user", "content": "Name the capital of France."}  # here
    return gen()
""",
        ("type dict", "write UserMessage(...)"),
    ),
    Slip(
        "a number is a statement",
        """
from appl import gen, ppl

@ppl
def main(count: int = 3):
    "How many are these?"
    count  # here
    return gen()
""",
        ("type int", 'write f"{count}"'),
    ),
    Slip(
        "a list with numbers is a statement",
        """
from appl import gen, ppl

@ppl
def main():
    "Add these."
    [1, 2, 3]  # here
    return gen()
""",
        ("type int in a bare list", 'write [f"{item}" for item in [1, 2, 3]]'),
    ),
    # -- answers that get lost
    Slip(
        "the answer is not returned",
        """
from appl import gen, ppl

@ppl
def capital(country: str):
    f"Name the capital of {country}."
    gen()  # here

def main():
    print(capital("France"))
""",
        ("capital() returns nothing", "write return gen()"),
        rules=("lost-answer",),
    ),
    Slip(
        "the function is returned and not called",
        """
from appl import gen, ppl

@ppl
def capital(country: str = "France"):
    f"Name the capital of {country}."
    return gen()

def main():
    return capital
""",
        ("returned the function capital", "write capital()"),
    ),
    # -- options of gen
    Slip(
        "a misspelled option",
        """
from appl import gen, ppl

@ppl
def main():
    "Name the capital of France."
    return gen(temprature=0)  # here
""",
        ("no option 'temprature'", "did you mean 'temperature'"),
    ),
    Slip(
        "the prompt is the first argument",
        """
from appl import gen, ppl

@ppl
def main():
    return gen("Name the capital of France.")  # here
""",
        ("the name of a model", "write a prompt as a statement"),
    ),
    Slip(
        "the prompt is an option",
        """
from appl import gen, ppl

@ppl
def main():
    return gen(prompt="Name the capital of France.")  # here
""",
        ("no option 'prompt'", "gen(messages=...)"),
    ),
    Slip(
        "a number as text",
        """
from appl import gen, ppl

@ppl
def main():
    "Name the capital of France."
    return gen(max_tokens="100")  # here
""",
        ("takes a whole number, got '100'",),
    ),
    Slip(
        "a role that does not exist",
        """
from appl import gen

def main():
    return gen(messages=[{"role": "human", "content": "Hello"}])  # here
""",
        ("role of system, user, assistant, tool", "'human'"),
    ),
    Slip(
        "a message without content",
        """
from appl import gen

def main():
    return gen(messages=[{"role": "user", "text": "Hello"}])  # here
""",
        ("text or a list of parts as content", "'text': 'Hello'"),
    ),
    Slip(
        "an example in place of a type",
        """
from dataclasses import dataclass
from appl import gen, ppl

@dataclass
class Ticket:
    title: str = ""

@ppl
def main():
    "The printer is broken."
    return gen(response_format=Ticket())  # here
""",
        ("an object and no type", "write response_format=Ticket, without the call"),
    ),
    Slip(
        "the name of a type",
        """
from dataclasses import dataclass
from appl import gen, ppl

@dataclass
class Ticket:
    title: str = ""

@ppl
def main():
    "The printer is broken."
    return gen(response_format="Ticket")  # here
""",
        ("takes a type", "got 'Ticket'"),
    ),
    Slip(
        "a dict of names in place of a schema",
        """
from appl import gen, ppl

@ppl
def main():
    "The printer is broken."
    return gen(response_format={"title": str})  # here
""",
        ("a dict of types is no schema", "as a dataclass"),
    ),
    Slip(
        "choices are one text",
        """
from appl import gen, ppl

@ppl
def main():
    "Is Paris a city?"
    return gen(choices="yes or no")  # here
""",
        ("takes a list of strings", "'yes or no'"),
    ),
    Slip(
        "choices are arguments",
        """
from appl import ppl, select

@ppl
def main():
    "Is Paris a city?"
    return select("yes", "no")  # here
""",
        ("takes a list of strings", "'yes'"),
    ),
    Slip(
        "a tool is called and not given",
        """
from appl import gen, ppl

def weather(city: str = "Paris") -> str:
    "The weather in a city."
    return "sunny"

@ppl
def main():
    "What is the weather in Paris?"
    return gen(tools=[weather()])  # here
""",
        ("a tool is a function", "got 'sunny'"),
    ),
    Slip(
        "a tool without types",
        """
from appl import gen, ppl

def weather(*places):
    return "sunny"

@ppl
def main():
    "What is the weather in Paris?"
    return gen(tools=[weather])  # here
""",
        ("takes *places", "names its parameters"),
    ),
    Slip(
        "a time limit below zero",
        """
from appl import gen, ppl

@ppl
def main():
    "Name the capital of France."
    return gen(timeout=-1)  # here
""",
        ("must be at least 0, got -1",),
    ),
    # -- messages, roles, formats
    Slip(
        "a role without parentheses",
        """
from appl import AIRole, gen, ppl

@ppl
def main():
    "Name the capital of France."
    with AIRole:  # here
        "The capital is"
    return gen()
""",
        ("write `with AIRole():`",),
    ),
    Slip(
        "messages are added",
        """
from appl import SystemMessage, UserMessage, gen, ppl

@ppl
def main():
    SystemMessage("Be brief.") + UserMessage("Hello")  # here
    return gen()
""",
        ("SystemMessage + UserMessage", "write each as a statement of its own"),
    ),
    Slip(
        "a message and a text are added",
        """
from appl import UserMessage, gen, ppl

@ppl
def main():
    message = UserMessage("Hello")
    message + "Anna"  # here
    return gen()
""",
        ("UserMessage + str", "write each as a statement of its own"),
    ),
    Slip(
        "a message of an unknown role",
        """
from appl import Message, gen, ppl

@ppl
def main():
    Message("assistent", "Hello")  # here
    return gen()
""",
        ("got 'assistent'", "did you mean 'assistant'"),
    ),
    Slip(
        "a context that does not exist",
        """
from appl import gen, ppl

@ppl(ctx="cpoy")  # here
def main():
    "Hello"
    return gen()
""",
        ("ctx='cpoy'", "new, copy, same, resume"),
    ),
    Slip(
        "an option of ppl that does not exist",
        """
from appl import gen, ppl

@ppl(context="copy")  # here
def main():
    "Hello"
    return gen()
""",
        ("no option 'context'", "did you mean 'ctx'"),
    ),
    # -- answers in plain Python
    Slip(
        "json.dumps of an answer",
        """
import json
from appl import gen, ppl

@ppl
def capital():
    "Name the capital of France."
    return gen()

def main():
    return json.dumps({"answer": capital()})  # here
""",
        ("Generation", "write str(answer)"),
    ),
    Slip(
        "re.search in an answer",
        """
import re
from appl import gen, ppl

@ppl
def capital():
    "Name the capital of France."
    return gen()

def main():
    return bool(re.search("France", capital()))  # here
""",
        ("Generation", "write str(answer)"),
    ),
    Slip(
        "join of answers",
        """
from appl import gen, ppl

@ppl
def capital():
    "Name the capital of France."
    return gen()

def main():
    return ", ".join([capital(), capital()])  # here
""",
        ("Generation", "write str(answer)"),
    ),
    Slip(
        "write of an answer",
        """
from appl import gen, ppl

@ppl
def capital():
    "Name the capital of France."
    return gen()

def main():
    with open("answer.txt", "w") as file:
        file.write(capital())  # here
""",
        ("Generation", "write str(answer)"),
    ),
    # -- async
    Slip(
        "await is forgotten",
        """
from appl import gen, ppl

@ppl
async def capital():
    "Name the capital of France."
    return gen()

def main():
    print(capital())  # here
""",
        ("coroutine 'capital' was never awaited",),
        words=("python", "-m", "appl", "run", "slip.py", "--backend", "appl.testing:Echo"),
    ),
    Slip(
        "await is forgotten in a prompt function",
        """
from appl import gen, ppl

@ppl
async def capital():
    "Name the capital of France."
    return gen()

@ppl
async def main():
    capital()  # here
    "Why is it famous?"
    return gen()
""",
        ("coroutine object capital", "write await capital()"),
    ),
    Slip(
        "await is forgotten before a value is used",
        """
from appl import gen, ppl

@ppl
async def capital():
    "Name the capital of France."
    return gen()

async def main():
    return capital().upper()  # here
""",
        ("'coroutine' object has no attribute 'upper'", "write await"),
    ),
    Slip(
        "asyncio.run in a coroutine",
        """
import asyncio
from appl import gen, ppl

@ppl
async def capital():
    "Name the capital of France."
    return gen()

async def main():
    return str(asyncio.run(capital()))  # here
""",
        ("asyncio.run() cannot be called from a running event loop", "write await f(...)"),
    ),
    # -- functions and decorators
    Slip(
        "ppl above another decorator",
        """
import functools
from appl import gen, ppl

@ppl  # here
@functools.cache
def main():
    "Hello"
    return gen()
""",
        ("@cache above, @ppl right above the def",),
    ),
    Slip(
        "ppl on a class",
        """
from appl import gen, ppl

@ppl  # here
class Agent:
    def ask(self):
        "Hello"
        return gen()

def main():
    return Agent().ask()
""",
        ("the class Agent", "decorate its methods"),
    ),
    Slip(
        "ppl on a lambda",
        """
from appl import gen, ppl

ask = ppl(lambda name: gen())  # here

def main():
    return ask("Anna")
""",
        ("a lambda has no statements", "write a def"),
    ),
    Slip(
        "an argument is missing",
        """
from appl import gen, ppl

@ppl
def capital(country: str):
    f"Name the capital of {country}."
    return gen()

def main():
    return capital()  # here
""",
        ("missing 1 required positional argument: 'country'",),
    ),
    Slip(
        "a function that calls itself for ever",
        """
from appl import gen, ppl

@ppl
def think(depth: int):
    f"Level {depth}"
    return think(depth + 1)  # here

def main():
    return think(0)
""",
        ("maximum recursion depth exceeded",),
    ),
    Slip(
        "map gets an answer in place of a function",
        """
import appl
from appl import gen, ppl

@ppl
def capital(country: str = "France"):
    f"Name the capital of {country}."
    return gen()

def main():
    return appl.map(capital(), ["France", "Spain"])  # here
""",
        ("a function is needed", "f is not called"),
    ),
    Slip(
        "run gets an answer in place of a function",
        """
import appl
from appl import gen, ppl

@ppl
def capital(country: str = "France"):
    f"Name the capital of {country}."
    return gen()

def main():
    return appl.run(capital("France"))  # here
""",
        ("takes a function", "not appl.run(f(x))"),
    ),
    # -- settings
    Slip(
        "a key of the settings is misspelled",
        """
from appl import gen

def main():
    return gen(messages="Hello")
""",
        ("appl.toml", "'modle'", "did you mean 'model'"),
        files={"appl.toml": 'modle = "embedded"\n'},
    ),
    Slip(
        "a setting of the wrong type",
        """
from appl import gen

def main():
    return gen(messages="Hello")
""",
        ("appl.toml", "temperature must be a number", "'hot'"),
        files={"appl.toml": 'temperature = "hot"\n'},
    ),
    Slip(
        "settings that are no TOML",
        """
from appl import gen

def main():
    return gen(messages="Hello")
""",
        ("appl.toml", "line 1"),
        files={"appl.toml": "model = embedded\n"},
    ),
    Slip(
        "a key in the settings",
        """
from appl import gen

def main():
    return gen(messages="Hello")
""",
        ("looks like a secret", 'write api_key = {env = "NAME_OF_A_VARIABLE"}'),
        files={"appl.toml": '[backends.openai]\napi_key = "sk-123"\n'},
    ),
    Slip(
        "a misspelled variable",
        """
from appl import gen

def main():
    return gen(messages="Hello")
""",
        ("APPL_MODLE", "did you mean 'APPL_MODEL'"),
        environment={"APPL_MODLE": "embedded"},
    ),
    Slip(
        "init after the first call",
        """
import appl
from appl import gen

def main():
    first = gen(messages="Hello")
    appl.init(temperature=0.5)  # here
    return gen(messages="Hello again")
""",
        ("appl.init(temperature=…) comes too late", "at the top of the file"),
    ),
    Slip(
        "init in a plain script after the first call",
        """
import appl
from appl import gen

str(gen(messages="Hello"))
appl.init(temperature=0.5)  # here
print(gen(messages="Hello again"))
""",
        ("appl.init(temperature=…)", "this run began at", "slip.py:5", "at the top of the file"),
        words=("python", "slip.py"),
        environment={"APPL_BACKEND": "appl.testing:Echo"},
    ),
    Slip(
        "init of a misspelled setting",
        """
import appl
from appl import gen

appl.init(modle="embedded")  # here

def main():
    return gen(messages="Hello")
""",
        ("'modle'", "did you mean 'model'"),
    ),
    # -- models
    Slip(
        "a model that nobody has",
        """
from appl import gen, ppl

@ppl
def main():
    "Hello"
    return gen("gpt5")  # here
""",
        ("no model 'gpt5'", "BACKEND/MODEL"),
        words=("run", "slip.py"),
    ),
    Slip(
        "a model without its key",
        """
from appl import gen

def main():
    return gen(messages="Hello")
""",
        ("OPENAI_API_KEY",),
        words=("run", "slip.py", "--model", "openai/gpt-5-mini"),
    ),
    # -- the command line
    Slip("a file that does not exist", "", ("there is no file slap.py",), words=("run", "slap.py")),
    Slip(
        "a program without main",
        "from appl import gen\n\ndef mian():\n    pass\n",
        ("no function 'main'", "did you mean 'mian'"),
    ),
    Slip(
        "a notebook in place of a file",
        "",
        ("slip.ipynb", "path/file.py"),
        words=("run", "slip.ipynb"),
        files={"slip.ipynb": "{}"},
    ),
    Slip(
        "a parameter that does not exist",
        "def main(name: str = 'Anna'):\n    return name\n",
        ("no parameter --nmae", "did you mean '--name'"),
        words=("run", "slip.py", "--nmae", "Anna"),
    ),
    Slip(
        "a parameter that is missing",
        "def main(name: str):\n    return name\n",
        ("needs --name",),
        words=("run", "slip.py"),
    ),
    Slip(
        "a parameter of another type",
        "def main(count: int):\n    return count\n",
        ("--count needs int, got 'many'",),
        words=("run", "slip.py", "--count", "many"),
    ),
    Slip("a command that does not exist", "", ("rnu", "run"), words=("rnu", "slip.py")),
    Slip(
        "a budget that is too small",
        """
from appl import gen

def main():
    return [str(gen(messages="Hello")) for _ in range(3)]  # here
""",
        ("the budget of 1 calls has 0 left", "it was not sent"),
        words=("run", "slip.py", "--backend", "appl.testing:Echo", "--budget", "calls=1"),
    ),
    Slip(
        "a program that is not saved",
        """
from appl import gen, ppl

def prompt():
    "Name the capital of France."
    return gen()  # here

print(prompt())
""",
        ("outside of every prompt function", "gen(messages="),
        words=("python", "-"),
    ),
    # -- the first hour
    Slip(
        "a backend that is misspelled in gen",
        """
from appl import gen, ppl

@ppl
def main():
    "Hello"
    return gen("opneai/fast")  # here
""",
        ("no backend 'opneai'", "did you mean 'openai/fast'"),
        words=("run", "slip.py"),
    ),
    Slip(
        "a backend that is misspelled on the command line",
        "",
        ("no backend 'opneai'", "did you mean 'openai/fast'"),
        words=("ask", "Hello", "--model", "opneai/fast"),
    ),
    Slip(
        "a class as the return annotation of a text",
        """
from dataclasses import dataclass
from appl import gen, ppl

@dataclass
class Person:
    name: str

@ppl
def main(text: str = "Anna") -> Person:
    f"Who is in this? {text}"
    return gen(temperature=0)  # here
""",
        ("main() is to return Person", "gen(response_format=Person)", "-> str"),
    ),
    Slip(
        "a number as the return annotation of a text",
        """
from appl import gen, ppl

@ppl
def main() -> int:
    "How many?"
    return gen()  # here
""",
        ("main() is to return int", "gen(response_format=int)"),
        rules=("refused",),
    ),
    Slip(
        "an address in init",
        """
import appl

appl.init(base_url="http://127.0.0.1:1/v1")  # here
""",
        ('backends={"openai": {"base_url"', "OPENAI_BASE_URL"),
    ),
    Slip(
        "an object as the backend of a block",
        """
import appl
from appl.testing import Echo

def main():
    with appl.record(backend=Echo()):  # here
        pass
""",
        ("takes a name", "appl.testing.running(backend)"),
    ),
    Slip(
        "tools that nobody runs",
        """
from appl import gen, ppl
from appl.backend import Profile, Response, Sample
from appl.prompt import ToolCall

class Caller:
    profile = Profile("caller", frozenset({"tools"}))
    async def complete(self, request, emit=None):
        return Response((Sample("", "tool_calls", tool_calls=(ToolCall("1", "now", "{}"),)),))
    async def aclose(self):
        pass

def now() -> str:
    \"\"\"The time.\"\"\"
    return "noon"

@ppl
def main():
    "What time is it?"
    return gen(tools=[now])
""",
        ("the model calls the tool 'now'", "gen_with_tools(tools=[…])"),
        words=("python", "-m", "appl", "run", "slip.py", "--backend", "slip:Caller"),
    ),
    Slip(
        "an answer that is not in the prompt",
        """
from appl import gen, ppl

@ppl
def main():
    "Name a fruit."
    fruit = gen()  # here
    "Why this one?"
    return gen()
""",
        ("unused-result", "(fruit := gen())"),
        rules=("unused-result",),
        words=("check", "slip.py"),
    ),
    Slip(
        "an empty variable",
        """
from appl import gen, ppl

@ppl
def main():
    "Hello"
    gen()
    return "it works"
""",
        ("it works",),
        words=("run", "slip.py", "--backend", "appl.testing:Echo"),
        environment={"APPL_BACKEND": "", "APPL_SEED": "", "APPL_TRACE": ""},
    ),
    Slip(
        "a fix of ruff that eats a prompt",
        """
from appl import gen, ppl

@ppl
def main():
    "Name the capital of France."  # here
    return gen()
""",
        ("ruff-fix", "D300", "lint.ignore"),
        words=("check", "slip.py"),
        files={"ruff.toml": 'lint.select = ["D"]\n'},
    ),
    Slip(
        "an answer in what a handler of FastAPI returns",
        """
from fastapi import FastAPI
from fastapi.testclient import TestClient
from appl import gen, ppl

app = FastAPI()

@ppl
def ask():
    "Hello"
    return gen()

@app.get("/")
def handler():
    return {"answer": ask()}

def main():
    return TestClient(app).get("/").json()
""",
        ("str(answer)", "-> str", "await answer"),
    ),
]

"""Programs that write to a terminal in all the ways in which programs do.

Each is the body of a ``main``. ``say(q)`` is a prompt function whose answer is ``q`` itself, piece by
piece; ``rest()`` lasts long enough for a line of ours to be drawn. What a line begins with ``# types``
is typed at the question after it.
"""

from __future__ import annotations

HEAD = """
import logging, os, sys, time
import appl
from appl import call, gen, map, ppl

@ppl
def say(q):
    f"{q}"
    return gen(stream=True)

def rest():
    time.sleep(0.3)

def pieces(q):
    for piece in say(q).text_stream:
        print(piece, end="", flush=True)
"""
TAIL = """
if __name__ == "__main__":
    main()
"""
BACKEND = '''
from appl.testing import Fake

class Saying(Fake):
    """Answers with the question, in pieces of three characters."""

    def __init__(self):
        super().__init__(lambda request: [*request.messages][-1].content, pieces=cut)

def cut(text):
    return [text[at : at + 3] for at in range(0, len(text), 3)]
'''

PROGRAMS: dict[str, str] = {
    "pieces with links, lists and slashed brackets": """
    pieces("see [link](http://x.org), list[str] or [/INST] now")
    rest()
    print(" [bold]end[/bold]")
    rest()
""",
    "a partial line that stands for a while": """
    str(say("hi"))
    print("working", end="", flush=True)
    rest()
    print(" .", end="", flush=True)
    rest()
    print(" done")
""",
    "many lines": """
    for number in range(40):
        print(f"{number}: {say(str(number))}")
        if number % 10 == 0:
            rest()
""",
    "colours that last over lines": """
    print("\\x1b[31mred")
    rest()
    print("\\x1b[1mred and bold")
    rest()
    print(f"\\x1b[0mplain {say('[red]x')}")
    rest()
""",
    "a background that lasts over lines": """
    print("\\x1b[44mblue")
    rest()
    print("blue too\\x1b[0m")
    rest()
    print(say("plain"))
""",
    "a carriage return": """
    for share in range(0, 101, 25):
        print(f"\\r{share} %", end="", flush=True)
        str(say(str(share)))
        rest()
    print()
""",
    "a bar of another library on stderr": """
    from tqdm import tqdm
    for number in tqdm(range(4), ncols=60, bar_format="{desc}{percentage:3.0f}%|{bar}|"):
        str(say(str(number)))
        rest()
    print("over")
""",
    "two bars, one below the other": """
    from tqdm import tqdm
    for number in tqdm(range(2), ncols=60, bar_format="{percentage:3.0f}%|{bar}|", position=0):
        for inner in tqdm(range(2), ncols=60, bar_format="{percentage:3.0f}%|{bar}|", position=1,
                          leave=False):
            str(say(str(inner)))
            rest()
    print()
    print("over")
""",
    "tables of rich": """
    from rich.console import Console
    from rich.table import Table
    table = Table("a", "b")
    table.add_row("1", str(say("two")))
    rest()
    Console().print(table)
    rest()
    Console(stderr=True).print("[bold]done[/bold]")
""",
    "a status of rich": """
    from rich.console import Console
    console = Console()
    with console.status("asking", spinner="line"):
        str(say("x"))
        rest()
        console.print("between")
        rest()
    print("over")
""",
    "records of logging, set up before the run": """
    logging.getLogger().warning("[bold]%s[/INST]", say("one"))
    rest()
    logging.getLogger().warning("two")
    rest()
""",
    "bytes": """
    sys.stdout.buffer.write(b"bytes [/b]\\n")
    sys.stdout.buffer.flush()
    rest()
    sys.stdout.buffer.write("caf\\u00e9".encode())
    sys.stdout.buffer.flush()
    rest()
    print(say(" text"))
""",
    "text that is not flushed": """
    sys.stdout.write("held back ")
    str(say("x"))
    rest()
    sys.stdout.write("and shown\\n")
    rest()
""",
    "both streams in turn": """
    for number in range(3):
        print(f"out {number} {say('x')}")
        rest()
        print(f"err {number}", file=sys.stderr)
        rest()
""",
    "a partial line on stdout and a line on stderr": """
    print("out ", end="", flush=True)
    rest()
    print("err", file=sys.stderr)
    rest()
    print(say("end"))
""",
    "wide characters": """
    print("\\u6f22\\u5b57 \\U0001f600")
    rest()
    pieces("\\u6f22\\u5b57\\u6f22\\u5b57")
    rest()
    print()
""",
    "lines longer than the screen": """
    print("x" * 250)
    rest()
    print("y" * 100)
    rest()
    print(say("z" * 99))
    rest()
""",
    "empty lines": """
    print()
    rest()
    print("\\n\\n")
    rest()
    print(say("x"))
""",
    "a screen that is cleared": """
    print("gone")
    rest()
    print("\\x1b[2J\\x1b[Htop")
    rest()
    print(say("below"))
    rest()
""",
    "a cursor that goes up": """
    print("one\\ntwo\\nthree")
    rest()
    print("\\x1b[2AX\\x1b[2B", end="\\r", flush=True)
    rest()
    print(say("four"))
""",
    "a map with lines and partial lines": """
    def item(number):
        print(f"[{number}/INST]", end=" ", flush=True)
        rest()
        return str(say(str(number)))
    found = map(item, range(3), concurrency=1)
    print(list(found))
    rest()
""",
    "a map that prints lines": """
    def item(number):
        print(f"item {number}")
        rest()
        return str(say(str(number)))
    print(list(map(item, range(4), concurrency=1)))
""",
    "tracebacks": """
    import traceback
    try:
        raise ValueError("[/INST] list[int]")
    except ValueError:
        traceback.print_exc()
    rest()
    print(say("on"))
""",
    "warnings": """
    import warnings
    str(say("x"))
    rest()
    warnings.warn("[bold]old[/bold]", FutureWarning, stacklevel=1)
    warnings.warn("[/INST]", UserWarning, stacklevel=1)
    rest()
""",
    "a question": """
    str(say("x"))
    rest()
    print(repr(appl.input("Refund? [y/n] ")))  # types yes
    rest()
""",
    "a question of Python's own": """
    str(say("x"))
    rest()
    print(repr(input("[bold]Name[/bold]? ")))  # types Ann
    rest()
""",
    "two questions, the second on a line with text": """
    print(repr(appl.input("One? ")))  # types first
    print("then ", end="", flush=True)
    rest()
    print(repr(input("Two? ")))  # types second
    print(say("x"))
""",
    "a question of a function that was called beside": """
    def confirm():
        return appl.input("Sure? ")
    answer = call(confirm)
    print(repr(str(answer)))  # types sure
    rest()
""",
    "a line read from stdin": """
    print("Line? ", end="", flush=True)
    print(repr(sys.stdin.readline()))  # types read
    rest()
    print(say("x"))
""",
    "prints of threads": """
    import threading
    for number in range(3):
        thread = threading.Thread(target=lambda: print(f"thread {number} {say('x')}"))
        thread.start()
        thread.join()
        rest()
""",
    "a file given to print": """
    for number in range(3):
        print("a", "b", say("c"), sep="|", end="[/x]\\n", file=sys.stdout)
        rest()
""",
    "a context that redirects": """
    import contextlib, io
    with contextlib.redirect_stdout(io.StringIO()) as caught:
        print(say("caught"))
        rest()
    print(caught.getvalue(), end="")
    rest()
    with contextlib.redirect_stdout(sys.stderr):
        print("to stderr")
        rest()
""",
}

import appl
from appl import BracketedDefinition as Def
from appl import define, empty_line, ppl, records
from appl.compositor import *


class InputReq(Def):
    name = "What Goes In"


class OutputReq(Def):
    name = "What Comes Out"


Style = define("House Style", "<{}>")


@ppl
def requirements(opr: str):
    "Needs"
    with NumberedList():
        InputReq(desc="Two numbers go in.")
        OutputReq(desc=f"The {opr} of both comes out.")
    return records()


@ppl
def instruction(language: str):
    "Task"
    with LineSeparated():
        f"Write it in {language}, as {InputReq} and {OutputReq} say."
        f"Keep {Style}; {Style!r} is written down elsewhere."
    return records()


@ppl
def get_prompt(opr: str, language: str):
    with LineSeparated(indexing="##"):
        requirements(opr)
        empty_line()
        instruction(language)
    return records()


print(get_prompt("sum", "Python"))

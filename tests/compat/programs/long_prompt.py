import appl
from appl import BracketedDefinition as Def
from appl import empty_line, ppl, records
from appl.compositor import *


class User(Def):
    name = "User"


class Agent(Def):
    name = "Agent"


class Info(Def):
    name = "User Information"


@ppl(comp=NumberedList())
def global_defs():
    User(desc=f"Who instructs the {Agent}.")
    Agent(desc=f"Who follows the {User}.")
    return records()


@ppl(comp=DashList(indent=INDENT))
def user_details():
    Def("Name", "Jo Doe")
    Def("Town", "Tarn")
    return records()


@ppl
def setup():
    "Setting"
    with DashList():
        Info(desc=f"About the {User}:", details=user_details())
        "The time is 11:37."
    return records()


@ppl(comp=LineSeparated(indexing="##"))
def whole():
    setup()
    empty_line()
    task()
    return records()


@ppl
def task():
    "Task"
    with LineSeparated():
        "You are given:"
        ""
        global_defs(compositor=StarList())
    return records()


print(whole())

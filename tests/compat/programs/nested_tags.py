import appl
from appl import ppl, records
from appl.compositor import *


@ppl
def compose(items: list[str]):
    with Tagged("div", indent_inside=4):
        "Show these:"
        with NumberedList(indent=4):
            items
    return records()


@ppl
def facts(items):
    with DashList():
        items
    return records()


@ppl
def report(items):
    with Tagged("facts", attrs={"n": str(len(items))}):
        facts(items)
    with InlineTagged("b"):
        "x"
        "y"
    return records()


print(compose(["item1", "item2"]))
print(report(["a", "b"]))

import appl
from appl import AIMessage, Promptable, ppl, records

appl.init()


class Number(Promptable):
    def __init__(self, number: int):
        self.number = number

    def __prompt__(self):
        return f"The number is {self.number}."


@ppl
def captured(name: str):
    "Hello!"
    AIMessage("Nice to meet you.")
    ["One.", ("Two.", "Three.")]
    Number(42)
    _ = {"example": "not said"}.pop("example")
    None
    return records()


@ppl(docstring_as="user")
def documented():
    """In the prompt.

    Details."""
    "Another."
    return records()


@ppl
def undocumented():
    """Not in the prompt."""
    """First.
    Second.
        indented."""
    return records()


@ppl(default_return="prompt")
def returned():
    "returned"


for each in (captured("APPL"), documented(), undocumented(), returned()):
    print(each)

"""A long structured prompt with definitions, nested lists and tags, written as a program.

appl run examples/guidelines.py
appl run examples/guidelines.py --message "The parcel has not come." --show on

All messages are judged by the same guidelines. These come first in every prompt, so that the calls
share them as one cached prefix.
"""

from collections.abc import Iterator

from appl import (
    BracketedDefinition,
    DashList,
    Generation,
    NumberedList,
    PromptRecords,
    Tagged,
    convo,
    ppl,
    records,
    select,
)

MESSAGES = [
    "The parcel has not come and I need it on Friday.",
    "You charged my card twice for one lamp.",
    "I cannot log in, my password does not work.",
    "I want to know when my order will arrive.",
]
KINDS = {
    "billing": "cards, bills and money",
    "delivery": "parcels that are late or lost",
    "account": "passwords and log in",
}


class Customer(BracketedDefinition):
    name = "Customer"


class Message(BracketedDefinition):
    name = "Message"


class Kind(BracketedDefinition):
    name = "Kind"


@ppl
def kinds() -> PromptRecords:
    """A separate list, which becomes a nested list where it is said."""
    with DashList(indent=2):
        for name, about in KINDS.items():
            f"{name}: {about}"
    return records()


@ppl
def guidelines() -> PromptRecords:
    with Tagged("guidelines"):
        "Definitions:"
        with DashList():
            Customer(desc="a person who has bought something from the shop")
            Message(desc=f"a text that a {Customer} has sent")
            Kind(desc=f"what a {Message} is about", details=kinds())
        "Rules:"
        with NumberedList():
            f"Every {Message} has one {Kind}."
            f"If it could have two, take the one that the {Customer} names first."
    return records()


@ppl
def classify(rules: PromptRecords, message: str) -> Generation:
    rules
    f'What is this message about? "{message}"'
    f"Choose one of: {', '.join(KINDS)}"
    return select(list(KINDS))


@ppl
def shown(rules: PromptRecords) -> str:
    rules
    return str(convo()[0].content)


def main(message: str | None = None, show: bool = False) -> Iterator[str]:
    """The kind of each message; with *show*, the guidelines first, as the model gets them."""
    rules = guidelines()
    if show:
        yield shown(rules)
        yield ""
    asked = [message] if message else MESSAGES
    found = [classify(rules, each) for each in asked]
    for each, kind in zip(asked, found, strict=True):
        yield f"{kind!s:9} {each}"
    cached = sum(kind.usage.cached_tokens or 0 for kind in found)
    sent = sum(kind.usage.prompt_tokens or 0 for kind in found)
    yield f"{cached} of {sent} prompt tokens came from the cache"


if __name__ == "__main__":
    print(*main(), sep="\n")

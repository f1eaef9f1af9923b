"""Three tasks for the embedded model: cases, poor texts to begin with, and proposals, all seeded.

The texts are templates: both programs put the inputs where they are named. The proposals of a text
come in their order, the last one for ever.
"""

from __future__ import annotations

import random
from typing import Any

_dice = random.Random(5)
_GOOD = [
    "The {} was lovely and the staff were kind.",
    "I loved the {}, it was wonderful.",
    "A wonderful {}, we will come again.",
    "The {} was fresh and the waiter was friendly.",
]
_BAD = [
    "The {} was cold and the waiter was rude.",
    "I hated the {}, it was terrible.",
    "A terrible {}, we will never come again.",
    "The {} was broken and nobody helped us.",
]
_THINGS = "soup room cake tea hotel garden bread lamp breakfast bed dinner view".split()
_SHOP = {
    "billing": ["My card was charged twice for one {}.", "The bill for the {} is wrong."],
    "delivery": ["My {} has not arrived yet.", "The parcel with the {} is late."],
    "account": ["I cannot log in to see my {}.", "I forgot the password for my {} account."],
}
_NAMES = "Mira Holt,Olaf Brand,Ines Vell,Tom Karr,Nora Lind,Leo Stern,Anna Brook,Sam Rott".split(
    ","
)
_JOBS = "baker pilot teacher gardener painter nurse".split()
_PLACES = "Tarn Lund Velm Brisk Orm Halden".split()


def _reviews() -> list[dict[str, Any]]:
    found = []
    for number in range(45):
        side = "positive" if _dice.random() < 0.5 else "negative"
        text = _dice.choice(_GOOD if side == "positive" else _BAD).format(_dice.choice(_THINGS))
        found.append(
            {"text": f"{text[:-1]} ({number})." if number % 9 == 0 else text, "target": [side]}
        )
    return found


def _desk() -> list[dict[str, Any]]:
    found = []
    for _ in range(45):
        kind = _dice.choice(list(_SHOP))
        people = _dice.sample(_NAMES, 3)
        text = _dice.choice(_SHOP[kind]).format(_dice.choice(_THINGS))
        facts = "\n".join(
            f"- {who} handles {what}." for who, what in zip(people, _SHOP, strict=True)
        )
        who = people[list(_SHOP).index(kind)]
        found.append({"text": text, "facts": facts, "target": [kind, who]})
    return found


def _towns() -> list[dict[str, Any]]:
    found = []
    for _ in range(45):
        names, jobs = _dice.sample(_NAMES, 3), _dice.sample(_JOBS, 3)
        towns = _dice.sample(_PLACES, 3)
        rows = list(zip(names, jobs, towns, strict=True))
        facts = "\n".join(f"- {name} is a {job} from {town}." for name, job, town in rows)
        name, job, town = _dice.choice(rows)
        mood = _dice.choice(["positive", "negative"])
        review = _dice.choice(_GOOD if mood == "positive" else _BAD).format(_dice.choice(_THINGS))
        found.append({"facts": facts, "job": job, "text": review, "target": [mood, name, town]})
    return found


CASES = {"reviews": _reviews(), "desk": _desk(), "towns": _towns()}
LEARN = 30
"""The number of cases to learn from; the others are held out."""

_MOOD = (
    "Tell me about this: {text}",
    [
        "Read this with care and tell me about it: {text}",
        "Here is what somebody wrote. Say what you think of it: {text}",
        'Is this review good? "{text}"',
        'How does the author of this feel? "{text}" Answer in one line.',
        'Is this review positive or negative? "{text}" Choose one of: positive, negative',
    ],
)
_KIND = (
    "A customer writes: {text}",
    [
        "Read what a customer writes: {text}",
        "You work in a shop. A customer writes to you: {text}",
        'What does this customer want? "{text}" Answer in one line.',
        'Give a short title to this message: "{text}"',
        'What is this message about? "{text}" Choose one of: billing, delivery, account',
    ],
)
_WHO = (
    "{facts}\nTell me about {kind}.",
    [
        "{facts}\nThink about {kind} and tell me.",
        "{facts}\nRead this well and explain {kind}.",
        "{facts}\nWrite a name for {kind}.",
        "{facts}\nExplain in one line how {kind} works here.",
        "Facts:\n{facts}\nQuestion: Who handles {kind}? Answer with the name only.",
    ],
)
_NAME = (
    "{facts}\nTell me about a {job}.",
    [
        "{facts}\nThink about the word {job}.",
        "{facts}\nTell me more about the work of a {job}.",
        "{facts}\nDo you know a {job}?",
        "{facts}\nIs there a {job}? Answer yes or no.",
        "Facts:\n{facts}\nQuestion: Who is a {job}? Answer with the name only.",
    ],
)
_TOWN = (
    "{facts}\nTell me about {name}.",
    [
        "{facts}\nThink about {name}.",
        "{facts}\nTell me all that you know of {name}.",
        "{facts}\nSay something about the town of {name}.",
        "{facts}\nDoes {name} have a town? Answer yes or no.",
        "Facts:\n{facts}\nQuestion: Where is {name} from? Answer with the place only.",
    ],
)
TEXTS = {
    "reviews": {"mood": _MOOD},
    "desk": {"kind": _KIND, "who": _WHO},
    "towns": {"name": _NAME, "town": _TOWN, "mood": _MOOD},
}
"""Each text to begin with, and its proposals, by task and name."""


def proposals(task: str) -> int:
    """The number of proposals that there are."""
    return sum(len(made) for _, made in TEXTS[task].values())

"""What the tasks are about: records, passages with questions, reviews and a complaint, seeded."""

from __future__ import annotations

import random

_dice = random.Random(7)
_ITEMS = "lamp box chair table clock kettle mirror basket".split()
_NAMES = [
    f"{a}{b}" for a in "Ba Do Ki Lu Ma Ne Ro Su Ti Ve".split() for b in "lin mar nor sten".split()
]
_PLACES = "harbour mill square bridge garden station tower market".split()

RECORDS = [
    f"Record {number}: {_dice.choice(_NAMES)} bought {_dice.randrange(1, 9)} "
    f"{_dice.choice(_ITEMS)} for {_dice.randrange(100, 9900) / 100} each."
    for number in range(1000)
]
PASSAGES = [
    f"{name} number {number} keeps the {_dice.choice(_ITEMS)} at the {_dice.choice(_PLACES)}."
    for number, name in enumerate(_dice.choices(_NAMES, k=1000))
]
QUESTIONS = [
    f"What does {' '.join(PASSAGES[number].split()[:3])} keep?"
    for number in _dice.sample(range(1000), 200)
]
REVIEWS = [
    (f"Review {number}: the {_dice.choice(_ITEMS)} is {word}.", "good" if word == "fine" else "bad")
    for number, word in enumerate(_dice.choices(["fine", "broken"], k=200))
]
COMPLAINT = "The lamp of order 7 came broken. It cost 40 EUR."

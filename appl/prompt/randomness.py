"""A test for texts that look random, as keys do, and are not made of words.

Invariant: pure functions, which take a few microseconds for a text of a key's length.
"""

from __future__ import annotations

import re
from typing import Final

_TURN = re.compile("[A-Za-z](?=[0-9])|[0-9](?=[A-Za-z])")
_PAIR = re.compile("(?=([A-Za-z]{2}))")
_PAIRS: Final = frozenset(
    """
    ab ac ad ag ai al am an ap ar as at au ay ba be bl bu ca ce ch ck cl co cr ct da de di ea ec
    ed ef el em en ep eq er es et ex fa fe fi fo fr ge ha he ho ia ic id ie if ig il im in io ir
    is it iz ke ki la ld le li ll lo ls lt lu ma me mi mm mo mp na nc nd ne nf ng ni no ns nt oc
    od ol om on oo op or os ot ou ow pa pe pi pl po pp pr pt qu ra rc rd re ri rm rn ro rr rs rt
    ry sa sc se sh si sk so sp ss st su ta te th ti to tr ts tt tu ty ue ul um un up ur us ut va
    ve vi wi xt yp
""".split()
)
"""The pairs of letters that stand in words: five of six pairs in names and in English prose."""


def is_random(value: str, fewest: int = 8, words: float = 0.45) -> bool:
    """True if *value* looks random: it has *fewest* different characters at least.

    Letters and digits often take turns in it, or it has capitals or digits besides small letters,
    and of the pairs of its letters at most the share *words* are those of words.
    """
    if len({*value}) < fewest:
        return False
    turns = len(_TURN.findall(value))
    if turns >= 3 and turns * 4 >= len(value):
        return True
    if not turns and (value.islower() or value.isupper()):
        return False
    pairs = [pair for pair in _PAIR.findall(value) if not (pair[0].islower() and pair[1].isupper())]
    common = sum(pair.lower() in _PAIRS for pair in pairs)
    if turns >= 3 and turns * 12 >= len(value):
        return len(pairs) < 8 or common <= 0.65 * len(pairs)
    return len(pairs) >= 5 and common <= words * len(pairs)

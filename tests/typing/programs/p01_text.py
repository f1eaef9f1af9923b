"""A text answer, and what ordinary functions take."""

from __future__ import annotations

import json
import re
from typing import assert_type

from appl import gen, ppl


@ppl
def answer(question: str) -> str:
    f"{question}"
    return gen()


assert_type(answer("Why?"), str)
dumped: str = json.dumps(answer("Why?"))
found = re.search("x", answer("Why?"))
joined: str = ", ".join([answer("a"), answer("b")])
wrong: int = answer("Why?")  # type: ignore[assignment]

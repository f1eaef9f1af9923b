"""The program for APPL (applang), whose traces resume it: ``APPL_RESUME_TRACE``."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from appl import AIRole, gen, ppl


@ppl
def vote():
    "Name a number."
    return gen(temperature=1.0)


@ppl
def chat(name):
    "Let us count."
    said = []
    for _ in range(3):
        "Next?"
        with AIRole():
            answer = gen(temperature=1.0)
            f"{answer}"
        said.append(str(answer))
    return said


def main():
    with ThreadPoolExecutor(8) as pool:
        chats = [pool.submit(chat, i) for i in range(10)]
        votes = [pool.submit(lambda: str(vote())) for _ in range(10)]
        return [[v.result() for v in votes], [c.result() for c in chats]]


if __name__ == "__main__":
    found = main()
    Path(sys.argv[1]).write_text(json.dumps(found))

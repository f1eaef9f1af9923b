"""Whether a server reads a prompt that is cut into parts as it reads the whole prompt.

    python benchmarks/content_parts.py http://127.0.0.1:30000 [PROMPTS]

Each prompt is sent twice to a chat completion server, as one text and as two to four parts. A
server that puts something between the parts counts other tokens: to such a one, appl sends no
parts. Only OpenAI and Anthropic get any.
"""

from __future__ import annotations

import json
import random
import sys
import urllib.request
from typing import Any

WORDS = (
    "the lamp of brass stands near a window and costs 34 dollars in Tarn while rain falls".split()
)


def asked(url: str, body: dict[str, Any] | None = None) -> Any:
    """The JSON that the server answers."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)


def main(base: str, prompts: int) -> None:
    """Ask, and print how many were read alike."""
    model = asked(f"{base}/v1/models")["data"][0]["id"]
    dice, answers, tokens = random.Random(5), 0, 0
    for _ in range(prompts):
        text = " ".join(dice.choice(WORDS) for _ in range(dice.randrange(20, 200)))
        cuts = sorted(dice.sample(range(1, len(text)), dice.randrange(1, 4)))
        parts = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        contents: list[Any] = [text, [{"type": "text", "text": part} for part in parts]]
        one, other = (
            asked(
                f"{base}/v1/chat/completions",
                {
                    "model": model,
                    "temperature": 0,
                    "max_tokens": 8,
                    "messages": [{"role": "user", "content": content}],
                },
            )
            for content in contents
        )
        tokens += one["usage"]["prompt_tokens"] == other["usage"]["prompt_tokens"]
        answers += one["choices"][0]["message"] == other["choices"][0]["message"]
    print(f"{prompts} prompts: {tokens} with equal tokens, {answers} with equal answers")


if __name__ == "__main__":
    main(sys.argv[1].rstrip("/"), int(sys.argv[2]) if len(sys.argv) > 2 else 60)

"""The shipped model on SGLang against the embedded engine: the same greedy answers?

Run: python benchmarks/gpu/same_answers.py write PROMPTS.json [--number 200]
     python benchmarks/gpu/same_answers.py compare PROMPTS.json URL [--api-key KEY] [--json FILE]

``write`` has the embedded engine answer withheld examples of every skill without tools and keeps
ids and the two likeliest tokens of each step; ``compare`` asks a server that has loaded the same
weights for the same ids. It needs the standard library only.
Bar: 95% of 200 answers identical; the others first differ where both engines' two best tokens lie
within 0.02 nats.
"""

from __future__ import annotations

import argparse
import json
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
LIMIT = 160
NEAR = 0.02


def answered(number: int) -> list[dict[str, Any]]:
    """Prompts with the embedded engine's ids, and the gap of its two best tokens at each step."""
    sys.path[:0] = [str(ROOT / "backends" / "training"), str(ROOT), str(ROOT / "backends")]
    import chat
    import evaluate
    import generator
    from tokenizers import Tokenizer

    from appl_backends.embedded import WEIGHTS, Embedded
    from appl_backends.embedded.probe import TokenProbe
    from appl_backends.embedded.sampler import Draw
    from appl_backends.embedded.task import EngineTask, Finished

    skills = [name for name in generator.SKILLS if name not in ("calculator", "lookup")]
    each = -(-number // len(skills))
    tokenizer = Tokenizer.from_file(str(WEIGHTS / "tokenizer.json"))
    examples = [(skill, e) for skill in skills for e in generator.held_out(skill, each)][:number]
    engine = Embedded(threads=None).engine
    tasks = []
    for _, example in examples:
        ids = chat.prompt(tokenizer, evaluate.as_dicts(example.messages, example.prefill))
        tasks.append(EngineTask(ids, [Draw(0.0, 1.0, 0, 0)], LIMIT, probe=TokenProbe(len(ids), 2)))
        engine.submit(tasks[-1])
    ended: list[EngineTask] = []
    while not engine.idle:
        ended += [each.task for each in engine.step() if isinstance(each, Finished)]
    assert len(ended) == len(tasks)
    return [
        {
            "skill": skill,
            "prompt": task.prompt,
            "ids": [entry.token for entry in task.live[0].probed],
            "gaps": [entry.top[0][0] - entry.top[1][0] for entry in task.live[0].probed],
        }
        for (skill, _), task in zip(examples, tasks, strict=True)
    ]


def asked(url: str, key: str | None, prompt: list[int]) -> tuple[list[int], list[float]]:
    """The server's ids for *prompt*, greedy, and the gap of its two best tokens at each step."""
    body = {
        "input_ids": prompt,
        "sampling_params": {"temperature": 0, "max_new_tokens": LIMIT},
        "return_logprob": True,
        "top_logprobs_num": 2,
    }
    headers = {"Content-Type": "application/json"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    request = urllib.request.Request(f"{url}/generate", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=600) as response:
        meta = json.load(response)["meta_info"]
    ids = [entry[1] for entry in meta["output_token_logprobs"]]
    gaps = [top[0][0] - top[1][0] for top in meta["output_top_logprobs"]]
    return ids, gaps


def compare(
    known: list[dict[str, Any]], url: str, key: str | None, width: int = 16
) -> dict[str, Any]:
    """How many answers agree, and how near the two best tokens are where they part."""
    with ThreadPoolExecutor(width) as pool:
        theirs = list(pool.map(lambda each: asked(url, key, each["prompt"]), known))
    parted = []
    for each, (ids, gaps) in zip(known, theirs, strict=True):
        ours = each["ids"]
        if ours == ids:
            continue
        pairs = zip(ours, ids, strict=False)
        at = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
        if at is None:
            parted.append({"skill": each["skill"], "at": min(len(ours), len(ids)), "gaps": None})
        else:
            near = [each["gaps"][at], gaps[at]]
            parted.append({"skill": each["skill"], "at": at, "gaps": near})
    far = [p for p in parted if p["gaps"] is None or max(p["gaps"]) > NEAR]
    return {
        "answers": len(known),
        "tokens": sum(len(each["ids"]) for each in known),
        "identical": len(known) - len(parted),
        "parted_where_both_are_near": len(parted) - len(far),
        "parted_elsewhere": len(far),
        "parted": parted,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("verb", choices=["write", "compare"])
    parser.add_argument("prompts", type=Path)
    parser.add_argument("url", nargs="?", default="http://127.0.0.1:30000")
    parser.add_argument("--number", type=int, default=200)
    parser.add_argument("--api-key")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.verb == "write":
        found = answered(options.number)
        options.prompts.write_text(json.dumps(found))
        print(f"{len(found)} answers, {sum(len(each['ids']) for each in found)} tokens")
        return 0
    result = compare(json.loads(options.prompts.read_text()), options.url, options.api_key)
    print(json.dumps(result, indent=1))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    share = result["identical"] / result["answers"]
    print(f"{share:.1%} identical; {result['parted_elsewhere']} part where one is sure")
    return 0 if share >= 0.95 and not result["parted_elsewhere"] else 1


if __name__ == "__main__":
    sys.exit(main())

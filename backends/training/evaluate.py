"""Measures the table of skills: greedy on withheld phrasings, sampling and voting for arithmetic, and the hand-written prompts.

Any engine can be measured: `report` takes one callable, `generate(conversations, temperature, n, seed, max_tokens)`, that returns
n texts for each conversation, one conversation after the other; a tool call is a text that begins with `<|call|>`."""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import generator
from skills.core import Example, Message, passed, simple
from skills.tools import announce, value_of

Conversation = list[dict[str, Any]]
Generate = Callable[[list[Conversation], float, int, int, int], list[str]]
HANDWRITTEN = Path(__file__).parent / "handwritten.jsonl"


def as_dicts(messages: list[Message], prefill: str = "") -> Conversation:
    """Messages in the shape that chat interfaces take."""
    out: Conversation = []
    for role, text in messages:
        if role == "call":
            out.append(
                {
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [{"type": "function", "function": json.loads(text)}],
                }
            )
        else:
            out.append({"role": role, "content": text})
    return [*out, {"role": "assistant", "content": prefill}] if prefill else out


def torch_generate(folder: Path, device: str) -> Generate:
    """The weights of a folder in plain torch."""
    import chat
    import network
    import torch
    from tokenizers import Tokenizer

    weights, shape = network.load(
        folder, device, torch.bfloat16 if device == "cuda" else torch.float32
    )
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    sampler = network.Sampler(weights, shape)

    def generate(
        conversations: list[Conversation], temperature: float, n: int, seed: int, max_tokens: int
    ) -> list[str]:
        prompts = [chat.prompt(tokenizer, c) for c in conversations for _ in range(n)]
        ids = sampler.generate(prompts, temperature, max_tokens, seed)
        return tokenizer.decode_batch(ids, skip_special_tokens=False)

    return generate


def engine_generate(folder: Path) -> Generate:
    """The same weights in the NumPy engine that ships with them."""
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]
    import chat
    from tokenizers import Tokenizer

    from appl.backend import Sampling
    from appl_backends.embedded import Embedded
    from appl_backends.embedded.sampler import Draw
    from appl_backends.embedded.task import EngineTask, Finished
    from appl_backends.embedded.tools import offer

    backend = Embedded(weights=folder, max_batch=64, threads=None)
    engine = backend.engine
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def generate(
        chats: list[Conversation], heat: float, n: int, seed: int, limit: int
    ) -> list[str]:
        tasks = []
        for at, messages in enumerate(chats):
            draws = [Draw(heat, 1.0, seed + at, i) for i in range(n)]
            task = EngineTask(chat.prompt(tokenizer, messages), draws, limit)
            task.offer = offer(
                Sampling(tools=_announced(messages)), backend.constraints, False, b""
            )
            tasks.append(task)
            engine.submit(tasks[-1])
        texts: dict[int, list[str]] = {}
        while not engine.idle:
            for outcome in engine.step():
                if isinstance(outcome, Finished):
                    texts[id(outcome.task)] = [_written(s) for s in outcome.response.samples]
        return [text for task in tasks for text in texts[id(task)]]

    return generate


def _announced(messages: Conversation) -> tuple[str, ...]:
    """The tools that the system message announces, a JSON object a line."""
    system = messages[0]["content"] if messages and messages[0]["role"] == "system" else ""
    return tuple(line for line in system.splitlines() if line.startswith('{"name"'))


def _written(sample: Any) -> str:
    """A sample as the model wrote it, a call with its token."""
    if not sample.tool_calls:
        return str(sample.text)
    call = sample.tool_calls[0]
    return f'<|call|>{{"name": {json.dumps(call.name)}, "arguments": {call.arguments}}}'


def _tool_result(example: Example, text: str) -> str | None:
    """What the tool says to a call, None if the call is not one."""
    try:
        call = json.loads(text.removeprefix("<|call|>"))
        tool = next(t for t in example.tools if t["name"] == call["name"])
        argument = call["arguments"][tool["parameters"]["required"][0]]
        wanted, result = next(iter(example.results.items()))
        if argument == json.loads(wanted)["arguments"].get(tool["parameters"]["required"][0]):
            return result
        if tool["parameters"]["required"] == ["expression"]:
            return value_of(argument)
        same = simple(argument.removeprefix("the ")) == simple(
            next(iter(json.loads(wanted)["arguments"].values()))
        )
        return result if same else "nothing found"
    except (
        ValueError,
        KeyError,
        StopIteration,
        SyntaxError,
        NameError,
        TypeError,
        AttributeError,
        ZeroDivisionError,
    ):
        return None


def _with_tools(generate: Generate, examples: list[Example]) -> list[str]:
    """Call, result, final answer; a text that is no call is the answer."""
    first = generate([as_dicts(e.messages) for e in examples], 0.0, 1, 0, 120)
    answers, again = list(first), []
    for i, (e, text) in enumerate(zip(examples, first, strict=True)):
        result = (
            _tool_result(e, text)
            if e.results and text.startswith(("<|call|>", '{"name"'))
            else None
        )
        if result is not None:
            again.append(
                (i, [*e.messages, ("call", text.removeprefix("<|call|>")), ("tool", result)])
            )
        elif e.results:
            answers[i] = ""
    finals = generate([as_dicts(m) for _, m in again], 0.0, 1, 0, 120) if again else []
    for (i, _), text in zip(again, finals, strict=True):
        answers[i] = text
    return answers


def skill_scores(
    generate: Generate, skills: list[str], number: int, failures: list[dict[str, Any]]
) -> dict[str, float]:
    """The share of held-out examples that pass, greedy."""
    scores = {}
    for skill in skills:
        examples = generator.held_out(skill, number)
        if skill in ("calculator", "lookup"):
            texts = _with_tools(generate, examples)
        else:
            texts = generate([as_dicts(e.messages, e.prefill) for e in examples], 0.0, 1, 0, 220)
            texts = [e.prefill + t for e, t in zip(examples, texts, strict=True)]
        good = [passed(e.check, t) for e, t in zip(examples, texts, strict=True)]
        wrong = [(e, t) for e, t, ok in zip(examples, texts, good, strict=True) if not ok]
        failures += [
            {"skill": skill, "messages": e.messages, "wanted": e.answer[1], "got": t}
            for e, t in wrong[:25]
        ]
        scores[skill] = sum(good) / len(good)
    return scores


def _final(text: str) -> str:
    return text.rpartition("Answer:")[2].strip() if "Answer:" in text else ""


def interval(values: list[float], seed: int = 0) -> tuple[float, float]:
    """A 95 % bootstrap interval of the mean."""
    rng = random.Random(seed)
    n = len(values)
    means = sorted(sum(rng.choices(values, k=n)) / n for _ in range(2000))
    return means[50], means[1949]


def arithmetic(
    generate: Generate, number: int, temperature: float, samples: int = 10
) -> dict[str, Any]:
    """One sample, the majority of ten, greedy; and the paired interval of the vote's gain over one sample."""
    examples = generator.held_out("arithmetic", number, seed=11)
    chats = [as_dicts(e.messages) for e in examples]
    greedy = [
        passed(e.check, t) for e, t in zip(examples, generate(chats, 0.0, 1, 0, 160), strict=True)
    ]
    texts = generate(chats, temperature, samples, 5, 160)
    singles, votes, gains = [], [], []
    for i, e in enumerate(examples):
        mine = texts[i * samples : (i + 1) * samples]
        value = str(e.check["value"])
        finals = [_final(t) for t in mine if _final(t)]
        top = Counter(finals).most_common(1)[0][0] if finals else ""
        singles.append(finals and _final(mine[0]) == value)
        votes.append(top == value)
        gains.append(float(votes[-1]) - float(bool(singles[-1])))
    low, high = interval(gains)
    mean = sum(
        _final(t) == str(examples[i // samples].check["value"]) for i, t in enumerate(texts)
    ) / len(texts)
    return {
        "problems": number, "temperature": temperature, "one_sample": sum(map(bool, singles)) / number, "mean_of_samples": mean,
        "vote_of_10": sum(votes) / number, "gain": sum(gains) / number, "gain_low": low, "gain_high": high, "greedy": sum(greedy) / number,
    }  # fmt: skip


def with_tools(messages: Conversation, tools: list[dict[str, Any]] | None) -> Conversation:
    """Tools announced in the system message, as the chat template does it."""
    if not tools:
        return messages
    text = announce([t.get("function", t) for t in tools])
    if messages[0]["role"] == "system":
        return [{"role": "system", "content": f"{messages[0]['content']}\n{text}"}, *messages[1:]]
    return [{"role": "system", "content": text}, *messages]


def handwritten(generate: Generate, show: bool = False) -> dict[str, tuple[int, int]]:
    """Right and all of the hand-written prompts, by skill."""
    rows = [json.loads(line) for line in HANDWRITTEN.read_text().splitlines() if line.strip()]
    texts = generate(
        [with_tools(row["messages"], row.get("tools")) for row in rows], 0.0, 1, 0, 200
    )
    out: dict[str, tuple[int, int]] = {}
    for row, text in zip(rows, texts, strict=True):
        right, total = out.get(row["skill"], (0, 0))
        ok = passed(row["check"], text)
        out[row["skill"]] = (right + ok, total + 1)
        if show and not ok:
            print(
                json.dumps(
                    {
                        "prompt": row["messages"][-1]["content"][-200:],
                        "check": row["check"],
                        "got": text,
                    }
                )
            )
    return out


def report(
    generate: Generate, number: int, problems: int, temperature: float, folder: Path | None = None
) -> dict[str, Any]:
    """Print the table; write it and some failures into the folder."""
    failures: list[dict[str, Any]] = []
    scores = skill_scores(generate, list(generator.SKILLS), number, failures)
    print("| skill | held-out phrasings, greedy |\n|---|---|")
    for skill, score in scores.items():
        print(f"| {skill} | {score:.1%} |")
    result: dict[str, Any] = {"skills": scores, "number": number}
    if HANDWRITTEN.exists():
        table = handwritten(generate)
        result["handwritten"] = table
        right, total = sum(r for r, _ in table.values()), sum(t for _, t in table.values())
        print(
            f"hand-written prompts: {right} of {total} ({right / total:.0%}); "
            + ", ".join(f"{s} {r}/{t}" for s, (r, t) in sorted(table.items()))
        )
    for each in [temperature]:
        row = arithmetic(generate, problems, each)
        result.setdefault("arithmetic", []).append(row)
        print(
            "arithmetic: "
            + ", ".join(
                f"{k} {v:.3f}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()
            ),
            flush=True,
        )
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "report.json").write_text(json.dumps(result, indent=1))
        (folder / "failures.jsonl").write_text(
            "".join(json.dumps(f, ensure_ascii=False) + "\n" for f in failures)
        )
    return result


def _engine(name: str, weights: Path) -> Generate:
    if name == "numpy":
        return engine_generate(weights)
    import torch

    return torch_generate(weights, "cuda" if torch.cuda.is_available() else "cpu")


def main() -> None:
    """Measure a folder of weights."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--number", type=int, default=300)
    parser.add_argument("--arithmetic", type=int, default=1000)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--engine", choices=["torch", "numpy"], default="torch")
    parser.add_argument("--report", type=Path)
    options = parser.parse_args()
    generate = _engine(options.engine, options.weights)
    report(
        generate,
        options.number,
        options.arithmetic,
        options.temperature,
        options.report,
    )


if __name__ == "__main__":
    main()

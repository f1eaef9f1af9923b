"""Many adapters on one SGLang server: our calls, capped, against all requests fired at once.

Run: python benchmarks/gpu/adapters.py make FOLDER --model FOLDER [--adapters 32]
     python benchmarks/gpu/adapters.py URL FOLDER --tokenizer FOLDER [--rounds 5] [--json FILE]

The first writes random adapters of rank 16 for the linear layers of the model (it needs torch). The
server is started with ``--enable-lora --max-lora-rank 16 --lora-target-modules q_proj k_proj v_proj
o_proj gate_proj up_proj down_proj --max-loras-per-batch N+1``. Its adapters are loaded by our first
calls, one round of which is not counted. ``fired`` and ``capped`` are bare aiohttp loops with all
requests at once and 64 at a time, ``ours`` are as many programs with 64 calls at a time, which go
adapter by adapter; each round sends new prompts in random order, after the cache was flushed.
Bar: ours at most 1.05 times the makespan of ``fired``, median of 5.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import aiohttp

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "backends"), str(ROOT / "benchmarks")]

from loads import Server, Texts  # noqa: E402
from report import write  # noqa: E402

import appl  # noqa: E402
from appl import gen, ppl  # noqa: E402
from appl.runtime.concurrency.loop_thread import io_thread  # noqa: E402
from appl.runtime.run import Run  # noqa: E402
from appl_backends.sglang import SGLang  # noqa: E402

RANK, PROMPT, ANSWER, CAP = 16, 500, 64, 64
Calls = list[tuple[str, str]]


def make(folder: Path, model: Path, number: int) -> None:
    """Write *number* random adapters for the model in *model*, as PEFT saves them."""
    import torch
    from safetensors.torch import save_file

    c = json.loads((model / "config.json").read_text("utf-8"))
    hidden, ffn = c["hidden_size"], c["intermediate_size"]
    size = c.get("head_dim") or hidden // c["num_attention_heads"]
    q, kv = c["num_attention_heads"] * size, c["num_key_value_heads"] * size
    shapes = {
        "self_attn.q_proj": (hidden, q), "self_attn.k_proj": (hidden, kv),
        "self_attn.v_proj": (hidden, kv), "self_attn.o_proj": (q, hidden),
        "mlp.gate_proj": (hidden, ffn), "mlp.up_proj": (hidden, ffn),
        "mlp.down_proj": (ffn, hidden),
    }  # fmt: skip
    for at in range(number):
        dice, tensors = torch.Generator().manual_seed(at), {}
        for layer in range(c["num_hidden_layers"]):
            for name, (inner, outer) in shapes.items():
                place = f"base_model.model.model.layers.{layer}.{name}"
                for part, shape in (("A", (RANK, inner)), ("B", (outer, RANK))):
                    values = torch.randn(*shape, generator=dice) * 0.02
                    tensors[f"{place}.lora_{part}.weight"] = values.to(torch.bfloat16)
        where = folder / f"a{at:02d}"
        where.mkdir(parents=True, exist_ok=True)
        save_file(tensors, str(where / "adapter_model.safetensors"), metadata={"format": "pt"})
        config = {
            "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": RANK, "lora_alpha": 16,
            "lora_dropout": 0.0, "bias": "none", "base_model_name_or_path": "x",
            "target_modules": [name.partition(".")[2] for name in shapes],
        }  # fmt: skip
        (where / "adapter_config.json").write_text(json.dumps(config), "utf-8")


def bare(url: str, calls: list[tuple[list[int], str]], most: int) -> list[float]:
    """When each call was answered, in seconds, by a loop with *most* requests at a time."""
    ended: list[float] = []

    async def go() -> None:
        gate, began = asyncio.Semaphore(most), time.perf_counter()
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=3)
        timeout = aiohttp.ClientTimeout(total=None)

        async def one(ids: list[int], name: str) -> None:
            sampling = {"max_new_tokens": ANSWER, "temperature": 0, "ignore_eos": True}
            body = {"input_ids": ids, "sampling_params": sampling, "lora_path": name}
            async with gate, session.post(f"{url}/generate", json=body) as response:
                assert response.status == 200, await response.text()
                await response.json()
            ended.append(time.perf_counter() - began)

        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            await asyncio.gather(*(one(*call) for call in calls))

    asyncio.run(go())
    return ended


@ppl
def ask(text: str, name: str) -> object:
    f"{text}"
    return gen(lora=name, max_tokens=ANSWER, temperature=0, ignore_eos=True)


def ours(backend: SGLang, calls: Calls) -> list[float]:
    """When each call of our program was answered."""
    with Run(backend):
        began, ended = time.perf_counter(), []

        def one(call: tuple[str, str]) -> None:
            str(ask(*call))
            ended.append(time.perf_counter() - began)

        list(appl.map(one, calls, progress=False))
    return ended


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("url", help="of the server, or 'make'")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--tokenizer", type=Path)
    parser.add_argument("--adapters", type=int, default=32)
    parser.add_argument("--calls", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--json")
    options = parser.parse_args()
    if options.url == "make":
        make(options.folder, options.model, options.adapters)
        return
    import tokenizers

    inner = tokenizers.Tokenizer.from_file(str(options.tokenizer / "tokenizer.json"))
    texts, server = Texts(options.tokenizer), Server(options.url)
    folders = {each.name: str(each) for each in sorted(options.folder.iterdir()) if each.is_dir()}
    client = SGLang(
        url=options.url,
        tokenizer=options.tokenizer,
        template="plain",
        adapters=folders,
        connections=CAP,
    )
    dice = random.Random(3)
    found: dict[str, list[dict[str, float]]] = {"ours": [], "fired": [], "capped": []}

    def fresh(round_: int) -> Calls:
        names = [name for _ in range(options.calls) for name in folders][: options.calls]
        dice.shuffle(names)
        size = max(8, int(PROMPT * options.scale))
        return [(texts.of(size, f"{round_}-{at}"), name) for at, name in enumerate(names)]

    def encoded(calls: Calls) -> list[tuple[list[int], str]]:
        return [(inner.encode(text).ids, name) for text, name in calls]

    arms: dict[str, Callable[[Calls], list[float]]] = {
        "ours": lambda calls: ours(client, calls),
        "fired": lambda calls: bare(options.url, encoded(calls), options.calls),
        "capped": lambda calls: bare(options.url, encoded(calls), CAP),
    }
    began = time.perf_counter()
    ours(client, fresh(-1))
    print(f"first round, with {len(folders)} adapters loaded: {time.perf_counter() - began:.1f} s")
    for round_ in range(options.rounds):
        for at, (name, act) in enumerate(arms.items()):
            server.flush()
            ended = act(fresh(round_ * len(arms) + at))
            found[name].append({"makespan": max(ended), "mean": statistics.mean(ended)})
            print(f"{round_} {name:7} {max(ended):6.2f} s, mean {statistics.mean(ended):5.2f} s")
    asyncio.run_coroutine_threadsafe(client.aclose(), io_thread().loop).result()
    medians = {
        name: {key: statistics.median(each[key] for each in rounds) for key in ("makespan", "mean")}
        for name, rounds in found.items()
    }
    for key in ("makespan", "mean"):
        ratios = {name: medians["ours"][key] / medians[name][key] for name in ("fired", "capped")}
        print(f"{key}: ours over fired {ratios['fired']:.2f}, capped {ratios['capped']:.2f}")
    write(options.json, f"python {' '.join(sys.argv)}", {"medians": medians, "rounds": found})


if __name__ == "__main__":
    main()

"""Adapters on SGLang through appl's backend, against servers whose weights were merged by NumPy.

Run: python benchmarks/sglang_adapters.py patch SITE
     python benchmarks/sglang_adapters.py FOLDER --serve COMMAND [--prompts 200] [--adapters 2]

The first makes SGLang 0.5.17 in the folder SITE load adapters without a GPU: it pins memory, which
no processor has. The second writes random adapters of rank 16 for the model that comes with appl,
and for each adapter a model with its weights merged by the formula of the paper
(W + alpha / r * B A, arXiv 2106.09685, section 4.1). COMMAND MODEL PORT FLAGS starts a server, as
``shared/gpu/cpu_sglang.sh DIR serve`` does. One server has the plain weights and the adapters, of
which a program asks through ``[backends.sglang.adapters]``, all mixed; then one server for each
merged model answers the same prompts. All is in float32 and greedy. Bar: all texts are equal.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "backends")]

import appl  # noqa: E402
from appl import gen, ppl  # noqa: E402

RANK, ALPHA, ANSWER = 16, 16.0, 24
TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
NAMES = "Mia Olaf Jane Tom Ada Lin Noor Peter".split()
KINDS = [
    "{a} has {n} apples and buys {m} bags with {n} apples each. How many apples does {a} have?",
    "Write one sentence about {a} and {b}, who live {n} streets apart.",
    "Is this positive or negative? {a} waited {n} hours and {b} never came.",
    "{a} is {n} years old, {b} is {m} years older. How old is {b}?",
    "Say in {n} words what {a} could give {b}.",
    "What is {n} times {m}?",
]


def patch(site: Path) -> None:
    """Have SGLang in *site* pin no memory for adapters where there is no GPU."""
    for name in ("layers.py", "lora.py", "backend/torch_backend.py"):
        file = site / "sglang/srt/lora" / name
        source = file.read_text("utf-8").replace(".pin_memory()", "")
        source = source.replace("pin_memory=True", "pin_memory=torch.cuda.is_available()")
        file.write_text(source, "utf-8")


def plain(file: Path) -> dict[str, np.ndarray]:
    """The tensors of a file in bfloat16, which NumPy does not have, in float32."""
    data = file.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8:end]).items():
        if name != "__metadata__":
            first, last = entry["data_offsets"]
            assert entry["dtype"] == "BF16", entry
            halves = np.frombuffer(data, "<u2", (last - first) // 2, end + first)
            whole = (halves.astype("<u4") << 16).view("<f4")
            tensors[name] = whole.reshape(entry["shape"]).copy()
    return tensors


def write_model(folder: Path, model: Path, tensors: dict[str, np.ndarray]) -> Path:
    shutil.copytree(model, folder, dirs_exist_ok=True)
    save_file(tensors, str(folder / "model.safetensors"), metadata={"format": "pt"})
    config = json.loads((model / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, "torch_dtype": "float32"}), "utf-8")
    return folder


def write_adapter(folder: Path, tensors: dict[str, np.ndarray], seed: int) -> Path:
    """Write a random adapter for all linear layers, as PEFT saves one."""
    dice = np.random.default_rng(seed)
    parts: dict[str, np.ndarray] = {}
    for name, weight in tensors.items():
        if name.split(".")[-2] in TARGETS:
            outer, inner = weight.shape
            place = f"base_model.model.{name.removesuffix('.weight')}"
            first = dice.standard_normal((RANK, inner)) * 0.6 / inner**0.5
            second = dice.standard_normal((outer, RANK)) * 0.6 / RANK**0.5
            parts[f"{place}.lora_A.weight"] = first.astype(np.float32)
            parts[f"{place}.lora_B.weight"] = second.astype(np.float32)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(parts, str(folder / "adapter_model.safetensors"), metadata={"format": "pt"})
    config = {
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "r": RANK, "lora_alpha": ALPHA,
        "lora_dropout": 0.0, "bias": "none", "target_modules": list(TARGETS),
        "base_model_name_or_path": "x",
    }  # fmt: skip
    (folder / "adapter_config.json").write_text(json.dumps(config), "utf-8")
    return folder


def merged(tensors: dict[str, np.ndarray], adapter: Path) -> dict[str, np.ndarray]:
    """The weights W + alpha / r * B A."""
    parts = load_file(str(adapter / "adapter_model.safetensors"))
    found = dict(tensors)
    for name in tensors:
        place = f"base_model.model.{name.removesuffix('.weight')}"
        if f"{place}.lora_A.weight" in parts:
            a, b = (parts[f"{place}.lora_{part}.weight"].astype(np.float64) for part in "AB")
            found[name] = (tensors[name] + ALPHA / RANK * (b @ a)).astype(np.float32)
    return found


def prompts(number: int) -> list[str]:
    dice = random.Random(5)
    found: list[str] = []
    while len(found) < number:
        a, b = dice.sample(NAMES, 2)
        text = dice.choice(KINDS).format(a=a, b=b, n=dice.randrange(2, 40), m=dice.randrange(2, 9))
        found += [text] if text not in found else []
    return found


@contextlib.contextmanager
def served(command: str, model: Path, *flags: str) -> Iterator[str]:
    """The URL of a server of *model*, which has ended when the block has."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    log = model.with_name(f"{model.name}.log")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*shlex.split(command), str(model), str(port), "--dtype", "float32", *flags],
            stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip
    url, began = f"http://127.0.0.1:{port}", time.monotonic()
    try:
        while True:
            if process.poll() is not None or time.monotonic() - began > 500:
                raise SystemExit(f"the server of {model} did not start: see {log}")
            with contextlib.suppress(urllib.error.URLError, OSError):
                urllib.request.urlopen(f"{url}/health", timeout=5).close()
                break
            time.sleep(1)
        print(f"{model.name}: ready after {time.monotonic() - began:.0f} s", flush=True)
        yield url
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@ppl
def ask(text: str, name: str | None) -> object:
    f"{text}"
    if name is None:
        return gen(max_tokens=ANSWER, temperature=0)
    return gen(lora=name, max_tokens=ANSWER, temperature=0)


def answers(
    url: str,
    where: Path,
    calls: list[tuple[str, str | None]],
    adapters: dict[str, str] | None = None,
) -> list[str]:
    """The texts by a program whose settings name the server and *adapters*."""
    table: dict[str, object] = {"url": url, "tokenizer": str(MODEL), "connections": 16}
    if adapters:
        table["adapters"] = adapters
    with appl.record(where, backend="sglang", backends={"sglang": table}):
        return list(appl.map(lambda call: str(ask(*call)), calls, progress=False))


MODEL = ROOT / "backends/appl_backends/embedded/weights"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", help="to write models to, or 'patch'")
    parser.add_argument("site", nargs="?", type=Path, help="where sglang is, for 'patch'")
    parser.add_argument("--serve", help="the command that starts a server")
    parser.add_argument("--prompts", type=int, default=200)
    parser.add_argument("--adapters", type=int, default=2)
    options = parser.parse_args()
    if options.folder == "patch":
        patch(options.site)
        return
    where = Path(options.folder).resolve()
    tensors = plain(MODEL / "model.safetensors")
    base = write_model(where / "base", MODEL, tensors)
    names = [f"a{at}" for at in range(options.adapters)]
    folders = {n: write_adapter(where / n, tensors, at) for at, n in enumerate(names)}
    texts = prompts(options.prompts)
    calls: list[tuple[str, str | None]] = [(text, n) for text in texts for n in (None, *names)]
    random.Random(6).shuffle(calls)
    flags = ["--enable-lora", "--lora-backend", "torch_native", "--max-lora-rank", str(RANK)]
    flags += ["--lora-target-modules", *TARGETS]
    with served(options.serve, base, *flags) as url:
        began = time.monotonic()
        given = {name: str(folder) for name, folder in folders.items()}
        found = dict(zip(calls, answers(url, where / "adapters.trace", calls, given), strict=True))
        seconds = time.monotonic() - began
        print(f"{len(calls)} calls of {len(names)} adapters and none: {seconds:.0f} s", flush=True)
    equal = 0
    for name in names:
        weights = write_model(where / f"{name}-merged", MODEL, merged(tensors, folders[name]))
        with served(options.serve, weights) as url:
            each: list[tuple[str, str | None]] = [(text, None) for text in texts]
            alone = answers(url, where / f"{name}.trace", each)
        same = [found[text, name] == other for text, other in zip(texts, alone, strict=True)]
        differ = sum(found[text, name] != found[text, None] for text in texts)
        equal += sum(same)
        words = sum(len(re.findall(r"\w+", text)) for text in alone)
        print(
            f"{name}: {sum(same)} of {len(texts)} texts are those of merged weights; {differ} "
            f"differ from the plain model's; {len(set(alone))} distinct, {words} words",
            flush=True,
        )
        for text, other, one in zip(texts, alone, same, strict=True):
            if not one:
                print(f"  {text!r}\n    {found[text, name]!r}\n    {other!r}")
    print(f"{equal} of {len(names) * len(texts)} equal")
    if equal < len(names) * len(texts):
        raise SystemExit(1)


if __name__ == "__main__":
    main()

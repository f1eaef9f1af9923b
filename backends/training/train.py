"""Trains the shipped model from scratch on generator text and exports it; everything is seeded."""

from __future__ import annotations

import argparse
import math
import queue
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import data
import evaluate
import network
import tokenizer as tokenizers_
import torch
from tokenizers import Tokenizer
from torch import Tensor

ADAM = ("embed", "norm", "n1", "n2")


def orthogonal(g: Tensor) -> Tensor:
    """The nearest matrices with orthogonal rows, by five Newton-Schulz steps, for a stack of matrices."""
    x = g.bfloat16()
    tall = x.shape[1] > x.shape[2]
    x = x.mT if tall else x
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(5):
        a = x @ x.mT
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * (a @ a)) @ x
    return (x.mT if tall else x).float()


class Optimizer:
    """Muon for the matrices of the layers, Adam for embeddings and norms."""

    def __init__(self, weights: dict[str, Tensor], decay: float) -> None:
        self.weights, self.decay = weights, decay
        self.first = {n: torch.zeros_like(w) for n, w in weights.items()}
        self.second = {n: torch.zeros_like(w) for n, w in weights.items() if n in ADAM}
        self.count = 0
        self.muon = torch.compile(self._muon) if weights["embed"].is_cuda else self._muon

    @staticmethod
    def _muon(w: Tensor, g: Tensor, m: Tensor, rate: Tensor, decay: float) -> None:
        m.mul_(0.95).add_(g)
        update = orthogonal(g + 0.95 * m) * (0.2 * max(g.shape[1:]) ** 0.5)
        w.mul_(1 - rate * decay).sub_(rate * update)

    def state(self) -> dict[str, Any]:
        """Everything that the next step depends on."""
        weights = {n: w.detach() for n, w in self.weights.items()}
        return {
            "weights": weights,
            "first": self.first,
            "second": self.second,
            "count": self.count,
        }

    @torch.no_grad()
    def restore(self, state: dict[str, Any]) -> None:
        """Go on where a state was taken."""
        for name, w in self.weights.items():
            w.copy_(state["weights"][name])
        self.first, self.second, self.count = state["first"], state["second"], state["count"]

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """One step at the learning rate."""
        self.count += 1
        tensor = torch.tensor(rate, device=self.weights["embed"].device)
        for name, w in self.weights.items():
            g = w.grad
            assert g is not None
            if name in ADAM:
                self._adam(name, w, g, rate * (1.0 if name == "embed" else 0.5))
            else:
                self.muon(w, g, self.first[name], tensor, self.decay)
            w.grad = None

    def _adam(self, name: str, w: Tensor, g: Tensor, rate: float) -> None:
        m, v = self.first[name].lerp_(g, 0.1), self.second[name].lerp_(g * g, 0.05)
        m_hat, v_hat = m / (1 - 0.9**self.count), v / (1 - 0.95**self.count)
        w.sub_(rate * m_hat / (v_hat.sqrt() + 1e-8))


def rate_at(share: float, peak: float, descent: float) -> float:
    """Warm-up, plateau, and a linear descent at the end."""
    return peak * min(1.0, share / 0.01 + 0.02, (1 - share) / descent + 0.002)


def to_device(batch: data.Batch, device: str) -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
    """Ids, positions inside conversations, weights, starts."""
    ids = torch.from_numpy(batch.ids.astype("int32")).to(device, non_blocking=True).long()
    starts = torch.from_numpy(batch.starts).to(device, non_blocking=True)
    factors = torch.from_numpy(batch.factors.astype("float32")).to(device, non_blocking=True)
    at = torch.arange(len(ids), device=device, dtype=torch.int32)
    begin = starts[(torch.searchsorted(starts, at, right=True) - 1).clamp(min=0)]
    return (
        ids,
        at - begin,
        factors,
        torch.cat([starts, torch.tensor([len(ids)], device=device, dtype=torch.int32)]),
        batch.longest,
    )


def prefetched(batches: Iterator[data.Batch], device: str) -> Iterator[Any]:
    """Batches on the device, moved by a thread."""
    ready: queue.Queue[Any] = queue.Queue(maxsize=4)

    def work() -> None:
        for batch in batches:
            ready.put(to_device(batch, device))

    threading.Thread(target=work, daemon=True).start()
    while True:
        yield ready.get()


def train(options: argparse.Namespace, device: str) -> tuple[dict[str, Tensor], network.Shape]:
    """Train for so many seconds or steps."""
    shape = network.Shape(vocab=options.vocab)
    weights = network.fresh(shape, options.seed, device)
    if options.resume:
        weights = {
            n: t.float().requires_grad_()
            for n, t in network.load(options.resume, device, torch.float32)[0].items()
        }
    print(f"parameters {sum(w.numel() for w in weights.values()):,}", flush=True)
    optimizer = Optimizer(weights, 0.1)
    if options.state and options.state.exists():
        optimizer.restore(torch.load(options.state, map_location=device))
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    loss_of = torch.compile(network.loss_of, dynamic=False) if device == "cuda" else network.loss_of
    focus = {skill: float(factor) for skill, _, factor in (f.partition("=") for f in options.focus)}
    source = prefetched(
        data.stream(
            options.out / "tokenizer.json",
            options.seed,
            options.size,
            options.workers,
            device == "cpu",
            focus,
        ),
        device,
    )
    begun = time.time()
    start, waited, window = begun, 0.0, []
    for step in range(options.steps):
        if step == 10:
            start = time.time()
        share = max(
            (time.time() - start) / options.seconds if options.seconds else 0.0,
            step / options.steps,
        )
        if share >= 1:
            break
        before = time.time()
        batch = next(source)
        waited += time.time() - before
        loss = loss_of(weights, *batch[:4], batch[4], shape, dtype)
        loss.backward()
        window.append(loss.detach())
        if step % options.sum == options.sum - 1:
            optimizer.step(rate_at(share, options.rate, options.descent))
        if step % options.log == options.log - 1:
            value = torch.stack(window).mean().item()
            window.clear()
            done = (step + 1) * options.size
            print(
                f"step {step + 1} {share:.0%} loss {value:.4f} tokens {done / 1e6:.0f}M {done / (time.time() - begun) / 1e6:.2f}M/s waited {waited:.0f}s {time.time() - begun:.0f}s",
                flush=True,
            )
            if not math.isfinite(value):
                raise SystemExit("the loss is not finite")
    print(
        f"trained {step} steps, {step * options.size / 1e6:.0f}M tokens in {time.time() - begun:.0f}s",
        flush=True,
    )
    if options.state:
        torch.save(optimizer.state(), options.state)
    return weights, shape


def main() -> None:
    """Tokenizer, training, export, evaluation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the folder of the weights")
    parser.add_argument("--resume", type=Path, help="go on from these weights and their tokenizer")
    parser.add_argument(
        "--state", type=Path, help="go on from this file if there is one, and write it at the end"
    )
    parser.add_argument("--tokenizer", type=Path, help="the folder of a ready tokenizer")
    parser.add_argument(
        "--focus",
        nargs="*",
        default=[],
        metavar="SKILL=FACTOR",
        help="multiply the shares of skills",
    )
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument(
        "--descent", type=float, default=0.45, help="the share of the run in which the rate falls"
    )
    parser.add_argument("--seconds", type=float, default=480.0)
    parser.add_argument("--steps", type=int, default=10**6)
    parser.add_argument("--size", type=int, default=131072, help="tokens of a step")
    parser.add_argument(
        "--sum", type=int, default=1, help="batches whose gradients are added up for a step"
    )
    parser.add_argument("--rate", type=float, default=4e-3)
    parser.add_argument("--workers", type=int, default=14)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log", type=int, default=100)
    parser.add_argument("--vocab", type=int, default=tokenizers_.SIZE)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--number", type=int, default=300, help="held-out examples of a skill")
    parser.add_argument("--arithmetic", type=int, default=1000)
    parser.add_argument("--report", type=Path)
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(options.seed)
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.set_float32_matmul_precision("high")
    ready = options.tokenizer or options.resume
    tokenizers_.save(
        Tokenizer.from_file(str(ready / "tokenizer.json")) if ready else tokenizers_.train(),
        options.out,
    )
    weights, shape = train(options, device)
    network.export(weights, shape, options.out, options.temperature)
    generate = evaluate.torch_generate(options.out, device)
    evaluate.report(
        generate, options.number, options.arithmetic, options.temperature, options.report
    )


if __name__ == "__main__":
    main()

"""Two servers of one model that answer together: one beside that speculates, or one for prompts.

Invariant: what does not fit is refused before anything is started, with the figures.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from appl.errors import MissingBackendExtra, Unsupported
from appl_backends.sglang.model_folder import folder_of

if TYPE_CHECKING:
    from appl_backends.sglang.plan import LaunchPlan

Role = Mapping[str, str | None]
"""The settings of one of the two."""

_GB = 1e9
_BESIDE = 4e9
"""Memory of a GPU that a server takes beside weights and cache: CUDA, graphs, activations."""
_LEAST_CACHE = 4e9
"""The least cache of both servers together that is worth starting them for."""
_OF_PLAIN = 0.7
"""The part of the cache that the server without drafts gets: most calls go there."""

FRACTION = "--mem-fraction-static"
TRANSFER = "--disaggregation-transfer-backend"

SPECULATES: Role = {
    "--speculative-algorithm": "NGRAM",
    "--speculative-num-draft-tokens": "8",
    "--speculative-ngram-external-sam-budget": "7",
    "--max-running-requests": "32",
}
"""How the second server speculates: so many drafts were measured, and half as many pay less."""

HANDS_OVER: Mapping[str, str] = {
    "SGLANG_HOST_IP": "127.0.0.1",
    "UCX_TLS": "cuda_ipc,cuda_copy,sm,tcp,self",
}
"""The environment in which NIXL was seen to hand prompts from GPU to GPU of one machine."""


def check_pair(plan: LaunchPlan) -> None:
    """Refuse what two servers are not started with. Raises ``Unsupported``."""
    if plan.is_apart and (plan.prefill, plan.decode) != (1, 1):
        raise Unsupported(
            f"--prefill 1 --decode 1 starts one server for prompts and one for answers; got "
            f"{plan.prefill} and {plan.decode}"
        )
    name = "--drafting" if plan.drafting else "--prefill and --decode"
    if plan.drafting and plan.is_apart:
        raise Unsupported("--drafting does not go with --prefill and --decode: choose one")
    if plan.replicas > 1:
        raise Unsupported(f"{name} does not go with --replicas: the router knows no such pairs")
    if plan.adapters:
        raise Unsupported(f"{name} does not go with --adapter: adapters are loaded by one server")


def apart(plan: LaunchPlan, bootstrap: int) -> tuple[Role, Role]:
    """The settings of the servers for prompts and for answers, which meet at port *bootstrap*."""
    first: dict[str, str | None] = {
        "--disaggregation-mode": "prefill",
        "--disaggregation-bootstrap-port": str(bootstrap),
        TRANSFER: "nixl",
    }
    second: dict[str, str | None] = {
        "--disaggregation-mode": "decode",
        TRANSFER: "nixl",
        "--base-gpu-id": str(plan.tp * plan.dp),
    }
    given = [each.partition("=")[0] for each in plan.more]
    if TRANSFER not in given:  # it is not known to go with others
        second["--disaggregation-decode-enable-radix-cache"] = None
    return first, second


def check_transfer(plan: LaunchPlan) -> None:
    """See that the servers can hand over prompts. Raises ``MissingBackendExtra``."""
    if any(each.startswith(TRANSFER) for each in plan.more):
        return
    code = "import importlib.util, sys; sys.exit(importlib.util.find_spec('nixl') is None)"
    if subprocess.run([plan.python, "-c", code], check=False).returncode:
        raise MissingBackendExtra(
            f"servers for prompts and for answers hand over by NIXL: {plan.python} -m pip install "
            f"nixl, or name another way by {TRANSFER}",
            extra="sglang-server",
        )


def beside(plan: LaunchPlan, free: Callable[[], float | None] | None = None) -> tuple[Role, Role]:
    """The settings of the plain server and of the one that speculates, on the same GPUs.

    *free* tells the bytes that a GPU has. Raises ``Unsupported`` with the reason where the model is
    too large for two copies, or it is not known.
    """
    if any(each.startswith(FRACTION) for each in plan.more):
        return {}, SPECULATES
    memory, weights = (free or free_bytes)(), _weights(plan.model)
    if memory is None or weights is None:
        what = "the memory of the GPU" if memory is None else f"the size of {plan.model}"
        raise Unsupported(
            f"--drafting needs two copies of the model on the GPU, and {what} is not known here; "
            f"give {FRACTION}, a share of what is free when each of them starts"
        )
    each = weights / plan.tp
    cache = memory - 2 * each - 2 * _BESIDE
    if cache < _LEAST_CACHE:
        raise Unsupported(
            f"--drafting needs two copies of the model on the GPU: 2 x {each / _GB:.1f} GB of "
            f"weights, 2 x {_BESIDE / _GB:.0f} GB beside them and at least "
            f"{_LEAST_CACHE / _GB:.0f} GB for their caches, and {memory / _GB:.1f} GB are free"
        )
    # Each fraction counts from what is free when that server starts: the second finds what the
    # first, which is ready by then, has left.
    first = each + cache * _OF_PLAIN
    second = each + cache * (1 - _OF_PLAIN)
    left = memory - first - _BESIDE
    return {FRACTION: f"{first / memory:.3f}"}, {**SPECULATES, FRACTION: f"{second / left:.3f}"}


def _weights(model: str) -> int | None:
    folder = folder_of(model)
    sizes = [each.stat().st_size for each in Path(folder).glob("*.safetensors")] if folder else []
    return sum(sizes) or None


def free_bytes() -> float | None:
    """The free bytes of the GPU that has the least; ``None`` where that is not known."""
    command = ["nvidia-smi", "--query-gpu=memory.free", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
        return min(float(line) for line in done.stdout.split()) * (1 << 20)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None

"""The processes of SGLang to start with their settings, and the refused settings with a reason.

Invariant: a server that is started by a plan listens on this machine alone and asks for a key.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from appl.base.extras import advice
from appl.errors import MissingBackendExtra, Unsupported

OLDEST = (0, 5, 17)
"""The oldest version that is started: in earlier ones parts of a server unpickle what they are sent
over the network (CVE-2025-10164, CVE-2026-3060)."""

REFUSED = {
    "--enable-custom-logit-processor": "it runs code that requests contain (CVE-2026-7304)",
    "--api-key": "keys are drawn at random and printed when the server is ready",
    "--admin-api-key": "keys are drawn at random and printed when the server is ready",
    "--host": "the server listens on this machine alone; for others put a proxy with TLS and "
    "access control of its own before it",
    "--config": "the keys are passed in a file of this name; write the settings here",
    "--model-path": "write it as --model",
    "--skip-tokenizer-init": "the server could not answer texts",
}

SETTINGS: dict[str, str | None] = {
    "--schedule-policy": "lpm",
    "--enable-cache-report": None,
    "--enable-metrics": None,
    "--constrained-json-disable-any-whitespace": None,
    "--incremental-streaming-output": None,
    "--sleep-on-idle": None,
}
"""The settings that this runtime wants of a server; the user's own come before them."""


_SETTLED = ("--enable-hierarchical-cache", "--hicache", "--disable-radix-cache", "--disaggregation")
"""Arguments with which the user decides about the host cache, or which go without one."""

_FEW_ADAPTERS = 8
"""The adapters that a batch of SGLang has by default."""
_ADAPTER_BYTES = 8 << 30
"""The most memory of a GPU that is taken to have all adapters there at once."""


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """The servers to start.

    *python* is the interpreter that has sglang. *replicas* servers of *tp* × *dp* GPUs each stand
    behind a router when there are several. *server_priority* has the servers order requests by
    priority instead of by prefix. *host_cache* is the memory of the machine, in GB, in which all of
    them together keep what their GPUs have no room for; 0 for none. *adapters* are folders of LoRA
    adapters by name. With *drafting* a second server on the same GPUs speculates; with *prefill*
    and *decode*, each 1, one server computes prompts and another one, on GPUs of its own, generates
    answers. *more* are further arguments for SGLang. *timeout* is the longest start of a server, in
    seconds; *restarts* how often one that ended is started again.
    """

    model: str
    python: str = sys.executable
    port: int = 0
    tp: int = 1
    dp: int = 1
    replicas: int = 1
    server_priority: bool = False
    host_cache: int = 0
    adapters: Mapping[str, str] = field(default_factory=dict)
    drafting: bool = False
    prefill: int = 0
    decode: int = 0
    more: tuple[str, ...] = ()
    timeout: float = 1800.0
    restarts: int = 3
    log: Path | None = None

    def __post_init__(self) -> None:
        if min(self.tp, self.dp, self.replicas) < 1:
            raise Unsupported("--tp, --dp and --replicas must be at least 1")
        if not (0 <= self.port < 1 << 16 and self.timeout > 0 and self.restarts >= 0):
            raise Unsupported(
                "--port must be from 0 to 65535, --timeout above 0 and --restarts at least 0; got "
                f"{self.port}, {self.timeout:g} and {self.restarts}"
            )
        if self.drafting or self.is_apart:
            from appl_backends.sglang.pair import check_pair  # few start a pair

            check_pair(self)
        if self.host_cache and self.host_cache < self.ranks:
            raise Unsupported(f"--host-cache must be at least 1 GB for each GPU: {self.ranks}")
        for each in self.more:
            name = each.partition("=")[0]
            for refused, why in REFUSED.items():
                if len(name) > len("--") and refused.startswith(name):  # SGLang takes beginnings
                    raise Unsupported(f"{refused} is not passed on to SGLang: {why}")

    @property
    def is_apart(self) -> bool:
        """True if prompts are computed by another server than answers."""
        return bool(self.prefill or self.decode)

    @property
    def ranks(self) -> int:
        """The number of GPUs; each has a part of the host cache of its own."""
        return self.tp * self.dp * self.replicas

    @property
    def adapters_at_once(self) -> int:
        """The adapters of one batch: all and none, where the memory for so many is small.

        With fewer, a client that caps its calls waits for adapters to be put into place: 32 of them
        in batches of 8 took 1.8 times as long on an H200 as 33 in one.
        """
        sizes = [sum(each.stat().st_size for each in _tensors(at)) for at in self.adapters.values()]
        every = len(self.adapters) + 1
        return every if every * max(sizes, default=0) <= _ADAPTER_BYTES else _FEW_ADAPTERS

    @property
    def keeps_on_host(self) -> bool:
        """True if the servers get a host cache: it is wanted, and *more* does not settle it."""
        given = {each.partition("=")[0] for each in self.more}
        wanted = bool(self.host_cache) and not self.is_apart
        return wanted and not any(each.startswith(_SETTLED) for each in given)

    def arguments(
        self, number: int, port: int, config: Path, role: Mapping[str, str | None] | None = None
    ) -> list[str]:
        """The command of server *number*, which reads its keys from the file *config*.

        *role* are the settings of one of a pair.
        """
        given = {each.partition("=")[0] for each in self.more}
        wanted = dict(SETTINGS)
        if self.server_priority:
            wanted |= {"--schedule-policy": "fcfs", "--enable-priority-scheduling": None}
        if self.keeps_on_host and not (self.drafting and number):
            each = str(self.host_cache // self.ranks)
            wanted |= {"--enable-hierarchical-cache": None, "--hicache-size": each}
        if self.adapters:
            wanted |= {"--enable-lora": None, "--max-loras-per-batch": str(self.adapters_at_once)}
        if self.replicas > 1:
            wanted["--base-gpu-id"] = str(number * self.tp * self.dp)
        wanted |= {"--tp-size": str(self.tp), "--dp-size": str(self.dp), **(role or {})}
        settings = [
            part
            for name, value in wanted.items()
            if name not in given
            for part in ((name,) if value is None else (name, value))
        ]
        if self.adapters and "--lora-paths" not in given:
            settings += ["--lora-paths", *(f"{name}={at}" for name, at in self.adapters.items())]
        return [
            self.python,
            "-m",
            "sglang.launch_server",
            "--model-path",
            self.model,
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--config",
            str(config),
            *settings,
            *self.more,
        ]


def _tensors(folder: str) -> list[Path]:
    return [*Path(folder).expanduser().glob("adapter_model.*")]


def _not_installed(python: str) -> str:
    if python == sys.executable:
        text = advice("sglang-server", "`appl serve sglang`")
    else:
        text = f"`appl serve sglang` needs sglang in {python}: {python} -m pip install sglang"
    return f"{text} (Linux with a GPU), or name another interpreter by --python"


def check_installed(python: str) -> str:
    """The version of sglang that *python* has.

    Raises ``MissingBackendExtra`` if it has none, ``Unsupported`` if it is too old, or *python* is
    no program.
    """
    code = "from importlib.metadata import version; print(version('sglang'))"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    except OSError as error:
        raise Unsupported(f"--python {python} cannot be run: {error.strerror}") from None
    version = done.stdout.strip()
    if done.returncode:
        raise MissingBackendExtra(_not_installed(python), extra="sglang-server")
    numbers = tuple(map(int, re.findall(r"\d+", version)[:3]))
    if numbers < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise Unsupported(
            f"sglang {version} has known holes; {oldest} is the oldest that is started: "
            f'pip install "sglang>={oldest}"'
        )
    return version

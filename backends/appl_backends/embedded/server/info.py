"""The server's information about itself: its model, its settings, its load and its counters."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from appl_backends.embedded import MODEL
from appl_backends.embedded.server.jobs import Jobs

SPEAKS = "0.5.17"
"""The version of SGLang whose native interface this is."""


class Info:
    """Facts about the server behind *jobs*; *settings* are those that it was started with."""

    def __init__(self, jobs: Jobs, settings: dict[str, Any]) -> None:
        self._jobs, self._backend, self._settings = jobs, jobs.backend, settings
        self._began = time.time()
        config = json.loads((self._backend.folder / "config.json").read_text("utf-8"))
        self._type, self._architectures = config.get("model_type"), config.get("architectures")

    def model(self) -> dict[str, Any]:
        """The answer of ``/model_info``."""
        folder = str(self._backend.folder)
        return {
            "model_path": folder,
            "tokenizer_path": folder,
            "is_generation": True,
            "preferred_sampling_params": None,
            "weight_version": "default",
            "has_image_understanding": False,
            "has_audio_understanding": False,
            "model_type": self._type,
            "architectures": self._architectures,
        }

    def server(self) -> dict[str, Any]:
        """The answer of ``/server_info``; ``engine`` tells this server from SGLang itself."""
        engine, folder = self._backend.engine, str(self._backend.folder)
        state = {**self._backend.cache_report(), "open_requests": self._jobs.open}
        return {
            "model_path": folder,
            "tokenizer_path": folder,
            "served_model_name": MODEL,
            "skip_tokenizer_init": False,
            "context_length": engine.context,
            "max_running_requests": engine.max_batch,
            "max_queued_requests": self._jobs.limit,
            "chunked_prefill_size": engine.chunk,
            "schedule_policy": "lpm",
            "page_size": 1,
            "disable_radix_cache": not engine.cache.shares,
            "enable_cache_report": True,
            "enable_priority_scheduling": True,
            "enable_metrics": True,
            "enable_lora": False,
            "tp_size": 1,
            "dp_size": 1,
            **self._settings,
            "max_total_num_tokens": self._backend.cache_tokens,
            "max_req_input_len": engine.context - 1,
            "status": "ready",
            "startup_time": self._began,
            "internal_states": [state],
            "version": SPEAKS,
            "engine": "appl-embedded",
            "engine_version": _version(),
        }

    def models(self) -> dict[str, Any]:
        """The answer of ``/v1/models``."""
        return {"object": "list", "data": [self.card()]}

    def card(self) -> dict[str, Any]:
        """The answer of ``/v1/models/embedded``."""
        return {
            "id": MODEL,
            "object": "model",
            "created": int(self._began),
            "owned_by": "appl",
            "root": MODEL,
            "parent": None,
            "max_model_len": self._backend.engine.context,
        }

    def loads(self) -> dict[str, Any]:
        """The answer of ``/v1/loads``."""
        engine, held = self._backend.engine, self._backend.engine.cache.report()
        counted, room = engine.counters, self._backend.cache_tokens or 1
        load = {
            "timestamp": time.time(),
            "dp_rank": 0,
            "num_running_reqs": len(engine.running),
            "num_waiting_reqs": self._jobs.waiting,
            "num_used_tokens": held.protected,
            "num_total_tokens": held.tokens,
            "max_total_num_tokens": self._backend.cache_tokens,
            "max_running_requests": engine.max_batch,
            "token_usage": held.protected / room,
            "cache_hit_rate": counted.cached_tokens / (counted.prompt_tokens or 1),
            "utilization": len(engine.running) / engine.max_batch,
        }
        return {
            "timestamp": datetime.now(UTC).isoformat(),
            "version": SPEAKS,
            "accelerator": None,
            "num_accelerators": 1,
            "loads": [load],
        }

    def metrics(self) -> str:
        """The answer of ``/metrics``, as Prometheus reads it."""
        engine = self._backend.engine
        counted = asdict(engine.counters)
        numbers = {
            "sglang:prompt_tokens_total": counted["prompt_tokens"],
            "sglang:generation_tokens_total": counted["decoded_tokens"] + counted["forced_tokens"],
            "sglang:cached_tokens_total": counted["cached_tokens"],
            "sglang:num_requests_total": self._jobs.finished,
            "sglang:num_aborted_requests_total": counted["aborts"],
            "sglang:num_running_reqs": len(engine.running),
            "sglang:num_queue_reqs": self._jobs.waiting,
            **{f"appl:engine_{name}": value for name, value in counted.items()},
            "appl:refused_busy_total": self._jobs.refused,
        }
        return "".join(f"# TYPE {name} {_kind(name)}\n{name} {numbers[name]}\n" for name in numbers)


def _kind(name: str) -> str:
    return "gauge" if name.endswith(("_reqs", "abort_steps")) else "counter"


def _version() -> str:
    try:
        return version("appl")
    except PackageNotFoundError:  # run from a checkout that is not installed
        return "unknown"

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from appl.errors import BackendRefused, Unsupported
from appl_backends.sglang.probe import ServerFacts, check_version, probe
from appl_backends.sglang.wire import Wire

MODEL = {"model_path": "/models/m", "tokenizer_path": "/models/t", "is_generation": True}
FACTS = {
    "version": "0.5.17", "schedule_policy": "lpm", "disable_radix_cache": False,
    "max_total_num_tokens": 1000, "enable_priority_scheduling": False,
    "internal_states": [{"effective_max_running_requests_per_dp": 64}],
}  # fmt: skip


class Told(Wire):
    """A server that says what it is told to."""

    def __init__(self, **paths: Mapping[str, Any]) -> None:
        super().__init__("http://127.0.0.1:9", None, None, 1, 1.0)
        self._paths = paths

    async def exchange(self, method: str, path: str, body: bytes) -> Any:
        found = self._paths.get(path.strip("/").replace("/", "_"))
        if found is None:
            raise BackendRefused("not found", status=404)
        return json.loads(json.dumps(found))


async def test_what_a_server_says_is_taken_over() -> None:
    models = {"data": [{"max_model_len": 4096}]}
    server = await probe(Told(model_info=MODEL, server_info=FACTS, v1_models=models))
    assert (server.version, server.model, server.tokenizer) == ("0.5.17", "/models/m", "/models/t")
    assert (server.short, server.policy, server.radix) == ("m", "lpm", True)
    assert (server.cache_tokens, server.context, server.running) == (1000, 4096, 64)
    assert server.advice() == []


async def test_older_addresses_are_asked_where_the_newer_are_unknown() -> None:
    server = await probe(Told(get_model_info=MODEL, get_server_info=FACTS))
    assert (server.model, server.version) == ("/models/m", "0.5.17")


async def test_a_router_says_less_and_nothing_is_guessed() -> None:
    server = await probe(Told(get_model_info=MODEL, get_server_info={"router_manager": True}))
    assert (server.radix, server.policy, server.cache_tokens) == (None, None, None)
    assert server.incremental is None and server.advice() == []


async def test_a_router_tells_its_servers_and_keys_go_to_none_on_other_machines() -> None:
    urls = ["http://127.0.0.1:5", "http://10.0.0.9:5", "http://127.0.0.1:6"]
    workers = {"workers": [{"url": url} for url in urls]}
    server = await probe(Told(get_model_info=MODEL, workers=workers))
    assert server.workers == (urls[0], urls[2])


def graphs(backend: str) -> dict[str, Any]:
    """CUDA graphs as SGLang 0.5.17 tells of them."""
    decode = {"backend": backend, "max_bs": 32, "bs": [1, 2, 4, 8, 16, 24, 32]}
    return {"decode": decode, "prefill": {"backend": "disabled", "max_bs": 2048}}


async def test_a_server_without_graphs_gets_no_advice_about_their_size() -> None:
    told = {**FACTS, "cuda_graph_config": graphs("disabled")}
    server = await probe(Told(model_info=MODEL, server_info=told))
    assert server.advice() == []


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"disable_radix_cache": True}, "--disable-radix-cache"),
        ({"schedule_policy": "fcfs"}, "--schedule-policy lpm"),
        ({"speculative_algorithm": "NGRAM"}, "drafting="),
        ({"constrained_json_disable_any_whitespace": False}, "white space"),
        ({"enable_hierarchical_cache": False}, "--enable-hierarchical-cache"),
        ({"cuda_graph_max_bs": 32}, "--cuda-graph-max-bs"),
        ({"cuda_graph_config": graphs("full")}, "more than 32 answers at once"),
    ],
)
async def test_settings_that_cost_are_named(facts: dict[str, Any], said: str) -> None:
    server = await probe(Told(model_info=MODEL, server_info={**FACTS, **facts}))
    (advice,) = server.advice()
    assert said in advice


@pytest.mark.parametrize(
    ("facts", "usage", "tokens"),
    [
        ({}, {}, 120_000),
        ({"enable_hierarchical_cache": False, "hicache_ratio": 2.0}, {}, 120_000),
        ({"enable_hierarchical_cache": True, "hicache_ratio": 3.0}, {}, 360_000),
        # as a server has written it into its log: 511,170 tokens in 67 GB
        (
            {"enable_hierarchical_cache": True, "hicache_size": 67, "hicache_ratio": 2.0},
            {"kvcache": 14.648, "token_capacity": 120_000},
            511_170,
        ),
        ({"enable_hierarchical_cache": True, "hicache_size": 1, "hicache_ratio": "x"}, {}, 120_000),
    ],
)
async def test_the_memory_of_the_machine_counts_where_it_is_a_part_of_the_cache(
    facts: dict[str, Any], usage: dict[str, Any], tokens: int
) -> None:
    told = {**FACTS, "max_total_num_tokens": 120_000, **facts}
    told["internal_states"] = [{"memory_usage": usage}]
    server = await probe(Told(model_info=MODEL, server_info=told))
    assert server.cache_tokens == pytest.approx(tokens, rel=1e-3)


def test_first_come_first_served_is_no_fault_where_priority_needs_it() -> None:
    assert ServerFacts(radix=True, policy="fcfs", priority=True).advice() == []


@pytest.mark.parametrize("version", ["0.4.9", "0.5.3.post1"])
async def test_a_version_with_another_interface_is_refused(version: str) -> None:
    with pytest.raises(Unsupported, match=version):
        await probe(Told(model_info=MODEL, server_info={**FACTS, "version": version}))


@pytest.mark.parametrize("version", ["0.5.17", "0.5.23", "0.6.0", ""])
def test_a_later_version_or_an_unknown_one_is_not(version: str) -> None:
    check_version(version, "it")


@pytest.mark.parametrize(
    "told",
    [
        lambda: Told(model_info={**MODEL, "is_generation": False}, server_info=FACTS),
        lambda: Told(model_info=MODEL, server_info={**FACTS, "skip_tokenizer_init": True}),
    ],
)
async def test_a_server_that_cannot_answer_texts_is_refused(told: Callable[[], Told]) -> None:
    with pytest.raises(Unsupported):
        await probe(told())

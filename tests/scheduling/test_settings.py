"""The tables about scheduling, from a file to the policy of a run."""

from __future__ import annotations

import threading
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from appl import gen, ppl
from appl.backend import Profile
from appl.backend.price import Price
from appl.config import Config, load
from appl.config.layout import SCHEDULE
from appl.config.schedule import PRICES, TABLES as TABLE_NAMES
from appl.errors import ConfigError
from appl.runtime.scheduling import Traffic
from appl.session.scheduling import policy_of, traffic_of
from appl.testing import (
    Allowance,
    Deadlines,
    Echo,
    Late,
    Limits,
    Policy,
    Retries,
    Run,
    VirtualClock,
    running,
)

TABLES = """
[limits]
concurrency = 12
requests_per_minute = 300
tokens_per_minute = 90000

[budget]
cost = 2.5

[prices]
"a/small" = { prompt = 0.15, answer = 0.6, cached = 0.075 }

[retries]
attempts = 5
patience = 90

[deadlines]
first_token = 20
total = 120

[schedule]
order = "program"
circuit = "off"

[backends.openai]
model = "gpt"

[backends.openai.limits]
requests = 10
period = 1

[backends.openai.retries]
attempts = 1
"""


def policy(folder: Path, text: str, backend: str = "embedded") -> Policy:
    (folder / "appl.toml").write_text(text)
    return policy_of(load(directory=folder, environ={}), backend)


def test_every_table_reaches_the_policy(tmp_path: Path) -> None:
    found = policy(tmp_path, TABLES)
    assert found.limits == Limits(12, 300, 60.0, 90_000)
    assert (found.budget.cost, found.budget.tokens) == (2.5, None)
    assert found.prices == {"a/small": Price(0.15, 0.6, 0.075)}
    assert (found.retries.attempts, found.retries.patience_s, found.retries.base_s) == (5, 90, 0.5)
    assert (found.deadlines.first_token_s, found.deadlines.total_s) == (20, 120)
    assert (found.order, found.circuit) == ("program", False)


def test_what_a_backend_has_of_its_own_holds_for_it_alone(tmp_path: Path) -> None:
    found = policy(tmp_path, TABLES, "openai")
    assert found.limits == Limits(12, 10, 1.0, 90_000)
    assert found.retries.attempts == 1 and found.retries.patience_s == 90
    config = load(directory=tmp_path, environ={})
    assert config.settings_of("openai") == {"model": "gpt"}
    assert config.origin("backends.openai.retries.attempts").endswith("appl.toml")
    shown = {key: value for key, value, _ in config.shown()}
    assert shown["limits.concurrency"] == 12 and shown["backends.openai.limits.period"] == 1


def test_the_names_of_the_tables_are_those_that_have_keys() -> None:
    assert (*TABLE_NAMES, PRICES) == SCHEDULE


def test_every_part_of_the_policy_has_a_key() -> None:
    """But for the time in which calls are collected, what lies in files, and what is for tests."""
    parts = {each.name for each in fields(Policy)} - {*TABLE_NAMES, PRICES}
    parts -= {"gather_s", "concurrency_start", "clock"}
    assert parts == {*TABLE_NAMES["schedule"]}


@pytest.mark.parametrize(
    "part", [Limits, Allowance, Retries, Deadlines], ids=lambda part: part.__name__
)
def test_every_field_of_a_part_has_a_key_with_its_default(part: Any) -> None:
    table = "budget" if part is Allowance else part.__name__.lower()
    wanted = {each.name.removesuffix("_s"): each.default for each in fields(part)}
    found = {key.name: key.default for key in TABLE_NAMES[table].values()}
    found.pop("requests_per_minute", None)  # another way of writing two others
    assert found == wanted


def test_without_tables_it_is_the_default(tmp_path: Path) -> None:
    assert policy(tmp_path, "") == Policy()
    assert policy(tmp_path, "[schedule]\ncircuit = true") == Policy()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[limits]\nconcurency = 3", "unknown key limits.concurency; did you mean 'concurrency'"),
        ("[limits]\nconcurrency = 0", "limits.concurrency must be a whole number of at least 1"),
        ("[budget]\ncost = -1", "budget.cost must be a number of at least 0"),
        ("[deadlines]\ntotal = 0", "deadlines.total must be a number above 0"),
        ('[schedule]\norder = "fofi"', "'fifo'"),
        ('[prices]\n"m" = 3', "prices.m must be { prompt"),
        ("limits = 3", "limits must be a table"),
        ("[backends.x.retries]\ntries = 3", "unknown key backends.x.retries.tries"),
    ],
)
def test_slips_are_told(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        policy(tmp_path, text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("hedge = 2", "hedge is not used any more: second attempts beside slow ones are gone"),
        ('foresee = "off"', "foresee is not used any more: the turns to come are told by graphs"),
        ("share = true", "share is not used any more: runs of a process that ask one server"),
        ('order = "prefix"', 'order = "prefix" means the same as "program"'),
    ],
)
@pytest.mark.parametrize("table", ["schedule", "backends.x.schedule"])
def test_settings_of_earlier_versions_are_told_and_stop_nothing(
    tmp_path: Path, setting: str, told: str, table: str
) -> None:
    (tmp_path / "appl.toml").write_text(f"[{table}]\n{setting}\ncircuit = false\n")
    config = load(directory=tmp_path, environ={})
    (note,) = config.notes
    assert f"{table}.{told}" in note and "appl.toml" in note
    assert policy_of(config, "x") == Policy(circuit=False)


def test_runs_of_one_process_share_what_a_server_bears(tmp_path: Path) -> None:
    (tmp_path / "appl.toml").write_text("[limits]\nconcurrency = 3")
    config = load(directory=tmp_path, environ={})
    profile = Profile("server", concurrency=8)

    def traffic(backend: str, config: Config = config) -> Traffic | None:
        return traffic_of(config, backend, profile, policy_of(config, backend))

    shared = traffic("some:Server")
    assert shared is not None and shared is traffic("some:Server")
    assert shared is not traffic("other:Server")
    assert shared.slots.limit == 3
    assert traffic("embedded") is None  # each run has its own
    other = load({"concurrency": 2}, directory=tmp_path, environ={})
    assert traffic("some:Server", other) is not shared


def test_two_runs_never_have_more_calls_at_once_than_their_server_bears() -> None:
    clock = VirtualClock()
    policy = Policy(clock=clock, limits=Limits(concurrency=3))
    traffic = Traffic(policy, 3)
    backend = Late(lambda _: "yes", clock)

    @ppl
    def fan() -> list[str]:
        answers = [gen() for _ in range(12)]
        return [str(each) for each in answers]

    def other() -> None:
        with Run(backend, policy=policy, traffic=traffic):
            found.append(fan())

    found: list[list[str]] = []
    beside = threading.Thread(target=other)
    with Run(backend, policy=policy, traffic=traffic):
        beside.start()
        found.append(fan())
        beside.join()
    assert found == [["yes"] * 12] * 2
    assert backend.most == 3


class Broken(Echo):
    def order(self, queue: Any) -> Any:
        raise RuntimeError("no order today")


def test_a_call_fails_with_the_error_of_a_backend_that_cannot_bring_its_order() -> None:
    @ppl
    def ask() -> str:
        "hello"
        return str(gen())

    with running(Broken()), pytest.raises(RuntimeError, match="no order today"):
        ask()

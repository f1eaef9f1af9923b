from __future__ import annotations

import json
from typing import Any

import pytest

from appl.backend import Request, Sampling
from appl.errors import InvalidOption
from appl.prompt import Image, Message, Messages
from appl_backends.sglang import request_bodies


def body(sampling: Sampling, n: int = 1, **defaults: Any) -> Any:
    request = Request("/x", 0, "", None, sampling, n=n)
    parameters = request_bodies.Parameters(defaults, seeded=True).of(sampling)
    return json.loads(
        b"".join(request_bodies.ask(request, [b'"input_ids":[', b"1,2", b"]"], parameters, "r-1"))
    )


def test_a_plain_request() -> None:
    assert body(Sampling()) == {
        "input_ids": [1, 2], "sampling_params": {"max_new_tokens": None}, "rid": "r-1",
    }  # fmt: skip


def test_every_part_of_sampling_has_its_place() -> None:
    given = Sampling(max_tokens=5, stop=("a", '"'), temperature=0.5, top_p=0.9, seed=7,
                     stop_tokens=(3,), regex="x+")  # fmt: skip
    assert body(given, n=3)["sampling_params"] == {
        "max_new_tokens": 5, "stop": ["a", '"'], "temperature": 0.5, "top_p": 0.9,
        "sampling_seed": 7, "stop_token_ids": [3], "regex": "x+", "n": 3,
    }  # fmt: skip
    assert body(Sampling(grammar="g"))["sampling_params"]["ebnf"] == "g"
    assert body(Sampling(schema="{}"))["sampling_params"]["json_schema"] == "{}"


def test_what_the_model_recommends_holds_where_nothing_is_said() -> None:
    assert body(Sampling(), temperature=0.6)["sampling_params"]["temperature"] == 0.6
    assert body(Sampling(temperature=0.0), temperature=0.6)["sampling_params"]["temperature"] == 0.0


def test_logprobs_are_asked_for_with_their_texts() -> None:
    found = body(Sampling(logprobs=3))
    assert (found["return_logprob"], found["top_logprobs_num"]) == (True, 3)
    assert found["return_text_in_logprobs"] is True


def test_options_of_the_server_have_their_names_there() -> None:
    extra = (("cache_salt", "u1"), ("ignore_eos", True), ("lora", "poet"), ("min_tokens", 2),
             ("structural_tag", {"type": "structural_tag"}), ("top_k", 5))  # fmt: skip
    found = body(Sampling(extra=extra))
    assert (found["extra_key"], found["lora_path"]) == ("u1", "poet")
    inner = found["sampling_params"]
    assert (inner["top_k"], inner["min_new_tokens"], inner["ignore_eos"]) == (5, 2, True)
    assert json.loads(inner["structural_tag"]) == {"type": "structural_tag"}
    with pytest.raises(InvalidOption, match="structural_tag"):
        body(Sampling(extra=(("structural_tag", 5),)))


def test_a_salt_and_a_key_keep_requests_apart_together() -> None:
    extra = (("cache_salt", "u1"), ("extra_key", "k"))
    assert body(Sampling(extra=extra))["extra_key"] == "u1k"


def test_equal_samplings_are_written_once() -> None:
    parameters = request_bodies.Parameters({})
    assert parameters.of(Sampling(top_p=0.5)) is parameters.of(Sampling(top_p=0.5))


def test_samples_with_seeds_are_asked_for_one_by_one() -> None:
    sampling = Sampling(seed=9)
    request = Request("/x", 0, "", None, sampling, n=2)
    parameters = request_bodies.Parameters({}, seeded=True).of(sampling)
    found = json.loads(request_bodies.ask_each(request, b"1,2", parameters, "r", 9))
    assert found["input_ids"] == [[1, 2], [1, 2]]
    assert [each["sampling_seed"] for each in found["sampling_params"]] == [9, 10]


def test_images_go_with_the_text_around_them() -> None:
    seen = Message("user", "What?", ((0, Image("https://e.org/a.png")),))
    chain = Messages.of([seen])
    assert chain is not None
    found = json.loads(b"{%b}" % b"".join(request_bodies.of_images("<image>What?", chain)))
    assert found == {"text": "<image>What?", "image_data": ["https://e.org/a.png"]}


def test_scores_are_asked_for_from_the_last_token_of_the_prompt() -> None:
    found = json.loads(
        request_bodies.ask_scores([[1, 2, 3]], 2, Sampling(extra=(("lora", "x"),)), "r")
    )
    assert (found["logprob_start_len"], found["lora_path"]) == (1, "x")
    assert found["sampling_params"] == {"max_new_tokens": 0, "temperature": 0}

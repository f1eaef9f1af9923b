"""Many clients at once, of which some leave: nobody's answer changes, and nothing is left over."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import aiohttp

from appl.testing import Served

from .conftest import ENDLESS, Client

CLIENTS = 240


def asked(number: int) -> dict[str, Any]:
    prompt = f"<s><|user|>Name {number % 9} things<|end|><|assistant|>"
    return {"text": prompt, "sampling_params": {"temperature": 0, "max_new_tokens": 5 + number % 9}}


class Crowd:
    """Clients that answer, stream, leave and abort, as a seed has it."""

    def __init__(self, url: str, http: aiohttp.ClientSession) -> None:
        self._url, self._http = f"{url}/generate", http
        self._random = random.Random(5)
        self.texts: dict[int, str] = {}

    async def one(self, number: int) -> None:
        kinds = (self.whole, self.streamed, self.leaves, self.leaves_a_stream, self.aborts)
        await self._random.choice(kinds)(number)

    async def whole(self, number: int) -> None:
        async with self._http.post(self._url, json=asked(number)) as answer:
            assert answer.status == 200
            self.texts[number] = (await answer.json())["text"]

    async def streamed(self, number: int) -> None:
        async with self._http.post(self._url, json={**asked(number), "stream": True}) as answer:
            *_, last, done = (await answer.text()).strip().split("\n\n")
            assert done == "data: [DONE]"
            self.texts[number] = json.loads(last.removeprefix("data: "))["text"]

    async def leaves(self, number: int) -> None:
        body = {**asked(number), "sampling_params": ENDLESS}
        call = asyncio.create_task(self._http.post(self._url, json=body).__aenter__())
        await self.whole(number)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)

    async def leaves_a_stream(self, number: int) -> None:
        body = {**asked(number), "sampling_params": {**ENDLESS, "n": 2}, "stream": True}
        async with self._http.post(self._url, json=body) as answer:
            await answer.content.readline()
            answer.close()

    async def aborts(self, number: int) -> None:
        body = {
            **asked(number),
            "sampling_params": ENDLESS,
            "rid": f"crowd-{number}",
            "stream": True,
        }
        async with self._http.post(self._url, json=body) as answer:
            await answer.content.readline()
            name = {"rid": f"crowd-{number}"}
            async with self._http.post(self._url.replace("generate", "abort_request"), json=name):
                assert '"type": "abort"' in await answer.text()


async def test_a_crowd_leaves_nothing_behind(client: Client, shared: Served) -> None:
    async with aiohttp.ClientSession(headers=shared.headers) as http:
        crowd = Crowd(shared.url, http)
        await asyncio.gather(*map(crowd.one, range(CLIENTS)))
    state = client.settled()
    assert state["protected"] == 0 and state["row_tokens_free"] == 16384
    assert state["abort_steps"] <= 2 and len(crowd.texts) > CLIENTS / 3
    for number in list(crowd.texts)[::7]:
        alone = client.post("/generate", asked(number)).json()
        assert alone["text"] == crowd.texts[number]


def test_a_slow_reader_holds_nobody_up(client: Client) -> None:
    body = {"text": "Once", "sampling_params": {**ENDLESS, "max_new_tokens": 200}, "stream": True}
    request = client.http.build_request(
        "POST", "/generate", json=body, headers=client.server.headers
    )
    slow = client.http.send(request, stream=True)
    client.until(lambda state: not state["running"] and not state["waiting"])
    greedy = {"max_new_tokens": 2, "temperature": 0, "ignore_eos": True}
    assert client.generate("Once", sampling_params=greedy)["meta_info"]["completion_tokens"] == 2
    assert slow.read().endswith(b"data: [DONE]\n\n")

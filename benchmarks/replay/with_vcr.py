"""The program for vcrpy: threads, httpx and a cassette that matches method, address and body."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import vcr


def asked(client, url, messages):
    body = {"model": "m", "messages": messages, "temperature": 1.0}
    answer = client.post(f"{url}/chat/completions", json=body)
    return answer.json()["choices"][0]["message"]["content"]


def vote(client, url):
    return asked(client, url, [{"role": "user", "content": "Name a number."}])


def chat(client, url):
    messages, said = [{"role": "user", "content": "Let us count."}], []
    for _ in range(3):
        messages.append({"role": "user", "content": "Next?"})
        said.append(asked(client, url, messages))
        messages.append({"role": "assistant", "content": said[-1]})
    return said


def main(url, cassette):
    recorder = vcr.VCR(match_on=["method", "uri", "body"], record_mode="new_episodes")
    with (
        recorder.use_cassette(cassette),
        httpx.Client(timeout=30) as client,
        ThreadPoolExecutor(8) as pool,
    ):
        chats = [pool.submit(chat, client, url) for _ in range(10)]
        votes = [pool.submit(vote, client, url) for _ in range(10)]
        return [[v.result() for v in votes], [c.result() for c in chats]]


if __name__ == "__main__":
    found = main(sys.argv[1], sys.argv[2])
    Path(sys.argv[3]).write_text(json.dumps(found))

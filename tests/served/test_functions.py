"""What a served function takes and returns, and what refuses a request."""

from __future__ import annotations

import json
import re
import socket
from typing import Any

import httpx
import jsonschema
import openai
import pytest

from appl.testing.faults import echo

from .conftest import Home, Served


def test_arguments_and_result_are_of_the_function_s_own_types(shared: Served) -> None:
    found = shared.call("plan", trip={"city": "rome", "days": "3"}, by=2)
    assert found.status_code == 200
    assert found.json()["result"] == {"city": "ROME", "days": 6}
    assert found.json()["run"] == found.headers["Appl-Run"]
    assert found.json()["usage"]["calls"] == 1


WRONG: dict[str, tuple[str, Any, list[str]]] = {
    "a missing one": ("ask", {}, ["question"]),
    "an unknown one": ("ask", {"question": "q", "questoin": 1}, ["questoin"]),
    "a field inside": ("plan", {"trip": {"city": "r", "days": "x"}}, ["trip.days"]),
    "two of them": ("plan", {"trip": {"days": 1}, "by": "y"}, ["trip.city", "by"]),
}


@pytest.mark.parametrize("what", WRONG)
def test_an_argument_that_does_not_fit_is_named(shared: Served, what: str) -> None:
    function, arguments, names = WRONG[what]
    found = shared.call(function, **arguments)
    assert found.status_code == 422 and "Appl-Run" not in found.headers
    detail = found.json()["error"]["detail"]
    assert [".".join(map(str, each["loc"])) for each in detail] == names


def test_a_name_that_is_nearly_right_is_suggested(shared: Served) -> None:
    found = shared.call("ask", question="q", questoin=1)
    assert "did you mean 'question'" in found.text


@pytest.mark.parametrize("body", [b"{", b"[]", b'"x"', b"\xff", b'{"question": NaN}', b"[" * 9999])
def test_a_body_that_is_no_object_is_refused(shared: Served, body: bytes) -> None:
    found = shared.request("POST", "/functions/ask", content=body)
    assert found.status_code == 422, found.text


def test_a_file_stands_for_its_prompt_functions_and_others_are_served_by_name(
    shared: Served,
) -> None:
    functions = shared.ready["functions"]
    assert {"ask", "later", "plain"} <= set(functions) and "_hidden" not in functions
    assert shared.call("later", question="q").json()["result"] == echo("later q")
    found = shared.call("plain", a=1)
    assert found.json()["result"] == 3 and found.headers["Appl-Run"] in shared.home.runs()


def test_a_program_that_fails_says_how_and_names_its_run(shared: Served) -> None:
    found = shared.call("fail", word="x")
    assert found.status_code == 500 and found.headers["Appl-Run"]
    error = found.json()["error"]
    assert error == {"type": "LookupError", "message": "nothing is called x"}
    assert shared.run(found.headers["Appl-Run"])["error"] == error


def test_a_wrong_path_or_method_says_what_there_is(shared: Served) -> None:
    wrong = shared.request("GET", "/functions/ask")
    assert wrong.status_code == 405 and "takes POST, got GET" in wrong.text
    assert "/docs" in shared.request("GET", "/asks").text
    assert "served here: ask" in shared.call("asks").text


# -- events


def events(text: str) -> list[tuple[str, str | None, Any]]:
    """The events of a stream, read by the rules of the HTML standard."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(re.findall(r"^(event|data|id): ?(.*)$", block, re.M))
        if "data" in fields:
            found.append((fields["event"], fields.get("id"), json.loads(fields["data"])))
    return found


def streamed(server: Served, function: str, **arguments: Any) -> list[tuple[str, str | None, Any]]:
    found = server.call(function, _headers={"Accept": "text/event-stream"}, **arguments)
    assert found.headers["Content-Type"].startswith("text/event-stream")
    return events(found.text)


@pytest.mark.parametrize("function", ["tell", "ask"])
def test_a_text_comes_in_pieces_and_then_as_a_whole(shared: Served, function: str) -> None:
    name = {"tell": "about", "ask": "question"}[function]
    found = streamed(shared, function, **{name: "x"})
    assert found[0][0] == "run" and found[-1][0] == "end"
    texts = [data["text"] for kind, _, data in found if kind == "text"]
    assert texts and "".join(texts) == found[-1][2]["result"]


def test_a_reader_that_comes_back_gets_the_rest(shared: Served) -> None:
    first = streamed(shared, "tell", about="x")
    run, whole = first[0][2]["run"], first[-1][2]["result"]
    for at in (0, 1, len(whole) - 1, len(whole)):
        found = shared.request("GET", f"/runs/{run}/events", headers={"Last-Event-ID": str(at)})
        texts = [data["text"] for kind, _, data in events(found.text) if kind == "text"]
        assert "".join(texts) == whole[at:]


# -- OpenAI's interface


@pytest.fixture
def client(shared: Served) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{shared.url}/v1", api_key=shared.ready["api_key"])


def said(*texts: str) -> Any:
    return [{"role": "user", "content": text} for text in texts]


def test_a_function_of_one_text_is_a_model(client: openai.OpenAI) -> None:
    found = client.chat.completions.create(model="ask", messages=said("earlier", "q"))
    assert found.choices[0].message.content == echo("first q")
    assert found.usage is not None and found.usage.completion_tokens > 0
    assert found.choices[0].finish_reason == "stop"


@pytest.mark.parametrize("function", ["ask", "tell", "later"])
def test_it_streams(client: openai.OpenAI, function: str) -> None:
    stream = client.chat.completions.create(
        model=function,
        messages=said("q"),
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == echo({"ask": "first q", "tell": "tell q", "later": "later q"}[function])
    assert chunks[-1].usage is not None and chunks[-1].usage.total_tokens > 0


def test_a_function_of_messages_gets_all_of_them(client: openai.OpenAI) -> None:
    found = client.chat.completions.create(model="talk", messages=said("one", "two"))
    assert found.choices[0].message.content


def test_functions_that_take_no_text_are_no_models(client: openai.OpenAI) -> None:
    names = {model.id for model in client.models.list()}
    assert {"ask", "tell", "talk"} <= names and not {"plan", "refund", "slow"} & names
    assert client.models.retrieve("ask").id == "ask"
    with pytest.raises(openai.NotFoundError, match="ask, steps"):
        client.chat.completions.create(model="plan", messages=said("q"))


def test_what_a_function_cannot_do_is_refused(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="one answer"):
        client.chat.completions.create(model="ask", messages=said("q"), n=2)
    picture = {"type": "image_url", "image_url": {"url": "https://x.org/a.png"}}
    with pytest.raises(openai.BadRequestError, match="text"):
        client.chat.completions.create(
            model="ask", messages=[{"role": "user", "content": [picture]}]
        )


def test_a_run_that_failed_is_not_asked_again_by_the_client(
    shared: Served, client: openai.OpenAI
) -> None:
    before = len(shared.home.runs())
    with pytest.raises(openai.InternalServerError, match="nothing is called q"):
        client.chat.completions.create(model="fail", messages=said("q"))
    assert len(shared.home.runs()) == before + 1


# -- the description


def test_the_document_describes_what_comes(shared: Served) -> None:
    document = httpx.get(f"{shared.url}/openapi.json").json()
    run = shared.call("plan", trip={"city": "rome", "days": 3}).json()
    schemas = document["components"]["schemas"]
    whole = {"$ref": "#/components/schemas/plan_run", "components": document["components"]}
    jsonschema.Draft202012Validator(whole).validate(run)
    assert schemas["plan_arguments"]["required"] == ["trip"]
    given = {"$ref": "#/components/schemas/plan_arguments", "components": document["components"]}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(given).validate({"trip": {"city": "rome"}})


def test_the_page_loads_nothing_from_elsewhere(shared: Served) -> None:
    found = httpx.get(f"{shared.url}/docs")
    assert "Answer one question." in found.text
    assert not re.search(r"(src|href)=[\"']?(https?:)?//", found.text)
    assert found.headers["Content-Security-Policy"].startswith("default-src 'none'")


# -- who may ask


def test_without_a_key_nothing_is_answered_but_the_description(shared: Served) -> None:
    assert httpx.post(f"{shared.url}/functions/ask", json={"question": "q"}).status_code == 401
    assert httpx.get(f"{shared.url}/v1/models").status_code == 401
    assert httpx.get(f"{shared.url}/runs/x").status_code == 401
    assert httpx.get(f"{shared.url}/health").json() == {"status": "ok"}


@pytest.mark.parametrize(
    "headers",
    [{"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}],
)
def test_a_page_of_another_site_gets_nothing(shared: Served, headers: dict[str, str]) -> None:
    found = shared.request("GET", "/docs", headers=headers)
    assert found.status_code == 403 and "Forbidden" in found.text


def test_a_large_body_is_refused_before_it_has_come(shared: Served) -> None:
    assert shared.call("ask", question="x" * (3 << 20)).status_code == 413


def test_answers_and_second_tries_need_the_admin_key(shared: Served) -> None:
    for path in ("/runs/x/answers", "/runs/x/resume", "/runs/x%2Fanswers", "/runs//answers"):
        assert shared.request("POST", path, json={}).status_code in (401, 404)
    assert shared.request("POST", "/runs/x/answers", json={}).status_code == 401
    assert shared.request("POST", "/runs/x/answers", headers=shared.admin).status_code == 404


def test_other_machines_are_let_in_with_a_key_only(home: Home) -> None:
    from .conftest import PROGRAM
    from .lines import refused

    line = refused(home, f"{PROGRAM}:ask", "--host", "0.0.0.0", "--api-key", "none")
    assert "--host 0.0.0.0" in line and "random key" in line


def test_texts_that_may_not_be_kept_are_not_served(home: Home) -> None:
    from .conftest import PROGRAM
    from .lines import refused

    (home.folder / "appl.toml").write_text('privacy = "redacted"\n')
    assert "APPL_PRIVACY=full" in refused(home, f"{PROGRAM}:ask")


def test_a_client_that_sends_slowly_holds_up_nobody(shared: Served) -> None:
    address = (shared.url.partition("//")[2].partition(":")[0], int(shared.url.rpartition(":")[2]))
    links = [socket.create_connection(address) for _ in range(50)]
    for link in links:
        link.sendall(
            b"POST /functions/ask HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"
        )
    assert shared.call("ask", question="q").status_code == 200
    for link in links:
        link.close()


def test_a_port_in_use_is_named_with_what_to_write(shared: Served, home: Home) -> None:
    words = f"another program listens on port {shared.port} of 127.0.0.1; give another --port"
    with pytest.raises(AssertionError, match=words):
        home.start("--port", str(shared.port))
    assert home.processes[0].wait() == 2

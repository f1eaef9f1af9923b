"""The rows of the matrix: programs as users write them, each with what it must show.

A row returns a note, empty if there is nothing to say, or raises ``Wrong`` for an answer that the
library passed on as a success and that is none. What a program must give does not come from the
library: it is what the same server answers to a bare request, what the prompt says, or arithmetic.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import re
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field
from relay import Relay

import appl
from appl import AIRole, Image, SystemRole, gen, gen_with_tools, ppl, select
from appl.errors import ApplError, AuthenticationFailed, ModelNotFound, PromptTooLong, UnknownOption


class Wrong(Exception):
    """The library says that a call succeeded, and it did not."""


class NotApplicable(Exception):
    """The server's model, or its interface, has nothing to try."""


@dataclass
class Route:
    """One way from a program to a server: a backend with its settings, and the model's name."""

    title: str
    backend: dict[str, Any]
    model: str
    bare: Callable[[dict[str, Any]], dict[str, Any]]
    relay: Relay
    bare_model: str = ""
    asks_key: bool = False
    traits: frozenset[str] = frozenset()
    name: str = "it"
    told: io.StringIO = field(default_factory=io.StringIO)

    @contextlib.contextmanager
    def run(self, model: str | None = None, **backend: Any) -> Iterator[None]:
        """A recorded run whose calls take this route."""
        named = f"{self.name}/{self.model if model is None else model}"
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "run.trace"
            table = {self.name: {**self.backend, **backend}}
            with (
                contextlib.redirect_stderr(self.told),
                appl.record(place, model=named, backends=table, deadlines={"total": 120}),
            ):
                yield

    def text(self, *messages: dict[str, Any], **more: Any) -> str:
        """What the server says to a bare request."""
        data = self.bare({"model": self.bare_model, "messages": list(messages), **more})
        return data["choices"][0]["message"]["content"] or ""

    def was_sent(self, words: str) -> bool:
        """True if a request on this way had these *words*."""
        return any(words.encode() in bytes(each.sent) for each in self.relay.exchanges)


Row = Callable[[Route], str]
ROWS: dict[str, Row] = {}


def row(name: str) -> Callable[[Row], Row]:
    def add(function: Row) -> Row:
        ROWS[name] = function
        return function

    return add


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def equal(found: object, wanted: object, what: str) -> None:
    if found != wanted:
        raise Wrong(f"{what}: {found!r:.150} and not {wanted!r:.150}")


SUM = "What is 12 * 7 + 15?"
PERSONA = "You are Nora Vell, a gardener from Tarn. You like tea and you have two cats."
QUOTATION = (
    'Name the author of the quotation.\n"A river does not ask the way." '
    '(Mira Holt, born 1921 in Tarn, wrote "The Slow River". She was a teacher.)'
)
EXTRACT = "Extract name, age and city as JSON.\nText: Olaf Brand, 34, lives in Lund."
LONG = "Write an outline about gardens with 3 points."
GREEDY: dict[str, Any] = {"temperature": 0, "max_tokens": 100}
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360f8cf500f0003860180"
)


@ppl
def ask(question: str, **options: Any) -> Any:
    f"{question}"
    return gen(**options)


# -- text


@row("chat")
def chat(on: Route) -> str:
    with on.run():
        answer = ask(SUM, **GREEDY)
        text, usage = str(answer), answer.usage
    equal(text, on.text(user(SUM), **GREEDY), "the text")
    return "no usage" if usage.completion_tokens is None else ""


def _same_echo(on: Route) -> None:
    if "llmock" in on.traits and on.model.startswith(("anthropic/", "gemini/")):
        raise NotApplicable("the mock repeats other messages here than in OpenAI's interface")


@row("multi-turn, system role")
def conversation(on: Route) -> str:
    @ppl
    def talk() -> list[Any]:
        with SystemRole():
            f"{PERSONA}"
        "Hi, I am Tom. What is your name?"
        with AIRole():
            (first := gen(**GREEDY))
        "What is my name?"
        return [first, gen(**GREEDY)]

    with on.run():
        first, second = map(str, talk())
    said = [{"role": "system", "content": PERSONA}, user("Hi, I am Tom. What is your name?")]
    _same_echo(on)
    equal(first, on.text(*said, **GREEDY), "the first answer")
    said += [{"role": "assistant", "content": first}, user("What is my name?")]
    equal(second, on.text(*said, **GREEDY), "the second answer")
    return ""


@row("stream")
def stream(on: Route) -> str:
    with on.run():
        answer = ask(LONG, stream=True, **GREEDY)
        pieces = list(answer.text_stream)
        text, usage = str(answer), answer.usage
    equal("".join(pieces), text, "the pieces")
    equal(text, on.text(user(LONG), **GREEDY), "the text")
    return f"{len(pieces)} pieces" + (", no usage" * (usage.completion_tokens is None))


@row("other scripts, emoji")
def unicode(on: Route) -> str:
    question = "Choose one of: Łódź, 東京, 🦜\nAnswer with the option."
    with on.run():
        whole = str(ask(question, **GREEDY))
        streamed = str(ask(question, stream=True, **GREEDY))
    wanted = on.text(user(question), **GREEDY)
    equal(whole, wanted, "the text")
    equal(streamed, wanted, "the streamed text")
    return ""


@row("max_tokens")
def limit(on: Route) -> str:
    with on.run():
        answer = ask(LONG, temperature=0, max_tokens=5)
        text, why = str(answer), answer.finish_reason
    whole = on.text(user(LONG), **GREEDY)
    if text == whole and "real" not in on.traits:
        raise NotApplicable("a mock that counts no tokens")
    if why != "length" or not whole.startswith(text.strip()):
        raise Wrong(f"{text!r:.60}, finish reason {why!r}")
    return ""


@row("continued after the limit")
def relayed(on: Route) -> str:
    whole = on.text(user(LONG), **GREEDY)
    with on.run():
        text = str(ask(LONG, temperature=0, max_tokens=8, max_relay_rounds=30))
    if text == whole:
        return ""
    if "repeats nothing of the text" in on.told.getvalue():
        return f"the model was told to continue, and did not, which is told: {text!r:.60}"
    _same_echo(on)
    raise Wrong(f"{text!r:.150} and not {whole!r:.100}")


@row("stop")
def stop(on: Route) -> str:
    whole = on.text(user(SUM), **GREEDY)
    if len(whole) < 8:
        raise NotApplicable(f"the server says {whole!r}")
    middle = whole[len(whole) // 2 :][:3]
    wanted = whole.partition(middle)[0]
    for streamed in (False, True):
        with on.run():
            answer = ask(SUM, stop=middle, stream=streamed, **GREEDY)
            text, why = str(answer), answer.finish_reason
        equal((text, why), (wanted, "stop"), f"stop {middle!r}, stream={streamed}")
    return ""


@row("n=3")
def samples(on: Route) -> str:
    before = on.relay.questions()
    with on.run():
        answer = ask(LONG, n=3, temperature=1.0, max_tokens=40)
        found = [str(each) for each in answer.samples]
    equal(len(found), 3, "the samples")
    if not all(found):
        raise Wrong(f"an empty sample: {found!r:.100}")
    asked = on.relay.questions() - before
    return f"{len(set(found))} different, {asked} request{'s' * (asked > 1)}"


@row("n=3, streamed")
def streamed_samples(on: Route) -> str:
    with on.run():
        answer = ask(LONG, n=3, temperature=1.0, max_tokens=40, stream=True)
        pieces = "".join(answer.text_stream)
        found = [str(each) for each in answer.samples]
    equal(len(found), 3, "the samples")
    equal(pieces, found[0], "the pieces of the first")
    return f"{len(set(found))} different"


@row("seed")
def seed(on: Route) -> str:
    said = []
    for number in (7, 7, 8, 9):
        with on.run():
            said.append(str(ask(LONG, seed=number, temperature=1.0, max_tokens=40)))
    if len(set(said)) == 1:
        return "one text for all seeds"
    told = re.search(r"ignores? gen\(seed", on.told.getvalue()) is not None
    if said[0] != said[1] and not told:
        raise Wrong(f"two texts for one seed: {said[0]!r:.60}, {said[1]!r:.60}")
    return "a wish, which is told" if told else ""


@row("logprobs")
def logprobs(on: Route) -> str:
    for streamed in (False, True):
        with on.run():
            answer = ask(SUM, logprobs=2, stream=streamed, **GREEDY)
            text, scored = str(answer), answer.logprobs
        if not scored:
            raise Wrong(f"none, stream={streamed}")
        said = "".join(each.token for each in scored)
        if said != text and not said.startswith(text):
            raise Wrong(f"tokens {said!r:.80} for the text {text!r:.80}, stream={streamed}")
        if not all(each.logprob <= 0.001 and len(each.top) == 2 for each in scored):
            raise Wrong(f"{scored[0]!r:.150}, stream={streamed}")
        if any(each.logprob < max(score for _, score in each.top) - 0.01 for each in scored):
            raise Wrong(f"a greedy token is not the likeliest, stream={streamed}")
    return ""


# -- forms


class City(BaseModel):
    name: str = Field(description="the city's name")


class Person(BaseModel):
    name: str
    age: int
    city: City = Field(description="where the person lives")


@row("typed: nested model")
def nested(on: Route) -> str:
    with on.run():
        found = ask(EXTRACT, response_format=Person, temperature=0, max_tokens=200).result()
    if not isinstance(found, Person):
        raise Wrong(repr(found))
    return f"{found.name}, {found.age}"


@row("typed: list of models")
def listed(on: Route) -> str:
    question = "Extract the people as JSON.\nText: Olaf Brand is 34. Mira Holt is 50."
    people = Annotated[list[Person], Field(max_length=3)]  # a small model finds no end
    with on.run():
        found = ask(question, response_format=people, temperature=0, max_tokens=400).result()
    if not isinstance(found, list) or not all(isinstance(each, Person) for each in found):
        raise Wrong(repr(found))
    return f"{len(found)} members"


@row("typed: Literal")
def literal(on: Route) -> str:
    question = (
        'Is this review positive or negative? "The soup was cold and the waiter was rude." '
        "Choose one of: positive, negative"
    )
    with on.run():
        found = ask(
            question,
            response_format=Literal["positive", "negative"],
            temperature=0,
            max_tokens=40,
        ).result()
    if found not in ("positive", "negative"):
        raise Wrong(repr(found))
    return found


@row("typed, streamed")
def streamed_type(on: Route) -> str:
    with on.run():
        answer = ask(EXTRACT, response_format=Person, stream=True, temperature=0, max_tokens=200)
        steps = list(answer.text_stream)
        found = answer.result()
    if not isinstance(found, Person):
        raise Wrong(repr(found))
    return f"{len(steps)} steps"


@row("any JSON")
def any_json(on: Route) -> str:
    with on.run():
        found = ask(EXTRACT, response_format="json", temperature=0, max_tokens=200).result()
    if not isinstance(found, dict):
        raise Wrong(repr(found))
    return ""


@row("choices")
def choices(on: Route) -> str:
    @ppl
    def choose() -> Any:
        "Which of these is a fruit? Options: hammer, plum, sofa"
        return select(["hammer", "plum", "sofa"])

    with on.run():
        answer = choose()
        found, method, scores = str(answer), answer.choice_method, answer.scores
    if found not in ("hammer", "plum", "sofa"):
        raise Wrong(repr(found))
    if scores and found != ("hammer", "plum", "sofa")[scores.index(max(scores))]:
        raise Wrong(f"{found!r} with the scores {scores}")
    return f"{found} ({method})"


@row("regex")
def regex(on: Route) -> str:
    with on.run():
        text = str(ask("Write a number.", regex=r"[0-9]{3}-[0-9]{2}", temperature=1.0))
    if not re.fullmatch(r"[0-9]{3}-[0-9]{2}", text):
        raise Wrong(repr(text))
    return ""


@row("grammar")
def grammar(on: Route) -> str:
    with on.run():
        text = str(ask("Say yes or no.", grammar='root ::= "yes" | "no"', temperature=1.0))
    if text not in ("yes", "no"):
        raise Wrong(repr(text))
    return ""


# -- begun text of the assistant


@row("begun text")
def begun(on: Route) -> str:
    @ppl
    def author() -> Any:
        f"{QUOTATION}"
        with AIRole():
            f"The author is {gen(stop='.', **GREEDY)}"
        return appl.convo()[-1]

    with on.run():
        text = author().content
    if "real" in on.traits and (text.count("The author is") != 1 or "  " in text):
        raise Wrong(repr(text))
    told = "told to continue: " if on.was_sent("Continue your last message") else ""
    return f"{told}{text!r:.80}" if told or "real" not in on.traits else ""


@row("begun text with a type")
def begun_type(on: Route) -> str:
    @ppl
    def year() -> Any:
        f"{QUOTATION}"
        with AIRole():
            f"The author was born in {gen(response_format=int, max_tokens=20, temperature=0)}"
        return appl.convo()[-1]

    with on.run():
        text = year().content
    if not re.fullmatch(r"The author was born in -?[0-9]+", text):
        raise Wrong(repr(text))
    return repr(text)


@row("begun text with a regex")
def begun_regex(on: Route) -> str:
    @ppl
    def author() -> Any:
        f"{QUOTATION}"
        with AIRole():
            f"The author was born in {gen(regex='[0-9]{4}', **GREEDY)}"
        return appl.convo()[-1]

    with on.run():
        text = author().content
    if not re.fullmatch(r"The author was born in [0-9]{4}", text):
        raise Wrong(repr(text))
    return ""


# -- tools


def calculator(expression: str) -> str:
    """Compute the value of an expression.

    Args:
        expression: What is to be computed, as in 12*7.
    """
    left, _, right = expression.partition("*")
    return str(int(left) * int(right)) if right.strip() else f"the value of {expression}"


def weather(city: str) -> str:
    """Tell the weather in a city.

    Args:
        city: Where.
    """
    return f"12 C in {city}"


def today() -> str:
    """Tell the date."""
    return "2026-11-27"


def _used(on: Route, streamed: bool) -> str:
    used: list[str] = []

    def counted(expression: str) -> str:
        used.append(expression)
        return calculator(expression)

    counted.__name__, counted.__doc__ = "calculator", calculator.__doc__

    @ppl
    def agent() -> Any:
        "What is 123 * 45?"
        return gen_with_tools(tools=[counted], **GREEDY)

    @ppl
    def streaming_agent() -> Any:
        "What is 123 * 45?"
        (asked := gen(tools=[counted], stream=True, **GREEDY))
        "".join(asked.text_stream)
        if not asked.tool_calls:
            return asked
        (asked.run_tool_calls())
        return gen(tools=[counted], stream=True, **GREEDY)

    with on.run():
        text = str(streaming_agent() if streamed else agent())
    if not used:
        raise NotApplicable(f"the server makes no call: {text!r:.60}")
    if "real" in on.traits and "5535" not in text:
        raise Wrong(f"{used} gave {text!r:.100}")
    return f"{len(used)} call: {used[0]}, then {text!r:.40}"


@row("tools, two turns")
def tools(on: Route) -> str:
    return _used(on, False)


@row("tools, two turns, streamed")
def streamed_tools(on: Route) -> str:
    return _used(on, True)


@row("two calls at once")
def parallel(on: Route) -> str:
    @ppl
    def agent() -> Any:
        "Tell the weather in Oslo and in Rome."
        (asked := gen(tools=[weather], **GREEDY))
        (asked.run_tool_calls())
        return [asked, gen(tools=[weather], **GREEDY)]

    with on.run():
        asked, answer = agent()
        calls, text = asked.tool_calls, str(answer)
    if len(calls) < 2:
        raise NotApplicable(f"the model makes {len(calls)} call at a time")
    if len({call.id for call in calls}) < len(calls):
        raise Wrong(f"the ids {[call.id for call in calls]}")
    return f"{', '.join(call.name + ' ' + call.arguments for call in calls)}, then {text!r:.40}"


@row("a tool without parameters")
def no_parameters(on: Route) -> str:
    @ppl
    def agent() -> Any:
        "What is the date of today? Use the tool."
        (asked := gen(tools=[today], tool_choice="required", **GREEDY))
        (asked.run_tool_calls())
        return [asked, gen(tools=[today], **GREEDY)]

    with on.run():
        asked, answer = agent()
        calls, text = asked.tool_calls, str(answer)
    if not calls and asked.finish_reason != "length":
        raise Wrong(f"tool_choice='required' gave no call: {str(asked)!r:.80}")
    if not calls:
        return f"no call before the limit, and {text!r:.40}"
    return f"{calls[0].name} {calls[0].arguments}, then {text!r:.40}"


@row("a named tool")
def named_tool(on: Route) -> str:
    with on.run():
        asked = ask("Hello.", tools=[calculator, today], tool_choice="today", **GREEDY)
        calls = asked.tool_calls
        text = str(asked)
    if [call.name for call in calls] != ["today"] and asked.finish_reason != "length":
        raise Wrong(f"{[call.name for call in calls]}, {text!r:.80}")
    return ""


# -- images, limits, errors


@row("an image")
def image(on: Route) -> str:
    @ppl
    def describe() -> Any:
        "What is in this picture?"
        Image.from_bytes(PIXEL)
        return gen(**GREEDY)

    with on.run():
        return f"{str(describe())!r:.60}"


@row("a prompt that is too long")
def too_long(on: Route) -> str:
    try:
        with on.run():
            text = str(ask("one two three four five six seven eight. " * 6000, max_tokens=20))
    except PromptTooLong as error:
        return f"PromptTooLong: {error!s:.90}"
    if "real" in on.traits:
        raise Wrong(f"answered: {text!r:.80}")
    return "the server has no limit"


@row("an unknown model")
def unknown_model(on: Route) -> str:
    provider, slash, _ = on.model.rpartition("/")
    try:
        with on.run(model=f"{provider}{slash}no-such-model"):
            str(ask(SUM, **GREEDY))
    except ModelNotFound as error:
        return f"ModelNotFound: {error!s:.90}"
    return "the server answers to any name"


@row("a wrong key")
def wrong_key(on: Route) -> str:
    try:
        with on.run(**{"api_key": "sk-wrong-0123456789"}):
            str(ask(SUM, **GREEDY))
    except AuthenticationFailed as error:
        return f"AuthenticationFailed: {error!s:.90}"
    if on.asks_key:
        raise Wrong("answered")
    return "the server asks for no key"


@row("an unknown option")
def unknown_option(on: Route) -> str:
    try:
        with on.run():
            str(ask(SUM, tempratur=0))
    except UnknownOption as error:
        return f"UnknownOption: {error!s:.60}"
    raise Wrong("accepted")


@row("a cancelled call")
def cancelled(on: Route) -> str:
    more: dict[str, Any] = {}
    if "ignore_eos" in on.traits and on.backend["type"] != "litellm":
        more = {"ignore_eos": True}
        if on.backend["type"] == "openai":
            more = {"extra_body": more}
    with on.run():
        answer = ask(LONG, stream=True, temperature=1.0, max_tokens=1500, **more)
        for _ in answer.text_stream:
            break
        began, done = time.monotonic(), answer.done()
        answer.cancel()
        while time.monotonic() < began + 10:
            left = [each.left for each in on.relay.exchanges if each.left and each.left >= began]
            if left or done:
                break
            time.sleep(0.01)
        else:
            raise Wrong("its connection is still open after 10 s")
    if done:
        return "the answer was complete before"
    return f"hung up after {max(0.0, max(left) - began):.2f} s"


# -- what a mock breaks on purpose, and what it says of the client


@dataclass(frozen=True)
class Fault:
    """What the mock is told to do, and whether the program is to get its answer all the same."""

    told: dict[str, Any]
    recovers: bool = True
    streamed: bool = False


FAULTS = {
    "429, Retry-After: 1, twice": Fault(
        {"type": "fail", "status": 429, "retry_after": 1, "times": 2}
    ),
    "503 twice": Fault({"type": "fail", "status": 503, "times": 2}),
    "529 twice": Fault({"type": "fail", "status": 529, "times": 2}),
    "400": Fault({"type": "fail", "status": 400}, recovers=False),
    "401": Fault({"type": "fail", "status": 401}, recovers=False),
    "a stream breaks off": Fault({"type": "stream_fault", "kind": "disconnect"}, streamed=True),
    "a stream ends early": Fault({"type": "stream_fault", "kind": "truncate"}, streamed=True),
    "an event is no JSON": Fault({"type": "stream_fault", "kind": "malformed"}, streamed=True),
    "a slow first token": Fault({"type": "slow_first_token", "seconds": 2}, streamed=True),
}


def _add_fault_rows() -> None:
    for name, fault in FAULTS.items():
        row(f"fault: {name}")(functools.partial(_coped, fault=fault))
    for kind in ("malformed_arguments", "unknown_tool"):
        told = {"type": "tool_fault", "kind": kind}
        row(f"fault: {kind.replace('_', ' ')}")(functools.partial(_coped_with_tools, told=told))


def _coped(on: Route, fault: Fault) -> str:
    _order(on, fault.told)
    failed, text = None, ""
    try:
        with on.run():
            text = str(ask("Say hello to Nora.", stream=fault.streamed, **GREEDY))
    except ApplError as error:
        failed = error
    if failed is not None and fault.streamed:
        raise failed  # its text had begun, so it was not asked for again
    verdict = _verdict(on)
    if (failed is None) != fault.recovers:
        raise Wrong(f"{failed!r:.120}, {text!r:.60}")
    if fault.recovers and "Nora" not in text:
        raise Wrong(f"{text!r:.120}")
    return f"{type(failed).__name__}, {verdict}" if failed is not None else verdict


def _coped_with_tools(on: Route, told: dict[str, Any]) -> str:
    _order(on, told)
    return f"{_used(on, False)}; {_verdict(on)}"


def _order(on: Route, behavior: dict[str, Any]) -> None:
    if "llmock" not in on.traits:
        raise NotApplicable("no faults on demand")
    for path, body in (("reset", {}), ("scenario", {"behaviors": [behavior]})):
        url = f"{on.relay.server}/_llmock/{path}"
        urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode())).close()


def _verdict(on: Route) -> str:
    """What the mock says of the client. Raises ``Wrong`` for more than a warning."""
    with urllib.request.urlopen(f"{on.relay.server}/_llmock/verdict") as answer:
        found = json.load(answer)["findings"]
    errors = [each["code"] for each in found if each["severity"] == "error"]
    if errors:
        raise Wrong(f"the mock finds {', '.join(errors)}")
    warnings = ", ".join(each["code"] for each in found) or "nothing"
    return f"the mock finds {warnings}"


_add_fault_rows()


def bare_request(url: str, key: str | None) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Asks the server at *url* with nothing but the standard library."""

    def ask_it(body: dict[str, Any]) -> dict[str, Any]:
        headers = {"Content-Type": "application/json"}
        headers |= {"Authorization": f"Bearer {key}"} if key else {}
        question = urllib.request.Request(
            f"{url}/chat/completions", json.dumps(body).encode(), headers
        )
        try:
            with urllib.request.urlopen(question, timeout=120) as answer:
                found: dict[str, Any] = json.load(answer)
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"a bare request: {error} {error.read()[:200]!r}") from None
        return found

    return ask_it

"""The JSON of a whole chat completion as a ``Response``.

Invariant: an answer is its text, or its calls. A count, a cost, a score or an end that makes no
sense is unknown, and refuses no text that is there; an answer that says nothing, without a reason
for that, is an error.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import math
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple, cast

from appl.backend import Request, Response, Sample, Sampling, TokenLogprob, Usage
from appl.backend.check import (
    MOST,
    WrongField,
    checked,
    count_of,
    number_in,
    read_json,
    text_in,
)
from appl.backend.http import error_of_payload, excerpt, is_error, not_json
from appl.backend.price import millionths
from appl.errors import BackendError, BackendRefused, BackendUnavailable, MalformedResponse
from appl.prompt import ProviderFields, ToolCall
from appl_backends.openai.calls import CALL_FIELDS, FUNCTION_FIELDS, calls_of, is_empty
from appl_backends.stops import TextFilter

UNKNOWN = "unknown"
"""The finish reason of an answer that is there and does not say why it ended."""

_FINISH = {
    "complete": "stop",
    "end_turn": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "stop": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "model_context_window_exceeded": "length",
    "function_call": "tool_calls",
    "tool_call": "tool_calls",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
}
_FILTERED = frozenset(
    """
    blocklist content_filter content_filtered guardrail_intervened image_safety prohibited_content
    recitation refusal safety sensitive spii
""".split()
)
_FAILED = frozenset({"abort", "cancelled", "error", "network_error"})

MESSAGE_FIELDS = frozenset({"role", "content", "refusal", "tool_calls", "function_call"})
REASONING = ("reasoning_content", "reasoning")
"""The fields that hold the model's reasoning: a server uses one of them, or both for the same."""
_SELDOM_WANTED = MESSAGE_FIELDS.union(REASONING)
"""The fields that no server wants back unless tools are called."""

OTHER_FORM = (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError)


def json_in(
    body: bytes | str, who: str, secrets: tuple[str, ...] = (), content_type: str = ""
) -> Any:
    """The JSON value in *body*. Raises ``MalformedResponse``."""
    try:
        return read_json(body)
    except ValueError:
        raise not_json(body, who, content_type=content_type, secrets=secrets) from None


class ChatReader(NamedTuple):
    """Reads the answers of *who* to one request.

    *secrets* are taken out of errors. The answer goes on from *begun*, if that is given, and may
    repeat it. *source* is who gives the fields that its provider wants back, by default *who*.
    """

    request: Request
    who: str
    secrets: tuple[str, ...] = ()
    begun: str | None = None
    source: str = ""

    def response(self, data: Any) -> Response:
        """The answer in the JSON *data*, which came with status 200.

        Raises ``BackendError``, with what was paid for.
        """
        wanted = self.request.n
        if isinstance(data, list) and len(data) == 1:  # as Google wraps its errors
            data = data[0]
        if not isinstance(data, dict):
            body = "" if data is None else json.dumps(data)
            raise not_json(body, self.who, secrets=self.secrets)
        try:
            choices = data.get("choices")
            if not isinstance(choices, list) or len(choices) < wanted:
                raise self._too_few(data)
            ordered = choices[:1] if wanted == 1 else sorted(choices[:wanted], key=_order)
            samples = tuple(map(partial(self._sample, data), ordered))
            usage, cost = usage_of(data.get("usage"), data.get("service_tier"))
            model = data.get("model")
            said = model if type(model) is str else ""
            most = self.request.sampling.prompt_logprobs
            tokens = None if most is None else self._prompt(data, most)
            return checked(Response(samples, usage, said, cost=cost, prompt_logprobs=tokens))
        except BackendError as error:
            _note_usage(error, data)
            raise
        except OTHER_FORM as error:
            malformed = another_form(f"{self.who} answered 200 with", error)
        _note_usage(malformed, data)
        raise malformed

    def _prompt(self, data: dict[str, Any], most: int) -> tuple[TokenLogprob, ...]:
        """The tokens of the prompt but the first, of each *most* alternatives.

        vLLM's "prompt_logprobs": of each token a map, the token itself before its alternatives.
        """
        found = data.get("prompt_logprobs")
        if not isinstance(found, list):
            raise _no_logprobs(self.who, "prompt_logprobs")
        return tuple([_prompt_token(each, most) for each in found[1:]])

    def error(self, payload: Any) -> BackendError:
        """The error that *payload* tells of."""
        return error_of_payload(payload, self.who, secrets=self.secrets)

    def filter(self) -> TextFilter | None:
        """A filter for the text of one sample, where it may need one."""
        stop, begun = self.request.sampling.stop, self.begun
        return TextFilter(stop, begun or "") if stop or begun else None

    def _too_few(self, data: dict[str, Any]) -> BackendError:
        if is_error(data):
            return self.error(data)
        choices, wanted = data.get("choices"), self.request.n
        if isinstance(choices, list) and choices:
            return BackendRefused(
                f"{self.who} answered with {len(choices)} of {wanted} samples, so it does not heed "
                'n: write without = ["n"] into the settings of its backend, and each sample is '
                "asked for by itself",
                status=200,
                worked=True,
            )
        text = f"{self.who} answered 200 with none of {wanted} choices"
        return MalformedResponse(text, status=200)

    def _sample(self, data: dict[str, Any], choice: dict[str, Any]) -> Sample:
        if choice.get("error"):
            raise self.error(choice["error"])
        message = choice.get("message")
        if type(message) is not dict:
            message = _message_elsewhere(choice)
        calls: tuple[ToolCall, ...] = ()
        if message.get("tool_calls") or message.get("function_call"):
            calls = calls_of(message, data.get("id"), _known_ids(self.request))
        text = message.get("content")
        if type(text) is not str or message.get("refusal"):
            text = content_text(text) + refusal_in(message)
        finish = choice.get("finish_reason")
        if finish != "stop" or calls:
            if data.get("error") and _is_failure(finish):
                raise self.error(data)
            finish = _finish(finish, text, bool(calls), self.who)
        reasoning = message.get("reasoning_content") or message.get("reasoning") or None
        if type(reasoning) is not str:
            reasoning = None
        logprobs, sampling = choice.get("logprobs"), self.request.sampling
        scored = None if logprobs is None else _logprobs(logprobs)
        if scored is None and text and sampling.logprobs is not None and _is_absent(logprobs):
            raise _no_logprobs(self.who)
        provided, prompt = None, self.request.messages
        if (
            calls
            or not message.keys() <= _SELDOM_WANTED
            or type(message.get("content")) is list
            or (prompt is not None and prompt.outline.role == "tool")
        ):
            provided = self._provided(message, calls)
        if sampling.stop or self.begun:
            filter = TextFilter(sampling.stop, self.begun or "")
            text, scored = _filtered(text, scored, filter)
            finish = "stop" if filter.stopped else finish
        if finish == "stop" and (sampling.regex is not None or sampling.grammar is not None):
            _check_form(sampling, text, self.who)
        if calls and not text and not _offers(sampling):
            names = ", ".join([call.name for call in calls])
            raise MalformedResponse(
                f"{self.who} called {names}, though no tool was offered, and said nothing",
                status=200,
            )
        sample = Sample(text, finish, scored, calls, reasoning, provided)
        if sampling.tool_choice is not None and sampling.tool_choice != "auto":
            _check_tool_choice(sampling.tool_choice, sample, self.who, self.secrets)
        return sample

    def _provided(
        self, message: dict[str, Any], calls: tuple[ToolCall, ...]
    ) -> ProviderFields | None:
        """The fields of *message* that its server wants back.

        Those that want reasoning back want it in a turn in which tools were called: DeepSeek's
        "Thinking mode", "Tool calls".
        """
        prompt = self.request.messages
        with_calls = bool(calls) or (prompt is not None and prompt.outline.role == "tool")
        left_out = MESSAGE_FIELDS if with_calls else _SELDOM_WANTED
        found = {k: v for k, v in message.items() if k not in left_out and not is_empty(v)}
        if calls and isinstance(listed := message.get("tool_calls"), list):
            more = [_call_fields(call) for call in listed]
            if any(more):
                found["tool_calls"] = more
        content = message.get("content")
        if isinstance(content, list) and any(_is_unusual(part) for part in content):
            found["content"] = content
        return ProviderFields.of(found, self.source or self.who) if found else None


def _note_usage(error: BackendError, data: dict[str, Any]) -> None:
    """Let *error* say what the answer *data* has cost all the same, where that can be read."""
    used, _ = usage_of(data.get("usage"), data.get("service_tier"))
    if used != Usage():
        error.usage = used.prompt_tokens, used.completion_tokens, used.cached_tokens
        if used.written_tokens is not None or used.written_1h_tokens is not None:
            error.usage = *error.usage, used.written_tokens, used.written_1h_tokens


def another_form(what: str, error: Exception) -> MalformedResponse:
    """The error for JSON of which *error* says that it has not the form of an answer."""
    said = str(error) if isinstance(error, WrongField) else type(error).__name__
    return MalformedResponse(f"{what} JSON of another form ({said})", status=200)


def _order(choice: dict[str, Any]) -> int:
    return count_of(choice.get("index")) or 0


def _message_elsewhere(choice: dict[str, Any]) -> dict[str, Any]:
    """The message of a *choice* that has it where another interface, or a stream, does."""
    delta = choice.get("delta")
    return delta if isinstance(delta, dict) else {"content": choice["text"]}


def _known_ids(request: Request) -> Iterator[str]:
    """The ids of the calls that the prompt holds already."""
    for link in request.messages.links() if request.messages is not None else ():
        for call in link.outline.tool_calls:
            yield call.id


def _is_failure(reason: Any) -> bool:
    return isinstance(reason, str) and reason.lower() in _FAILED


def _finish(reason: Any, text: str, calls: bool, who: str) -> str:
    """The finish reason of an answer. Raises ``BackendError`` for one that is no answer."""
    word = reason.lower() if isinstance(reason, str) else ""
    if word in _FILTERED:
        raise BackendRefused(
            f"{who}: its content filter stopped the answer ({reason})", status=200, worked=True
        )
    if word in _FAILED:
        raise BackendUnavailable(f"{who} gave up while it answered ({reason})", status=200)
    known = _FINISH.get(word)
    if calls:
        return "tool_calls" if known in ("stop", None) else known
    if text:
        return UNKNOWN if not word or known == "tool_calls" else known or reason
    if known == "tool_calls":
        raise MalformedResponse(f"{who} said that it calls a tool, and called none", status=200)
    if known is None:
        why = f"the finish reason {reason!r:.40}" if word else "no finish reason"
        raise MalformedResponse(f"{who} answered with no text and {why}", status=200)
    return known


def refusal_in(message: dict[str, Any]) -> str:
    """The text with which the model refuses to answer, which stands apart; empty without one."""
    refusal = message.get("refusal")
    return refusal if isinstance(refusal, str) else ""


def _check_form(sampling: Sampling, text: str, who: str) -> None:
    """Refuse a *text* of another form: not every server heeds what it is asked for."""
    whole = sampling.begun + text
    if sampling.regex is not None and _matches(sampling.regex, whole) is False:
        name = "regex"
    elif sampling.grammar is not None and _fits(sampling.grammar, whole) is False:
        name = "grammar"
    else:
        return
    raise BackendRefused(
        f"{who} answered with a text that does not match gen({name}=...), so it does not heed "
        f'it: write without = ["{name}"] into the settings of its backend',
        status=200,
        worked=True,
    )


def _matches(pattern: str, text: str) -> bool | None:
    """True if the whole *text* matches the regular expression *pattern*, false if it does not.

    It takes time in proportion to the text. ``None`` if the pattern has what needs more.
    """
    import pydantic_core as core  # 25 ms that a program without a pattern must not cost

    try:
        schema = core.core_schema.str_schema(pattern=f"^(?s:{pattern})$")
        return bool(core.SchemaValidator(schema).isinstance_python(text))
    except core.SchemaError:
        return None


def _fits(grammar: str, text: str) -> bool | None:
    return cast("bool | None", importlib.import_module("appl_backends.ebnf").fits(grammar, text))


def _offers(sampling: Sampling) -> bool:
    """True if the model may call: a user's own fields may offer what is not known here."""
    return bool(sampling.tools) or any(name == "extra_body" for name, _ in sampling.extra)


def _check_tool_choice(choice: str, found: Sample, who: str, secrets: tuple[str, ...]) -> None:
    """Refuse an answer that does what *choice* rules out: not every server heeds it.

    One that the token limit has cut may have been about to call.
    """
    names = [call.name for call in found.tool_calls]
    if choice == "none":
        heeded = bool(found.text) or not names
    elif not names:
        heeded = found.finish_reason == "length"
    else:
        heeded = choice == "required" or choice in names
    if heeded:
        return
    did = f"called {', '.join(names)}" if names else f"said {excerpt(found.text, secrets)!r}"
    raise BackendRefused(
        f"{who} does not heed gen(tool_choice={choice!r}): it {did}; leave tool_choice out, and "
        "say in the prompt whether a tool is to be called, and which",
        status=200,
        worked=True,
    )


def content_text(content: Any) -> str:
    """The text of a message, which some servers send as a list of parts."""
    if isinstance(content, list):
        parts = (part.get("text") if isinstance(part, dict) else part for part in content)
        return "".join(text_in(part or "", "text") for part in parts)
    return text_in(content or "", "content")


def _filtered(
    text: str, scored: tuple[TokenLogprob, ...] | None, filter: TextFilter
) -> tuple[str, tuple[TokenLogprob, ...] | None]:
    """*text* as *filter* leaves it, and the tokens that it then has."""
    found = filter.feed(text) + filter.close()
    if scored is None or found == text or "".join(each.token for each in scored) != text:
        return found, scored
    kept, at, end = list[TokenLogprob](), 0, filter.skipped + len(found)
    for token in scored:
        if filter.skipped <= at < end:
            kept.append(token)
        at += len(token.token)
    return found, tuple(kept)


def _call_fields(call: dict[str, Any]) -> dict[str, Any]:
    more = {k: v for k, v in call.items() if k not in CALL_FIELDS and not is_empty(v)}
    function = call.get("function")
    if isinstance(function, dict):
        inner = {k: v for k, v in function.items() if k not in FUNCTION_FIELDS and not is_empty(v)}
        more |= {"function": inner} if inner else {}
    return more


def _is_unusual(part: Any) -> bool:
    """True if a *part* of a message's content is more than a text."""
    return isinstance(part, dict) and any(
        name not in ("type", "text") and not is_empty(value) for name, value in part.items()
    )


# -- numbers, which are unknown where they make no sense


def usage_of(usage: Any, tier: object = None) -> tuple[Usage, int | None]:
    """The tokens that a server reports, and what it says they cost, in millionths.

    *tier* is the way of service that it names. What it does not report is unknown: cached tokens
    are 0 only where it says so.
    """
    if not isinstance(usage, dict):
        return Usage(), None
    details = usage.get("prompt_tokens_details")
    if not isinstance(details, dict):
        details = _NO_DETAILS
    cached = details.get("cached_tokens")
    if cached is None:
        cached = usage.get("prompt_cache_hit_tokens", usage.get("cached_tokens"))
    said = usage.get("completion_tokens_details")
    reasoning = said.get("reasoning_tokens") if isinstance(said, dict) else None
    counts = [usage.get("prompt_tokens"), usage.get("completion_tokens"), cached]
    # Written into a cache, for its usual time and for an hour. OpenAI reports cache_write_tokens;
    # Anthropic's counts come by the names of its own and of LiteLLM.
    written, hour = details.get("cache_write_tokens"), None
    if written is None:
        written = details.get("cache_creation_tokens", usage.get("cache_creation_input_tokens"))
    parts = details.get("cache_creation_token_details") or usage.get("cache_creation")
    if isinstance(parts, dict) and parts.get("ephemeral_1h_input_tokens"):
        written, hour = parts.get("ephemeral_5m_input_tokens"), parts["ephemeral_1h_input_tokens"]
    counts += [written, hour, reasoning]
    for at, value in enumerate(counts):
        if value is not None and (type(value) is not int or not 0 <= value <= MOST):
            counts[at] = count_of(value)
    cost = usage.get("cost")
    name = "" if type(tier) is not str or tier in STANDARD_TIERS else tier
    return Usage(*counts, tier=name), None if cost is None else _cost(cost)


_NO_DETAILS: dict[str, Any] = {}
STANDARD_TIERS = frozenset({"", "auto", "default", "standard", "on_demand"})
"""The words by which providers call the way of service with the usual prices."""


def _cost(cost: Any) -> int | None:
    """A cost in millionths, ``None`` if it is no amount of money."""
    if type(cost) not in (int, float) or not 0 <= cost <= _DEAREST:
        return None
    return count_of(millionths(cost))


_DEAREST = 1e12


def _logprobs(logprobs: Any) -> tuple[TokenLogprob, ...] | None:
    """The tokens with their log-probabilities, ``None`` if these cannot be read."""
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not isinstance(content, list):
        return None
    with contextlib.suppress(*OTHER_FORM):
        return tuple([_token(each) for each in content])
    return None


def _token(found: dict[str, Any]) -> TokenLogprob:
    top = found.get("top_logprobs")
    best = [_scored(each) for each in top] if isinstance(top, list) else ()
    return TokenLogprob(*_scored(found, None), tuple(best))


def _prompt_token(found: dict[str, Any], most: int) -> TokenLogprob:
    own, *_ = every = [
        (text_in(each["decoded_token"] or "", "token"), number_in(each["logprob"], "logprob"))
        for each in found.values()
    ]
    likeliest = sorted(every, key=lambda each: -each[1])
    return TokenLogprob(*own, tuple(likeliest[:most]))


def _scored(found: dict[str, Any], impossible: float | None = -math.inf) -> tuple[str, float]:
    """A token and its log-probability; some servers write ``null`` for that of an *impossible* one.

    JSON has no infinity.
    """
    value = found["logprob"]
    value = impossible if value is None else value
    return text_in(found["token"], "token"), number_in(value, "logprob")


def _is_absent(logprobs: Any) -> bool:
    return logprobs is None or (isinstance(logprobs, dict) and logprobs.get("content") is None)


def _no_logprobs(who: str, option: str = "logprobs") -> BackendRefused:
    return BackendRefused(
        f"{who} gave no log-probabilities, which gen({option}=...) asks for: leave them out, or "
        f'choose a model that has them; without = ["{option}"] in the settings of the backend has '
        "them refused before a call",
        status=200,
        worked=True,
    )

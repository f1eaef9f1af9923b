"""Messages in the form that a provider takes, where that is not the form in which they are kept.

Invariant: what a message says reaches the model. Only ids, names of speakers, and arguments of
calls that are no JSON may be written in another way, and each is the same every time.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any

from appl.prompt import Messages

_NO_NAME = re.compile(r"[^a-zA-Z0-9_-]+")
_LONGEST_NAME = 64


class Dialect:
    """The form that most servers take.

    ``name`` keeps what is derived for one form apart from that for another. With ``watches_texts``
    a message that has nothing but role and text may be written in another way, too.
    """

    name = ""
    watches_texts = False
    ids: re.Pattern[str] | None = None
    """The ids of calls that it takes: others are replaced by digests of ``digits`` digits."""
    digits = 40
    text_part = "text"
    """The type of a part of a message that is text."""
    any_arguments = False
    """True if a call may have any text as its arguments, as models may write it."""

    def written(self, message: dict[str, Any], link: Messages) -> list[dict[str, Any]]:
        """The messages that say *message*, which is that of *link*."""
        if "name" in message:
            message["name"] = _name(message["name"])
        for call in message.get("tool_calls", ()):
            call["id"] = self._id(call["id"])
            if not self.any_arguments:
                function = call["function"]
                function["arguments"] = _object(function["arguments"])
        if "tool_call_id" in message:
            message["tool_call_id"] = self._id(message["tool_call_id"])
        return [message]

    def text_field(self, written: dict[str, Any]) -> str | None:
        """The field with the text of a message, which may be cut; ``None`` if it may not."""
        return "content"

    def _id(self, id: str) -> str:
        if self.ids is None or self.ids.fullmatch(id):
            return id
        return hashlib.sha256(id.encode(errors="surrogatepass")).hexdigest()[: self.digits]


def _name(name: str) -> str:
    """*name* in the characters that OpenAI takes: it refuses others.

    https://platform.openai.com/docs/api-reference/chat/create
    """
    plain = _NO_NAME.sub("_", name)[:_LONGEST_NAME]
    if plain.strip("_-"):
        return plain
    return f"speaker_{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()[:8]}"


def _object(arguments: str) -> str:
    """*arguments*, or a JSON object that holds them as a text, if they are none.

    vLLM, SGLang, Ollama, llama.cpp, Gemini and Anthropic read the arguments of former calls, and
    refuse what is no object. The model sees what it wrote; the tool's message says what was wrong.
    """
    try:
        if isinstance(json.loads(arguments, parse_constant=_refused), dict):
            return arguments
    except (ValueError, RecursionError):
        pass
    return json.dumps({"not_a_json_object": arguments}, ensure_ascii=False)


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


class _OpenAI(Dialect):
    """OpenAI and Azure: "string too long. Expected a string with maximum length 40"."""

    name = "openai"
    ids = re.compile(r".{1,40}", re.DOTALL)
    any_arguments = True


class _DeepSeek(Dialect):
    """DeepSeek wants the reasoning of each answer of a turn in which tools were called.

    Where there is none, as another model has answered, an empty text has to stand for it.
    https://api-docs.deepseek.com/guides/thinking_mode
    """

    name = "deepseek"
    watches_texts = True

    def written(self, message: dict[str, Any], link: Messages) -> list[dict[str, Any]]:
        if message["role"] == "assistant" and _is_in_turn_with_calls(link):
            message.setdefault("reasoning_content", "")
        return super().written(message, link)


def _is_in_turn_with_calls(link: Messages | None) -> bool:
    while link is not None and link.outline.role != "user":
        if link.outline.tool_calls:
            return True
        link = link.parent
    return False


class _Gemini(Dialect):
    """Gemini's interface like OpenAI's, which takes no message without a content."""

    name = "gemini"
    watches_texts = True

    def written(self, message: dict[str, Any], link: Messages) -> list[dict[str, Any]]:
        return (
            [] if _is_empty(message) and link.parent is not None else super().written(message, link)
        )


class _SignedGemini(_Gemini):
    """Gemini from version 3 on, which refuses a call without the signature of a thought.

    A call of another model has none: what Google lets one send for it is put there.
    https://ai.google.dev/gemini-api/docs/thought-signatures
    """

    name = "gemini, signed"

    def written(self, message: dict[str, Any], link: Messages) -> list[dict[str, Any]]:
        for call in message.get("tool_calls", ())[:1]:
            google = call.setdefault("extra_content", {}).setdefault("google", {})
            google.setdefault("thought_signature", "skip_thought_signature_validator")
        return super().written(message, link)


def _is_empty(message: dict[str, Any]) -> bool:
    """True if *message* says nothing: no text, no picture, no call, no result."""
    content = message["content"]
    if isinstance(content, list):
        content = any(part.get("type") != "text" or part["text"] for part in content)
    return not content and not message.get("tool_calls") and message["role"] != "tool"


class _Mistral(Dialect):
    """Mistral: ids of nine letters, no names, no empty answers, an answer behind results of tools.

    https://github.com/mistralai/mistral-common, ``protocol/instruct/validator.py``
    """

    name = "mistral"
    watches_texts = True
    ids = re.compile(r"[a-zA-Z0-9]{9}")
    digits = 9

    def written(self, message: dict[str, Any], link: Messages) -> list[dict[str, Any]]:
        if message["role"] != "tool":
            message.pop("name", None)
        elif message["content"] == "":
            message["content"] = "(empty)"  # litellm would leave the result out
        is_behind = link.parent is not None and link.parent.outline.role == "tool"
        if message["role"] == "assistant" and _is_empty(message) and link.parent is not None:
            return [dict(_SEEN)] if is_behind else []
        found = super().written(message, link)
        if is_behind and message["role"] not in ("assistant", "tool"):
            found.insert(0, dict(_SEEN))
        return found


_SEEN = {"role": "assistant", "content": "I have seen the results."}
"""The message between the results of tools and the user's next one."""


class _Claude(Dialect):
    """Anthropic, through litellm: ids without dots and colons, no text that is only whitespace.

    The user's message comes first.
    """

    name = "claude"
    watches_texts = True
    ids = re.compile(r"[a-zA-Z0-9_-]+")

    def written(self, message: dict[str, Any], link: Messages) -> list[dict[str, Any]]:
        content = message["content"]
        if isinstance(content, list):
            message["content"] = [part for part in content if not _is_blank(part)]
        elif message["role"] != "tool" and not (content or "").strip():
            message["content"] = None if message.get("tool_calls") else ""
        if _is_empty(message) and link.parent is not None:
            return []
        found = super().written(message, link)
        return [dict(_BEGUN), *found] if _begins_with_assistant(link) else found


_BEGUN = {"role": "user", "content": "Hello."}
"""The message before one with which the assistant begins."""


def _begins_with_assistant(link: Messages) -> bool:
    if link.outline.role != "assistant":
        return False
    before = link.parent
    while before is not None and before.outline.role == "system":
        before = before.parent
    return before is None


def _is_blank(part: dict[str, Any]) -> bool:
    return part.get("type") == "text" and not part["text"].strip()


_OLD_GEMINI = re.compile(r"gemini-[12]\b")
_KINDS: dict[str, Callable[[], Dialect]] = {
    "azure": _OpenAI,
    "claude": _Claude,
    "deepseek": _DeepSeek,
    "mistral": _Mistral,
    "openai": _OpenAI,
}


@cache
def dialect_of(kind: str, model: str = "") -> Dialect:
    """The form of messages for *model* at a server of this *kind*."""
    if kind == "gemini":
        return _Gemini() if _OLD_GEMINI.search(model) else _SignedGemini()
    return _KINDS.get(kind, Dialect)()

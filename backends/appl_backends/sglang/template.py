"""The chat template of a model: rendered in a sandbox, and taken apart between its messages.

Invariant: the text that :class:`Layout` puts together is the one that the template renders, for all
conversations that it accepts; it is compared with the template when it is made.
"""

from __future__ import annotations

import datetime
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import jinja2.ext
import jinja2.sandbox

from appl.errors import ConfigError, Unsupported
from appl.prompt import Message, RoleName

PLAIN = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
"""The value of ``template="plain"``: the texts as they are, for models that only go on."""

_TOKENS = ("bos_token", "eos_token", "pad_token", "unk_token")


class ChatTemplate:
    """A Jinja template with the special tokens of its tokenizer."""

    def __init__(self, source: str, tokens: Mapping[str, str], tool_source: str = "") -> None:
        self.source, self.tool_source = source, tool_source
        self.tokens = dict(tokens)
        environment = _environment()
        try:
            self._plain = environment.from_string(source)
            self._tools = environment.from_string(tool_source) if tool_source else self._plain
        except jinja2.TemplateError as error:
            raise ConfigError(f"the chat template cannot be read: {error}") from error

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] = (),
        answering: bool = True,
    ) -> str:
        """The conversation as text; *answering* adds the opening of an assistant message.

        Raises ``Unsupported`` with what the template says against it.
        """
        template = self._tools if tools else self._plain
        try:
            return template.render(
                messages=messages,
                tools=list(tools) or None,
                add_generation_prompt=answering,
                **self.tokens,
            )
        except Exception as error:
            raise Unsupported(
                f"the model's chat template does not take this conversation: {error}"
            ) from error


def load_template(folder: Path, given: str | None = None) -> ChatTemplate:
    """The chat template of the tokenizer in *folder*, or the *given* one.

    *given* is ``plain``, the path of a Jinja file, or the template itself. Raises ``ConfigError``.
    """
    tokens = _special_tokens(folder)
    if given is not None:
        return ChatTemplate(_given(given), tokens)
    file = folder / "chat_template.jinja"
    if file.is_file():
        return ChatTemplate(file.read_text("utf-8"), tokens)
    found = _json(folder / "tokenizer_config.json").get("chat_template")
    found = found or _json(folder / "chat_template.json").get("chat_template")
    if isinstance(found, str):
        return ChatTemplate(found, tokens)
    if isinstance(found, list):
        named = {each["name"]: each["template"] for each in found}
        if "default" in named:
            return ChatTemplate(named["default"], tokens, named.get("tool_use", ""))
    raise ConfigError(
        f"the tokenizer in {folder} has no chat template; give the backend "
        'template="file.jinja", or template="plain" for a model that only goes on with a text'
    )


TAKEN = frozenset({"reasoning_content"})
"""Fields of a message besides the usual ones that templates use."""
NOBODY = ""
"""The provider whose fields templates take: those of the user alone."""


def as_data(message: Message) -> dict[str, Any]:
    """*message* as templates take it: arguments of tool calls are data, media are parts."""
    found = message.as_dict(NOBODY)
    if message.media:
        found["content"] = [_part(part) for part in message.parts]
    for call in found.get("tool_calls", ()):
        function = call["function"]
        function["arguments"] = _parsed(function["arguments"])
    return found


def tools_as_data(tools: Sequence[str]) -> list[dict[str, Any]]:
    """Tools, each as canonical JSON text, as templates take them."""
    return [{"type": "function", "function": json.loads(tool)} for tool in tools]


class TemplateLayout:
    """The text between plain messages, for templates where it depends on two roles only.

    ``joins`` is the text between a message's text and the next one's, by their roles (``None``:
    the beginning); ``opening`` is what follows the last message when an answer is wanted;
    ``trimmed`` are the roles whose text is written without the white space around it.
    """

    def __init__(
        self,
        joins: dict[tuple[str | None, str], str],
        opening: str,
        trimmed: frozenset[str],
        wary: bool,
    ) -> None:
        self.joins, self.opening, self.trimmed = joins, opening, trimmed
        self._wary = wary

    def written(self, message: Message) -> str | None:
        """The text of *message* as it is written, ``None`` if the layout does not say it."""
        text = message.content
        if not message.bare or not text.strip() or (self._wary and "</think>" in text):
            return None
        return text.strip() if message.role in self.trimmed else text

    def text(self, messages: Sequence[Message]) -> str:
        """The whole conversation, with the opening of an answer."""
        pieces: list[str] = []
        before: str | None = None
        for message in messages:
            pieces += (self.joins[before, message.role], self.written(message) or "")
            before = message.role
        return "".join(pieces) + self.opening


_SHAPES = ("u", "su", "uau", "suau", "uauau", "suauau")
_ROLES: dict[str, RoleName] = {"s": "system", "u": "user", "a": "assistant"}
_ODD = (
    "Zwölf Boxkämpfer\n\n\tjagen 你好 👋",
    '{"a": [1, 2]} {{ x }} {% y %}',
    "a",
    "  - x\n- y\n\n",
    "...",
    "def f(x):\n    return x\n",
)


def layout_of(template: ChatTemplate) -> TemplateLayout | None:
    """The layout of *template*, ``None`` when it has none."""
    try:
        return _layout_of(template)
    except (Unsupported, KeyError):
        return None


def _layout_of(template: ChatTemplate) -> TemplateLayout | None:
    joins: dict[tuple[str | None, str], str] = {}
    opening: str | None = None
    for shape in _SHAPES:
        pieces = _between(template, shape)
        if pieces is None:
            return None
        before: str | None = None
        for letter, piece in zip(shape, pieces, strict=False):
            role = _ROLES[letter]
            if joins.setdefault((before, role), piece) != piece:
                return None
            before = role
        if opening is None:
            opening = pieces[-1]
        if opening != pieces[-1] or joins.get(("user", "assistant"), opening) != opening:
            return None
    assert opening is not None
    wary = "think" in template.source
    for count in range(4):
        for trimmed in itertools.combinations(_ROLES.values(), count):
            layout = TemplateLayout(joins, opening, frozenset(trimmed), wary)
            if all(_agree(template, layout, each) for each in conversations()):
                return layout
    return None


def conversations() -> list[list[Message]]:
    """Conversations with odd texts, to compare two ways of writing them.

    The assistant's begin with something visible: what a model says after its opening is never
    encoded together with it.
    """
    return [_conversation(shape, at) for shape in _SHAPES for at in range(len(_ODD))]


def _conversation(shape: str, at: int) -> list[Message]:
    found: list[Message] = []
    for turn, letter in enumerate(shape):
        text = _ODD[(at + turn) % len(_ODD)]
        found.append(Message(_ROLES[letter], text.lstrip() if letter == "a" else text))
    return found


def _agree(template: ChatTemplate, layout: TemplateLayout, messages: list[Message]) -> bool:
    return layout.text(messages) == template.render([each.as_dict() for each in messages])


def _between(template: ChatTemplate, shape: str) -> list[str] | None:
    """The texts around the messages of *shape*, each of which must stand once and in order."""
    marks = [f"⟦{at}⟧" for at in range(len(shape))]
    said = [
        {"role": _ROLES[letter], "content": mark} for letter, mark in zip(shape, marks, strict=True)
    ]
    rest = template.render(said)
    pieces = []
    for mark in marks:
        if rest.count(mark) != 1:
            return None
        piece, _, rest = rest.partition(mark)
        pieces.append(piece)
    return [*pieces, rest]


def _environment() -> jinja2.Environment:
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _refuse
    environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    return environment


def _to_json(value: Any, indent: int | None = None, **_: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(reason: str) -> None:
    raise jinja2.TemplateError(reason)


def _given(given: str) -> str:
    if given == "plain":
        return PLAIN
    if "{" in given:
        return given
    try:
        return Path(given).expanduser().read_text("utf-8")
    except OSError as error:
        raise ConfigError(
            f"template={given!r} is neither 'plain', a file nor a template: {error}"
        ) from error


def _special_tokens(folder: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        data = _json(folder / name)
        for key in _TOKENS:
            value = data.get(key)
            if isinstance(value, Mapping):
                value = value.get("content")
            if isinstance(value, str):
                found[key] = value
    return found


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    found = json.loads(path.read_text("utf-8"))
    return found if isinstance(found, dict) else {}


def _part(part: Any) -> dict[str, Any]:
    return {"type": "text", "text": part} if isinstance(part, str) else {"type": part.kind}


def _parsed(arguments: str) -> Any:
    try:
        return json.loads(arguments) if arguments else {}
    except ValueError:
        return arguments

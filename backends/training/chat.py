"""The chat format in token ids: `<s>`, then for each message its role token, its text and `<|end|>`; text never becomes a role token."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tokenizers import Tokenizer

SPECIAL = [
    "<s>",
    "<|end|>",
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
    "<|tool|>",
    "<|call|>",
    "<pad>",
]
BOS, END, SYSTEM, USER, ASSISTANT, TOOL, CALL, PAD = range(8)
ROLES = {"system": SYSTEM, "user": USER, "assistant": ASSISTANT, "tool": TOOL}
TEMPLATE = (
    "{{- bos_token -}}"
    "{%- set ns = namespace(started=false) -%}"
    "{%- if tools -%}"
    "{%- if messages and messages[0]['role'] == 'system' -%}{{- '<|system|>' + messages[0]['content'] + '\n' -}}"
    "{%- else -%}{{- '<|system|>' -}}{%- endif -%}"
    "{{- 'You can use these tools:' -}}"
    "{%- for tool in tools -%}{%- set f = tool['function'] if 'function' in tool else tool -%}"
    "{{- '\n{\"name\": ' + (f['name'] | tojson) + ', \"description\": ' + (f['description'] | default('') | tojson)"
    " + ', \"parameters\": ' + (f['parameters'] | tojson) + '}' -}}{%- endfor -%}"
    "{{- '<|end|>' -}}{%- endif -%}"
    "{%- for message in messages -%}"
    "{%- if not (tools and loop.first and message['role'] == 'system') -%}"
    "{%- if message['role'] == 'assistant' and message['tool_calls'] is defined and message['tool_calls'] -%}"
    "{%- if message['content'] -%}{{- '<|assistant|>' + message['content'] + '<|end|>' -}}{%- endif -%}"
    "{%- for call in message['tool_calls'] -%}{%- set f = call['function'] if 'function' in call else call -%}"
    "{{- '<|assistant|><|call|>{\"name\": ' + (f['name'] | tojson) + ', \"arguments\": '"
    " + (f['arguments'] if f['arguments'] is string else (f['arguments'] | tojson)) + '}<|end|>' -}}{%- endfor -%}"
    "{%- else -%}"
    "{{- '<|' + message['role'] + '|>' + (message['content'] or '') -}}"
    "{%- if not (continue_final_message is defined and continue_final_message and loop.last) -%}{{- '<|end|>' -}}{%- endif -%}"
    "{%- endif -%}{%- endif -%}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%}"
)
"""The same format for engines that render text."""


def plain(tokenizer: Tokenizer, text: str) -> list[int]:
    """Text as ids, in which the names of role tokens are ordinary text."""
    tokenizer.encode_special_tokens = True
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
    return ids


def _call(message: dict[str, Any]) -> str:
    function = message["tool_calls"][0]["function"]
    arguments = function["arguments"]
    shown = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return f'{{"name": {json.dumps(function["name"])}, "arguments": {shown}}}'


def prompt(tokenizer: Tokenizer, messages: Sequence[dict[str, Any]]) -> list[int]:
    """The ids of a conversation; a last message of the assistant is left open and continued, else the assistant is asked to speak."""
    ids = [BOS]
    for at, message in enumerate(messages):
        ids.append(ROLES[message["role"]])
        if message.get("tool_calls"):
            ids += [CALL, *plain(tokenizer, _call(message)), END]
            continue
        ids += plain(tokenizer, message.get("content") or "")
        if at + 1 == len(messages) and message["role"] == "assistant":
            return ids
        ids.append(END)
    return [*ids, ASSISTANT]

"""The parts that make requests to one server: its tokenizer, its template, its defaults.

Invariant: the tokenizer is the server's own, as far as the server tells.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from pathlib import Path

from appl.errors import ConfigError
from appl_backends.sglang.answer_text import THINK, THOUGHT, Thinking
from appl_backends.sglang.heads import Heads
from appl_backends.sglang.model_folder import defaults_of, folder_of
from appl_backends.sglang.probe import ServerFacts, tokens_of
from appl_backends.sglang.request_bodies import Parameters
from appl_backends.sglang.template import ChatTemplate, load_template
from appl_backends.sglang.tokens import ModelTokenizer, Prompts
from appl_backends.sglang.tools import Style, style_of
from appl_backends.sglang.wire import Wire

_FILES = (
    "tokenizer.json", "chat_template.jinja", "chat_template.json", "tokenizer_config.json",
    "special_tokens_map.json",
)  # fmt: skip
"""The files of a model that its tokens depend on."""

_SAMPLE = "Grüße, world! 12345 <x> 你好"


@dataclass(frozen=True, slots=True)
class Ready:
    """A server that was probed, and what requests to it are made with."""

    server: ServerFacts
    prompts: Prompts
    heads: Heads
    parameters: Parameters
    style: Style | None
    thinking: Thinking
    folder: Path


def load(
    server: ServerFacts, tokenizer: Path | None, template: str | None, max_tokens: int | None
) -> Ready:
    """Read the files of the model of *server*, from the folder *tokenizer* if it is given.

    *template* is another chat template, *max_tokens* bounds answers that say nothing themselves.
    Raises ``ConfigError`` when a file is missing.
    """
    folder = tokenizer or folder_of(server.tokenizer)
    if folder is None:
        raise ConfigError(
            f"the tokenizer of {server.tokenizer or 'the model'} is not on this machine; give "
            "the backend tokenizer=<the folder with its tokenizer.json and chat template>"
        )
    prompts = _prompts(folder, template, _state(folder, template))
    chat, defaults, seeded = prompts.template, defaults_of(folder), server.deterministic
    return Ready(
        server,
        prompts,
        Heads(prompts.tokenizer, max_tokens),
        Parameters(defaults, max_tokens=max_tokens, seeded=seeded),
        style_of(chat.source + chat.tool_source),
        _thinking(chat),
        folder,
    )


@lru_cache(maxsize=4)
def _prompts(folder: Path, template: str | None, state: object) -> Prompts:
    """The tokenizer and the template in *folder*, kept for the process while *state* is the same.

    To read them takes tens of milliseconds, which each run would pay again.
    """
    chat = load_template(folder, template)
    return Prompts(ModelTokenizer(folder), chat)


def _state(folder: Path, template: str | None) -> object:
    """A value that changes with the files, and each day: a template may write the date."""
    files = [folder / name for name in _FILES]
    given = [] if template is None or "{" in template else [Path(template).expanduser()]
    return date.today(), *map(_stamp, [*files, *given])


def _stamp(file: Path) -> tuple[int, ...]:
    """The identity of *file*, its size and its times of change; empty if there is none."""
    try:
        found = file.stat()
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


async def check_tokenizer(wire: Wire, ready: Ready) -> None:
    """Refuse another tokenizer than the server's: ids of another vocabulary could end the server.

    A tokenizer that the server has is not compared again as long as its facts are kept. Raises
    ``ConfigError``.
    """
    tokenizer, same = ready.prompts.tokenizer, "the same tokenizer"
    if wire.learned.get(same) == tokenizer.fingerprint:
        return
    there = await tokens_of(wire, _SAMPLE)
    here = tokenizer.encode(_SAMPLE)
    if there is None or there[-len(here) :] == here:
        wire.learned[same] = tokenizer.fingerprint
    else:
        raise ConfigError(
            f"{wire.who} has another tokenizer than the one in {ready.folder}: it encodes "
            f"{_SAMPLE!r} to {there}, not to {here}; give the backend "
            "tokenizer=<the folder of the server's>"
        )


def _thinking(template: ChatTemplate) -> Thinking:
    """The way in which a model with this template reasons first; ``None`` if it does not."""
    if THOUGHT not in template.source:
        return None
    opened = template.render([{"role": "user", "content": "?"}])
    return "begun" if opened.rstrip().endswith(THINK) else "written"

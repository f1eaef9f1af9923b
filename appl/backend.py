"""The seam to models: a ``Request`` goes in, a ``Response`` comes out, whoever answers.

Wire formats of a vendor never appear here; each backend translates these values itself. What
intervenes between runtime and model (replay, cache, fault injection) is a Backend around a Backend.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast, runtime_checkable

from appl.errors import BackendNotFound, ConfigError, MissingExtra, Unsupported, nearest
from appl.prompt import Messages, PromptNode, ToolCall, digest_of

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from appl.price import Priced

GROUP = "appl.backends"
GREEDY, UNCONDITIONAL = "greedy_token_selection", "unconditional_likelihood_normalized"
"""Ways to choose by log-probability that only backends with the feature ``choice_methods`` have."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """Everything besides model and messages that can change an answer.

    ``None`` leaves a value to the model's own default. ``schema`` is a JSON schema as compact
    JSON text, its properties in the order in which they are to be written. ``tools`` are those that
    the model may call, each as the canonical JSON text of ``{"name", "description",
    "parameters"}``; ``tool_choice`` is ``auto``, ``none``, ``required``, or the name of the one to
    call. ``normalize`` is how choices are compared: ``None`` by the sum of the log-probabilities of
    their tokens, ``token`` by the mean, ``GREEDY`` token by token, ``UNCONDITIONAL`` by the mean
    less that without the prompt. ``stop_tokens`` end the answer, and are not part of it.
    ``begun`` is the beginning of the answer, which is at the end of the prompt already: *regex*,
    *grammar* and *schema* hold for it and what is generated together.
    ``extra`` holds options that the backend declares, as sorted pairs. ``salt`` is a name space of
    the user's: changing it makes recorded answers no longer match.
    """

    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    logprobs: int | None = None
    choices: tuple[str, ...] | None = None
    normalize: str | None = None
    regex: str | None = None
    grammar: str | None = None
    schema: str | None = None
    tools: tuple[str, ...] = ()
    tool_choice: str | None = None
    stop_tokens: tuple[int, ...] = ()
    begun: str = ""
    extra: tuple[tuple[str, Any], ...] = ()
    salt: str = ""
    _canonical: str | None = field(default=None, init=False, repr=False, compare=False)

    def canonical(self) -> str:
        """JSON with sorted keys, defaults left out, ``1``, ``1.0`` and ``true`` kept distinct.

        Made once per object: use one ``Sampling`` for many requests where they agree.
        """
        if self._canonical is None:
            object.__setattr__(self, "_canonical", canonical(self._given()))
        assert self._canonical is not None
        return self._canonical

    def _given(self) -> dict[str, Any]:
        return {
            name: dict(value) if name == "extra" else value
            for name in self.__slots__
            if name != "_canonical"
            and (value := getattr(self, name)) is not None
            and value not in ((), "")
        }


NUMBERS = frozenset(
    each.name
    for each in fields(Sampling)
    if each.type in ("int | None", "float | None", "tuple[int, ...]")
)
"""The fields of a ``Sampling`` that hold numbers, so that they say nothing of what is asked."""


def canonical(value: object) -> str:
    """The canonical JSON text of plain data: sorted keys, no spaces, surrogates escaped."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


@dataclass(slots=True)
class Request:
    """One question to a model.

    ``address`` says where in the program it is asked, ``ordinal`` the how-manieth of its frame;
    neither is part of the content. ``messages`` is ``None`` for an empty prompt; a conversation
    whose last message is the assistant's is continued, not answered. ``n`` samples are wanted;
    ``sample`` numbers the first of them (so that a resumed ``n=25`` may ask for five more).
    ``timeout`` is in seconds. ``cache`` names where known answers are kept, for whoever stands
    before the backend.
    """

    address: str
    ordinal: int
    model: str
    messages: Messages | None
    sampling: Sampling
    n: int = 1
    sample: int = 0
    timeout: float | None = None
    priority: int = 0
    cache: str | None = None
    _digest: bytes | None = field(default=None, repr=False, compare=False)

    @property
    def digest(self) -> bytes:
        """The content digest: messages, model and sampling, and nothing else."""
        if self._digest is None:
            said = self.messages.digest if self.messages else b""
            self._digest = digest_of(said, self.model, self.sampling.canonical())
        return self._digest


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call; ``None`` is "the backend does not say", never 0."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """One generated token: its text, its natural log-probability, and the best alternatives."""

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Sample:
    """One answer. ``finish_reason`` is ``stop``, ``length``, ``tool_calls``, or the backend's word.

    ``reasoning`` is what the model thought before it answered, where the backend tells it apart.
    """

    text: str
    finish_reason: str
    logprobs: tuple[TokenLogprob, ...] | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str | None = None


@dataclass(frozen=True, slots=True)
class Response:
    """What a backend answers: as many samples as were asked for.

    ``scores`` are the log-probabilities of the choices in their order, ``choice_method`` how the
    choice was made (``logprob``, ``constrained``, ``asked``). ``cost`` is in millionths of the
    model's currency unit. ``reused`` is the number of samples that a cache gave: usage and cost are
    those of the others.
    """

    samples: tuple[Sample, ...]
    usage: Usage = Usage()
    model: str = ""
    scores: tuple[float, ...] | None = None
    choice_method: str | None = None
    cost: int | None = None
    reused: int = 0

    @property
    def text(self) -> str:
        """The text of the first sample."""
        return self.samples[0].text


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a streamed answer: more text, or reasoning, of sample number ``sample``."""

    sample: int
    text: str
    kind: Literal["text", "reasoning"] = "text"


Emit = Callable[[Chunk], None]


@dataclass(frozen=True, slots=True)
class Profile:
    """What a backend is and can do.

    ``features`` are of: choices, choice_methods, regex, grammar, schema, logprobs, seed, n,
    prefill, stream, prefix_cache, tools, images, audio, reasoning, stop_tokens,
    constrained_prefill (it heeds ``Sampling.begun``); ``schema_object`` says that a schema must be
    that of an object.
    ``options`` are the further option names that it accepts from ``gen``. ``models`` is empty when
    the backend cannot list them. ``concurrency`` is the number of calls it wants at once, ``None``
    for no limit. ``context`` is the most tokens that prompt and answer have together, if known.
    A backend that is ``thread_bound`` has things that belong to one thread, and is asked on one
    only. One that ``shares_in_flight`` has requests wait for the beginning of their prompt while
    another computes it: it is sent everything at once.
    """

    name: str
    features: frozenset[str] = frozenset()
    options: frozenset[str] = frozenset()
    models: tuple[str, ...] = ()
    default_model: str | None = None
    concurrency: int | None = None
    context: int | None = None
    thread_bound: bool = False
    shares_in_flight: bool = False


class Backend(Protocol):
    """Whoever answers. ``complete`` runs on the I/O loop; cancelling it aborts the work behind it.

    While answers come at once, the thread that waits for them may run that loop. What else it can
    do stands in its profile, and in the protocols below, which it need not have: ``PrefixCaching``,
    ``Connects``, ``Pricing`` and ``CountsTokens``. They are found by ``isinstance``, and a backend
    around a backend passes them on.
    ``complete`` raises a :class:`~appl.errors.BackendError`; anything else is a bug of the backend.
    """

    @property
    def profile(self) -> Profile:
        """What this backend is and can do."""

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        """Answer *request*; with *emit*, also pass on text as it comes, on the I/O loop."""

    async def aclose(self) -> None:
        """Let go of connections and memory; further calls are errors."""


@runtime_checkable
class PrefixCaching(Protocol):
    """What a backend offers whose server keeps the computed beginnings of prompts.

    The scheduler then sends a long beginning that many calls share first, and the calls when it is
    there.
    """

    @property
    def cache_tokens(self) -> int | None:
        """How many tokens the server's cache holds, ``None`` when that is not known."""

    def prompt_tokens(self, request: Request) -> Sequence[int]:
        """The token ids of the prompt; what was computed for a part of it is kept with it."""

    async def warm(self, request: Request, tokens: int) -> None:
        """Have the first *tokens* tokens of the prompt computed and kept, without an answer.

        Runs on the I/O loop. Whoever calls it goes on when it fails.
        """


@runtime_checkable
class Connects(Protocol):
    """A backend that is connected with once, before its first call."""

    async def connect(self) -> None:
        """Find out whether the server is there and what it can do. Raises ``BackendError``."""


@runtime_checkable
class Pricing(Protocol):
    """A backend that knows what its models cost."""

    @property
    def prices(self) -> Priced:
        """The prices of its models; those that the user has set come before them."""


@runtime_checkable
class CountsTokens(Protocol):
    """A backend that can count tokens without asking its server."""

    def count_tokens(self, text: str) -> int:
        """How many tokens *text* has."""


_INSTEAD = {"images": "images: say what is in them as text", "audio": "sound: say its text"}


def check_media(profile: Profile, prompt: PromptNode | Messages | None) -> None:
    """Raise ``Unsupported`` for a *prompt* with images or sounds that the backend cannot take."""
    if prompt is None or prompt.needs <= profile.features:
        return
    missing = min(prompt.needs - profile.features)
    able = ", ".join(sorted(profile.features)) or "none"
    raise Unsupported(
        f"backend {profile.name!r} cannot take {_INSTEAD[missing]}, or choose a backend that has "
        f"the feature {missing!r} (this one has: {able})"
    )


def installed() -> dict[str, EntryPoint]:
    """The backends that installed packages declare, by name."""
    metadata = importlib.import_module(
        "importlib.metadata"
    )  # 20 ms that `import appl` must not cost
    return {point.name: point for point in metadata.entry_points(group=GROUP)}


def load(name: str, settings: Mapping[str, Any] | None = None) -> Backend:
    """Make the backend *name*: an entry point of ``appl.backends``, or ``module:attribute``.

    *settings* are passed as keyword arguments. Raises ``BackendNotFound``, or ``ConfigError`` when
    that is no backend.
    """
    if ":" in name:
        try:
            factory = named(name)
        except MissingExtra:
            raise
        except (ImportError, AttributeError) as error:
            raise BackendNotFound(f"backend {name!r} cannot be imported: {error}") from error
        if not callable(factory):
            raise BackendNotFound(
                f"backend {name!r} is {factory!r:.80}; write module:attribute of a class, or of a "
                "function that makes a backend"
            )
    else:
        found = installed()
        if name not in found:
            known = ", ".join(sorted(found)) or "none"
            raise BackendNotFound(
                f"no backend named {name!r} is installed (installed: {known})"
                f"{nearest(name, found)}; write a name from that list or 'module:attribute'"
            )
        factory = _imported(name, found[name])
    if isinstance(factory, type) and not hasattr(factory, "__getattr__"):
        _check_protocol(name, factory, ("complete", "aclose"))
    made = factory(**(settings or {}))
    _check_protocol(name, made, ("profile", "complete", "aclose"))
    return cast(Backend, made)


def named(name: str) -> Any:
    """What ``module:attribute`` names, of an installed module or one of the working directory.

    Raises ``ConfigError`` for Python's own library, before it is imported; else as an import does.
    """
    module, _, attribute = name.partition(":")
    head = module.partition(".")[0]
    if head in sys.stdlib_module_names:
        raise ConfigError(f"{name!r} is part of Python's own library, which has no backends")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        here = str(Path.cwd())
        if error.name != head or here in sys.path:
            raise
        sys.path.append(here)
    return getattr(importlib.import_module(module), attribute)


def _check_protocol(name: str, made: object, wanted: Sequence[str]) -> None:
    """Refuse *made*, or the class that is to make it, when it is no backend."""
    missing = [each for each in wanted if not hasattr(made, each)]
    if missing:
        raise ConfigError(
            f"{name!r} is no backend: {made!r:.80} has no {' and no '.join(missing)}; write "
            "module:attribute of a class, or of a function that makes a backend"
        )


def _imported(name: str, point: EntryPoint) -> Callable[..., Any]:
    """What makes the installed backend *name*. Raises ``BackendNotFound``."""
    try:
        return cast(Callable[..., Any], point.load())
    except MissingExtra:
        raise
    except (ImportError, AttributeError) as error:
        raise BackendNotFound(f"backend {name!r} cannot be imported: {error}") from error

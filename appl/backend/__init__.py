"""The interface to models: a ``Request`` goes in, a ``Response`` comes out.

A vendor's wire format never appears here; each backend translates these values itself. A layer
between runtime and model (replay, cache, fault injection) is a Backend around a Backend.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    Protocol,
    TypeGuard,
    TypeVar,
    cast,
    runtime_checkable,
)

from appl.base.packages import Declared, declared
from appl.errors import BackendNotFound, ConfigError, MissingExtra, Unsupported, nearest
from appl.prompt.digest import digest_of

if TYPE_CHECKING:
    from appl.backend.price import Priced
    from appl.backend.tokens import SampleTokens
    from appl.prompt.message import Messages, ToolCall
    from appl.prompt.provider_fields import ProviderFields

GROUP = "appl.backends"
GREEDY, UNCONDITIONAL = "greedy_token_selection", "unconditional_likelihood_normalized"
"""Ways of choosing by log-probability, for backends with the feature ``choice_methods``."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """Everything besides model and messages that can change an answer.

    ``None`` leaves a value to the model's own default. ``schema`` is a JSON schema as compact JSON
    text, its properties in the order in which they are to be written. ``tools`` are those that the
    model may call, each as the canonical JSON text of ``{"name", "description", "parameters"}``;
    ``tool_choice`` is ``auto``, ``none``, ``required``, or the name of the one to call.
    ``normalize`` is the way to compare choices: ``None`` by the sum of the log-probabilities of
    their tokens, ``token`` by the mean, ``GREEDY`` token by token, ``UNCONDITIONAL`` by the mean
    less that without the prompt. ``choice_end`` says whether the end of the turn is scored behind
    each choice; by default it is where the choice is a turn of its own, and not where it continues
    one. ``prompt_logprobs`` asks for the log-probabilities of the prompt's tokens, with so many
    alternatives of each. ``stop_tokens`` end the answer, and are not part of it. ``dimensions``
    asks for the embedding of each message in place of an answer: a vector of so many numbers, 0 for
    as many as the model has. ``begun``
    is the beginning of the answer, which the end of the prompt already holds: *regex*, *grammar*
    and *schema* apply to it together with the generated text. ``extra`` holds options that the
    backend declares, as sorted pairs. ``salt`` is a name space chosen by the user: after a change,
    recorded answers no longer match.
    """

    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    logprobs: int | None = None
    choices: tuple[str, ...] | None = None
    normalize: str | None = None
    choice_end: bool | None = None
    regex: str | None = None
    grammar: str | None = None
    schema: str | None = None
    tools: tuple[str, ...] = ()
    tool_choice: str | None = None
    stop_tokens: tuple[int, ...] = ()
    begun: str = ""
    prompt_logprobs: int | None = None
    dimensions: int | None = None
    extra: tuple[tuple[str, Any], ...] = ()
    salt: str = ""
    _canonical: str | None = field(default=None, init=False, repr=False, compare=False)

    def canonical(self) -> str:
        """JSON with sorted keys, defaults left out, ``1``, ``1.0`` and ``true`` kept distinct.

        It is made once per object: use one ``Sampling`` for many requests with the same options.
        """
        if self._canonical is None:
            fields_set = {
                name: dict(value) if name == "extra" else value
                for name in self.__slots__
                if name != "_canonical"
                and (value := getattr(self, name)) is not None
                and value not in ((), "")
            }
            object.__setattr__(self, "_canonical", canonical(fields_set))
        assert self._canonical is not None
        return self._canonical


NUMBERS = frozenset(
    option.name
    for option in fields(Sampling)
    if option.type in ("int | None", "float | None", "tuple[int, ...]")
)
"""The fields of a ``Sampling`` that hold numbers, so that they say nothing of what is asked."""


def canonical(value: object) -> str:
    """The canonical JSON text of plain data: sorted keys, no spaces, surrogates escaped."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def vector_key(model: str, sampling: str, text: str) -> bytes:
    """The key of the vector of *text*; *sampling* is the canonical text of what asked for it."""
    return digest_of(model, sampling, text)


@dataclass(frozen=True, slots=True)
class Border:
    """A place in a prompt up to which other prompts are the same.

    It stands behind ``offset`` characters of the text of message number ``message``, from 0; the
    ``digest`` covers everything before it, which has about so many ``tokens``. ``sent`` is positive
    if a request was sent that had it kept, and ``to_come`` is the number of prompts that are
    expected to begin so. ``gap`` is the expected time until the next of them, in seconds, ``None``
    if nobody knows or they wait already.
    """

    message: int
    offset: int
    digest: bytes
    tokens: int = 0
    sent: int = 0
    to_come: int = 0
    gap: float | None = None


@dataclass(frozen=True, slots=True)
class Reuse:
    """The use of a prompt by other requests, as far as the program is known when it is sent.

    ``borders`` are the places at which other prompts leave it, the first one first. ``goes_on``
    says whether a later request begins with this whole prompt; ``None`` if nobody knows. ``gap`` is
    the expected time until that request, in seconds. ``begun`` is the number of messages that an
    earlier request of the same conversation had, 0 if there was none. Others wait for the answer to
    begin if there is ``begins``, which the backend is to call then, on the I/O loop; it need not.
    """

    borders: tuple[Border, ...] = ()
    goes_on: bool | None = None
    gap: float | None = None
    begun: int = 0
    begins: Callable[[], None] | None = field(default=None, repr=False, compare=False)

    @property
    def needs_an_hour(self) -> bool:
        """True if an expected use comes after the shortest time for which providers keep a prompt.

        That is 5 minutes, at Anthropic.
        """
        gaps = [self.gap, *(border.gap for border in self.borders if border.to_come)]
        return any(gap is not None and gap > 300 for gap in gaps)


@dataclass(frozen=True, slots=True)
class Draft:
    """A likely answer, as an earlier run has recorded it.

    It may make the answer faster, and never another one. ``samples`` are in the order of those of
    the request. They are the answers to the call at the same address if it is ``own``, else to one
    that differs from it in the numbers of its address. ``run`` are all answers of that run, for
    backends with the feature ``draft_runs``.
    """

    samples: tuple[Sample, ...]
    own: bool = True
    run: DraftRun | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class DraftRun:
    """The texts of a recorded run, for a server that looks drafts up in texts.

    ``name`` is the same for the same texts.
    """

    name: str
    texts: tuple[str, ...] = field(repr=False)


@dataclass(slots=True)
class Request:
    """One question to a model.

    ``address`` is its place in the program, ``ordinal`` its index among the calls of its frame;
    neither is part of the content. ``messages`` is ``None`` for an empty prompt. A conversation
    whose last message is the assistant's is continued, not answered. ``n`` is the number of
    samples, ``sample`` the number of the first one (so that a resumed ``n=25`` may ask for five
    more). ``timeout`` is in seconds. ``key`` is a key for this call alone, from a program that has
    one of each user; it is neither part of the content nor recorded. ``cache`` names the store of
    known answers, for a cache before the backend. ``reuse`` says how other requests use the prompt,
    for the provider's cache; it is no part of the content, and ``None`` where nobody found out.
    ``draft`` is what an earlier run got, for backends with the feature ``drafts``; it is neither
    part of the content nor recorded.
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
    key: str | None = field(default=None, repr=False, compare=False)
    reuse: Reuse | None = field(default=None, repr=False, compare=False)
    draft: Draft | None = field(default=None, repr=False, compare=False)
    _digest: bytes | None = field(default=None, repr=False, compare=False)

    @property
    def digest(self) -> bytes:
        """The digest of the content: messages, model and sampling, and nothing else."""
        if self._digest is None:
            content = b"" if self.messages is None else self.messages.digest
            self._digest = digest_of(content, self.model, self.sampling.canonical())
        return self._digest


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call, in the classes that providers bill; ``None`` means unknown, never 0.

    ``prompt_tokens`` are all tokens of the prompt. Of them ``cached_tokens`` were read from the
    provider's cache, ``written_tokens`` were written into it for its usual time (5 minutes at
    Anthropic, 30 at OpenAI), and ``written_1h_tokens`` for an hour. ``reasoning_tokens`` are a part
    of ``completion_tokens``. ``tier`` is the way of service that is billed: ``""`` for the standard
    one, else ``batch``, ``flex``, ``priority``, or the provider's word for another one that has a
    price of its own.
    """

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    written_tokens: int | None = None
    written_1h_tokens: int | None = None
    reasoning_tokens: int | None = None
    tier: str = field(default="", kw_only=True)

    @property
    def all_written_tokens(self) -> int | None:
        """The tokens that were written into a cache, for any time; ``None`` if unknown."""
        usual, hour = self.written_tokens, self.written_1h_tokens
        return None if usual is None and hour is None else (usual or 0) + (hour or 0)

    @property
    def uncached_tokens(self) -> int | None:
        """The tokens of the prompt that were neither read from a cache nor written into it.

        ``None`` if the backend does not report those that were.
        """
        parts = self.prompt_tokens, self.cached_tokens, self.written_tokens
        if None in parts:
            return None
        prompt, cached, written = cast("tuple[int, int, int]", parts)
        return max(prompt - cached - written - (self.written_1h_tokens or 0), 0)


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """One generated token: its text, its natural log-probability, and the best alternatives."""

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Sample:
    """One answer. ``finish_reason`` is ``stop``, ``length``, ``tool_calls``, or the backend's word.

    ``unknown`` is that of an answer that is whole and does not say why it ended. ``reasoning`` is
    the model's reasoning before the answer, if the backend reports it separately.
    ``provider_fields`` are those of its message that only its provider understands, and gets back.
    ``tokens`` are its ids and those of its prompt, where a backend was set to keep them.
    """

    text: str
    finish_reason: str
    logprobs: tuple[TokenLogprob, ...] | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str | None = None
    provider_fields: ProviderFields | None = None
    tokens: SampleTokens | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Response:
    """The answer of a backend, with the requested number of samples.

    ``scores`` are the log-probabilities of the choices in their order, ``choice_method`` the way
    the choice was made (``logprob``, ``constrained``, ``asked``). ``cost`` is in millionths of the
    model's currency unit. ``reused`` is the number of samples that came from a cache: usage and
    cost are those of the others. ``shed`` names the fields of the prompt's messages that were not
    sent, as another provider gave them. ``prompt_logprobs`` are those of the prompt's tokens from
    the second on, as nothing is known before the first. ``cache_miss`` is the reason that the
    provider gives for which its cache was not read. ``is_checked`` is set by
    :mod:`appl.backend.check` alone.
    """

    samples: tuple[Sample, ...]
    usage: Usage = Usage()
    model: str = ""
    scores: tuple[float, ...] | None = None
    choice_method: str | None = None
    cost: int | None = None
    reused: int = 0
    shed: tuple[str, ...] = ()
    prompt_logprobs: tuple[TokenLogprob, ...] | None = None
    cache_miss: str | None = None
    vectors: tuple[bytes, ...] | None = None
    is_checked: bool = field(default=False, init=False, repr=False, compare=False)

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


FEATURES = frozenset(
    """
    choices choice_methods regex grammar schema logprobs seed n prefill stream prefix_cache tools
    images audio reasoning stop_tokens constrained_prefill api_key prompt_logprobs drafts
    draft_runs embeddings
""".split()
)
"""The features that a profile may state, besides the restriction ``schema_object``."""


@dataclass(frozen=True, slots=True)
class Profile:
    """The properties and features of a backend.

    ``features`` are of ``FEATURES``; with ``constrained_prefill`` a backend applies constraints to
    ``Sampling.begun``; with ``api_key`` it takes the ``key`` of a request, with ``drafts`` its
    ``draft``, and with ``draft_runs`` all answers of the draft's run. ``schema_object`` means that
    a schema must describe an object. ``options`` are the further options of ``gen`` that it
    accepts. ``models`` is empty if the backend cannot list them. ``concurrency`` is the number of
    calls that it wants at once, ``None`` for no limit.
    ``context`` is the largest number of tokens of prompt and answer together, if known.
    """

    name: str
    features: frozenset[str] = frozenset()
    options: frozenset[str] = frozenset()
    models: tuple[str, ...] = ()
    default_model: str | None = None
    concurrency: int | None = None
    context: int | None = None


class Backend(Protocol):
    """Answers requests. ``complete`` runs on the I/O loop; cancelling it aborts the work behind it.

    The profile lists further features. The optional protocols below, ``PrefixCaching``,
    ``BringsOrder``, ``Connects``, ``Pricing`` and ``CountsTokens``, are found by ``isinstance``,
    and a backend around a backend passes them on.
    ``complete`` raises a :class:`~appl.errors.BackendError`; any other exception is a bug of the
    backend.
    """

    @property
    def profile(self) -> Profile:
        """The properties and features of this backend."""

    async def complete(self, request: Request, emit: Emit | None = None) -> Response:
        """Answer *request*; with *emit*, also pass on text as it comes, on the I/O loop."""

    async def aclose(self) -> None:
        """Release connections and memory; further calls are errors."""


@runtime_checkable
class PrefixCaching(Protocol):
    """A backend whose server keeps the computed beginnings of prompts."""

    @property
    def cache_tokens(self) -> int | None:
        """The number of tokens that the server's cache holds, ``None`` if unknown."""

    def prompt_tokens(self, request: Request) -> Sequence[int]:
        """The token ids of the prompt; those of its parts are cached with the parts."""

    async def warm(self, request: Request, tokens: int) -> None:
        """Have the first *tokens* tokens of the prompt computed and kept, without an answer.

        It runs on the I/O loop. The caller goes on if it fails.
        """


@runtime_checkable
class BringsOrder(Protocol):
    """A backend that knows a better order for its calls than a plain one.

    It is what a backend with ``PrefixCaching`` brings whose server does not compare the prompts of
    requests that come at the same time: ``appl.runtime.scheduling.prefix_order.PrefixOrder``. One
    that asks a provider which charges for its cache brings
    ``appl.runtime.scheduling.prompt_reuse.ReuseOrder``, which sets the ``reuse`` of requests.
    """

    def order(self, queue: Any) -> Any:
        """The order of a run's calls: see ``CallQueue`` and ``Order`` in the scheduler.

        ``None`` if a plain one will do.
        """


@runtime_checkable
class Connects(Protocol):
    """A backend that connects once, before its first call."""

    async def connect(self) -> None:
        """Find out whether the server is there and what it can do. Raises ``BackendError``."""


@runtime_checkable
class Pricing(Protocol):
    """A backend that knows the prices of its models."""

    @property
    def prices(self) -> Priced:
        """The prices of its models; the user's own prices come first."""


@runtime_checkable
class CountsTokens(Protocol):
    """A backend that can count tokens without contacting its server."""

    def count_tokens(self, text: str) -> int:
        """The number of tokens in *text*."""


_P = TypeVar("_P")


def offers(value: object, protocol: Callable[..., _P]) -> TypeGuard[_P]:
    """True if *value* has all members of the optional *protocol*, as ``isinstance`` would say.

    A run asks this of each backend and instrument. ``isinstance`` finds the members anew each time,
    which takes twenty times as long before Python 3.12.
    """
    return all(
        (member := getattr(value, name, _MISSING)) is not _MISSING
        and (member is not None or not is_method)
        for name, is_method in _members(protocol)
    )


_MISSING = object()


@lru_cache(maxsize=64)
def _members(protocol: Any) -> tuple[tuple[str, bool], ...]:
    """The names of the members of *protocol*, and whether each is a method."""
    bases = [base for base in protocol.__mro__ if getattr(base, "_is_protocol", False)]
    own = {name: value for base in bases for name, value in vars(base).items()}
    return tuple((name, callable(value)) for name, value in own.items() if name[0] != "_")


_INSTEAD = {"images": "images: say what is in them as text", "audio": "sound: say its text"}


class HasNeeds(Protocol):
    """A prompt, rendered or not, that knows which features its media need."""

    @property
    def needs(self) -> frozenset[str]:
        """The features of a backend that it needs."""


def check_media(profile: Profile, prompt: HasNeeds | None) -> None:
    """Raise ``Unsupported`` for a *prompt* with images or sounds that the backend cannot take."""
    if prompt is None or prompt.needs <= profile.features:
        return
    missing = min(prompt.needs - profile.features)
    able = ", ".join(sorted(profile.features)) or "none"
    raise Unsupported(
        f"backend {profile.name!r} cannot take {_INSTEAD[missing]}, or choose a backend that has "
        f"the feature {missing!r} (this one has: {able})"
    )


def check_provider_fields(
    profile: Profile, messages: Messages | None, allowed: frozenset[str] = frozenset()
) -> None:
    """Raise ``Unsupported`` for a field that the user gave to a message, unless it is *allowed*."""
    if messages is None or not messages.provided:
        return
    for link in messages.links():
        fields = link.outline.provider_fields
        names = () if fields is None or fields.source else fields.names
        wrong = [name for name in names if name not in allowed]
        if wrong:
            raise Unsupported(
                f"backend {profile.name!r} sends no field {wrong[0]!r} of a message: leave it out"
            )


def installed() -> Mapping[str, Declared]:
    """The backends that installed packages declare, by name.

    The same mapping comes back until a package is installed or removed.
    """
    return declared(GROUP)


def load(name: str, settings: Mapping[str, object] | None = None) -> Backend:
    """Make the backend *name*: an entry point of ``appl.backends``, or ``module:attribute``.

    *settings* are passed as keyword arguments. Raises ``BackendNotFound``, or ``ConfigError`` if
    the result is no backend.
    """
    is_path = ":" in name
    backends = {} if is_path else installed()
    if not is_path and name not in backends:
        names = ", ".join(sorted(backends)) or "none"
        raise BackendNotFound(
            f"no backend named {name!r} is installed (installed: {names})"
            f"{nearest(name, backends)}; write a name from that list or 'module:attribute'"
        )
    try:
        factory = named(name) if is_path else backends[name].load()
    except MissingExtra:
        raise
    except (ImportError, AttributeError) as error:
        raise BackendNotFound(f"backend {name!r} cannot be imported: {error}") from error
    if is_path and not callable(factory):
        raise BackendNotFound(
            f"backend {name!r} is {factory!r:.80}; write module:attribute of a class, or of a "
            "function that makes a backend"
        )
    if isinstance(factory, type) and not hasattr(factory, "__getattr__"):
        _check_protocol(name, factory, ("complete", "aclose"))
    backend = factory(**(settings or {}))
    _check_protocol(name, backend, ("profile", "complete", "aclose"))
    return cast(Backend, backend)


def named(name: str) -> Any:
    """The value of ``module:attribute``, in an installed module or the working directory.

    Raises ``ConfigError`` for Python's own library, before importing it; otherwise what the import
    raises.
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


def _check_protocol(name: str, backend: object, wanted: Sequence[str]) -> None:
    """Refuse *backend*, or the class that will make it, if it is no backend."""
    missing = [attribute for attribute in wanted if not hasattr(backend, attribute)]
    if missing:
        raise ConfigError(
            f"{name!r} is no backend: {backend!r:.80} has no {' and no '.join(missing)}; write "
            "module:attribute of a class, or of a function that makes a backend"
        )

"""The options of one ``gen`` or ``select``, completed and checked, as one value.

Invariant: whatever cannot be done is refused here, before there is a call. Equal options give the
same ``Sampling`` object, so that its canonical text is made once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from appl.backend import Profile, Sampling
from appl.base import fallback
from appl.base.fallback import DUMMY
from appl.errors import InvalidOption, UnknownOption, Unsupported, nearest
from appl.prompt.secret import KEY_OF_CALL, conceal
from appl.runtime.answers.gen_options import (
    FEATURES,
    LIMITS,
    OPTION_NAMES,
    GenOptions,
    check_number,
)
from appl.runtime.answers.models import named
from appl.runtime.answers.option_check import check_fields, stop_texts
from appl.runtime.concurrency.future import finished

if TYPE_CHECKING:
    from appl.runtime.answers.shape import Shape
    from appl.runtime.frame import Frame
    from appl.runtime.prompts.explicit import PromptSource
    from appl.runtime.tools.toolbox import Toolbox


def stops(value: object) -> tuple[str, ...]:
    """``stop=`` as a tuple of strings."""
    value = finished(value)
    if isinstance(value, Iterable) and not isinstance(value, str):
        value = [finished(text) for text in value]
    return stop_texts(value)


def stop_ids(value: object) -> tuple[int, ...]:
    """``stop_tokens=`` as a tuple of token ids."""
    value = finished(value)
    ids = tuple(map(finished, value)) if isinstance(value, Iterable) else (value,)
    if not all(type(token) is int and token >= 0 for token in ids):
        raise InvalidOption(
            f"gen(stop_tokens=...) takes a list of token ids, got {value!r:.80}; for texts write "
            "gen(stop=...)"
        )
    return ids


_READ = {"stop": stops, "stop_tokens": stop_ids}


@dataclass(slots=True)
class RequestOptions:
    """The arguments of a call. ``fields`` are named as in ``Sampling``, ``extra`` the backend's.

    ``alone`` is true if the answer of the call is that of ``gen``, and comes as a whole.
    """

    model: str | None
    fields: dict[str, object]
    extra: dict[str, object]
    messages: PromptSource | None = None
    n: int = 1
    timeout: float | None = None
    priority: int = 0
    choices: Sequence[str] | None = None
    normalize: str | None = None
    method: str | None = None
    end: bool | None = None
    stream: bool = False
    max_relay_rounds: int = 0
    shape: Shape | None = None
    max_asks: int | None = None
    check: Callable[[Any], object] | None = None
    toolbox: Toolbox | None = None
    cache: object = None
    key: str | None = field(default=None, repr=False)
    alone: bool = False

    @classmethod
    def of(
        cls, frame: Frame, model: str | None, response_format: object, options: dict[str, object]
    ) -> tuple[RequestOptions, Sampling]:
        """The arguments of ``gen`` with the defaults of *frame*, and their sampling.

        *options* are those that were written.
        """
        request = cls(model, _FIELDS.copy(), {})
        if options:
            request._read(options)
        if response_format is not None or request.max_asks is not None:
            request.shape_as(response_format, request.max_asks)
        if request.check is not None:
            from appl.runtime.answers.output import require_check  # few calls have one

            require_check(request.check, typed=request.shape is not None)
        sampling = request._sampling(frame)
        needs_calls = (
            request.max_relay_rounds or request.choices is not None or request.shape is not None
        )
        request.alone = not (needs_calls or request.stream)
        return request, sampling

    def _read(self, options: dict[str, object]) -> None:
        fields, extra = self.fields, self.extra
        for name, value in options.items():
            if name in fields:
                read = _READ.get(name)
                fields[name] = value if read is None or value is None else read(value)
            elif name in _OWN:
                if name in LIMITS:
                    check_number(name, value, *LIMITS[name])
                setattr(self, name, value)
            elif name == "api_key":
                key = finished(value)  # no option: nothing may hold it but the request
                if key is not None and (not isinstance(key, str) or not key.strip()):
                    got = type(key).__name__
                    raise InvalidOption(f"gen(api_key=...) takes a text, got a {got}")
                self.key = key and str.__str__(key)
                conceal(KEY_OF_CALL, self.key)
            elif name not in _APART:
                extra[name] = value
        if options.get("backend_options") is not None:
            self._of_backend(options["backend_options"])
        if "tools" in options or "tool_choice" in options:
            from appl.runtime.tools.toolbox import Toolbox  # few calls have tools

            self.offer(Toolbox.of(options.get("tools")), options.get("tool_choice"))

    def _of_backend(self, options: object) -> None:
        """Add ``backend_options=``; each may be written once, and here only the backend's own."""
        if not isinstance(options, Mapping):
            raise InvalidOption(
                "gen(backend_options=...) takes a dict of options that only the backend knows, "
                f"got {options!r:.80}"
            )
        for name, value in options.items():
            if name in OPTION_NAMES:
                raise InvalidOption(f"gen(backend_options={{{name!r}: …}}): write gen({name}=…)")
            if name in self.extra:
                raise InvalidOption(f"gen({name}=…): it stands in backend_options= too")
            self.extra[name] = value

    def shape_as(self, response_format: object, max_asks: int | None) -> None:
        """Make the answer a typed one."""
        if response_format is None:
            raise InvalidOption(
                "gen(max_asks=...) is how often a typed answer is asked: write response_format=... "
                "with it"
            )
        from appl.runtime.answers.shape import shape_of  # few calls have a type

        self.shape, self.max_asks = shape_of(finished(response_format)), max_asks

    def offer(self, tools: Toolbox, choice: object) -> None:
        """Let the model call one of *tools*."""
        if not len(tools) and finished(choice) is not None:
            raise InvalidOption("gen(tool_choice=...) needs tools: write gen(tools=[...]) with it")
        if len(tools):
            self.toolbox = tools
            self.fields["tools"], self.fields["tool_choice"] = tools.texts, tools.choice(choice)

    def _sampling(self, frame: Frame) -> Sampling:
        run, fields = frame.run, self.fields
        self._complete(frame)
        profile = run.dispatch.models.profile_of(self.model or "")
        self._check(profile)
        if self.key is not None and "api_key" not in profile.features:
            raise Unsupported(
                f"backend {profile.name!r} takes no key from a call: leave out gen(api_key=...)"
            )
        if self.shape is not None:
            from appl.runtime.answers.demand import schema_for

            fields["schema"] = schema_for(self.shape, profile)
        sampling = sampling_of(profile, fields, self.extra)
        if self.fields["prompt_logprobs"] is not None and self.choices is not None:
            raise InvalidOption(
                "gen(prompt_logprobs=..., choices=...): choices are scored in requests of their "
                "own; ask for the prompt's in a gen(max_tokens=1, prompt_logprobs=...)"
            )
        if self.max_relay_rounds:
            from appl.runtime.answers import continuation

            continuation.check(profile, sampling, self.n, self.choices)
        if self.choices is None:
            return sampling
        from appl.runtime.answers import choice

        options = self.choices = choice.checked(self.choices)
        return choice.sampling_for(
            profile, sampling, options, self.normalize, self.method, self.end
        )

    def _complete(self, frame: Frame) -> None:
        """Find the model, and let its options, then the run's, fill in what was left open."""
        parameters = frame.run.profile.options
        if (
            not self.extra.keys() <= parameters
            or self.model == DUMMY
            or isinstance(self.fields["logprobs"], bool)
        ):
            self._in_other_words(parameters)
        name = None if self.model is None else named(finished(self.model))
        model = frame.run.dispatch.models.resolve(name or frame.model, self.key is not None)
        self.model, services = model.name, frame.run.services
        if model.options or services.sampling:
            self._default(model.options)
            self._default(services.sampling)
        for name in ("temperature", "max_tokens"):
            if self.fields[name] is None:
                self.fields[name] = getattr(services, name)
        self.fields["salt"] = services.salt

    def _default(self, options: Mapping[str, object]) -> None:
        """Let *options* fill in what is still open."""
        for name, value in options.items():
            if name not in self.fields:
                self.extra.setdefault(name, value)
            elif self.fields[name] in (None, ()):
                self.fields[name] = stops(value) if name == "stop" else value

    def _in_other_words(self, parameters: Set[str]) -> None:
        """Read the options that are neither ours nor in *parameters*, those of the backend."""
        if self.model == DUMMY:
            self.model, self.extra = None, {"mock_response": None, **self.extra}
        words = fallback.names().options(
            self.fields, self.extra, parameters, self.shape is not None, self.messages
        )
        self.cache = words.get("cache", self.cache)
        self.model = words.get("model", self.model)
        self.messages = words.get("messages", self.messages)
        if "response_format" in words:
            self.shape_as(words["response_format"], self.max_asks)
        if self.max_asks is None:
            self.max_asks = words.get("max_asks")

    def _check(self, profile: Profile) -> None:
        if type(self.stream) is not bool:
            stream = finished(self.stream)
            if stream is not None and not isinstance(stream, bool):
                raise InvalidOption(f"gen(stream=...) is True or False, got {stream!r:.80}")
            self.stream = bool(stream)
        for name in FEATURES:
            if self.fields.get(name) not in (None, ()):
                require(profile, name, name)
        if self.choices is not None:
            self._alone("choices", ("regex", "grammar", "tools"))
            if self.n != 1:
                raise InvalidOption(
                    f"gen(choices=..., n={self.n}): a choice is made once, by its probability; for "
                    f"{self.n} votes write gen(response_format=Literal[...], n={self.n})"
                )
        elif self.end is not None:
            raise InvalidOption("gen(end=...) is about choices: write gen(choices=[...]) with it")
        if self.shape is not None:
            self._alone("response_format", ("choices", "regex", "grammar"))

    def _alone(self, option: str, others: tuple[str, ...]) -> None:
        """Refuse *others* beside *option*: each determines the form of the answer."""
        for name in others:
            value = self.choices if name == "choices" else self.fields.get(name)
            if value is not None:
                raise InvalidOption(
                    f"gen({option}=..., {name}=...): only one of them can say what the answer "
                    "looks like; leave out the other"
                )


_APART = frozenset({"tools", "tool_choice", "backend_options"})
"""The options that are read apart from the others."""

_OPTIONS = GenOptions.__annotations__.keys()
_OWN = {field.name: field.default for field in fields(RequestOptions) if field.name in _OPTIONS}
"""The options that ``RequestOptions`` holds under their own names, and their defaults."""

_FIELDS: dict[str, object] = {
    field.name: field.default
    for field in fields(Sampling)
    if field.name in _OPTIONS - _OWN.keys() - _APART
}
"""The options that become fields of a ``Sampling``, and what a call begins with."""

DEFAULTS = {**_FIELDS, **_OWN}
"""The default of each option; ``None`` for those that are not here."""


def require(profile: Profile, feature: str, option: str) -> None:
    """Refuse *option* before any call when the backend cannot do it."""
    if feature not in profile.features:
        able = ", ".join(sorted(profile.features)) or "none"
        raise Unsupported(
            f"backend {profile.name!r} cannot do gen({option}=...) (it can: {able}); "
            "choose another backend or ask for it in the prompt"
        )


_samplings: dict[tuple[object, ...], Sampling] = {}
_MOST = 4096
_TEXTS = frozenset({"prompt", "prompts", "text", "input", "question", "content", "system"})
_AS_TEXT = "; write a prompt as a statement before gen(), or as gen(messages=...)"


def sampling_of(profile: Profile, fields: dict[str, object], extra: dict[str, object]) -> Sampling:
    """The sampling of *fields* (named as in ``Sampling``) and the backend's own options."""
    for name in extra:
        if name not in profile.options:
            names = (*sorted(OPTION_NAMES), *profile.options)
            near = fallback.names().instead(name) or nearest(name, names)
            hint = _AS_TEXT if name in _TEXTS else near
            problem = f"gen() has no option {name!r}, nor has backend {profile.name!r}{hint}"
            raise UnknownOption(problem)
    values = (*fields.values(), *extra.values())
    key = (*fields.items(), *sorted(extra.items()), *map(type, values))  # 1 is not 1.0 here
    try:
        sampling = _samplings.get(key)
    except TypeError:  # an unhashable option of the backend
        return _make(fields, extra)
    if sampling is None:
        sampling = _make(fields, extra)
        if len(_samplings) < _MOST:
            _samplings[key] = sampling
    return sampling


def _make(fields: dict[str, Any], extra: dict[str, object]) -> Sampling:
    check_fields(fields)
    return Sampling(**fields, extra=tuple(sorted(extra.items())))

"""The servers of APPL 0.2 as backends and names for models.

Invariant: a setting that decides where prompts go, or under whose name, is obeyed or refused; none
is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from appl.config.places import place_of
from appl.errors import ConfigError, nearest

_ROUTING = ("model", "provider", "custom_llm_provider", "template")
_CONNECTION = {
    "base_url": "base_url",
    "api_base": "base_url",
    "api_key": "api_key",
    "api_version": "api_version",
    "organization": "organization",
    "extra_headers": "headers",
    "headers": "headers",
}
"""APPL's settings of a connection, with their names in the backends."""

_LIMITS = {
    "timeout": ("deadlines", "total", 0),
    "request_timeout": ("deadlines", "total", 0),
    "num_retries": ("retries", "attempts", 1),
    "max_retries": ("retries", "attempts", 1),
}
"""Limits of one backend: the table, its key, and the difference from APPL's number."""

_PRICES = {
    "input_cost_per_token": "prompt",
    "output_cost_per_token": "answer",
    "cache_read_input_token_cost": "cached",
}
_PARAMETERS = ("aws_", "vertex_", "azure_", "region_name", "watsonx_", "project")
"""Prefixes of the keys that litellm passes to a provider unchanged."""

_OPTIONS = tuple(
    """
    temperature top_p max_tokens max_completion_tokens stop seed n stream logprobs top_logprobs
    chat_template_kwargs extra_body frequency_penalty logit_bias metadata min_p modalities
    parallel_tool_calls prediction presence_penalty reasoning_effort repetition_penalty
    service_tier store thinking top_k user verbosity
""".split()
)
_IDLE = ("cost_currency", "wrap_mode", "drop_params")
_INSTEAD = {
    "fallbacks": "name a list of models: models: {NAME: [FIRST, SECOND]}",
    "context_window_fallbacks": "name a list of models: models: {NAME: [FIRST, SECOND]}",
    "model_list": "name a list of models: models: {NAME: [FIRST, SECOND]}",
    "mock_response": "give gen(mock_response=...) in the program",
    "postprocess_args": "give the options that are meant as settings of this server",
    "n": "give gen(n=...) in the program",
    "stream": "give gen(stream=True) in the program",
    "logprobs": "give gen(logprobs=...) in the program",
    "top_logprobs": "give gen(logprobs=...) in the program",
    "client": "appl makes the connections itself: write base_url, api_key and headers",
}
_OURS = frozenset({"openai", "litellm", "sglang", "embedded"})
_OPENAI = {"openai": None, "custom_openai": None, "openai_like": None, "hosted_vllm": "vllm"}
"""Providers with OpenAI's interface, and the kind of their server if it is known."""

PREFIXES = _OURS | set(
    """
    ai21 anthropic anyscale azure azure_ai bedrock cerebras cloudflare codestral cohere
    cohere_chat custom_openai dashscope databricks deepinfra deepseek empower fireworks_ai
    friendliai galadriel gemini github groq hosted_vllm huggingface hyperbolic jina_ai lambda_ai
    lm_studio meta_llama mistral moonshot nebius nlp_cloud novita nscale nvidia_nim ollama
    ollama_chat openai_like openrouter perplexity petals predibase replicate sagemaker
    sagemaker_chat sambanova snowflake text-completion-codestral text-completion-openai
    together_ai triton vertex_ai vertex_ai_beta vllm volcengine voyage watsonx xai xinference
""".split()
)
"""Prefixes of model names that litellm knows, and the backends of this package."""

KEY = "os.environ/"
"""The prefix of a value from the environment in APPL's files: ``os.environ/NAME``."""


@dataclass(slots=True)
class Servers:
    """The translation of servers: names for models, backends, prices, and idle settings."""

    models: dict[str, Any] = field(default_factory=dict)
    backends: dict[str, dict[str, object]] = field(default_factory=dict)
    prices: dict[str, dict[str, float]] = field(default_factory=dict)
    idle: list[str] = field(default_factory=list)


def read(servers: Mapping[str, object], origin: str) -> Servers:
    """The servers of the file *origin*, or of ``appl.init``. Raises ``ConfigError``."""
    servers_read = Servers()
    tables = [server for server in servers.values() if isinstance(server, Mapping)]
    templates = {table.get("template") for table in tables}
    for name in servers:
        # The settings of its template stand below its own.
        table: dict[str, Any] = {}
        chain: list[str] = []
        at: Any = name
        while at is not None:
            if at in chain or at not in servers:
                reason = (
                    "leads back to it" if at in chain else f"is no server{nearest(at, servers)}"
                )
                place = place_of(origin, "servers", chain[-1], "template")
                raise ConfigError(f"{place}: servers.{chain[-1]}: its template {at!r} {reason}")
            chain.append(at)
            own = _settings_of(at, servers[at], origin)
            table = {**own, **table}
            at = own.get("template")
        if table.get("model") or name not in templates:
            _Server(name, table, origin).add_to(servers_read)
    return servers_read


def full_name(model: str) -> str:
    """A model's name in APPL, which is litellm's, as ``backend/model``; bare names are kept."""
    head, slash, _ = model.partition("/")
    return f"litellm/{model}" if slash and head in PREFIXES - _OURS else model


@dataclass(frozen=True, slots=True)
class _Server:
    """One server of a file: its settings, with those of its template."""

    name: str
    table: Mapping[str, Any]
    origin: str

    def add_to(self, servers: Servers) -> None:
        """Add the translation of this server to *servers*."""
        self._check()
        model = self._model(servers)
        servers.models[self.name] = {"model": model, **dict(self._options())}
        price = {_PRICES[key]: self._price(key) for key in self.table if key in _PRICES}
        if price:
            name = model.partition("/")[2] if "/" in model else model
            servers.prices[name] = {"prompt": 0.0, "answer": 0.0, **price}
        servers.idle += [f"servers.{self.name}.{key}" for key in self.table if key in _IDLE]

    def _options(self) -> Iterator[tuple[str, object]]:
        for key, value in self.table.items():
            if key in _OPTIONS and value is not None:
                yield "max_tokens" if key == "max_completion_tokens" else key, value

    def _check(self) -> None:
        keys = (*_ROUTING, *_CONNECTION, *_LIMITS, *_PRICES, *_OPTIONS, *_IDLE)
        for key in self.table:
            if key in _INSTEAD:
                raise self._wrong(key, f"has no meaning here; {_INSTEAD[key]}")
            if key not in keys and not key.startswith(_PARAMETERS):
                hint = nearest(key, keys)
                raise self._wrong(key, f"is not known{hint} (known: {', '.join(keys)})")
        for key, value in self.table.items():
            if _CONNECTION.get(key) in ("api_key", "headers") and value is not None:
                self._secret(key, value)

    def _wrong(self, key: str, problem: str) -> ConfigError:
        place = place_of(self.origin, "servers", self.name, key)
        return ConfigError(f"{place}: servers.{self.name}.{key} {problem}")

    def _model(self, servers: Servers) -> str:
        """The model's name; a backend is made if the server has further settings."""
        is_custom = str(self.table.get("model", "")).startswith("custom/")
        if not is_custom and not any(map(self._is_own, self.table)):
            return full_name(self._text("model", self.name))
        provider, model = self._provider()
        kind = "openai"
        if provider not in _OPENAI:
            kind, model = "litellm", f"{provider}/{model}"
        name = self.name.replace("/", "-").replace(":", "-")
        backend = f"{name}-server" if name in _OURS else name
        servers.backends[backend] = {"type": kind, **dict(self._settings(kind))}
        return f"{backend}/{model}"

    def _is_own(self, key: str) -> bool:
        own = ("provider", "custom_llm_provider", *_CONNECTION, *_LIMITS)
        return key in own or key.startswith(_PARAMETERS)

    def _provider(self) -> tuple[str, str]:
        """The provider, in litellm's words, and the model's name without it."""
        if not self.table.get("model"):
            raise self._wrong("model", "is missing: write the model that this server is asked for")
        model = self._text("model", "")
        key = "custom_llm_provider" if "custom_llm_provider" in self.table else "provider"
        provider = self._text(key, "")
        head, _, rest = model.partition("/")
        if not provider and head in (*PREFIXES, "custom") and rest:
            provider, model = head, rest
        has_address = self.table.get("base_url") or self.table.get("api_base")
        if provider.partition("/")[0] == "custom":
            if not has_address:
                raise self._wrong("base_url", "is missing: a custom provider needs its address")
            provider = provider.partition("/")[2] or "openai"
            model = model.removeprefix("custom/")
        if not provider:  # one with an address is OpenAI's
            provider = "openai" if has_address else self._guessed(model)
        return provider, model.removeprefix(f"{provider}/")

    def _guessed(self, model: str) -> str:
        """The provider of a *model* whose settings name none."""
        for provider, starts in _BARE.items():
            if model.startswith(starts):
                return provider
        raise self._wrong("provider", f"is missing: nothing says who has the model {model!r}")

    def _settings(self, kind: str) -> Iterator[tuple[str, object]]:
        if kind == "openai" and (server := _OPENAI[self._provider()[0]]) is not None:
            yield "server", server
        parameters: dict[str, object] = {}
        for key, value in self.table.items():
            if value is None or key in _ROUTING:
                continue
            if key in _CONNECTION:
                yield from self._connection(kind, key, value, parameters)
            elif key in _LIMITS:
                table, name, more = _LIMITS[key]
                yield table, {name: value + more if type(value) is int else value}
            elif key.startswith(_PARAMETERS):
                if kind != "litellm":
                    raise self._wrong(
                        key, "is for a provider that litellm asks: write provider, too"
                    )
                if str(value).startswith(KEY) or any(word in key for word in _SECRETS):
                    raise self._wrong(
                        key, f"is a secret: leave it out, and set {key.upper()} in the environment"
                    )
                parameters[key] = value
        if parameters:
            yield "parameters", parameters

    def _connection(
        self, kind: str, key: str, value: Any, parameters: dict[str, object]
    ) -> Iterator[tuple[str, object]]:
        if kind == "litellm" and key == "organization":
            parameters[key] = value
        elif key in ("extra_headers", "headers"):
            yield "headers", dict(value)
        else:
            yield _CONNECTION[key], self._secret(key, value) if key == "api_key" else value

    def _secret(self, key: str, value: object) -> object:
        """A key by the name of its variable; a written-out key belongs in no file."""
        if key != "api_key":
            if not isinstance(value, Mapping):
                raise self._wrong(key, "must hold names with values below")
            for name, part in value.items():
                if str(part).startswith(KEY) or str(name).lower() in ("authorization", "x-api-key"):
                    raise self._wrong(
                        key,
                        f"cannot hold the secret {name!r}: write api_key: {KEY}NAME_OF_A_VARIABLE",
                    )
            return value
        if isinstance(value, str) and value.startswith(KEY):
            return {"env": value.removeprefix(KEY)}
        if isinstance(value, Mapping) or self.origin == "appl.init":
            return value
        raise self._wrong(
            key,
            "looks like a secret, and secrets do not belong in a file; write "
            f"{key}: {KEY}NAME_OF_A_VARIABLE, or leave it out where the server wants none",
        )

    def _text(self, key: str, default: str) -> str:
        value = self.table.get(key) or default
        if not isinstance(value, str):
            raise self._wrong(key, f"must be a text, got {value!r:.80}")
        return value

    def _price(self, key: str) -> float:
        """The price of a million tokens."""
        try:
            return float(self.table[key]) * 1e6
        except (TypeError, ValueError):
            raise self._wrong(key, f"must be a number, got {self.table[key]!r:.80}") from None


_SECRETS = ("key", "secret", "token", "password", "credential")
_BARE = {
    "openai": ("gpt-", "chatgpt-", "o1", "o3", "o4"),
    "anthropic": ("claude-",),
    "gemini": ("gemini-",),
}
"""Prefixes of model names whose provider litellm recognizes."""


def _settings_of(name: str, server: object, origin: str) -> Mapping[str, object]:
    if server is None or isinstance(server, Mapping):
        return server or {}
    place = place_of(origin, "servers", name)
    raise ConfigError(f"{place}: servers.{name} must hold names with values, got {server!r:.80}")

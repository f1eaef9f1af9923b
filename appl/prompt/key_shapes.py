"""The shapes of well-known keys, and of what stands where a secret usually stands.

One list, as of November 2026, for all that is recorded, logged or shown. Each shape has the page
beside it that documents it. Invariant: a text in which ``FIRST`` finds nothing has no key for
``without_keys(text)``; each pattern is also valid in the syntax of Rust, except for its guard.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final

_WORD = "[A-Za-z0-9_-]"
_LINE_END = r"(?:\\{1,4}[nrt]|[\s\"'`+,>|#*\\])"
_DIGIT = r"(?=[A-Za-z_-]{0,48}[0-9])"


@dataclass(frozen=True, slots=True)
class KeyShape:
    """A kind of key: how it begins, how it may go on, and what else must be so (*guard*)."""

    kind: str
    source: str
    first: str
    rest: str = f"{_WORD}{{0,512}}"
    guard: str = ""


SHAPES: Final = (
    KeyShape(
        "OpenAI, Anthropic or Stripe key",
        "platform.openai.com/docs/api-reference/authentication, docs.stripe.com/keys",
        f"[rsp]k[-_]{_WORD}{{20}}",
        guard=_DIGIT,
    ),
    KeyShape(
        "key of a model provider",
        "console.groq.com/docs, docs.x.ai, build.nvidia.com, docs.perplexity.ai",
        f"(?:gsk_|xai-|nvapi-|pplx-|csk-|tvly-|lsv2_){_WORD}{{20}}",
        guard=_DIGIT,
    ),
    KeyShape("Replicate token", "replicate.com/docs/topics/security", "r8_[A-Za-z0-9]{30}"),
    KeyShape("Hugging Face token", "huggingface.co/docs/hub/security-tokens", "hf_[A-Za-z0-9]{20}"),
    KeyShape(
        "GitHub token",
        "github.blog/changelog/2021-03-31-authentication-token-format-updates-are-generally-available",
        f"(?:gh[oprsu]_|github_pat_){_WORD}{{20}}",
    ),
    KeyShape(
        "GitLab token",
        "docs.gitlab.com/security/tokens/#token-prefixes",
        f"gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|oas|soat)-{_WORD}{{20}}",
        r"[\w.-]{0,512}",
    ),
    KeyShape(
        "Slack token",
        "docs.slack.dev/authentication/tokens",
        f"(?:xox[abeoprs]|xapp)-{_WORD}{{12}}",
    ),
    KeyShape(
        "webhook",
        "docs.slack.dev/messaging/sending-messages-using-incoming-webhooks",
        r"(?:hooks\.slack\.com/services|discord(?:app)?\.com/api/webhooks)/[A-Za-z0-9]{8}",
        r"[A-Za-z0-9/_-]{0,256}",
    ),
    KeyShape(
        "AWS key",
        "docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html",
        "(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}",
        "(?![A-Za-z0-9])",
        "(?![A-Z0-9]{9,13}EXAMPLE)",
    ),
    KeyShape(
        "Google key",
        "docs.cloud.google.com/docs/authentication/api-keys",
        rf"(?:AIza{_WORD}{{30}}|ya29\.{_WORD}{{16}}|GOCSPX-{_WORD}{{20}})",
        rf"{_WORD}{{0,2048}}",
    ),
    KeyShape(
        "token of a package registry",
        "docs.npmjs.com/about-access-tokens, pypi.org/help",
        f"(?:npm_[A-Za-z0-9]{{30}}|pypi-AgE{_WORD}{{30}}|dckr_pat_{_WORD}{{20}})",
    ),
    KeyShape(
        "SendGrid key",
        "www.twilio.com/docs/sendgrid/ui/account-and-settings/api-keys",
        rf"SG\.{_WORD}{{22}}\.{_WORD}{{16}}",
    ),
    KeyShape(
        "token of a service",
        "docs.digitalocean.com/reference/api, shopify.dev/docs/apps/build",
        "(?:do[opr]_v1_|shp(?:at|ca|pa|ss)_|dapi)[a-f0-9]{32}",
        "[a-f0-9]{0,64}",
    ),
    KeyShape("age key", "age-encryption.org/v1", "AGE-SECRET-KEY-1[A-Z0-9]{40}", "[A-Z0-9]{0,40}"),
    KeyShape(
        "JWT",
        "www.rfc-editor.org/rfc/rfc7519",
        rf"eyJ{_WORD}{{8,4096}}\.{_WORD}{{8,8192}}\.{_WORD}{{16}}",
        rf"{_WORD}{{0,8192}}(?:\.{_WORD}{{1,8192}}){{0,2}}",
    ),
    KeyShape(
        "private key",
        "www.rfc-editor.org/rfc/rfc7468",
        "-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----",
        rf"{_LINE_END}{{1,80}}(?:(?:Proc-Type|DEK-Info|Version|Comment)[^\n\\]{{0,99}}{_LINE_END}{{1,9}}){{0,4}}"
        r"[A-Za-z0-9+/]{16}(?:[A-Za-z0-9+/=\s\\\"'`,:.>|()*]|-(?!----)){0,16384}"
        r"(?:-----END [A-Z0-9 ]{0,60}-----)?",
    ),
    KeyShape(
        "private key",
        "www.rfc-editor.org/rfc/rfc7468",  # such a file in base64
        "LS0tLS1CRUdJTi[A-Za-z0-9+/]{30}",
        r"[A-Za-z0-9+/]{0,16384}(?:(?:\s|\\[nr]){1,40}[A-Za-z0-9+/]{1,1024}){0,400}={0,2}",
        r"(?!LS0tLS1CRUdJTiB(?:DRVJU|QVUJM))",
    ),
)


def _cased(*words: str) -> str:
    """One of *words*, written in small letters, in capitals, or with a first capital."""
    return "(?:" + "|".join(f"{w}|{w.title()}|{w.upper()}" for w in words) + ")"


_KEY, _TOKEN = _cased("key"), _cased("token")
_TELLING = (
    "(?:"
    + _cased("password", "passwd", "passphrase", "pwd", "secret", "credential")
    + f"|{_cased('api', 'private')}[_ -]?{_KEY}|{_cased('access')}[_ -]?(?:{_KEY}|{_TOKEN})"
    + f"|{_cased('auth', 'refresh')}[_ -]?{_TOKEN}|{_cased('authorization')})"
)
"""The words before which a text of high entropy is taken for a secret."""
_BETWEEN = (
    r"[\\\"'`)\]]{0,6}\s{0,4}(?:[:=]{1,2}>?|is)\s{0,4}[\\\"'`]{0,6}"
    rf"(?:{_cased('bearer', 'basic', 'token')}\s{{1,4}})?"
)
_BEFORE = rf"(?:{_TELLING}{_BETWEEN}|{_cased('bearer', 'basic')}\s{{1,4}})"
_RANDOM = "[A-Za-z0-9+/_=~-]{20}"
_PASSWORD = r"://[^/\s:@\"'<>]{0,256}:"

_FIRST = [form.first.replace("{8,4096}", "+").replace("{8,8192}", "+") for form in SHAPES]
FIRST: Final = (
    "|".join(_FIRST[:4]),
    "|".join(_FIRST[4:8]),
    "|".join(_FIRST[8:]),
    rf"{_PASSWORD}[^/\s@\"'<>]+@",
    _BEFORE + _RANDOM,
)
"""Patterns for an engine that is linear in time. Each key in a text fits one of them; there are
some, because that engine looks for a few beginnings at once and not for a hundred."""

_ANY = re.compile(
    "(?<![A-Za-z0-9])(?:" + "|".join(f"({s.guard}{s.first}{s.rest})" for s in SHAPES) + ")", re.A
)
_URL = re.compile(rf"({_PASSWORD})([^/\s@\"'<>]{{3,1024}})(?=@)", re.A)
_TOLD = re.compile(rf"({_BEFORE})({_RANDOM}[A-Za-z0-9+/_=~-]{{0,1024}})(?![(\[]|\.\S)", re.A)
_LOOSE = (
    re.compile(r"(://)([^/\s]{1,1024})(?=@)"),
    re.compile(r"(?i)(\b(?:bearer|basic)\s{1,4})([\w.~+/=*-]{4,})"),
    re.compile(
        r"(?i)(\b(?:x-)?(?:(?:api|access|auth|secret|private|client)[-_ ]?(?:key|token|secret)"
        r"|authorization|passw(?:or)?d|secret|token)[\"']?\s{0,4}[:=]\s{0,4}[\"']?)"
        r"(?!\[secret\]|bearer\b|basic\b)([\w.~+/=*-]{6,})"
    ),
    re.compile(r"()(\b(?:sk|pk|rk|gsk|xai|hf|ghp|key|nvapi|pplx|r8)[-_][\w*.-]{6,})"),
    re.compile(r"()(\b(?:AIza|AKIA|ya29\.)[\w-]{8,})"),
    re.compile(r"()(\beyJ[\w-]{8,4096}\.[\w-]{8,8192}\.[\w-]{0,4096})"),
    re.compile(r"(?i)([?&](?:key|api[-_]?key|token|sig)=)([^&\s\"']+)"),
)
"""What may be a key, where a word too much does no harm: in messages that nobody replays."""
_ORDINARY = re.compile(
    r"(?i)(?:your|my|the|some|user(?:name)?|db|api|secret|pass(?:w(?:or)?d)?|pwd|key|token|test|example"
    r"|changeme|admin|root|postgres(?:ql)?|mysql|redis|guest|demo|hidden|redacted|x|\d{1,4}|[-_*.…])+"
)
_TURNS = 3
"""How often letters and digits take turns, at least, in what is taken for random."""

_OF_URL, _AFTER_WORD = "password of a URL", "key or password"

LONGEST: Final = 1 << 14
"""Characters of the longest key that is looked for."""
_END = re.compile(r"[A-Za-z0-9+/=_.-]*\s{0,2}\Z", re.A)
_BEGINNING = re.compile(r"\s{0,2}[A-Za-z0-9+/=_.-]*", re.A)

KINDS: Final = frozenset({*(form.kind for form in SHAPES), _OF_URL, _AFTER_WORD})
"""The names that stand for what was found by its shape or by its place."""

Instead = Callable[[str], str]


def without_keys(text: str, instead: Instead) -> str:
    """*text* with what *instead* makes of a kind of key in place of each key.

    These are keys of a known shape, passwords in URLs, and texts of high entropy after a telling
    word. A word that stands for a password in examples is none.
    """

    def shape(found: re.Match[str]) -> str:
        return instead(SHAPES[(found.lastindex or 1) - 1].kind)

    def password(found: re.Match[str]) -> str:
        return found[0] if is_placeholder(found[2]) else found[1] + instead(_OF_URL)

    def told(found: re.Match[str]) -> str:
        return found[1] + instead(_AFTER_WORD) if is_random(found[2]) else found[0]

    return _TOLD.sub(told, _URL.sub(password, _ANY.sub(shape, text)))


def without_likely_keys(text: str, instead: str) -> str:
    """*text* with *instead* in place of each key, and of whatever else may be one.

    That is for messages, logs and arguments, in which a word may be lost.
    """
    text = without_keys(text, lambda kind: instead)
    for pattern in _LOOSE:
        text = pattern.sub(lambda found: found[1] + instead, text)
    return text


def may_go_on(before: str, after: str) -> bool:
    """True if a key may begin at the end of the text *before* and end in *after*."""
    end, beginning = _END.search(before), _BEGINNING.match(after)
    return len(end[0] if end else "") + len(beginning[0] if beginning else "") >= 20


def key_goes_on_from(text: str) -> int:
    """The beginning of a key that may go on after the end of *text*; else the length of *text*."""
    found = _last_key().search(text)
    return len(text) if found is None else found.start(found.lastindex or 0)


_CHANCE = re.compile(r"(?:\\\.)?\[[^\]]*\]\{[\d,]+\}")
"""The random parts in the shape of a key."""


@cache
def _last_key() -> re.Pattern[str]:
    """A key, or its beginning, at the end of a text; a group where other text stands before it."""
    heads = "|".join(_CHANCE.sub("", shape.first) for shape in SHAPES)
    end = "-----END [A-Z0-9 ]{0,60}-----"
    return re.compile(
        rf"(?<![A-Za-z0-9])(?:{heads})[A-Za-z0-9+/=_.~-]*\Z|LS0tLS1CRUdJTi[A-Za-z0-9+/=\s\\]*\Z"
        r"|-----[BEGIN]{0,5}\Z|-----BEGIN [A-Z0-9 ]{0,60}-{0,5}"
        rf"(?:\Z|(?<=KEY-----|OCK-----)(?:(?!{end})[\s\S])*\Z)"
        rf"|{_PASSWORD}([^/\s@\"'<>]*)\Z|{_BEFORE}([A-Za-z0-9+/_=~-]*)\Z",
        re.A,
    )


def is_placeholder(password: str) -> bool:
    """True if a *password* in a URL is a placeholder, as in an example."""
    return password[0] in "$%&{[<*" or _ORDINARY.fullmatch(password) is not None


def is_random(value: str) -> bool:
    """True if *value* looks random: letters and digits often take turns in it."""
    turns = re.findall(r"[A-Za-z](?=[0-9])|[0-9](?=[A-Za-z])", value)
    return len(turns) >= _TURNS and len({*value}) >= 8

"""The shapes of well-known keys, which their providers publish.

One list, as of November 2026, for all that is recorded, logged or shown. Each shape has the page
beside it that documents it. Invariant: a text in which no pattern of ``QUICK_STARTS`` and
``QUICK_SHAPES`` finds anything has no key for ``without_shapes``; these are also valid in Rust.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from appl.prompt.randomness import is_random
from appl.prompt.text_search import Instead, Span, places, regex, replaced

_WORD = "[A-Za-z0-9_-]"
_ALNUM = "[A-Za-z0-9]"
_BASE64 = "[A-Za-z0-9+/]"
_UUID = "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"
_LINE_END = r"(?:\\{1,4}[nrt]|[\s\"'`+,>|#*\\])"


@dataclass(frozen=True, slots=True)
class KeyShape:
    """A kind of key: how it begins, how it goes on, and where its pages are.

    A key begins with one of *starts*, which *before* may precede as a part of the key. With *exact*
    the start is so rare that what follows need not look random.
    """

    kind: str
    source: str
    starts: tuple[str, ...]
    rest: str = f"{_WORD}{{20,512}}"
    before: str = ""
    exact: bool = False
    quick: str = field(default="", repr=False)
    """A pattern of its own for the quick test, where a start is too short or too frequent."""


def _starts(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_MODELS = "key of a model provider"
_SERVICE = "token of a service"
_LIST = "github.com/gitleaks/gitleaks/blob/master/config/gitleaks.toml"
"""The page of those whose providers have none."""

SHAPES: Final = (
    KeyShape(
        "OpenAI, Anthropic or Stripe key",
        "platform.openai.com/docs/api-reference/authentication",
        _starts("sk- pk- rk-"),
        quick=f"[rsp]k-{_WORD}{{20}}",
    ),
    KeyShape(
        "OpenAI, Anthropic or Stripe key",
        "docs.stripe.com/keys, elevenlabs.io/docs/api-reference/authentication",
        _starts("sk_ pk_ rk_"),
        "(?:live|test|prod)_[A-Za-z0-9]{10,256}|[a-f0-9]{40,64}",
        quick="[rsp]k_(?:live_|test_|prod_|[a-f0-9]{40})",
    ),
    KeyShape(
        _MODELS,
        "console.groq.com/docs, docs.x.ai, build.nvidia.com, docs.perplexity.ai",
        _starts("gsk_ xai- nvapi- pplx- csk- tvly- lsv2_ tgp_v1_ jina_ pcsk_ rpa_"),
    ),
    KeyShape(
        _MODELS,
        "docs.fireworks.ai/api-reference/introduction",
        ("fw_",),
        "[A-Za-z0-9]{20,48}(?![A-Za-z0-9_])",
        quick="fw_[A-Za-z0-9]{20}",
    ),
    KeyShape(
        "Replicate token",
        "replicate.com/docs/topics/security",
        ("r8_",),
        "[A-Za-z0-9]{30,512}",
        quick="r8_[A-Za-z0-9]{30}",
    ),
    KeyShape(
        "Hugging Face token",
        "huggingface.co/docs/hub/security-tokens",
        _starts("hf_ api_org_"),
        "[A-Za-z0-9]{20,512}",
        quick="(?:hf_|api_org_)[A-Za-z0-9]{20}",
    ),
    KeyShape(
        "GitHub token",
        "github.blog/changelog/2021-03-31-authentication-token-format-updates-are-generally-available",
        _starts("ghp_ gho_ ghu_ ghs_ ghr_ github_pat_"),
    ),
    KeyShape(
        "GitLab token",
        "docs.gitlab.com/security/tokens/#token-prefixes",
        _starts(
            "glpat- gldt- glrt- glcbt- glptt- glft- glimt- glagent- gloas- glsoat- glffct-"
            " GR1348941"
        ),
        r"[\w-]{20,512}(?:\.[0-9a-z]{9})?",
    ),
    KeyShape("GitLab token", _LIST, ("_gitlab_session=",), "[0-9a-z]{32}", exact=True),
    KeyShape(
        "Slack token",
        "docs.slack.dev/authentication/tokens",
        _starts("xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs- xapp- xoxe.xox"),
        "[A-Za-z0-9_-]{12,512}",
        exact=True,
        quick="(?:xox[a-z][.-]|xapp-)[A-Za-z0-9_-]{10}",
    ),
    KeyShape(
        "webhook",
        "docs.slack.dev/messaging/sending-messages-using-incoming-webhooks",
        _starts(
            "hooks.slack.com/services/ hooks.slack.com/workflows/ hooks.slack.com/triggers/"
            " discord.com/api/webhooks/ discordapp.com/api/webhooks/ webhook.office.com/webhookb2/"
        ),
        "[A-Za-z0-9]{8}[A-Za-z0-9/@_-]{0,256}",
        exact=True,
    ),
    KeyShape(
        "AWS key",
        "docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html",
        _starts("AKIA ASIA ABIA ACCA"),
        "(?![A-Z0-9]{9,13}EXAMPLE)[A-Z0-9]{16}(?![A-Za-z0-9])",
        exact=True,
    ),
    KeyShape(
        "AWS key",
        "docs.aws.amazon.com/bedrock/latest/userguide/api-keys.html",
        _starts("ABSK bedrock-api-key-"),
        f"{_BASE64}{{90,512}}={{0,2}}",
    ),
    KeyShape(
        "Azure secret",
        "learn.microsoft.com/en-us/purview/sit-defn-client-secret-api-key",
        ("Q~",),
        "[A-Za-z0-9_~.-]{31,34}",
        "[A-Za-z0-9_~.]{3}[0-9]",
        quick="Q~[A-Za-z0-9_~.-]{31}",
    ),
    KeyShape(
        "Google key",
        "docs.cloud.google.com/docs/authentication/api-keys",
        ("AIza",),
        f"{_WORD}{{30,40}}",
    ),
    KeyShape(
        "Google key",
        "developers.google.com/identity/protocols/oauth2",
        _starts("ya29. GOCSPX-"),
        f"{_WORD}{{16,2048}}",
    ),
    KeyShape(
        "token of a package registry",
        "docs.npmjs.com/about-access-tokens, pypi.org/help, guides.rubygems.org/api-key-scopes",
        _starts("npm_ pypi-AgE dckr_pat_ dckr_oat_ rubygems_ CLOJARS_"),
        f"{_WORD}{{27,1024}}",
    ),
    KeyShape(
        "SendGrid key",
        "www.twilio.com/docs/sendgrid/ui/account-and-settings/api-keys",
        ("SG.",),
        rf"{_WORD}{{22}}\.{_WORD}{{16,512}}",
        quick=rf"SG\.{_WORD}{{22}}\.{_WORD}{{16}}",
    ),
    KeyShape(
        _SERVICE,
        "docs.digitalocean.com/reference/api",
        _starts("doo_v1_ dop_v1_ dor_v1_"),
        "[a-f0-9]{32,80}",
        quick="_v1_[a-f0-9]{32}",
    ),
    KeyShape(
        _SERVICE,
        "shopify.dev/docs/apps/build",
        _starts("shpat_ shpca_ shppa_ shpss_"),
        "[a-fA-F0-9]{32,80}",
        quick="shp[a-z]{2}_[a-fA-F0-9]{32}",
    ),
    KeyShape(
        _SERVICE,
        "docs.databricks.com/aws/en/dev-tools/auth/pat",
        _starts(
            "dapi prtapi_ sbp_ pul- sntryu_ squ_ sqp_ sqa_ bkua_ shippo_live_ shippo_test_"
            " s-s4t2ud- s-s4t2af-"
        ),
        "[a-fA-F0-9]{32,80}(?:-[0-9])?",
    ),
    KeyShape(
        _SERVICE,
        "linear.app/developers, developers.notion.com, docs.stripe.com/webhooks/signature",
        _starts(
            "lin_api_ lin_oauth_ ntn_ whsec_ figd_ glsa_ NRAK- NRII- pnu_ rdme_ tk-us- ico- nfp_"
            " rnd_ apify_api_ CFPAT- sb_secret_ HRKU-AA sq0atp- sq0csp- tskey- duffel_live_"
            " duffel_test_ fio-u- dnkey- tfp_ sgp_ fo1_ CCIPAT_ PMAK- xkeysib- sha256~"
        ),
        f"{_WORD}{{20,256}}",
    ),
    KeyShape(_SERVICE, _LIST, ("NRJS-",), "[a-f0-9]{19}(?![A-Za-z0-9])"),
    KeyShape(_SERVICE, _LIST, _starts("EZAK EZTK"), "[A-Za-z0-9]{54}(?![A-Za-z0-9])"),
    KeyShape(_SERVICE, _LIST, _starts("sm_aat_ sm_pat_ sm_sat_"), "[A-Za-z0-9]{16,64}"),
    KeyShape(
        _SERVICE,
        "fly.io/docs/security/tokens, grafana.com/docs/grafana-cloud, docs.sentry.io/account",
        _starts("fm2_ fm1r_ fm1a_ glc_ sntrys_ ops_eyJ"),
        "[A-Za-z0-9+/_-]{32,4096}={0,3}",
    ),
    KeyShape(
        _SERVICE,
        "planetscale.com/docs/concepts/service-tokens",
        _starts("pscale_tkn_ pscale_oauth_ pscale_pw_"),
        r"[\w=.-]{32,128}",
    ),
    KeyShape(
        "Vault token",
        "developer.hashicorp.com/vault/docs/concepts/tokens",
        _starts("hvs. hvb. hvr."),
        f"{_WORD}{{24,512}}",
    ),
    KeyShape(
        "Terraform token",
        "developer.hashicorp.com/terraform/cloud-docs/users-teams-organizations/api-tokens",
        (".atlasv1.",),
        "[A-Za-z0-9_=-]{60,70}",
        "[A-Za-z0-9]{14}",
    ),
    KeyShape(
        _SERVICE,
        "docs.doppler.com/reference/auth-token-formats",
        _starts("dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit."),
        r"(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}",
        quick=r"dp\.[a-z]{2,5}\.[a-zA-Z0-9_-]{2}",
    ),
    KeyShape(
        _SERVICE,
        "docs.dynatrace.com/docs/manage/identity-access-management/access-tokens-and-oauth-clients",
        _starts("dt0c01. dt0s01. dt0s16."),
        r"[A-Za-z0-9]{8,24}\.[A-Za-z0-9]{64}",
    ),
    KeyShape(
        "Atlassian token",
        "support.atlassian.com/atlassian-account/docs/manage-api-tokens-for-your-atlassian-account",
        _starts("ATATT3 ATCTT3 ATBB"),
        "[A-Za-z0-9_=-]{24,256}",
    ),
    KeyShape(
        "Airtable token",
        "airtable.com/developers/web/guides/personal-access-tokens",
        ("pat",),
        r"[A-Za-z0-9]{14}\.[a-f0-9]{64}",
        quick=r"pat[A-Za-z0-9]{14}\.[a-f0-9]{64}",
    ),
    KeyShape(
        _SERVICE,
        "developer.harness.io/docs/platform/automation/api/add-and-manage-api-keys",
        _starts("pat. sat."),
        rf"{_WORD}{{22}}\.[A-Za-z0-9]{{24}}\.[A-Za-z0-9]{{20}}",
    ),
    KeyShape(
        "Cloudflare key",
        "developers.cloudflare.com/fundamentals/api/get-started/ca-keys",
        ("v1.0-",),
        "[a-f0-9]{24}-[a-f0-9]{146}",
    ),
    KeyShape(
        "1Password key",
        "support.1password.com/secret-key-security",
        ("A3-",),
        "[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}(?![A-Z0-9])",
        quick="A3-[A-Z0-9]{6}-[A-Z0-9]{6}",
    ),
    KeyShape(
        _SERVICE,
        "docs.mapbox.com/accounts/guides/tokens",
        _starts("pk. sk."),
        rf"{_WORD}{{50,100}}\.{_WORD}{{20,30}}",
        quick=rf"[ps]k\.{_WORD}{{50}}",
    ),
    KeyShape(
        "Dropbox token",
        "developers.dropbox.com/oauth-guide",
        ("sl.",),
        r"(?:u\.)?[A-Za-z0-9_=-]{130,2048}",
        quick=r"sl\.(?:u\.)?[A-Za-z0-9_=-]{100}",
    ),
    KeyShape(
        _SERVICE,
        "yandex.cloud/en/docs/iam/concepts/authorization/iam-token",
        ("t1.",),
        rf"{_WORD}{{8,512}}={{0,2}}\.{_WORD}{{86}}",
        quick=rf"t1\.{_WORD}{{8,512}}={{0,2}}\.{_WORD}{{86}}",
    ),
    KeyShape(
        "Twilio key",
        "www.twilio.com/docs/iam/api-keys",
        ("SK",),
        "[0-9a-f]{32}(?![0-9A-Za-z])",
        quick="SK[0-9a-f]{32}",
    ),
    KeyShape(
        "Telegram token",
        "core.telegram.org/bots/api#authorizing-your-bot",
        (":A",),
        f"{_WORD}{{33,35}}(?![A-Za-z0-9_-])",
        "[0-9]{8,16}",
        quick=f":A{_WORD}{{33}}",
    ),
    KeyShape(
        "Discord token",
        "discord.com/developers/docs/reference#authentication",
        _starts("MD MT Mj Mz ND NT Nj Nz OD OT"),
        rf"{_WORD}{{20,26}}\.{_WORD}{{6}}\.{_WORD}{{27,64}}",
        quick=rf"(?:M[DTjz]|N[DTjz]|O[DT]){_WORD}{{20,26}}\.{_WORD}{{6}}\.{_WORD}{{27}}",
    ),
    KeyShape(
        "Facebook token",
        "developers.facebook.com/docs/facebook-login/guides/access-tokens",
        _starts("EAAM EAAC"),
        "[A-Za-z0-9]{90,512}(?![A-Za-z0-9+/=])",
    ),
    KeyShape(
        "Square token",
        "developer.squareup.com/docs/build-basics/access-tokens",
        ("EAAA",),
        f"{_WORD}{{56,61}}(?![A-Za-z0-9+/=_-])",
    ),
    KeyShape(
        _SERVICE,
        "developer.flutterwave.com/docs/authentication",
        _starts("FLWSECK_TEST- FLWSECK-"),
        "[A-Za-z0-9]{12,64}(?:-X)?",
        exact=True,
    ),
    KeyShape(_SERVICE, _LIST, ("p8e-",), "[A-Za-z0-9_-]{32}"),
    KeyShape(
        "Alibaba key",
        "www.alibabacloud.com/help/en/ram/user-guide/create-an-accesskey-pair",
        ("LTAI",),
        "[A-Za-z0-9]{12,24}(?![A-Za-z0-9])",
    ),
    KeyShape(
        _SERVICE,
        "jfrog.com/help/r/jfrog-platform-administration-documentation/access-tokens",
        _starts("AKCp cmVmd"),
        "[A-Za-z0-9]{59,80}(?![A-Za-z0-9+/=])",
    ),
    KeyShape(_SERVICE, _LIST, ("4b1d",), "[A-Za-z0-9]{38}(?![A-Za-z0-9])"),
    KeyShape(_SERVICE, _LIST, ("AQVN",), f"{_WORD}{{35,38}}(?![A-Za-z0-9+/=_-])"),
    KeyShape(_SERVICE, _LIST, ("API-",), "[A-Z0-9]{26}(?![A-Za-z0-9])"),
    KeyShape(
        _SERVICE,
        "plaid.com/docs/api/tokens",
        _starts("access-sandbox- access-development- access-production-"),
        _UUID,
    ),
    KeyShape(
        _SERVICE,
        "authress.io/knowledge-base",
        _starts(".acc_ .acc-"),
        r"[a-z0-9-]{10,32}\.[a-z0-9+/_=-]{30,120}",
        r"(?:sc|ext|scauth|authress)_[a-z0-9]{5,30}\.[a-z0-9]{4,6}",
    ),
    KeyShape(
        "MaxMind key",
        "dev.maxmind.com/license-key-validation-api",
        ("_mmk",),
        "(?![A-Za-z0-9_])",
        "[A-Za-z0-9]{6}_[A-Za-z0-9]{29}",
        quick="_mmk",
    ),
    KeyShape(
        "age key",
        "age-encryption.org/v1",
        ("AGE-SECRET-KEY-1",),
        "[A-Z0-9]{40,80}",
        exact=True,
    ),
    KeyShape(
        "JWT",
        "www.rfc-editor.org/rfc/rfc7519",
        ("eyJ",),
        rf"{_WORD}{{8,4096}}\.{_WORD}{{8,8192}}\.{_WORD}{{16,8192}}(?:\.{_WORD}{{1,8192}}){{0,2}}",
        quick=rf"eyJ{_WORD}+\.{_WORD}+\.{_WORD}{{16}}",
        exact=True,
    ),
    KeyShape(
        _SERVICE,
        "grafana.com/docs/grafana/latest/developer-resources/api-reference/http-api/authentication",
        ("eyJrIjoi",),
        "[A-Za-z0-9]{60,400}={0,2}",
    ),
    KeyShape(
        "JWT",
        "www.rfc-editor.org/rfc/rfc7519",  # one in base64
        _starts("ZXlKaGJHY2lPa ZXlKMGVYQWlPa ZXlKcmFXUWlPa"),
        f"{_BASE64}{{40,16384}}={{0,2}}",
    ),
    KeyShape(
        "private key",
        "www.rfc-editor.org/rfc/rfc7468",
        ("-----BEGIN ",),
        rf"[A-Z0-9 ]{{0,40}}PRIVATE KEY(?: BLOCK)?-----{_LINE_END}{{1,80}}"
        rf"(?:(?:Proc-Type|DEK-Info|Version|Comment)[^\n\\]{{0,99}}{_LINE_END}{{1,9}}){{0,4}}"
        r"[A-Za-z0-9+/]{16}(?:[A-Za-z0-9+/=\s\\\"'`,:.>|()*]|-(?!----)){0,16384}"
        r"(?:-----END [A-Z0-9 ]{0,60}-----)?",
        exact=True,
        quick="-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY",
    ),
    KeyShape(
        "private key",
        "www.rfc-editor.org/rfc/rfc7468",  # such a file in base64
        ("LS0tLS1CRUdJTi",),
        rf"(?!B(?:DRVJU|QVUJM)){_BASE64}{{30,16384}}"
        r"(?:(?:\s|\\[nr]){1,40}[A-Za-z0-9+/]{1,1024}){0,400}={0,2}",
        exact=True,
    ),
)

# -- the quick test ------------------------------------------------------------------------------

_FIRST_LETTERS = 4
"""Letters of a start that the quick test looks for: so many are found at once."""
_AT_ONCE = 44
"""Starts in one pattern; with more of them it takes longer."""
_KEY_SIGN = "[A-Za-z0-9+/_=~.@:-]"


_FIRST: Final = sorted(
    dict.fromkeys(
        re.escape(start[:_FIRST_LETTERS])
        for shape in SHAPES
        if not shape.quick
        for start in shape.starts
    ),
    key=str.lower,
)
QUICK_STARTS: Final = tuple(
    f"(?:{'|'.join(_FIRST[at : at + _AT_ONCE])}){_KEY_SIGN}{{12}}"
    for at in range(0, len(_FIRST), _AT_ONCE)
)
QUICK_SHAPES: Final = tuple(shape.quick for shape in SHAPES if shape.quick)
"""Patterns for an engine that is linear in time: one at least finds something in each text that
holds the shape of a key. Those of starts are as long as that engine takes at once."""

# -- the search ----------------------------------------------------------------------------------

STARTS: Final = tuple((start, shape) for shape in SHAPES for start in shape.starts)
"""Every start, with its shape."""
_MOST_BEFORE = 64
"""Characters of the longest part of a key before its start."""
_LOOKED_AT = 128
"""Characters of a key that are looked at for whether it is random."""
_FEWEST, _WORDS = 6, 0.6
"""The random part after a start, which tells something by itself; see ``is_random``."""
_SIGNS: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
_ESCAPE = r"(?:\\[nrtbfv]|\\[ux](?:00)?[0-9A-Fa-f]{2}|%[0-9A-Fa-f]{2})\Z"
_BLOB = r"[A-Za-z0-9+/_-]{24}\Z"


def without_shapes(text: str, instead: Instead) -> str:
    """*text* without the keys of a known shape."""
    return replaced(text, _spans_in(text), instead)


def is_key(text: str) -> bool:
    """True if *text* is a key of a known shape, and nothing else."""
    return any(start == 0 and end == len(text) for start, end, _ in _spans_in(text))


def _spans_in(text: str) -> Iterator[Span]:
    # Each start is looked for by itself: one pattern for all takes ten times as long.
    for start, shape in STARTS:
        if start in text:
            done = 0
            for at in places(text, start):
                if at >= done and (span := _key_at(text, at, start, shape)) is not None:
                    yield *span, shape.kind
                    done = span[1]


def _key_at(text: str, at: int, start: str, shape: KeyShape) -> tuple[int, int] | None:
    """The span of the key of this *shape* whose *start* stands *at* a place of *text*."""
    first, rest = at, ""
    if shape.before:
        head = regex(rf"(?:{shape.before})\Z").search(text, max(at - _MOST_BEFORE, 0), at)
        if head is None:
            return None
        first, rest = head.start(), head[0]
    if not stands_alone(text, first):
        return None
    match = regex(shape.rest).match(text, at + len(start))
    if match is None:
        return None
    looks = shape.exact or is_random((rest + match[0])[:_LOOKED_AT], _FEWEST, _WORDS)
    return (first, match.end()) if looks else None


def stands_alone(text: str, at: int) -> bool:
    """True if no word goes on at *at*: neither a name, nor a long random text such as a picture."""
    if at == 0:
        return True
    if text[at - 1] in _SIGNS:
        return regex(_ESCAPE).search(text, max(at - 6, 0), at) is not None
    if text[at - 1] not in "+/_-":
        return True
    before = regex(_BLOB).search(text, max(at - 24, 0), at)
    return before is None or not is_random(before[0])


# -- where a key may go on -----------------------------------------------------------------------

_RUN = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=_.~:%|@-"
_END_OF_KEY = "-----END [A-Z0-9 ]{0,60}-----"
_OPEN_SHAPES: Final = (
    r"LS0tLS1CRUdJTi[A-Za-z0-9+/=\s\\]*\Z",
    r"-----BEGIN [A-Z0-9 ]{0,60}-{0,5}"
    rf"(?:\Z|(?<=KEY-----|OCK-----)(?:(?!{_END_OF_KEY})[\s\S])*\Z)",
)
_OPEN_BEFORE = r"-----[BEGIN]{0,5}\Z|(?<![A-Za-z0-9])[A-Za-z0-9]{6}_[A-Za-z0-9]{4,29}\Z"
"""The first characters of a private key, and those of a key that is known by its end."""


def run_at_end(text: str) -> int:
    """The beginning of the characters of keys at the end of *text*, and two of space after them."""
    words = text.rstrip()
    return len(words.rstrip(_RUN)) if len(text) - len(words) <= 2 else len(text)


def open_key_from(text: str) -> int:
    """The beginning of a key of a known shape that may go on after the end of *text*."""
    begun = run_at_end(text)
    tail, first = text[begun:], len(text)
    for start, shape in STARTS:
        if start in tail:
            for at in places(tail, start):
                if begun + at >= first:
                    break
                if shape.before or stands_alone(text, begun + at):
                    first = begun + at
    matches = [regex(pattern).search(text) for pattern in _OPEN_SHAPES]
    matches.append(regex(_OPEN_BEFORE).search(text, max(len(text) - 40, 0)))
    return min([first, *(match.start() for match in matches if match is not None)])

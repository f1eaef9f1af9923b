"""The published shapes of keys, as facts: what they begin with, of which letters, and how long.

``SHAPES`` have a form of their own, ``NAMED`` have none and are known by the variable that holds
them, and ``PLACES`` by where they stand. The rows follow the list of gitleaks, whose name of the
rule each row has: https://github.com/gitleaks/gitleaks/blob/master/config/gitleaks.toml (July
2026). The rows of ``OTHERS`` stand on the pages of their providers.

A form is written with its random parts in braces: ``ghp_{x36}`` are 36 letters and digits.
"""

from __future__ import annotations

import base64
import json
import random
import re
from typing import Final

DIGITS, LOWER = "0123456789", "abcdefghijklmnopqrstuvwxyz"
UPPER = LOWER.upper()
ALPHABETS: Final = {
    "d": DIGITS,
    "h": f"{DIGITS}abcdef",
    "H": f"{DIGITS}ABCDEF",
    "o": f"{DIGITS}abcdefgh",
    "a": LOWER + DIGITS,
    "A": UPPER + DIGITS,
    "b": f"{UPPER}234567",
    "B": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
    "l": LOWER + UPPER,
    "x": LOWER + UPPER + DIGITS,
    "q": f"{LOWER}{DIGITS}_-",
    "w": f"{LOWER}{UPPER}{DIGITS}_-",
    "s": f"{LOWER}{UPPER}{DIGITS}+/",
}

SHAPES: Final = {
    "1password-secret-key": "A3-{A6}-{A6}-{A5}-{A5}-{A5}-{A5}",
    "1password-service-account-token": "ops_eyJ{s300}",
    "adobe-client-secret": "p8e-{a32}",
    "age-secret-key": "AGE-SECRET-KEY-1{B58}",
    "airtable-personnal-access-token": "pat{x14}.{h64}",
    "alibaba-access-key-id": "LTAI{x20}",
    "anthropic-admin-api-key": "sk-ant-admin01-{w93}AA",
    "anthropic-api-key": "sk-ant-api03-{w93}AA",
    "artifactory-api-key": "AKCp{x69}",
    "artifactory-reference-token": "cmVmd{x59}",
    "atlassian-api-token": "ATATT3{w186}",
    "authress-service-client-access-key": "sc_{a20}.{a5}.acc_{a20}.{a60}",
    "aws-access-token": "AKIA{b16}",
    "aws-access-token, temporary": "ASIA{b16}",
    "aws-amazon-bedrock-api-key-long-lived": "ABSK{s128}",
    "aws-amazon-bedrock-api-key-short-lived": "bedrock-api-key-YmVkcm9jay5hbWF6b25hd3MuY29t{s80}",
    "azure-ad-client-secret": "{x3}8Q~{w34}",
    "clickhouse-cloud-api-secret-key": "4b1d{x38}",
    "clojars-api-token": "CLOJARS_{a60}",
    "cloudflare-origin-ca-key": "v1.0-{h24}-{h146}",
    "databricks-api-token": "dapi{h32}",
    "defined-networking-api-token": "dnkey-{q26}-{q52}",
    "digitalocean-access-token": "doo_v1_{h64}",
    "digitalocean-pat": "dop_v1_{h64}",
    "digitalocean-refresh-token": "dor_v1_{h64}",
    "doppler-api-token": "dp.pt.{x43}",
    "dropbox-short-lived-api-token": "sl.{w135}",
    "duffel-api-token": "duffel_live_{w43}",
    "dynatrace-api-token": "dt0c01.{A24}.{A64}",
    "easypost-api-token": "EZAK{x54}",
    "easypost-test-api-token": "EZTK{x54}",
    "facebook-page-access-token": "EAAC{x120}",
    "flutterwave-encryption-key": "FLWSECK_TEST-{o12}",
    "flutterwave-secret-key": "FLWSECK_TEST-{o32}-X",
    "flyio-access-token": "fo1_{w43}",
    "flyio-access-token, macaroon": "fm2_{s140}",
    "frameio-api-token": "fio-u-{w64}",
    "gcp-api-key": "AIza{w35}",
    "github-app-token": "ghs_{x36}",
    "github-fine-grained-pat": "github_pat_{x22}_{x59}",
    "github-oauth": "gho_{x36}",
    "github-pat": "ghp_{x36}",
    "github-refresh-token": "ghr_{x36}",
    "gitlab-cicd-job-token": "glcbt-{x2}_{w20}",
    "gitlab-deploy-token": "gldt-{w20}",
    "gitlab-feature-flag-client-token": "glffct-{w20}",
    "gitlab-feed-token": "glft-{w20}",
    "gitlab-incoming-mail-token": "glimt-{w25}",
    "gitlab-kubernetes-agent-token": "glagent-{w50}",
    "gitlab-oauth-app-secret": "gloas-{w64}",
    "gitlab-pat": "glpat-{w20}",
    "gitlab-pat-routable": "glpat-{w27}.{a2}{a7}",
    "gitlab-ptt": "glptt-{h40}",
    "gitlab-rrt": "GR1348941{w20}",
    "gitlab-runner-authentication-token": "glrt-{w20}",
    "gitlab-runner-authentication-token-routable": "glrt-t1_{w27}.{a2}{a7}",
    "gitlab-scim-token": "glsoat-{w20}",
    "gitlab-session-cookie": "_gitlab_session={a32}",
    "grafana-api-key": "eyJrIjoi{x90}",
    "grafana-cloud-api-token": "glc_{s80}",
    "grafana-service-account-token": "glsa_{x32}_{h8}",
    "harness-api-key": "pat.{w22}.{x24}.{x20}",
    "hashicorp-tf-api-token": "{x14}.atlasv1.{w64}",
    "heroku-api-key-v2": "HRKU-AA{w58}",
    "huggingface-access-token": "hf_{l34}",
    "huggingface-organization-api-token": "api_org_{l34}",
    "infracost-api-token": "ico-{x32}",
    "intra42-client-secret": "s-s4t2ud-{h64}",
    "jwt": "eyJ{x30}.eyJ{w60}.{w43}",
    "linear-api-key": "lin_api_{x40}",
    "mapbox-api-token": "pk.{a60}.{a22}",
    "maxmind-license-key": "{x6}_{x29}_mmk",
    "new-relic-browser-api-token": "NRJS-{h19}",
    "new-relic-insert-key": "NRII-{w32}",
    "new-relic-user-api-key": "NRAK-{A27}",
    "notion-api-token": "ntn_{d11}{x35}",
    "npm-access-token": "npm_{x36}",
    "octopus-deploy-api-key": "API-{A26}",
    "openai-api-key": "sk-proj-{w74}T3BlbkFJ{w74}",
    "openai-api-key, older": "sk-{x20}T3BlbkFJ{x20}",
    "openshift-user-token": "sha256~{w43}",
    "perplexity-api-key": "pplx-{x48}",
    "plaid-api-token": "access-production-{h8}-{h4}-{h4}-{h4}-{h12}",
    "planetscale-api-token": "pscale_tkn_{w43}",
    "planetscale-oauth-token": "pscale_oauth_{w43}",
    "planetscale-password": "pscale_pw_{w43}",
    "postman-api-token": "PMAK-{h24}-{h34}",
    "prefect-api-token": "pnu_{x36}",
    "private-key": "-----BEGIN PRIVATE KEY-----\n{s64}\n{s64}\n-----END PRIVATE KEY-----",
    "pulumi-api-token": "pul-{h40}",
    "pypi-upload-token": "pypi-AgEIcHlwaS5vcmc{w120}",
    "readme-api-token": "rdme_{a70}",
    "rubygems-api-token": "rubygems_{h48}",
    "scalingo-api-token": "tk-us-{w48}",
    "sendgrid-api-token": "SG.{w22}.{w43}",
    "sendinblue-api-token": "xkeysib-{h64}-{x16}",
    "sentry-org-token": "sntrys_eyJpYXQiO{s60}LCJyZWdpb25fdXJs{s60}_{s43}",
    "sentry-user-token": "sntryu_{h64}",
    "settlemint-application-access-token": "sm_aat_{x16}",
    "settlemint-personal-access-token": "sm_pat_{x16}",
    "settlemint-service-access-token": "sm_sat_{x16}",
    "shippo-api-token": "shippo_live_{h40}",
    "shopify-access-token": "shpat_{h32}",
    "shopify-custom-access-token": "shpca_{h32}",
    "shopify-private-app-access-token": "shppa_{h32}",
    "shopify-shared-secret": "shpss_{h32}",
    "sidekiq-sensitive-url": "https://{h8}:{h8}@gems.contribsys.com/",
    "slack-app-token": "xapp-1-{A11}-{d13}-{h64}",
    "slack-bot-token": "xoxb-{d12}-{d13}-{x24}",
    "slack-config-access-token": "xoxe.xoxp-1-{A163}",
    "slack-config-refresh-token": "xoxe-1-{A146}",
    "slack-legacy-bot-token": "xoxb-{d12}-{x24}",
    "slack-legacy-token": "xoxs-{d12}-{d12}-{d12}-{h10}",
    "slack-legacy-workspace-token": "xoxa-2-{x40}",
    "slack-user-token": "xoxp-{d12}-{d12}-{d12}-{h32}",
    "slack-webhook-url": "https://hooks.slack.com/services/T{A10}/B{A10}/{x24}",
    "sonar-api-token": "squ_{h40}",
    "sourcegraph-access-token": "sgp_{h16}_{h40}",
    "square-access-token": "sq0atp-{w22}",
    "square-access-token, newer": "EAAA{w60}",
    "stripe-access-token": "sk_live_{x24}",
    "stripe-access-token, restricted": "rk_prod_{x99}",
    "telegram-bot-api-token": "{d10}:A{w34}",
    "twilio-api-key": "SK{h32}",
    "typeform-api-token": "tfp_{w44}_{w14}",
    "vault-batch-token": "hvb.{w150}",
    "vault-service-token": "hvs.{w95}",
    "yandex-access-token": "t1.{w30}.{w86}",
    "yandex-api-key": "AQVN{w36}",
    "microsoft-teams-webhook": (
        "https://acme1.webhook.office.com/webhookb2/{h8}-{h4}-{h4}-{h4}-{h12}@{h8}-{h4}-{h4}-{h4}-{h12}"
        "/IncomingWebhook/{h32}/{h8}-{h4}-{h4}-{h4}-{h12}"
    ),
    "jwt-base64": "ZXlKaGJHY2lPaU{x100}",
}

NAMED: Final = {
    "adafruit-api-key": ("ADAFRUIT_IO_KEY", "{q32}"),
    "airtable-api-key": ("AIRTABLE_API_KEY", "key{x14}"),
    "algolia-api-key": ("ALGOLIA_API_KEY", "{a32}"),
    "alibaba-secret-key": ("ALIBABA_CLOUD_ACCESS_KEY_SECRET", "{a30}"),
    "asana-client-secret": ("ASANA_CLIENT_SECRET", "{a32}"),
    "atlassian-api-token, older": ("CONFLUENCE_API_TOKEN", "{a20}{h4}"),
    "beamer-api-token": ("BEAMER_API_KEY", "b_{q44}"),
    "bitbucket-client-secret": ("BITBUCKET_CLIENT_SECRET", "{q64}"),
    "bittrex-access-key": ("BITTREX_API_KEY", "{a32}"),
    "bittrex-secret-key": ("BITTREX_API_SECRET", "{a32}"),
    "cisco-meraki-api-key": ("MERAKI_DASHBOARD_API_KEY", "{h40}"),
    "cloudflare-api-key": ("CLOUDFLARE_API_TOKEN", "{w40}"),
    "cloudflare-global-api-key": ("CLOUDFLARE_API_KEY", "{h37}"),
    "codecov-access-token": ("CODECOV_TOKEN", "{h8}-{h4}-{h4}-{h4}-{h12}"),
    "cohere-api-token": ("CO_API_KEY", "{x40}"),
    "coinbase-access-token": ("COINBASE_ACCESS_TOKEN", "{w64}"),
    "confluent-access-token": ("CONFLUENT_CLOUD_API_KEY", "{A16}"),
    "confluent-secret-key": ("CONFLUENT_CLOUD_API_SECRET", "{s64}"),
    "contentful-delivery-api-token": ("CONTENTFUL_DELIVERY_TOKEN", "{w43}"),
    "datadog-access-token": ("DD_APP_KEY", "{h40}"),
    "discord-api-token": ("DISCORD_TOKEN", "{h64}"),
    "discord-client-secret": ("DISCORD_CLIENT_SECRET", "{w32}"),
    "droneci-access-token": ("DRONE_TOKEN", "{x32}"),
    "dropbox-api-token": ("DROPBOX_APP_SECRET", "{a15}"),
    "dropbox-long-lived-api-token": ("DROPBOX_TOKEN", "{a11}AAAAAAAAAA{w43}"),
    "etsy-access-token": ("ETSY_API_KEY", "{a24}"),
    "facebook-access-token": ("FACEBOOK_ACCESS_TOKEN", "{d16}|{w27}"),
    "facebook-secret": ("FACEBOOK_APP_SECRET", "{h32}"),
    "fastly-api-token": ("FASTLY_API_TOKEN", "{w32}"),
    "finicity-api-token": ("FINICITY_APP_KEY", "{h32}"),
    "finicity-client-secret": ("FINICITY_PARTNER_SECRET", "{x20}"),
    "finnhub-access-token": ("FINNHUB_API_KEY", "{a20}"),
    "flickr-access-token": ("FLICKR_API_KEY", "{h32}"),
    "freemius-secret-key": ("secret_key", "sk_{x29}"),
    "freshbooks-access-token": ("FRESHBOOKS_ACCESS_TOKEN", "{h64}"),
    "generic-api-key": ("THE_OTHER_ACCESS_TOKEN", "{x32}"),
    "gitter-access-token": ("GITTER_TOKEN", "{h40}"),
    "gocardless-api-token": ("GOCARDLESS_ACCESS_TOKEN", "live_{w40}"),
    "hashicorp-tf-password": ("administrator_login_password", "{x20}"),
    "heroku-api-key": ("HEROKU_API_KEY", "{h8}-{h4}-{h4}-{h4}-{h12}"),
    "hubspot-api-key": ("HUBSPOT_API_KEY", "{H8}-{H4}-{H4}-{H4}-{H12}"),
    "intercom-api-key": ("INTERCOM_ACCESS_TOKEN", "dG9r{w56}"),
    "jfrog-api-key": ("JFROG_API_KEY", "{x73}"),
    "jfrog-identity-token": ("JFROG_ACCESS_TOKEN", "{x64}"),
    "kraken-access-token": ("KRAKEN_API_SECRET", "{s86}=="),
    "kucoin-access-token": ("KUCOIN_API_KEY", "{h24}"),
    "kucoin-secret-key": ("KUCOIN_API_SECRET", "{h8}-{h4}-{h4}-{h4}-{h12}"),
    "launchdarkly-access-token": ("LAUNCHDARKLY_ACCESS_TOKEN", "api-{h8}-{h4}-{h4}-{h4}-{h12}"),
    "linear-client-secret": ("LINEAR_CLIENT_SECRET", "{h32}"),
    "linkedin-client-secret": ("LINKEDIN_CLIENT_SECRET", "{x16}"),
    "lob-api-key": ("LOB_API_KEY", "live_{h35}"),
    "looker-client-secret": ("LOOKERSDK_CLIENT_SECRET", "{x24}"),
    "mailchimp-api-key": ("MAILCHIMP_API_KEY", "{h32}-us12"),
    "mailgun-private-api-token": ("MAILGUN_API_KEY", "key-{h32}"),
    "mailgun-signing-key": ("MAILGUN_SIGNING_KEY", "{h32}-{h8}-{h8}"),
    "mattermost-access-token": ("MATTERMOST_TOKEN", "{a26}"),
    "messagebird-api-token": ("MESSAGEBIRD_ACCESS_KEY", "{x25}"),
    "netlify-access-token": ("NETLIFY_AUTH_TOKEN", "{w43}"),
    "new-relic-user-api-id": ("NEW_RELIC_LICENSE_KEY", "{h36}NRAL"),
    "nytimes-access-token": ("NYTIMES_API_KEY", "{x32}"),
    "okta-access-token": ("OKTA_API_TOKEN", "00{w40}"),
    "plaid-secret-key": ("PLAID_SECRET", "{h30}"),
    "privateai-api-token": ("PRIVATE_AI_API_KEY", "{h32}"),
    "rapidapi-access-token": ("RAPIDAPI_KEY", "{h10}msh{h15}p{h6}jsn{h12}"),
    "sendbird-access-token": ("SENDBIRD_API_TOKEN", "{h40}"),
    "sentry-access-token": ("SENTRY_AUTH_TOKEN", "{h64}"),
    "sidekiq-secret": ("BUNDLE_GEMS__CONTRIBSYS__COM", "{h8}:{h8}"),
    "snyk-api-token": ("SNYK_TOKEN", "{h8}-{h4}-{h4}-{h4}-{h12}"),
    "squarespace-access-token": ("SQUARESPACE_API_KEY", "{h8}-{h4}-{h4}-{h4}-{h12}"),
    "sumologic-access-token": ("SUMOLOGIC_ACCESSKEY", "{x64}"),
    "travisci-access-token": ("TRAVIS_TOKEN", "{w22}"),
    "twitch-api-token": ("TWITCH_CLIENT_SECRET", "{a30}"),
    "twitter-access-secret": ("TWITTER_ACCESS_TOKEN_SECRET", "{x45}"),
    "twitter-access-token": ("TWITTER_ACCESS_TOKEN", "{d19}-{x30}"),
    "twitter-api-key": ("TWITTER_API_KEY", "{x25}"),
    "twitter-api-secret": ("TWITTER_API_SECRET", "{x50}"),
    "twitter-bearer-token": ("TWITTER_BEARER_TOKEN", "AAAAAAAAAAAAAAAAAAAAAA{x30}%2B{x50}"),
    "yandex-aws-access-token": ("YANDEX_SECRET_KEY", "YC{w38}"),
    "zendesk-secret-key": ("ZENDESK_SECRET_KEY", "{x40}"),
}
"""Keys without a form of their own: the variable that their providers name, and the value."""

PLACES: Final = {
    "curl-auth-header": "curl -H 'Authorization: Token {h40}' https://host/",
    "curl-auth-header, of a key": 'curl --header "X-Api-Key: {x32}" https://host/',
    "curl-auth-user": "curl -u admin:{x16} https://host/",
    "curl-auth-user, quoted": "curl -s --user 'admin:{x16}' https://host/",
    "kubernetes-secret-yaml": "kind: Secret\ndata:\n  password: {s31}=\n",
    "nuget-config-password": '<add key="ClearTextPassword" value="{x20}" />',
}
"""Keys that are known by where they stand."""

NOT_SECRET: Final = frozenset("""
    adobe-client-id asana-client-id bitbucket-client-id discord-client-id linkedin-client-id
    looker-client-id messagebird-client-id plaid-client-id sendbird-access-id sumologic-access-id
    flutterwave-public-key lob-pub-api-key mailgun-pub-key pkcs12-file
""".split())  # fmt: skip
"""Rules of the list for what is public by its provider's word, and for the name of a file."""

OTHERS: Final = {
    "Stripe webhook": ("docs.stripe.com/webhooks/signature", "whsec_{x32}"),
    "Vault, root": ("developer.hashicorp.com/vault/docs/concepts/tokens", "hvs.{x24}"),
    "Pinecone": ("docs.pinecone.io/guides/projects/manage-api-keys", "pcsk_{x5}_{x63}"),
    "Supabase": ("supabase.com/docs/reference/api/introduction", "sbp_{h40}"),
    "Supabase, secret": ("supabase.com/docs/guides/api/api-keys", "sb_secret_{w31}"),
    "Tailscale": ("tailscale.com/kb/1277/key-prefixes", "tskey-auth-{x12}CNTRL-{x32}"),
    "Figma": ("developers.figma.com/docs/rest-api/authentication", "figd_{w40}"),
    "Fireworks": ("docs.fireworks.ai/api-reference/introduction", "fw_{x24}"),
    "Doppler, service": ("docs.doppler.com/reference/auth-token-formats", "dp.st.prd.{x43}"),
    "Discord bot": ("discord.com/developers/docs/reference#authentication", "MT{x24}.{w6}.{w38}"),
    "Twilio": ("www.twilio.com/docs/iam/api-keys", "SK{h32}"),
    "Entra": ("learn.microsoft.com/en-us/purview/sit-defn-client-secret-api-key", "{x3}8Q~{w34}"),
    "Docker, organization": ("docs.docker.com/enterprise/security/access-tokens", "dckr_oat_{w32}"),
    "Together": ("docs.together.ai/docs/quickstart", "tgp_v1_{w43}"),
    "Jina": ("jina.ai/embeddings", "jina_{h32}{w28}"),
    "RunPod": ("docs.runpod.io/get-started/api-keys", "rpa_{A42}{x6}"),
    "Netlify": ("docs.netlify.com/api/get-started", "nfp_{x36}"),
    "Render": ("render.com/docs/api", "rnd_{x28}"),
    "Buildkite": ("buildkite.com/docs/apis/managing-api-tokens", "bkua_{h40}"),
    "CircleCI": ("circleci.com/docs/managing-api-tokens", "CCIPAT_{x22}_{h40}"),
    "Apify": ("docs.apify.com/platform/integrations/api", "apify_api_{x36}"),
    "Contentful": ("www.contentful.com/developers/docs/references/authentication", "CFPAT-{w43}"),
    "Shopify, partner": ("shopify.dev/docs/api/partner", "prtapi_{h32}"),
    "one-time password": (
        "github.com/google/google-authenticator/wiki/Key-Uri-Format",
        "otpauth://totp/ACME:me?secret={b32}&issuer=ACME",
    ),
    "Azure storage": (
        "learn.microsoft.com/en-us/azure/storage/common/storage-configure-connection-string",
        "DefaultEndpointsProtocol=https;AccountName=acme;AccountKey={s86}==;EndpointSuffix=a.net",
    ),
    "Azure service bus": (
        "learn.microsoft.com/en-us/azure/service-bus-messaging/service-bus-sas",
        "Endpoint=sb://a.net/;SharedAccessKeyName=Root;SharedAccessKey={s43}=",
    ),
    "shared access signature": (
        "learn.microsoft.com/en-us/rest/api/storageservices/create-service-sas",
        "https://a.blob.core.windows.net/c/b?sv=2024-11-04&sr=b&sig={x20}%2F{x21}%3D",
    ),
    "presigned URL": (
        "docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html",
        "https://b.s3.amazonaws.com/k?X-Amz-Date=20260101T000000Z&X-Amz-Signature={h64}",
    ),
    "cookie": ("www.rfc-editor.org/rfc/rfc6265", "Cookie: theme=dark; sessionid={a32}; lang=en"),
    "set cookie": ("www.rfc-editor.org/rfc/rfc6265", "Set-Cookie: sid=s%3A{w32}.{s43}; HttpOnly"),
    "netrc": (
        "www.gnu.org/software/inetutils/manual/html_node/The-_002enetrc-file.html",
        "machine example.com login me password {x14}",
    ),
    "docker": (
        "docs.docker.com/reference/cli/docker/login",
        '{"auths": {"r.example.com": {"auth": "bWU6{s24}"}}}',
    ),
    "Vercel": ("vercel.com/docs/rest-api", "VERCEL_TOKEN: {x24}"),
    "Dockerfile": ("docs.docker.com/reference/dockerfile/#env", "ENV API_TOKEN {x32}"),
    "an option": ("www.gnu.org/prep/standards/html_node/Option-Table.html", "tool --token {x32} x"),
    "an option with =": ("www.gnu.org/prep/standards", "tool --api-key={h32} x"),
    "compose": (
        "kubernetes.io/docs/reference/generated/kubernetes-api/v1.34/#envvar-v1-core",
        '{"name": "DB_PASSWORD", "value": "{x24}"}',
    ),
    "compose in YAML": (
        "kubernetes.io/docs/reference/generated/kubernetes-api/v1.34/#envvar-v1-core",
        '    - name: SERVICE_TOKEN\n      value: "{x24}"\n',
    ),
}
"""Further forms, with the page of the provider or of the format."""

_PART = re.compile(r"\{([A-Za-z])(\d+)\}")


def drawn(form: str, dice: random.Random) -> str:
    """A key of this *form*."""
    return _PART.sub(
        lambda found: "".join(dice.choices(ALPHABETS[found[1]], k=int(found[2]))), form
    )


def random_parts(key: str, form: str) -> list[str]:
    """The random parts of *key*, which has this *form*, of at least ten characters."""
    pattern = _PART.sub(
        lambda found: f"([{re.escape(ALPHABETS[found[1]])}]{{{found[2]}}})",
        re.sub(r"[^\w{}]", lambda sign: re.escape(sign[0]), form),
    )
    found = re.fullmatch(pattern.replace("\\{", "{").replace("\\}", "}"), key)
    assert found is not None, (key, form)
    parts = [part for part in found.groups() if len(part) >= 10]
    return parts or [found.groups()[-1]]


def assigned(name: str, value: str) -> dict[str, str]:
    """The ways in which files, programs and tools say that *name* is *value*."""
    words = name.lower().split("_")
    camel = words[0] + "".join(word.title() for word in words[1:])
    in_json = json.dumps({camel: value})
    return {
        "a variable": f"{name}={value}\n",
        "an export": f"export {name}='{value}'; run",
        "YAML": f"{name.lower()}: {value}\n",
        "JSON": in_json,
        "JSON in JSON": json.dumps(in_json),
        "an argument": f'Client({name.lower()}="{value}")',
        "an object": f'{{{camel}: "{value}"}}',
        "an option": f"tool --{'-'.join(words)} {value} --verbose",
    }


def in_base64(text: str) -> str:
    """*text* in base64."""
    return base64.b64encode(text.encode()).decode()

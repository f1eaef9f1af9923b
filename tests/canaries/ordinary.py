"""Ordinary texts, which hold no secret however random they look, drawn from a seed.

Each kind is what prompts, answers, and the results of tools are full of: digests, ids, pictures,
logs, lock files, source code and prose. A text has a few lines, as a message does.
"""

from __future__ import annotations

import base64
import json
import random
import uuid
from collections.abc import Callable
from typing import Final

ALNUM = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
WORDS = (
    "the a of to in is it for on with as by be this that key token secret password api auth cookie "
    "session access private header webhook credential account sign pass risk-based task-oriented "
    "disk-io sk-learn pk-index well-known rk-four hf-hub model prompt answer tool call next page "
    "cache file path name value user request response error token-level keyboard monkey"
).split()
MODELS = (
    "gpt-5-mini-2025-08-07 claude-sonnet-4-5-20250929 gemini-3-pro-preview-11-2025 "
    "meta-llama/Llama-3.3-70B-Instruct Qwen/Qwen3-235B-A22B-Instruct-2507 "
    "deepseek-ai/DeepSeek-R1-0528-Qwen3-8B mistralai/Mixtral-8x22B-Instruct-v0.1 "
    "TheBloke/Mistral-7B-Instruct-v0.2-GPTQ-4bit-32g anthropic.claude-opus-4-1-20250805-v1:0 "
    "us.amazon.nova-pro-v1:0 ft:gpt-4o-mini-2024-07-18:acme::9aBcD3fG accounts/fireworks/models/"
    "kimi-k2p5 text-embedding-3-large whisper-large-v3-turbo o4-mini-deep-research-2025-06-26"
).split()
Make = Callable[[random.Random], str]


def alnum(dice: random.Random, length: int, letters: str = ALNUM) -> str:
    return "".join(dice.choices(letters, k=length))


def digest(dice: random.Random, size: int = 32) -> str:
    return dice.randbytes(size).hex()


def b64(dice: random.Random, size: int) -> str:
    return base64.b64encode(dice.randbytes(size)).decode()


def b64url(dice: random.Random, size: int) -> str:
    return base64.urlsafe_b64encode(dice.randbytes(size)).decode().rstrip("=")


def some_uuid(dice: random.Random) -> str:
    return str(uuid.UUID(int=dice.getrandbits(128), version=4))


def sentence(dice: random.Random, words: int = 20) -> str:
    return " ".join(dice.choices(WORDS, k=words))


def hashes(dice: random.Random) -> str:
    return "\n".join([
        f"{digest(dice)}  {sentence(dice, 1)}.tar.gz", f"md5: {digest(dice, 16)}",
        f"SHA1({sentence(dice, 1)})= {digest(dice, 20)}", f"sha256:{digest(dice)}",
        f"etag: W/\"{digest(dice, 16)}\"", f"checksum = \"{digest(dice)}\"",
        f"integrity sha512-{b64(dice, 64)}", f"--hash=sha256:{digest(dice)} \\",
        f"the hash of the key is {digest(dice)}", f"h1:{b64(dice, 32)}",
    ])  # fmt: skip


def ids(dice: random.Random) -> str:
    return json.dumps({
        "id": dice.choice([
            f"chatcmpl-{alnum(dice, 29)}", f"msg_{alnum(dice, 24)}", f"resp_{digest(dice, 24)}",
            f"gen-{dice.randrange(10**10)}-{alnum(dice, 20)}", f"cmpl-{digest(dice, 16)}",
            f"req_{alnum(dice, 24)}", f"run-{some_uuid(dice)}", f"batch_{digest(dice, 16)}",
        ]),
        "tool_calls": [{
            "id": dice.choice([
                f"call_{alnum(dice, 24)}", f"toolu_01{alnum(dice, 22)}", f"fc_{digest(dice, 24)}",
                f"chatcmpl-tool-{digest(dice, 16)}", f"toolu_bdrk_01{alnum(dice, 22)}",
                f"call_{dice.randrange(9)}_{some_uuid(dice)}", alnum(dice, 9),
            ]),
            "function": {"name": "find", "arguments": json.dumps({"id": some_uuid(dice)})},
        }],
        "system_fingerprint": f"fp_{digest(dice, 5)}", "model": dice.choice(MODELS),
        "thread": f"thread_{alnum(dice, 24)}", "file": f"file-{alnum(dice, 22)}",
        "ulid": alnum(dice, 26, CROCKFORD), "object_id": digest(dice, 12),
        "uuid": some_uuid(dice), "trace_id": digest(dice, 16), "run": alnum(dice, 21),
    })  # fmt: skip


def paging(dice: random.Random) -> str:
    """The tokens and keys of interfaces that are no secrets."""
    return json.dumps({
        "nextPageToken": b64(dice, 24), "next_page_token": b64url(dice, 30),
        "NextToken": b64(dice, 60), "continuationToken": b64url(dice, 48),
        "ContinuationToken": b64(dice, 45), "pageToken": b64url(dice, 33),
        "syncToken": b64url(dice, 20), "resume_token": b64url(dice, 20),
        "cache_key": digest(dice), "cacheKey": f"v1-{digest(dice, 20)}",
        "idempotency_key": some_uuid(dice), "Idempotency-Key": some_uuid(dice),
        "primary_key": alnum(dice, 24), "partition_key": some_uuid(dice), "sort_key": digest(dice, 8),
        "public_key": b64(dice, 32), "publicKey": b64(dice, 32), "ssh_public_key": f"ssh-ed25519 {b64(dice, 51)}",
        "key": digest(dice, 20), "Key": f"images/{digest(dice, 12)}.png", "keys": [digest(dice, 16)],
        "object_key": f"{digest(dice, 16)}/{alnum(dice, 20)}",
        "tokens": [dice.randrange(50_000) for _ in range(9)], "token_ids": [1, 2, 3],
        "key_fingerprint": digest(dice, 20), "token_type": "bearer", "max_tokens": 4096,
        "prompt_cache_key": f"session-{digest(dice, 8)}",
    })  # fmt: skip


def pictures(dice: random.Random) -> str:
    size = dice.choice([300, 1500, 6000])
    return dice.choice([
        f"data:image/png;base64,iVBORw0KGgo{b64(dice, size)}",
        f"![x](data:image/jpeg;base64,/9j/4AAQSkZJRgABAQ{b64(dice, size)})",
        f"data:image/webp;base64,{b64url(dice, size)}",
        json.dumps({"type": "base64", "media_type": "image/png", "data": b64(dice, size)}),
        base64.encodebytes(dice.randbytes(size)).decode(), b64url(dice, size),
        "data:font/woff2;base64,d09GMgABAAAA" + "A" * dice.randrange(90) + b64(dice, size),
    ])  # fmt: skip


def certificates(dice: random.Random) -> str:
    return dice.choice([
        f"-----BEGIN CERTIFICATE-----\n{base64.encodebytes(dice.randbytes(600)).decode()}-----END CERTIFICATE-----",
        f"-----BEGIN PUBLIC KEY-----\n{base64.encodebytes(dice.randbytes(90)).decode()}-----END PUBLIC KEY-----",
        f"ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQ{b64(dice, 372)} me@host",
        f"SHA256:{b64(dice, 32).rstrip('=')} me@host (ED25519)",
        f"-----BEGIN PGP SIGNATURE-----\n\n{base64.encodebytes(dice.randbytes(300)).decode()}-----END PGP SIGNATURE-----",
    ])  # fmt: skip


def git(dice: random.Random) -> str:
    return "\n".join([
        f"commit {digest(dice, 20)}", f"Merge: {digest(dice, 4)[:7]} {digest(dice, 4)[:7]}",
        f"index {digest(dice, 4)[:7]}..{digest(dice, 4)[:7]} 100644", f"tree {digest(dice, 20)}",
        f"    Have the token of {sentence(dice, 5)} expire", f"Change-Id: I{digest(dice, 20)}",
        f"https://github.com/acme/repo/blob/{digest(dice, 20)}/src/token_{dice.randrange(9)}.py#L10-L22",
        f"[submodule \"secret\"] url = git@github.com:acme/secret.git {digest(dice, 20)}",
    ])  # fmt: skip


def addresses(dice: random.Random) -> str:
    return "\n".join([
        f"https://h.example.com:8080/a@b?id={digest(dice, 16)}&v=2", f"https://a.io/{some_uuid(dice)}",
        f"https://www.youtube.com/watch?v={b64url(dice, 8)}&t=42", f"s3://bucket/{digest(dice, 16)}/k",
        f"https://docs.google.com/document/d/1{b64url(dice, 32)}/edit", f"ipfs://bafy{alnum(dice, 55).lower()}",
        f"https://cdn.example.com/main.{digest(dice, 4)}.js?utm_source=token&key=value",
        f"https://a.atlassian.net/browse/KEY-{dice.randrange(9999)}", f"0x{digest(dice, 20)}",
        f"docker.io/library/python@sha256:{digest(dice)}", f"urn:uuid:{some_uuid(dice)}",
        f"arn:aws:kms:eu-west-1:111122223333:key/{some_uuid(dice)}", f"arxiv.org/abs/2{dice.randrange(999)}.01234v2",
    ])  # fmt: skip


def code(dice: random.Random) -> str:
    n = dice.randrange(100)
    return "\n".join(dice.sample([
        f'password = os.environ["DATABASE_PASSWORD_2024_{n}_EU_WEST"]',
        "api_key=config.get_secret_value_v2_of_the_other_module(name)",
        'def check_private_key(pem): return pem.startswith("-----BEGIN PRIVATE KEY-----")',
        "secret: SecretManagerServiceClientConfiguration = make()",
        'url = "postgres://user:password@localhost:5432/db", "https://${USER}:${PASS}@host"',
        'access_token = "your-access-token-goes-here-please"',
        "headers = {\"Authorization\": f\"Bearer {os.environ['API_KEY_OF_THE_SERVICE']}\"}",
        f"token{n} = tokenizer.encode(text)[{n}]; token_type_ids = torch.zeros_like(ids)",
        f"key = f\"user:{{user_id}}:session:{{n}}_{n}\"", "self.key = self._make_key_v2_for_item3(key)",
        "if token.type == Token.COMMENT_START_2: self.token = next_token_or_none(tokens)",
        f"cookie = SimpleCookie(environ.get('HTTP_COOKIE_{n}', ''))  # session cookie",
        "const apiKey = process.env.OPENAI_API_KEY ?? throwMissingKeyError('OPENAI_API_KEY_V2')",
        "API_KEY=<your-api-key-here> SECRET_KEY=change_me_please_now_2024 TOKEN=xxxxxxxxxxxxxxxxxxxxxxxx",
        "sk-learn-based-classifiers-and-other-models, hf_transformers_dataset, AKIAIOSFODNN7EXAMPLE",
        "auth: AuthenticationProviderWithTokenExchangeV2 | None = None",
        f"assert hash_password(pw) == hash_password2(pw), 'passwords {n}'",
        "secretKeyRef: {name: db-credentials-v2, key: postgres-password}",
        "token = request.headers['X-Auth-Token'].removeprefix('Bearer ')",
        "password: ${{ secrets.DOCKERHUB_PASSWORD_2 }}", "webhook: WebhookReceiverConfigurationV1Beta2",
        "export const SESSION_COOKIE_NAME = '__Secure-next-auth.session-token.v2'",
        "curl -u \"$USER:$PASSWORD\" https://host/ && curl --user me:$TOKEN https://host",
        "machine HOST login USER password PASSWORD_OF_THE_USER", "docker login -u user -p $PASSWORD",
        "--token $GITHUB_TOKEN --password-stdin --api-key \"${API_KEY}\"", "Cookie: name=value; other=x",
        'private_key = ec.generate_private_key(ec.SECP256R1(), default_backend2())',
        'token: "{{ .Values.global.serviceAccount2.tokenName1 }}"', "key_id = key.key_id_as_hex2str4()",
    ], 6))  # fmt: skip


def lock_files(dice: random.Random) -> str:
    return "\n".join([
        f'resolved "https://registry.yarnpkg.com/js-tokens/-/js-tokens-4.0.0.tgz#{digest(dice, 20)}"',
        f"integrity sha512-{b64(dice, 64)}", f'    {{ url = "https://files.pythonhosted.org/packages/{digest(dice, 1)}/{digest(dice, 30)}/keyring-25.whl", hash = "sha256:{digest(dice)}" }},',
        f"github.com/golang-jwt/jwt/v5 v5.2.1 h1:{b64(dice, 32)}", f"name = \"secrecy\"\nchecksum = \"{digest(dice)}\"",
        f"    tokenizers (0.20.3) sha256={digest(dice)}", f"secret-service@4.0.0: {digest(dice, 20)}",
    ])  # fmt: skip


def logs(dice: random.Random) -> str:
    return "\n".join([
        f"2026-01-02T03:04:05.678Z INFO [{digest(dice, 8)}-{digest(dice, 4)}] token refreshed for user {some_uuid(dice)}",
        f"key={dice.randrange(10**9)} session=closed token_count={dice.randrange(10**6)} id={alnum(dice, 20)}",
        f"kube-system secret/{sentence(dice, 1)}-{alnum(dice, 5).lower()} pod/api-{alnum(dice, 10).lower()}-{alnum(dice, 5).lower()}",
        f"container {digest(dice)[:12]} image {digest(dice)}", f"span {digest(dice, 8)} parent {digest(dice, 8)}",
        f"00000010: {digest(dice, 2)} {digest(dice, 2)} {digest(dice, 2)}  ..key..", f"mac 02:42:{digest(dice, 1)}",
        f"auth: user {alnum(dice, 12)} ok; password ok; cookie set ({dice.randrange(999)} bytes)",
    ])  # fmt: skip


def prose(dice: random.Random) -> str:
    return " ".join(
        f"The {sentence(dice, 3)} of {sentence(dice, 4)} is {sentence(dice, 2)}, "
        f"and its key is {dice.choice(WORDS)}-{dice.randrange(99)}."
        for _ in range(6)
    )


def opaque(dice: random.Random) -> str:
    """What providers want back unchanged, as it stands in a text of JSON."""
    return json.dumps({
        "thought_signature": b64(dice, 400), "encrypted_content": f"gAAAAA{b64url(dice, 600)}",
        "signature": f"EqQBCkYI{b64(dice, 200)}", "logprob": -0.25, "cursor": b64url(dice, 60),
    })  # fmt: skip


KINDS: Final[dict[str, Make]] = {
    make.__name__: make
    for make in (
        hashes, ids, paging, pictures, certificates, git, addresses, code, lock_files, logs, prose,
        opaque,
    )
}  # fmt: skip


def texts(count: int, seed: int = 1) -> list[tuple[str, str]]:
    """So many texts of all kinds in turn, each with the name of its kind; some as JSON."""
    dice, made, names = random.Random(seed), list[tuple[str, str]](), [*KINDS]
    for number in range(count):
        name = names[number % len(names)]
        text = KINDS[name](dice)
        made.append((name, json.dumps({"stdout": text}) if dice.random() < 0.3 else text))
    return made

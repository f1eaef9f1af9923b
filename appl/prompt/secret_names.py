"""The rule for telling names: those of variables, fields, headers and options that hold a secret.

One rule, for the environment, for settings and options, and for texts that say what a name is
worth. Invariant: pure functions; how a name is written (``apiToken``, ``API_TOKEN``,
``x-api-token``) makes no difference, except that ``key`` alone tells something in capitals only.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

WORDS: Final = (
    "key token secret pass cred pwd priv pem sign cook jwt auth sess webh conn dsn pat head bear"
    " basi"
).split()
"""A part of each telling name, and of the words before a credential in a header."""

_BREAK = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[^A-Za-z0-9]+")
_ABOUT = (
    r"(?:s?_(?:ids?|type|count|url|uri|endpoint|limit|usage|length|index|level|budget|name|ring|size"
    r"|fingerprint|sha\d+|md5|hash|digest|checksum|path|file|board|code|frame|point|space|map|stroke)_|board|word|point|frame|code"
    r"|space|stroke|pad|hole|note|stone)"
)
"""Words that turn a key or a token into a word about it, or another word."""
_TELLS = re.compile(
    rf"access_?key|key(?!{_ABOUT})|token(?!{_ABOUT}|iz|s_)|secret(?!s?_(?:name|arn|path|version|ref)_)"
    r"|passw|passphrase|credential|_creds_|[a-z0-9]_(?:pwd|pat)_$|_dsn_$|pass_$|private|pem_$|signing"
    r"|cookie(?!s?_(?:name|domain|path|policy|consent)_)|jwt|authorization|sess(?:ion)?_?id|webhook(?!s?_(?:id|name|event)_)"
    r"|_auth_(?!(?:type|url|uri|endpoint|method|mode|provider|server|scheme)_)"
    r"|conn(?:ection)?_?str|headers_$"
)
_ORDINARY = re.compile(
    r"_(?:public|pub|primary|foreign|partition|sort|cache|object|row|idempotency|dedup\w*|lookup"
    r"|page|next|prev|previous|starting|continuation|sync|resume|cursor|pagination|pad|bos|eos|unk|cls|sep"
    r"|mask|special|stop|start|end|web_socket)_?(?:key|token)s?_"
    r"|(?<!access_key)(?<!session)(?<!sess)_(?:ids?|arns?|identifiers?)_$"
)
_UNNAMED = re.compile(r"_keys?\d*_")
_KINDS_OF_KEY = re.compile(
    r"_(?:api|access|account|secret|private|license|encryption|decryption|signing|shared|master|auth"
    r"|service|client|admin|app|subscription|deploy|ssh|storage|security|hmac)_keys?_"
)


@lru_cache(maxsize=4096)
def is_likely(name: str) -> bool:
    """True if a variable, field, header or option of this *name* is likely to hold a secret.

    Names of what only looks similar, such as ``public_key``, ``next_page_token`` or ``token_url``,
    tell nothing.
    """
    plain = f"_{_BREAK.sub('_', name).strip('_').lower()}_"
    if _UNNAMED.fullmatch(plain):
        return name.isupper()
    return _TELLS.search(plain) is not None and _ORDINARY.search(plain) is None


def is_kind_of_key(words: str) -> bool:
    """True if two *words* of prose name a key that is secret: ``account key``, not ``this key``."""
    return _KINDS_OF_KEY.fullmatch(f"_{words.lower().replace(' ', '_')}_") is not None

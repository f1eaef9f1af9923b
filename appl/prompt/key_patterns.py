"""Patterns of which one at least finds something in each text that holds a key.

Made by ``python -m tests.canaries.key_patterns`` of the tables of shapes and places, so that a
program without keys loads none of them. Invariant: valid in the syntax of Rust, whose engine is
linear in time. There are some, as it looks for a few beginnings at once and not for hundreds.
"""

from __future__ import annotations

from typing import Final

FIRST: Final = (
    (
        "(?:4b1d|\\.acc|\\.atl|_git|ABIA|ABSK|ACCA|acce|AGE\\-|AIza|AKCp|AKIA|API\\-|apif|AQV"
        "N|ASIA|ATAT|ATBB|ATCT|bedr|bkua|CCIP|CFPA|CLOJ|cmVm|csk\\-|dapi|dckr|disc|dnke|dt"
        "0c|dt0s|duff|EAAA|EAAC|EAAM|eyJr|EZAK|EZTK|figd|fio\\-|FLWS|fm1a|fm1r)[A-Za-z0-9+"
        "/_=~.@:-]{12}"
    ),
    (
        "(?:fm2_|fo1_|gho_|ghp_|ghr_|ghs_|ghu_|gith|glag|glc_|glcb|gldt|glff|glft|glim|gl"
        "oa|glpa|glpt|glrt|glsa|glso|GOCS|GR13|gsk_|hook|HRKU|hvb\\.|hvr\\.|hvs\\.|ico\\-|jin"
        "a|lin_|LS0t|lsv2|LTAI|nfp_|npm_|NRAK|NRII|NRJS|ntn_|nvap|ops_|p8e\\-)[A-Za-z0-9+/"
        "_=~.@:-]{12}"
    ),
    (
        "(?:pat\\.|pcsk|PMAK|pnu_|pplx|prta|psca|pul\\-|pypi|rdme|rnd_|rpa_|ruby|s\\-s4|sat\\"
        ".|sb_s|sbp_|sgp_|sha2|ship|sm_a|sm_p|sm_s|sntr|sq0a|sq0c|sqa_|sqp_|squ_|tfp_|tgp"
        "_|tk\\-u|tske|tvly|v1\\.0|webh|whse|xai\\-|xkey|ya29|ZXlK)[A-Za-z0-9+/_=~.@:-]{12}"
    ),
    (
        "[rsp]k-[A-Za-z0-9_-]{20}|[rsp]k_(?:live_|test_|prod_|[a-f0-9]{40})|fw_[A-Za-z0-9"
        "]{20}|r8_[A-Za-z0-9]{30}|(?:hf_|api_org_)[A-Za-z0-9]{20}"
    ),
    (
        "(?:xox[a-z][.-]|xapp-)[A-Za-z0-9_-]{10}|Q~[A-Za-z0-9_~.-]{31}|SG\\.[A-Za-z0-9_-]{"
        "22}\\.[A-Za-z0-9_-]{16}|_v1_[a-f0-9]{32}|shp[a-z]{2}_[a-fA-F0-9]{32}"
    ),
    (
        "dp\\.[a-z]{2,5}\\.[a-zA-Z0-9_-]{2}|pat[A-Za-z0-9]{14}\\.[a-f0-9]{64}|A3-[A-Z0-9]{6}"
        "-[A-Z0-9]{6}|[ps]k\\.[A-Za-z0-9_-]{50}|sl\\.(?:u\\.)?[A-Za-z0-9_=-]{100}"
    ),
    (
        "t1\\.[A-Za-z0-9_-]{8,512}={0,2}\\.[A-Za-z0-9_-]{86}|SK[0-9a-f]{32}|:A[A-Za-z0-9_-]"
        "{33}|(?:M[DTjz]|N[DTjz]|O[DT])[A-Za-z0-9_-]{20,26}\\.[A-Za-z0-9_-]{6}\\.[A-Za-z0-9"
        "_-]{27}|_mmk"
    ),
    (
        "eyJ[A-Za-z0-9_-]+\\.[A-Za-z0-9_-]+\\.[A-Za-z0-9_-]{16}|-----BEGIN [A-Z0-9 ]{0,40}P"
        "RIVATE KEY|://[^/\\s:@\\\"'<>]{0,256}:[^/\\s@\\\"'<>]+@|sig=[A-Za-z0-9+/_~%-]{20}|curl"
        "\\s(?:(?:[^\\n]|\\\\\\n){0,300}\\s)?(?:-u|--user)|machine(?:\\s|\\\\)[\\s\\S]{0,400}passwor"
        "d|otpauth://"
    ),
    (
        "(?:key|Key|KEY|token|Token|TOKEN|secret|Secret|SECRET|pass|Pass|PASS|cred|Cred|C"
        "RED|pwd|Pwd|PWD|priv|Priv|PRIV|pem|Pem|PEM|sign|Sign|SIGN|cook|Cook|COOK|jwt|Jwt"
        "|JWT|auth|Auth|AUTH|sess|Sess|SESS|webh|Webh|WEBH|conn|Conn|CONN|dsn|Dsn|DSN|pat"
        "|Pat|PAT|head|Head|HEAD|bear|Bear|BEAR|basi|Basi|BASI)(?:[A-Za-z0-9_.-]{0,40}(?:"
        "[\\\\\\\"'`\\]]{0,6}(?:\\s{0,4}(?:[:=|>][=>]?|->)|\\s{1,4}is\\s)\\s{0,4}[\\\\\\\"'`]{0,6}|[\\\\"
        "\\\"']{0,4},?(?:\\s|\\\\[nrt]){0,40}[\\\\\\\"']{0,4}[Vv]alue[\\\\\\\"'`\\]]{0,6}\\s{0,4}[:=|>]\\"
        "s{0,4}[\\\\\\\"'`]{0,6})(?:(?:bearer|Bearer|BEARER|basic|Basic|BASIC|token|Token|TOK"
        "EN)\\s{1,4})?|[A-Za-z0-9_.-]{0,40}\\s{1,4}[\\\\\\\"']{0,4}(?:(?:bearer|Bearer|BEARER|b"
        "asic|Basic|BASIC|token|Token|TOKEN)\\s{1,4})?)(?:[A-Za-z0-9+/_=~.:%|@!#^*$-]{0}[0"
        "-9][A-Za-z0-9+/_=~.:%|@!#^*$-]{14}|[A-Za-z0-9+/_=~.:%|@!#^*$-]{1}[0-9][A-Za-z0-9"
        "+/_=~.:%|@!#^*$-]{13}|[A-Za-z0-9+/_=~.:%|@!#^*$-]{2}[0-9][A-Za-z0-9+/_=~.:%|@!#^"
        "*$-]{12}|[A-Za-z0-9+/_=~.:%|@!#^*$-]{3}[0-9][A-Za-z0-9+/_=~.:%|@!#^*$-]{11}|[A-Z"
        "a-z0-9+/_=~.:%|@!#^*$-]{4}[0-9][A-Za-z0-9+/_=~.:%|@!#^*$-]{10}|[A-Za-z0-9+/_=~.:"
        "%|@!#^*$-]{5}[0-9][A-Za-z0-9+/_=~.:%|@!#^*$-]{9}|[A-Za-z0-9+/_=~.:%|@!#^*$-]{6}["
        "0-9][A-Za-z0-9+/_=~.:%|@!#^*$-]{8}|[A-Za-z0-9+/_=~.:%|@!#^*$-]{7}[0-9][A-Za-z0-9"
        "+/_=~.:%|@!#^*$-]{7}|[A-Za-z0-9+/_=~.:%|@!#^*$-]{8}[0-9][A-Za-z0-9+/_=~.:%|@!#^*"
        "$-]{6}|[A-Za-z0-9+/_=~.:%|@!#^*$-]{9}[0-9][A-Za-z0-9+/_=~.:%|@!#^*$-]{5}|[A-Za-z"
        "0-9+/_=~.:%|@!#^*$-]{10}[0-9][A-Za-z0-9+/_=~.:%|@!#^*$-]{4}|[A-Za-z0-9+/_=~.:%|@"
        "!#^*$-]{11}[0-9][A-Za-z0-9+/_=~.:%|@!#^*$-]{3}|[A-Za-z0-9+/_=~.:%|@!#^*$-]{12}[0"
        "-9][A-Za-z0-9+/_=~.:%|@!#^*$-]{2}|[A-Za-z0-9+/_=~.:%|@!#^*$-]{13}[0-9][A-Za-z0-9"
        "+/_=~.:%|@!#^*$-]{1}|[A-Za-z0-9+/_=~.:%|@!#^*$-]{14}[0-9][A-Za-z0-9+/_=~.:%|@!#^"
        "*$-]{0}|[A-Za-z0-9+/_=~.:%|@!#^*$-]{15,47}[0-9])|(?:Cook|cook|COOK)(?:ie|IE)[\\\\\\"
        "\"']{0,4}\\s?:|(?:Pass|pass|PASS)(?:word|WORD)=|(?:Pwd|pwd|PWD)=|Signature="
    ),
)

#!/usr/bin/env bash
# Every figure that needs no GPU, in about twenty minutes: benchmarks/run.sh [OUT_FOLDER]
# Writes JSON or text for each into OUT_FOLDER (default: benchmarks/results). For figures like those
# kept here, let nothing else run. The GPU part is benchmarks/gpu/run.sh; what compares with other
# packages, checkouts or servers says itself how it is run: replay, conciseness, http_clients,
# otel_phoenix, otel_senders, real_sglang.
set -euo pipefail
cd "$(dirname "$0")/.."
out="${1:-benchmarks/results}"
mkdir -p "$out"
export PYTHONPATH=.:backends APPL_RESULTS="$out"
python="${PYTHON:-python3}"

for name in plain calls waiting prompt schedule schedule_limits server_calls web_server providers interfaces; do
    printf '\n=== %s\n' "$name"
    "$python" "benchmarks/$name.py" --json "$out/$name.json"
done
for name in blocking decorate radix engine drafts residency keeping $(command -v chromium >/dev/null && echo viewer); do
    printf '\n=== %s\n' "$name"
    { printf '%s  $ python benchmarks/%s.py\n' "$(date +%F)" "$name" && "$python" "benchmarks/$name.py"; } | tee "$out/$name.txt"
done
for name in trace recording recording_age lasting "large --write"; do # these write their tables themselves
    printf '\n=== %s\n' "$name"
    # shellcheck disable=SC2086 # two words
    set -- $name
    "$python" "benchmarks/$1.py" "${@:2}"
done
printf '\n=== equivalence, 2,500 random programs\n'
{ printf '%s  $ python -m tests.equivalence 10001 12500\n' "$(date +%F)" && "$python" -m tests.equivalence 10001 12500; } | tee "$out/equivalence-long.txt"

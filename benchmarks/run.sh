#!/usr/bin/env bash
# Every figure that needs no GPU, in about a quarter of an hour: benchmarks/run.sh [OUT_FOLDER]
# Writes JSON or text for each into OUT_FOLDER (default: benchmarks/results). For figures like those
# kept here, let nothing else run. The GPU part is benchmarks/gpu/run.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
out="${1:-benchmarks/results}"
mkdir -p "$out"
export PYTHONPATH=.:backends
python="${PYTHON:-python3}"

for name in plain calls waiting prompt schedule schedule_limits native providers; do
    printf '\n=== %s\n' "$name"
    "$python" "benchmarks/$name.py" --json "$out/$name.json"
done
for name in decorate trace radix engine $(command -v chromium >/dev/null && echo viewer); do
    printf '\n=== %s\n' "$name"
    { printf '%s  $ python benchmarks/%s.py\n' "$(date +%F)" "$name" && "$python" "benchmarks/$name.py"; } | tee "$out/$name.txt"
done
printf '\n=== equivalence, 2,500 random programs\n'
"$python" -m tests.equivalence 10001 12500 | tee "$out/equivalence-long.txt"

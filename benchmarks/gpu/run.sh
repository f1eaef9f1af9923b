#!/usr/bin/env bash
# The GPU figures of benchmarks/results, on a machine with a Hopper GPU, its driver and SGLang.
# usage: run.sh PART OUT_FOLDER START MODEL_FOLDER
#   PART     loads      the four loads, our scheduler against all requests at once; the same answers
#                       of the shipped model on SGLang as of the embedded engine
#            small      a cache smaller than the working set
#            frontends  six programs against SGLang's frontend and asyncio with the openai SDK
#            all        the three, one after the other
#   START    a command that starts a server: START MODEL_FOLDER PORT [FLAGS], and returns when it
#            answers (`appl serve sglang` does so too; the figures kept here used SGLang 0.5.17)
#   MODEL_FOLDER  configuration and tokenizer of an 8B Llama; its weights are not needed (dummy)
set -euo pipefail
self="$(realpath "$0")" part="$1" out="$(realpath "$2")" start="$(realpath "$3")" model="$(realpath "$4")"
cd "$(dirname "$0")/../.."
python="${PYTHON:-python3}"
end() { pkill -f "sglang.launch_server.*--port $1" || true; sleep 8; }
nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader || true
case "$part" in
loads)
    "$start" "$model" 30000 --load-format dummy --context-length 32768
    "$python" benchmarks/gpu/loads.py http://127.0.0.1:30000 --tokenizer "$model" --pairs "${PAIRS:-5}" --json "$out/gpu-loads.json"
    end 30000
    "$start" backends/appl_backends/embedded/weights 30001 --dtype "${DTYPE:-float16}"
    answers="${ANSWERS:-$out/answers.json}"
    [ -e "$answers" ] || "$python" benchmarks/gpu/same_answers.py write "$answers"
    "$python" benchmarks/gpu/same_answers.py compare "$answers" \
        http://127.0.0.1:30001 --json "$out/gpu-same-answers.json" || true
    end 30001
    ;;
small)
    "$start" "$model" 30000 --load-format dummy --context-length 32768 --max-total-tokens 40000
    "$python" benchmarks/gpu/loads.py http://127.0.0.1:30000 --tokenizer "$model" --small --pairs "${PAIRS:-2}" --json "$out/gpu-small-cache.json"
    end 30000
    ;;
frontends)
    "$start" "$model" 30000 --load-format dummy --context-length 32768
    "$python" benchmarks/gpu/frontends.py http://127.0.0.1:30000 --tokenizer "$model" --rounds "${PAIRS:-3}" \
        ${PROGRAMS:+--programs "$PROGRAMS"} ${SIDES:+--sides "$SIDES"} --scale "${SCALE:-1}" --json "$out/gpu-frontends.json"
    end 30000
    ;;
all)
    for each in loads small frontends; do "$self" "$each" "$out" "$start" "$model"; done
    ;;
*)
    echo "PART is loads, small, frontends or all" >&2
    exit 2
    ;;
esac

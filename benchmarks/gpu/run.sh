#!/usr/bin/env bash
# The GPU figures of benchmarks/results, on a machine with a Hopper GPU, its driver and SGLang.
# usage: run.sh PART OUT_FOLDER START MODEL_FOLDER
#   PART     loads      the four loads, our scheduler against all requests at once; the same answers
#                       of the shipped model on SGLang as of the embedded engine
#            small      a cache smaller than the working set
#            passages   retrieved passages as found and in shared order, with a small cache
#            tree       tree search by appl.keep, with a cache of a quarter of the need
#            ngram      reruns after an edit with a second server that speculates, on one GPU
#            apart      two GPUs: prompts and answers on servers of their own, against two replicas,
#                       plain and with --enable-mixed-chunk (NIXL must be installed for START)
#            frontends  six programs against SGLang's frontend and asyncio with the openai SDK
#            all        loads, small and frontends, one after the other
#   START    a command that starts a server: START MODEL_FOLDER PORT [FLAGS], and returns when it
#            answers (`appl serve sglang` does so too; the figures kept here used SGLang 0.5.17)
#            ngram and apart start two servers at once: whatever START unpacks must be there by then
#   PORT     of the first server, 30000 if it is not set; of two, the second one has the next
#   MODEL_FOLDER  configuration and tokenizer of an 8B Llama; its weights are not needed (dummy)
set -euo pipefail
self="$(realpath "$0")" part="$1" out="$(realpath "$2")" start="$(realpath "$3")" model="$(realpath "$4")"
cd "$(dirname "$0")/../.."
python="${PYTHON:-python3}" one="${PORT:-30000}" two="$((${PORT:-30000} + 1))"
end() { pkill -f "sglang.launch_server.*--port $1" || true; sleep 8; }
nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader || true
case "$part" in
loads)
    "$start" "$model" "$one" --load-format dummy --context-length 32768
    "$python" benchmarks/gpu/loads.py "http://127.0.0.1:$one" --tokenizer "$model" --pairs "${PAIRS:-5}" --json "$out/gpu-loads.json"
    end "$one"
    "$start" backends/appl_backends/embedded/weights "$two" --dtype "${DTYPE:-float16}"
    answers="${ANSWERS:-$out/answers.json}"
    [ -e "$answers" ] || "$python" benchmarks/gpu/same_answers.py write "$answers"
    "$python" benchmarks/gpu/same_answers.py compare "$answers" \
        "http://127.0.0.1:$two" --json "$out/gpu-same-answers.json" || true
    end "$two"
    ;;
small)
    "$start" "$model" "$one" --load-format dummy --context-length 32768 --max-total-tokens 40000
    "$python" benchmarks/gpu/loads.py "http://127.0.0.1:$one" --tokenizer "$model" --small --pairs "${PAIRS:-2}" --json "$out/gpu-small-cache.json"
    end "$one"
    ;;
frontends)
    "$start" "$model" "$one" --load-format dummy --context-length 32768
    "$python" benchmarks/gpu/frontends.py "http://127.0.0.1:$one" --tokenizer "$model" --rounds "${PAIRS:-3}" \
        ${PROGRAMS:+--programs "$PROGRAMS"} ${SIDES:+--sides "$SIDES"} --scale "${SCALE:-1}" --json "$out/gpu-frontends.json"
    end "$one"
    ;;
passages)
    "$start" "$model" "$one" --load-format dummy --context-length 32768 --max-total-tokens 12096
    "$python" benchmarks/gpu/sharing.py passages "http://127.0.0.1:$one" --tokenizer "$model" --template plain \
        --rounds "${PAIRS:-2}" --json "$out/gpu-passages.json"
    end "$one"
    ;;
tree)
    "$start" "$model" "$one" --load-format dummy --context-length 32768 --max-total-tokens "${TOKENS:-3396}"
    "$python" benchmarks/gpu/sharing.py tree "http://127.0.0.1:$one" --tokenizer "$model" --template plain \
        --rounds "${PAIRS:-2}" --json "$out/gpu-tree.json"
    end "$one"
    ;;
ngram)
    # Both fit on 80 GB: the caches are bounded, so neither takes what the other finds free.
    flags="--load-format dummy --context-length 32768 --max-total-tokens 80000"
    "$start" "$model" "$one" $flags & first=$!
    "$start" "$model" "$two" $flags --speculative-algorithm NGRAM --speculative-num-draft-tokens 8 \
        --speculative-ngram-external-sam-budget 7 --max-running-requests 64 & second=$!
    wait $first; wait $second
    "$python" benchmarks/gpu/ngram.py "http://127.0.0.1:$one" "http://127.0.0.1:$two" --tokenizer "$model" \
        --template plain --rounds "${PAIRS:-3}" --at-once "${AT_ONCE:-8,64}" --json "$out/gpu-ngram.json"
    end "$two"
    end "$one"
    ;;
apart)
    export SGLANG_HOST_IP=127.0.0.1 UCX_TLS="${UCX_TLS:-cuda_ipc,cuda_copy,sm,tcp,self}"
    flags="--load-format dummy --context-length 32768 --page-size ${PAGE:-64}"
    measure() { "$python" benchmarks/gpu/apart.py "$@" --tokenizer "$model" --template plain --rounds "${ROUNDS:-1}" --seconds "${SECONDS_EACH:-30}"; }
    pair() { # FLAGS_OF_THE_FIRST -- FLAGS_OF_THE_SECOND
        local flags_of_first=() first second
        while [ "$1" != -- ]; do flags_of_first+=("$1"); shift; done
        shift
        CUDA_VISIBLE_DEVICES=0 "$start" "$model" "$one" $flags "${flags_of_first[@]}" & first=$!
        CUDA_VISIBLE_DEVICES=1 "$start" "$model" "$two" $flags "$@" & second=$!
        wait $first; wait $second
    }
    nixl="--disaggregation-transfer-backend nixl"
    for side in ${SIDES:-apart mixed plain}; do # each takes about three minutes
        kind=replicas
        case "$side" in
        apart)
            kind=apart
            pair --disaggregation-mode prefill $nixl --disaggregation-bootstrap-port 8998 -- \
                --disaggregation-mode decode $nixl --disaggregation-decode-enable-radix-cache
            ;;
        mixed) pair --enable-mixed-chunk -- --enable-mixed-chunk ;;
        plain) pair -- ;;
        esac
        measure $kind "http://127.0.0.1:$one" "http://127.0.0.1:$two" --json "$out/gpu-$side.json"
        end "$one" & end "$two" & wait
    done
    for side in mixed plain; do
        [ -e "$out/gpu-apart.json" ] && [ -e "$out/gpu-$side.json" ] || continue
        "$python" benchmarks/gpu/apart.py compare "$out/gpu-apart.json" "$out/gpu-$side.json"
    done
    ;;
all)
    for each in loads small frontends; do "$self" "$each" "$out" "$start" "$model"; done
    ;;
*)
    echo "PART is loads, small, passages, tree, ngram, apart, frontends or all" >&2
    exit 2
    ;;
esac

#!/bin/sh
# What has to be seen on a GPU, in one go:  sh tools/gpu_day.sh [--beside OLD-ZEST] [PART...]
#
#   tests      make test-gpu
#   journals   the same command twice, four at a time, and resumed: the same journal. Run it with MPS and without
#   runs       300 training runs, five at a time, of every method; each must end well, with one
#              journal and the same weights for a method and type
#   sanitizer  compute-sanitizer memcheck and racecheck of a short run, and of the tests with every model family
#   speed      bench/gpu_table.py, and with --beside another program in alternation; ZEST_CUDA_TUNE=on beside the default
#
# Parts that are done are remembered in build/gpu-day and skipped: run it again after an interruption. Each part has a
# limit of time (LIMIT seconds, 3000). Nothing is installed or removed. MPS is used if it runs; with
# DAY=build/gpu-day-mps all is done once more under it.
set -u
cd "$(dirname "$0")/.." || exit 1
: "${ZEST:=./zest}" "${LIMIT:=3000}" "${RUNS:=300}" "${AT_ONCE:=5}" "${DAY:=build/gpu-day}"
export ZEST AT_ONCE RUNS DAY
beside=""
if [ "${1:-}" = --beside ]; then beside=$2 && shift 2; fi

data="--model examples/roberta-tiny --task examples/reviews/reviews.task --shots 16 --device cuda"
export data

# ---- The parts; each runs in a shell of its own, with a limit ----

tests() { make test-gpu; }

journals() { sh tests/cuda/gpu_journals.sh; }

# One of the runs: its number chooses the method and type. A line "number method status sum-of-journal" is its result.
one_run() {
    set -- "$1" $(echo "zest-n mezo sgd adamw sam" | cut -d ' ' -f $(($1 % 5 + 1))) $(($1 / 5 % 2))
    compute=$([ "$3" -eq 0 ] && echo bf16 || echo f32)
    folder=$DAY/runs/$1
    grep -q "^$1 " "$DAY/runs.txt" 2>/dev/null && return
    rm -rf "$folder"
    # shellcheck disable=SC2086
    timeout 300 "$ZEST" train $data --method "$2" --compute "$compute" --steps 40 --eval-every 20 --seed 3 \
        --out "$folder" >"$folder.log" 2>&1
    status=$?
    sum=none
    [ -s "$folder/last/model.safetensors" ] && sum=$(cat "$folder/journal" "$folder/last/model.safetensors" | cksum | tr ' ' -)
    [ $status -eq 0 ] && rm -rf "$folder" "$folder.log"
    echo "$1 $2-$compute $status $sum" >>"$DAY/runs.txt"
}

runs() {
    mkdir -p "$DAY/runs"
    seq "$RUNS" | xargs -P "$AT_ONCE" -n 1 sh tools/gpu_day.sh --one-run
    awk '{ runs[$2]++; bad[$2] += $3 != 0; if (!(($2, $4) in seen)) { seen[$2, $4] = 1; kinds[$2]++ } n++; failed += $3 != 0 }
        END { for (m in runs) { printf "  %-12s %3d runs, %d failed, %d different journals and weights\n", m, runs[m], bad[m], kinds[m]
                                if (kinds[m] > 1) differ = 1 }
              printf "  %d runs, %d failed\n", n, failed; exit failed || differ || n < 1 }' "$DAY/runs.txt"
}

# check NAME TOOL SECONDS COMMAND...: once with compute-sanitizer
check() {
    name=$1 tool=$2 seconds=$3
    shift 3
    [ -e "$DAY/$name.ok" ] && return
    if timeout "$seconds" compute-sanitizer --tool "$tool" --error-exitcode 9 "$@" >"$DAY/$name.log" 2>&1; then
        touch "$DAY/$name.ok"
    else
        echo "  $name: status $?, see $DAY/$name.log"
        worst=1
    fi
}

# test_model_device runs every model family of tests/data, test_grad_device their backward passes.
sanitizer() {
    command -v compute-sanitizer >/dev/null 2>&1 || { echo "  compute-sanitizer was not found"; return 1; }
    worst=0
    for tool in memcheck racecheck; do
        for compute in bf16 f32; do
            # shellcheck disable=SC2086
            check "$tool-train-$compute" $tool 300 "$ZEST" train $data --k 2 --compute $compute --steps 2 --eval-every 0 \
                --test-size 8
        done
        for test in test_gemm test_model_device test_grad_device test_ops_device; do
            check "$tool-$test" $tool 600 env ZEST_NEED_CUDA=1 "build/tests/$test"
        done
    done
    return $worst
}

speed() {
    # shellcheck disable=SC2086
    python3 bench/gpu_table.py --rounds 3 --zest "$ZEST" ${beside:+--beside $beside} || return 1
    echo "  GEMMs chosen by timing (ZEST_CUDA_TUNE=on):"
    ZEST_CUDA_TUNE=on python3 bench/gpu_table.py --rounds 3 --zest "$ZEST"
}

# ---- All of them ----

case "${1:-}" in
--one-run) one_run "$2"; exit 0 ;;
--part) "$2"; exit $? ;;
esac
nvidia-smi -L 2>/dev/null | head -n 1 | grep -q GPU || { echo "gpu_day.sh: there is no GPU here" >&2; exit 77; }
[ -x "$ZEST" ] || { echo "gpu_day.sh: $ZEST was not built" >&2; exit 1; }
mkdir -p "$DAY"
failed=0
for part in ${*:-tests journals runs sanitizer speed}; do
    case " tests journals runs sanitizer speed " in *" $part "*) ;; *) echo "gpu_day.sh: no part $part" >&2; exit 2 ;; esac
    if [ -e "$DAY/$part.done" ]; then
        echo "$part: done before"
        continue
    fi
    began=$(date +%s)
    timeout "$LIMIT" sh tools/gpu_day.sh ${beside:+--beside "$beside"} --part "$part" >"$DAY/$part.log" 2>&1
    status=$?
    result="failed with $status, see $DAY/$part.log"
    if [ $status -eq 0 ]; then result=good && touch "$DAY/$part.done"; else failed=1; fi
    echo "$part: $result, $(($(date +%s) - began)) s"
    case $part in runs | sanitizer) grep "^  " "$DAY/$part.log" ;; speed) cat "$DAY/$part.log" ;; tests) tail -n 1 "$DAY/$part.log" ;; esac
done
exit $failed

#!/bin/sh
# Strong and weak scaling of zest train on this machine: seconds a step for 1, 2, 4, .. ranks, by the log of each run.
#   bench/scaling.sh [RANKS...]       default: 1 2 4
# MODEL and TASK name others than the demo's; OPTIONS are added to the command (--device cuda).
# strong: the same BATCH (64) for all; weak: a quarter of it for each rank.
# Ranks beyond the cores share them: then strong scaling shows what the division costs, not what it gains.
set -eu
: "${ZEST:=./zest}" "${MODEL:=examples/roberta-tiny}" "${TASK:=examples/reviews/reviews.task}" "${STEPS:=20}"
: "${BATCH:=64}" "${OPTIONS:=}"
: "${MPIRUN:=mpirun --oversubscribe --bind-to none}" "${OMP_NUM_THREADS:=1}"
export OMP_NUM_THREADS OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
[ $# -gt 0 ] || set -- 1 2 4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# Seconds of the median step: the times of the log are those since the start.
median_step() {
    sed -n 's/.*"step": *\([0-9]*\).*"seconds": *\([0-9.e-]*\).*/\1 \2/p' "$1" | grep -v '^0 ' |
        awk 'NR > 1 { print $2 - last } { last = $2 }' | sort -g | awk '{ t[NR] = $1 } END { print t[int((NR + 1) / 2)] }'
}
measure() { # ranks, batch
    rm -rf "$work/run"
    # shellcheck disable=SC2086
    $MPIRUN -n "$1" "$ZEST" train --model "$MODEL" --task "$TASK" --shots 128 --batch "$2" --k 5 --steps "$STEPS" \
        --eval-every 0 --dev-size 2 --test-size 2 --seed 1 --out "$work/run" --quiet $OPTIONS >/dev/null
    median_step "$work/run/log.jsonl"
}

printf '%-8s %6s %6s %12s %10s\n' scaling ranks batch 's a step' 'speed-up'
for kind in strong weak; do
    one=""
    for ranks in "$@"; do
        batch=$BATCH
        if [ $kind = weak ]; then batch=$((BATCH / 4 * ranks)); fi
        seconds=$(measure "$ranks" $batch)
        [ -n "$one" ] || one=$(awk "BEGIN { print $seconds * $1 / $batch }")
        awk "BEGIN { printf \"%-8s %6d %6d %12.4f %10.2f\n\", \"$kind\", $ranks, $batch, $seconds, $one * $batch / $1 / $seconds }"
    done
done

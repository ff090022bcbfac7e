#!/bin/sh
# The most memory that a few steps of every method take, as a table for docs/memory.md: MiB of the GPU's memory, or,
# on the CPU, of the process.   bench/memory.sh MODEL [cpu|cuda [RUNS AT A TIME]]
set -eu
model=$1 device=${2:-cpu} together=${3:-1}
zest=${ZEST:-./zest} task=${TASK:-examples/reviews/reviews.task}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
key=peak_bytes
[ "$device" = cpu ] || key=device_peak_bytes

# measure ROW COLUMN OPTIONS...: a file with the figure, or with what went wrong
measure() {
    file=$work/$1.$2
    shift 2
    if "$zest" train --model "$model" --task "$task" --shots 64 --test-size 64 --batch 32 --seed 1 --steps 3 --quiet --json \
        --device "$device" "$@" >"$file.out" 2>"$file.err"; then
        sed -n "s/.*\"$key\": \([0-9]*\).*/\1/p" "$file.out" | awk '{ printf "%.0f\n", $1 / 1048576 }' >"$file"
    else
        tail -n 1 "$file.err" >"$file"
    fi
}

running=0
start() {
    measure "$@" &
    running=$((running + 1))
    [ $((running % together)) -ne 0 ] || wait
}

# The rows: options of the method, then what the table says.
rows='--method mezo --live 1|MeZO, k = 5, `--live 1`
--method zest-n --live 1|ZEST-N, k = 5, `--live 1`
--method zest-n|ZEST-N, k = 5, all pairs live
--method sgd|SGD
--method esam|ESAM, k = 5
--method tsam|TSAM, k = 5
--method sgd --momentum 0.9|SGD, momentum 0.9
--method sam|SAM
--method tsam --ascent 0.01|TSAM, k = 5, `--ascent 0.01`
--method adamw|AdamW'
count=$(echo "$rows" | wc -l)
for row in $(seq "$count"); do
    options=$(echo "$rows" | sed -n "${row}s/|.*//p")
    # shellcheck disable=SC2086 # options are several words
    {
        start "$row" f32 --weights f32 $options
        case "$options" in
        *mezo* | *zest*) ;;
        *) start "$row" recompute --weights f32 --recompute $options ;;
        esac
        start "$row" bf16 --weights bf16 --compute bf16 $options
    }
done
wait
echo '| method | fp32 | with `--recompute` | bf16 |'
echo '|---|---|---|---|'
for row in $(seq "$count"); do
    printf '| %s |' "$(echo "$rows" | sed -n "${row}s/.*|//p")"
    for column in f32 recompute bf16; do printf ' %s |' "$(cat "$work/$row.$column" 2>/dev/null)"; done
    printf '\n'
done

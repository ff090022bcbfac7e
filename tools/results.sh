#!/bin/sh
# The runs behind docs/results.md:  tools/results.sh MODEL DATA OUT PART [options of zest train...]
# PART: sst2, trec, mrpc or types. JOBS runs at a time (1). A run that is finished is left alone, one that was broken off goes on.
set -eu
model=$1 data=$2 out=$3 part=$4
shift 4
zest=${ZEST:-./zest}
mkdir -p "$out"

train() { # name, options...
    name=$1
    shift
    [ -e "$out/$name/result.json" ] && return
    if [ -e "$out/$name/journal" ]; then
        "$zest" train --resume "$out/$name" --quiet
    else
        "$zest" train --model "$model" --data "$data" --k 5 --rho 0.002 --eval-every 100 "$@" --out "$out/$name" --quiet
    fi >"$out/$name.txt" 2>&1 || echo "$name failed: $(tail -n 1 "$out/$name.txt")"
}

running=0
start() {
    train "$@" &
    running=$((running + 1))
    if [ $running -ge "${JOBS:-1}" ]; then
        wait
        running=0
    fi
}

# every method at every tilt, clean and noisy
table() { # task, steps, lr, seeds, options...
    task=$1 steps=$2 lr=$3 seeds=$4
    shift 4
    for noise in 0 0.3; do
        for seed in $seeds; do
            for method in "mezo 0" "zest-n 1" "zest-n 5" "zest-bc 1" "zest-bc 5"; do
                start "$task-noise$noise-seed$seed-${method% *}-t${method#* }" --task "$task" --steps "$steps" --lr "$lr" \
                    --label-noise "$noise" --seed "$seed" --method "${method% *}" --t "${method#* }" "$@"
            done
        done
    done
    wait
    running=0
}

case $part in
sst2) table SST-2 1500 1e-4 "42 13 21" --batch 128 --shots 512 "$@" ;;
trec) table TREC 3000 5e-5 "42" --batch 128 --shots 512 "$@" ;;
mrpc) table MRPC 1500 1e-4 "42" --batch 128 --shots 512 "$@" ;;
types) # the same runs with weights of other types, and rounded to the nearest
    for seed in 42 13 21; do
        for type in "f32 stochastic" "bf16 stochastic" "bf16 nearest"; do
            start "types-seed$seed-${type% *}-${type#* }" --task SST-2 --steps 1500 --lr 1e-4 --batch 128 --shots 512 --seed "$seed" \
                --method mezo --weights "${type% *}" --rounding "${type#* }" "$@"
        done
    done
    wait
    ;;
*)
    echo "no part is called $part" >&2
    exit 2
    ;;
esac

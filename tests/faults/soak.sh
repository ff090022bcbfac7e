#!/bin/sh
# The soak: one long run of a tiny model, killed and resumed now and then. Its memory, its descriptors and the bytes that
# a step adds to its folder must not grow with the steps.
#
#   sh tests/faults/soak.sh [STEPS] [KILLS]        100,000 steps, 10 kills
. tests/faults/lib.sh
steps=${1:-100000} kills=${2:-10}
make_work soak
make_tiny
command_of() { # folder
    echo "train --model $work/tiny --task $work/data/tiny.task --shots 4 --batch 1 --k 1 --lr 1e-4 --test-size 4" \
        "--on-divergence continue --steps $steps --eval-every $((steps / 100)) --quiet --out $1"
}
steps_of() { echo $((($(stat -c %s "$work/run/journal" 2>/dev/null || echo 0)) / 36)); }

began=$(date +%s) killed=0
printf '%10s %10s %12s %8s %14s\n' seconds steps "memory KiB" files "bytes a step"
# shellcheck disable=SC2046
"$ZEST" $(command_of "$work/run") >"$work/out" 2>"$work/err" &
process=$! last_step=0 last_bytes=0 first="" line=""
while kill -0 $process 2>/dev/null; do
    sleep 2
    step=$(steps_of)
    [ $((step - last_step)) -ge $((steps / 12)) ] || continue
    rss=$(sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$process/status" 2>/dev/null)
    open=$(ls "/proc/$process/fd" 2>/dev/null | wc -l)
    bytes=$(du -sb "$work/run" | cut -f 1)
    [ -n "$rss" ] || break
    printf '%10d %10d %12d %8d %14d\n' $(($(date +%s) - began)) "$step" "$rss" "$open" $(((bytes - last_bytes) / (step - last_step)))
    last_step=$step last_bytes=$bytes
    if [ -z "$first" ]; then first=$rss first_open=$open; fi
    [ "$rss" -le $((first * 11 / 10 + 1024)) ] || fail "memory grew from $first to $rss KiB"
    [ "$open" -le "$first_open" ] || fail "descriptors grew from $first_open to $open"
    if [ $killed -lt "$kills" ]; then
        kill -9 $process
        wait $process 2>/dev/null
        killed=$((killed + 1))
        "$ZEST" train --resume "$work/run" --quiet >"$work/out" 2>"$work/err" &
        process=$!
    fi
done
wait $process || fail "$(cat "$work/err")"
# shellcheck disable=SC2046
"$ZEST" $(command_of "$work/whole") >"$work/out" 2>"$work/err" || fail "$(cat "$work/err")"
for file in journal last/model.safetensors best/model.safetensors; do
    cmp "$work/run/$file" "$work/whole/$file" || fail "$file differs"
done
echo "$steps steps, $killed kills: the bits of a run that nothing disturbed; $(du -sb "$work/run" | cut -f 1) bytes"

#!/bin/sh
# A run of millions of steps: how long it takes to open and to resume. Such a run is made from a short one
# (tests/programs/long_run.c).
#
#   sh tests/faults/long.sh [STEPS]         10,000,000 steps: 360 MB of journal, 2 GB of log
. tests/faults/lib.sh
steps=${1:-10000000}
: "${BUILD:=build}"
make_work long
make_tiny
"$ZEST" train --model "$work/tiny" --task "$work/data/tiny.task" --shots 4 --batch 2 --k 1 --steps 2 --eval-every $((steps / 10)) \
    --test-size 4 --method mezo --quiet --out "$work/run" >"$work/out" || fail "no run"
"$BUILD/tests/programs/long_run" "$work/run" "$steps" || fail "the run could not be made longer"
timed() { # label, command: seconds and the most memory
    label=$1
    shift
    began=$(date +%s.%N)
    "$@" >"$work/out" 2>"$work/err" || fail "$label: $(cat "$work/err")"
    echo "$began $(date +%s.%N)" | awk -v label="$label" '{ printf "%-42s %6.1f s\n", label, $2 - $1 }'
}
du -sb "$work/run/journal" "$work/run/log.jsonl"
timed "zest info" "$ZEST" info "$work/run"
timed "zest eval" "$ZEST" eval "$work/run" --quiet
timed "zest train --resume, two steps and the end" "$ZEST" train --resume "$work/run" --steps $((steps + 2)) --quiet
rm -r "$work/run"
printf '#!/bin/sh\nwhile read -r x y; do echo "$x"; done\n' >"$work/objective" && chmod +x "$work/objective"
"$ZEST" minimize --exec "$work/objective" --dim 2 --k 1 --steps 2 --quiet --out "$work/run" >"$work/out" || fail "no run"
"$BUILD/tests/programs/long_run" "$work/run" "$steps" || fail "the run could not be made longer"
timed "zest minimize --resume, two steps" "$ZEST" minimize --resume "$work/run" --steps $((steps + 2)) --quiet

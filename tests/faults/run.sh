#!/bin/sh
# The crash harness: every file operation of a run is once the last one of the process, and fails once in each way that
# it can; then the run is resumed, and its journal and weights must have the bits of the run that nothing disturbed.
#
#   sh tests/faults/run.sh [full]           every operation, every fault
#   sh tests/faults/run.sh short [CASES]    about so many cases of each scenario and fault (1)
#
# ZEST: the program. SCENARIOS, FAULTS: some of those below. FAULT_JOBS: cases at a time. Needs Linux and glibc: elsewhere
# the status is 77.
. tests/faults/lib.sh
mode=${1:-full} cases=${2:-1}
: "${SCENARIOS:=zeroth first resumed-zeroth resumed-first minimize sweep replay momentum resumed-momentum chat export}"
: "${FAULTS:=kill torn ENOSPC full EIO EINTR short}"
case $ZEST in */*) ZEST=$(cd "$(dirname "$ZEST")" && pwd)/$(basename "$ZEST") ;; esac
# The ticks let a run of a few steps pass every interval of the clock: of the journal's sync, the log, the checkpoints.
export FAULT_TICK=0.3

# ---- Scenarios: a command, and how a run goes on after it was disturbed ----

small="--shots 4 --batch 4 --k 2 --lr 1e-3 --steps 4 --eval-every 2 --test-size 4 --seed 21 --save-every 1"
common() { echo "--model $work/tiny --task $work/data/tiny.task"; }
objective='while read -r x y; do echo "$x"; done'

command_of() { # scenario, folder: the disturbed command
    case $1 in
    zeroth) echo "train $(common) $small --method zest-n --t 3 --out $2/run" ;;
    first) echo "train $(common) $small --method adamw --out $2/run" ;;
    resumed-*) echo "train --resume $2/run" ;;
    minimize) echo "minimize --exec $work/objective --dim 2 --start 3 --steps 5 --out $2/run" ;;
    sweep) echo "sweep $(common) $small --steps 2 --method zest-n,adamw --seed 21 --out $2/run" ;;
    replay) echo "replay $work/whole/zeroth/run --step 3 --out $2/run" ;;
    momentum) # what a run of many options writes and reads again
        echo "train $(common) $small --method zest-n --t auto --momentum 0.9 --momentum-steps 2 --freeze *LayerNorm*" \
            "--step-length mezo --schedule cosine --warmup 1 --weight-decay 0.01 --out $2/run" ;;
    chat) # conversations, and a causal model with a chat template
        echo "train --model $work/causal --task $work/data/talk.task --batch 2 --k 2 --lr 1e-3 --steps 4 --eval-every 2" \
            "--save-every 1 --seed 21 --method zest-bc --t auto --out $2/run" ;;
    export) echo "export $work/causal --gguf $2/run/model.gguf" ;;
    esac
}
next_of() { # scenario, folder: the command that goes on
    case $1 in
    zeroth | first | momentum | chat | resumed-*)
        if [ -e "$2/run/journal" ]; then echo "train --resume $2/run"; else command_of "${1#resumed-}" "$2"; fi ;;
    minimize)
        if [ -e "$2/run/journal" ]; then echo "minimize --resume $2/run"; else command_of minimize "$2"; fi ;;
    sweep) if [ -e "$2/run/grid" ]; then echo "sweep --resume $2/run"; else command_of sweep "$2"; fi ;;
    replay | export) command_of "$1" "$2" ;;
    esac
}

# What must be the same: journals, weights, evaluations, results; all but times and measured memory.
digest() { # folder
    (
        cd "$1/run" || exit 1
        find . -name '*.tmp' -o -name '*.new' -o -name '*.old' | sed 's/^/left behind: /'
        find . -type f ! -name 'events.*' ! -name '*.txt' | LC_ALL=C sort | while read -r file; do
            case $file in
            */log.jsonl) printf '%s ' "$file" && grep '^{"kind":"eval"' "$file" |
                sed 's/"seconds":[^,}]*//g' | LC_ALL=C sort -u | cksum ;;
            */inputs.json | */options | ./grid | */zest.json) echo "$file" ;; # paths, and options that change
            ./by-t.csv) cut -d , -f 1-13,15 "$file" | cksum | sed "s|^|$file |" ;; # without the seconds
            ./table.md) sed 's/| [0-9]* |$//' "$file" | cksum | sed "s|^|$file |" ;;
            *.json | *.jsonl | *.csv | *.tex | *.svg)
                sed "s/\"\(seconds\|peak_bytes\)\": *[0-9.e+-]*//g; s|$1||g" "$file" | cksum | sed "s|^|$file |" ;;
            *) cksum "$file" ;;
            esac
        done
    )
}

# ---- One case ----

one_case() { # scenario fault at: a line for a failure, nothing else
    here=$(mktemp -d "$work/case-XXXXXX") || exit 1
    [ "${1#resumed-}" = "$1" ] || cp -r "$work/interrupted/${1#resumed-}/run" "$here/run"
    [ "$1" != export ] || mkdir "$here/run"
    head -c 16 /dev/zero >"$here/state"
    # shellcheck disable=SC2046
    timeout -s ABRT 100 env FAULT="$2" FAULT_AT="$3" FAULT_STATE="$here/state" LD_PRELOAD="$work/faults.so" \
        "$ZEST" $(command_of "$1" "$here") --quiet >"$here/out" 2>"$here/err" </dev/null
    status=$? problem=""
    case $status in
    0) ;;
    1 | 2) grep -q '^zest: ' "$here/err" || problem="status $status without a message" ;;
    137) [ "$2" = kill ] || [ "$2" = torn ] || problem="killed" ;;
    *) problem="status $status: $(tail -n 1 "$here/err")" ;;
    esac
    if [ -z "$problem" ] && [ $status -ne 0 ]; then
        cp "$here/err" "$here/first"
        # shellcheck disable=SC2046
        timeout -s ABRT 100 "$ZEST" $(next_of "$1" "$here") --quiet >"$here/out" 2>"$here/err" </dev/null ||
            problem="after status $status ($(tail -n 1 "$here/first")) it does not go on: $(tail -n 1 "$here/err")"
    fi
    if [ -z "$problem" ]; then
        digest "$here" >"$here/digest"
        whole="$work/digests/${1#resumed-}"
        cmp -s "$here/digest" "$whole" ||
            problem="after status $status: $(diff "$whole" "$here/digest" | grep '^[<>]' | tr '\n' ';')"
    fi
    [ -z "$problem" ] || echo "FAILED $1 $2 $3: $problem"
    rm -rf "$here"
}

if [ "$mode" = --case ]; then
    work=$2
    one_case "$3" "$4" "$5"
    exit 0
fi

# ---- All of them ----

make_work faults
make_tiny
make_causal
"$CC" -shared -fPIC -O1 -o "$work/faults.so" tests/faults/faults.c -ldl 2>"$work/log" || exit 77
head -c 16 /dev/zero >"$work/state"
FAULT=EIO FAULT_STATE="$work/state" LD_PRELOAD="$work/faults.so" "$ZEST" info examples/roberta-tiny >"$work/out" 2>&1
[ "$(od -An -td8 -N8 "$work/state")" -gt 0 ] 2>/dev/null || exit 77
printf '#!/bin/sh\n%s\n' "$objective" >"$work/objective" && chmod +x "$work/objective"

count() { # scenario fault: how many operations there are; the run is kept in $work/whole/SCENARIO
    head -c 16 /dev/zero >"$work/state"
    mkdir -p "$work/whole/$1"
    rm -rf "$work/whole/$1/run"
    [ "${1#resumed-}" = "$1" ] || cp -r "$work/interrupted/${1#resumed-}/run" "$work/whole/$1/run"
    [ "$1" != export ] || mkdir "$work/whole/$1/run"
    # shellcheck disable=SC2046
    FAULT=$2 FAULT_AT=0 FAULT_STATE="$work/state" LD_PRELOAD="$work/faults.so" \
        "$ZEST" $(command_of "$1" "$work/whole/$1") --quiet >"$work/out" 2>&1 </dev/null ||
        { echo "FAILED $1: $(tail -n 1 "$work/out")" >&2 && exit 1; }
    od -An -td8 -N8 "$work/state" | tr -d ' '
}

interrupt() { # scenario: a run that was killed in its third quarter, between a checkpoint's files
    mkdir -p "$work/interrupted/$1"
    head -c 16 /dev/zero >"$work/state"
    # shellcheck disable=SC2046
    FAULT=torn FAULT_AT=$(($(count "$1" torn) * 3 / 4)) FAULT_STATE="$work/state" LD_PRELOAD="$work/faults.so" \
        "$ZEST" $(command_of "$1" "$work/interrupted/$1") --quiet >"$work/out" 2>&1 </dev/null
}

mkdir "$work/digests"
# the runs that nothing disturbs; resumed ones must end as the whole one does
undisturbed() {
    [ -s "$work/digests/$1" ] && return
    count "$1" kill >/dev/null && digest "$work/whole/$1" >"$work/digests/$1"
}
undisturbed zeroth || exit 1
all=0 failed=0
for scenario in $SCENARIOS; do
    undisturbed "${scenario#resumed-}" || exit 1
    case $scenario in resumed-*) interrupt "${scenario#resumed-}" ;; esac
    began=$(date +%s) line="" here=0
    for fault in $FAULTS; do
        operations=$(count "$scenario" "$fault") || exit 1
        stride=1 first=1
        [ "$mode" != short ] || stride=$((operations / cases + 1)) first=$(((operations * 7 / 11) % stride + 1))
        seq "$first" "$stride" "$operations" |
            xargs -P "$FAULT_JOBS" -I '{}' sh "$0" --case "$work" "$scenario" "$fault" '{}' >"$work/failures"
        cat "$work/failures"
        failed=$((failed + $(wc -l <"$work/failures")))
        tried=$(seq "$first" "$stride" "$operations" | wc -l)
        here=$((here + tried)) line="$line $fault $tried/$operations"
    done
    all=$((all + here))
    [ "$mode" = short ] || echo "$scenario: $here cases in $(($(date +%s) - began)) s ($(echo "$line" | sed 's/^ //'))"
done
echo "$all cases, $failed failed"
[ $failed -eq 0 ]

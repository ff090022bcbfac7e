#!/bin/sh
# Every allocation of a small run of each command fails once. The command must then fail with a message, or end with the
# same output as ever: never with half of it and status 0, never by a signal. And it must free what it allocated: at
# the end it may hold no more blocks than when nothing failed.
#
#   sh tests/faults/allocations.sh [STRIDE]     every STRIDE-th allocation (1)
#
# ZEST: the program. COMMANDS: some of those below. FAULT_JOBS: cases at a time. Needs glibc: elsewhere the status is 77.
. tests/faults/lib.sh
: "${COMMANDS:=train adamw resume eval predict sweep minimize replay info report momentum chat export}"
small() { echo "--model $work/tiny --task $work/data/tiny.task --shots 2 --batch 2 --k 1 --steps 2 --eval-every 2 --test-size 2 --quiet"; }

command_of() { # command, folder
    case $1 in
    train) echo "train $(small) --out $2/run" ;;
    adamw) echo "train $(small) --method adamw --out $2/run" ;;
    momentum) echo "train $(small) --method zest-n --k 2 --t auto --momentum 0.9 --momentum-steps 2 --schedule cosine --out $2/run" ;;
    chat)
        echo "train --model $work/causal --task $work/data/talk.task --batch 2 --k 2 --steps 2 --eval-every 2 --quiet" \
            "--method zest-bc --t auto --out $2/run" ;;
    export) echo "export $work/causal --gguf $2/model.gguf --quiet" ;;
    resume) echo "train --resume $2/run --steps 3 --quiet" ;;
    eval) echo "eval $work/run --quiet --json" ;;
    predict) echo "predict $work/run --split test --quiet" ;;
    sweep) echo "sweep $(small) --seed 1 --method mezo,zest-n --out $2/run" ;;
    minimize) echo "minimize --exec $work/objective --dim 2 --start 3 --steps 3 --quiet --json --out $2/run" ;;
    replay) echo "replay $work/run --step 1 --quiet --out $2/run" ;;
    info) echo "info $work/run --json" ;;
    report) echo "report $work/run --out $2/run" ;;
    esac
}
# The output without what differs between two runs of the same command.
clean() { # folder, file
    sed "s|$1||g; s/\"\(seconds\|peak_bytes\)\": *[0-9.e+-]*//g; s/, [0-9.]* s;//; s/ *[0-9.]* s)*\$//; s/seconds *[0-9.]*//" "$2"
}
digest() { # folder: files that do not depend on time
    [ ! -e "$1/model.gguf" ] || cksum <"$1/model.gguf"
    [ -e "$1/run" ] || return 0
    [ -d "$1/run" ] || { echo file && return 0; }
    (cd "$1/run" && find . -type f ! -name 'events.*' | LC_ALL=C sort | while read -r file; do
        case $file in
        */journal | *.safetensors | ./x | ./start | */tokenizer.json | */vocab.json | */config.json) cksum "$file" ;;
        */inputs.json | */result.json | ./results.json) echo "$file $(clean "$1" "$file" | cksum)" ;;
        *.tmp) echo "left behind: $file" ;;
        *) echo "$file" ;;
        esac
    done)
}

one_case() { # command number live
    here=$(mktemp -d "$work/case-XXXXXX") || exit 1
    [ "$1" != resume ] || cp -r "$work/run" "$here/run"
    # shellcheck disable=SC2046
    timeout -s ABRT 100 env LD_PRELOAD="$work/fail.so" FAIL_AT="$2" FAIL_COUNT="$here/count" \
        "$ZEST" $(command_of "$1" "$here") >"$here/out" 2>"$here/err" </dev/null
    status=$? problem=""
    case $status in
    0)
        clean "$here" "$here/out" | cmp -s - "$work/$1.out" || problem="status 0, and the output differs"
        digest "$here" >"$here/digest"
        [ -n "$problem" ] || cmp -s "$here/digest" "$work/$1.digest" ||
            problem="status 0, and files differ: $(diff "$work/$1.digest" "$here/digest" | grep '^[<>]' | tr '\n' ';')"
        ;;
    1 | 2) grep -q '^zest: \|^libgomp: Out of memory' "$here/err" || problem="status $status without a message" ;;
    *) problem="status $status: $(tail -n 1 "$here/err")" ;;
    esac
    # OpenMP's library ends the process itself when it gets no memory for its threads
    if ! grep -q '^libgomp: ' "$here/err"; then
        read -r _ kept <"$here/count" && [ "$kept" -le "$3" ] ||
            problem="$problem; $((${kept:-0} - $3)) blocks are not freed"
    fi
    [ -z "$problem" ] || echo "FAILED $1, allocation $2: ${problem#; } ($(head -n 1 "$here/err"))"
    rm -rf "$here"
}
if [ "${1:-}" = --case ]; then
    work=$2
    one_case "$3" "$5" "$4"
    exit 0
fi

stride=${1:-1}
make_work allocations
make_tiny
make_causal
"$CC" -shared -fPIC -O1 -o "$work/fail.so" tests/cli/fail_malloc.c -ldl 2>/dev/null &&
    LD_PRELOAD="$work/fail.so" FAIL_COUNT="$work/count" "$ZEST" --version >/dev/null 2>&1 && [ -s "$work/count" ] || exit 77
printf '#!/bin/sh\nwhile read -r x y; do echo "$x"; done\n' >"$work/objective" && chmod +x "$work/objective"
# shellcheck disable=SC2086
"$ZEST" train $(small) --out "$work/run" >/dev/null || exit 1
all=0 failed=0
for command in $COMMANDS; do
    began=$(date +%s) whole="$work/whole-$command"
    mkdir "$whole"
    [ "$command" != resume ] || cp -r "$work/run" "$whole/run"
    # shellcheck disable=SC2046
    LD_PRELOAD="$work/fail.so" FAIL_COUNT="$work/count" "$ZEST" $(command_of "$command" "$whole") >"$work/out" \
        2>"$work/err" </dev/null || { cat "$work/err" && exit 1; }
    read -r count live <"$work/count"
    clean "$whole" "$work/out" >"$work/$command.out"
    digest "$whole" >"$work/$command.digest"
    seq 1 "$stride" "$count" | xargs -P "$FAULT_JOBS" -I '{}' sh "$0" --case "$work" "$command" "$live" '{}' >"$work/failures"
    cat "$work/failures"
    tried=$(seq 1 "$stride" "$count" | wc -l)
    all=$((all + tried)) failed=$((failed + $(wc -l <"$work/failures")))
    echo "$command: $tried of $count allocations in $(($(date +%s) - began)) s"
done
echo "$all allocations failed once, $failed wrong ends"
[ $failed -eq 0 ]

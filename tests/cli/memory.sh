# An allocation that fails: the command fails too, or its output is whole. Never half a result with status 0.
. tests/cli/lib.sh
[ -n "${SANITIZED:-}" ] && exit 0 # the sanitizers have an allocator of their own
export GOMP_SPINCOUNT=1000 OMP_NUM_THREADS=1
"${CC:-cc}" -shared -fPIC -o "$work/fail.so" tests/cli/fail_malloc.c -ldl 2>/dev/null &&
    LD_PRELOAD="$work/fail.so" FAIL_COUNT="$work/count" "$ZEST" --version >/dev/null 2>&1 && [ -s "$work/count" ] || exit 0

run 0 train --model examples/roberta-tiny --task examples/reviews/reviews.task --shots 4 --batch 4 --k 2 --steps 2 \
    --eval-every 2 --test-size 4 --out "$work/run"

# try SAMPLES ARGUMENTS...: lets so many of the allocations fail, one a time
try() {
    samples=$1
    shift
    LD_PRELOAD="$work/fail.so" FAIL_COUNT="$work/count" "$ZEST" "$@" >"$work/whole" 2>"$work/err" </dev/null || fail "zest $*"
    read -r count live <"$work/count"
    stride=$((count / samples + 1)) at=1
    while [ "$at" -le "$count" ]; do
        LD_PRELOAD="$work/fail.so" FAIL_AT=$at "$ZEST" "$@" >"$work/out" 2>"$work/err" </dev/null
        status=$?
        case $status in
        0) cmp -s "$work/out" "$work/whole" || fail "zest $*: allocation $at of $count failed, status 0, and the output differs" ;;
        1) [ -s "$work/err" ] || fail "zest $*: allocation $at failed without a message" ;;
        2) ;; # what could not be read may look like a wrong argument
        *) fail "zest $*: allocation $at of $count failed: status $status" ;;
        esac
        at=$((at + stride))
    done
}
try 60 --help
try 60 train --help
try 100 info "$work/run"
try 100 info "$work/run" --json
try 60 eval "$work/run"
try 60 predict "$work/run" --split test
try 60 predict "$work/run" --text "A lovely day." --format tsv
try 60 tokenize examples/roberta-tiny --text "A lovely day." --json
try 60 completion zsh
try 60 score examples/roberta-tiny --text "A lovely day." --json

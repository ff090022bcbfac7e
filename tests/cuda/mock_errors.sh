# A call to CUDA or cuBLASLt that fails ends a run with status 1, a message that names the error, and everything freed:
# runs on the mock CUDA library (mock/mock.h) in which one call after another fails. About 10 s of processor time.
#     sh tests/cuda/mock_errors.sh        a few calls of each kind
#     sh tests/cuda/mock_errors.sh N      every Nth call; with 1 it takes half an hour
. tests/cuda/mock_lib.sh

export MOCK_CUDA_RESULTS=vary
small="train --model examples/roberta-tiny --task examples/reviews/reviews.task --shots 2 --batch 4 --k 1 --steps 2 --eval-every 2
       --seed 21 --test-size 4 --device cuda --compute bf16 --out $work/run"
MOCK_CUDA_TRACE="$work/whole" run 0 $small
grep -q "^not freed\|^not destroyed" "$work/whole" && fail "a run leaves something on the GPU"
calls=$(sed -n 's/^calls //p' "$work/whole")
[ "$calls" -gt 500 ] || fail "only $calls calls"

# codes: a launch that failed, which stays; memory that ran out, which does not
attempt() { # number of the call, code
    rm -rf "$work/run"
    MOCK_CUDA_FAIL=$1:$2 MOCK_CUDA_TRACE="$work/failed" "$ZEST" $small >"$work/out" 2>"$work/err" </dev/null
    status=$?
    [ $status -lt 124 ] || fail "call $1 of $calls fails with $2: status $status"
    grep -q "^not freed\|^not destroyed" "$work/failed" && fail "call $1 fails with $2, and is not cleaned up: $(grep "^not" "$work/failed" | head -n 3)"
    # errors while the device is closed are nobody's concern: the results are there
    [ $status -eq 0 ] && [ "$2" -lt 700 ] && return
    if [ $status -eq 0 ]; then
        [ "$1" -gt "$closing" ] || fail "call $1 of $calls fails with $2, and the run goes on"
        return
    fi
    [ $status -eq 1 ] || fail "call $1 of $calls fails with $2: status $status"
    grep -q "GPU" "$work/err" || fail "call $1 fails with $2, and the message does not say so: $(head -c 300 "$work/err")"
}

# the last call before the device is closed: what it allocated is freed behind it
closing=$(awk '/^(cudaFree|cudaFreeHost|cudaEventDestroy|cudaStreamDestroy)/ { n++; next } !/^calls/ { n = 0 } END { print n }' "$work/whole")
closing=$((calls - closing - 4))
if [ -n "${1:-}" ]; then
    for call in $(seq 1 "$1" "$calls"); do attempt "$call" 719; attempt "$call" 2; done
    echo "$(seq 1 "$1" "$calls" | wc -l) of $calls calls, each with two errors"
else
    for call in 1 2 3 5 20 29 $((calls / 5)) $((calls / 3)) $((calls / 2)) $((closing - 10)); do attempt "$call" 719; done
    for call in 22 24 $((calls / 4)); do attempt "$call" 2; done
fi
exit 0

#!/bin/sh
# Tests under valgrind: use of memory that nothing was written to, which AddressSanitizer does not see; bad accesses; leaks.
#     sh tools/memcheck.sh [TEST ...]    test programs, such as test_gguf (default: all but those below)
# The build is build/memcheck. 77: valgrind is missing (Debian: apt-get install valgrind). Valgrind has no AVX-512: the
# code for AVX2 runs. Left out for their time, which valgrind multiplies by 30: whole trainings and large computations,
# whose code test_model, test_grad and test_tuner run in small; and tests of a GPU.
set -u
out=build/memcheck
left_out="trainer trainer_first_order pretrain grad_sharpness ops tilt batch model_lanes tuner_gradients out_rows optimizer
    optimizer_runs toy stats lm_tuning metric examples hessian sharpness"
command -v valgrind >/dev/null 2>&1 || { echo "tools/memcheck.sh: valgrind is missing (Debian: apt-get install valgrind)" >&2; exit 77; }
if [ $# -eq 0 ]; then
    for file in tests/test_*.c; do
        test=$(basename "$file" .c)
        case " $(echo $left_out) " in *" ${test#test_} "*) continue ;; esac
        case $test in *_device*) continue ;; esac
        set -- "$@" "$test"
    done
fi
bins=""
for test in "$@"; do bins="$bins $out/tests/$test"; done
# shellcheck disable=SC2086
make --no-print-directory BUILD=$out CUDA=off CFLAGS="-g -DZEST_SLOW_TESTS" $bins || exit 1
failed=0
export OMP_NUM_THREADS=1
for test in "$@"; do
    log="$out/$test.log"
    valgrind --quiet --suppressions=tools/valgrind.supp --error-exitcode=99 --leak-check=full \
        --errors-for-leak-kinds=definite --show-leak-kinds=definite \
        --log-file="$log" "$out/tests/$test" >"$log.out" 2>&1
    status=$?
    case $status in
    0 | 77) ;;
    *) failed=$((failed + 1)) && echo "FAILED $test (status $status), $log:" && head -n 30 "$log" && grep '^\[  FAILED' "$log.out" ;;
    esac
done
echo "$# test programs under valgrind, $failed with a finding"
[ $failed -eq 0 ]

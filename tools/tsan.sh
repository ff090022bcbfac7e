#!/bin/sh
# Races between threads: tests under clang's ThreadSanitizer, in a build of its own in build/tsan. OpenMP's library is not
# instrumented; Archer, which comes with LLVM's libomp, tells the sanitizer what waits for what. 77: one is missing.
#     sh tools/tsan.sh [TEST ...]        test programs, such as test_tuner (default: those that compute with threads)
# On Debian: apt-get install clang libomp-14-dev
set -eu
CLANG=${CLANG:-clang}
command -v "$CLANG" >/dev/null 2>&1 || { echo "tools/tsan.sh: clang is missing (Debian: apt-get install clang)" >&2; exit 77; }
archer=$("$CLANG" -print-search-dirs | sed -n 's/^libraries: =//p' | tr : '\n' | while read -r folder; do
    if [ -e "$folder/libarcher.so" ]; then echo "$folder/libarcher.so"; fi
done | head -n 1)
[ -n "$archer" ] || archer=$(find /usr/lib/llvm-*/lib -name libarcher.so 2>/dev/null | head -n 1)
[ -n "$archer" ] || { echo "tools/tsan.sh: libarcher.so is missing (Debian: apt-get install libomp-14-dev)" >&2; exit 77; }
out=build/tsan
[ $# -gt 0 ] || set -- test_noise test_update test_ops test_ops_attention test_ops_rows test_gemm test_tuner test_tuner_gradients \
    test_model test_model_lanes test_grad_ops test_grad test_optimizer test_generate test_lm test_gguf_write test_gguf_export \
    test_trainer test_hessian
bins=""
for test in "$@"; do bins="$bins $out/tests/$test"; done
# shellcheck disable=SC2086
make --no-print-directory BUILD=$out CC="$CLANG" CUDA=off CURL=off MPI=off OPT=-O1 SANITIZE="-fsanitize=thread" \
    CFLAGS="-g -DZEST_SLOW_TESTS" $bins
export OMP_NUM_THREADS=4 OMP_TOOL_LIBRARIES="$archer" TSAN_OPTIONS="ignore_noninstrumented_modules=1 exitcode=66 history_size=7"
failed=0
for test in "$@"; do
    status=0
    "$out/tests/$test" >"$out/$test.log" 2>&1 || status=$?
    case $status in
    0 | 77) ;;
    *) failed=$((failed + 1)) && echo "FAILED $test (status $status), $out/$test.log:" && grep -A 12 'WARNING: Thread\|^\[  FAILED' "$out/$test.log" | head -n 40 ;;
    esac
done
echo "$# test programs under ThreadSanitizer, $failed with a finding"
[ $failed -eq 0 ]

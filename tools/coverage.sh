#!/bin/sh
# Line coverage by gcov: a build of its own in build/coverage, the tests of `make check` in it, and a table of lines
# that no test reaches, with all of them in build/coverage/lines.txt. Needs gcovr (Debian: apt-get install gcovr).
#     sh tools/coverage.sh [TEST ...]     with names, such as test_gguf or fuzz_run, only these
set -eu
command -v gcovr >/dev/null 2>&1 || { echo "tools/coverage.sh: gcovr is missing (Debian: apt-get install gcovr)" >&2; exit 77; }
out=build/coverage
instrument() { make --no-print-directory BUILD=$out CUDA=off OPT=-O1 SANITIZE="--coverage -fprofile-update=atomic" "$@"; }
find $out -name '*.gcda' -delete 2>/dev/null || true
if [ $# -eq 0 ]; then
    instrument check || echo "tools/coverage.sh: tests failed; the table has what they reached" >&2
else
    bins=""
    for test in "$@"; do case $test in fuzz_*) bins="$bins $out/tests/fuzz/$test" ;; *) bins="$bins $out/tests/$test" ;; esac; done
    # shellcheck disable=SC2086
    instrument $bins
    for bin in $bins; do
        case $bin in */fuzz_*) set -- -n 100 ;; *) set -- ;; esac
        "$bin" "$@" >$out/test.log 2>&1 || { echo "tools/coverage.sh: $bin failed:" >&2; tail -n 5 $out/test.log >&2; }
    done
fi
gcovr --root . --filter 'src/' --exclude '.*_(avx2|avx512|avx512bf16|amx|tables)\.c' --object-directory $out --txt $out/lines.txt \
    --exclude-unreachable-branches --merge-mode-functions=separate 2>/dev/null ||
    gcovr --root . --filter 'src/' --exclude '.*_(avx2|avx512|avx512bf16|amx|tables)\.c' --object-directory $out >$out/lines.txt
sed -n '/^File/p; /^src/p; /^TOTAL/p' $out/lines.txt

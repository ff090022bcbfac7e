#!/bin/sh
# Runs all tests of one build and counts them. BUILD: its folder; ZEST: the program; SANITIZED: set for ASan builds.
set -u
passed=0 failed=0 skipped=0
export BUILD ZEST
export GOMP_SPINCOUNT="${GOMP_SPINCOUNT:-1000}" # as the program sets it for itself: see cli/threads.h
log="$BUILD/test.log"
: >"$log"

# a cmocka program: its own counts are added up
program() { # label, command...
    label=$1
    shift
    "$@" >"$BUILD/one.log" 2>&1
    status=$?
    cat "$BUILD/one.log" >>"$log"
    p=$(grep -c '^\[       OK \]' "$BUILD/one.log")
    s=$(grep '^\[  SKIPPED \] [^0-9]' "$BUILD/one.log" | sort -u | wc -l)
    f=$(grep -c '^\[  FAILED  \] [a-z_0-9]*$' "$BUILD/one.log")
    [ "$f" -gt 0 ] && f=$(grep '^\[  FAILED  \] [a-z_0-9]*$' "$BUILD/one.log" | sort -u | wc -l)
    [ "$status" -ne 0 ] && [ "$f" -eq 0 ] && f=1
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    if [ "$f" -eq 0 ]; then echo "ok    $label: $p tests"; else
        echo "FAIL  $label (status $status)"
        grep -vE '^\[( RUN      |       OK )\]' "$BUILD/one.log" | tail -n 40
    fi
}

# a script: one test
script() { # label, command...
    label=$1
    shift
    if "$@" >"$BUILD/one.log" 2>&1; then
        passed=$((passed + 1))
        echo "ok    $label"
    else
        failed=$((failed + 1))
        echo "FAIL  $label"
        tail -n 40 "$BUILD/one.log"
    fi
    cat "$BUILD/one.log" >>"$log"
}

for test in "$BUILD"/tests/test_*; do
    case "$test" in *.o | *.d) continue ;; esac
    program "$(basename "$test")" "$test"
done
# the kernels once more with features switched off, one after the other
for cpu in avx512bf16 avx512 avx2 plain; do
    for test in noise tuner tuner_gradients update forward forward_device forward_attention forward_rows \
        model model_lanes model_asked grad grad_bits grad_ops methods; do
        [ -x "$BUILD/tests/test_$test" ] && [ -z "${SANITIZED:-}" ] &&
            program "test_$test, ZEST_CPU=$cpu" env ZEST_CPU=$cpu "$BUILD/tests/test_$test"
    done
done
for test in tests/cli/*.sh; do
    case "$test" in */lib.sh) continue ;; esac
    # two that take minutes under the sanitizers; what they run is sanitized by test_sweep, test_hessian, test_sharpness and train.sh
    case "${SANITIZED:-}$test" in 1*/sweep.sh | 1*/sharpness.sh) continue ;; esac
    script "$test" sh "$test"
done
for example in "$BUILD"/examples/*; do
    case "$example" in *.o | *.d) continue ;; esac
    script "examples/$(basename "$example")" "$example"
done
if [ -z "${SANITIZED:-}" ]; then
    script "tests/first_call.sh" sh tests/first_call.sh
    script "tests/header.sh" sh tests/header.sh
    script "tests/one_file.sh" sh tests/one_file.sh
    script "tests/layers.sh" sh tests/layers.sh
    script "tests/forward_only.sh" sh tests/forward_only.sh
    script "tests/readme.sh" sh tests/readme.sh
    script "tests/install.sh" sh tests/install.sh
    command -v python3 >/dev/null && script "tools/get_data.py" python3 tools/get_data.py --selftest
    if [ -d "$BUILD/tests/cuda" ]; then
        for test in "$BUILD"/tests/cuda/*; do
            "$test" >"$BUILD/one.log" 2>&1
            case $? in
            0) passed=$((passed + 1)); echo "ok    cuda/$(basename "$test"): $(cat "$BUILD/one.log")" ;;
            77) skipped=$((skipped + 1)); echo "skip  cuda/$(basename "$test"): no GPU here" ;;
            *) failed=$((failed + 1)); echo "FAIL  cuda/$(basename "$test")"; cat "$BUILD/one.log" ;;
            esac
        done
    fi
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]

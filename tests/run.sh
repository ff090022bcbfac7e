#!/bin/sh
# Runs tests, several at a time, and counts them:  sh tests/run.sh check|test|asan|gpu   (make builds what they need)
#   check  the test programs, the command line, the examples, the public header, the layers
#   test   check; the kernels in every instruction set that this CPU has; the install; GRAD=off; asan; gpu where there is one
#   asan   what check has, in the build with AddressSanitizer and UndefinedBehaviorSanitizer
#   gpu    every test that uses a GPU, one at a time (GPU_JOBS: several); without a GPU they fail
# New tests are found by their names: tests/test_*.c, tests/*.sh, tests/cli/*.sh, examples/*.c; for the GPU tests/cuda/*.cu
# and gpu_*.sh; with nvcc, but without a GPU, tests/cuda/mock_*.sh.
# BUILD, ASAN: folders of the two builds; ZEST: the program; TESTS: names of test programs; TEST_JOBS: how many at a time (default: the CPU's threads).
# Each test's whole output is in BUILD/test.logs, its processor time in milliseconds in BUILD/test.times.
set -u
: "${BUILD:=build}" "${ASAN:=build/asan}" "${ZEST:=./zest}" "${TEST_JOBS:=$(nproc 2>/dev/null || echo 1)}"
export BUILD ASAN ZEST
logs="$BUILD/test.logs" times="$BUILD/test.times" queue="$BUILD/test.logs/queue"

# ---- One test: its output in a log, its counts in a result file ----

# A cmocka program counts its tests itself; a script is one test; 77 says that it could not run here.
count() { # kind, log, status: passed, failed, skipped
    if [ "$1" = program ]; then
        p=$(grep -c '^\[       OK \]' "$2")
        s=$(grep '^\[  SKIPPED \] [^0-9]' "$2" | sort -u | wc -l)
        f=$(grep '^\[  FAILED  \] [a-z_0-9]*$' "$2" | sort -u | wc -l)
        if [ "$3" -ne 0 ] && [ "$f" -eq 0 ]; then f=1; fi
        echo "$p $f $s"
    else
        case $3 in 0) echo 1 0 0 ;; 77) echo 0 0 1 ;; *) echo 0 1 0 ;; esac
    fi
}

if [ "${1:-}" = --one ]; then # a line of the queue: kind, label, command
    IFS='	' read -r kind label command <<LINE
$(sed -n "$2p" "$queue")
LINE
    timeout --foreground 900 sh -c "$command" >"$logs/$2.log" 2>&1 </dev/null
    status=$?
    count "$kind" "$logs/$2.log" $status >"$logs/$2.result"
    # milliseconds of processor time, which do not depend on what else runs on the machine
    times >"$logs/$2.times"
    awk -F '[ms ]+' -v label="$label" 'NR == 2 { printf "%.0f\t%s\n", 60000 * ($1 + $3) + 1000 * ($2 + $4), label }' \
        "$logs/$2.times" >"$logs/$2.time"
    echo "$2 $status"
    exit 0
fi

# ---- All of them ----

rm -rf "$logs"
mkdir -p "$logs"
: >"$queue"
# What tests write goes to memory where that is possible: they call fsync, and disks are slow.
shm=$(mktemp -d /dev/shm/zest-XXXXXX 2>/dev/null) || shm=""
if [ -n "$shm" ] && [ "$(df -Pk "$shm" | awk 'NR == 2 { print $4 }')" -ge 1000000 ] &&
    printf '#!/bin/sh\n' >"$shm/runs" && chmod +x "$shm/runs" && "$shm/runs" 2>/dev/null; then
    export TMPDIR="$shm"
fi
trap 'rm -rf ${shm:+"$shm"}' EXIT
trap 'exit 130' INT TERM HUP
export GOMP_SPINCOUNT="${GOMP_SPINCOUNT:-1000}" # as the program sets it for itself: see cli/output.h

names() { # source files: their names without folder and ending
    for source in "$@"; do basename "${source%.*}"; done
}
# GRAD=off leaves tests out: make says which there are.
: "${TESTS:=$(names tests/test_*.c | tr '\n' ' ')}"

add() { printf '%s\t%s\t%s\n' "$1" "$2" "$3" >>"$queue"; } # kind, label, command

add_tests() { # build folder, program, prefix of labels, assignments
    for test in $TESTS; do add program "$3$test" "$4 $1/tests/$test"; done
    for test in tests/cli/*.sh; do
        case "$3$test" in
        */lib.sh) continue ;;
        # two that take minutes under the sanitizers; test_sweep, test_hessian, test_sharpness and train.sh run the same code
        asan*/sweep.sh | asan*/sharpness.sh) continue ;;
        esac
        add script "$3$test" "$4 BUILD=$1 ZEST=$2 sh $test"
    done
    for example in $(names examples/*.c); do add script "$3examples/$example" "$4 $1/examples/$example"; done
    for target in $(names tests/fuzz/fuzz_*.c); do
        add script "$3fuzz/$target" "$4 $1/tests/fuzz/$target -n 100 tests/fuzz/corpus/$target"
    done
}
add_check() {
    add_tests "$BUILD" "$ZEST" "" ""
    for test in tests/*.sh; do
        case "$test" in */run.sh | */forward_only.sh | */install.sh) ;; *) add script "$test" "sh $test" ;; esac
    done
    if command -v python3 >/dev/null 2>&1; then
        add script tools/get_data.py "python3 tools/get_data.py --selftest"
        add script tools/scaling_model.py "python3 tools/scaling_model.py --selftest"
    fi
}
add_asan() { add_tests "$ASAN" "$ASAN/zest" "asan " "SANITIZED=1"; }

# Tests that compute with the best instructions of this CPU, once more with each lesser set. (test_ops*, test_noise,
# test_update and test_grad_ops go through all of them by themselves.)
add_levels() {
    for cpu in $("$BUILD/tests/programs/cpu_levels"); do
        for test in tuner tuner_gradients model model_lanes out_rows grad grad_bits optimizer; do
            case " $TESTS " in
            *" test_$test "*) add program "test_$test, ZEST_CPU=$cpu" "ZEST_CPU=$cpu $BUILD/tests/test_$test" ;;
            esac
        done
    done
}

add_gpu() {
    for test in $TESTS; do
        if grep -qE 'ZEST_DEVICE_CUDA|tests/device' "tests/$test.c"; then
            add program "gpu $test" "ZEST_NEED_CUDA=1 $BUILD/tests/$test"
        fi
    done
    for test in $(names tests/cuda/*.cu); do add script "gpu cuda/$test" "$BUILD/tests/cuda/$test"; done
    for test in tests/cuda/gpu_*.sh; do add script "gpu $test" "ZEST=$ZEST sh $test"; done
}

# Those that took longest the last time start first, so that none of them runs alone at the end.
first_the_slow() { # first and last line of the queue
    sed -n "$1,$2p" "$queue" | awk -F '\t' -v at="$1" -v times="$times" '
        BEGIN { while ((getline line <times) > 0) { split(line, f, "\t"); took[f[2]] = f[1] } }
        { print ($2 in took ? took[$2] : $1 == "script" ? 5000 : 1000) "\t" at + NR - 1 }' | sort -k 1,1nr | cut -f 2
}

# Each test's line when it is done; of a failure its last lines, whole.
show() {
    while read -r id status; do
        label=$(sed -n "$id{p;q}" "$queue" | cut -f 2)
        read -r p f s <"$logs/$id.result"
        if [ "$f" -gt 0 ]; then
            echo "FAIL  $label (status $status), $logs/$id.log:"
            grep -vE '^\[( RUN      |       OK )\]' "$logs/$id.log" | tail -n 40
        elif [ "$p" -eq 0 ] && [ "$s" -gt 0 ]; then echo "skip  $label"
        elif [ "$p" -gt 1 ]; then echo "ok    $label: $p tests"
        else echo "ok    $label"; fi
    done
}
run() { # first line of the queue, how many at a time
    last=$(wc -l <"$queue")
    [ "$1" -le "$last" ] || return 0
    first_the_slow "$1" "$last" | xargs -P "$2" -n 1 sh "$0" --one | show
}
# Without a view of the GPU; one thread each, since there are as many tests at a time as threads.
run_on_cpu() { (export CUDA_VISIBLE_DEVICES="" OMP_NUM_THREADS=1 && run 1 "$TEST_JOBS"); }

case "${1:-}" in
check) add_check && run_on_cpu ;;
asan) add_asan && run_on_cpu ;;
gpu) add_gpu && run 1 "${GPU_JOBS:-1}" ;;
test)
    add_check
    add_levels
    for test in tests/forward_only.sh tests/install.sh; do add script "$test" "sh $test"; done
    if [ -x "$BUILD/tests/cuda/zest_mock" ]; then
        for test in tests/cuda/mock_*.sh; do add script "$test" "BUILD=$BUILD sh $test"; done
    fi
    add script "tests/faults/run.sh short 4" "sh tests/faults/run.sh short 4"
    add script "tests/faults/allocations.sh 211" "sh tests/faults/allocations.sh 211"
    add_asan
    run_on_cpu
    if [ -x "$BUILD/tests/cuda/noise" ]; then
        "$BUILD/tests/cuda/noise" >/dev/null 2>&1
        if [ $? -eq 77 ]; then echo "skip  the tests of the GPU: there is none here"; else
            before=$(wc -l <"$queue")
            add_gpu
            run $((before + 1)) 1
        fi
    fi
    ;;
*) echo "usage: sh tests/run.sh check|test|asan|gpu" >&2; exit 2 ;;
esac

# ---- The end ----

for id in $(seq "$(wc -l <"$queue")"); do
    # a test that left no result was killed with its worker
    if [ ! -s "$logs/$id.result" ]; then echo "0 1 0" >"$logs/$id.result"; fi
    read -r p f s <"$logs/$id.result"
    if [ "$f" -gt 0 ]; then printf 'failed: %s\n' "$(sed -n "$id{p;q}" "$queue" | cut -f 2)"; fi
done
{ cat "$logs"/*.time "$times" 2>/dev/null | awk -F '\t' '!seen[$2]++' >"$times.new"; } && mv "$times.new" "$times"
cat "$logs"/*.result | awk '{ p += $1; f += $2; s += $3 }
    END { printf "%d passed, %d failed, %d skipped\n", p, f, s; exit !(f == 0 && p > 0) }'

# What the tests of the program share. A test is a shell script; fail ends it.
set -u
work=$(mktemp -d "${TMPDIR:-/tmp}"/zest-cli-XXXXXX)
trap 'rm -rf "$work"' EXIT
export TERM=xterm # of the terminals that tests make: on TERM=dumb there are no bars

fail() {
    echo "FAILED: $*" >&2
    [ -s "$work/err" ] && sed 's/^/  stderr: /' "$work/err" >&2
    exit 1
}

# run STATUS ARGUMENTS...: the program must end with this status; its output is in $work/out and $work/err
run() {
    expected=$1
    shift
    "$ZEST" "$@" >"$work/out" 2>"$work/err" </dev/null
    status=$?
    [ "$status" -eq "$expected" ] || fail "zest $*: status $status instead of $expected"
}

out_has() { grep -qF -- "$1" "$work/out" || fail "stdout lacks '$1': $(head -c 2000 "$work/out")"; }
err_has() { grep -qF -- "$1" "$work/err" || fail "stderr lacks '$1'"; }
same() { cmp -s "$1" "$2" || fail "$1 and $2 differ"; }

# stdout is one JSON object and nothing else.
out_is_json() { "$BUILD/tests/programs/is_json" <"$work/out" || fail "stdout is not one JSON object: $(head -c 300 "$work/out")"; }

# Waits until the run in a folder has so many steps on record (about 100 bytes each).
wait_for_steps() {
    tries=0
    while [ "$(stat -c %s "$1/journal" 2>/dev/null || echo 0)" -lt $((100 * $2)) ]; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || fail "the run does not get on"
        sleep 0.05
    done
}

# Ends the test as skipped unless mpirun starts several processes of this zest.
need_ranks() {
    [ -n "${SANITIZED:-}" ] && exit 77 # MPI's own leaks would be reported
    # Open MPI's mpirun refuses root, and more processes than cores, unless it is told.
    export OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl_base_warn_component_unused=0 OMPI_MCA_hwloc_base_binding_policy=none
    command -v mpirun >/dev/null 2>&1 || { echo "there is no mpirun"; exit 77; }
    mpirun -n 2 "$ZEST" train --task list >"$work/out" 2>"$work/err"
    grep -q "built without MPI" "$work/err" && { echo "built without MPI"; exit 77; }
    grep -q "use the launcher of" "$work/err" && { echo "mpirun is of another MPI"; exit 77; }
    return 0
}

# ranks NUMBER STATUS ARGUMENTS...
ranks() {
    count=$1 expected=$2
    shift 2
    timeout 120 mpirun -n "$count" "$ZEST" "$@" >"$work/out" 2>"$work/err" </dev/null
    status=$?
    [ "$status" -eq "$expected" ] || fail "mpirun -n $count zest $*: status $status instead of $expected"
}

children() { # of a process, in the order of their numbers; a minimal system has no pgrep
    for stat in /proc/[0-9]*/stat; do
        sed -n 's/^\([0-9]*\) (.*) [A-Z] '"$1"' .*/\1/p' "$stat" 2>/dev/null
    done | sort -n
}

#!/bin/sh
# Kills of single ranks: a run is taken on by 2 to 4 ranks, a random one of them is killed with SIGKILL at a random moment,
# the launcher must end the others, and the run is resumed with another number of ranks. In the end its journal and its
# weights must be those of a run by one process that nothing disturbed. Needs Open MPI's mpirun.
#
#   sh tests/faults/ranks.sh KILLS [STEPS] [SECONDS]
#
# KILLS in all (100); STEPS of each run (4000); SECONDS (1) that a session lives at most once it takes steps. ZEST: the
# program; SEED: of the moments. Kills come when the session takes steps: one that is killed while MPI starts can leave
# Open MPI 4.1's mpirun behind.
. tests/faults/lib.sh
kills=${1:-100} steps=${2:-4000} life=${3:-1}
: "${SEED:=1}" "${MPIRUN:=mpirun --oversubscribe --bind-to none}"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_base_warn_component_unused=0
command -v mpirun >/dev/null 2>&1 || { echo "there is no mpirun"; exit 77; }
make_work ranks
make_tiny
small="--model $work/tiny --task $work/data/tiny.task --shots 4 --batch 4 --k 2 --lr 1e-3 --test-size 4 --quiet"
start() { echo "train $small --steps $steps --eval-every $((steps / 2)) --out $1"; }
same() { cmp "$1" "$2" || fail "$1 and $2 differ"; }
size_of() { stat -c %s "$1" 2>/dev/null || echo 0; }
children() { # of a process
    for stat in /proc/[0-9]*/stat; do
        sed -n 's/^\([0-9]*\) (.*) [A-Z] '"$1"' .*/\1/p' "$stat" 2>/dev/null
    done | sort -n
}
random() { awk -v seed="$SEED" -v n="$1" -v high="$2" 'BEGIN { srand(seed * 100003 + n); rand(); printf "%.3f", rand() * high }'; }
whole() { printf '%.0f' "$(random "$1" "$2" | sed 's/\..*//')"; }

# shellcheck disable=SC2046
"$ZEST" $(start "$work/whole") >"$work/out" || fail "the run that nothing disturbs"
done_kills=0 sessions=0 runs=0 slowest=0 began=$(date +%s)
while [ "$done_kills" -lt "$kills" ]; do
    run="$work/run"
    rm -rf "$run"
    while :; do
        sessions=$((sessions + 1)) before=$(size_of "$run/journal")
        count=$((2 + $(whole $((3 * sessions)) 3)))
        if [ -e "$run/journal" ]; then next="train --resume $run --quiet"; else next=$(start "$run"); fi
        # shellcheck disable=SC2086
        $MPIRUN -n $count "$ZEST" $next >"$work/out" 2>"$work/err" </dev/null &
        launcher=$!
        if [ "$done_kills" -ge "$kills" ]; then
            wait $launcher || fail "$(cat "$work/err")"
            break
        fi
        while kill -0 $launcher 2>/dev/null && [ "$(size_of "$run/journal")" -le "$before" ]; do sleep 0.05; done
        sleep "$(random $((3 * sessions + 1)) "$life")"
        victim=$(children $launcher | sed -n "$((1 + $(whole $((3 * sessions + 2)) $count)))p")
        struck=$(date +%s.%N)
        if [ -n "$victim" ] && kill -9 "$victim" 2>/dev/null; then
            tries=0
            while kill -0 $launcher 2>/dev/null; do
                tries=$((tries + 1))
                [ $tries -lt 1200 ] || { kill -9 $launcher; fail "session $sessions: the death of a rank does not end the others"; }
                sleep 0.05
            done
            wait $launcher
            status=$?
            if [ $status -eq 137 ]; then
                grep -q 'rank [0-9]* with PID' "$work/err" || fail "session $sessions: the rank is not named: $(cat "$work/err")"
                done_kills=$((done_kills + 1))
                slowest=$(echo "$slowest $struck $(date +%s.%N)" | awk '{ s = $3 - $2; printf "%.1f", (s > $1 ? s : $1) }')
                continue
            fi
        fi
        wait $launcher || fail "session $sessions: $(cat "$work/err")"
        break
    done
    runs=$((runs + 1))
    same "$run/journal" "$work/whole/journal"
    same "$run/last/model.safetensors" "$work/whole/last/model.safetensors"
done
echo "$done_kills ranks killed in $sessions sessions of $runs runs: every run has the bytes of one that was not disturbed;" \
    "the others ended within $slowest s ($(($(date +%s) - began)) s in all)"

# Nothing that --exec started outlives zest minimize: not after a normal end, not after a failure, not after kill -9;
# also not what a shell started, which neither reads the pipes nor ends with its parent.
. tests/cli/lib.sh
objective="$BUILD/tests/programs/objective"

# A sleeper in the background, with its number in a file, and the objective as a child of the shell.
command="sleep 1000 >/dev/null </dev/null & echo \$! >>$work/pids; $objective text 3; true"

# The processes in the file have ended: at once, or within some seconds.
all_ended() {
    [ "$(wc -l <"$work/pids")" -eq "$2" ] || fail "$1: the programs did not start"
    for pid in $(cat "$work/pids"); do
        tries=0
        while kill -0 "$pid" 2>/dev/null && ! grep -q '^State:.Z' "/proc/$pid/status" 2>/dev/null; do
            tries=$((tries + 1))
            if [ $tries -ge 100 ]; then
                kill -9 $(cat "$work/pids") 2>/dev/null
                fail "$1: process $pid lives on"
            fi
            sleep 0.05
        done
    done
    rm "$work/pids"
}

run 0 minimize --exec "$command" --jobs 2 --dim 3 --steps 5
all_ended "a normal end" 2
run 1 minimize --exec "sleep 1000 </dev/null >/dev/null & echo \$! >>$work/pids; exit 3" --dim 3 --steps 5
err_has "exit status 3"
all_ended "a failure" 1
run 1 minimize --exec "echo \$\$ >>$work/pids; sleep 1000 & echo \$! >>$work/pids; wait; true" --dim 3 --timeout 0.2
err_has "no answer"
all_ended "a timeout" 2

"$ZEST" minimize --exec "$command" --jobs 2 --dim 3 --steps 200000000 --lr 0.05 --out "$work/run" >/dev/null 2>&1 &
zest=$!
wait_for_steps "$work/run" 20
kill -9 $zest
wait $zest 2>/dev/null
run 0 info "$work/run" --json
steps=$(sed -n 's/^{"steps": \([0-9]*\).*/\1/p' "$work/out" | tail -n 1)
all_ended "kill -9" 2
run 0 minimize --resume "$work/run" --exec "$objective text 3" --steps $((steps + 5)) # the lock is free

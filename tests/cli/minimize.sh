# zest minimize, replay and info: as a person uses them, and as programs misbehave.
. tests/cli/lib.sh
objective="$BUILD/tests/programs/objective"

# The whole way: run, look, replay; every format and number of jobs gives the same bits.
run 0 minimize --exec "$objective text 3" --dim 3 --steps 300 --lr 0.05 --out "$work/a"
out_has "steps done after 300 steps and 3001 evaluations"
run 0 replay "$work/a"
same "$work/out" "$work/a/x"
run 0 replay "$work/a" --step 0 --json
out_is_json && out_has '"x": [0.0, 0.0, 0.0]'
run 0 info "$work/a" --json
out_is_json && out_has '"steps": 300' && out_has '"lr": "0.05"'
run 0 minimize --exec "$objective f64 3" --format f64 --dim 3 --steps 300 --lr 0.05 --out "$work/b" --jobs 3
same "$work/a/x" "$work/b/x"
same "$work/a/journal" "$work/b/journal"
run 0 minimize --exec "$objective f32 3" --format f32 --dim 3 --steps 300 --lr 0.05 --json
out_is_json && out_has '"stop": "steps done"'

# Misbehaviour is named, the run is kept, and resuming ends where the good run did.
misbehave() { # habit, words of the message
    rm -rf "$work/c"
    run 1 minimize --exec "$objective text 3 $1" --dim 3 --steps 300 --lr 0.05 --out "$work/c" --timeout 1
    err_has "$2"
    err_has "zest minimize --resume $work/c"
    run 0 minimize --resume "$work/c" --exec "$objective text 3"
    same "$work/a/x" "$work/c/x"
    same "$work/a/journal" "$work/c/journal"
}
misbehave "crash-at 777" "killed by signal 6"
misbehave "quit-at 777" "exit status 5"
misbehave "hang-at 777" "no answer within 1 seconds"
misbehave "nonsense-at 777" "answered 'seven and a half"
run 1 minimize --exec "$objective text 3 two-answers" --dim 3
err_has "not one number on a line"
run 1 minimize --exec "no-such-program-anywhere" --dim 3
err_has "was not found"
run 0 minimize --exec "$objective text 3 nan-at 50" --dim 3 --steps 20
out_has "left out  1 pairs"

# Ctrl-C: stops after the step in flight, says so, and goes on bit for bit.
"$ZEST" minimize --exec "$objective text 3" --dim 3 --steps 200000000 --lr 0.05 --out "$work/d" >"$work/out" 2>"$work/err" &
pid=$!
wait_for_steps "$work/d" 200
kill -INT $pid
wait $pid || fail "an interrupted run ends with status $?"
out_has "stopped on request"
# kill -9: nothing but the step in flight is lost
"$ZEST" minimize --resume "$work/d" >/dev/null 2>&1 &
pid=$!
wait_for_steps "$work/d" 2000
kill -9 $pid
wait $pid 2>/dev/null
run 0 info "$work/d" --json
steps=$(sed -n 's/^{"steps": \([0-9]*\).*/\1/p' "$work/out" | tail -n 1)
run 0 minimize --resume "$work/d" --steps $((steps + 50))
run 0 minimize --exec "$objective text 3" --dim 3 --steps $((steps + 50)) --lr 0.05 --out "$work/e"
same "$work/d/x" "$work/e/x"

# What cannot be.
run 2 minimize --dim 3
err_has "--exec PROGRAM"
run 2 minimize --exec "$objective"
err_has "--dim"
run 1 minimize --exec "$objective" --dim 3 --out "$work/a"
err_has "there is a journal already"
run 1 minimize --resume "$work/a" --rho 7
err_has "cannot change"
cp -r "$work/a" "$work/edited"
sed -i 's/^seed=.*/seed=77/' "$work/edited/options"
run 1 minimize --resume "$work/edited" --steps 301
err_has "edited/options: has seed=77"
# the lock comes before the first file: a process that does not get it changes nothing
mkdir "$work/locked"
flock "$work/locked/journal.new" "$ZEST" minimize --exec "$objective text 3" --dim 3 --steps 3 --out "$work/locked" \
    >"$work/out" 2>"$work/err" && fail "two processes start one run"
err_has "another process is running this run"
[ "$(ls "$work/locked")" = journal.new ] || fail "the second process wrote $(ls "$work/locked")"
run 1 minimize --resume "$work/nowhere"
run 2 replay "$work/a" --step 301
err_has "from 0 to 300"
echo "1 2 x" >"$work/bad"
run 1 minimize --exec "$objective" --start "$work/bad"
err_has "line 1"
printf '1\n2 # two\n,3\n' >"$work/good"
run 0 minimize --exec "$objective text 3" --start "$work/good" --steps 3
printf '9\n9\n9\n' >"$work/a/start"
run 1 replay "$work/a"
err_has "started from other values"
if [ -w /dev/full ]; then
    "$ZEST" replay "$work/b" >/dev/full 2>"$work/err" && fail "a full disk went unnoticed"
    err_has "cannot be written"
fi

# Several processes of one command, started by mpirun: a run does not depend on their number, and the failure of one is
# the end of all. Skipped where zest was built without MPI, or the launcher of its MPI is not there.
. tests/cli/lib.sh
model=examples/roberta-tiny task=examples/reviews/reviews.task
small="--model $model --task $task --shots 8 --batch 8 --k 3 --lr 1e-3 --rho 0.01 --eval-every 4 --seed 21 --test-size 20"
need_ranks

[ "$(wc -l <"$work/out")" -eq "$(run 0 train --task list; wc -l <"$work/out")" ] || fail "each rank has printed the tasks"

# The same journal, weights and results for any number of ranks: also for those that divide nothing, and for more ranks
# than lanes (6) and than examples (8).
run 0 train $small --steps 8 --out "$work/one" --json
cp "$work/out" "$work/one.json"
metrics() { sed 's/"seconds": [0-9.e-]*//g; s/"peak_bytes": [0-9]*//g; s|"run": "[^"]*"||' "$1"; }
for n in 2 3 4 8 11; do
    ranks $n 0 train $small --steps 8 --out "$work/$n" --json
    out_is_json
    for file in journal best/model.safetensors last/model.safetensors; do same "$work/one/$file" "$work/$n/$file"; done
    [ "$(metrics "$work/one.json")" = "$(metrics "$work/out")" ] || fail "the results of $n ranks differ"
done

# Other objectives are made of scores, not of losses; and without a folder each rank rebuilds the best weights.
for objective in accuracy f1; do
    run 0 train $small --steps 3 --objective $objective --out "$work/$objective"
    ranks 3 0 train $small --steps 3 --objective $objective --out "$work/$objective-3"
    same "$work/$objective/journal" "$work/$objective-3/journal"
done
# Every example with directions of its own: examples are divided, and batches of other sizes fill up.
run 0 train $small --shots 9 --steps 3 --directions example --out "$work/example"
ranks 3 0 train $small --shots 9 --steps 3 --directions example --out "$work/example-3"
for file in journal last/model.safetensors; do same "$work/example/$file" "$work/example-3/$file"; done
# Directions made of the layers' inputs: rank 0 samples them, for all. A run goes on with those in its folder.
colored="$small --steps 3 --directions lowrank:1 --covariance inputs:9"
run 0 train $colored --out "$work/colored"
ranks 3 0 train $colored --out "$work/colored-3"
for file in journal covariance.safetensors last/model.safetensors; do same "$work/colored/$file" "$work/colored-3/$file"; done
rm -r "$work/colored-3/last"
run 0 train --resume "$work/colored" --steps 5
ranks 2 0 train --resume "$work/colored-3" --steps 5
same "$work/colored/last/model.safetensors" "$work/colored-3/last/model.safetensors"
ranks 3 0 train $small --steps 8 --json
[ "$(metrics "$work/one.json")" = "$(metrics "$work/out")" ] || fail "the results of a run without a folder differ"
ranks 2 0 train $small --steps 8 --dry-run

# A run goes on with another number of ranks, and with none. An evaluation that the log has lost is repeated.
ranks 2 0 train $small --steps 3 --out "$work/resumed"
cp -r "$work/resumed" "$work/alone"
sed -i '/"eval"/d' "$work/resumed/log.jsonl"
# Without checkpoints and log the journal and the model that the run started from are enough.
mkdir "$work/bare"
for file in options inputs.json task journal; do cp "$work/resumed/$file" "$work/bare"; done
ranks 4 0 train --resume "$work/resumed" --steps 8
ranks 2 0 train --resume "$work/bare" --steps 8
run 0 train --resume "$work/alone" --steps 8
for other in resumed alone bare; do
    same "$work/one/best/model.safetensors" "$work/$other/best/model.safetensors"
    same "$work/one/last/model.safetensors" "$work/$other/last/model.safetensors"
done

# Evaluations and predictions, also of rows that only rank 0 can read.
run 0 eval "$work/one" --json
metrics "$work/out" >"$work/eval"
ranks 3 0 eval "$work/one" --json
out_is_json
metrics "$work/out" >"$work/eval3"
same "$work/eval" "$work/eval3"
run 0 predict "$work/one" --split test
cp "$work/out" "$work/answers"
ranks 3 0 predict "$work/one" --split test
same "$work/answers" "$work/out"
printf 'sentence\nA lovely day.\nNever again.\nFine.\n' >"$work/new.tsv"
run 0 predict "$work/one" --input "$work/new.tsv"
cp "$work/out" "$work/answers"
timeout 120 mpirun -n 2 "$ZEST" predict "$work/one" --input - <"$work/new.tsv" >"$work/out" 2>"$work/err" || fail "predict from standard input"
same "$work/answers" "$work/out"
ranks 2 0 predict "$work/one" --input "$work/new.tsv" --out "$work/predicted"
same "$work/answers" "$work/predicted"

# Sharpness: losses.
run 0 sharpness "$work/one" --samples 6 --radii 1,2 --top 0 --forward-only --trace-samples 2 --slice 1 --points 3 --json
metrics "$work/out" >"$work/sharp"
ranks 3 0 sharpness "$work/one" --samples 6 --radii 1,2 --top 0 --forward-only --trace-samples 2 --slice 1 --points 3 --json
metrics "$work/out" >"$work/sharp3"
same "$work/sharp" "$work/sharp3"

# What several processes cannot do.
run 0 train $small --steps 2 --momentum 0.5 --out "$work/momentum"
ranks 2 2 train --resume "$work/momentum" --steps 3
err_has "a run with --t auto or --momentum cannot be resumed on 2 ranks"
run 0 train --resume "$work/momentum" --steps 3
ranks 2 2 info "$work/one"
err_has "works in one process"
ranks 2 2 train $small --steps 2 --method sgd --quiet
err_has "gradients of a batch that has one part are not"
[ "$(grep -c '^zest: ' "$work/err")" -eq 1 ] || fail "more than one rank reports the same failure"
ranks 2 2 train $small --no-such-option 1
[ "$(grep -c '^zest: ' "$work/err")" -eq 2 ] || fail "more than one rank reports a mistyped option"

# Ranks that do not agree are named before the first step.
together() { timeout 120 mpirun "$@" >"$work/out" 2>"$work/err" </dev/null && fail "ranks that differ go on"; }
together -n 2 "$ZEST" train $small --steps 2 : -n 1 "$ZEST" train $small --steps 3
err_has "the options or the version of zest of rank 2 differ from those of the other 2"
mkdir "$work/other"
cp examples/reviews/* "$work/other"
sed -i '2,$s/^/Oh, /' "$work/other/train.tsv"
together -n 1 "$ZEST" train $small --steps 2 : -n 2 "$ZEST" train $small --steps 2 --task "$work/other/reviews.task"
err_has "the examples of rank 0 differ from those of the other 2"
together -n 2 "$ZEST" train $small --steps 2 --out "$work/none" : -n 1 "$ZEST" train $small --steps 2 --model "$work/nowhere" --out "$work/none"
err_has "zest: rank 2: "
err_has "$work/nowhere"
[ -e "$work/none" ] && fail "a run that could not start has a folder"

# A rank that hangs, or is killed, ends the others within the time that --rank-timeout says; a signal ends the run after a
# step. The run goes on from its journal.
long="--model $model --task $task --shots 8 --batch 8 --k 3 --lr 1e-4 --eval-every 0 --seed 21 --test-size 20 --steps 100000"
wait_for_growth() { # of the journal of a run, by a few steps from $size on
    tries=0
    while [ "$(stat -c %s "$1/journal")" -lt $((size + 300)) ]; do
        tries=$((tries + 1))
        [ $tries -lt 1200 ] || fail "the run does not get on"
        sleep 0.05
    done
}
strike() { # signal, which of the processes, status, seconds
    size=$(stat -c %s "$work/long/journal")
    mpirun -n 3 "$ZEST" train --resume "$work/long" --steps 100000 --rank-timeout "$4" >"$work/out" 2>"$work/err" </dev/null &
    launcher=$!
    wait_for_growth "$work/long"
    kill -"$1" "$(children $launcher | sed -n "$2p")"
    tries=0
    while kill -0 $launcher 2>/dev/null; do
        tries=$((tries + 1))
        [ $tries -lt 1200 ] || { kill -9 $launcher; fail "a rank that got SIG$1 does not end the others"; }
        sleep 0.05
    done
    wait $launcher
    status=$?
    [ "$status" -eq "$3" ] || fail "SIG$1: status $status instead of $3"
}
ranks 2 0 train $long --steps 1 --out "$work/long"
strike STOP 2 1 2
err_has "zest: rank 1 did not come to step"
strike STOP 1 1 2
err_has "rank 0 did not come to step"
strike KILL 3 137 600
err_has "rank 2 with PID"
strike TERM 2 0 600
out_has "interrupted after"

# A bit of the weights of one rank is another one: the next comparison, of every hundredth step, stops the run and names
# the step and the rank. The run goes on from its journal.
if "${CC:-cc}" -shared -fPIC -o "$work/flip.so" tests/cli/flip_bit.c 2>/dev/null && ldd "$ZEST" 2>/dev/null | grep -q 'libc\.so\.6'; then
    run 0 train $long --steps 1 --out "$work/flipped"
    size=$(stat -c %s "$work/flipped/journal")
    timeout 60 mpirun -n 2 "$ZEST" train --resume "$work/flipped" --steps 100000 : \
        -n 1 env LD_PRELOAD="$work/flip.so" FLIP_SIZE=2000000 "$ZEST" train --resume "$work/flipped" --steps 100000 \
        >"$work/out" 2>"$work/err" </dev/null &
    launcher=$!
    wait_for_growth "$work/flipped"
    kill -USR1 "$(children "$(children $launcher)" | sed -n 3p)"
    wait $launcher && fail "a flipped bit is not noticed"
    grep -q '^zest: step [0-9]*00: the weights of rank 2 differ from those of the other 2$' "$work/err" || fail "the rank is not named"
    steps=$(sed -n 's/^zest: step \([0-9]*\):.*/\1/p' "$work/err")
    run 0 train --resume "$work/flipped" --steps $((steps + 1))
fi

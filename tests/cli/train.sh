# zest train, eval, predict, replay, info and report on the demo's model: as a person uses them, and as things go wrong.
. tests/cli/lib.sh
model=examples/roberta-tiny task=examples/reviews/reviews.task
small="--model $model --task $task --shots 8 --batch 8 --k 2 --lr 1e-4 --eval-every 4 --seed 21 --test-size 20"

# The whole way.
run 0 train $small --steps 8 --out "$work/a"
out_has "step      4"
out_has "tilt: t = 1 changes the steps by"
out_has "steps done after 8 steps"
out_has "test  accuracy"
for file in options journal log.jsonl result.json best/model.safetensors best/config.json best/vocab.json last/model.safetensors; do
    [ -s "$work/a/$file" ] || fail "the run lacks $file"
done
grep '"kind":"step"' "$work/a/log.jsonl" | grep -v '"passes":4}' && fail "a step with k = 2 is 4 forward passes, by which tokens a second count"
ls "$work/a" | grep -q '^events.out.tfevents' || fail "no TensorBoard events"
run 0 eval "$work/a" --json
out_is_json
for key in accuracy f1 loss n; do out_has "\"$key\":"; done
cp "$work/out" "$work/eval"
run 0 eval "$work/a/best" --task $task --test-size 20 --json
accuracy() { sed 's/.*"accuracy": \([0-9.]*\).*/\1/' "$1"; }
[ "$(accuracy "$work/out")" = "$(accuracy "$work/eval")" ] || fail "the best folder and the run's best differ"
run 0 eval "$work/a" --split dev --step 0
out_has "step 0"
run 0 info "$work/a" --json
out_is_json
out_has '"task": "reviews"'
out_has '"t_half":'
out_has '"peak_bytes":'
grep -q device_peak_bytes "$work/out" && fail "a run on the CPU has taken a GPU's memory"
run 0 info "$work/a"
out_has "best dev"
out_has "model      $PWD/$model (roberta): 1751808 parameters"
out_has "method     zest-n, lr = 1e-4, k = 2, rho = 0.002, t = 1, seed = 21"
out_has "MiB at most"
# What a run on a GPU says of it.
cp -r "$work/a" "$work/gpu"
sed -i 's/"peak_bytes":/"device_peak_bytes":3145728,&/' "$work/gpu/log.jsonl"
run 0 info "$work/gpu" --json
out_has '"device_peak_bytes": 3145728'
run 0 info "$work/gpu"
out_has "and 3.0 MiB of the GPU's"
out_has "t = 1 changes the steps by"
run 0 predict "$work/a" --split test
[ "$(wc -l <"$work/out")" -eq 20 ] || fail "predict does not answer every example"
out_has '"probabilities"'
printf 'sentence\nA lovely day.\nNever again.\n' >"$work/new.tsv"
run 0 predict "$work/a" --input "$work/new.tsv"
[ "$(wc -l <"$work/out")" -eq 2 ] || fail "predict does not answer every row"
grep -q label "$work/out" && fail "rows without labels have labels"
run 0 report "$work/a" --out "$work/report.html"
grep -q "<svg" "$work/report.html" || fail "the report has no figure"
grep -q "changes the steps by" "$work/report.html" || fail "the report has no advice on t"

# Without a folder: the same figures, and a word that nothing is kept.
run 0 train $small --steps 8
err_has "nothing of this run will be kept"
err_has "--out RUN"
grep -v '^zest: train:' "$work/err" | tail -n 1 | grep -q "nothing of this run" || # a slow machine shows progress after it
    fail "that nothing is kept is said before the run is known to start"
grep '^dev  \|^test ' "$work/out" >"$work/unkept"
run 2 train $small --freeze 'no.such*'
[ "$(wc -l <"$work/err")" -eq 1 ] || fail "a run that cannot start says more than why"
run 0 eval "$work/a" --split dev
sed -n 2p "$work/out" >"$work/judged"
run 0 eval "$work/a"
sed -n 2p "$work/out" >>"$work/judged"
same "$work/judged" "$work/unkept"
run 0 train $small --steps 1 --quiet
[ -s "$work/err" ] && fail "--quiet still talks"

# What a run is going to be: on stderr at its start, and as a result, with a measured step, by --dry-run.
run 0 train $small --steps 8
for text in "model   $model (roberta): 1751808 parameters, all of them trained; BF16 weights" \
    "task    reviews: 16 examples to train on, 16 dev, 20 test; best by accuracy" \
    "method  zest-n: lr = 1e-4 (constant), k = 2, rho = 0.002, t = 1" "length  8 steps of 8 examples" "(4.0 epochs)" \
    "memory  about"; do err_has "$text"; done
grep -q "^time" "$work/err" && fail "a time that was not measured"
run 0 train $small --steps 300 --freeze '*embeddings*' --out "$work/dry" --dry-run
[ -e "$work/dry" ] && fail "a dry run has written something"
[ -s "$work/err" ] && fail "a dry run talks on stderr"
out_has "of them trained"
out_has "s a step (measured): about"
out_has "with 76 evaluations of dev"
run 0 train $small --steps 300 --dry-run --json
out_is_json
for text in '"parameters": 1751808' '"train": 16' '"steps": "300"' '"evaluations": 76' '"memory_bytes": ' '"step_seconds": ' \
    '"epochs": 150.0'; do out_has "$text"; done
run 0 train $small --steps 30 --method adamw --dry-run
out_has "method  adamw: lr = 1e-4 (constant), seed = 21"
run 1 train $small --out "$work/a" --dry-run
err_has "already"
run 2 train --resume "$work/a" --dry-run
err_has "for a new run"
run 2 train $small --shots 8 --task "$work/none.task" --lr -1 --dry-run

# Replay gives the same weights as a run that ended there; step 0 is the start.
run 0 train $small --steps 5 --out "$work/b" --json
out_is_json
run 0 replay "$work/a" --step 5 --out "$work/five"
same "$work/five/model.safetensors" "$work/b/last/model.safetensors"
run 0 replay "$work/a" --step 0 --out "$work/zero" --json
out_is_json
same "$work/zero/model.safetensors" $model/model.safetensors
cp -r $model "$work/start"
run 0 train $small --model "$work/start" --steps 1 --out "$work/own"
run 2 replay "$work/own" --step 1 --out "$work/start"
err_has "is the model that the run started from"
same "$work/start/model.safetensors" $model/model.safetensors
# elsewhere: the run was copied and its model moved
cp -r "$work/a" "$work/moved"
rm -r "$work/moved/best" "$work/moved/last"
sed -i "s|^model=.*|model=/nowhere|" "$work/moved/options"
run 1 replay "$work/moved" --step 5
run 0 replay "$work/moved" --step 5 --model $model --out "$work/five-again"
same "$work/five/model.safetensors" "$work/five-again/model.safetensors"

# A kill at any time: resumed, it ends as if nothing had happened.
run 0 train $small --steps 40 --out "$work/whole"
"$ZEST" train $small --steps 40 --out "$work/killed" >"$work/out" 2>"$work/err" &
pid=$!
wait_for_steps "$work/killed" 8
kill -9 $pid
wait $pid 2>/dev/null
run 0 train --resume "$work/killed"
same "$work/killed/journal" "$work/whole/journal"
same "$work/killed/best/model.safetensors" "$work/whole/best/model.safetensors"
same "$work/killed/last/model.safetensors" "$work/whole/last/model.safetensors"
# Ctrl-C ends it cleanly
"$ZEST" train $small --steps 4000 --out "$work/stopped" >"$work/out" 2>"$work/err" &
pid=$!
wait_for_steps "$work/stopped" 6
kill -INT $pid
wait $pid || fail "an interrupted run ended with $?"
out_has "zest train --resume"
# two at a time are refused
"$ZEST" train --resume "$work/stopped" >/dev/null 2>&1 &
pid=$!
size=$(stat -c %s "$work/stopped/journal")
tries=0
while [ "$(stat -c %s "$work/stopped/journal")" -le "$size" ] && [ $tries -lt 400 ]; do tries=$((tries + 1)); sleep 0.05; done
run 1 train --resume "$work/stopped"
err_has "another process"
kill -INT $pid
wait $pid

# Mistakes are explained.
run 2 train --task $task
err_has "--model"
run 2 train --model $model
err_has "--task"
run 2 train --model $model --task SST-3
err_has "did you mean"
run 1 train --model $model --task SST-2 --data "$work"
err_has "train.tsv"
run 2 train --model $model --task COPA --data "$work"
run 1 train $small --out "$work/a"
err_has "resume"
run 2 train --resume "$work/a" --lr 3
err_has "cannot change"
run 2 train $small --freeze 'no.such*'
err_has "no.such*"
run 1 train --resume "$work/nothing"
run 2 eval $model
err_has "--task"
run 2 train $small --objective speed
sed 's/^words.*/words = bad:unbelievable, good:good/' $task >"$work/x.task"
cp examples/reviews/*.tsv "$work"
run 2 train --model $model --task "$work/x.task"
err_has "unbelievable"
printf 'sentence\tlabel\nfine\tgood\nodd\tgreen\n' >"$work/train.tsv"
cp $task "$work/y.task"
run 1 train --model $model --task "$work/y.task"
err_has "train.tsv, line 3"
# of several bad labels the first of the file, in whatever order rows are drawn
awk 'BEGIN { print "sentence\tlabel"; for (i = 2; i <= 300; i++) print "text " i "\t" (i % 50 == 5 ? "green" : "good") }' >"$work/train.tsv"
for seed in 1 2 3; do
    run 1 train --model $model --task "$work/y.task" --seed $seed
    err_has "train.tsv, line 5:"
done
# a wrong value is told the default that help shows
run 2 train --lr abc
err_has "(default 1e-5)"
"$ZEST" train --help | grep -A1 -e '--lr NUMBER' | grep -qF '[default: 1e-5]' || fail "help shows another default"
# what was not tested has no figures, not figures of nothing
sed '/^test/d; s|^train.*|train = '"$PWD"'/examples/reviews/train.tsv|' $task >"$work/z.task"
run 0 train --model $model --task "$work/z.task" --shots 4 --batch 4 --k 1 --steps 1 --out "$work/untested" --json
out_has '"test": null'
grep -q '"test": null' "$work/untested/result.json" || fail "result.json has figures of no examples"
run 0 report "$work/untested" --out "$work/untested.html"

# A learning rate that is far too large: the run stops, says why, and keeps the best weights.
run 1 train $small --lr 10 --steps 60 --out "$work/high"
out_has "loss diverged after"
err_has "diverged: 10 steps in a row above"
err_has "smaller --lr"
err_has "--resume $work/high --on-divergence continue"
[ -s "$work/high/best/model.safetensors" ] || fail "the best weights are gone"
grep -q '"reason": "loss diverged"' "$work/high/result.json" || fail "result.json does not say why it ended"
run 1 train --resume "$work/high"
err_has "diverged"
run 0 train --resume "$work/high" --on-divergence continue --steps 30
run 0 eval "$work/high"

# A disk that fills up: the run ends with a message and can go on.
(ulimit -f 40; "$ZEST" train $small --steps 8 --out "$work/full" >"$work/out" 2>"$work/err")
[ $? -eq 1 ] || fail "a full disk went unnoticed"
err_has "File too large"
run 0 train --resume "$work/full"
same "$work/full/journal" "$work/a/journal"
same "$work/full/best/model.safetensors" "$work/a/best/model.safetensors"
run 0 train --task list
out_has "ReCoRD"

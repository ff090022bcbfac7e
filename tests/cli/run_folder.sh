# A run stands on its own: its task is in its folder, and files outside that have changed are noticed. And its start
# is all or nothing: whenever it is killed, the run can be resumed or started again.
. tests/cli/lib.sh
model=examples/roberta-tiny
mkdir "$work/data" "$work/model"
cp examples/reviews/* "$work/data"
cp $model/* "$work/model"
task=$work/data/reviews.task
small="--task $task --shots 8 --batch 8 --k 2 --lr 1e-4 --eval-every 4 --seed 21 --test-size 20 --model"
printf 'sentence\nA lovely day.\nNever again.\n' >"$work/new.tsv"

run 0 train $small "$work/model" --steps 8 --out "$work/a"
for file in task inputs.json; do [ -s "$work/a/$file" ] || fail "the run lacks $file"; done
same "$work/a/task" "$task"
[ -e "$work/a/journal.new" ] && fail "the reservation was left behind"
cp -r "$work/a" "$work/old" # as zest 0.1 left a run
rm "$work/old/task" "$work/old/inputs.json"

# Label words that change places outside do not change what the run answers.
run 0 predict "$work/a" --input "$work/new.tsv"
cp "$work/out" "$work/before"
run 0 eval "$work/a" --json
sed 's/, "seconds".*//' "$work/out" >"$work/eval-before"
cp "$task" "$work/saved.task"
sed -i 's/^words.*/words = good:bad, bad:good/' "$task"
run 0 predict "$work/a" --input "$work/new.tsv"
same "$work/before" "$work/out"
err_has "reviews.task: changed since the run began"
err_has "/task, and uses that"
run 0 eval "$work/a" --json
sed 's/, "seconds".*//' "$work/out" | cmp -s - "$work/eval-before" || fail "the task outside changed the figures"
run 0 eval "$work/a" --quiet
[ -s "$work/err" ] && fail "--quiet still talks"
run 0 train $small "$work/model" --steps 5 --out "$work/swapped"
run 0 predict "$work/old" --input "$work/new.tsv" # which has no copy: as before, and says so
cmp -s "$work/before" "$work/out" && fail "the test's tasks do not differ"
err_has "cannot be checked"
run 0 train --resume "$work/old" --steps 9
err_has "cannot be checked"
# a task that was asked for is used, but a run does not go on with another one
run 0 predict "$work/a" --task "$task" --input "$work/new.tsv"
cmp -s "$work/before" "$work/out" && fail "the task that was asked for is not used"
run 2 train --resume "$work/a" --steps 9 --task "$task"
err_has "is not the task of this run"
rm "$task" # the run does not need it
run 0 predict "$work/a" --input "$work/new.tsv"
same "$work/before" "$work/out"
run 0 eval "$work/a" --split dev

# The whole folder elsewhere: --task says where the data are now.
mv "$work/data" "$work/moved"
cp "$work/saved.task" "$work/moved/reviews.task"
run 1 eval "$work/a"
err_has "was not found"
run 0 eval "$work/a" --data "$work/moved"
run 0 train --resume "$work/a" --steps 10 --task "$work/moved/reviews.task"
mv "$work/moved" "$work/data"
run 0 train --resume "$work/a" --steps 11 --task "$task"
cp -r "$work/a" "$work/b"

# Rows that have changed are refused, with what to do.
head -n 60 "$work/data/train.tsv" >"$work/cut" # shorter
cp "$work/data/train.tsv" "$work/whole.tsv"
cp "$work/cut" "$work/data/train.tsv"
size=$(stat -c %s "$work/b/journal")
for command in "train --resume $work/b --steps 14" "eval $work/b --split dev" "predict $work/b --split train" \
    "sharpness $work/b --split train --top 0 --trace-samples 0"; do
    run 1 $command
    err_has "data/train.tsv: changed since the run began: it had $(stat -c %s "$work/whole.tsv") bytes"
    err_has "now it has $(stat -c %s "$work/cut")"
    err_has "--allow-changed-files"
done
[ "$(stat -c %s "$work/b/journal")" -eq "$size" ] || fail "a refused run went on"
run 0 eval "$work/b" # the test rows are what they were
run 0 predict "$work/b" --input "$work/new.tsv"
run 0 eval "$work/b" --split dev --allow-changed-files
sed 's/terrible/horrible/' "$work/whole.tsv" >"$work/data/train.tsv" # as long as before
cmp -s "$work/whole.tsv" "$work/data/train.tsv" && fail "the test's rows do not differ"
run 1 train --resume "$work/b" --steps 14
err_has "changed since the run began"
run 0 train --resume "$work/b" --steps 12 --allow-changed-files
grep -q '^allow-changed-files=no' "$work/b/options" || fail "the permission was kept for ever"
run 1 train --resume "$work/b" --steps 14
cp "$work/whole.tsv" "$work/data/train.tsv"
run 0 train --resume "$work/b" --steps 14

# A start model that has changed is refused where it is needed: not for best/ and last/, which have all of it.
echo ' ' >>"$work/model/config.json"
run 0 eval "$work/a"
run 0 replay "$work/a" --step last
run 1 replay "$work/a" --step 3
err_has "config.json: changed since the run began"
err_has "--model"
run 0 replay "$work/a" --step 3 --allow-changed-files --out "$work/three"
run 0 replay "$work/a" --step 3 --model $model
cp $model/config.json "$work/model"
rm "$work/model/merges.txt"
run 1 replay "$work/a" --step 3
err_has "merges.txt: is missing"
cp $model/merges.txt "$work/model"
cp "$work/three/model.safetensors" "$work/model"
run 1 replay "$work/a" --step 0 --allow-changed-files # weights are never another's
err_has "started from other values"
rm -r "$work/a/last" "$work/a/best"
run 1 train --resume "$work/a" --steps 12
err_has "model.safetensors: changed since the run began"
cp $model/model.safetensors "$work/model"
# tensors that are not trained have a fingerprint of their own
run 0 train $small "$work/model" --steps 2 --freeze '*embeddings*' --out "$work/frozen"
grep -q '"frozen"' "$work/frozen/inputs.json" || fail "the frozen tensors are not on record"
rm -r "$work/frozen/best" "$work/frozen/last"
run 0 replay "$work/frozen" --step 1
run 0 train $small "$work/model" --steps 1 --train-only '*embeddings*' --out "$work/others"
cp "$work/others/last/model.safetensors" "$work/model" # what is trained has its old values
run 1 replay "$work/frozen" --step 1 --allow-changed-files
err_has "tensors that the run does not train"
cp $model/model.safetensors "$work/model"

# What a killed process left is removed by the next one that goes on, unless its owner still has it locked.
for file in options last/model.safetensors best/config.json; do echo x >"$work/b/$file.123.tmp"; done
run 0 train --resume "$work/b" --steps 15
[ -z "$(find "$work/b" -name '*.tmp')" ] || fail "left behind: $(find "$work/b" -name '*.tmp')"

# Options that were edited do not fit the journal.
sed -i 's/^seed=.*/seed=22/' "$work/b/options"
run 1 train --resume "$work/b" --steps 16
err_has "seed=22"
err_has "seed=21"

# The record itself is a stranger's file.
for text in '' '[]' '{}' '{"task":{"name":"x"},"data":[{"name":"train"}],"model":[]}' \
    '{"task":{"name":"x"},"data":[{"name":"../x","file":"x","bytes":1,"xxh3":"0123456789abcdef"}],"model":[]}' \
    '{"task":{"name":"x"},"data":[],"model":[],"frozen":"zz"}'; do
    printf '%s' "$text" >"$work/old/inputs.json"
    run 1 eval "$work/old"
    err_has "inputs.json"
done
rm "$work/old/inputs.json"

# A kill before the journal has its name: whatever is there by then, the run starts again and is the same.
cp "$work/saved.task" "$task"
run 0 train $small $model --steps 4 --out "$work/c"
for files in "" "task" "task inputs.json" "task inputs.json options" "task inputs.json options journal.new"; do
    rm -rf "$work/d"
    mkdir "$work/d"
    for file in $files; do cp "$work/c/${file%.new}" "$work/d/$file"; done
    run 1 train --resume "$work/d"
    run 0 train $small $model --steps 4 --out "$work/d"
    same "$work/d/journal" "$work/c/journal"
done
# and once it has it, the run can be resumed: killed as soon as the journal is there
"$ZEST" train $small $model --steps 4 --out "$work/e" >/dev/null 2>&1 &
pid=$!
tries=0
while [ ! -e "$work/e/journal" ] && [ $tries -lt 200000 ]; do tries=$((tries + 1)); done
kill -9 $pid 2>/dev/null
wait $pid 2>/dev/null
run 0 train --resume "$work/e"
same "$work/e/journal" "$work/c/journal"
# two that start at once: one runs, the other is told, and the folder is the first one's
"$ZEST" train $small $model --steps 4 --out "$work/f" >/dev/null 2>"$work/one" &
one=$!
"$ZEST" train $small $model --seed 22 --steps 4 --out "$work/f" >/dev/null 2>"$work/two" &
two=$!
wait $one
first=$?
wait $two
second=$?
[ $((first + second)) -eq 1 ] || fail "two runs in one folder ended with $first and $second"
grep -q "another process\|already" "$work/one" "$work/two" || fail "the second run was not told why"
run 0 train --resume "$work/f" --steps 5
run 2 train $small $model --steps 4 --out "$task"
err_has "is a file"

# --broadcast: rank 0 alone has the model, the task, the data and the run. The other ranks are started in an empty folder,
# in which none of these paths leads to a file. Skipped where ranks.sh is.
. tests/cli/lib.sh
need_ranks
case $ZEST in /*) ;; *) ZEST=$PWD/$ZEST ;; esac
model=examples/roberta-tiny task=examples/reviews/reviews.task
small="--model $model --task $task --shots 8 --batch 8 --k 3 --lr 1e-3 --rho 0.01 --eval-every 4 --seed 21 --test-size 20"
mkdir "$work/empty" "$work/tmp"
metrics() { sed 's/"seconds": [0-9.e-]*//g; s/"peak_bytes": [0-9]*//g; s|"run": "[^"]*"||; s|"path": "[^"]*"||' "$1"; }

# apart STATUS ARGUMENTS...: rank 0 here, two others in the empty folder
apart() {
    expected=$1
    shift
    TMPDIR="$work/tmp" timeout 120 mpirun -n 1 "$ZEST" "$@" : -n 2 --wdir "$work/empty" "$ZEST" "$@" >"$work/out" 2>"$work/err" </dev/null
    status=$?
    [ "$status" -eq "$expected" ] || fail "ranks apart: zest $*: status $status instead of $expected"
    left=$(find "$work/tmp" "$work/empty" -name 'zest-??????' -o -path "$work/empty/*")
    [ -z "$left" ] || fail "left behind: $left"
}
# In a folder of its own, so that the paths mean nothing elsewhere.
cp -r examples "$work"
cd "$work" || exit 1

run 0 train $small --steps 8 --out one --json
cp "$work/out" one.json
apart 1 train $small --steps 8 --out none
[ -e none ] && fail "a run that could not start has a folder"
apart 0 train $small --steps 8 --out sent --broadcast --json
for file in journal best/model.safetensors last/model.safetensors; do same "one/$file" "sent/$file"; done
[ "$(metrics one.json)" = "$(metrics "$work/out")" ] || fail "the results differ"
grep -q "broadcast *= *yes" sent/options && fail "the run keeps an option of its session"

# Without a folder the best weights are rebuilt by rank 0. Other types of weights, and frozen tensors, are sent, too.
apart 0 train $small --steps 8 --broadcast --json
[ "$(metrics one.json)" = "$(metrics "$work/out")" ] || fail "the results of a run without a folder differ"
run 0 train $small --steps 2 --weights f32 --untie-head --freeze '*norm*' --out frozen
apart 0 train $small --steps 2 --weights f32 --untie-head --freeze '*norm*' --out frozen-sent --broadcast
same frozen/last/model.safetensors frozen-sent/last/model.safetensors

# Rows of inputs, of which directions are made, are sent as the weights are.
run 0 train $small --steps 2 --directions lowrank:1 --covariance inputs:9 --out colored
apart 0 train $small --steps 2 --directions lowrank:1 --covariance inputs:9 --out colored-sent --broadcast
same colored/last/model.safetensors colored-sent/last/model.safetensors
apart 0 train --resume colored-sent --steps 3 --broadcast
run 0 train --resume colored --steps 3
same colored/last/model.safetensors colored-sent/last/model.safetensors

# A run that goes on: its folder, too, is only rank 0's.
apart 0 train $small --steps 3 --out resumed --broadcast
apart 0 train --resume resumed --steps 8 --broadcast
for file in best/model.safetensors last/model.safetensors; do same "one/$file" "resumed/$file"; done

# Evaluations, predictions and sharpness of a run, a step in its middle, and a model in a GGUF file.
run 0 eval one --step 2 --json
metrics "$work/out" >eval
apart 0 eval one --step 2 --json --broadcast
metrics "$work/out" | cmp -s - eval || fail "the evaluations differ"
run 0 predict one --split test
cp "$work/out" answers
apart 0 predict one --split test --broadcast
same answers "$work/out"
printf 'sentence\nA lovely day.\nNever again.\n' >new.tsv
run 0 predict one --input new.tsv
cp "$work/out" answers
apart 0 predict one --input new.tsv --broadcast
same answers "$work/out"
run 0 sharpness one --samples 4 --radii 1 --top 0 --forward-only --trace-samples 2 --json
metrics "$work/out" >sharp
apart 0 sharpness one --samples 4 --radii 1 --top 0 --forward-only --trace-samples 2 --json --broadcast
metrics "$work/out" | cmp -s - sharp || fail "the measurements of sharpness differ"

# What rank 0 has not got it says for all; and a rank without --broadcast is noticed.
apart 1 train $small --model nowhere --steps 2 --broadcast
err_has "nowhere"
[ "$(grep -c '^zest: ' "$work/err")" -eq 1 ] || fail "more than one rank reports what rank 0 has not got"
apart 1 train $small --task nowhere.task --steps 2 --broadcast
err_has "nowhere.task"
timeout 120 mpirun -n 2 "$ZEST" train $small --steps 2 --broadcast : -n 1 "$ZEST" train $small --steps 2 >"$work/out" 2>"$work/err" </dev/null &&
    fail "a rank without --broadcast goes on"
err_has "the settings of --broadcast of rank 2 differ from those of the other 2"

# A program that trains through zest_lm.h makes the run that zest train makes, whole or stopped and resumed.
. tests/cli/lib.sh
model=examples/roberta-tiny task=examples/reviews/reviews.task
same="shots=8 batch=8 k=2 lr=1e-4 eval-every=4 seed=21 test-size=20 steps=8"
run 0 train --model $model --task $task $(for o in $same; do echo "--$o"; done) --out "$work/program"
for how in "" 5; do
    out="$work/library$how"
    "$BUILD/tests/programs/lm_train" "model=$model task=$task $same out=$out" $how >"$work/accuracies" || fail "lm_train $how"
    [ "$(cut -d' ' -f1 "$work/accuracies")" = "$(cut -d' ' -f2 "$work/accuracies")" ] || fail "training and evaluation differ"
    for file in journal best/model.safetensors last/model.safetensors; do
        cmp "$work/program/$file" "$out/$file" || fail "zest train and zest_lm_train differ in $file"
    done
done
"$BUILD/tests/programs/lm_train" "model=$model task=$task no-such-option=1" 2>"$work/err" && fail "an unknown option is taken"
grep -q "no-such-option" "$work/err" || fail "the message does not name the option"

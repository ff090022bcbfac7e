# A program that trains through zest_lm.h makes the run that zest train makes, whole or stopped and resumed.
. tests/cli/lib.sh
model=examples/roberta-tiny task=examples/reviews/reviews.task
same="shots=8 batch=8 k=2 lr=1e-4 eval-every=4 seed=21 test-size=20 steps=8"
run 0 train --model $model --task $task $(for o in $same; do echo "--$o"; done) --out "$work/program"
for how in "" 5; do
    out="$work/library$how"
    "$BUILD/tests/programs/lm_train" "model=$model task=$task $same out=$out" $how >"$work/accuracies" || fail "lm_train $how"
    { read -r trained evaluated && read -r third best; } <"$work/accuracies"
    [ "$trained" = "$evaluated" ] || fail "training and evaluation differ: $trained, $evaluated"
    run 0 replay "$out" --step 3
    out_has "$third"
    run 0 replay "$out" --step best
    out_has "$best"
    for file in journal best/model.safetensors last/model.safetensors; do
        cmp "$work/program/$file" "$out/$file" || fail "zest train and zest_lm_train differ in $file"
    done
done
"$BUILD/tests/programs/lm_train" "model=$model task=$task no-such-option=1" 2>"$work/err" && fail "an unknown option is taken"
grep -q "no-such-option" "$work/err" || fail "the message does not name the option"

# examples/finetune.c: the loss falls, and the journal makes the saved weights again from the start model, bit for bit.
"$BUILD/examples/finetune" $model "$work/tuned" "$work/tuned.journal" >"$work/out" || fail "examples/finetune"
awk '!($2 > 0.1 && $4 < $2 / 2) { exit 1 }' "$work/out" || fail "the loss does not fall: $(cat "$work/out")"
"$BUILD/tests/programs/lm_replay" $model weights=f32 "$work/tuned.journal" 80 "$work/again" || fail "lm_replay"
cmp "$work/tuned/model.safetensors" "$work/again/model.safetensors" || fail "the replayed weights differ"
"$BUILD/tests/programs/lm_replay" $model weights=f32 "$work/tuned.journal" 79 "$work/before" || fail "lm_replay"
cmp -s "$work/tuned/model.safetensors" "$work/before/model.safetensors" && fail "the last step changed nothing"
run 0 score "$work/tuned" --text 'A great day.' # what was saved is a model

# Methods with gradients on several ranks: the gradient of a batch is the sum of --accumulate parts in one order, so runs
# have the same bytes for any number of ranks, also for those that divide nothing and for more ranks than parts. Skipped
# where ranks.sh is.
. tests/cli/lib.sh
need_ranks
model=examples/roberta-tiny task=examples/reviews/reviews.task
small="--model $model --task $task --shots 8 --batch 7 --lr 1e-3 --weights f32 --eval-every 4 --seed 21 --test-size 20 --save-every 2"
if "$ZEST" train $small --method sgd --steps 1 2>&1 | grep -q GRAD=off; then
    echo "built without gradients"
    exit 77
fi
run 0 train $small --steps 5 --method adamw --dropout 0.1 --accumulate 4 --out "$work/adamw"
for n in 2 3 5; do
    ranks $n 0 train $small --steps 5 --method adamw --dropout 0.1 --accumulate 4 --out "$work/adamw-$n"
    for file in journal last/model.safetensors last/state.safetensors; do same "$work/adamw/$file" "$work/adamw-$n/$file"; done
done
# Two evaluations a step, and weights of the neighbours' gradients that depend on their losses.
for method in sam tsam; do
    run 0 train $small --steps 3 --method $method --radius 0.01 --k 2 --accumulate 3 --out "$work/$method"
    ranks 2 0 train $small --steps 3 --method $method --radius 0.01 --k 2 --accumulate 3 --out "$work/$method-2"
    same "$work/$method/last/model.safetensors" "$work/$method-2/last/model.safetensors"
done

# The parts are those of the batch: the losses of the first step are the same to the bit, the others but for rounding.
losses() { sed -n 's/.*"kind":"step".*"loss":\([0-9.e-]*\).*/\1/p' "$1/log.jsonl"; }
run 0 train $small --steps 4 --method sgd --accumulate 3 --out "$work/parts"
run 0 train $small --steps 4 --method sgd --out "$work/whole"
[ "$(losses "$work/parts" | wc -l)" -eq 4 ] || fail "the log has no losses"
[ "$(losses "$work/parts" | head -n 1)" = "$(losses "$work/whole" | head -n 1)" ] || fail "the losses of the first step differ"
losses "$work/parts" >"$work/a" && losses "$work/whole" >"$work/b"
paste "$work/a" "$work/b" | awk '{ d = $1 - $2; if (d < 0) d = -d; if (!(d < 1e-5)) exit 1 }' || fail "the gradient of the parts is another one"
cmp -s "$work/parts/last/model.safetensors" "$work/whole/last/model.safetensors" && fail "the parts have not been added one by one"

# A run goes on with another number of ranks: the optimizer's state is sent, and with --broadcast all the rest.
ranks 3 0 train $small --steps 3 --method adamw --dropout 0.1 --accumulate 4 --out "$work/resumed"
ranks 2 0 train --resume "$work/resumed" --steps 4 --broadcast
run 0 train --resume "$work/resumed" --steps 5
same "$work/adamw/last/model.safetensors" "$work/resumed/last/model.safetensors"

# zest pretrain: the masks of a sequence do not depend on its part.
cut -f 1 examples/reviews/train.tsv >"$work/text"
text="--model $model --text $work/text --length 32 --batch 8 --steps 3 --eval-every 0 --held-out 0 --accumulate 3"
run 0 pretrain $text --out "$work/pretrained"
ranks 2 0 pretrain $text --out "$work/pretrained-2"
same "$work/pretrained/last/model.safetensors" "$work/pretrained-2/last/model.safetensors"

# The gradients of zest sharpness, of several batches.
metrics() { sed 's/"seconds": [0-9.e-]*//g' "$1"; }
hessian="--split train --examples 400 --samples 0 --top 1 --lanczos-steps 2 --difference-step 0.1 --trace-samples 0"
run 0 sharpness $model --task $task $hessian --json
metrics "$work/out" >"$work/sharp"
ranks 3 0 sharpness $model --task $task $hessian --json
metrics "$work/out" >"$work/sharp3"
same "$work/sharp" "$work/sharp3"

ranks 2 2 train $small --steps 2 --method sgd --quiet
err_has "give --accumulate 2 or more parts, or start one process"

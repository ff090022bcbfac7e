# Methods that take gradients, and zest pretrain: as a person uses them, and as things go wrong.
. tests/cli/lib.sh
model=examples/roberta-tiny task=examples/reviews/reviews.task
small="--model $model --task $task --shots 8 --batch 8 --lr 1e-3 --eval-every 4 --seed 21 --test-size 20"

# A library without gradients says so.
if "$ZEST" train $small --method sgd --steps 1 2>&1 | grep -q GRAD=off; then
    run 2 pretrain --model $model --text README.md
    err_has "GRAD=off"
    exit 0
fi

# The summary names the options that the method takes.
summary() { # method, options, the line
    run 0 train $small --dry-run --method "$1" $2
    out_has "method  $1: lr = 1e-3 (constant), $3"
}
summary sgd "" "seed = 21"
summary sam "" "radius = 0.01, seed = 21"
summary sam "--sam-search random --k 2" "k = 2, radius = 0.01, seed = 21"
summary tsam "--k 2 --t 3" "k = 2, radius = 0.01, t = 3, seed = 21"

# The whole way.
run 0 train $small --method adamw --steps 8 --save-every 3 --out "$work/a"
out_has "steps done after 8 steps"
for file in options journal log.jsonl result.json best/model.safetensors best/vocab.json last/model.safetensors last/state.safetensors; do
    [ -s "$work/a/$file" ] || fail "the run lacks $file"
done
run 0 info "$work/a"
out_has "steps      8"
out_has "best dev"
run 0 eval "$work/a" --json
out_is_json
run 0 eval "$work/a" --step last --split dev
out_has "step 8"
run 0 predict "$work/a" --split test
[ "$(wc -l <"$work/out")" -eq 20 ] || fail "predict does not answer every example"
run 0 report "$work/a" --out "$work/report.html"
grep -q "<svg" "$work/report.html" || fail "the report has no figure"
run 0 replay "$work/a" --step 0 --out "$work/zero"
same "$work/zero/model.safetensors" $model/model.safetensors
run 0 replay "$work/a" --step 8 --out "$work/eight"
same "$work/eight/model.safetensors" "$work/a/last/model.safetensors"
run 1 replay "$work/a" --step 5
err_has "no weights of step 5"

# A kill at any time: resumed, it ends as if nothing had happened.
run 0 train $small --method sgd --momentum 0.9 --steps 60 --save-every 5 --out "$work/whole"
"$ZEST" train $small --method sgd --momentum 0.9 --steps 60 --save-every 5 --out "$work/killed" >"$work/out" 2>"$work/err" &
pid=$!
tries=0
while ! grep -q '"step": [1-9]' "$work/killed/last/zest.json" 2>/dev/null; do
    tries=$((tries + 1))
    [ $tries -lt 600 ] || fail "the run does not get on"
    sleep 0.02
done
kill -9 $pid
wait $pid 2>/dev/null
run 0 train --resume "$work/killed"
for file in best/model.safetensors last/model.safetensors last/state.safetensors last/zest.json; do
    same "$work/killed/$file" "$work/whole/$file"
done

# SAM by random points is TSAM with a tilt that leaves the worst one alone; and it is not SAM by a step uphill.
run 0 train $small --method sam --sam-search random --k 3 --radius 20 --steps 2 --weights f32 --out "$work/worst"
run 0 train $small --method tsam --t 1e12 --k 3 --radius 20 --steps 2 --weights f32 --out "$work/tilted"
same "$work/worst/last/model.safetensors" "$work/tilted/last/model.safetensors"
run 0 train $small --method sam --k 3 --radius 20 --steps 2 --weights f32 --out "$work/uphill"
cmp -s "$work/worst/last/model.safetensors" "$work/uphill/last/model.safetensors" && fail "--sam-search changes nothing"

# A disk that fills up: the run ends with a message and can go on.
(ulimit -f 10000; "$ZEST" train $small --method adamw --steps 8 --save-every 3 --out "$work/full" >"$work/out" 2>"$work/err")
[ $? -eq 1 ] || fail "a full disk went unnoticed"
err_has "File too large"
run 0 train --resume "$work/full"
same "$work/full/last/model.safetensors" "$work/a/last/model.safetensors"
same "$work/full/last/state.safetensors" "$work/a/last/state.safetensors"

# Mistakes are explained.
run 2 train $small --method sam --objective f1
err_has "have no gradient"
run 2 train $small --clip 1
err_has "take gradients"
run 2 train $small --sam-search random
err_has "take gradients"
run 2 train --resume "$work/a" --momentum 0.9
err_has "cannot change"
run 2 minimize --exec cat --dim 2 --method sgd
err_has "only zest train has them"

# From nothing but a shape and a text.
mkdir "$work/shape"
cp $model/config.json $model/vocab.json $model/merges.txt $model/tokenizer_config.json "$work/shape"
text="--model $work/shape --text docs/design.md --length 48 --batch 8 --seed 3 --held-out 0.2"
run 0 pretrain $text --steps 6 --eval-every 3 --out "$work/made"
out_has "perplexity"
run 0 pretrain $text --steps 4 --eval-every 3 --out "$work/more"
run 0 pretrain --resume "$work/more" --steps 6
same "$work/more/last/model.safetensors" "$work/made/last/model.safetensors"
run 0 info "$work/made"
out_has "perplexity"
run 0 report "$work/made" --out "$work/report.html"
grep -q "zest pretrain" "$work/report.html" || fail "the report does not say how the model was made"
run 0 train --model "$work/made/best" --task $task --shots 8 --batch 8 --method mezo --k 1 --steps 2 --eval-every 2 --test-size 20
run 2 pretrain --model "$work/shape"
err_has "--text"
run 2 pretrain --text docs/design.md
err_has "--model"
run 1 pretrain --model "$work/shape" --text "$work/none"
err_has "cannot be opened"

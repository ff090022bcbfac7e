# zest sweep on the demo's model: the tables, a kill in the middle, several at a time, runs that fail.
. tests/cli/lib.sh
model=examples/roberta-tiny task=examples/reviews/reviews.task
common="--model $model --task $task --shots 4 --batch 4 --k 2 --eval-every 4 --test-size 8"
grid="$common --method mezo,zest-n --t 1,50 --lr 1e-3 --seed 42,13 --steps 8"
# what a sweep says of its runs; where they are does not count
results() { sed "s|$work/[a-z]*|SWEEP|g" "$1/results.json"; }

run 0 sweep $grid --dry-run
out_has "6 runs: 0 finished, 0 interrupted, 6 to run"
out_has "zest-n-t50-seed13"

run 0 sweep $grid --out "$work/a"
out_has "6 of 6 runs finished"
out_has "95 % interval"
out_has "reviews, clean labels, by t"
# a terminal of 100 columns is wide enough (by characters; the last line has a path)
if sed '$d' "$work/out" | LC_ALL=C.UTF-8 grep -E '^.{101,}'; then fail "a line is wider than 100 columns"; fi
for file in grid table.md table.csv by-t.csv table.tex results.json runs/mezo-seed42/result.json runs/zest-n-t1-seed13/journal; do
    [ -s "$work/a/$file" ] || fail "the sweep lacks $file"
done
for words in '| method | reviews |' '**By t**' 'too few seeds to tell'; do grep -qF "$words" "$work/a/table.md" || fail "table.md lacks $words"; done
grep -q 'textbf{reviews}' "$work/a/table.tex" || fail "the LaTeX table has no task"
[ "$(wc -l <"$work/a/table.csv")" -eq 3 ] || fail "the CSV has not a line for each method"
"$BUILD/tests/programs/is_json" <"$work/a/results.json" || fail "results.json is no JSON"
# each is an ordinary run, the same as one by hand
run 0 train $common --method zest-n --t 50 --lr 1e-3 --seed 13 --steps 8 --out "$work/hand"
same "$work/hand/last/model.safetensors" "$work/a/runs/zest-n-t50-seed13/last/model.safetensors"
run 0 report "$work"/a/runs/* --out "$work/report.html"
run 0 eval "$work/a/runs/mezo-seed42"
# and the sweep is a report of its own, with results against t
run 0 report "$work/a" --figures "$work/figures"
out_has "page  $work/a/report.html"
for id in results figure-methods-test by-t figure-by-t-test figure-by-t-dev figure-t-curves-zest-n; do grep -q "id=\"$id\"" "$work/a/report.html" || fail "the report lacks $id"; done
for file in "$work/figures/by-t-test.svg" "$work/a/by-t-test.svg"; do grep -q 'MeZO (t = 0)' "$file" || fail "$file has no MeZO"; done
for file in "$work/figures/methods-test.svg" "$work/a/methods-test.svg"; do grep -q '>ZEST-N</text>' "$file" || fail "$file has no ZEST-N"; done
# done is done
run 0 sweep --resume "$work/a" --json
out_is_json
run 0 sweep --resume "$work/a" --dry-run
out_has "6 finished"
run 1 sweep $grid --out "$work/a"
err_has "--resume"

# Two at a time, from a file: the same results.
sed "s|=.*reviews.task|= $task|" "$work/a/grid" >"$work/my.sweep"
run 0 sweep "$work/my.sweep" --jobs 2 --out "$work/b"
results "$work/a" >"$work/one"
results "$work/b" >"$work/two"
same "$work/one" "$work/two"

# A run that diverges is a result like any other: its best weights count, and the sweep goes on.
run 0 sweep $common --method mezo --lr 1e-3,1e2 --seed 42 --steps 40 --quiet --out "$work/wild"
out_has "2 of 2 runs finished"
grep -q '"reason": "loss diverged"' "$work/wild/runs/lr1e2/result.json" || fail "the run did not diverge, or has no result"

# Several runs on a GPU: a hint at MPS unless it is on (the runs fail where there is no GPU).
gpu="$common --method mezo --seed 42,13 --steps 1 --device cuda"
mkdir "$work/mps-off" "$work/mps-on"
: >"$work/mps-on/control"
for state in off on; do
    CUDA_MPS_PIPE_DIRECTORY=$work/mps-$state "$ZEST" sweep $gpu --jobs 2 --out "$work/gpu-$state" >"$work/out" 2>"$work/mps-$state/err" || true
done
grep -q 'nvidia-cuda-mps-control' "$work/mps-off/err" || fail "no hint at MPS"
if grep -q 'nvidia-cuda-mps-control' "$work/mps-on/err"; then fail "a hint at MPS, though it is on"; fi

# A kill -9 at any time: resumed, the results are those of a sweep that was not killed.
long="$common --method mezo,zest-n --t 20 --lr 1e-3 --seed 42,13 --steps 24"
run 0 sweep $long --out "$work/whole" --jobs 2
"$ZEST" sweep $long --out "$work/killed" --jobs 2 >/dev/null 2>&1 &
pid=$!
wait_for_steps "$work/killed/runs/mezo-seed42" 74
kill -9 $pid
wait $pid 2>/dev/null
sleep 0.2
run 0 sweep --resume "$work/killed"
results "$work/whole" >"$work/one"
results "$work/killed" >"$work/two"
same "$work/one" "$work/two"
same "$work/whole/runs/mezo-seed42/journal" "$work/killed/runs/mezo-seed42/journal"
# Ctrl-C stops it cleanly
"$ZEST" sweep $common --method mezo --lr 1e-3 --seed 42,13 --steps 4000 --out "$work/stopped" >"$work/out" 2>"$work/err" &
pid=$!
wait_for_steps "$work/stopped/runs/seed42" 74
run 1 sweep --resume "$work/stopped"
err_has "another zest sweep"
kill -INT $pid
wait $pid || fail "an interrupted sweep ended with $?"
run 0 sweep --resume "$work/stopped" --dry-run
out_has "1 interrupted, 1 to run"
# its length is part of what it is
run 2 sweep --resume "$work/stopped" --steps 10
err_has "contains a run with steps = 4000"

# One run fails: it says why, the others go on.
run 1 sweep $common --method mezo --lr 1e-3 --steps 4 --freeze "no.such*;*bias" --out "$work/fails"
err_has "no.such"
grep -q "1 of 2 runs finished, 1 failed" "$work/out" || fail "the table does not count the failure"
# One seed: the answers of the test examples are compared.
run 0 sweep $common --method mezo,zest-n --t 50 --lr 1e-3 --steps 4 --out "$work/single"
out_has "McNemar p ="
# First-order methods with options of their own, beside the others; weights that are not kept. (a library without gradients has none)
if ! "$ZEST" train $common --method sgd --steps 1 2>&1 | grep -q GRAD=off; then
    run 0 sweep $common --method mezo,sgd,tsam --lr 1e-3,first:1e-2,5e-3 --batch 4,first:2 --radius 0.01 --clip first:1 --weights first:f32 \
        --steps 4,first:3 --seed 42,13 --jobs 2 --keep none --out "$work/orders"
    out_has "10 of 10 runs finished"
    for words in '| order | method | reviews |' '| reviews | clean labels | sgd |'; do grep -qF "$words" "$work/orders/table.md" || fail "table.md lacks $words"; done
    grep -q 'makecell{1st-' "$work/orders/table.tex" || fail "the LaTeX table does not tell the orders apart"
    grep -q '^clip=1' "$work/orders/runs/tsam-lr5e-3-seed13/options" || fail "a first-order run lacks its own option"
    [ -e "$work/orders/runs/mezo-seed42/result.json" ] || fail "a run has no result"
    for part in best last; do [ -e "$work/orders/runs/mezo-seed42/$part" ] && fail "--keep none keeps $part"; done
    run 0 eval "$work/orders/runs/mezo-seed42" # from its journal
fi
run 0 sweep --resume "$work/single" --keep best
[ -e "$work/single/runs/mezo/last" ] && fail "--keep best keeps the last weights"
[ -e "$work/single/runs/mezo/best" ] || fail "--keep best does not keep the best weights"
# More seeds for a sweep that is there.
run 0 sweep --resume "$work/a" --seed 42,13,21
out_has "9 of 9 runs finished"

# Mistakes are explained.
run 2 sweep --task $task --out "$work/x"
err_has "--model"
run 2 sweep $grid
err_has "--out"
run 2 sweep $grid --lr 1e-3,fast --out "$work/x"
err_has "'fast' is not allowed"
run 2 sweep $grid --lrr 1
err_has "did you mean --lr?"
run 2 sweep --preset paper-table-7 --model $model --out "$work/x"
err_has "paper-table-2"
run 1 sweep --resume "$work/nothing"
err_has "not a sweep"
# six rows of three rates: equal k, batch and steps
for preset in forward-budget forward-budget-cpu; do
    run 0 sweep --preset $preset --model $model --task reviews --seed 1 --label-noise 0 --dry-run
    [ "$(grep -c "to make" "$work/out")" -eq 18 ] || fail "$preset: $(cat "$work/out")"
done
run 0 sweep --preset paper-figure-3 --model $model --scale 0.01 --dry-run
out_has "192 runs"
run 2 toy linear --preset paper-table-2
[ -e "$work/x" ] && fail "a sweep that was refused left a folder"
exit 0

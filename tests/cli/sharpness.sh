# zest sharpness on the demo's model: the table, JSON, figures, what a run keeps for its report, and what is refused.
. tests/cli/lib.sh
model=examples/roberta-tiny task=examples/reviews/reviews.task
small="--task $task --examples 12 --samples 6"
few="$small --radii 1,3 --train-only *layer.5*"
last="--top 2 --lanczos-steps 5 --trace-samples 2"
# one number of the last line, by the words before it
number() { tail -n 1 "$work/out" | sed "s/.*$1[^-0-9]*\([-0-9.e+]*\).*/\1/"; }

run 0 sharpness $model $few $last
for words in "mean loss" "standard deviation" "maximum" "tilted loss" "eigenvalue" "residual" "trace" "12 train examples of reviews"; do
    out_has "$words"
done
run 0 sharpness $model $few $last --json
out_is_json
out_has '"distribution": "ball"' # as in the paper's figures 2 and 4
for key in neighbourhood hessian trace mean spread tilted effective residual half_step disagreement dimension; do out_has "\"$key\":"; done
# neither the number of threads nor the lanes in memory changes a bit
clean() { sed 's/"seconds": [0-9.e+-]*//' "$work/out"; }
clean >"$work/first"
run 0 sharpness $model $few $last --json --threads 1 --live 3
clean | cmp -s - "$work/first" || fail "threads or live lanes change the result"
run 0 sharpness $model $few $last --json --sample-seed 2
clean | cmp -s - "$work/first" && fail "the seed of the samples changes nothing"

# Losses alone: no eigenvalues; the trace is about what gradients say (these 40 probes are not those).
run 0 sharpness $model $few --forward-only --trace-samples 40 --json
out_is_json
out_has '"by": "losses"'
grep -q '"hessian"' "$work/out" && fail "--forward-only finds eigenvalues"
forward=$(number '"trace": {"trace": {"value"')
run 0 sharpness $model $few --top 0 --trace-samples 40 --json
out_has '"by": "gradients"'
gradients=$(number '"trace": {"trace": {"value"')
awk -v a="$forward" -v b="$gradients" 'BEGIN { exit !(a > b / 3 && a < b * 3 && b > 0) }' || fail "traces: $forward and $gradients"

# Figures.
run 0 sharpness $model $few $last --slice 1 --points 5 --out "$work/one.svg"
out_has "slice along eigenvectors"
for file in one one-slice; do grep -q '</svg>' "$work/$file.svg" || fail "no $file.svg"; done
run 0 sharpness $model $few $last --slice 2 --points 3 --along seeded --out "$work/two.svg" --json
grep -q '</svg>' "$work/two-slice.svg" || fail "no two-slice.svg"
out_has '"along": "seeded"'
run 0 sharpness $model $few --forward-only --trace-samples 0 --slice 1 --points 3
out_has "slice along random directions"
run 2 sharpness $model $few --forward-only --slice 2
err_has "--slice 1"

# Runs: side by side with the same perturbations; kept in their folders, shown by the report.
train="--model $model --task $task --shots 8 --batch 8 --k 2 --lr 1e-4 --steps 3 --eval-every 3 --test-size 10 --train-only *layer.5*"
run 0 train $train --method mezo --out "$work/a"
run 0 train $train --t 5 --out "$work/b"
run 0 report "$work/a" "$work/b" --out "$work/report.html"
grep -q 'id="sharpness"' "$work/report.html" && fail "a report without sharpness has such a section"
run 0 sharpness "$work/a" "$work/b" --examples 12 --samples 6 --radii 1,2 $last --step last
out_has "b, step 3"
out_has "above that of a, by the same perturbations"
for run in a b; do "$BUILD/tests/programs/is_json" <"$work/$run/sharpness.json" || fail "$run keeps no sharpness.json"; done
run 0 report "$work/a" "$work/b" --out "$work/report.html"
grep -q 'id="sharpness"' "$work/report.html" || fail "the report lacks the section"
for figure in sharpness-losses sharpness-top; do grep -q "figure-$figure" "$work/report.html" || fail "the report lacks $figure"; done
# step 0 is the model, bit for bit; other tensors than the run's can be chosen
run 0 sharpness "$work/a" --step 0 --examples 12 --samples 2 --radii 1 --top 0 --trace-samples 0 --train-only '*layer.4*' --split train --json
clean | sed 's/"name.*"split"//; s/, "step".*//' >"$work/first"
run 0 sharpness $model --task $task --shots 8 --examples 12 --samples 2 --radii 1 --top 0 --trace-samples 0 --train-only '*layer.4*' --seed 42 --json
clean | sed 's/"name.*"split"//; s/}]}$//' >"$work/second"
[ "$(grep -o '"loss": [0-9.]*' "$work/first")" = "$(grep -o '"loss": [0-9.]*' "$work/second")" ] || fail "step 0 is not the model"
# a damaged file is no harm
echo '{"neighbourhood": [1, {"radius": "x"}], "hessian": {"top": {}}, "loss": []}' >"$work/a/sharpness.json"
run 0 report "$work/a" --out "$work/report.html"
echo 'nonsense' >"$work/b/sharpness.json"
run 0 report "$work/b" --out "$work/report.html"

# How long it will take; losses and eigenvalues at different times and on different examples; from files; names.
run 0 train $train --method mezo --seed 13 --out "$work/c"
run 0 sharpness "$work/c" --examples 12 --top-examples 6 --samples 6 --radii 1,2 $last --dry-run
out_has "13 passes over 12 examples"
out_has "of 6; about"
[ -e "$work/c/sharpness.json" ] && fail "--dry-run measures"
run 0 sharpness "$work/c" --examples 12 --samples 6 --radii 1,2 --top 0 --trace-samples 0
run 0 sharpness "$work/c" --top-examples 6 --samples 0 $last
out_has "the Hessian on 6 of the examples"
run 0 sharpness "$work/c/sharpness.json" --json
for words in '"samples": 6' '"radius": 2.0' '"residual"' '"examples": 12' '"examples": 6'; do out_has "$words"; done
cp "$work/c/sharpness.json" "$work/d.json"
run 0 sharpness "$work/c/sharpness.json" "$work/d.json" --names 'MeZO,MeZO' --out "$work/both.svg"
out_has "MeZO, step"
out_has "the Hessian on 6 of the examples"
grep -q 'standard error over 2 runs' "$work/both.svg" || fail "two runs of one name are not taken together"
run 2 sharpness "$work/c/sharpness.json" --names a,b
err_has "2 names for 1"
echo '{"task": 1}' >"$work/bad.json"
run 1 sharpness "$work/bad.json"
err_has "was not written by zest sharpness"

# What is refused.
run 2 sharpness
run 2 sharpness $model $small --radii 0
run 2 sharpness $model $small --samples 1
run 2 sharpness $model $small --samples 5 --antithetic
run 2 sharpness $model $small --train-only '*nothing*'
run 1 sharpness "$work/missing" $small

#!/bin/sh
# The demonstration: a small language model learns to tell good remarks from bad ones, by forward passes alone, with
# three methods; then the runs are evaluated, resumed, replayed and reported. Needs nothing but this repository.
set -eu
out=demo-out
rm -rf "$out"
mkdir -p "$out"
step() { printf '\n$ %s\n' "$*"; "$@"; }
train() { # name, options...
    name=$1
    shift
    step ./zest train --model examples/roberta-tiny --task examples/reviews/reviews.task --weights f32 \
        --batch 64 --lr 3e-4 --steps "${STEPS:-160}" --eval-every 40 "$@" --out "$out/$name"
}

echo "Before: the model answers 'good' to nearly everything."
step ./zest eval examples/roberta-tiny --task examples/reviews/reviews.task
echo
echo "1. MeZO: the mean loss around the weights goes down."
train mezo --method mezo
echo
echo "2. ZEST: larger losses around the weights count more, naive and bias-corrected estimator."
train zest-n --method zest-n --t 20
train zest-bc --method zest-bc --t 20
echo
echo "3. What the runs leave can be used: new sentences, a few further steps, any step again."
printf 'sentence\nThe worst meal of the year, cold and late.\nA wonderful evening with good friends.\n' >"$out/new.tsv"
step ./zest predict "$out/zest-n" --input "$out/new.tsv"
step ./zest train --resume "$out/zest-n" --steps "$((${STEPS:-160} + 10))" --quiet
step ./zest replay "$out/zest-n" --step 80 --out "$out/model-80"
echo
echo "4. The runs side by side:"
step ./zest report "$out/mezo" "$out/zest-n" "$out/zest-bc" --out "$out/report.html"
echo
echo "Report: $out/report.html    Runs: $out/mezo $out/zest-n $out/zest-bc    The paper's toys: ./zest toy stationary --preset clean"

#!/bin/sh
# The demonstration: the paper's two toys, the theory behind them, and a run that is killed, resumed and replayed.
set -eu
out=demo-out
rm -rf "$out"
mkdir -p "$out"
step() { printf '\n$ %s\n' "$*"; "$@"; }

echo "1. Two minima, equally deep, equally curved on average: which one does each method choose?"
step ./zest toy stationary --preset clean --out "$out/stationary.svg"
echo
echo "2. Down a surface of triangles: how steep is each method's way?"
step ./zest toy linear --preset clean --out "$out/linear.svg"
echo
echo "3. What the tilt t does to the sharpness that is minimised:"
step ./zest theory --out "$out/theory.svg"
echo
echo "4. A function that another program computes (here the shell), stopped half-way, resumed, replayed:"
cat >"$out/loss.sh" <<'END'
# reads a point (x y) a line, answers (x-3)^2 + 10 (y+1)^2
while read -r x y; do
    awk -v x="$x" -v y="$y" 'BEGIN { printf "%.17g\n", (x - 3)^2 + 10 * (y + 1)^2 }'
done
END
step ./zest minimize --exec "sh $out/loss.sh" --dim 2 --k 2 --lr 0.03 --steps 40 --out "$out/run"
step ./zest minimize --resume "$out/run" --steps 150
step ./zest info "$out/run"
step ./zest replay "$out/run" --step 40
echo
echo "Figures: $out/stationary.svg $out/linear.svg $out/theory.svg    Run: $out/run"

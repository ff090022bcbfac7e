# Scales, noise of low rank, a direction for every example and rows of inputs on a GPU: runs of 20 steps have the CPU's losses
# within rounding, the same journal twice, go on where they stopped, and replay to the same weights on the GPU and on the CPU.
# Exit status 77 without a GPU.
#     sh tests/cuda/gpu_directions.sh               all laws, on the tiny model
#     sh tests/cuda/gpu_directions.sh MODEL TASK    on another
: "${ZEST:=./zest}"
. tests/cli/lib.sh
model=${1:-examples/roberta-tiny} task=${2:-examples/reviews/reviews.task}
"$ZEST" train --model "$model" --task "$task" --shots 2 --steps 1 --device cuda >"$work/out" 2>"$work/err" ||
    { grep -q "GPU\|CUDA\|cuda" "$work/err" && exit 77; fail "a first run"; }

common="--shots 16 --batch 8 --k 2 --eval-every 10 --seed 5 --rho 0.01 --lr 1e-4"
# one FOLDER OPTIONS...
one() {
    folder=$work/$1
    shift
    "$ZEST" train --model "$model" --task "$task" $common --out "$folder" "$@" >"$folder.log" 2>&1 ||
        fail "$folder: $(tail -n 3 "$folder.log")"
}

losses() { sed -n 's/.*"kind":"step".*"loss":\([-0-9.e+]*\).*/\1/p' "$work/$1/log.jsonl"; }

# The largest difference of two runs' losses must be below $3; prints it.
near() {
    losses "$1" >"$work/a"
    losses "$2" >"$work/b"
    paste "$work/a" "$work/b" | awk -v most="$3" -v name="$1" '
        { d = $1 - $2; if (d < 0) d = -d; if (d > worst) worst = d; n++ }
        END { printf "%-24s largest difference from the CPU in %d steps %.2g, allowed %g\n", name, n, worst, most
              exit !(n == 20 && worst <= most) }' || fail "$1 differs from $2"
}

# replayed NAME DEVICE: the same weights, from the start
replayed() {
    rm -rf "$work/copy" "$work/again"
    cp -r "$work/$1" "$work/copy"
    rm -rf "$work/copy/last" "$work/copy/best"
    sed -i "s/^device *=.*/device=$2/" "$work/copy/options"
    "$ZEST" replay "$work/copy" --out "$work/again" >"$work/out" 2>"$work/err" || fail "replay of $1 on $2"
    same "$work/$1/last/model.safetensors" "$work/again/model.safetensors"
}

# law NAME OPTIONS...
law() {
    name=$1
    shift
    for compute in f32 bf16; do
        weights=f32 tolerance=0.002
        [ $compute = bf16 ] && weights=bf16 tolerance=0.05
        types="--compute $compute --weights $weights"
        one "$name-cpu-$compute" --steps 20 $types "$@"
        one "$name-$compute" --steps 20 $types --device cuda "$@"
        near "$name-$compute" "$name-cpu-$compute" $tolerance
        one "$name-$compute-b" --steps 20 $types --device cuda "$@"
        same "$work/$name-$compute/journal" "$work/$name-$compute-b/journal"
        one "$name-$compute-c" --steps 10 $types --device cuda "$@"
        run 0 train --resume "$work/$name-$compute-c" --steps 20
        same "$work/$name-$compute/last/model.safetensors" "$work/$name-$compute-c/last/model.safetensors"
        replayed "$name-$compute" cpu
        replayed "$name-$compute" cuda
    done
}

# Laws whose losses grow at lr 1e-4 take a smaller one: there differences of rounding grow, too.
law dense
law scales --scales '*bias=4'
law rank --directions lowrank:1
law ranks --lr 1e-5 --directions lowrank:3 --distribution rademacher --scales '*weight=1.5' --momentum 0.9
law examples --directions example:1
law scope --directions example:2 --tilt-scope example --method zest-bc --t 2
law inputs --lr 1e-5 --directions lowrank:2 --covariance inputs:8
law inputs-examples --lr 1e-5 --directions example:1 --covariance inputs:8
exit 0

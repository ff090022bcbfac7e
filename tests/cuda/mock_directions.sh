# Runs with scales, noise of low rank and rows of inputs queue their work on a GPU, make no perturbed copies of matrices, and
# resume: on the mock CUDA library (mock/mock.h), which needs no GPU. About 10 s of processor time.
. tests/cuda/mock_lib.sh

small="--model examples/roberta-tiny --task examples/reviews/reviews.task --shots 4 --batch 4 --k 2 --eval-every 2 --seed 21
       --test-size 4 --device cuda --weights bf16 --compute bf16 --freeze *embeddings*"
export MOCK_CUDA_RESULTS=vary

# launches NAME KERNEL
launches() { grep -c "^launch [^ ]*$2" "$work/$1"; }

# law NAME OPTIONS...: 4 steps; 2 steps, and 2 more
law() {
    name=$1
    shift
    MOCK_CUDA_TRACE="$work/$name" run 0 train $small --steps 4 --out "$work/$name.run" "$@"
    grep -q "^not freed\|^not destroyed" "$work/$name" && fail "$name leaves something on the GPU"
    run 0 train $small --steps 2 --out "$work/$name.part" "$@"
    run 0 train --resume "$work/$name.part" --steps 4
    rm -rf "$work/$name.run/last" "$work/$name.run/best"
    run 0 replay "$work/$name.run" --out "$work/$name.again"
}

law dense
[ "$(launches dense along_kernel)" -eq 0 ] || fail "dense noise has vectors"
law scales --scales '*bias=4'
[ "$(launches scales tensor_loop_kernel)" -gt "$(launches dense tensor_loop_kernel)" ] || fail "one update for all scales"
law rank --directions lowrank:1
law ranks --directions lowrank:3 --distribution rademacher --scales '*=2' --momentum 0.9
law examples --directions example:2 --tilt-scope example --method zest-bc
law inputs --directions lowrank:2 --covariance inputs:4
for name in rank ranks examples inputs; do
    [ "$(launches $name along_kernel)" -gt 0 ] && [ "$(launches $name add_kernel)" -gt 0 ] || fail "$name: no product of low rank"
    [ "$(launches $name vectors_kernel)" -gt 0 ] || fail "$name: no vectors"
    [ "$(launches $name low_rank_terms)" -gt 0 ] || fail "$name: no update of low rank"
done
# one product for all lanes and no matrix in the perturbed copies: they are biases, gains and what is too small for a low rank
bytes() { awk '/^cudaMalloc D/ { sub("bytes=", "", $3); n += $3 } END { print int(n) }' "$work/$1"; }
grep -q "^matmul" "$work/rank" || fail "there are no GEMMs"
[ "$(bytes rank)" -gt 0 ] || fail "nothing is allocated"
exit 0

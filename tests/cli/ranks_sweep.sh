# zest sweep --ranks: each run of a sweep is one of several processes, and the results are those of single ones. Skipped
# where ranks.sh is.
. tests/cli/lib.sh
need_ranks
small="--model examples/roberta-tiny --task examples/reviews/reviews.task --shots 8 --batch 8 --k 2 --lr 1e-3 --rho 0.01
    --steps 3 --eval-every 3 --test-size 20"
run 0 sweep $small --method mezo,zest-n --seed 1 --out "$work/one"
run 0 sweep $small --method mezo,zest-n --seed 1 --jobs 2 --ranks 2 --out "$work/two"
found=0
for folder in "$work"/one/runs/*; do
    same "$folder/last/model.safetensors" "$work/two/runs/${folder##*/}/last/model.safetensors"
    found=$((found + 1))
done
[ $found -eq 2 ] || fail "there are $found runs instead of 2"

# A launcher that is not there, and ranks of a method whose gradients are not divided, are failures with a reason.
run 1 sweep $small --method mezo --seed 1 --ranks 2 --launcher "$work/nowhere --flag" --out "$work/none"
err_has "nowhere: No such file or directory; --ranks needs the launcher of an MPI"
run 1 sweep $small --method sgd --seed 1 --ranks 2 --out "$work/sgd"
err_has "give --accumulate 2 or more parts"

# The same command queues the same work on a GPU, whatever timings say and however much memory other programs leave: the
# traces of runs on the mock CUDA library (mock/mock.h), which needs no GPU. About 10 s of processor time.
. tests/cuda/mock_lib.sh

small="--model examples/roberta-tiny --task examples/reviews/reviews.task --shots 4 --batch 8 --k 4 --steps 4 --eval-every 2
       --seed 21 --test-size 8 --device cuda"

# train NAME OPTIONS...: the run and its trace are $work/NAME.run and $work/NAME
train() {
    name=$1
    shift
    MOCK_CUDA_TRACE="$work/$name" run 0 train $small --out "$work/$name.run" "$@"
}

# Calls with the kernels' names, sizes and algorithms, without arguments that structures end with padding behind.
calls() { sed -e '/^launch/s/ |.*//' -e '/^cudaMemcpyAsync kind=1/s/.* bytes/copy bytes/' "$work/$1"; }

equal() { # two traces, and what they should not depend on
    calls "$1" >"$work/one"
    calls "$2" >"$work/other"
    same_calls=$(diff "$work/one" "$work/other" | head -n 6 | cut -c 1-300)
    [ -z "$same_calls" ] || fail "the work on the GPU depends on $3: $same_calls"
    same "$work/$1.run/journal" "$work/$2.run/journal"
}

export MOCK_CUDA_RESULTS=vary
for compute in bf16 f32; do
    MOCK_CUDA_SEED=1 train "$compute-1" --compute $compute
    grep -q "^launch .*perturb_kernel.*| D" "$work/$compute-1" || fail "the trace lacks kernels or their arguments"
    for seed in 2 3; do
        MOCK_CUDA_SEED=$seed train "$compute-$seed" --compute $compute
        equal "$compute-1" "$compute-$seed" "timings"
    done
    # the memory that this run takes, and little more
    peak=$(awk '/^cudaMalloc D/ { sub("bytes=", "", $3); size[$2] = $3; now += $3; if (now > most) most = now }
                /^cudaFree D/ { now -= size[$2] } END { print int(most / 1048576) + 2 }' "$work/$compute-1")
    MOCK_CUDA_FREE=$peak train "$compute-tight" --compute $compute
    equal "$compute-1" "$compute-tight" "free memory"
done
grep -q "^launch .*split_kernel" "$work/f32-1" || fail "fp32 GEMMs are not split"

# Less than it takes is an error, not another way to compute.
MOCK_CUDA_FREE=$((peak * 3 / 4)) run 1 train $small --out "$work/less" --compute f32
err_has "MiB"

# A run that is resumed meets the sizes of its batches in another order: each still has the same algorithm. Words of a line:
# what cuBLASLt is to compute, without addresses, and then the algorithm.
longer="--compute bf16 --shots 40 --batch 24 --k 1 --eval-every 0"
train whole $longer --steps 8
train part $longer --steps 4
MOCK_CUDA_TRACE="$work/rest" run 0 train --resume "$work/part.run" --steps 8
for trace in whole part rest; do
    grep "^matmul" "$work/$trace" | sed -e 's/ [DH][0-9]*+[0-9a-f]*//g' -e 's/| workspace.*//'
done | awk -F '[|] algorithm' '{ if ($1 in seen && seen[$1] != $2) bad++; seen[$1] = $2; n++ }
    END { if (!n || bad) { print n " GEMMs, " bad " with another algorithm than before"; exit 1 } }' >"$work/out" ||
    fail "the algorithm depends on the GEMMs before: $(cat "$work/out")"
exit 0

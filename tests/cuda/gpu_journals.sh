# Runs of the same command on a GPU have the same journal, byte for byte: alone, and four at a time. Exit status 77 without a
# GPU. About 20 s.
: "${ZEST:=./zest}"
. tests/cli/lib.sh
"$ZEST" train --model examples/roberta-tiny --task examples/reviews/reviews.task --shots 2 --steps 1 --device cuda \
    >"$work/out" 2>"$work/err" || { grep -q "GPU\|CUDA\|cuda" "$work/err" && exit 77; fail "a first run"; }

# one NAME OPTIONS...
one() {
    name=$1
    shift
    "$ZEST" train --model examples/roberta-tiny --task examples/reviews/reviews.task --shots 64 --batch 32 --k 3 \
        --steps 60 --eval-every 20 --seed 5 --device cuda --out "$work/$name" "$@" >"$work/$name.log" 2>&1
}
for compute in bf16 f32; do
    one "$compute-a" --compute $compute || fail "$(tail -n 2 "$work/$compute-a.log")"
    one "$compute-b" --compute $compute || fail "$(tail -n 2 "$work/$compute-b.log")"
    same "$work/$compute-a/journal" "$work/$compute-b/journal"
    for i in 1 2 3 4; do one "$compute-$i" --compute $compute & done
    wait
    for i in 1 2 3 4; do same "$work/$compute-a/journal" "$work/$compute-$i/journal"; done
    # stopped after 25 steps, resumed; the checksums in its journal begin with other options
    one "$compute-c" --compute $compute --steps 25 || fail "$(tail -n 2 "$work/$compute-c.log")"
    run 0 train --resume "$work/$compute-c" --steps 60
    same "$work/$compute-a/last/model.safetensors" "$work/$compute-c/last/model.safetensors"
done
exit 0

# The files of a run belong together: one of another run is refused by every command that reads it, by name.
. tests/cli/lib.sh
export OMP_NUM_THREADS=1
mkdir "$work/data"
cp examples/reviews/* "$work/data"
sed 's/^words.*/words = good:bad, bad:good/' examples/reviews/reviews.task >"$work/data/other.task"
small="--model examples/roberta-tiny --batch 4 --k 2 --steps 4 --eval-every 2 --test-size 4"

# foreign RUN FILE COMMAND...: the command is refused, and its message begins with the file
foreign() {
    file=$2 name=$1
    shift 2
    run 1 "$@"
    tail -n 1 "$work/err" | grep -q "^zest: [^ ]*/$name/$file: " || fail "zest $*: does not say that $file is foreign: $(cat "$work/err")"
}

# try OTHER FILES...: each file of that run in the folder of the first one, then the first one as it was
try() {
    other=$1
    shift
    for part; do
        rm -rf "$work/mixed"
        cp -r "$work/$first" "$work/mixed"
        rm -r "$work/mixed/$part"
        cp -r "$work/$other/$part" "$work/mixed/$part"
        cp -r "$work/mixed" "$work/copy"
        foreign mixed "$part" train --resume "$work/mixed" --steps 6
        foreign mixed "$part" eval "$work/mixed"
        foreign mixed "$part" replay "$work/mixed" --step last
        foreign mixed "$part" info "$work/mixed"
        diff -r "$work/mixed" "$work/copy" >/dev/null || fail "a refused run with a foreign $part was changed"
        rm -r "$work/copy"
    done
}

first=a
run 0 train $small --task "$work/data/reviews.task" --shots 4 --seed 1 --out "$work/a"
run 0 train $small --task "$work/data/other.task" --shots 5 --seed 2 --out "$work/b"
try b options journal last best log.jsonl task inputs.json
# with the same options only the steps differ, and the checkpoints tell
run 0 train $small --task "$work/data/other.task" --shots 4 --seed 1 --out "$work/c"
cmp -s "$work/a/journal" "$work/c/journal" && fail "the test's runs do not differ"
try c journal last best task
# an edit of any option that cannot change, whether steps depend on it or not
for option in seed=3 shots=3 k=3; do
    rm -rf "$work/mixed"
    cp -r "$work/a" "$work/mixed"
    sed -i "s/^${option%=*}=.*/$option/" "$work/mixed/options"
    grep -q "^$option\$" "$work/mixed/options" || fail "no option $option"
    for command in "train --resume $work/mixed --steps 6" "eval $work/mixed" "replay $work/mixed --step 3" "info $work/mixed"; do
        foreign mixed options $command
        err_has "$option"
    done
done
# first-order runs: the journal has no steps
first=d
run 0 train $small --method adamw --task "$work/data/reviews.task" --shots 4 --seed 1 --out "$work/d"
run 0 train $small --method adamw --task "$work/data/other.task" --shots 5 --seed 2 --out "$work/e"
try e options journal last best log.jsonl task inputs.json
# what belongs together still works, and a checkpoint of an older version, without a checksum, passes
sed -i 's/, "journal": "[0-9a-f]*"//' "$work/a/last/zest.json"
for name in a d; do
    run 0 info "$work/$name"
    run 0 eval "$work/$name"
    run 0 replay "$work/$name" --step last
    run 0 train --resume "$work/$name" --steps 6
done

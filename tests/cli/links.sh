# Nothing outside a run's folder is changed through a symbolic link in it: what is replaced as a whole is replaced
# there, and a run that would be written through a link is refused with the link's name.
. tests/cli/lib.sh
model=examples/roberta-tiny
small="--task examples/reviews/reviews.task --shots 2 --batch 2 --k 1 --lr 1e-4 --eval-every 2 --test-size 4 --steps 2"
mkdir "$work/outside"
echo precious >"$work/outside/file"
cp "$work/outside/file" "$work/precious"
untouched() {
    same "$work/precious" "$work/outside/file"
    [ "$(ls "$work/outside")" = file ] || fail "$1: files appeared behind the link"
}

for method in zest-n adamw; do
    run 0 train $small --method $method --model $model --out "$work/$method"
    for name in best best.new best.old last last.new last.old; do
        rm -rf "$work/run"
        cp -r "$work/$method" "$work/run"
        rm -rf "$work/run/$name"
        ln -s "$work/outside" "$work/run/$name"
        run 1 train --resume "$work/run" --steps 4
        err_has "run/$name: is a symbolic link"
        untouched "$name"
    done
done
for name in journal log.jsonl; do # appended to
    rm -rf "$work/run"
    cp -r "$work/zest-n" "$work/run"
    mv "$work/run/$name" "$work/target"
    cp "$work/target" "$work/before"
    ln -s "$work/target" "$work/run/$name"
    run 1 train --resume "$work/run" --steps 4
    err_has "run/$name: is a symbolic link"
    same "$work/target" "$work/before"
done
for name in options inputs.json task result.json; do # replaced, or only read
    rm -rf "$work/run"
    cp -r "$work/zest-n" "$work/run"
    mv "$work/run/$name" "$work/target"
    cp "$work/target" "$work/before"
    ln -s "$work/target" "$work/run/$name"
    run 0 train --resume "$work/run" --steps 4
    same "$work/target" "$work/before"
done

# A new run in a folder with links.
for name in journal.new log.jsonl best last; do
    rm -rf "$work/run"
    mkdir "$work/run"
    ln -s "$work/outside" "$work/run/$name"
    [ $name = best ] || [ $name = last ] || ln -sfn "$work/outside/file" "$work/run/$name"
    run 1 train $small --model $model --out "$work/run"
    err_has "run/$name: is a symbolic link"
    [ -e "$work/run/journal" ] && fail "a refused run began"
    untouched "$name"
done

# A sweep: its parts, its runs and its logs.
for name in runs logs answers; do
    rm -rf "$work/sweep"
    mkdir "$work/sweep"
    ln -s "$work/outside" "$work/sweep/$name"
    run 1 sweep $small --seed 1,2 --model $model --out "$work/sweep" --keep none
    err_has "sweep/$name: is a symbolic link"
    untouched "sweep $name"
done
rm -rf "$work/sweep"
run 0 sweep $small --seed 1,2 --model $model --out "$work/sweep"
one=$(ls "$work/sweep/runs" | head -n 1)
mv "$work/sweep/runs/$one" "$work/elsewhere" # a finished run behind a link is read, but its weights stay
ln -s "$work/elsewhere" "$work/sweep/runs/$one"
run 0 sweep --resume "$work/sweep" --keep none
[ -d "$work/elsewhere/last" ] && [ -d "$work/elsewhere/best" ] || fail "weights behind a link were deleted"
rm "$work/elsewhere/result.json" # one that is not finished would be written
run 1 sweep --resume "$work/sweep" --keep none
err_has "runs/$one: is a symbolic link"
rm "$work/sweep/runs/$one"
rm "$work/sweep/logs/$one.txt"
ln -s "$work/outside/file" "$work/sweep/logs/$one.txt"
run 1 sweep --resume "$work/sweep" --keep none
err_has "logs/$one.txt: is a symbolic link"
untouched "a sweep's log"

# What a command writes is not written over the files of a run.
rm -rf "$work/run"
cp -r "$work/adamw" "$work/run"
for name in "" /last /best; do
    run 2 replay "$work/adamw" --step last --out "$work/adamw$name"
    err_has "belongs to a run"
done
run 2 predict "$work/adamw" --split test --out "$work/adamw/options"
run 2 report "$work/adamw" --out "$work/adamw/journal"
err_has "adamw/journal: belongs to a run"
diff -r "$work/adamw" "$work/run" >/dev/null || fail "a refused command changed the run"
run 0 predict "$work/adamw" --split test --out "$work/adamw/answers.jsonl"
run 0 replay "$work/adamw" --step last --out "$work/adamw/model"

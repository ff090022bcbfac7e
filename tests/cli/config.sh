# --config FILE: options from a file, for every command; the command line wins.
. tests/cli/lib.sh
model=examples/roberta-tiny task=examples/reviews/reviews.task

cat >"$work/train.config" <<END
# a small run
model = $model
task=$task
  shots = 4

batch = 4
k = 2
lr = 1e-4
steps = 2
eval-every = 2
test-size = 8
seed = 21
data =
untie-head = no
gd-steps = 3
END
run 0 train --config "$work/train.config" --out "$work/a"
for line in shots=4 lr=1e-4 steps=2 k=2; do
    grep -qx "$line" "$work/a/options" || fail "the run's options lack $line"
done
grep -q config "$work/a/options" && fail "--config is kept in the run"

# The run's own options file repeats it: the same journal, the same weights.
run 0 train --config "$work/a/options" --out "$work/b"
same "$work/a/journal" "$work/b/journal"
same "$work/a/last/model.safetensors" "$work/b/last/model.safetensors"
run 1 train --config "$work/a/options"
err_has "resume"

# The command line wins, wherever it stands.
run 0 train --steps 1 --config "$work/train.config" --k 3 --out "$work/c"
grep -qx steps=1 "$work/c/options" || fail "the file wins over --steps"
grep -qx k=3 "$work/c/options" || fail "the file wins over --k"
grep -qx shots=4 "$work/c/options" || fail "the file does not count beside options"

# Other commands take what is theirs, a sweep takes lists.
run 0 eval "$work/a/best" --config "$work/train.config"
out_has "test  accuracy"
printf 'model = %s\ntask = %s\nshots = 4\nlr = 1e-4,1e-3\nseed = 1,2\n' $model $task >"$work/sweep.config"
run 0 sweep --config "$work/sweep.config" --dry-run
out_has "4 runs"
run 0 sweep --config "$work/sweep.config" --seed 1 --dry-run
out_has "2 runs"
printf 'json = yes' >"$work/json.config" # one line without an end
run 0 info "$work/a" --config "$work/json.config"
"$BUILD/tests/programs/is_json" <"$work/out" || fail "json = yes in a file"
run 0 minimize --exec 'while read -r x; do echo 1; done' --dim 2 --steps 2 --out "$work/m"
run 0 minimize --config "$work/m/options" --out "$work/n"
same "$work/m/journal" "$work/n/journal"

# A resumed run takes a file too: what may change, changes; what may not is refused as on the command line.
cp -r "$work/a" "$work/longer"
steps=$(sed -n 's/^steps=//p' "$work/a/options")
echo "steps = $((steps + 1))" >"$work/longer.config"
run 0 train --resume "$work/longer" --config "$work/longer.config"
grep -q "^steps=$((steps + 1))$" "$work/longer/options" || fail "--config is lost on --resume"
echo "lr = 0.123" >"$work/lr.config"
run 2 train --resume "$work/longer" --config "$work/lr.config"
err_has "in this run and cannot change any more"

# Mistakes are named with file and line.
refused() { # MESSAGE LINES
    printf "$2" >"$work/bad.config"
    run 2 train --config "$work/bad.config"
    err_has "bad.config, line $1"
}
refused "2: unknown option 'learning_rate'; zest calls it 'lr'" 'k = 2\nlearning_rate = 1\n'
refused "1: unknown option 'bacth'; did you mean 'batch'?" 'bacth = 2'
refused "3: option lr: 'fast' is not allowed" '# a\n\nlr = fast\n'
refused "1: option lr: '1e-3 # half' is not allowed; it takes a number >= 0 (default 1e-5); a comment must be on a line of its own" 'lr = 1e-3 # half\n'
refused "1: expected name = value, got 'lr'" 'lr\n'
refused "1: a config file cannot contain --config" 'config = x\n'
run 1 train --config "$work/nothing"
err_has "nothing: cannot be opened"
run 2 train --config "$work/train.config" --config "$work/train.config"
err_has "given twice"
printf 'lr = 1\0\n' >"$work/zero.config"
run 1 train --config "$work/zero.config"
err_has "zero byte"

# What goes to stdout: results that cannot be written are a failure, --json is one document and nothing else, and
# control characters of files do not reach a terminal.
. tests/cli/lib.sh
model=examples/roberta-tiny task=examples/reviews/reviews.task
small="--model $model --task $task --shots 4 --batch 4 --k 2 --lr 1e-4 --eval-every 2 --seed 21 --test-size 8"
sharp="--radii 0.1 --samples 2 --top 0 --trace-samples 0 --examples 4"
run 0 train $small --steps 2 --out "$work/run"
run 0 minimize --exec 'while read -r x; do echo 1; done' --dim 2 --steps 2 --out "$work/vector"

# Every command that prints: its output to a full disk is status 1 and a message, and with --json one document.
full() {
    "$ZEST" "$@" >/dev/full 2>"$work/err" </dev/null
    [ $? -eq 1 ] || fail "zest $* >/dev/full: not status 1"
    err_has "standard output cannot be written"
}
both() {
    [ -n "${SANITIZED:-}" ] || full "$@" # the slow half; what it tests does not depend on the build
    run 0 "$@" --json
    out_is_json
}
full --version
full --help
full train --help
full manual
both train --task list
both train $small --steps 1
both train $small --steps 1 --dry-run
both eval "$work/run"
full predict "$work/run" --split test
both info "$work/run"
both info "$work/vector"
both info tests/data/models/llama
both replay "$work/run" --step 1
both replay "$work/vector" --step 1
both report "$work/run" --out "$work/page.html"
both score $model --text "A lovely day."
both tokenize $model --text "A lovely day."
both sweep $small --steps 1 --lr 1e-4,1e-3 --dry-run
[ -n "${SANITIZED:-}" ] || both sharpness "$work/run" $sharp # as in tests/run.sh
[ -n "${SANITIZED:-}" ] || both sharpness "$work/run" $sharp --dry-run
both minimize --exec 'while read -r x; do echo 1; done' --dim 2 --steps 2
both theory
both toy stationary --seeds 1 --steps 2 --k 2
both bench noise
both bench gemm --shape opt-125m --batch 1 --tokens 4
both bench attention --shape opt-125m --batch 1 --tokens 4
# a bare zest shows help, which is wrong usage all the same
"$ZEST" >/dev/full 2>"$work/err"
[ $? -eq 2 ] || fail "zest >/dev/full: not status 2"

# A closed stdout does not become some file that the command opens; what needed it has failed.
"$ZEST" train $small --steps 1 --out "$work/closed" >&- 2>"$work/err" && fail "results to a closed stdout: status 0"
err_has "standard output cannot be written"
run 0 info "$work/closed"
# A reader that has seen enough is no failure worth a message.
"$ZEST" manual 2>"$work/err" | head -n 1 >/dev/null
[ -s "$work/err" ] && fail "a reader that left makes noise"

# Control characters: in messages always, in results on a terminal.
escape=$(printf '\033')
run 1 info "$work/no${escape}[31mfolder"
err_has 'no\x1b[31mfolder'
grep -q "$escape" "$work/err" && fail "an escape character in a message"
cp -r tests/data/models/llama "$work/evil"
sed -i 's/"model_type": "[a-z]*"/"model_type": "\\u001b]0;owned\\u0007 \\u009b31m"/' "$work/evil/config.json"
run 1 info "$work/evil"
err_has '\x1b]0;owned\x07 \u009b31m'
if script -qec true /dev/null >/dev/null 2>&1 </dev/null; then
    # the text of a file on a terminal, and the same into a pipe
    cp -r "$work/run" "$work/titled"
    sed -i 's/\("name": *"re\)\(views"\)/\1\\u001b[2J\2/' "$work/titled/log.jsonl" "$work/titled/inputs.json"
    script -qec "'$ZEST' info '$work/titled'" /dev/null >"$work/out" 2>"$work/err" </dev/null || fail "info on a terminal"
    out_has 'task       re\x1b[2Jviews:'
    run 0 info "$work/titled"
    out_has "re${escape}[2Jviews"
    script -qec "'$ZEST' score $model --text 'A ${escape}]0;lovely day.' --quiet" /dev/null >"$work/out" 2>"$work/err" </dev/null || fail "score on a terminal"
    out_has 'A \x1b]0;lovely'
    grep -q "$escape" "$work/out" && fail "an escape character on a terminal"
fi
:

# Help, the manual page and the option table say the same; exit codes are 0, 1 and 2.
. tests/cli/lib.sh
run 0 --help
sed -n 's/^  \([a-z]*\)  *[a-z].*/\1/p' "$work/out" | grep -v '^zest$' >"$work/commands"
for command in pull train eval predict sweep sharpness report pretrain minimize generate score tokenize toy theory replay info bench; do
    grep -qx $command "$work/commands" || fail "the overview lacks $command"
done
[ "$(head -n 4 "$work/commands" | tr '\n' ' ')" = "pull train eval predict " ] || fail "a newcomer's commands do not come first"
[ "$(awk 'length > 100' "$work/out" | wc -l)" -eq 0 ] || fail "the overview is wider than 100 columns"
cp "$work/out" "$work/overview"
run 0 help
same "$work/out" "$work/overview"
run 0 --version
out_has "zest $(sed -n 's/^#define ZEST_VERSION "\(.*\)"/\1/p' include/zest.h)"
cp "$work/out" "$work/version"
run 2
run 2 frobnicate
err_has "unknown command 'frobnicate'; zest --help lists the commands"
# What people type who come from another tool, or in a hurry.
suggests() { # WHAT ARGUMENTS...
    wanted=$1
    shift
    run 2 "$@"
    err_has "$wanted"
}
suggests "unknown command 'trian'; did you mean zest train?" trian
suggests "did you mean zest train?" finetune
suggests "did you mean zest predict?" predcit
suggests "did you mean zest bench?" help benhc
suggests "unknown option --learning-rate; zest calls it --lr" train --learning-rate 1e-3
suggests "unknown option --learning_rate; zest calls it --lr" train --learning_rate=1e-3
suggests "unknown option --batch_size; zest calls it --batch" train --batch_size 8
suggests "zest calls it --batch" train --per-device-train-batch-size 8
suggests "zest calls it --epochs" train --num-train-epochs 3
suggests "did you mean --epochs?" train --epoch 3
suggests "did you mean --weight-decay?" train --weight_decay 0.1
suggests "did you mean --lr?" train --LR 0.1
suggests "zest calls it --steps" train --max_steps 3
suggests "zest calls it --out" train --output-dir x
suggests "zest calls it --model" train --model-name-or-path x
suggests "zest calls it --rho" train --zo-eps 1e-3
suggests "zest calls it --rho" minimize --eps 1e-3
suggests "zest calls it --max-tokens" generate x --max-new-tokens 3
suggests "zest calls it --length" pretrain --max-length 3
suggests "unknown option -ngl; zest calls it --device cuda" generate x -ngl 99
suggests "unknown option -steps; did you mean --steps?" train -steps 3
suggests "did you mean --batch?" train --bacth 3
suggests "zest eval has no option --lr; train" eval x --lr 3
run 2 train --frobnicate
grep -qx "zest: unknown option --frobnicate" "$work/err" || fail "a name like no other has a suggestion"
# the default in a message is the command's, as help shows it
suggests "it takes a number >= 0 (default 1e-5)" train --lr abc
suggests "it takes a number >= 0 (default 0.01)" minimize --lr abc
run 2 minimize --rhoo 1
err_has "did you mean --rho?"
run 2 minimize --rho
err_has "needs a value"
run 2 minimize --t -1
err_has "sharp minima"
# more threads than OpenMP can start would end in a crash
run 2 minimize --exec true --dim 2 --threads 100000
err_has "0 to 1024"
run 2 bench
run 2 bench everything
run 2 info one two

# Environment variables: what the source reads stands in the table, which makes the help and the manual page.
run 0 help environment
[ "$(awk 'length > 100' "$work/out" | wc -l)" -eq 0 ] || fail "help on the environment is wider than 100 columns"
cp "$work/out" "$work/environment"
"$ZEST" manual | sed -n '/^\.SH ENVIRONMENT/,$p' | sed 's/\\f[BIR]/ /g' >"$work/environment.1"
grep -rhoE '(getenv|variable)\("[A-Z_]+"(, "[A-Z_]+")?' src cli | grep -oE '"[A-Z_]+"' | tr -d '"' | sort -u >"$work/read"
grep -qx HF_HOME "$work/read" || fail "getenv is not found in the source"
! grep '^ZEST_' "$work/read" || fail "variables of zest are read through base/environment.h, not by getenv"
sed -n 's/.*{"\(ZEST_[A-Z0-9_]*\)", .*/\1/p' src/base/environment.c >"$work/own"
grep -qx ZEST_CPU "$work/own" || fail "the table of variables is not found"
for name in $(grep -vxE 'HOME|TERM' "$work/read") $(cat "$work/own"); do
    grep -q "\b$name\b" "$work/environment" || fail "zest help environment lacks $name"
    grep -q "\b$name\b" "$work/environment.1" || fail "the manual page lacks $name"
    grep -q "\b$name\b" docs/command-line.md || fail "docs/command-line.md lacks $name"
done
# those of the test programs are documented beside them
for name in $(grep -rhoE 'getenv\("ZEST_[A-Z_]+"' tests | cut -d'"' -f2 | sort -u); do
    grep -q "\b$name\b" docs/command-line.md || fail "docs/command-line.md lacks $name"
done
# and no page names one that there is not
for name in $(grep -rhoE '\bZEST_(CUDA_[A-Z0-9]+|CPU|CUBLAS[A-Z]*)' docs/*.md README.md bench/RESULTS.md | sort -u); do
    grep -qx "$name" "$work/own" || fail "a page names $name, which zest does not read"
done

# Every option that a command's help shows stands in the manual page with the same words, and none is missing.
run 0 manual
sed 's/\\-/-/g; s/\\fB//g; s/\\fR//g; s/\\fI//g' "$work/out" | tr '\n' ' ' >"$work/manual"
while read -r command; do
    run 0 "$command" --help
    [ "$(awk '/^Examples:/ { exit } length > 100' "$work/out" | wc -l)" -eq 0 ] || fail "help on $command is wider than 100 columns"
    grep -q '^Examples:$' "$work/out" || fail "help on $command has no examples"
    tail -n 1 "$work/out" | grep -q '^      [^ ]' || fail "help on $command does not end with its examples"
    cp "$work/out" "$work/help"
    # help of its own is for options that it has
    for name in $(sed -n "/zest_command_$command = {/,/^};/p" cli/*.c | sed -n '/\.options =/,/\.defaults/p' | grep -o '"[a-z0-9-]*\\t' | sed 's/^"//; s/\\t$//'); do
        grep -q -e "--$name\b" "$work/help" || fail "$command explains --$name, which it does not have"
    done
    run 0 help "$command"
    same "$work/out" "$work/help"
    run 0 "$command" --version
    same "$work/out" "$work/version"
    grep -o -- '--[a-z][a-z-]*' "$work/help" | sort -u >"$work/options"
    [ -s "$work/options" ] || fail "$command shows no options"
    while read -r option; do
        grep -q -- "$option" "$work/manual" || fail "the manual page lacks $option of $command"
    done <"$work/options"
done <"$work/commands"
sed -n 's/^  X([A-Z_]*, "\([a-z-]*\)",.*/\1/p' src/base/option_table.h | while read -r name; do
    grep -q -- "--$name" "$work/manual" || fail "the manual page lacks --$name"
done
"$ZEST" manual | cmp -s - docs/zest.1 || fail "docs/zest.1 is old: run 'make docs/zest.1'"
if command -v man >/dev/null 2>&1; then
    man -l --warnings docs/zest.1 2>"$work/err" >/dev/null && [ ! -s "$work/err" ] || fail "man complains: $(cat "$work/err")"
fi

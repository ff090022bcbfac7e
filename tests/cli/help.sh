# Help, the manual page and the option table say the same; exit codes are 0, 1 and 2.
. tests/cli/lib.sh
run 0 --help
for command in train eval predict sweep sharpness report pretrain minimize generate score toy theory replay info bench; do
    out_has "  $command "
done
cp "$work/out" "$work/overview"
run 0 --version
out_has "zest $(sed -n 's/^#define ZEST_VERSION "\(.*\)"/\1/p' include/zest.h)"
run 2
run 2 frobnicate
err_has "no command is called 'frobnicate'"
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

# Every option that a command's help shows stands in the manual page with the same words, and none is missing.
run 0 manual
sed 's/\\-/-/g; s/\\fB//g; s/\\fR//g; s/\\fI//g' "$work/out" | tr '\n' ' ' >"$work/manual"
for command in train eval predict sweep sharpness report pretrain minimize generate score toy theory replay info bench; do
    run 0 "$command" --help
    grep -o -- '--[a-z][a-z-]*' "$work/out" | sort -u >"$work/options"
    [ -s "$work/options" ] || fail "$command shows no options"
    while read -r option; do
        grep -q -- "$option" "$work/manual" || fail "the manual page lacks $option of $command"
    done <"$work/options"
done
sed -n 's/^  X([A-Z_]*, "\([a-z-]*\)",.*/\1/p' src/base/option_table.h | while read -r name; do
    grep -q -- "--$name" "$work/manual" || fail "the manual page lacks --$name"
done
"$ZEST" manual | cmp -s - docs/zest.1 || fail "docs/zest.1 is old: run 'make docs/zest.1'"
if command -v man >/dev/null 2>&1; then
    man -l --warnings docs/zest.1 2>"$work/err" >/dev/null && [ ! -s "$work/err" ] || fail "man complains: $(cat "$work/err")"
fi
